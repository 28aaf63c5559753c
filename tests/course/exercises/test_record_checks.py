"""The record that the page of figures shows is that of today's checks."""

import pytest

from course import catalog
from course.kit.hunt import without_hunts
from tests.course.exercises import record_checks

EXERCISES = without_hunts(catalog.all_exercises())
RECORD = record_checks.read()
AGAIN = "run `python -m tests.course.exercises.record_checks`"
# Of several chapters, and quick. They are recorded again here; the others are known by the code that makes their data.
SAMPLE = ("dot", "softmax", "causal_mask", "hard_alignment", "merge_heads")


def test_what_is_recorded_is_the_check_of_today():
    assert list(RECORD) == list(EXERCISES), AGAIN
    changed = [name for name in RECORD if RECORD[name]["stamp"] != record_checks.stamp(name)]
    assert changed == [], AGAIN


@pytest.mark.parametrize("name", RECORD)
def test_the_answers_that_are_tried_are_counted(name):
    assert {key: RECORD[name][key] for key in ("right", "mistakes", "unseen")} == record_checks.counts(name), AGAIN


@pytest.mark.parametrize("name", SAMPLE)
def test_mutants_get_the_verdicts_that_are_recorded(name):
    assert record_checks.mutants_of(EXERCISES[name]) == RECORD[name]["mutants"], AGAIN


def test_nearly_no_mutant_passes():
    survive = sum(row["mutants"]["survive"] for row in RECORD.values())
    assert survive <= 0.01 * sum(sum(row["mutants"].values()) for row in RECORD.values())
