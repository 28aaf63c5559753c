"""Answers that are alike are found whatever their names and layout; what is expected to be alike is not counted."""

import json

import pytest

from autograder.__main__ import main
from autograder.reports import similarity
from tests.conftest import write_files

STUB = 'def softmax(x, axis=-1):\n    """Weights that add up to one."""\n    raise NotImplementedError'
REFERENCE = """def softmax(x, axis=-1):
    shifted = x - x.max(axis=axis, keepdims=True)
    weights = np.exp(shifted)
    return weights / weights.sum(axis=axis, keepdims=True)"""
COPIED = """def softmax(x, axis=-1):
    if x.ndim == 1:
        pieces = [float(v) for v in x]
        biggest = sorted(pieces)[-1]
        grown = [np.exp(v - biggest) for v in pieces]
        return np.array([g / sum(grown) for g in grown])
    rows = np.stack([softmax(row) for row in np.moveaxis(x, axis, -1)])
    return np.moveaxis(rows, -1, axis)"""
RENAMED = '''def softmax(x, axis=-1):
    """My own work."""
    if x.ndim  ==  1:
        # take them apart
        values = [float(item) for item in x]
        top = sorted(values)[-1]
        e = [np.exp(item - top) for item in values]
        return np.array([one / sum(e) for one in e])

    parts = np.stack([softmax(line) for line in np.moveaxis(x, axis, -1)])
    return np.moveaxis(parts, -1, axis)'''
OTHER = """def softmax(x, axis=-1):
    order = np.argsort(x, axis=axis)
    out = np.zeros_like(x, dtype=np.float64)
    for index in np.ndindex(*x.shape[:-1]):
        logits = x[index] - np.logaddexp.reduce(x[index])
        out[index] = np.power(np.e, logits)
    assert order.shape == out.shape
    return out"""


def shares(answers: dict[str, str], given: str = f"{STUB}\n{REFERENCE}") -> dict[tuple[str, str], float]:
    return {pair.students: pair.share for pair in similarity.alike(answers, given)[0]}


def test_other_names_comments_and_layout_hide_nothing():
    assert shares({"ada": COPIED, "boris": RENAMED, "chiara": OTHER}) == {("ada", "boris"): 1.0}


def test_answers_like_the_reference_are_not_compared():
    pairs, compared = similarity.alike({"ada": REFERENCE, "boris": REFERENCE, "chiara": OTHER}, f"{STUB}\n{REFERENCE}")
    assert pairs == [] and compared == 1


def own_work(number: int, *, shared: str = "") -> str:
    """An answer that no other student has, and a part that several may have."""
    return f"{shared}\ndef of_{number}(x):\n" + "\n".join(
        f"    x.part_{number}_{line}(x.other_{number}[{line}])" for line in range(6)
    )


def test_what_many_different_answers_have_is_not_counted():
    answers = {f"student{number}": own_work(number, shared=COPIED) for number in range(6)}
    assert shares(answers) == {} and shares(dict(list(answers.items())[:3])) != {}


@pytest.mark.parametrize("copies", [3, 6, 9])
def test_copies_are_one_group_however_many_there_are(copies):
    copied = {f"copy{number}": (COPIED, RENAMED)[number % 2] for number in range(copies)}
    others = {f"other{number}": own_work(number) for number in range(12)}
    assert shares({**others, **copied}) == {tuple(copied): 1.0}


def test_short_answers_that_many_write_in_the_same_way_are_not_a_group():
    short = "def softmax(x, axis=-1):\n    e = np.exp(x - np.amax(x, axis, keepdims=True))\n    return e / e.sum(axis)"
    assert shares({f"student{number}": short for number in range(6)}) == {}


def test_an_answer_that_is_part_of_a_longer_one_is_found():
    assert shares({"ada": COPIED, "boris": f"{OTHER}\n{RENAMED}"}) == {("ada", "boris"): pytest.approx(1.0, abs=0.05)}


@pytest.mark.parametrize("source", ["", '"""' * 5001, "'" * 20_000, "(" * 20_000, "a," * 10_000, "\0def"])
def test_odd_sources_are_read(source):
    assert similarity.alike({"ada": source, "boris": source}, STUB)[1] in (0, 2)


def test_the_command_shows_pairs_by_exercise_and_says_that_they_prove_nothing(tmp_path, capsys):
    def write(path, answer):
        cells = [
            {"cell_type": "code", "source": source, "metadata": {"nbgrader": {"grade_id": name}}}
            for name, source in (
                ("for-the-grader", f"of {path}"),
                ("softmax", answer),
                ("check-softmax", "check(softmax)"),
            )
        ]
        write_files(tmp_path / path, {"softmax.ipynb": json.dumps({"cells": cells})})

    write("source/softmax", REFERENCE)
    write("release/softmax", STUB)
    assert main(["similar", "softmax", "--course", str(tmp_path)]) == 2
    assert "nothing of softmax is graded yet" in capsys.readouterr().err
    for student, answer in {"ada": COPIED, "boris": RENAMED, "chiara": OTHER}.items():
        write(f"autograded/{student}/softmax", answer)
    assert main(["similar", "softmax", "--answers", "--course", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Similarity proves nothing.") and "check-softmax" not in out
    assert "softmax: 3 of 3 answers compared, pairs or groups alike: 1\n  100%  ada and boris" in out
    assert "Not compared" not in out and "for-the-grader" not in out
    assert "        -- boris" in out and "            # take them apart" not in out.split("-- boris")[0]
