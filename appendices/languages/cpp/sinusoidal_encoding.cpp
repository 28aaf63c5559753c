// Sines and cosines that tell positions apart, in C++17.
#include <cmath>

#include "transformer.hpp"

// Returns (n, d_model): sines in even columns, cosines in odd ones.
Matrix sinusoidal_encoding(std::size_t n, std::size_t d_model) {
    Matrix table(n, d_model);
    for (std::size_t c = 0; c < d_model; c += 2) {
        // Divide as doubles, and change the sign after that.
        const double share = static_cast<double>(c) / d_model;
        const double frequency = std::pow(10000.0, -share);
        for (std::size_t position = 0; position < n; ++position) {
            table(position, c) = std::sin(position * frequency);
            table(position, c + 1) = std::cos(position * frequency);
        }
    }
    return table;
}
