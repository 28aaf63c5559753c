// What the files in C++ share: a matrix, and what is done with it.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

// Rows of numbers in one block that frees itself.
struct Matrix {
    std::size_t rows = 0, columns = 0;
    std::vector<double> entries;

    Matrix() = default;
    Matrix(std::size_t rows, std::size_t columns)
        : rows(rows), columns(columns), entries(rows * columns) {}

    double& operator()(std::size_t i, std::size_t c) {
        return entries[i * columns + c];
    }
    double operator()(std::size_t i, std::size_t c) const {
        return entries[i * columns + c];
    }
};

// matrix.cpp
Matrix operator*(const Matrix& a, const Matrix& b);
Matrix& operator+=(Matrix& a, const Matrix& b);
std::size_t read_size(const std::string& name);
Matrix read_matrix(const std::string& name, std::size_t rows,
                   std::size_t columns);
Matrix read_mask(std::size_t rows, std::size_t columns);
bool more_input();
void print(const std::string& title, const Matrix& matrix);

// One function for each program.
struct Attended {
    Matrix output, weights;
};

struct MultiHead {
    std::size_t n_heads;
    Matrix W_q, W_k, W_v, W_o;
};

struct ManyAttended {
    Matrix output;
    std::vector<Matrix> weights;
};

struct LayerNorm {
    Matrix weight, bias;
};

struct FeedForward {
    Matrix W_1, b_1, W_2, b_2;
};

struct EncoderBlock {
    LayerNorm norm_1;
    MultiHead heads;
    LayerNorm norm_2;
    FeedForward network;
};

Attended attend(const Matrix& Q, const Matrix& K, const Matrix& V,
                const Matrix& mask);
ManyAttended multi_head(const Matrix& x, const MultiHead& heads,
                        const Matrix& mask);
Matrix sinusoidal_encoding(std::size_t n, std::size_t d_model);
Matrix encoder_block(Matrix x, const EncoderBlock& block,
                     const Matrix& mask);
Matrix causal_mask(std::size_t n_q, std::size_t n_k);
