// A pre-norm encoder block, in C++17.
#include <cmath>

#include "transformer.hpp"

// Each row with mean 0 and variance 1, then scaled and shifted.
static Matrix layer_norm(const Matrix& x, const LayerNorm& norm) {
    constexpr double eps = 1e-5;
    Matrix result(x.rows, x.columns);
    for (std::size_t i = 0; i < x.rows; ++i) {
        double mean = 0.0, variance = 0.0;
        for (std::size_t c = 0; c < x.columns; ++c)
            mean += x(i, c) / x.columns;
        for (std::size_t c = 0; c < x.columns; ++c) {
            const double distance = x(i, c) - mean;
            variance += distance * distance / x.columns;
        }
        const double spread = std::sqrt(variance + eps);
        for (std::size_t c = 0; c < x.columns; ++c)
            result(i, c) = (x(i, c) - mean) / spread * norm.weight(0, c)
                           + norm.bias(0, c);
    }
    return result;
}

static double gelu(double x) {
    return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
}

static void add_bias(Matrix& x, const Matrix& bias) {
    for (std::size_t i = 0; i < x.rows; ++i)
        for (std::size_t c = 0; c < x.columns; ++c) x(i, c) += bias(0, c);
}

// (n, d_model) to (n, d_ff), GELU, and back.
static Matrix feed_forward(const Matrix& x, const FeedForward& network) {
    Matrix hidden = x * network.W_1;
    add_bias(hidden, network.b_1);
    for (double& number : hidden.entries)
        number = gelu(number);
    Matrix result = hidden * network.W_2;
    add_bias(result, network.b_2);
    return result;
}

// x is a copy, so adding to it does not change the caller's matrix.
Matrix encoder_block(Matrix x, const EncoderBlock& block,
                     const Matrix& mask) {
    x += multi_head(layer_norm(x, block.norm_1), block.heads, mask).output;
    x += feed_forward(layer_norm(x, block.norm_2), block.network);
    return x;
}
