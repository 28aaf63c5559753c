"""Every hunt: right implementations are right, the course's own test accepts them and rejects the wrong ones."""

from __future__ import annotations

import functools

import pytest

from attnlab.checking.hunting import examination
from attnlab.checking.hunting.opaque import verdict
from course import catalog
from course.kit.hunt import ROUNDS, Hunt
from tests.conftest import HIDDEN_SEED

HUNTS = {name: hunt for name, hunt in catalog.all_exercises().items() if isinstance(hunt, Hunt)}


@functools.cache
def hidden(name: str) -> dict:
    return HUNTS[name].material(HIDDEN_SEED)


def accepts(test, hunt: Hunt, case: dict) -> bool:
    implementation = examination.through_opaque(lambda: hunt.implementation(case), hunt.contract)
    return verdict(test, implementation, str)["accepted"]


def cases(name: str) -> tuple[list[dict], list[dict]]:
    right, wrong = (prop["cases"] for prop in hidden(name)["properties"])
    return right[: len(right) // ROUNDS], wrong


def test_there_are_five_and_each_is_a_bonus_in_the_chapter_of_its_exercise():
    assert list(HUNTS) == ["test_softmax", "test_causal_attention", "test_apply_rope", "test_KVCache", "test_sample"]
    for name, hunt in HUNTS.items():
        assert hunt.bonus and hunt.points > 0
        assert name == f"test_{hunt.of.name}" and catalog.chapter_of(name) == catalog.chapter_of(hunt.of.name)


@pytest.mark.parametrize("name", HUNTS)
def test_at_least_six_right_implementations_have_all_that_a_test_can_ask_for(name):
    hunt, (right, _) = HUNTS[name], cases(name)
    theirs = hunt.of.material(misconceptions=False)
    assert len(right) >= 6
    for case in right:
        kept = examination.kept_properties(lambda: hunt.implementation(case), theirs, hunt.contract)
        assert all(kept.values()), (case, kept)


@pytest.mark.parametrize("name", HUNTS)
def test_the_reference_accepts_every_right_implementation_and_rejects_every_wrong_one(name):
    hunt, (right, wrong) = HUNTS[name], cases(name)
    assert [case for case in right if not accepts(hunt.reference, hunt, case)] == []
    assert len(wrong) >= 20
    assert [case for case in wrong if accepts(hunt.reference, hunt, case)] == []


@pytest.mark.parametrize("name", HUNTS)
def test_the_public_check_gives_full_marks_to_the_reference(name):
    hunt = HUNTS[name]
    theirs = hunt.of.material(misconceptions=False)
    report = examination.examine(hunt.reference, hunt.material(), hunt.of.reference, theirs)
    assert report.passed and report.points == hunt.points, report


@pytest.mark.parametrize("name", HUNTS)
def test_public_material_holds_no_case_and_hidden_material_no_code(name):
    assert [prop["cases"] for prop in HUNTS[name].material()["properties"]] == [[], []]
    for prop in hidden(name)["properties"]:
        assert all(set(case) <= {"words", "mistake"} for case in prop["cases"])
