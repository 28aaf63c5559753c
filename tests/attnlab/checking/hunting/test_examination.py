"""The public check of a test: mutants of the student's own answer, and what it says."""

import linecache
import textwrap

import numpy as np
import pytest
import torch

from attnlab.check import exercises, material_of, report_on
from attnlab.checking.hunting import examination
from attnlab.checking.report import as_text
from solutions import kv_cache as cache_solutions
from solutions import softmax as solutions

NAME = "test_softmax"


def notebook(source: str, answer=solutions.softmax) -> dict:
    """The names of a notebook in which a cell with this source ran."""
    space = {"np": np, "softmax": answer} if answer else {"np": np}
    source = textwrap.dedent(source)
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(True), "<cell>")
    exec(compile(source, "<cell>", "exec"), space)
    return space


def said(source: str, **options) -> str:
    report, notices = report_on(notebook(source, **options)[NAME])
    assert not notices
    return " ".join(as_text(report).split())


THOROUGH = """
    def test_softmax(softmax):
        for x, axis in [(np.array([3.0, 1.0]), 0), (np.array([[1000.0, 2, 3], [0, 1, -1000]]), 0),
                        (np.array([[1, 2, 3], [5, 1, 1]]), -1), (np.arange(24.0).reshape(2, 3, 4) % 5, 1)]:
            before = x.copy()
            w = softmax(x, axis=axis)
            e = np.exp(x - x.max(axis=axis, keepdims=True).astype(float))
            np.testing.assert_allclose(w, e / e.sum(axis=axis, keepdims=True), rtol=1e-12)
            assert (x == before).all()
        x = np.array([[1.0, 2.0], [4.0, 0.0]])
        np.testing.assert_allclose(softmax(x).sum(axis=1), 1)
        np.testing.assert_allclose(softmax(x), softmax(x, axis=-1))
        assert not np.allclose(softmax(x), softmax(-x))
"""


def test_a_thorough_test_passes():
    words = said(THOROUGH)
    assert "2 of 2 passed" in words, words


def test_an_empty_test_finds_nothing_and_is_told_one_class_and_one_hint():
    words = said(
        """
        def test_softmax(softmax):
            try:
                softmax(np.ones(2))
            except Exception:
                pass
        """
    )
    assert "It rejected 0 of" in words and words.count("got away") == 1
    assert any(hint in words for hint in examination.HINTS.values())


def test_a_test_that_returns_its_verdict_is_told_that_it_has_to_raise():
    words = said(
        """
        def test_softmax(softmax):
            return np.allclose(softmax(np.array([3.0, 1.0])), [0.880797, 0.119203])
        """
    )
    assert "write assert in place of return" in words, words


def test_a_test_that_compares_bits_rejects_a_right_one_that_rounds_differently():
    words = said(
        """
        def test_softmax(softmax):
            e = np.exp(np.array([1.0, 2.0, 3.0]) - 3)
            assert (softmax(np.array([1.0, 2.0, 3.0])) == e / e.sum()).all(), "not these bits"
        """
    )
    assert "rounds differently in the last digit" in words and "not these bits" in words and "earns nothing" in words


def test_a_stub_is_not_done_yet():
    assert "not done yet" in said("def test_softmax(softmax) -> None:\n    raise NotImplementedError")
    assert "not done yet" in said("def test_softmax(softmax):\n    raise NotImplementedError", answer=None)


def test_without_a_right_answer_of_ones_own_there_is_nothing_to_hunt_in():
    assert "write softmax first" in said(THOROUGH, answer=None).lower()
    words = said(THOROUGH, answer=lambda x, axis=-1: np.exp(x) / np.exp(x).sum(axis, keepdims=True))
    assert "your softmax must be right first" in words.lower() and "check(softmax)" in words


def test_an_endless_test_is_ended(monkeypatch):
    monkeypatch.setattr(examination, "CASE_SECONDS", 0.2)
    words = said("def test_softmax(softmax):\n    softmax(np.ones(2))\n    while True: pass")
    assert "ran out of time" in words


def test_wrong_implementations_are_of_several_classes_and_each_fails_a_public_case():
    contract = material_of(NAME)["hunt"]
    theirs = material_of("softmax")
    with examination.TimeLimit() as limit:
        right, wrong = examination.implementations(solutions.softmax, theirs, contract, limit)
    assert 20 <= len(wrong) <= examination.MOST_WRONG and len({each.kind for each in wrong}) >= 5
    assert {each.kind for each in wrong} <= set(examination.HINTS)
    assert len(right) >= 2
    for each in wrong:
        assert not all(examination.kept_properties(each.make, theirs, contract).values())


def test_no_answer_is_in_the_data_of_a_hunt():
    material = material_of(NAME)
    assert [prop["cases"] for prop in material["properties"]] == [[], []] and material["misconceptions"] == []
    assert exercises().count(NAME) == 1


CACHE_TEST = """
    def test_KVCache(KVCache):
        def new(n, heads=2, d_k=3, d_v=2, dtype=torch.float32):
            return torch.randn(1, heads, n, d_k).to(dtype), torch.randn(1, heads, n, d_v).to(dtype)

        def compare(cache, given, said):
            for kept, parts in zip(said, zip(*given)):
                assert kept.dtype == parts[0].dtype
                torch.testing.assert_close(kept, torch.cat(parts, dim=2))

        for dtype in (torch.float32, torch.bfloat16):
            cache, given = KVCache(), []
            assert len(cache) == 0
            for n in (2, 1, {long}):
                given.append(new(n, 1, 1, 1, dtype))
                compare(cache, given, cache.append(*given[-1]))
                assert len(cache) == sum(k.shape[2] for k, _ in given)
            {reset}
        for wrong in (new(1, d_k=2), new(1, d_v=3), new(1, heads=1), (new(1)[0], new(2)[1])):
            cache, first, third = KVCache(), new(2), new(1)
            cache.append(*first)
            {refusal}
        KVCache().append(*new(3)), KVCache().append(*new(2))
"""
RESET = "assert cache.reset() is None and len(cache) == 0 and cache.append(*new(2))[0].shape[2] == 2"
REFUSAL = """
            try:
                cache.append(*wrong)
            except (ValueError, RuntimeError):
                {left}
            else:
                raise AssertionError("accepted")"""
LEFT = "compare(cache, [first, third], cache.append(*third))"
COMPLETE = dict(long="2000, 2000, 200", reset=RESET, refusal=REFUSAL.format(left=LEFT))


@pytest.mark.parametrize(
    "lacking, hint",
    [
        ({}, None),
        ({"long": "3"}, "a length that is limited"),
        ({"reset": ""}, "a method that does nothing"),
        ({"refusal": ""}, "what is refused"),
        ({"refusal": REFUSAL.format(left="pass")}, "what is refused"),
    ],
)
def test_a_test_of_a_class_needs_each_of_its_steps(lacking, hint):
    space = {"torch": torch, "KVCache": cache_solutions.KVCache}
    source = textwrap.dedent(CACHE_TEST.format(**{**COMPLETE, **lacking}))
    linecache.cache["<cell>"] = (len(source), None, source.splitlines(True), "<cell>")
    exec(compile(source, "<cell>", "exec"), space)
    words = " ".join(as_text(report_on(space["test_KVCache"])[0]).split())
    assert (f"One that got away: {hint}." in words) if hint else ("2 of 2 passed" in words), words


def test_an_error_of_the_tests_own_is_told_as_such():
    words = said("def test_softmax(softmax):\n    softmax(np.ones(2))\n    missing()")
    assert "On your own softmax the test itself stopped (NameError in line 3" in words and "earns nothing" not in words


def test_a_test_without_a_call_is_told_so():
    assert "your test does not call softmax" in said("def test_softmax(softmax):\n    assert True").lower()
