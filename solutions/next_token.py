"""Reference answers of the chapter on the loss of a language model, in NumPy.

Inputs are never changed. Sizes that do not fit raise ValueError. Source: Bengio et al., 2003.
"""

import numpy as np


def next_token_loss(logits: np.ndarray, tokens: np.ndarray) -> float:
    """Mean cross-entropy, in nats, of predicting tokens[:, 1:] from logits[:, :-1].

    logits: (batch, n, vocab), any magnitude; tokens: (batch, n) whole numbers from 0 to vocab - 1
    raises: ValueError if the shapes do not fit, if there is nothing to predict, or if an id is not in the vocabulary
    """
    logits, tokens = np.asarray(logits), np.asarray(tokens)
    if logits.shape[:-1] != tokens.shape:
        raise ValueError(f"logits of shape {logits.shape} do not fit tokens of shape {tokens.shape}")
    if tokens[..., 1:].size == 0:
        raise ValueError(f"tokens of shape {tokens.shape} leave nothing to predict: at least two are needed")
    vocab = logits.shape[-1]
    if np.any(tokens < 0) or np.any(tokens >= vocab):
        raise ValueError(f"token ids must be between 0 and {vocab - 1}, got {tokens.min()} to {tokens.max()}")
    guesses, targets = logits[..., :-1, :], tokens[..., 1:, None]
    guesses = guesses - guesses.max(axis=-1, keepdims=True)
    log_total = np.log(np.exp(guesses).sum(axis=-1, keepdims=True))
    return float((log_total - np.take_along_axis(guesses, targets, axis=-1)).mean())


def masked_next_token_loss(logits: np.ndarray, tokens: np.ndarray, loss_mask: np.ndarray) -> float:
    """Mean cross-entropy, in nats, of predicting those tokens that count.

    logits: (batch, n, vocab), any magnitude; tokens: (batch, n) ids, also where nothing counts
    loss_mask: (batch, n) truth values, whether a token counts as one to be predicted; the first of a row never does
    returns: the mean over all counted tokens of the batch together; 0.0 if none counts
    """
    logits, tokens, loss_mask = np.asarray(logits), np.asarray(tokens), np.asarray(loss_mask)
    if not logits.shape[:-1] == tokens.shape == loss_mask.shape:
        raise ValueError(f"shapes {logits.shape}, {tokens.shape} and {loss_mask.shape} do not fit together")
    guesses, targets, counted = logits[..., :-1, :], tokens[..., 1:, None], loss_mask[..., 1:]
    guesses = guesses - guesses.max(axis=-1, keepdims=True)
    log_total = np.log(np.exp(guesses).sum(axis=-1, keepdims=True))
    losses = (log_total - np.take_along_axis(guesses, targets, axis=-1))[..., 0]
    return float(losses[counted].mean()) if counted.any() else 0.0
