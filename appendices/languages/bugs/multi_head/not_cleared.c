Matrix zeros(size_t rows, size_t columns)
{
    Matrix m = {rows, columns, malloc(rows * columns * sizeof(double))};
    if (m.entries == NULL)
        stop("out of memory");
