    for (size_t c = 0; c < d_model; c += 2) {
        const double share = c / d_model;
        const double frequency = pow(10000.0, -share);
