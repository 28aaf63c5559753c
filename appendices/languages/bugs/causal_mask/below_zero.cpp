        for (std::size_t j = 0; j < n_k; ++j)
            if (j <= i + n_k - n_q) mask(i, j) = 1.0;
    return mask;
