"""Cells and notebooks as nbformat and nbgrader have them, and the names of the cells that are graded.

nbformat's own constructors validate each part separately, which takes longer than everything else done to a notebook
here. A notebook is validated once, when it is written.
"""

from __future__ import annotations

from nbformat import NotebookNode, from_dict

_CHECK = "check-"


def check_id(exercise: str) -> str:
    """The name of the cell that grades an exercise."""
    return _CHECK + exercise


def exercise_of(grade_id: str) -> str | None:
    """The exercise that a cell of this name grades, or None if it grades none."""
    return grade_id.removeprefix(_CHECK) if grade_id.startswith(_CHECK) else None


def nbgrader_of(cell: NotebookNode) -> dict:
    """What nbgrader knows about a cell; nothing for a plain one."""
    return cell.metadata.get("nbgrader", {})


def nbgrader_metadata(
    grade_id: str,
    cell_type: str,
    *,
    grade: bool = False,
    solution: bool = False,
    locked: bool = False,
    task: bool = False,
    points: float | None = None,
) -> dict:
    """The metadata of a cell that nbgrader knows."""
    made = {
        "grade_id": grade_id,
        "grade": grade,
        "solution": solution,
        "locked": locked,
        "task": task,
        "schema_version": 3,
        "cell_type": cell_type,
    }
    return {"nbgrader": made if points is None else made | {"points": points}}


def new_cell(cell_type: str, source: str, metadata: dict | None = None) -> NotebookNode:
    """A cell of type "code" or "markdown", whose id is still to be set."""
    cell = {"cell_type": cell_type, "id": "", "source": source, "metadata": metadata or {}}
    return from_dict({**cell, "execution_count": None, "outputs": []} if cell_type == "code" else cell)


def new_output(output_type: str, **fields) -> NotebookNode:
    return from_dict({"output_type": output_type, **fields})


def new_notebook(cells: list[NotebookNode], id_prefix: str) -> NotebookNode:
    """A notebook of these cells, which get ids after their places."""
    for number, cell in enumerate(cells):
        cell["id"] = f"{id_prefix}-{number}"
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})
