"""Wrong answers to the positions chapter that its list of misconceptions does not hold in these words."""

import math

import numpy as np
import torch
from torch import nn


def refuse_unless(fits):
    if not fits:
        raise ValueError("my own words")


def encoding(entry):
    """An encoding from a function of place, column and width; sizes are checked."""
    def answer(max_len, d_model):
        refuse_unless(max_len >= 0 and d_model % 2 == 0)
        rows = [[entry(p, column, d_model) for column in range(d_model)] for p in range(max_len)]
        return np.array(rows).reshape(max_len, d_model)
    return answer


def wave(angle, column):
    return math.cos(angle) if column % 2 else math.sin(angle)


def shift(block):
    """A block diagonal from a function of the angle; the width is checked."""
    def answer(offset, d_model):
        refuse_unless(d_model % 2 == 0)
        angles = [offset / 10000 ** (column / d_model) for column in range(0, d_model, 2)]
        return torch.block_diag(*[torch.from_numpy(np.array(block(a))) for a in angles]).numpy()
    return answer


class Checked(nn.Module):
    """Positions by nn.Embedding, with their sizes checked."""

    def __init__(self, max_len, d_model):
        super().__init__()
        self.rows = nn.Embedding(max_len, d_model)

    def forward(self, x):
        refuse_unless(x.shape[1] <= self.rows.num_embeddings and x.shape[2] == self.rows.embedding_dim)
        return self.place(x)


class OnTheCPU(Checked):
    """The places are made without a device."""

    def place(self, x):
        return x + self.rows(torch.arange(x.shape[1])[None])


class CountsFromOne(Checked):
    def place(self, x):
        return x + self.rows(torch.arange(1, x.shape[1] + 1))


class NumberOfTheText(Checked):
    def place(self, x):
        return x + self.rows(torch.arange(x.shape[0])).unsqueeze(1)


class LengthOfTheBatch(Checked):
    """It checks the number of texts where the number of tokens was meant."""

    def forward(self, x):
        refuse_unless(len(x) <= self.rows.num_embeddings and x.shape[2] == self.rows.embedding_dim)
        return x + self.rows.weight[:x.shape[1]]


def linear_bias(slope, future=-math.inf):
    """A bias from a function of the head, counted from 1, and the number of heads; sizes are checked."""
    def answer(n_heads, n):
        refuse_unless(n_heads >= 1 and n >= 0)
        return np.array([[[slope(h, n_heads) * (j - i) if j <= i else future for j in range(n)] for i in range(n)]
                         for h in range(1, n_heads + 1)]).reshape(n_heads, n, n)
    return answer


def interleaved(max_len, d_model):
    """The usual program, which leaves all checks to NumPy."""
    table = np.zeros((max_len, d_model))
    angles = np.outer(np.arange(max_len), np.exp(-math.log(10000) * np.arange(0, d_model, 2) / d_model))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def turn(angle):
    return np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])


def forward_only(offset, d_model):
    refuse_unless(offset >= 0)
    return shift(turn)(offset, d_model)


def multiplied_mask(n_heads, n):
    with np.errstate(invalid="ignore"):
        return linear_bias(lambda h, m: 256 ** (-h / m), 0.0)(n_heads, n) + np.triu(np.ones((n, n)), 1) * -math.inf


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "sinusoidal_encoding": [
        (encoding(lambda p, c, d: wave(p / 10000 ** (2 * (c - c % 2) / d), c)), "exponent is twice"),
        (encoding(lambda p, c, d: wave(p * math.exp(math.log(10000) * (c - c % 2) / d), c)), "is multiplied"),
        (encoding(lambda p, c, d: wave(p * math.exp(-math.log(1000) * (c - c % 2) / d), c)), "base is 1000 here"),
        (encoding(lambda p, c, d: wave(p / 10000 ** ((c - c % 2) / d), c) / 2), None),
        (interleaved, "width of 1 passes"),
    ],
    "shift_matrix": [
        (shift(lambda a: [[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]), "rotates the other way"),
        (shift(lambda a: [[math.cos(a), math.sin(a)], [math.sin(a), math.cos(a)]]), "same sign"),
        (shift(lambda a: [[math.cos(a), math.sin(a)], [math.sin(a), -math.cos(a)]]), None),
        (shift(lambda a: turn(math.radians(a))), "degrees"),
        (forward_only, "negative offset is refused"),
    ],
    "LearnedPositions": [
        (CountsFromOne, "begin at 1"),
        (NumberOfTheText, "number in the batch"),
        (LengthOfTheBatch, None),
        (OnTheCPU, "is on the CPU"),
    ],
    "alibi_bias": [
        (linear_bias(lambda h, m: 0.5 ** h), "eight heads only"),
        (linear_bias(lambda h, m: 256 ** (-h / m), 0.0), "np.tril"),
        (linear_bias(lambda h, m: 256 ** ((1 - h) / m)), "counted from 0"),
        (multiplied_mask, "0 times infinity"),
    ],
}
