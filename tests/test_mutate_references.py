"""The scripts that make mutants of the references, and that say what the checks make of them."""

import ast
import sys
from pathlib import Path

import pytest

from attnlab.checking.judge import Finding, Report
from course import catalog
from course.kit.exercise import Exercise

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

import mutate_references as script  # noqa: E402

from attnlab.checking.hunting.mutants import mutants  # noqa: E402

TOY = '''
def toy(x: Tensor, y: Tensor, mask: Mask = None, causal: bool = False):
    """Not code: 1 + 1."""
    if x.ndim < 2 or not causal:
        raise ValueError(f"{x.ndim + 1} dimensions")
    left, right = x.chunk(2, dim=-1)
    scores = (left @ right).max(axis=-1, keepdims=True) / np.sqrt(x.shape[-1])
    scores = np.where(mask, scores[1:, : len(y)], -np.inf)
    return softmax(scores, y)
'''


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        ("constant", "def toy(x: Tensor, y: Tensor, mask: Mask=None, causal: bool=True):"),
        ("comparison", "if x.ndim <= 2 or not causal:"),
        ("operator", "if x.ndim < 2 and (not causal):"),
        ("condition dropped", "if x.ndim < 2:"),
        ("sign or not dropped", "if x.ndim < 2 or causal:"),
        ("condition", "if not (x.ndim < 2 or not causal):"),
        ("constant", "if x.ndim < 3 or not causal:"),
        ("items exchanged", "right, left = x.chunk(2, dim=-1)"),
        ("axis", "left, right = x.chunk(2, dim=0)"),
        ("name", "left, right = y.chunk(2, dim=-1)"),
        ("operator", "scores = (left * right).max(axis=-1, keepdims=True) / np.sqrt(x.shape[-1])"),
        ("operands exchanged", "scores = (right @ left).max(axis=-1, keepdims=True) / np.sqrt(x.shape[-1])"),
        ("transpose", "scores = (left @ right.mT).max(axis=-1, keepdims=True) / np.sqrt(x.shape[-1])"),
        ("name", "scores = (left @ left).max(axis=-1, keepdims=True) / np.sqrt(x.shape[-1])"),
        ("neighbor", "scores = (left @ right).min(axis=-1, keepdims=True) / np.sqrt(x.shape[-1])"),
        ("argument dropped", "scores = (left @ right).max(keepdims=True) / np.sqrt(x.shape[-1])"),
        ("constant", "scores = (left @ right).max(axis=-1, keepdims=False) / np.sqrt(x.shape[-1])"),
        ("operand dropped", "scores = (left @ right).max(axis=-1, keepdims=True)"),
        ("call dropped", "scores = (left @ right).max(axis=-1, keepdims=True) / x.shape[-1]"),
        ("axis", "scores = (left @ right).max(axis=-1, keepdims=True) / np.sqrt(x.shape[0])"),
        ("mask inverted", "scores = np.where(~mask, scores[1:, :len(y)], -np.inf)"),
        ("call dropped", "scores = mask"),
        ("slice bound", "scores = np.where(mask, scores[1:, :], -np.inf)"),
        ("slice bound", "scores = np.where(mask, scores[1:, :len(y) - 1], -np.inf)"),
        ("constant", "scores = np.where(mask, scores[0:, :len(y)], -np.inf)"),
        ("sign or not dropped", "scores = np.where(mask, scores[1:, :len(y)], np.inf)"),
        ("finite", "scores = np.where(mask, scores[1:, :len(y)], -1000000000.0)"),
        ("statement dropped", "pass"),
        ("arguments exchanged", "return softmax(y, scores)"),
        ("argument dropped", "return softmax(scores)"),
    ],
)
def test_one_thing_is_changed_at_a_time(kind, after):
    assert (kind, after) in {(mutant.kind, mutant.after) for mutant in mutants(TOY)}


def test_mutants_compile_differ_and_keep_docstring_messages_and_parameters():
    made = list(mutants(TOY))
    original = ast.unparse(ast.parse(TOY))
    assert original not in {mutant.source for mutant in made}
    assert len({mutant.source for mutant in made}) == len(made)
    for mutant in made:
        compile(mutant.source, "mutant", "exec")
        (function,) = ast.parse(mutant.source).body
        assert [a.arg for a in function.args.args] == ["x", "y", "mask", "causal"]
        assert ast.get_docstring(function) == "Not code: 1 + 1."
        assert "raise" not in mutant.source or "f'{x.ndim + 1} dimensions'" in mutant.source


def test_a_definition_that_would_only_be_missed_is_not_dropped():
    dropped = [mutant.before for mutant in mutants(TOY) if mutant.kind == "statement dropped"]
    assert not [before for before in dropped if before.startswith("left, right")]
    assert "scores = np.where(mask, scores[1:, :len(y)], -np.inf)" in dropped


# What the checks make of them.


def halvings(n):
    steps = 0
    while n > 1:
        n = n // 2
        steps = steps + 1
    return steps


def capped(n):
    return min(n, 900)


def exercise_on(reference, *numbers) -> Exercise:
    """An exercise with one property, on these numbers and on one drawn below a thousand."""
    made = Exercise(reference, section="")

    @made.property("gives the right number", points=1)
    def cases(rng):
        yield from (dict(n=n) for n in (*numbers, int(rng.integers(1000))))

    return made


def by_change(exercise: Exercise, *after: str) -> dict[str, dict]:
    """The records of the mutants of an exercise that have these lines."""
    source = Path(sys.modules[exercise.reference.__module__].__file__).read_text("utf-8")
    (node,) = (n for n in ast.parse(source).body if getattr(n, "name", None) == exercise.name)
    wanted = [mutant for mutant in mutants(ast.unparse(node)) if mutant.after in after]
    records = {record["after"]: record for record in script.tried(exercise, wanted)}
    assert set(records) == set(after)
    return records


def test_a_mutant_without_an_end_is_ended(monkeypatch):
    monkeypatch.setattr(script, "SECONDS", 1)
    records = by_change(exercise_on(halvings, 8), "n = n // 1", "steps = steps * 1")
    assert records["n = n // 1"]["verdict"] == "endless"
    assert records["steps = steps * 1"]["verdict"] == "neither"


def test_a_mutant_that_passes_agrees_or_survives():
    records = by_change(exercise_on(capped), "return min(900, n)", "return min(n, 901)", "return max(n, 900)")
    assert records["return min(900, n)"]["verdict"] == "agree"
    assert records["return min(900, n)"]["inputs"] > 100
    assert records["return min(n, 901)"]["verdict"] == "survive"
    assert "901" in records["return min(n, 901)"]["feedback"]
    assert records["return max(n, 900)"]["verdict"] == "neither"


def total(x, scale=1.0):
    return (x * scale).sum(axis=-1)


def test_a_mutant_that_agrees_on_the_kinds_of_the_exercise_may_differ_beyond_them():
    made = Exercise(total, section="")

    @made.property("sums", points=1)
    def cases(rng):
        yield dict(x=rng.normal(size=3), scale=2.0)

    records = by_change(made, "def total(x, scale=2.0):", "return (x * scale).sum(axis=0)")
    default, axis = records["def total(x, scale=2.0):"], records["return (x * scale).sum(axis=0)"]
    assert default["verdict"] == "beyond" and "without scale" in default["feedback"]
    assert axis["verdict"] == "beyond" and "an axis more on x" in axis["feedback"]


def test_known_mutants_of_softmax_get_their_verdicts():
    top = "top = scores.max(axis={}, keepdims=True, initial=-{})"
    changes = "powers = np.exp(scores)", top.format(2, "np.inf"), top.format("axis", "1000000000.0")
    records = by_change(catalog.exercise("softmax"), *changes)
    named, crash, agree = (records[change] for change in changes)
    assert named["verdict"] == "named" and "No maximum is subtracted" in named["named"][0]
    assert "No maximum is subtracted" in named["feedback"]
    assert crash["verdict"] == "crash" and "axis 2 is out of bounds" in crash["feedback"]
    assert agree["verdict"] == "agree"
    assert {record["before"] for record in (crash, agree)} == {top.format("axis", "np.inf")}


def test_a_name_counts_before_a_relation_and_a_relation_before_an_exception():
    def report(*findings) -> Report:
        return Report("softmax", 3.0, findings=[Finding("right", True, 1.0, 1.0), *findings])

    raised = Finding("one", False, 0.0, 1.0, kind="error", detail="Your code raised ValueError (too short).")
    other = Finding("two", False, 0.0, 1.0, kind="value", detail="The result is 2 where 1 was expected.")
    related = Finding("three", False, 0.0, 1.0, kind="value")
    related.relation = "twice as large"
    named = Finding("four", False, 0.0, 1.0, misconception="It is doubled.", kind="value")
    assert script.classified(report(raised, other, related, named)) == ("named", named)
    assert script.classified(report(raised, other, related)) == ("told", related)
    assert script.classified(report(raised, raised)) == ("crash", raised)
    assert script.classified(report(other, raised)) == ("partly", raised)
    assert script.classified(report(other, other)) == ("neither", other)


def test_the_table_counts_by_chapter_and_the_list_shows_what_was_changed(capsys):
    script.main(["softmax_jacobian", "--list", "named", "--sample", "1", "--seed", "3"])
    header, chapter, everything, _, head, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["made", *script.PASSING, "fail", *script.FAILING]
    counts = dict(zip(header.split(), map(int, chapter.split()[1:])))
    assert chapter.split()[0] == "softmax" and everything.split()[1:] == chapter.split()[1:]
    assert counts["made"] == counts["fail"] + sum(counts[verdict] for verdict in script.PASSING)
    assert counts["fail"] == sum(counts[verdict] for verdict in script.FAILING)
    assert head.startswith("softmax_jacobian (") and head.endswith("): named")
    assert lines[0].startswith("- ") and lines[1].startswith("+ ") and " no   " in lines[2]


def test_points_are_those_of_the_registered_misconceptions(capsys):
    script.main(["softmax_jacobian", "--points"])
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:2] == ["softmax_jacobian", str(len(catalog.exercise("softmax_jacobian").misconceptions))]
    assert int(row[2]) <= int(row[1]) and 0 <= int(row[3].rstrip("%")) < 100
