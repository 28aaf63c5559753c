// Scaled dot-product attention with a mask, in C++17.
#include <algorithm>
#include <cmath>
#include <limits>

#include "transformer.hpp"

constexpr double infinity = std::numeric_limits<double>::infinity();

// Returns the output (n_q, d_v) and the weights (n_q, n_k).
Attended attend(const Matrix& Q, const Matrix& K, const Matrix& V,
                const Matrix& mask) {
    Attended result{Matrix(Q.rows, V.columns), Matrix(Q.rows, K.rows)};
    auto& [output, weights] = result;
    const double root = std::sqrt(static_cast<double>(K.columns));
    for (std::size_t i = 0; i < Q.rows; ++i) {
        // 1. Scaled scores; minus infinity where the mask says no.
        // 2. Their maximum. A query with no key keeps its zeros.
        std::vector<double> scores(K.rows, -infinity);
        double largest = -infinity;
        for (std::size_t j = 0; j < K.rows; ++j) {
            if (mask(i, j) == 0.0) continue;
            double score = 0.0;
            for (std::size_t c = 0; c < K.columns; ++c)
                score += Q(i, c) * K(j, c);
            scores[j] = score / root;
            largest = std::max(largest, scores[j]);
        }
        if (largest == -infinity) continue;
        // 3. Exponentials and their total. std::exp(-infinity) is 0.
        double total = 0.0;
        for (std::size_t j = 0; j < K.rows; ++j) {
            weights(i, j) = std::exp(scores[j] - largest);
            total += weights(i, j);
        }
        // 4. Weights, and the blend of the values.
        for (std::size_t j = 0; j < K.rows; ++j) {
            weights(i, j) /= total;
            for (std::size_t c = 0; c < V.columns; ++c)
                output(i, c) += weights(i, j) * V(j, c);
        }
    }
    return result;
}
