/* The mask that hides the future, in C11. */
#include "transformer.h"

/* Returns (n_q, n_k): 1 up to each query's own position, 0 after it.
 * The last query has the position of the last key. */
Matrix causal_mask(size_t n_q, size_t n_k)
{
    Matrix mask = zeros(n_q, n_k);
    for (size_t i = 0; i < n_q; i++)
        for (size_t j = 0; j < n_k; j++)
            /* Sums only: a size_t cannot go below 0. */
            row(mask, i)[j] = j + n_q <= i + n_k;
    return mask;
}
