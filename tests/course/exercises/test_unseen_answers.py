"""Answers that no list of the course holds: each loses points, and is either named rightly or not named at all.

They make the mistakes of `course/exercises` in other words, so their numbers differ in the last digits, or mistakes
that have no name there, or two at once. A wrong name would be worse than none. `tests/unseen` has them by chapter.
"""

from __future__ import annotations

import importlib

import pytest

from attnlab.check import examine
from course import catalog
from course.kit.exercise import PUBLIC_SEED
from tests.conftest import HIDDEN_SEED

SEEDS = (PUBLIC_SEED, pytest.param(HIDDEN_SEED, marks=pytest.mark.long))
UNSEEN = {
    name: answers
    for stem in catalog.chapters()
    for name, answers in importlib.import_module(f"tests.unseen.{stem}").UNSEEN.items()
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", UNSEEN)
def test_an_unseen_wrong_answer_loses_points_and_is_named_rightly_or_not_at_all(material, name, seed):
    wrong = {}
    for i, (answer, words) in enumerate(UNSEEN[name]):
        report = examine(answer, material(name, seed), show_cases=seed == PUBLIC_SEED)
        named = {finding.misconception for finding in report.findings if not finding.passed} - {None}
        rightly = all(words is not None and words in text for text in named)
        if report.points >= report.max_points or not rightly:
            wrong[f"{i}, {getattr(answer, '__name__', answer)}"] = f"{report.points} points, named {named or 'nothing'}"
    assert wrong == {}


def test_every_exercise_has_one():
    assert UNSEEN.keys() == catalog.all_exercises().keys()
