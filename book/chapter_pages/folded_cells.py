"""Name each folded cell for its contents: "Reveal the figure", "Code for this table"."""

from __future__ import annotations

import ast
import re
from html import escape

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.transforms.post_transforms import SphinxPostTransform

WIDGET = "widget-view+json"
FEWEST_ROWS = 3  # of a printed text that is a table
SEVERAL = {"figure": "figures", "table": "tables", "widget": "widgets"}
THIS = {"answer": "this answer", "numbers": "these numbers", "error": "this error"}


def contents(output: nodes.Element | None, asked: bool = False) -> str:
    """Say in a word what the output of a cell is; "" where there is no output.

    asked: whether the text before the cell asks a question, so that what is printed answers it
    """
    if output is None:
        return ""
    found = [_kind(part, asked) for part in output.children]
    kinds = [kind for kind in ("widget", "figure", "error", "table", "answer", "numbers") if kind in found]
    if not kinds:
        return ""
    return SEVERAL.get(kinds[0], kinds[0]) if found.count(kinds[0]) > 1 else kinds[0]


def _kind(part: nodes.Element, asked: bool) -> str:
    written = "".join(raw.astext() for raw in part.findall(nodes.raw))
    if WIDGET in written:
        return "widget"
    if next(part.findall(nodes.image), None) is not None:
        return "figure"
    if any("traceback" in block.get("classes", []) for block in part.findall(nodes.literal_block)):
        return "error"
    if "<table" in written or not written and is_table(part.astext()):
        return "table"
    return "answer" if asked else "numbers"


def is_table(text: str) -> bool:
    """Tell whether several lines in a row have the same number of columns, which two or more blanks separate."""
    run, before = 0, 0
    for line in text.splitlines():
        columns = len(re.split(r"\s{2,}", line.strip()))
        run = run + 1 if columns == before else 1
        before = columns
        if columns > 1 and run >= FEWEST_ROWS:
            return True
    return False


def names_of_code(source: str, made: str) -> str:
    """Name folded code for what it makes, else for what it defines."""
    if made:
        this = THIS.get(made) or f"{'these' if made in SEVERAL.values() else 'this'} {made}"
        return f"Code for {this}"
    try:
        defined = [node.name for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    except SyntaxError:  # a magic command
        defined = []
    return f"Code of {' and '.join(defined)}" if 0 < len(defined) <= 2 else "Code"


def asks(cell: nodes.Element) -> bool:
    """Tell whether the block before a cell asks something: a question, or a box that wants a prediction."""
    place = cell.parent.index(cell)
    before = cell.parent[place - 1] if place else None
    return before is not None and (
        "?" in before.astext() or bool(re.search(r"\b(?:guess|predict)", before.astext(), re.I))
    )


class NameFoldedCells(SphinxPostTransform):
    """Replace MyST-NB's own names of folded inputs and outputs."""

    default_priority = 200  # just after MyST-NB has folded them
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code" and cell.get("hide_mode"):
                self._name(cell)

    def _name(self, cell: nodes.Element) -> None:
        parts = {part.get("nb_element"): part for part in cell.findall(nodes.container)}
        code, output = parts.get("cell_code_source"), parts.get("cell_code_output")
        source = code.astext() if code is not None else ""
        for folded in cell.findall(HideCodeCellNode):
            if "above-input" in folded["classes"]:
                folded["prompt_show"] = folded["prompt_hide"] = names_of_code(source, contents(output, asks(cell)))
            else:
                made = contents(output, asks(cell)) or "output"
                folded["prompt_show"], folded["prompt_hide"] = f"Reveal the {made}", f"Hide the {made}"


def visit(self, node) -> None:
    """Write a folded part as MyST-NB does, but without a label that would be read in place of the name."""
    shown, hidden = node["prompt_show"], node["prompt_hide"]
    titles = {"collapsed ": shown, "expanded ": hidden} if shown != hidden else {"": shown}
    written = "".join(f'<p class="{state}admonition-title">{escape(name)}</p>' for state, name in titles.items())
    self.body.append(f'<details class="admonition hide {" ".join(node["classes"])}">\n<summary>{written}</summary>\n')


def depart(self, node) -> None:
    self.body.append("</details>\n")


def setup(app) -> None:
    app.add_node(HideCodeCellNode, override=True, html=(visit, depart))
    app.add_post_transform(NameFoldedCells)
