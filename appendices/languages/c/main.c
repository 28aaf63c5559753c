/* Five programs in C11: the first argument says which.
 *
 *     cc -std=c11 -O2 *.c -lm -o transformer
 *     ./transformer attention < problem.txt
 */
#include <stdlib.h>
#include <string.h>

#include "transformer.h"

static void run_attention(bool causal)
{
    const size_t n_q = read_size("n_q"), n_k = read_size("n_k");
    const size_t d_k = read_size("d_k"), d_v = read_size("d_v");
    Matrix Q = read_matrix("Q", n_q, d_k);
    Matrix K = read_matrix("K", n_k, d_k);
    Matrix V = read_matrix("V", n_k, d_v);
    Matrix mask = causal ? causal_mask(n_q, n_k) : read_mask(n_q, n_k);
    Matrix output = zeros(n_q, d_v), weights = zeros(n_q, n_k);
    attend(Q, K, V, mask, output, weights);
    print_matrix("output", output);
    print_matrix("weights", weights);
    release(Q), release(K), release(V), release(mask);
    release(output), release(weights);
}

/* Statements, since C does not fix the order within an initializer. */
static Heads read_heads(size_t d_model, size_t n_heads)
{
    Heads heads = {.n_heads = n_heads};
    if (d_model % n_heads != 0)
        stop("n_heads: %zu does not divide %zu", n_heads, d_model);
    heads.W_q = read_matrix("W_q", d_model, d_model);
    heads.W_k = read_matrix("W_k", d_model, d_model);
    heads.W_v = read_matrix("W_v", d_model, d_model);
    heads.W_o = read_matrix("W_o", d_model, d_model);
    return heads;
}

static void release_heads(Heads heads)
{
    release(heads.W_q), release(heads.W_k);
    release(heads.W_v), release(heads.W_o);
}

static Norm read_norm(const char *name, size_t d_model)
{
    Norm norm;
    norm.weight = read_matrix(name, 1, d_model);
    norm.bias = read_matrix(name, 1, d_model);
    return norm;
}

static void run_multi_head(void)
{
    const size_t n = read_size("n"), d_model = read_size("d_model");
    const size_t n_heads = read_size("n_heads");
    Matrix x = read_matrix("x", n, d_model);
    Heads heads = read_heads(d_model, n_heads);
    Matrix mask = read_mask(n, n), weights = zeros(n_heads * n, n);
    Matrix output = multi_head(x, heads, mask, weights);
    print_matrix("output", output);
    for (size_t h = 0; h < n_heads; h++)
        print_matrix("weights", (Matrix){n, n, row(weights, h * n)});
    release(x), release(mask), release(weights), release(output);
    release_heads(heads);
}

static void run_sinusoidal_encoding(void)
{
    const size_t n = read_size("n"), d_model = read_size("d_model");
    if (d_model % 2 != 0)
        stop("d_model: %zu is odd", d_model);
    Matrix encoding = sinusoidal_encoding(n, d_model);
    print_matrix("encoding", encoding);
    release(encoding);
}

static void run_encoder_block(void)
{
    const size_t n = read_size("n"), d_model = read_size("d_model");
    const size_t n_heads = read_size("n_heads"), d_ff = read_size("d_ff");
    Matrix x = read_matrix("x", n, d_model);
    Block block;
    block.norm_1 = read_norm("norm_1", d_model);
    block.heads = read_heads(d_model, n_heads);
    block.norm_2 = read_norm("norm_2", d_model);
    block.W_1 = read_matrix("W_1", d_model, d_ff);
    block.b_1 = read_matrix("b_1", 1, d_ff);
    block.W_2 = read_matrix("W_2", d_ff, d_model);
    block.b_2 = read_matrix("b_2", 1, d_model);
    Matrix mask = read_mask(n, n);
    Matrix output = encoder_block(x, block, mask);
    print_matrix("output", output);
    release(x), release(mask), release(output);
    release_heads(block.heads);
    release(block.norm_1.weight), release(block.norm_1.bias);
    release(block.norm_2.weight), release(block.norm_2.bias);
    release(block.W_1), release(block.b_1);
    release(block.W_2), release(block.b_2);
}

int main(int argc, char *argv[])
{
    const char *name = argc == 2 ? argv[1] : "";
    do {
        if (strcmp(name, "attention") == 0)
            run_attention(false);
        else if (strcmp(name, "multi_head") == 0)
            run_multi_head();
        else if (strcmp(name, "sinusoidal_encoding") == 0)
            run_sinusoidal_encoding();
        else if (strcmp(name, "encoder_block") == 0)
            run_encoder_block();
        else if (strcmp(name, "causal_mask") == 0)
            run_attention(true);
        else
            stop("'%s' is not the name of a program", name);
    } while (more_input());
    return EXIT_SUCCESS;
}
