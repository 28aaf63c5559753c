"""Answers that are wrong in ways the grader knows by name."""

ABOUT = "wrong in named ways: each mistake is one the feedback explains"
REFERENCES = "all"
CHAPTERS = ["dot_products", "softmax", "attention", "masks", "multi_head", "rope", "kv_cache"]


def dot(a, b):
    return float(sum(x * y for x, y in zip(a, b)))


def softmax(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def softmax_temperature(x, temperature):
    if temperature <= 0:
        raise ValueError("the temperature must be positive")
    z = np.asarray(x, dtype=float) * temperature
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def attention_weights(Q, K):
    scores = Q @ np.swapaxes(K, -1, -2)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


def causal_mask(n_q, n_k=None):
    n_k = n_q if n_k is None else n_k
    return np.tril(np.ones((n_q, n_k), dtype=bool))


def merge_heads(x):
    batch, n_heads, n, d_head = x.shape
    return x.reshape(batch, n, n_heads * d_head)


def apply_rope(x, positions, base=10000.0):
    angles = rope_angles(positions, x.shape[-1], base)
    cosine, sine = angles.cos(), angles.sin()
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2).to(x.dtype)


def repeat_kv(x, n_rep):
    return x.repeat(1, n_rep, 1, 1)
