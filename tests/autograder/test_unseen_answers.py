"""Answers that no list of the course holds: each loses points, and is either named rightly or not named at all.

They make the mistakes of `autograder/exercises` in other words, so their numbers differ in the last digits, or mistakes
that have no name there, or two at once. A wrong name would be worse than none. `tests/unseen` has them by chapter.
"""

from __future__ import annotations

import importlib

import pytest

from attnlab.check import examine
from autograder.course import catalog
from autograder.exercise import PUBLIC_SEED
from tests.conftest import HIDDEN_SEED

SEEDS = (PUBLIC_SEED, HIDDEN_SEED)
UNSEEN = {
    name: answers
    for stem in catalog.chapters()
    for name, answers in importlib.import_module(f"tests.unseen.{stem}").UNSEEN.items()
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name, i", [(name, i) for name, answers in UNSEEN.items() for i in range(len(answers))])
def test_an_unseen_wrong_answer_loses_points_and_is_named_rightly_or_not_at_all(material, name, i, seed):
    answer, words = UNSEEN[name][i]
    report = examine(answer, material(name, seed), show_cases=seed == PUBLIC_SEED)
    assert report.points < report.max_points
    named = {finding.misconception for finding in report.findings if not finding.passed and finding.misconception}
    assert bool(named) == (words is not None), named
    assert all(words in text for text in named), named


def test_every_exercise_has_one():
    assert UNSEEN.keys() == catalog.all_exercises().keys()
