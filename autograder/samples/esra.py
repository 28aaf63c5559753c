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
