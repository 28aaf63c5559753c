    for (std::size_t c = 0; c < d_model; c += 2) {
        const double exponent = -c / static_cast<double>(d_model);
        const double frequency = std::pow(10000.0, exponent);
        for (std::size_t position = 0; position < n; ++position) {
