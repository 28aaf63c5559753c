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
from course.kit.hunt import without_hunts
from tests.conftest import HIDDEN_SEED, each_seed, the_others_weekly

UNSEEN = {
    name: answers
    for stem in filter(catalog.exercises_of, catalog.chapters())
    for name, answers in importlib.import_module(f"tests.unseen.{stem}").UNSEEN.items()
}
NAMED = {name: [pair for pair in answers if pair[1]] for name, answers in UNSEEN.items()}
UNNAMED = {name: [pair for pair in answers if not pair[1]] for name, answers in UNSEEN.items()}


def misjudged(made: dict, answers: list[tuple], **options) -> dict[str, str]:
    """The answers that lose no point or are given a wrong name, by their place in the list."""
    found = {}
    for i, (answer, words) in enumerate(answers):
        report = examine(answer, made, **options)
        named = {finding.misconception for finding in report.findings if not finding.passed} - {None}
        rightly = all(words is not None and words in text for text in named)
        if report.points >= report.max_points or not rightly:
            found[f"{i}, {getattr(answer, '__name__', answer)}"] = f"{report.points} points, named {named or 'nothing'}"
    return found


@pytest.mark.parametrize("name, seed", each_seed([name for name, answers in NAMED.items() if answers]))
def test_an_unseen_mistake_loses_points_and_is_named_rightly_or_not_at_all(material, name, seed):
    assert misjudged(material(name, seed), NAMED[name], show_cases=seed == PUBLIC_SEED) == {}


@pytest.mark.long
@pytest.mark.parametrize("seed", the_others_weekly([PUBLIC_SEED, HIDDEN_SEED], PUBLIC_SEED))
def test_every_answer_whose_mistake_has_no_name_loses_points_and_is_not_named(material, seed):
    found = {
        name: misjudged(material(name, seed), answers, show_cases=seed == PUBLIC_SEED)
        for name, answers in UNNAMED.items()
    }
    assert {name: answers for name, answers in found.items() if answers} == {}


def test_every_exercise_has_an_answer():
    assert UNSEEN.keys() == without_hunts(catalog.all_exercises()).keys()
