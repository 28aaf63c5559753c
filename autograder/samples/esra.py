"""Answers that are wrong in ways the grader knows by name."""

ABOUT = "wrong in named ways: each mistake is one the feedback explains"
REFERENCES = "all"


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


def attention_multiply_adds(n_q, n_kv, d_model):
    return n_q * n_kv * d_model


def alibi_bias(n_heads, n):
    slopes = 2.0 ** (-8.0 * np.arange(n_heads) / n_heads)
    i, j = np.arange(n)[:, None], np.arange(n)
    return np.where(j > i, -np.inf, -slopes[:, None, None] * (i - j))
