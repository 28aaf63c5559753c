"""Correct answers to the attention chapter, written in other ways. All must get full marks."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from solutions.attention import attention_weights as _attention_weights


# project_qkv

def project_by_einsum(x, W_q, W_k, W_v):
    return tuple(np.einsum("...nd,de->...ne", x, W) for W in (W_q, W_k, W_v))


def project_in_one_product(x, W_q, W_k, W_v):
    """One wide product, cut apart again; returns a list."""
    wide = np.matmul(x, np.concatenate([W_q, W_k, W_v], axis=1))
    return np.split(wide, [W_q.shape[1], W_q.shape[1] + W_k.shape[1]], axis=-1)


def project_by_linear_layers(x, W_q, W_k, W_v):
    """A linear layer stores the transpose."""
    x = torch.tensor(x, dtype=torch.float64)
    return tuple(F.linear(x, torch.tensor(W.T, dtype=torch.float64)).numpy() for W in (W_q, W_k, W_v))


# attention_weights


def weights_by_logarithms(Q, K):
    """Scales the queries first, works in logarithms, takes the exponential last."""
    scores = np.matmul(Q / math.sqrt(Q.shape[-1]), K.swapaxes(-1, -2))
    top = scores.max(-1, keepdims=True)
    return np.exp(scores - top - np.log(np.exp(scores - top).sum(-1, keepdims=True)))


def weights_by_pairwise_gaps(Q, K):
    """No maximum: 1 / sum_j exp(s_j - s_i), where an overflow lands on the right limit."""
    scores = Q @ np.swapaxes(K, -1, -2) / K.shape[-1] ** 0.5
    return 1.0 / np.exp(scores[..., None, :] - scores[..., :, None]).sum(axis=-1)


def weights_turned_round(Q, K):
    """Both sides scaled by the fourth root, keys on the left, softmax down the columns, turned at the end."""
    root = Q.shape[-1] ** 0.25
    scores = (K / root) @ np.swapaxes(Q / root, -1, -2)
    e = np.exp(scores - scores.max(axis=-2, keepdims=True))
    return np.swapaxes(e / e.sum(axis=-2, keepdims=True), -1, -2)


def weights_by_fused_attention(Q, K):
    """With the identity for values, the output is the weights."""
    return attention_by_fused_attention(Q, K, np.eye(K.shape[-2]))[0]


# scaled_dot_product_attention

def attention_by_additive_bias(Q, K, V, mask=None):
    """The mask becomes a bias of 0 or minus infinity; rows of NaN are emptied afterwards."""
    scores = np.einsum("...qd,...kd->...qk", Q, K) / np.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores + np.where(mask, 0.0, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = np.nan_to_num(e / e.sum(axis=-1, keepdims=True))
    return np.matmul(weights, V), weights


def attention_by_zeroed_exponentials(Q, K, V, mask=None):
    """The maximum is taken over allowed keys only, forbidden exponentials are set to zero; returns a list."""
    scores = np.matmul(Q, np.moveaxis(K, -1, -2)) / math.sqrt(K.shape[-1])
    allowed = np.ones(scores.shape, dtype=bool) if mask is None else np.broadcast_to(
        mask, np.broadcast_shapes(np.shape(mask), scores.shape))
    scores = np.broadcast_to(scores, allowed.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=allowed, initial=-1e308)
    e = np.where(allowed, np.exp(np.where(allowed, scores - top, 0.0)), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return [weights @ V, weights]


def attention_without_a_copy_of_inputs(Q, K, V, mask=None):
    """Works in place on arrays of its own; repairs empty rows with `any`."""
    scores = (Q * 1.0) @ np.transpose(K, (*range(K.ndim - 2), K.ndim - 1, K.ndim - 2))
    scores /= Q.shape[-1] ** 0.5
    if mask is not None:
        shape = np.broadcast_shapes(scores.shape, mask.shape)
        scores = np.broadcast_to(scores, shape).copy()
        hidden = ~np.broadcast_to(mask, shape)
        scores[hidden] = -np.inf
        scores[hidden.all(axis=-1)] = 0.0
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    if mask is not None:
        scores[hidden.all(axis=-1)] = 0.0
    return np.einsum("...qk,...kv->...qv", scores, V), scores


def attention_by_torch(Q, K, V, mask=None, *, dtype=torch.float64):
    Q, K, V = (torch.as_tensor(array, dtype=dtype) for array in (Q, K, V))
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~torch.as_tensor(mask), -torch.inf)
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    return (weights @ V).numpy(), weights.numpy()


def attention_over_allowed_keys_only(Q, K, V, mask=None):
    """For each query by itself, a softmax of the keys that it may see."""
    leading = np.broadcast_shapes(Q.shape[:-2], K.shape[:-2], V.shape[:-2], np.shape(mask)[:-2])
    Q, K, V = (np.broadcast_to(array, leading + array.shape[-2:]) for array in (Q, K, V))
    weights = np.zeros(leading + (Q.shape[-2], K.shape[-2]))
    mask = np.broadcast_to(True if mask is None else mask, weights.shape)
    for where in np.ndindex(*weights.shape[:-1]):
        seen = np.flatnonzero(mask[where])
        if len(seen):
            weights[where][seen] = _attention_weights(Q[where][None], K[where[:-1]][seen])[0]
    return weights @ V, weights


def attention_by_fused_attention(Q, K, V, mask=None):
    leading = np.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
    eye = torch.eye(K.shape[-2], dtype=torch.float64)
    Q, K, V = (torch.tensor(array, dtype=torch.float64) for array in (Q, K, V))
    mask = None if mask is None else torch.tensor(mask)
    if mask is not None:
        leading = np.broadcast_shapes(leading, mask.shape[:-2])
    Q, K, eye = (array.expand(*leading, *array.shape[-2:]) for array in (Q, K, eye))
    weights = F.scaled_dot_product_attention(Q, K, eye, attn_mask=mask)
    return (weights @ V).numpy(), weights.numpy()


# self_attention

def self_attention_by_one_score_matrix(x, W_q, W_k, W_v, mask=None):
    """W_q W_k^T first: one bilinear form for the scores, and the values projected after the average."""
    form = W_q @ W_k.T / np.sqrt(W_q.shape[1])
    scores = x @ form @ np.swapaxes(x, -1, -2)
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    top = np.nan_to_num(scores.max(axis=-1, keepdims=True), neginf=0.0)
    e = np.exp(scores - top)
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    return weights @ x @ W_v, weights


def self_attention_by_torch(x, W_q, W_k, W_v, mask=None):
    return list(attention_by_torch(np.dot(x, W_q), np.dot(x, W_k), np.dot(x, W_v), mask))


# attention_backward

def _summed_to(gradient, shape):
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and gradient.shape[axis] != 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient


def backward_with_the_output(Q, K, V, d_output):
    """The row sum written as the output times its gradient, as fused kernels do."""
    scale = Q.shape[-1] ** -0.5
    weights = _attention_weights(Q, K)
    output = weights @ V
    d_scores = weights * (np.einsum("...qv,...kv->...qk", d_output, V)
                          - np.sum(output * d_output, axis=-1, keepdims=True)) * scale
    dQ = np.einsum("...qk,...kd->...qd", d_scores, K)
    dK = np.einsum("...qk,...qd->...kd", d_scores, Q)
    dV = np.einsum("...qk,...qv->...kv", weights, d_output)
    return [_summed_to(dQ, Q.shape), _summed_to(dK, K.shape), _summed_to(dV, V.shape)]


def backward_with_the_full_jacobian(Q, K, V, d_output):
    """One softmax Jacobian per query, diag(a) - a a^T, built in full."""
    weights = _attention_weights(Q, K)
    n_k = K.shape[-2]
    jacobian = weights[..., :, None] * (np.eye(n_k) - weights[..., None, :])
    d_weights = np.matmul(d_output, np.swapaxes(V, -1, -2))
    d_scores = np.einsum("...qjk,...qk->...qj", jacobian, d_weights) / np.sqrt(Q.shape[-1])
    return (_summed_to(np.matmul(d_scores, K), Q.shape),
            _summed_to(np.matmul(d_scores.swapaxes(-1, -2), Q), K.shape),
            _summed_to(np.matmul(weights.swapaxes(-1, -2), d_output), V.shape))


def backward_by_autograd(Q, K, V, d_output):
    Q, K, V = (torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in (Q, K, V))
    output = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1) @ V
    output.backward(torch.tensor(d_output))
    return Q.grad.numpy(), K.grad.numpy(), V.grad.numpy()


ALTERNATIVES = {
    "project_qkv": [project_by_linear_layers, project_by_einsum, project_in_one_product],
    "attention_weights": [weights_by_fused_attention, weights_by_logarithms, weights_by_pairwise_gaps,
                          weights_turned_round],
    "scaled_dot_product_attention": [attention_by_additive_bias, attention_by_zeroed_exponentials,
                                     attention_without_a_copy_of_inputs, attention_by_torch,
                                     attention_over_allowed_keys_only],
    "self_attention": [self_attention_by_one_score_matrix, self_attention_by_torch],
    "attention_backward": [backward_with_the_output, backward_with_the_full_jacobian],
}

# Right too, but PyTorch does the whole work, so they earn nothing in an answer.
PYTORCHS_OWN = {
    "scaled_dot_product_attention": [attention_by_fused_attention],
    "attention_backward": [backward_by_autograd],
}
