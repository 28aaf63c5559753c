"""The code of the chapters, read without running it: a name means the same wherever a later cell reads it."""

from __future__ import annotations

import ast
import re

import pytest

from attnlab.checking import code_slice
from course import catalog, chapter
from course.folder import ROOT

MOST_HIDDEN, MOST_BUGS, MOST_MINUTES = 8, 3, 90


def bindings(tree: ast.Module) -> dict[str, bool]:
    """The names that a cell binds at its top level, and whether each is last bound as the variable of a loop."""
    found = {}
    waiting = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = False
            continue
        if isinstance(node, ast.For):
            found |= dict.fromkeys(stored(node.target), True)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= dict.fromkeys(((alias.asname or alias.name).split(".")[0] for alias in node.names), False)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= dict.fromkeys((name for target in targets for name in stored(target)), False)
        waiting += reversed([one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)])
    return found


def stored(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def read_from_before(tree: ast.Module) -> set[str]:
    """The names that a cell reads at its top level before it binds them."""
    bound, read = set(), set()
    for statement in tree.body:
        own = {
            node.id
            for part in ast.walk(statement)
            if isinstance(part, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.comprehension))
            for node in ast.walk(part)
            if isinstance(node, (ast.Name, ast.arg)) and (isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store))
            for node in [ast.Name(node.arg) if isinstance(node, ast.arg) else node]
        }
        loops = {name for part in ast.walk(statement) if isinstance(part, ast.For) for name in stored(part.target)}
        loads = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        read |= loads - own - loops - bound
        bound |= bindings(ast.Module([statement], [])).keys()
    return read


def overwritten(cells: list[str]) -> list[tuple[str, int]]:
    """Names that a cell reads although the variable of a loop in between has taken them; and the cell's number."""
    meant, taken, found = set(), set(), []
    for number, source in enumerate(cells):
        tree = ast.parse(code_slice.without_magics(source))
        found += [(name, number) for name in sorted(read_from_before(tree) & meant & taken)]
        for name, by_loop in bindings(tree).items():
            if not by_loop:
                meant.add(name)
                taken.discard(name)
            elif name in meant:
                taken.add(name)
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


@pytest.mark.parametrize("stem", catalog.chapters())
def test_a_chapter_takes_ninety_minutes_at_most(stem):
    from course import effort

    assert effort.reading_minutes(stem) + effort.exercise_minutes(stem) <= MOST_MINUTES


@pytest.mark.parametrize("stem", catalog.chapters()[1:])
def test_a_chapter_names_what_it_builds_on_at_its_beginning(stem):
    opening = (ROOT / "chapters" / f"{stem}.md").read_text("utf-8").partition("\n## ")[0]
    named = set(re.findall(r"\{ref\}`[^`<]*<(\w+)>`|\{ref\}`(\w+)`", opening))
    earlier = catalog.chapters()[: catalog.chapters().index(stem)]
    assert any(target.startswith(earlier) for pair in named for target in pair if target), opening[-300:]
