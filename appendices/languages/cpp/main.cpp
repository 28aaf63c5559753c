// Five programs in C++17: the first argument says which.
//
//     c++ -std=c++17 -O2 *.cpp -o transformer
//     ./transformer attention < problem.txt
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <stdexcept>

#include "transformer.hpp"

static void run_attention(bool causal) {
    const std::size_t n_q = read_size("n_q"), n_k = read_size("n_k");
    const std::size_t d_k = read_size("d_k"), d_v = read_size("d_v");
    const Matrix Q = read_matrix("Q", n_q, d_k);
    const Matrix K = read_matrix("K", n_k, d_k);
    const Matrix V = read_matrix("V", n_k, d_v);
    const auto [output, weights] = attend(
        Q, K, V, causal ? causal_mask(n_q, n_k) : read_mask(n_q, n_k));
    print("output", output);
    print("weights", weights);
}

// Within braces, unlike parentheses, C++ reads from left to right.
static MultiHead read_heads(std::size_t d_model, std::size_t n_heads) {
    if (d_model % n_heads != 0)
        throw std::runtime_error("n_heads: " + std::to_string(n_heads)
                                 + " does not divide "
                                 + std::to_string(d_model));
    return {n_heads, read_matrix("W_q", d_model, d_model),
            read_matrix("W_k", d_model, d_model),
            read_matrix("W_v", d_model, d_model),
            read_matrix("W_o", d_model, d_model)};
}

static LayerNorm read_norm(const std::string& name, std::size_t d_model) {
    return {read_matrix(name, 1, d_model), read_matrix(name, 1, d_model)};
}

static void run_multi_head() {
    const std::size_t n = read_size("n"), d_model = read_size("d_model");
    const std::size_t n_heads = read_size("n_heads");
    const Matrix x = read_matrix("x", n, d_model);
    const MultiHead heads = read_heads(d_model, n_heads);
    const auto [output, maps] = multi_head(x, heads, read_mask(n, n));
    print("output", output);
    for (const Matrix& weights : maps) print("weights", weights);
}

static void run_sinusoidal_encoding() {
    const std::size_t n = read_size("n"), d_model = read_size("d_model");
    if (d_model % 2 != 0)
        throw std::runtime_error("d_model: " + std::to_string(d_model)
                                 + " is odd");
    print("encoding", sinusoidal_encoding(n, d_model));
}

static void run_encoder_block() {
    const std::size_t n = read_size("n"), d_model = read_size("d_model");
    const std::size_t n_heads = read_size("n_heads");
    const std::size_t d_ff = read_size("d_ff");
    const Matrix x = read_matrix("x", n, d_model);
    const EncoderBlock block{
        read_norm("norm_1", d_model), read_heads(d_model, n_heads),
        read_norm("norm_2", d_model),
        FeedForward{read_matrix("W_1", d_model, d_ff),
                    read_matrix("b_1", 1, d_ff),
                    read_matrix("W_2", d_ff, d_model),
                    read_matrix("b_2", 1, d_model)}};
    print("output", encoder_block(x, block, read_mask(n, n)));
}

int main(int argc, char* argv[]) {
    const std::map<std::string, void (*)()> run = {
        {"attention", [] { run_attention(false); }},
        {"multi_head", run_multi_head},
        {"sinusoidal_encoding", run_sinusoidal_encoding},
        {"encoder_block", run_encoder_block},
        {"causal_mask", [] { run_attention(true); }},
    };
    const std::string name = argc == 2 ? argv[1] : "";
    std::cout.precision(std::numeric_limits<double>::max_digits10);
    try {
        const auto found = run.find(name);
        if (found == run.end())
            throw std::runtime_error("'" + name
                                     + "' is not the name of a program");
        do {
            found->second();
        } while (more_input());
    } catch (const std::exception& error) {
        std::cout.flush();
        std::cerr << error.what() << '\n';
        return EXIT_FAILURE;
    }
}
