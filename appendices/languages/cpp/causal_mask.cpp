// The mask that hides the future, in C++17.
#include "transformer.hpp"

// Returns (n_q, n_k): 1 up to each query's own position, 0 after it.
// The last query has the position of the last key.
Matrix causal_mask(std::size_t n_q, std::size_t n_k) {
    Matrix mask(n_q, n_k);
    for (std::size_t i = 0; i < n_q; ++i)
        for (std::size_t j = 0; j < n_k; ++j)
            // Sums only: a size_t cannot go below 0.
            if (j + n_q <= i + n_k) mask(i, j) = 1.0;
    return mask;
}
