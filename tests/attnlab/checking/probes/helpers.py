"""Helpers that tests of probes share."""

from __future__ import annotations

import torch

from attnlab.checking.compare import difference
from attnlab.checking.observe import outcome_of
from attnlab.checking.probes import PROBES


def seen(probe, answer, **case):
    """The verdict on one case, or the whole outcome where there is none."""
    outcome = outcome_of(answer, probe, case)
    return outcome.get("value", outcome)


def words(probe, expected, got, **case):
    """The words of a probe on the first difference between two outcomes."""
    found = difference(expected, got)
    return PROBES[probe].part(found.part, case).phrase(found)


def draw(logits, generator, warmth=1.0):
    """One token for each row, with the probabilities of the softmax."""
    shares = (logits / warmth).softmax(-1)
    drawn = torch.multinomial(shares.reshape(-1, shares.shape[-1]), 1, generator=generator)
    return drawn.reshape(logits.shape[:-1])
