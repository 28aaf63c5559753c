// Scaled dot-product attention with a mask, in C++17.
//
//     c++ -std=c++17 -O2 attention.cpp -o attention
//     ./attention < problem.txt
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Rows of numbers in one block that frees itself.
struct Matrix {
    std::size_t rows, columns;
    std::vector<double> entries;

    Matrix(std::size_t rows, std::size_t columns)
        : rows(rows), columns(columns), entries(rows * columns) {}

    double& operator()(std::size_t i, std::size_t c) {
        return entries[i * columns + c];
    }
    double operator()(std::size_t i, std::size_t c) const {
        return entries[i * columns + c];
    }
};

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Result {
    Matrix output, weights;
};

// The mask holds 1 where a query may attend to a key, and 0 elsewhere.
Result attend(const Matrix& Q, const Matrix& K, const Matrix& V,
              const Matrix& mask) {
    Result result{Matrix(Q.rows, V.columns), Matrix(Q.rows, K.rows)};
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

// Take the next number of the input; it must be within bounds.
double read(const std::string& name, double low, double high,
            bool whole = false) {
    std::string word;
    if (!(std::cin >> word))
        throw std::runtime_error(name + ": the input ends too soon");
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    const bool within = number >= low && number <= high;  // not for NaN
    const bool fits = !whole || number == std::floor(number);
    if (*end != '\0' || !within || !fits) {
        std::ostringstream message;
        message << name << ": '" << word << "' is no "
                << (whole ? "whole number" : "number") << " from " << low
                << " to " << high;
        throw std::runtime_error(message.str());
    }
    return number;
}

std::size_t read_size(const std::string& name) {
    return static_cast<std::size_t>(read(name, 1, 1000, true));
}

Matrix read_matrix(const std::string& name, std::size_t rows,
                   std::size_t columns) {
    Matrix matrix(rows, columns);
    for (double& entry : matrix.entries) entry = read(name, -1e150, 1e150);
    return matrix;
}

void print(const std::string& title, const Matrix& matrix) {
    std::cout << title << '\n';
    for (std::size_t i = 0; i < matrix.rows; ++i)
        for (std::size_t c = 0; c < matrix.columns; ++c)
            std::cout << matrix(i, c)
                      << (c + 1 < matrix.columns ? ' ' : '\n');
}

void solve() {
    const std::size_t n_q = read_size("n_q"), n_k = read_size("n_k");
    const std::size_t d_k = read_size("d_k"), d_v = read_size("d_v");
    const Matrix Q = read_matrix("Q", n_q, d_k);
    const Matrix K = read_matrix("K", n_k, d_k);
    const Matrix V = read_matrix("V", n_k, d_v);
    Matrix mask(n_q, n_k);
    for (double& entry : mask.entries) entry = read("mask", 0, 1, true);

    const auto [output, weights] = attend(Q, K, V, mask);
    print("output", output);
    print("weights", weights);
}

int main() {
    std::cout.precision(std::numeric_limits<double>::max_digits10);
    try {
        do {
            solve();
        } while ((std::cin >> std::ws).good());
    } catch (const std::exception& error) {
        std::cout.flush();
        std::cerr << "attention: " << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
