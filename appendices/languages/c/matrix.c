/* Matrices in C: made, multiplied, read and printed. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transformer.h"

_Noreturn void stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

Matrix zeros(size_t rows, size_t columns)
{
    Matrix m = {rows, columns, calloc(rows * columns, sizeof(double))};
    if (m.entries == NULL)
        stop("out of memory");
    return m;
}

void release(Matrix m)
{
    free(m.entries);
}

double *row(Matrix m, size_t i)
{
    return m.entries + i * m.columns;
}

Matrix multiply(Matrix a, Matrix b)
{
    Matrix product = zeros(a.rows, b.columns);
    for (size_t i = 0; i < a.rows; i++)
        for (size_t k = 0; k < a.columns; k++)
            for (size_t c = 0; c < b.columns; c++)
                row(product, i)[c] += row(a, i)[k] * row(b, k)[c];
    return product;
}

/* Take the next number of the input; it must be within bounds. */
double read_number(const char *name, double low, double high, bool whole)
{
    char word[64], *end;
    if (scanf("%63s", word) != 1)
        stop("%s: the input ends too soon", name);
    const double number = strtod(word, &end);
    const bool complete = *end == '\0' && strlen(word) < sizeof word - 1;
    const bool within = number >= low && number <= high;  /* not for NaN */
    if (!complete || !within || (whole && number != floor(number)))
        stop("%s: '%s' is not a %s from %g to %g", name, word,
             whole ? "whole number" : "number", low, high);
    return number;
}

size_t read_size(const char *name)
{
    return (size_t)read_number(name, 1, 1000, true);
}

Matrix read_matrix(const char *name, size_t rows, size_t columns)
{
    Matrix m = zeros(rows, columns);
    for (size_t i = 0; i < rows * columns; i++)
        m.entries[i] = read_number(name, -1e30, 1e30, false);
    return m;
}

/* 1 where a query may attend to a key, 0 elsewhere. */
Matrix read_mask(size_t rows, size_t columns)
{
    Matrix m = zeros(rows, columns);
    for (size_t i = 0; i < rows * columns; i++)
        m.entries[i] = read_number("mask", 0, 1, true);
    return m;
}

bool more_input(void)
{
    int next;
    do
        next = getchar();
    while (isspace(next));
    return ungetc(next, stdin) != EOF;
}

void print_matrix(const char *title, Matrix m)
{
    puts(title);
    for (size_t i = 0; i < m.rows; i++)
        for (size_t c = 0; c < m.columns; c++)
            printf("%.17g%c", row(m, i)[c], c + 1 < m.columns ? ' ' : '\n');
}
