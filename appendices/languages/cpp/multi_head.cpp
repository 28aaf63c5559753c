// Multi-head attention, in C++17.
#include <utility>

#include "transformer.hpp"

// A copy of some columns: those of one head.
static Matrix columns(const Matrix& m, std::size_t first,
                      std::size_t count) {
    Matrix copy(m.rows, count);
    for (std::size_t i = 0; i < m.rows; ++i)
        for (std::size_t c = 0; c < count; ++c)
            copy(i, c) = m(i, first + c);
    return copy;
}

// Returns the output (n, d_model) and a map of weights for each head.
ManyAttended multi_head(const Matrix& x, const MultiHead& heads,
                        const Matrix& mask) {
    const Matrix Q = x * heads.W_q, K = x * heads.W_k, V = x * heads.W_v;
    const std::size_t d_head = x.columns / heads.n_heads;
    Matrix merged(x.rows, x.columns);
    std::vector<Matrix> maps;
    for (std::size_t h = 0; h < heads.n_heads; ++h) {
        const std::size_t first = h * d_head;
        auto [output, weights] =
            attend(columns(Q, first, d_head), columns(K, first, d_head),
                   columns(V, first, d_head), mask);
        for (std::size_t i = 0; i < x.rows; ++i)
            for (std::size_t c = 0; c < d_head; ++c)
                merged(i, first + c) = output(i, c);
        maps.push_back(std::move(weights));
    }
    return {merged * heads.W_o, std::move(maps)};
}
