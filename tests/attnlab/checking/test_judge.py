"""From outcomes to findings: a mistake is named when the evidence is there, and never on a guess."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

from attnlab.check import examine, material_of, outcomes_of
from attnlab.checking import judge, probes
from attnlab.checking.report import as_text
from course import catalog
from course.kit.exercise import Exercise
from solutions.positions import LearnedPositions
from tests.course.toy_exercise import doubled, make
from tests.unseen.parts import changed


def shares(x, axis=-1):
    """Reference of the second toy: a stable softmax."""
    x = np.asarray(x, dtype=float)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def shares_exercise() -> Exercise:
    exercise = Exercise(shares, section="Why")

    @exercise.property("sums to one", points=2, rtol=1e-11, hint="Divide by the sum.")
    def sums(rng):
        yield dict(x=rng.normal(size=(3, 4)))
        yield dict(x=rng.normal(size=(3, 4)), axis=0)

    @exercise.property("survives a thousand", points=1, hint="Subtract the maximum.")
    def large(rng):
        yield dict(x=np.array([1000.0, 999.0]))

    @exercise.property("leaves its input", points=1, probe=probes.unchanged, hint="Copy.")
    def pure(rng):
        yield dict(x=rng.normal(size=3))

    @exercise.misconception("No maximum.")
    def no_maximum(x, axis=-1):
        return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)

    @exercise.misconception("Epsilon.")
    def epsilon(x, axis=-1):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / (e.sum(axis=axis, keepdims=True) + 1e-8)

    @exercise.misconception("No axis.")
    def no_axis(x, axis=-1):
        return shares(x)

    @exercise.misconception("No keepdims.")
    def no_keepdims(x, axis=-1):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis)

    return exercise


MATERIAL = shares_exercise().material()
TOY = make().material()


def report(answer, material=MATERIAL, **options):
    return examine(answer, material, **options)


def names(answer, material=MATERIAL) -> list:
    return [finding.misconception for finding in report(answer, material).findings]


def relabelled(x, axis=-1):
    """Right on one of the cases on which an epsilon is wrong."""
    return shares(x) if x.shape == (3, 4) and axis == 0 else np.roll(shares(x, axis), 1, axis)


def other_cause(x, axis=-1):
    """The words of NumPy that a missing `keepdims` leads to, by another cause."""
    return shares(x, axis) + np.ones((3, 4)) / np.ones(3) if x.ndim == 2 else shares(x) * 1.5


@pytest.mark.parametrize(
    "answer",
    [
        # Single precision is off by about 1e-8, as the epsilon is: too near for a tolerance, not for the digits.
        lambda x, axis=-1: shares(np.float32(x)).astype("f4").astype("f8"),
        lambda x, axis=-1: np.exp(x) / (np.exp(x).sum(axis=-1, keepdims=True) + 0.5),
        lambda x, axis=-1: shares(x) * np.nan,
        other_cause,
        relabelled,
    ],
    ids=["single precision", "two mistakes in one place", "nan alone", "an exception alone", "right where it is wrong"],
)
def test_without_proof_of_a_certain_mistake_no_name_is_given(answer):
    first, _, own = names(answer)
    assert first is None and own is None


def test_two_mistakes_are_paid_for_twice_and_named_where_numbers_prove_it():
    """Nan on the thousand proves nothing as long as something else is wrong, too."""

    def both(x, axis=-1):
        return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)

    assert names(both) == ["No axis.", None, None] and points(both) == [0.0, 0.0, 1.0]


def test_nan_among_right_numbers_is_proof_enough():
    exercise = shares_exercise()
    exercise.property("far rows", points=1)(lambda rng: [dict(x=np.array([[1000.0, 999.0], [-1000.0, -1001.0]]))])

    @exercise.misconception("One maximum for all.")
    def one_maximum(x, axis=-1):
        e = np.exp(x - x.max())
        return e / e.sum(axis=axis, keepdims=True)

    def in_place_too(x, axis=-1):
        x -= x.max()
        return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)

    assert names(in_place_too, exercise.material())[2:] == [None, "One maximum for all."]


def test_a_refusal_in_other_words_is_the_same_mistake():
    twice = Exercise(doubled, section="Doubling")

    @twice.property("doubles", points=1)
    def cases(rng):
        yield dict(x=np.zeros(3))
        yield dict(x=rng.normal(size=3))

    @twice.misconception("Zero is refused. Twice nothing is nothing.")
    def refuses_zero(x, times=1):
        if not x.any():
            raise ValueError("zero")
        return 2 * x

    def refuses_in_other_words(x, times=1):
        if not x.any():
            raise ValueError("nothing to double here")
        return x + x

    (finding,) = examine(refuses_in_other_words, twice.material()).findings
    assert finding.misconception == "Zero is refused. Twice nothing is nothing."


# Names of mistakes of `doubled` that are small or large numbers' own -------------------------------------------------


def doubled_on(small: int, large: int, *mistakes) -> dict:
    """The material of an exercise on so many small and large inputs, with mistakes: text and wrong answer."""
    exercise = Exercise(doubled, section="S")
    exercise.property("small", points=1)(lambda rng: [dict(x=rng.normal(size=3)) for _ in range(small)])
    exercise.property("large", points=1)(lambda rng: [dict(x=1000 + rng.normal(size=3 + n)) for n in range(large)])
    for text, wrong in mistakes:
        exercise.misconception(text)(wrong)
    return exercise.material()


def by_size(for_small, for_large):
    return lambda x, times=1: (for_small if abs(x).max() < 100 else for_large)(x)


def plus(number):
    return lambda x: 2 * x + number


def test_of_two_mistakes_that_fit_equally_well_none_is_named():
    mistakes = [(f"{n} is added.", by_size(plus(1.5), plus(n))) for n in (1.25, 2.25)]
    assert names(by_size(plus(1.5), plus(9.75)), doubled_on(2, 1, *mistakes)) == [None, None]


def test_no_name_is_taken_from_a_special_case_while_the_basic_one_fails_unexplained():
    def tripled(x):
        return 3 * x

    material = doubled_on(2, 2, ("Large ones are tripled.", by_size(plus(0), tripled)))
    assert names(by_size(plus(0), tripled), material)[1] == "Large ones are tripled."
    assert names(by_size(lambda x: x**2 + 0.7, tripled), material) == [None, None]


def test_a_name_that_fits_one_case_of_several_is_not_given():
    material = doubled_on(1, 1, ("A third is added.", by_size(plus(1 / 3), plus(1 / 3))))
    assert names(by_size(plus(1 / 3), plus(0.9)), material) == [None, None]


def test_a_name_is_not_given_where_the_answer_is_mostly_wrong_otherwise_than_that_mistake():
    half, alone = by_size(plus(0.5), plus(0.5)), by_size(np.copy, plus(0))
    material = doubled_on(4, 2, ("Half is added.", half), ("Small ones are left alone.", alone))
    assert names(half, material) == ["Half is added."] * 2
    assert names(by_size(np.copy, plus(0.5)), material)[1] is None


# Refusals, stubs, and what a student reads ---------------------------------------------------------------------------


def refuse(x, times=1):
    raise ValueError


def with_zeros() -> dict:
    exercise = make()
    exercise.property("gives zeros for zeros", points=1)(lambda rng: [dict(x=np.zeros(3))])
    return exercise.material()


@pytest.mark.parametrize(
    "answer, material, p, words",
    [
        (refuse, TOY, 2, "refusing everything earns nothing"),
        (lambda x, times=1: np.zeros(3), with_zeros(), 3, "same result whatever it is given"),
    ],
)
def test_what_is_right_by_chance_earns_nothing_and_is_told_so(answer, material, p, words):
    found = report(answer, material)
    assert found.points == 0 and words in found.findings[p].detail and found.findings[p].hint == ""


def test_refusing_counts_once_anything_is_right():
    def one_dimension(x, times=1):
        if np.ndim(x) != 1:
            raise ValueError
        return 2.0 * x

    assert [finding.passed for finding in report(one_dimension, TOY).findings] == [False, True, True]


def test_a_stub_is_not_done_on_one_line_either():
    def stub(x, axis=-1):
        raise NotImplementedError

    def short(x, axis=-1): raise NotImplementedError  # fmt: skip  # noqa: E704

    for answer in (stub, short):
        found = report(answer)
        assert found.not_done and found.points == 0 and not found.passed


def in_another_cell(x, axis=-1):
    cell: dict = {}  # in a notebook, each definition has its own cell, and so its own file
    exec(compile("def helper():\n    raise NotImplementedError", "another cell", "exec"), cell)
    return cell["helper"]()


def refuses(x, axis=-1):
    raise ValueError("x is too small")


def refuses_on_one_line(x, axis=-1):
    if True: raise ValueError  # fmt: skip  # noqa: E701


@pytest.mark.parametrize(
    "answer, words",
    [
        (in_another_cell, "calls something that is not done yet"),
        (lambda x, axis=-1: torch.softmax(torch.arange(3), dim=0).numpy(), "implemented for"),  # not a stub
        (lambda x, axis=-1: x / np.ones(7), "keepdims=True"),
        (lambda x, axis=-1: ValueError("no"), "write `raise` instead of `return`"),
        (lambda x, axis=-1: shares(x, axis) if x.any() and x > 0 else x, "write `&` for `and`"),
        (refuses, "refuses an input that it should accept"),
        (refuses_on_one_line, "refuses an input that it should accept"),
    ],
)
def test_what_an_exception_means_is_told(answer, words):
    found = report(answer)
    assert words in " ".join(as_text(found).split()) and not found.not_done


def test_of_a_hidden_exception_the_shapes_of_the_input_are_told_and_not_its_words():
    found = report(lambda x, axis=-1: x @ np.ones(77), show_cases=False)
    assert "`x` (3, 4)" in found.findings[0].detail and "77" not in found.findings[0].detail


def test_what_fails_where_an_argument_is_left_out_is_told_so():
    def needs_it(x, axis=None):
        return shares(x, axis + 0)

    exercise = Exercise(shares, section="S")
    exercise.property("with", points=1)(lambda rng: [dict(x=rng.normal(size=(2, 3)), axis=0) for _ in range(4)])
    exercise.property("without", points=1)(lambda rng: [dict(x=rng.normal(size=(2, 3))) for _ in range(4)])
    assert (
        report(needs_it, exercise.material()).findings[1].fact
        == "In all cases that fail `axis` is not given, and in no others."
    )


def test_the_smallest_failing_input_is_shown_with_what_was_expected_and_what_came():
    exercise = Exercise(doubled, section="S")

    @exercise.property("doubles", points=1)
    def doubles(rng):
        yield dict(x=np.arange(9.0))
        yield dict(x=np.array([1.0, 2.0]))
        yield dict(x=np.arange(5.0), times=2)

    (finding,) = report(lambda x, times=1: x + 1, exercise.material()).findings
    assert finding.detail.split("\n") == [
        "The result is 3 at [1] where 4 was expected.",
        "x        = [1., 2.]",
        "expected = [2., 4.]",
        "yours    = [2., 3.]",
    ]


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, times=1: x + 1,
        lambda x, times=1: x / [0],
        lambda x, times=1: str(x),
        lambda x, times=1: x[:1],
        lambda x, times=1: x * np.nan,
        lambda x, times=1: [*x],
    ],
)
def test_hidden_cases_are_never_shown(answer):
    for finding in report(answer, TOY, show_cases=False).findings:
        words = re.sub(r"\(\d+,[ \d]*\)", "", finding.detail)  # shapes may be told
        assert not any(digit in words for digit in "0123456789"), finding.detail


def test_no_answer_on_a_case_costs_its_property_alone():
    outcomes = [[{"value": e["value"]} for e in p["expected"]] for p in TOY["properties"]]
    outcomes[0][1] = None
    found = judge.judge(TOY, outcomes, show_cases=False)
    assert [f.passed for f in found.findings] == [False, True, True] and found.findings[
        0
    ].detail == "There was no answer."


@pytest.mark.parametrize(
    "nonsense",
    [
        {"value": 3},
        {"value": {}},
        {"value": {"result": None}},
        {"refused": "x"},
        {"value": {"result": {"a": 1}, "more": 2}},
        {"error": {"type": "E", "message": "", "line": None, "code": None}},
    ],
)
def test_outcomes_of_any_form_are_judged(nonsense):
    for show in (True, False):
        found = judge.judge(TOY, [[nonsense for _ in p["cases"]] for p in TOY["properties"]], show)
        assert found.points == 0


# A mistake is paid for once ------------------------------------------------------------------------------------------


def points(answer, material=MATERIAL) -> list[float]:
    return [finding.points for finding in report(answer, material).findings]


def test_a_named_mistake_costs_the_dearest_line_that_it_breaks_and_no_other():
    found = report(lambda x, axis=-1: shares(x) if x.ndim == 1 else np.exp(x) / np.exp(x).sum(), shares_with_total())
    assert [f.misconception for f in found.findings] == ["One total."] * 2 + [None] * 2
    assert [f.points for f in found.findings] == [0.0, 1.0, 1.0, 1.0] and found.findings[1].follows
    assert not found.passed


def shares_with_total() -> dict:
    exercise = shares_exercise()
    exercise.properties.insert(
        1, exercise.properties[0].__class__(**{**vars(exercise.properties[0]), "points": 1.0, "title": "again"})
    )

    @exercise.misconception("One total.")
    def one_total(x, axis=-1):
        return shares(x) if x.ndim == 1 else np.exp(x) / np.exp(x).sum()

    return exercise.material()


def test_refusing_right_input_is_an_exception_accepting_wrong_input_a_missing_refusal():
    def half(x):
        if len(x) > 2:
            raise ValueError("too long")
        return x / 2

    exercise = Exercise(half, section="Why")
    for length, title in ((2, "accepts two"), (3, "refuses three")):
        exercise.property(title, points=1, probe=probes.error_of)(
            lambda rng, length=length: [dict(x=rng.normal(size=length)) for _ in range(2)]
        )
    exercise.property("halves", points=1)(lambda rng: [dict(x=rng.normal(size=2))])
    material = exercise.material()

    def relations(bound):
        def answer(x):
            if len(x) > bound:
                raise ValueError("too long")
            return x / 2

        return [finding.relation for finding in report(answer, material).findings[:2]]

    assert relations(3) == [None, "refusal"]
    assert relations(1)[0] == "exception"


def test_an_answer_that_refuses_too_much_is_not_told_what_it_should_refuse():
    def half(x):
        if len(x) == 3:
            raise ValueError("three")
        return x / 2

    def refuses_two_as_well(x):
        if len(x) in (2, 3):
            raise ValueError("two or three")
        return x / 2

    exercise = Exercise(half, section="Why")
    exercise.property("halves", points=1)(lambda rng: [dict(x=rng.normal(size=5))])
    exercise.property("refuses three", points=1, probe=probes.error_of, hint="Compare its length with three.")(
        lambda rng: [dict(x=rng.normal(size=2)), dict(x=rng.normal(size=3))]
    )
    found = report(refuses_two_as_well, exercise.material()).findings[1]
    assert "on input that it should accept" in found.detail and found.hint == ""
    accepts_all = report(lambda x: x / 2, exercise.material()).findings[1]
    assert accepts_all.hint == "Compare its length with three."


def size_of(n):
    return 4 * n


def test_a_number_of_the_right_kind_is_paid_for_where_numbers_are_asked_for():
    exercise = Exercise(size_of, section="S")
    exercise.property("counts", points=1)(lambda rng: [dict(n=3), dict(n=5)])
    exercise.property("whole", points=1, probe=probes.whole)(lambda rng: [dict(n=7), dict(n=8)])
    material = exercise.material()
    assert report(lambda n: 3 * n + 1, material).points == 1 and report(lambda n: 4.0 * n, material).points == 1


def test_what_a_relation_does_not_explain_is_paid_for():
    """The numbers are off by a factor, and the input is altered: two mistakes."""

    def triples_in_place(x, axis=-1):
        x[...] = 3 * shares(x, axis)
        return x

    assert [f.follows for f in report(triples_in_place).findings] == [False, True, False]
    assert points(triples_in_place) == [0.0, 1.0, 0.0]


def test_wrong_numbers_do_not_cost_the_points_for_memory_too():
    """A mask that is off by two builds no matrix; an answer with no right number at all earns nothing for that."""
    exercise = catalog.exercise("tiled_attention")
    material = exercise.material()

    def off_by_two(Q, K, V, block_size, causal=False):
        n_q, n_k, parts = Q.shape[1], K.shape[1], []
        for first in range(0, n_q, block_size):
            q = Q[:, first : first + block_size]
            last = n_k if not causal else max(1, min(n_k, first + q.shape[1] + n_k - n_q + 2))
            scores = q @ K[:, :last].mT * Q.shape[-1] ** -0.5
            if causal:
                place = torch.arange(first, first + q.shape[1], device=Q.device)[:, None] + n_k - n_q + 2
                scores = scores.masked_fill(torch.arange(last, device=Q.device) > place, -math.inf)
            parts.append(scores.softmax(-1).nan_to_num() @ V[:, :last])
        return torch.cat(parts, 1)

    def of_memory(answer):
        found = report(answer, material).findings
        return next(finding for finding in found if finding.title == "never builds the whole matrix")

    assert of_memory(off_by_two).passed
    nothing_right = of_memory(lambda Q, K, V, block_size, causal=False: (7 * off_by_two(Q, K, V, block_size)).sin())
    assert not nothing_right.passed and not nothing_right.points and not nothing_right.hint


# The rules, each by itself --------------------------------------------------------------------------------------------


def evidence_of(answer, material=MATERIAL, **options):
    return judge.Evidence(material, outcomes_of(answer, material), **options)


def finding_on(evidence, p: int):
    """A finding as it is before the first rule."""
    prop = evidence.properties[p]
    return judge.Finding(prop["title"], False, 0.0, prop["points"], prop["hint"])


def twice(x, axis=-1):
    return 2 * shares(x, axis)


def spoils(x, axis=-1):
    x += 1.0
    return shares(x, axis)


def test_every_rule_has_a_test():
    rules = {rule.__name__ for rule in (*judge.RULES, *judge.RULES_FOR_ALL)}
    assert {f"test_rule_{rule}" for rule in rules} <= globals().keys()


def test_rule_pass_if_right():
    right, wrong = evidence_of(shares), evidence_of(twice)
    finding = finding_on(right, 0)
    assert judge.pass_if_right(finding, right, 0) and finding.passed and finding.points == 2
    finding = finding_on(wrong, 0)
    assert not judge.pass_if_right(finding, wrong, 0) and not finding.passed and finding.points == 0
    constant = evidence_of(lambda x, axis=-1: np.array([1.0, 0.0, 0.0]))
    assert not judge.pass_if_right(finding_on(constant, 1), constant, 1)


def test_rule_pass_if_numbers_are_charged_elsewhere():
    for answer, passes in ((twice, True), (lambda x, axis=-1: x, False), (spoils, False)):
        evidence = evidence_of(answer)
        finding = finding_on(evidence, 2)
        assert judge.pass_if_numbers_are_charged_elsewhere(finding, evidence, 2) is passes
        assert finding.points == passes
    evidence = evidence_of(twice)
    assert not judge.pass_if_numbers_are_charged_elsewhere(finding_on(evidence, 0), evidence, 0)


def test_rule_classify_failure():
    for answer, p, kind, relation in (
        (twice, 0, "value", None),
        (lambda x, axis=-1: None, 0, "none", "no return"),
        (spoils, 2, "value", "changed"),
    ):
        evidence = evidence_of(answer)
        finding = finding_on(evidence, p)
        assert not judge.classify_failure(finding, evidence, p) and (finding.kind, finding.relation) == (kind, relation)


def test_rule_say_what_is_without_merit():
    for answer, says in ((lambda x, axis=-1: x, True), (twice, False)):
        evidence = evidence_of(answer)
        finding = finding_on(evidence, 2)
        assert judge.say_what_is_without_merit(finding, evidence, 2) is says
        assert finding.detail.startswith("The input is left as it was, but") is says and bool(finding.hint) is not says


def test_rule_name_misconception():
    for answer, text in ((lambda x, axis=-1: shares(x), "No axis."), (twice, None)):
        evidence = evidence_of(answer)
        finding = finding_on(evidence, 0)
        assert judge.name_misconception(finding, evidence, 0) is (text is not None)
        assert (finding.misconception, finding.section) == ((text, "Why") if text else (None, None))


def test_rule_describe_difference():
    for show_cases, lines in ((True, 4), (False, 1)):
        evidence = evidence_of(twice, show_cases=show_cases)
        finding = finding_on(evidence, 1)
        assert not judge.describe_difference(finding, evidence, 1) and len(finding.detail.splitlines()) == lines


def test_rule_state_pattern():
    for show_cases, words in ((True, "2 times"), (False, "same factor")):
        evidence = evidence_of(twice, show_cases=show_cases)
        finding = finding_on(evidence, 0)
        assert not judge.state_pattern(finding, evidence, 0)
        assert finding.relation == "factor" and words in finding.fact
    finding.kind, finding.fact = "idle", ""
    judge.state_pattern(finding, evidence, 0)
    assert finding.fact == ""


def test_rule_locate_error():
    def raises(x, axis=-1):
        return x / [0] / []

    for answer, place in ((raises, "return x / [0] / []"), (twice, "")):
        evidence = evidence_of(answer)
        finding = finding_on(evidence, 0)
        judge.classify_failure(finding, evidence, 0)
        assert judge.locate_error(finding, evidence, 0) and finding.place.endswith(place)
        assert bool(finding.place) is bool(place)


def judged(answer, *rules):
    """The report on an answer, or its evidence, after the rules for each property and some of those for all."""
    evidence = answer if isinstance(answer, judge.Evidence) else evidence_of(answer)
    found = judge.no_answer(MATERIAL, "")
    found.findings = [judge._judged(evidence, p) for p in range(3)]
    for rule in rules:
        rule(found, evidence)
    return found


def test_rule_drop_hints_beside_the_point():
    first, second, own = judged(
        lambda x, axis=-1: spoils(x, axis) ** 2 + 0.3, judge.drop_hints_beside_the_point
    ).findings
    assert first.hint and not second.hint  # the second may be wrong for the same reason
    assert own.hint == "Copy."
    nothing = judge.Evidence(MATERIAL, [[None] * len(prop["cases"]) for prop in MATERIAL["properties"]])
    assert not any(f.hint for f in judged(nothing, judge.drop_hints_beside_the_point).findings)


def test_rule_charge_each_mistake_once():
    assert [f.points for f in judged(twice).findings] == [0, 0, 1]
    assert [f.points for f in judged(twice, judge.charge_each_mistake_once).findings] == [0, 1, 1]


def test_rule_cap_at_half():
    def right_on_rows(x, axis=-1):
        return shares(x) if x.ndim == 1 else twice(x)

    for answer, points in ((twice, [2, 0, 0]), (right_on_rows, [2, 1, 1])):
        found, evidence = judged(answer), evidence_of(answer)
        for finding in found.findings:
            finding.follows, finding.points = True, finding.max_points
        judge.cap_at_half(found, evidence)
        assert [finding.points for finding in found.findings] == points


# What one mistake costs ----------------------------------------------------------------------------------------------


def test_right_numbers_of_another_dtype_are_paid_for_once():
    assert points(lambda x, axis=-1: shares(x, axis).astype("f4")) == [0.0, 1.0, 1.0]


def test_wrong_numbers_of_another_dtype_are_paid_for_everywhere():
    assert points(lambda x, axis=-1: (shares(x, axis) ** 2 + 0.3).astype("f4"))[:2] == [0.0, 0.0]


def test_a_named_mistake_that_lets_no_result_come_leaves_a_quarter_of_the_other_lines():
    with_an_axis_more = changed(LearnedPositions, "torch.randn(max_len", "torch.randn(1, max_len")
    found = report(with_an_axis_more, material_of("LearnedPositions"))
    assert {finding.kind for finding in found.findings} == {"refused"}
    assert all(finding.misconception for finding in found.findings)
    dearest = max(finding.max_points for finding in found.findings)
    assert found.points == (found.max_points - dearest) / 4
