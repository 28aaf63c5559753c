"""Wrong answers to the positions chapter that its list of misconceptions does not hold in these words."""

import functools

import numpy as np

from tests.alternatives.positions import (
    PositionsByEmbedding, alibi_in_torch, encoding_by_logarithms, encoding_in_torch, shift_pair_by_pair)
from tests.unseen.parts import changed

TURN = "[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]"
LOOK_UP = "self.embedding(torch.arange(x.size(1), device=x.device))"
SLOPES = "torch.logspace(-8 / n_heads, -8, n_heads, base=2, dtype=torch.float64)"
FUTURE = "bias.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)"
bias = functools.partial(changed, alibi_in_torch)

class KeepsItsRows(PositionsByEmbedding):
    """Rows that were copied once, and that no later step of training reaches."""

    def forward(self, x):
        if not hasattr(self, "rows") or len(self.rows) != x.size(1):
            self.rows = self.embedding.weight[:x.size(1)].clone()
        super().forward(x)
        return x + self.rows



class GoesOn(PositionsByEmbedding):
    """Begins where the last text ended, as long as there are rows."""

    start = 0

    def forward(self, x):
        end = self.start + x.size(1)
        self.start, end = (self.start, end) if end <= self.max_len else (0, x.size(1))
        super().forward(x)
        x, self.start = x + self.embedding.weight[self.start:end], end
        return x


class LastRowNotAllowed(PositionsByEmbedding):
    def forward(self, x):
        if x.size(1) >= self.max_len:
            raise ValueError("does not fit")
        return super().forward(x)


def shift_fitted(offset, d_model):
    """Solved from rows of a table of encodings."""
    table = encoding_by_logarithms(abs(offset) + d_model, d_model)
    old, new = (table[:d_model], table[abs(offset):])[::1 if offset >= 0 else -1]
    return np.linalg.lstsq(old, new, rcond=None)[0].T


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "sinusoidal_encoding": [
        (changed(encoding_in_torch, "-torch.arange", "-2 * torch.arange"), "exponent is twice"),
        (changed(encoding_in_torch, "-torch.arange", "torch.arange"), "is multiplied"),
        (changed(encoding_in_torch, "10000.0", "1000.0"), "base is 1000 here"),
        (changed(encoding_by_logarithms, "d_model % 2 == 1", "False"), "width of 1 passes"),
        (changed(encoding_by_logarithms, "np.zeros((max_len, d_model))", "np.zeros((max_len, d_model), dtype=np.int64)"),
         "whole numbers"),
        (functools.lru_cache(encoding_by_logarithms), None),
    ],
    "shift_matrix": [
        (changed(shift_pair_by_pair, TURN, "[[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]"),
         "rotates the other way"),
        (changed(shift_pair_by_pair, "-math.sin(a)", "math.sin(a)"), "same sign"),
        (shift_fitted, None),
        (changed(shift_pair_by_pair, "np.eye(d_model)", "np.zeros((d_model, d_model))", "2 * pair\n", "pair\n"),
         "blocks overlap"),
        (changed(shift_pair_by_pair, "np.eye(d_model)", "np.eye(d_model, dtype=int)", "return shift",
                 "return shift.astype(float)"), "whole numbers"),
        (functools.lru_cache(shift_pair_by_pair), None),
        (changed(shift_pair_by_pair, TURN, "[[math.cos(a), math.sin(a)], [math.sin(a), -math.cos(a)]]"), None),
        (changed(shift_pair_by_pair, "offset /", "math.radians(offset) /"), "degrees"),
        (changed(shift_pair_by_pair, "    shift =",
                 "    if offset < 0:\n        raise ValueError('my own words')\n    shift ="),
         "negative offset is refused"),
    ],
    "LearnedPositions": [
        (KeepsItsRows, None),
        (GoesOn, None),
        (LastRowNotAllowed, "full text is refused"),
        (changed(PositionsByEmbedding, "torch.arange(x.size(1)", "torch.arange(1, x.size(1) + 1"), "begin at 1"),
        (changed(PositionsByEmbedding, LOOK_UP, "self.embedding(torch.arange(len(x))).unsqueeze(1)"),
         "number in the batch"),
        (changed(PositionsByEmbedding, ", device=x.device", ""), "is on the CPU"),
        (changed(PositionsByEmbedding, "x.size(1) >", "x.size(0) >", LOOK_UP, "self.embedding.weight[:x.size(1)]"),
         None),
    ],
    "alibi_bias": [
        (bias(SLOPES, "0.5 ** torch.arange(1, n_heads + 1)"), "eight heads only"),
        (bias("-torch.inf", "0.0"), "np.tril"),
        (bias(SLOPES, "2.0 ** (-8 * torch.arange(1, n_heads + 1) // n_heads)"), "perhaps by `//`"),
        (bias(SLOPES, "256 ** (-torch.arange(n_heads) / n_heads)"), "counted from 0"),
        (bias(FUTURE, "(bias.tril() + torch.ones(n, n).triu(1) * -torch.inf)"), "0 times infinity"),
    ],
}
