"""Reading chapters: each mistake an author can make gets one line that names it."""

import pytest

from course import catalog, chapter
from course.errors import CourseError

FRONT = "---\nkernelspec: {name: python3, display_name: Python 3}\n---\n"
STUB = "```{code-cell}\n:tags: [exercise]\ndef dot(a, b):\n    raise NotImplementedError\n```\n\n"
CHECK = "```{code-cell}\ncheck(dot)\n```\n"


def test_an_exercise_is_found_by_its_name_with_its_check():
    notebook = chapter.parse(FRONT + "# Title\n\n" + STUB + "Some words.\n\n" + CHECK, "here")
    (found,) = chapter.find_exercises(notebook, "here")
    assert found.name == "dot"
    assert notebook.cells[found.stub].source.startswith("def dot")
    assert notebook.cells[found.check].source == "check(dot)"


@pytest.mark.parametrize(
    "text, words",
    [
        ("# No front matter\n", "no front matter"),
        ("---\ntitle: x\n---\n# T\n", "must name a kernelspec"),
        ("---\nkernelspec: [\n---\n# T\n", "cannot be read"),
        (FRONT + STUB.replace("[exercise]", "exercise"), "not of type 'array'"),
        (FRONT + "+++ {not json\n\nx\n", "cannot be read"),
    ],
)
def test_broken_metadata_is_named(text, words):
    with pytest.raises(CourseError, match=words) as error:
        chapter.parse(text, "chapters/x.md")
    assert "chapters/x.md" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text, words",
    [
        (STUB, "must be `check\\(dot\\)`"),
        (STUB + CHECK.replace("dot", "dto"), "must be `check\\(dot\\)`"),
        (STUB + CHECK + STUB + CHECK, "twice"),
        (STUB.replace("def dot(a, b):", "def dot(a, b:") + CHECK, "syntax error in its line 1"),
        (STUB.replace("def dot", "x = 1\ndef dot") + CHECK, "one function or class"),
    ],
)
def test_a_broken_exercise_is_named(text, words):
    with pytest.raises(CourseError, match=words):
        chapter.find_exercises(chapter.parse(FRONT + text, "here"), "here")


@pytest.mark.parametrize(
    "text, words",
    [
        (None, "chapters/softmax.md is missing"),
        (FRONT + STUB + CHECK, "course/exercises/softmax.py declares none of that name"),
        (FRONT + "# Softmax\n", "has no exercise cell"),
    ],
)
def test_a_chapter_that_is_missing_or_does_not_fit_its_exercises_is_named(tmp_path, monkeypatch, text, words):
    monkeypatch.setattr(catalog, "chapter_path", lambda stem: tmp_path / f"{stem}.md")
    if text:
        (tmp_path / "softmax.md").write_text(text)
    with pytest.raises(CourseError, match=words):
        chapter.read("softmax")


@pytest.mark.parametrize("stem", catalog.chapters())
def test_real_chapters_read_and_keep_a_line_number_for_every_cell(stem):
    notebook = chapter.read(stem).notebook
    assert len(notebook.metadata["source_map"]) == len(notebook.cells)
