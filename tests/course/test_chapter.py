"""Reading chapters: each mistake an author can make gets one line that names it."""

import ast
import re

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


def first_uses(source: str) -> dict[str, ast.Name]:
    """The first use of each name outside of functions, in the sequence in which they run, loop targets first."""
    tree, inner = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp)):
            inner |= {id(each) for each in ast.walk(node)} - {id(node)}
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in inner]
    names.sort(key=lambda n: (n.lineno, isinstance(n.ctx, ast.Store), n.col_offset))
    return {name.id: name for name in reversed(names)}


def loop_names(source: str) -> set[str]:
    loops = (node.target for node in ast.walk(ast.parse(source)) if isinstance(node, ast.For))
    return {n.id for target in loops for n in ast.walk(target) if isinstance(n, ast.Name)}


def stored(source: str) -> set[str]:
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    return {name.id for name in found if isinstance(name.ctx, ast.Store)}


@pytest.mark.parametrize("stem", catalog.chapters())
def test_no_loop_overwrites_a_name_that_a_later_cell_reads_as_an_earlier_one_set_it(stem):
    cells = [cell.source for cell in chapter.read(stem).notebook.cells if cell.cell_type == "code"]
    cells = [re.sub(r"^[%!].*$", "pass", source, flags=re.MULTILINE) for source in cells]
    kept, overwritten = set(), {}
    for number, source in enumerate(cells):
        uses = first_uses(source)
        read = {name.id for name in uses.values() if isinstance(name.ctx, ast.Load)}
        assert not read & overwritten.keys(), dict.fromkeys(read & overwritten.keys(), f"read in cell {number}")
        loops = loop_names(source)
        overwritten |= dict.fromkeys(loops & kept, number)
        set_here = stored(source) - loops
        kept |= set_here
        overwritten = {name: cell for name, cell in overwritten.items() if name not in set_here}
