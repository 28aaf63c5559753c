"""Make one drawer of a hidden output and the dropdown below it, which names the question that the output answers.

In a chapter's source a cell tagged `hide-output` is followed by a dropdown: its title is the question, its text the
explanation. The drawer on the page holds the output, the folded code if it is hidden too, and the explanation.
"""

from __future__ import annotations

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_design.dropdown import dropdown_main


class PutOutputsIntoDrawers(SphinxPostTransform):
    """Move each hidden output into the dropdown that directly follows its cell."""

    default_priority = 201  # after folded cells are named
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for folded in list(self.document.findall(HideCodeCellNode)):
            cell = folded.parent
            place = cell.parent.index(cell) + 1
            drawer = cell.parent[place] if place < len(cell.parent) else None
            if "below-input" in folded["classes"] and isinstance(drawer, dropdown_main):
                move(cell, folded, drawer)


def move(cell: nodes.Element, folded: nodes.Element, drawer: nodes.Element) -> None:
    """Put the folded output of a cell first into a drawer, with the cell's code if that is folded as well."""
    _, body = drawer.children
    output, code = folded.children[0], cell.children[0]
    cell.remove(folded)
    if isinstance(code, HideCodeCellNode):
        cell.insert(0, output)
        cell.parent.remove(cell)
        body.insert(0, cell)
    else:
        body.insert(0, nodes.container("", output, classes=list(cell["classes"])))
    drawer["classes"].append("reveal")


def setup(app) -> None:
    app.add_post_transform(PutOutputsIntoDrawers)
