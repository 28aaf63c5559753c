// Matrices in C++: multiplied, added, read and printed.
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "transformer.hpp"

Matrix operator*(const Matrix& a, const Matrix& b) {
    Matrix product(a.rows, b.columns);
    for (std::size_t i = 0; i < a.rows; ++i)
        for (std::size_t k = 0; k < a.columns; ++k)
            for (std::size_t c = 0; c < b.columns; ++c)
                product(i, c) += a(i, k) * b(k, c);
    return product;
}

Matrix& operator+=(Matrix& a, const Matrix& b) {
    for (std::size_t i = 0; i < a.entries.size(); ++i)
        a.entries[i] += b.entries[i];
    return a;
}

// Take the next number of the input; it must be within bounds.
static double read(const std::string& name, double low, double high,
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
        message << name << ": '" << word << "' is not a "
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
    for (double& entry : matrix.entries) entry = read(name, -1e30, 1e30);
    return matrix;
}

// 1 where a query may attend to a key, 0 elsewhere.
Matrix read_mask(std::size_t rows, std::size_t columns) {
    Matrix mask(rows, columns);
    for (double& entry : mask.entries) entry = read("mask", 0, 1, true);
    return mask;
}

bool more_input() { return (std::cin >> std::ws).good(); }

void print(const std::string& title, const Matrix& matrix) {
    std::cout << title << '\n';
    for (std::size_t i = 0; i < matrix.rows; ++i)
        for (std::size_t c = 0; c < matrix.columns; ++c)
            std::cout << matrix(i, c)
                      << (c + 1 < matrix.columns ? ' ' : '\n');
}
