/* What the files in C share: a matrix, and what is done with it. */
#ifndef TRANSFORMER_H
#define TRANSFORMER_H

#include <stdbool.h>
#include <stddef.h>

/* One block, row after row: entry (i, c) is entries[i * columns + c].
 * The function that asks for a matrix also releases it. */
typedef struct {
    size_t rows, columns;
    double *entries;
} Matrix;

/* matrix.c */
Matrix zeros(size_t rows, size_t columns);
void release(Matrix m);
double *row(Matrix m, size_t i);
Matrix multiply(Matrix a, Matrix b);
double read_number(const char *name, double low, double high, bool whole);
size_t read_size(const char *name);
Matrix read_matrix(const char *name, size_t rows, size_t columns);
Matrix read_mask(size_t rows, size_t columns);
bool more_input(void);
void print_matrix(const char *title, Matrix m);
_Noreturn void stop(const char *format, ...);

/* One function for each program. */
typedef struct {
    size_t n_heads;
    Matrix W_q, W_k, W_v, W_o;
} Heads;

typedef struct {
    Matrix weight, bias;
} Norm;

typedef struct {
    Norm norm_1, norm_2;
    Heads heads;
    Matrix W_1, b_1, W_2, b_2;
} Block;

void attend(Matrix Q, Matrix K, Matrix V, Matrix mask,
            Matrix output, Matrix weights);
Matrix multi_head(Matrix x, Heads heads, Matrix mask, Matrix weights);
Matrix sinusoidal_encoding(size_t n, size_t d_model);
Matrix encoder_block(Matrix x, Block block, Matrix mask);
Matrix causal_mask(size_t n_q, size_t n_k);

#endif
