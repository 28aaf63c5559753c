/* Multi-head attention, in C11. */
#include <string.h>

#include "transformer.h"

/* A copy of some columns: those of one head. */
static Matrix columns(Matrix m, size_t first, size_t count)
{
    Matrix copy = zeros(m.rows, count);
    for (size_t i = 0; i < m.rows; i++)
        memcpy(row(copy, i), row(m, i) + first, count * sizeof(double));
    return copy;
}

/* Returns (n, d_model). The weights come as zeros, n rows for each head. */
Matrix multi_head(Matrix x, Heads heads, Matrix mask, Matrix weights)
{
    const size_t d_head = x.columns / heads.n_heads;
    Matrix Q = multiply(x, heads.W_q);
    Matrix K = multiply(x, heads.W_k);
    Matrix V = multiply(x, heads.W_v);
    Matrix merged = zeros(x.rows, x.columns);
    for (size_t h = 0; h < heads.n_heads; h++) {
        const size_t first = h * d_head;
        Matrix q = columns(Q, first, d_head);
        Matrix k = columns(K, first, d_head);
        Matrix v = columns(V, first, d_head);
        Matrix output = zeros(x.rows, d_head);
        /* No copy: the rows of this head within the weights. */
        Matrix seen = {x.rows, x.rows, row(weights, h * x.rows)};
        attend(q, k, v, mask, output, seen);
        for (size_t i = 0; i < x.rows; i++)
            memcpy(row(merged, i) + first, row(output, i),
                   d_head * sizeof(double));
        release(q), release(k), release(v), release(output);
    }
    Matrix result = multiply(merged, heads.W_o);
    release(Q), release(K), release(V), release(merged);
    return result;
}
