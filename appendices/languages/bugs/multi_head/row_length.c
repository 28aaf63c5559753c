    for (size_t i = 0; i < m.rows; i++)
        memcpy(row(copy, i), m.entries + i * count + first,
               count * sizeof(double));
    return copy;
