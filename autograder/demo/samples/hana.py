"""Right answers that print, and warn on stderr: neither costs a point."""

ABOUT = "noisy but right: prints and warnings cost nothing"
REFERENCES = "all"
CHAPTERS = ["softmax"]


def softmax(x, axis=-1):
    import sys
    import warnings

    warnings.warn("subtracting the maximum")
    print("softmax of shape", np.shape(x))
    print("a line on stderr", file=sys.stderr)
    x = np.asarray(x, dtype=float)
    weights = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return weights / np.sum(weights, axis=axis, keepdims=True)
