"""Exercises of the chapter on the delta rule: what must hold, on which inputs, and what people get wrong."""

import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import delta_rule as solutions

DELTA, DECAY, CHUNKS, CONVOLUTION = (
    "The delta rule",
    "Forgetting on purpose",
    "In chunks",
    "A short convolution",
)


def _unit(rng, *shape):
    keys = normal(rng, *shape)
    return keys / keys.norm(dim=-1, keepdim=True)


def _tokens(rng, n=5, d_k=4, d_v=3, batch=1, n_heads=2, gated=True):
    case = dict(
        q=normal(rng, batch, n_heads, n, d_k),
        k=_unit(rng, batch, n_heads, n, d_k),
        v=normal(rng, batch, n_heads, n, d_v),
        beta=torch.from_numpy(rng.uniform(0.2, 0.9, size=(batch, n_heads, n))),
    )
    if gated:
        case["g"] = torch.from_numpy(-rng.uniform(0.1, 1.0, size=(batch, n_heads, n)))
    return case


delta_rule = Exercise(solutions.delta_rule, section=DELTA, minutes=15, difficulty=2)


@delta_rule.property("writes the difference, and reads after that", points=3, hint="Recall, compare, write, read.")
def delta_values(rng):
    yield _tokens(rng, gated=False)


gated_delta_rule = Exercise(solutions.gated_delta_rule, section=DECAY, minutes=8, difficulty=2)


@gated_delta_rule.property("lets the state fade before each token", points=3, hint="Multiply by exp(g) first.")
def gated_values(rng):
    yield _tokens(rng)


chunked_gated_delta_rule = Exercise(
    solutions.chunked_gated_delta_rule, section=CHUNKS, bonus=True, minutes=30, difficulty=3
)


@chunked_gated_delta_rule.property("gives the numbers of the gated delta rule", points=3, hint="Solve for the writes.")
def chunked_values(rng):
    yield _tokens(rng) | dict(chunk=2)


short_convolution = Exercise(solutions.short_convolution, section=CONVOLUTION, minutes=10, difficulty=2)


@short_convolution.property("mixes each token with those before it", points=3, hint="Join past and x.")
def convolved(rng):
    yield dict(x=normal(rng, 2, 5, 3), weight=normal(rng, 3, 4))


written = Written(points=4, rubric="To be written.")
