        double total = 0.0;
        for (size_t j = 0; j < K.rows; j++) {
            weight[j] = exp(weight[j]);
            total += weight[j];
