"""Wrong answers as edits of a reference's text: what they compute, and which edits are refused at import."""

from __future__ import annotations

import importlib.util
import inspect
import sys

import numpy as np
import pytest

from course.errors import CourseError
from course.kit.edits import edit
from course.kit.exercise import Exercise

SOLUTIONS = '''
"""Reference answers of a toy chapter."""

import numpy as np

OFFSET = 10.0


def centered(x):
    """Subtract the mean of x; the mean of x is a number."""
    return x - x.mean()


def scaled(x, factor=2.0):
    """Multiply centered numbers.

    factor: x is multiplied by it
    """
    shifted = centered(x)
    return shifted * factor


class Scaler:
    """Multiplies by a factor."""

    def __init__(self, factor):
        """Keep the factor."""
        super().__init__()
        self.factor = factor

    def __call__(self, x):
        return centered(x) * self.factor
'''
X = np.array([1.0, 2.0, 6.0])
UPWARD = 1.0


@pytest.fixture
def solutions(tmp_path, monkeypatch):
    path = tmp_path / "toy_solutions.py"
    path.write_text(SOLUTIONS, "utf-8")
    spec = importlib.util.spec_from_file_location("toy_solutions", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "toy_solutions", module)
    spec.loader.exec_module(module)
    return module


def wrong(reference, *edits, **options):
    exercise = Exercise(reference, section="A")
    exercise.mistakes(*edits, **options)
    return exercise.misconceptions


def test_the_wrong_answer_is_the_reference_with_the_edit(solutions):
    (mistake,) = wrong(solutions.scaled, edit("* factor", "/ factor", "Multiply.", see="B"))
    assert (mistake.text, mistake.section) == ("Multiply.", "B")
    assert np.array_equal(mistake.wrong(X), (X - 3) / 2) and np.array_equal(solutions.scaled(X), (X - 3) * 2)
    assert mistake.wrong.__name__ == "scaled" and "shifted / factor" in inspect.getsource(mistake.wrong)


def test_several_edits_go_together_and_apply_to_the_original_text(solutions):
    both = edit("* factor", "/ factor + shifted", "Multiply.", also={"centered(x)": "x"})
    (mistake,) = wrong(solutions.scaled, both)
    assert np.array_equal(mistake.wrong(X), X / 2 + X)


def test_an_edit_for_each_value_is_one_mistake_per_value_in_order(solutions):
    found = wrong(solutions.scaled, edit("* factor", "* factor + {}", "Added.", each=(1, 1e-5, "x[0]")))
    assert [float(mistake.wrong(X)[0]) for mistake in found] == [-3.0, -4 + 1e-5, -3.0]
    assert {mistake.text for mistake in found} == {"Added."}


def test_an_edit_without_values_may_contain_braces(solutions):
    (mistake,) = wrong(solutions.scaled, edit("* factor", "* {2.0: 3.0}[factor]", "Looked up."))
    assert np.array_equal(mistake.wrong(X), (X - 3) * 3)


def test_a_definition_that_the_reference_needs_can_be_edited(solutions):
    """Its own text comes first: `x.mean()` is in another definition."""
    for reference, called in ((solutions.scaled, lambda f: f(X)), (solutions.Scaler, lambda cls: cls(2.0)(X))):
        (mistake,) = wrong(reference, edit("x.mean()", "x.max()", "The mean."))
        assert np.array_equal(called(mistake.wrong), (X - 6) * 2)
    assert np.array_equal(solutions.centered(X), X - 3)


def test_a_class_is_edited_as_a_function_is(solutions):
    (mistake,) = wrong(solutions.Scaler, edit("* self.factor", "+ self.factor", "Multiply."))
    assert np.array_equal(mistake.wrong(2.0)(X), X - 1)
    assert mistake.wrong is mistake.wrong, "made once"


def test_new_text_may_name_what_the_solutions_and_the_exercises_define(solutions):
    found = wrong(
        solutions.scaled,
        edit("* factor", "* factor + OFFSET", "Added."),
        edit("* factor", "* factor + UPWARD", "Added."),
        see="C",
    )
    assert [float(mistake.wrong(X)[0]) for mistake in found] == [6.0, -3.0]
    assert {mistake.section for mistake in found} == {"C"}


@pytest.mark.parametrize(
    "before, also, words",
    [
        ("* scale", {}, r"`\* scale` is not in the reference of scaled"),
        ("factor", {}, "`factor` occurs 2 times in the reference of scaled"),
        ("", {}, "`` is not in the reference of scaled"),
        ("multiplied by it", {}, "`multiplied by it` is not in"),  # a docstring
        ("shifted * factor", {"* factor": ""}, "two of its texts overlap in the reference of scaled"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused_at_import_with_its_line(solutions, before, also, words):
    line = inspect.currentframe().f_lineno + 1
    misfit = edit(before, "", "A sentence.", also=also)
    with pytest.raises(CourseError, match=f"^tests/course/kit/test_edits.py, line {line}: {words}"):
        wrong(solutions.scaled, misfit)


def test_the_usual_properties_have_their_probe_title_and_one_point():
    exercise = Exercise(np.negative, section="A")
    exercise.unchanged(lambda rng: dict(x=rng.normal(size=3)))
    exercise.gradients(lambda rng: [], points=2)
    exercise.any_device(lambda rng: [], title="works on a GPU", rtol=1e-3)
    exercise.refuses(lambda rng: [dict(x=1), dict(x=2)], hint="Raise.")
    assert [p.title for p in exercise.properties] == [
        "leaves its inputs as they were",
        "lets gradients through",
        "works on a GPU",
        "refuses sizes that do not fit",
    ]
    assert [p.points for p in exercise.properties] == [1, 2, 1, 1]
    assert exercise.properties[2].rtol == 1e-3 and exercise.properties[3].hint == "Raise."
    assert len(exercise.inputs(exercise.properties[0], 1)) == 1 and len(exercise.inputs(exercise.properties[3], 1)) == 2
