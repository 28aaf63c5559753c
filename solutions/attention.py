"""Reference answers of the attention chapter: scaled dot-product attention, forward and backward, in NumPy.

Shapes follow the course: Q (..., n_q, d_k), K (..., n_k, d_k), V (..., n_k, d_v), leading dimensions broadcast;
a mask is boolean and True means that the query may attend to the key. Inputs are never changed. Sizes that do not
fit raise ValueError. Source: Vaswani et al., 2017, section 3.2.1.
"""

import numpy as np


def project_qkv(
    x: np.ndarray, W_q: np.ndarray, W_k: np.ndarray, W_v: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three linear maps of the same tokens; each matrix is (width of x, its own width)."""
    for name, W in {"W_q": W_q, "W_k": W_k, "W_v": W_v}.items():
        if W.ndim != 2 or W.shape[0] != x.shape[-1]:
            raise ValueError(f"{name} has shape {W.shape}, but x of width {x.shape[-1]} needs ({x.shape[-1]}, ...)")
    return x @ W_q, x @ W_k, x @ W_v


def attention_weights(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Softmax over the keys of the scaled scores, (..., n_q, n_k)."""
    d_k = Q.shape[-1]
    if K.shape[-1] != d_k:
        raise ValueError(f"queries have width {d_k}, keys have width {K.shape[-1]}")
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(d_k)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def scaled_dot_product_attention(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Output (..., n_q, d_v) and weights (..., n_q, n_k); a query with no key allowed gets zeros in both."""
    d_k = Q.shape[-1]
    if K.shape[-1] != d_k:
        raise ValueError(f"queries have width {d_k}, keys have width {K.shape[-1]}")
    if V.shape[-2] != K.shape[-2]:
        raise ValueError(f"{K.shape[-2]} keys, but {V.shape[-2]} values")
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(d_k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    # An empty row has maximum -inf and total 0. Replacing them by 0 and 1 leaves zeros and never meets -inf - -inf.
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    exponentials = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = exponentials.sum(axis=-1, keepdims=True)
    weights = exponentials / np.where(total == 0.0, 1.0, total)
    return weights @ V, weights


def self_attention(
    x: np.ndarray, W_q: np.ndarray, W_k: np.ndarray, W_v: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Attention of a sequence to itself: queries, keys and values all come from x."""
    Q, K, V = project_qkv(x, W_q, W_k, W_v)
    return scaled_dot_product_attention(Q, K, V, mask)


def attention_backward(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of sum(output * d_output) with respect to Q, K and V, in the shapes of Q, K and V."""
    weights = attention_weights(Q, K)
    d_weights = d_output @ np.swapaxes(V, -1, -2)
    row_sums = (d_weights * weights).sum(axis=-1, keepdims=True)
    d_scores = weights * (d_weights - row_sums) / np.sqrt(Q.shape[-1])
    gradients = (d_scores @ K, np.swapaxes(d_scores, -1, -2) @ Q, np.swapaxes(weights, -1, -2) @ d_output)

    def in_shape_of(array, gradient):
        """Sum over the leading dimensions along which `array` was broadcast."""
        gradient = gradient.sum(axis=tuple(range(gradient.ndim - array.ndim)))
        repeated = tuple(axis for axis in range(array.ndim) if array.shape[axis] < gradient.shape[axis])
        return gradient.sum(axis=repeated, keepdims=True)

    return tuple(in_shape_of(array, gradient) for array, gradient in zip((Q, K, V), gradients))
