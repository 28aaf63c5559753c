"""Multi-head attention, in plain Python."""

from dataclasses import dataclass

from attention import attend
from matrix import multiply


@dataclass
class MultiHead:
    n_heads: int
    W_q: list
    W_k: list
    W_v: list
    W_o: list

    def forward(self, x, mask):
        """Return the output (n, d_model) and each head's weights (n, n)."""
        d_head = len(x[0]) // self.n_heads
        projections = (self.W_q, self.W_k, self.W_v)
        Q, K, V = (multiply(x, W) for W in projections)
        merged = [[] for _ in x]
        weights = []
        for h in range(self.n_heads):
            # A head has its own columns of all three.
            own = slice(h * d_head, (h + 1) * d_head)
            q, k, v = ([row[own] for row in M] for M in (Q, K, V))
            output, seen = attend(q, k, v, mask)
            for row, part in zip(merged, output):
                row.extend(part)
            weights.append(seen)
        return multiply(merged, self.W_o), weights
