"""The code of the chapters, read without running it: a name means the same wherever a later cell reads it."""

from __future__ import annotations

import ast
import re

import pytest

from attnlab.checking import code_slice
from course import catalog, chapter, effort
from course.folder import ROOT

MOST_HIDDEN, MOST_BUGS, MOST_MINUTES = 8, 3, 90


def loop_variables(statement: code_slice.Statement) -> set[str]:
    """The names that a statement binds as the variables of loops."""
    targets = (node.target for node in ast.walk(statement.node) if isinstance(node, ast.For))
    return statement.binds & {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def overwritten(cells: list[str]) -> list[tuple[str, int]]:
    """Names that a cell reads although the variable of a loop in between has taken them; and the cell's number."""
    meant, taken, found = set(), set(), []
    for number, source in enumerate(cells):
        bound = set()  # in this cell
        for statement in code_slice.of_cell(source):
            loops = loop_variables(statement)
            found += [(name, number) for name in sorted((statement.needs - statement.binds - bound) & taken)]
            bound |= statement.binds
            meant |= statement.binds - loops
            taken = taken - statement.binds | loops & meant
    return found


@pytest.mark.parametrize("stem", catalog.chapters())
def test_no_loop_takes_a_name_that_a_later_cell_reads(stem):
    notebook = chapter.read(stem).notebook
    assert overwritten([cell.source for cell in notebook.cells if cell.cell_type == "code"]) == []


def test_such_a_name_is_found():
    cells = ["layer = 1", "for layer in [1, 2, 3]:\n    print(layer)", "print(layer)"]
    assert overwritten(cells) == [("layer", 2)]
    assert overwritten([*cells[:2], "layer = 2\nprint(layer)", "print(layer)"]) == []
    assert overwritten([cells[1], "print(layer)"]) == []


@pytest.mark.parametrize("stem", catalog.chapters())
def test_a_chapter_asks_for_few_guesses_and_hides_few_bugs(stem):
    cells = chapter.read(stem).notebook.cells
    hidden = sum("hide-output" in cell.metadata.get("tags", []) for cell in cells)
    bugs = sum(len(re.findall(r"^:::\{admonition\} Find the bug", cell.source, re.M)) for cell in cells)
    assert (hidden <= MOST_HIDDEN, bugs <= MOST_BUGS) == (True, True), (hidden, bugs)


def faulty_drawers(notebook) -> list[str]:
    """Hidden outputs that no drawer with a question of its own follows, and drawers that name no question."""
    cells, dropdown = notebook.cells, re.compile(r":{3,}\{dropdown\}[ \t]*(.*)")
    titles = [
        title.strip()
        for cell in cells
        if cell.cell_type == "markdown"
        for title in re.findall(rf"^{dropdown.pattern}$", cell.source, re.M)
    ]
    found = [f"a dropdown is titled {title}" for title in titles if title == "Reveal"]
    for number, cell in enumerate(cells):
        if cell.cell_type != "code" or "hide-output" not in cell.metadata.get("tags", []):
            continue
        below = cells[number + 1] if number + 1 < len(cells) else None
        drawer = dropdown.match(below.source.lstrip()) if below is not None and below.cell_type == "markdown" else None
        title = drawer[1].strip() if drawer else ""
        if not title.endswith("?"):
            found.append(f"no dropdown that asks a question follows: {cell.source.splitlines()[0]}")
        elif titles.count(title) > 1:
            found.append(f"two dropdowns ask: {title}")
    return found


@pytest.mark.parametrize("stem", catalog.chapters())
def test_a_hidden_output_is_followed_by_a_drawer_that_names_its_question(stem):
    assert faulty_drawers(chapter.read(stem).notebook) == []


HIDDEN = "```{code-cell}\n:tags: [hide-output]\nprint(6 * 7)\n```\n\n"


@pytest.mark.parametrize(
    "text, faults",
    [
        (HIDDEN + ":::{dropdown} How much is it?\n42.\n:::", 0),
        (HIDDEN + "::::{dropdown} How much is it?\n:::{note}\n42.\n:::\n::::", 0),
        (HIDDEN + "It is 42.", 1),
        (HIDDEN + "It is 42.\n\n:::{dropdown} How much is it?\n42.\n:::", 1),
        (HIDDEN + ":::{dropdown} Answer\n42.\n:::", 1),
        (HIDDEN + HIDDEN + ":::{dropdown} How much is it?\n42.\n:::", 1),
        (2 * (HIDDEN + ":::{dropdown} How much is it?\n42.\n:::\n\n"), 2),
        (HIDDEN, 1),
        ("How much is it?\n\n:::{dropdown} Reveal\n42.\n:::", 1),
        (":::{dropdown} Hint 1\nMultiply.\n:::\n\n:::{dropdown} Hint 1\nAdd.\n:::", 0),
    ],
)
def test_a_missing_drawer_is_found(text, faults):
    notebook = chapter.parse(f"---\nkernelspec: {{name: python3, display_name: Python 3}}\n---\n\n{text}\n", "a text")
    assert len(faulty_drawers(notebook)) == faults


@pytest.mark.parametrize("stem", catalog.chapters())
def test_a_chapter_takes_ninety_minutes_at_most(stem):
    assert effort.minutes(stem) <= MOST_MINUTES


@pytest.mark.parametrize("stem", catalog.chapters()[1:])
def test_a_chapter_names_what_it_builds_on_at_its_beginning(stem):
    opening = (ROOT / "chapters" / f"{stem}.md").read_text("utf-8").partition("\n## ")[0]
    named = set(re.findall(r"\{ref\}`[^`<]*<(\w+)>`|\{ref\}`(\w+)`", opening))
    earlier = catalog.chapters()[: catalog.chapters().index(stem)]
    assert any(target.startswith(earlier) for pair in named for target in pair if target), opening[-300:]
