/* Scaled dot-product attention with a mask, in C11. */
#include <math.h>
#include <string.h>

#include "transformer.h"

/* Fills output (n_q, d_v) and weights (n_q, n_k); both come as zeros. */
void attend(Matrix Q, Matrix K, Matrix V, Matrix mask,
            Matrix output, Matrix weights)
{
    const double root = sqrt((double)K.columns);
    for (size_t i = 0; i < Q.rows; i++) {
        double *weight = row(weights, i);
        /* 1. Scaled scores; minus infinity where the mask says no.
         * 2. Their maximum. A query with no key gets its zeros back. */
        double largest = -INFINITY;
        for (size_t j = 0; j < K.rows; j++) {
            double score = 0.0;
            for (size_t c = 0; c < K.columns; c++)
                score += row(Q, i)[c] * row(K, j)[c];
            weight[j] = row(mask, i)[j] ? score / root : -INFINITY;
            largest = fmax(largest, weight[j]);
        }
        if (largest == -INFINITY) {
            memset(weight, 0, K.rows * sizeof *weight);
            continue;
        }
        /* 3. Exponentials and their total. exp(-INFINITY) is 0. */
        double total = 0.0;
        for (size_t j = 0; j < K.rows; j++) {
            weight[j] = exp(weight[j] - largest);
            total += weight[j];
        }
        /* 4. Weights, and the blend of the values. */
        for (size_t j = 0; j < K.rows; j++) {
            weight[j] /= total;
            for (size_t c = 0; c < V.columns; c++)
                row(output, i)[c] += weight[j] * row(V, j)[c];
        }
    }
}
