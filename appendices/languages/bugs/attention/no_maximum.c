        double total = 0.0;
        for (size_t j = 0; j < n_k; j++) {
            row[j] = exp(row[j]);
            total += row[j];
