    add_bias(hidden, network.b_1);
    for (auto number : hidden.entries)
        number = gelu(number);
