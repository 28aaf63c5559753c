/* A pre-norm encoder block, in C11. */
#include <math.h>

#include "transformer.h"

static const double EPS = 1e-5;

/* Each row with mean 0 and variance 1, then scaled and shifted. */
static Matrix layer_norm(Matrix x, Norm norm)
{
    Matrix result = zeros(x.rows, x.columns);
    for (size_t i = 0; i < x.rows; i++) {
        double mean = 0.0, variance = 0.0;
        for (size_t c = 0; c < x.columns; c++)
            mean += row(x, i)[c] / (double)x.columns;
        for (size_t c = 0; c < x.columns; c++) {
            const double distance = row(x, i)[c] - mean;
            variance += distance * distance / (double)x.columns;
        }
        const double spread = sqrt(variance + EPS);
        for (size_t c = 0; c < x.columns; c++)
            row(result, i)[c] = (row(x, i)[c] - mean) / spread
                * norm.weight.entries[c] + norm.bias.entries[c];
    }
    return result;
}

static double gelu(double x)
{
    return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
}

static void add_to(Matrix x, Matrix change)
{
    for (size_t i = 0; i < x.rows * x.columns; i++)
        x.entries[i] += change.entries[i];
}

static void add_bias(Matrix x, Matrix bias)
{
    for (size_t i = 0; i < x.rows; i++)
        for (size_t c = 0; c < x.columns; c++)
            row(x, i)[c] += bias.entries[c];
}

/* Returns (n, d_model); in between there are d_ff columns. */
static Matrix feed_forward(Matrix x, Block block)
{
    Matrix hidden = multiply(x, block.W_1);
    add_bias(hidden, block.b_1);
    for (size_t i = 0; i < hidden.rows * hidden.columns; i++)
        hidden.entries[i] = gelu(hidden.entries[i]);
    Matrix result = multiply(hidden, block.W_2);
    add_bias(result, block.b_2);
    release(hidden);
    return result;
}

/* Returns (n, d_model): x, and what attention and the network add. */
Matrix encoder_block(Matrix x, Block block, Matrix mask)
{
    Matrix normed = layer_norm(x, block.norm_1);
    Matrix weights = zeros(block.heads.n_heads * x.rows, x.rows);
    Matrix stream = multi_head(normed, block.heads, mask, weights);
    add_to(stream, x);
    release(normed), release(weights);

    normed = layer_norm(stream, block.norm_2);
    Matrix change = feed_forward(normed, block);
    add_to(stream, change);
    release(normed), release(change);
    return stream;
}
