"""Wrong answers to the positions chapter that its list of misconceptions does not hold in these words."""

import functools

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


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "sinusoidal_encoding": [
        (changed(encoding_in_torch, "-torch.arange", "-2 * torch.arange"), "exponent is twice"),
        (changed(encoding_in_torch, "-torch.arange", "torch.arange"), "is multiplied"),
        (changed(encoding_in_torch, "10000.0", "1000.0"), "base is 1000 here"),
        (changed(encoding_by_logarithms, "d_model % 2 == 1", "False"), "width of 1 passes"),
    ],
    "shift_matrix": [
        (changed(shift_pair_by_pair, TURN, "[[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]"),
         "rotates the other way"),
        (changed(shift_pair_by_pair, "-math.sin(a)", "math.sin(a)"), "same sign"),
        (changed(shift_pair_by_pair, TURN, "[[math.cos(a), math.sin(a)], [math.sin(a), -math.cos(a)]]"), None),
        (changed(shift_pair_by_pair, "offset /", "math.radians(offset) /"), "degrees"),
        (changed(shift_pair_by_pair, "    shift =",
                 "    if offset < 0:\n        raise ValueError('my own words')\n    shift ="),
         "negative offset is refused"),
    ],
    "LearnedPositions": [
        (KeepsItsRows, None),
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
        (bias(SLOPES, "256 ** (-torch.arange(n_heads) / n_heads)"), "counted from 0"),
        (bias(FUTURE, "(bias.tril() + torch.ones(n, n).triu(1) * -torch.inf)"), "0 times infinity"),
    ],
}
