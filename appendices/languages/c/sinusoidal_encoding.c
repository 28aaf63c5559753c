/* Sines and cosines that tell positions apart, in C11. */
#include <math.h>

#include "transformer.h"

/* Returns (n, d_model): sines in even columns, cosines in odd ones. */
Matrix sinusoidal_encoding(size_t n, size_t d_model)
{
    Matrix table = zeros(n, d_model);
    for (size_t c = 0; c < d_model; c += 2) {
        /* Divide as doubles: 2 / 4 is 0, and -c is a huge size_t. */
        const double share = (double)c / (double)d_model;
        const double frequency = pow(10000.0, -share);
        for (size_t position = 0; position < n; position++) {
            const double angle = (double)position * frequency;
            row(table, position)[c] = sin(angle);
            row(table, position)[c + 1] = cos(angle);
        }
    }
    return table;
}
