"""How what came is related to what was expected: told where it holds on every failing case, and nowhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from attnlab.checking import error_patterns
from attnlab.checking.error_patterns import Case

SEED = 20261


def cases(rng, change, shapes=((3, 4), (2, 5)), make=None, **inputs) -> list[Case]:
    """A case for each shape, of which `change` makes what came from what was expected."""
    make = make or (lambda shape: rng.uniform(0.1, 2.0, size=shape))
    expected = [make(shape) for shape in shapes]
    return [Case({"x": rng.normal(size=a.shape), **inputs}, a, change(a), 1e-9, 1e-12) for a in expected]


def truths(shape):
    pattern = np.zeros(shape, dtype=bool)
    pattern[..., ::2] = True
    return pattern


@pytest.mark.parametrize(
    "name, change, words",
    [
        ("factor", lambda a: 3 * a, "3 times"),
        ("factor", lambda a: a * np.sqrt(a.shape[-1]), "`sqrt(x.shape[-1])` times"),
        ("factor", lambda a: a / a.shape[-2], "`1 / x.shape[-2]` times"),
        ("sign", lambda a: -a, "sign"),
        ("offset", lambda a: a + 1, "1 too large"),
        ("signs", lambda a: a * np.where(a > 1, -1, 1), "some of their signs are not"),
        ("logarithm", np.log, "logarithm"),
        ("transposed", lambda a: a.T, "transposed"),
        ("reversed", lambda a: a[:, ::-1], "reverse order along axis -1"),
        ("shape", lambda a: a[None], "axis of length 1"),
        ("summed", lambda a: a.sum(axis=-1), "sum over axis -1"),
        ("normalized", lambda a: a * np.arange(2.0, 2 + len(a))[:, None], "Each row"),
        ("precision", lambda a: a.astype(np.float32).astype(float), "single precision"),
        ("precision", lambda a: a.astype(np.float16).astype(float), "half precision"),
        ("digits", lambda a: a + 2e-5 * a**2, "right to about 4 digits"),
        ("digits", lambda a: np.round(a, 5), "right to about 5 digits"),
        ("places", lambda a: np.random.default_rng(5).permutation(a.ravel()).reshape(a.shape), "wrong positions"),
        ("nan", lambda a: np.where(a > 1, np.nan, a), "entries are nan"),
        ("constant", np.ones_like, "same number"),
        ("part", lambda a: np.concatenate([a[:-1], a[-1:] ** 2 + 3]), "at the end of axis -2"),
        ("part", lambda a: a + np.eye(*a.shape) * a**3, "on the diagonal"),
        ("part", lambda a: a * np.where(np.arange(a.shape[1]) % 2, 1.7, 1) + 0.3 * (np.arange(a.shape[1]) % 2), "odd"),
        ("length", lambda a: np.ones((a.shape[0] + 1, a.shape[1])), "longer than it should be by one"),
        ("negative", lambda a: np.cos(9 * a) * a - 0.3, "negative"),
        ("order kept", lambda a: a**3 + a - 0.1, "right order of size"),
        ("order turned", lambda a: np.exp(-a) + 5, "where the smallest should be"),
        ("uniform", lambda a: np.where(np.arange(a.shape[1]) % 2, 0.25, 0) + 0 * a, "not 0 are the same"),
        ("constant", np.zeros_like, "came out as 0"),
        ("inf", lambda a: np.where(a > 1, np.inf, a), "entries are inf"),
    ],
)
def test_what_holds_on_every_case_is_told(rng, name, change, words):
    found = error_patterns.find(cases(rng, change))
    assert found.name == name and words in found.words


@pytest.mark.parametrize(
    "name, change, words, how",
    [
        ("inverted", np.logical_not, "", dict(make=truths)),
        ("too often True", lambda a: a | np.eye(*a.shape, dtype=bool), "", dict(make=truths)),
        ("shifted", lambda a: np.roll(a, 1, axis=-1), "after.*axis -1|axis -1.*after", {}),
        ("axes", lambda a: a.swapaxes(1, 2), "axes -2 and -3", dict(shapes=((2, 3, 4, 5), (1, 2, 3, 2)))),
        ("axes", lambda a: a.transpose(2, 0, 1), r"\(2, 0, 1\)", dict(shapes=((2, 3, 4), (4, 2, 3)))),
    ],
)
def test_what_holds_of_truths_and_along_axes_is_told(rng, name, change, words, how):
    found = error_patterns.find(cases(rng, change, **how))
    assert found.name == name and re.search(words, found.words)


@pytest.mark.parametrize(
    "shapes, words",
    [
        (
            lambda n, m: ((n, n), (n, m)),
            "Along axis -1 the result is as long as `m`; it should be as long as `n`.",
        ),
        (lambda n, m: ((n, m), (m,)), "The result should have the shape (`n`, `m`); yours has (`m`)."),
    ],
)
def test_a_shape_is_told_in_lengths_of_arguments(rng, shapes, words):
    drawn = [
        Case({"n": n, "m": m}, *(rng.normal(size=shape) for shape in shapes(n, m)), 1e-9, 1e-12)
        for n, m in ((6, 3), (5, 2))
    ]
    assert error_patterns.find(drawn).words == words


def test_rows_that_do_not_sum_to_one_are_told_from_those_that_do_along_another_axis(rng):
    def weights(shape):
        drawn = rng.uniform(0.1, 2.0, size=shape)
        return drawn / drawn.sum(axis=-1, keepdims=True)

    found = error_patterns.find(cases(rng, lambda a: a**1.5 / (a**1.5).sum(axis=-2, keepdims=True), make=weights))
    assert found.name == "sums" and "those along axis -2 do" in found.words


@pytest.mark.parametrize(
    "name, change",
    [
        ("alone", lambda a, b: b),
        ("order", lambda a, b: (b, a)),
        ("one of several", lambda a, b: (a, b**2 + a.sum())),
    ],
)
def test_of_several_results_it_is_told_which(rng, name, change):
    pairs = [(rng.normal(size=(2, n)), rng.normal(size=(n, 3))) for n in (3, 4)]
    found = error_patterns.find([Case({"x": rng.normal(size=2)}, pair, change(*pair), 1e-9, 1e-12) for pair in pairs])
    assert found.name == name


@pytest.mark.parametrize(
    "words, change",
    [
        ("plus `x`", lambda a, x: a + x),
        ("minus `x`", lambda a, x: a - x),
        ("times `x`", lambda a, x: a * x),
        ("divided by `x`", lambda a, x: a / x),
    ],
)
def test_an_argument_that_is_missing_or_too_many_is_named(rng, words, change):
    given = [(rng.normal(size=shape), rng.normal(size=shape)) for shape in ((2, 3), (4,))]
    found = error_patterns.find([Case({"x": x}, a, change(a, x), 1e-9, 1e-12) for x, a in given])
    assert words in found.words


@pytest.mark.parametrize(
    "words, change",
    [
        ("`n / d` times", lambda a, n, d: a * n / d),
        ("`0.5 / n` times", lambda a, n, d: a / (2 * n)),
        ("`0.25 / n / d ** 2` times", lambda a, n, d: a / (4 * n * d**2)),
        ("too large by `d`", lambda a, n, d: a + d),
    ],
)
def test_numbers_given_are_found_in_factors_of_single_numbers(words, change):
    given = [(3, 5), (2, 7), (11, 6)]
    counts = [Case(dict(n=n, d=d), 4 * n * d**2, change(4 * n * d**2, n, d), 1e-9, 1e-12) for n, d in given]
    assert words in error_patterns.find(counts).words


def test_of_several_wrong_results_the_relation_of_one_is_told(rng):
    pairs = [(rng.normal(size=(2, n)), rng.uniform(1, 2, size=(n, 3))) for n in (3, 4)]
    found = error_patterns.find([Case({}, (a, b), (a**2 + 1, 2 * b), 1e-9, 1e-12) for a, b in pairs])
    assert found.words == "Result 2 of 2: Every number is 2 times what was expected."


def test_what_does_not_hold_on_one_case_is_not_told(rng):
    almost = cases(rng, lambda a: 3 * a, shapes=((3, 4), (2, 5), (4, 4)))
    almost[1] = Case(almost[1].inputs, almost[1].expected, almost[1].got + 0.5 * almost[1].got ** 2, 1e-9, 1e-12)
    assert error_patterns.find(almost).name != "factor"


def test_of_noise_nothing_is_told(rng):
    noise = cases(rng, lambda a: rng.normal(size=a.shape), make=lambda shape: rng.normal(size=shape))
    assert error_patterns.find(noise) is None


def test_a_number_that_a_process_could_have_chosen_is_not_told_of_hidden_cases(rng):
    for change in (lambda a: 3.14159 * a, lambda a: a + 0.271828):
        found = error_patterns.find(cases(rng, change))
        assert not any(digit in found.discreet for digit in "0123456789")


@pytest.mark.parametrize(
    "right, wrong, words",
    [
        (dict(x=np.ones(3)), dict(x=np.ones(3), mask=np.ones(3, dtype=bool)), "`mask` is given"),
        (dict(x=np.ones((2, 3))), dict(x=np.ones((1, 3))), "`x` has length 1 along axis 0"),
        (dict(x=np.ones(3)), dict(x=np.zeros(3)), "`x` is all zeros"),
        (dict(n=2), dict(n=-1), "`n` is -1"),
        (dict(n=2, eps=1e-5), dict(n=2), "`eps` is not given"),
    ],
)
def test_what_the_failing_inputs_have_in_common_is_told(right, wrong, words):
    assert words in error_patterns.traits_of_failing_inputs([right] * 3, [wrong] * 5).words


ONES = np.ones(3)


@pytest.mark.parametrize(
    "right, wrong",
    [
        # One case alone has nothing in common, and a few are not told apart.
        ([dict(x=ONES)] * 2, [dict(x=np.ones(4))]),
        *(([dict(n=2)] * n_right, [dict(n=-1)] * n_wrong) for n_right, n_wrong in ((2, 6), (6, 2), (3, 4))),
        # A single number, or two inputs compared, is not a reason: some such thing separates any few cases.
        ([dict(x=ONES)] * 5, [dict(x=np.ones(4))] * 5),
        ([dict(x=ONES)] * 5, [dict(x=-ONES)] * 5),
        ([dict(x=ONES)] * 2, [dict(x=-ONES)] * 3),
        ([dict(Q=np.ones((2, 3)), K=np.ones((2, 3)))] * 5, [dict(Q=np.ones((2, 3)), K=np.ones((4, 3)))] * 5),
    ],
)
def test_inputs_that_differ_in_nothing_that_has_a_name_are_not_told_apart(right, wrong):
    assert error_patterns.traits_of_failing_inputs(right, wrong) is None


@pytest.mark.parametrize("pairs", [[(4.0, 8.0)], [(2.0, 3.0), (5.0, 4.0), (7.0, 8.5)]])
def test_that_any_two_numbers_differ_by_some_factor_is_not_told(pairs):
    assert error_patterns.find([Case({"d": 3}, *pair, 1e-9, 1e-12) for pair in pairs]) is None


FAR = np.array([[1 - 2e-5, 2e-5], [1 - 3e-5, 3e-5], [1 - 1e-5, 1e-5]])
NEAR = np.array([[1 - 1e-7, 1e-7], [1 - 2e-7, 2e-7], [1 - 1e-8, 1e-8]])


@pytest.mark.parametrize("pairs", [[(FAR, NEAR)] * 2, [(2.1, 1.015 * 2.1), (3.4, 1.015 * 3.4 + 0.001)]])
def test_numbers_that_are_near_are_not_taken_for_rounded_ones(pairs):
    found = error_patterns.find([Case({}, *pair, 1e-9, 1e-12) for pair in pairs])
    assert found is None or found.name != "precision"


def test_a_factor_of_one_is_not_told():
    """Numbers that are off by more than the tolerance of one case, and right in that of the next step."""
    a = np.array([1.0, 2.0, np.pi])
    found = error_patterns.find([Case({"x": a}, a, a * (1 + 1e-8), 1e-10, 0.0)])
    assert found.name != "factor"


def test_where_some_results_are_right_the_words_are_about_the_others(rng):
    given = [
        Case({"n": n}, {"result": a, "second call": a + 9}, {"result": 3 * a, "second call": a + 9}, 0, 0)
        for n in (2, 3)
        for a in [rng.normal(size=(2, n))]
    ]
    assert (
        error_patterns.find(given).words
        == "Some results are right. In the others: every number is 3 times what was expected."
    )


def test_entries_from_anywhere_are_in_no_place(rng):
    """A sample of a large result: its second half is wrong by chance, and its factor is a fact."""
    a = rng.normal(size=(2, 8))
    for came, name in ((np.stack([a[0], 3 + a[1] ** 2]), None), (3 * a, "factor")):
        case = Case({"n": 2}, a, came, 1e-9, 1e-9, scattered=True)
        found = error_patterns.find([case])
        assert (found and found.name) == name
        if name is None:
            assert error_patterns.find([Case({"n": 2}, a, came, 1e-9, 1e-9)]).name == "part"


STRANGE = [
    None,
    "word",
    True,
    7,
    10**400,
    float("nan"),
    1e308,
    [],
    [[1.0], [2.0, 3.0]],
    ((1.0,), [np.ones(2)]),
    {"a": 1},
    np.ones((0, 3)),
    np.ones((1, 2, 3, 4, 5)),
    np.full((3, 4), np.inf),
    np.ones((3, 4), dtype=complex) * 1j,
    np.ones((3, 4), dtype=bool),
    np.arange(12, dtype=np.uint8).reshape(3, 4),
    np.float16(3),
    torch.ones(3, 4, dtype=torch.bfloat16),
]


@pytest.mark.parametrize("number", range(len(STRANGE)))
def test_whatever_came_costs_no_more_than_a_sentence(rng, number):
    for expected in (rng.normal(size=(3, 4)), truths((3, 4)), 2.5, (rng.normal(size=3), rng.normal(size=(2, 3)))):
        given = [Case({"x": other}, expected, STRANGE[number], 1e-9, 1e-12) for other in STRANGE]
        assert error_patterns.find(given) is None or error_patterns.find(given).words
        error_patterns.traits_of_failing_inputs([{"x": other} for other in STRANGE], [{"x": STRANGE[number]}] * 2)


def test_the_relation_of_the_one_result_that_is_wrong_is_told_with_it(rng):
    pairs = [(rng.normal(size=3), rng.uniform(1, 2, size=4)) for _ in range(2)]
    found = error_patterns.find([Case({}, (a, b), (a, np.log(b)), 1e-9, 1e-12) for a, b in pairs])
    assert (found.name, found.exact) == ("one of several", True) and "logarithm" in found.words


def test_where_all_of_several_results_are_wrong_the_last_is_looked_at_alone(rng):
    pairs = [(rng.normal(size=3), rng.uniform(1, 2, size=4)) for _ in range(2)]
    wrong = [(np.sort(a) ** 3 + 7 * rng.normal(), 2 * b) for a, b in pairs]
    found = error_patterns.find([Case({}, *sides, 1e-9, 1e-12) for sides in zip(pairs, wrong)])
    assert found.name == "factor" and not found.exact and found.words.startswith("Result 2 of 2: ")


def test_an_empty_row_that_is_filled_is_not_said_to_have_to_sum_to_one():
    expected, got = np.array([[0.25, 0.75], [0.0, 0.0]]), np.array([[0.25, 0.75], [0.5, 0.5]])
    found = error_patterns.find([Case({}, expected, got, 1e-9, 1e-12)] * 2)
    assert "should be all zeros" in found.words
