def causal_mask(n_q, n_k):
    mask = [[False] * n_k] * n_q
    for i in range(n_q):
