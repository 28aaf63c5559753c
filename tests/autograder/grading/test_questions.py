"""The order in which an answer is asked."""

from __future__ import annotations

from attnlab.checking.probes import PROBES
from autograder.grading import questions
from course import catalog


def test_questions_are_shuffled_and_what_is_measured_comes_small_before_large():
    """The first call loads parts of PyTorch, which must not count as memory of the large case."""
    material = questions.material_of(catalog.exercise("tiled_attention"), 11)
    measured = {number for number, prop in enumerate(material["properties"]) if PROBES[prop["probe"]].measured}
    orders = [questions.Answer(None, material, 1.0).pending[::-1] for _ in range(20)]
    for order in orders:
        own = [place for place in order if place[0] in measured]
        assert own and own == sorted(own)
    assert len({tuple(order) for order in orders}) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(orders[0]))}
