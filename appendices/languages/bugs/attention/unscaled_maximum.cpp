        double largest = -infinity;
        for (std::size_t j = 0; j < K.rows; ++j) {
            if (mask(i, j) == 0.0) continue;
            double score = 0.0;
            for (std::size_t c = 0; c < K.columns; ++c)
                score += Q(i, c) * K(j, c);
            largest = std::max(largest, score);
            scores[j] = score / root;
        }
        if (largest == -infinity) continue;
        double total = 0.0;
        for (std::size_t j = 0; j < K.rows; ++j) {
            weights(i, j) = std::exp(scores[j] - largest);
