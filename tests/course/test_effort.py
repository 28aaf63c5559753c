"""Minutes and difficulty: declared for every exercise, computed for reading."""

import pytest

from course import catalog, chapter, effort, release
from course.kit.exercise import Exercise


@pytest.mark.parametrize("name", catalog.all_exercises())
def test_every_exercise_has_minutes_and_a_difficulty(name):
    exercise = catalog.exercise(name)
    assert exercise.minutes in range(1, 121) and exercise.difficulty in effort.DIFFICULTY


@pytest.mark.parametrize("wrong", [dict(difficulty=4), dict(difficulty="hard"), dict(minutes=0)])
def test_a_value_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="of abs"):
        Exercise(abs, section="x", **wrong)


def test_reading_counts_prose_and_shown_code_but_no_exercise(monkeypatch):
    text = "---\nkernelspec: {name: python3, display_name: Python 3}\n---\n# T\n\n" + "word " * 10 * effort.WORDS
    shown = "\n\n```{code-cell}\n" + "x = 1\n" * 5 * effort.LINES + "```\n"
    folded = shown.replace("x = 1", ":tags: [hide-input]\nx = 1", 1)
    stub = (
        "```{code-cell}\n:tags: [exercise]\ndef f():\n"
        + "    # more\n" * 500
        + "    raise NotImplementedError\n```\n\n"
    )
    for given, minutes in (
        (text, 10),
        (text + shown, 15),
        (text + folded + stub + "```{code-cell}\ncheck(f)\n```\n", 10),
    ):
        notebook = chapter.parse(given, "here")
        read = chapter.Chapter(notebook, chapter.find_exercises(notebook, "here"), ())
        monkeypatch.setattr(chapter, "read", lambda stem, read=read: read)
        assert effort.reading_minutes("x") == minutes


def test_what_is_optional_is_not_in_the_sum():
    bonus = catalog.exercise("attention_backward")
    assert effort.of_exercise(bonus) == f"Estimate: {bonus.minutes} minutes, hard, optional"
    others = [e.minutes for e in catalog.exercises_of("attention").values() if e is not bonus]
    assert effort.exercise_minutes("attention") == sum(others)


@pytest.mark.parametrize("stem", catalog.chapters())
def test_each_stub_of_a_notebook_has_its_estimate_right_above_it(stem):
    cells = release.student_notebook(stem).cells
    for place, cell in enumerate(cells):
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in catalog.exercises_of(stem):
            above = cells[place - 1]
            assert above.cell_type == "markdown"
            assert above.source.endswith(f"*{effort.of_exercise(catalog.exercise(name))}.*")
