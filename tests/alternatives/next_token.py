"""Right answers to the chapter on the loss of a language model, each found in another way than the reference."""

import math

import numpy as np
import torch
import torch.nn.functional as F

# next_token_loss

def _refuse(logits, tokens):
    if logits.ndim != tokens.ndim + 1 or logits.shape[:2] != tokens.shape or len(tokens[0]) < 2:
        raise ValueError("shapes")
    if not ((0 <= tokens) & (tokens < logits.shape[2])).all():
        raise ValueError("ids")


def loss_by_torch(logits, tokens):
    _refuse(logits, tokens)
    logits = torch.tensor(logits, dtype=torch.float64)[:, :-1]
    targets = torch.tensor(tokens, dtype=torch.int64)[:, 1:]
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()


def loss_guess_by_guess(logits, tokens):
    _refuse(logits, tokens)
    losses = []
    for sentence, row in zip(logits, tokens):
        for guess, target in zip(sentence[:-1], row[1:]):
            top = max(guess)
            losses.append(top + math.log(sum(math.exp(x - top) for x in guess)) - guess[target])
    return sum(losses) / len(losses)


def loss_by_logaddexp(logits, tokens):
    _refuse(logits, tokens)
    batch, n = np.indices((tokens.shape[0], tokens.shape[1] - 1))
    return np.mean(np.logaddexp.reduce(logits, axis=-1)[:, :-1] - logits[batch, n, tokens[:, 1:]])


def loss_that_checks_what_it_uses(logits, tokens):
    """The first token is not a target, so nothing ever looks at it."""
    if logits.shape[:-1] != tokens.shape:
        raise ValueError("shapes")
    targets, vocab = tokens[:, 1:].reshape(-1), logits.shape[-1]
    if len(targets) == 0 or set(targets.tolist()) - set(range(vocab)):
        raise ValueError("targets")
    logs = torch.log_softmax(torch.tensor(logits, dtype=torch.float64)[:, :-1].reshape(-1, vocab), dim=-1)
    return float(-logs.numpy()[np.arange(len(targets)), targets].mean())


# masked_next_token_loss

def masked_by_ignore_index(logits, tokens, loss_mask):
    targets = torch.tensor(np.where(loss_mask, tokens, -100)[:, 1:].reshape(-1))
    if not (targets >= 0).any():
        return 0.0
    guesses = torch.tensor(logits, dtype=torch.float64)[:, :-1].flatten(0, 1)
    return F.cross_entropy(guesses, targets, ignore_index=-100).item()


def masked_guess_by_guess(logits, tokens, loss_mask):
    losses = []
    for b, t in zip(*np.nonzero(loss_mask)):
        if t > 0:
            guess = logits[b, t - 1] - max(logits[b, t - 1])
            losses.append(math.log(sum(map(math.exp, guess))) - guess[tokens[b, t]])
    return sum(losses) / max(len(losses), 1)


def masked_by_logaddexp(logits, tokens, loss_mask):
    batch, n = np.nonzero(np.asarray(loss_mask)[:, 1:])
    if len(batch) == 0:
        return np.float64(0)
    totals = np.logaddexp.reduce(logits[batch, n], axis=-1)
    return np.mean(totals - logits[batch, n, tokens[batch, n + 1]])


ALTERNATIVES = {
    "next_token_loss": [loss_by_torch, loss_guess_by_guess, loss_by_logaddexp, loss_that_checks_what_it_uses],
    "masked_next_token_loss": [masked_by_ignore_index, masked_guess_by_guess, masked_by_logaddexp],
}
