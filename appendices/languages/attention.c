/* Scaled dot-product attention with a mask, in C11.
 *
 *     cc -std=c11 -O2 attention.c -lm -o attention
 *     ./attention < problem.txt
 */
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A matrix is one block, row after row: entry (i, c) of a matrix with
 * d columns is at i * d + c. Output and weights come in as zeros. */
static void attend(size_t n_q, size_t n_k, size_t d_k, size_t d_v,
                   const double *Q, const double *K, const double *V,
                   const bool *mask, double *output, double *weights)
{
    const double root = sqrt((double)d_k);
    for (size_t i = 0; i < n_q; i++) {
        double *row = weights + i * n_k;
        double *blend = output + i * d_v;
        /* 1. Scaled scores; minus infinity where the mask says no.
         * 2. Their maximum. A query with no key gets its zeros back. */
        double largest = -INFINITY;
        for (size_t j = 0; j < n_k; j++) {
            double score = 0.0;
            for (size_t c = 0; c < d_k; c++)
                score += Q[i * d_k + c] * K[j * d_k + c];
            row[j] = mask[i * n_k + j] ? score / root : -INFINITY;
            largest = fmax(largest, row[j]);
        }
        if (largest == -INFINITY) {
            memset(row, 0, n_k * sizeof *row);
            continue;
        }
        /* 3. Exponentials and their total. exp(-INFINITY) is 0. */
        double total = 0.0;
        for (size_t j = 0; j < n_k; j++) {
            row[j] = exp(row[j] - largest);
            total += row[j];
        }
        /* 4. Weights, and the blend of the values. */
        for (size_t j = 0; j < n_k; j++) {
            row[j] /= total;
            for (size_t c = 0; c < d_v; c++)
                blend[c] += row[j] * V[j * d_v + c];
        }
    }
}

/* Take the next number of the input; it must be within bounds. */
static double read_number(const char *name, double low, double high,
                          bool whole)
{
    char word[64], *end;
    if (scanf("%63s", word) != 1) {
        fprintf(stderr, "attention: %s: the input ends too soon\n", name);
        exit(EXIT_FAILURE);
    }
    const double number = strtod(word, &end);
    const bool complete = *end == '\0' && strlen(word) < sizeof word - 1;
    const bool within = number >= low && number <= high;  /* not for NaN */
    if (!complete || !within || (whole && number != floor(number))) {
        fprintf(stderr, "attention: %s: '%s' is no %s from %g to %g\n",
                name, word, whole ? "whole number" : "number", low, high);
        exit(EXIT_FAILURE);
    }
    return number;
}

static size_t read_size(const char *name)
{
    return (size_t)read_number(name, 1, 1000, true);
}

/* Zeros, or the end of the program. The caller frees them. */
static void *zeros(size_t count, size_t size)
{
    void *block = calloc(count, size);
    if (block == NULL) {
        fprintf(stderr, "attention: out of memory\n");
        exit(EXIT_FAILURE);
    }
    return block;
}

static double *read_matrix(const char *name, size_t rows, size_t columns)
{
    double *matrix = zeros(rows * columns, sizeof *matrix);
    for (size_t i = 0; i < rows * columns; i++)
        matrix[i] = read_number(name, -1e150, 1e150, false);
    return matrix;
}

static void print_matrix(const char *title, const double *matrix,
                         size_t rows, size_t columns)
{
    puts(title);
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < columns; c++)
            printf("%.17g%c", matrix[i * columns + c],
                   c + 1 < columns ? ' ' : '\n');
}

static bool more_input(void)
{
    int next;
    do
        next = getchar();
    while (isspace(next));
    return ungetc(next, stdin) != EOF;
}

int main(void)
{
    do {
        const size_t n_q = read_size("n_q");
        const size_t n_k = read_size("n_k");
        const size_t d_k = read_size("d_k");
        const size_t d_v = read_size("d_v");
        double *Q = read_matrix("Q", n_q, d_k);
        double *K = read_matrix("K", n_k, d_k);
        double *V = read_matrix("V", n_k, d_v);
        bool *mask = zeros(n_q * n_k, sizeof *mask);
        for (size_t i = 0; i < n_q * n_k; i++)
            mask[i] = read_number("mask", 0, 1, true) == 1;

        double *output = zeros(n_q * d_v, sizeof *output);
        double *weights = zeros(n_q * n_k, sizeof *weights);
        attend(n_q, n_k, d_k, d_v, Q, K, V, mask, output, weights);
        print_matrix("output", output, n_q, d_v);
        print_matrix("weights", weights, n_q, n_k);

        free(Q), free(K), free(V), free(mask), free(output), free(weights);
    } while (more_input());
    return EXIT_SUCCESS;
}
