"""A pre-norm encoder block, in plain Python."""

import math
from dataclasses import dataclass

from matrix import add, multiply
from multi_head import MultiHead

EPS = 1e-5


@dataclass
class LayerNorm:
    weight: list
    bias: list

    def forward(self, x):
        """Each row with mean 0 and variance 1, then scaled and shifted."""
        result = []
        for row in x:
            mean = sum(row) / len(row)
            variance = sum((a - mean) ** 2 for a in row) / len(row)
            spread = math.sqrt(variance + EPS)
            result.append([(a - mean) / spread * w + b for a, w, b
                           in zip(row, self.weight, self.bias)])
        return result


@dataclass
class FeedForward:
    W_1: list
    b_1: list
    W_2: list
    b_2: list

    def forward(self, x):
        """(n, d_model) to (n, d_ff), GELU, and back."""
        hidden = [[gelu(a + b) for a, b in zip(row, self.b_1)]
                  for row in multiply(x, self.W_1)]
        return [[a + b for a, b in zip(row, self.b_2)]
                for row in multiply(hidden, self.W_2)]


def gelu(x):
    return 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))


@dataclass
class EncoderBlock:
    norm_1: LayerNorm
    attention: MultiHead
    norm_2: LayerNorm
    feed_forward: FeedForward

    def forward(self, x, mask):
        """x: (n, d_model) -> the same shape."""
        heard, _ = self.attention.forward(self.norm_1.forward(x), mask)
        x = add(x, heard)
        found = self.feed_forward.forward(self.norm_2.forward(x))
        return add(x, found)
