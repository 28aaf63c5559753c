"""Cells and notebooks as nbformat and nbgrader have them, and the names of the cells that are graded.

nbformat's own constructors validate each part separately, which takes longer than everything else done to a notebook
here. A notebook is validated once, when it is written.
"""

from __future__ import annotations

import tomllib
from typing import Any, cast

import yaml
from nbformat import NotebookNode, from_dict

from course.folder import ROOT

_CHECK = "check-"


def check_id(exercise: str) -> str:
    """The name of the cell that grades an exercise."""
    return _CHECK + exercise


def exercise_of(grade_id: str | None) -> str | None:
    """Find the exercise that a cell of this name grades, or None if it grades none."""
    return grade_id.removeprefix(_CHECK) if grade_id and grade_id.startswith(_CHECK) else None


def nbgrader_of(cell: NotebookNode) -> dict[str, Any]:
    """nbgrader's metadata of a cell; empty for a plain one."""
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
) -> dict[str, Any]:
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


def new_cell(cell_type: str, source: str, metadata: dict[str, Any] | None = None) -> NotebookNode:
    """A cell of type "code" or "markdown", whose id is still to be set."""
    cell = {"cell_type": cell_type, "id": "", "source": source, "metadata": metadata or {}}
    return _node({**cell, "execution_count": None, "outputs": []} if cell_type == "code" else cell)


def _node(fields: dict[str, Any]) -> NotebookNode:
    return cast(NotebookNode, from_dict(fields))


def new_output(output_type: str, **fields) -> NotebookNode:
    return _node({"output_type": output_type, **fields})


def new_notebook(cells: list[NotebookNode], id_prefix: str) -> NotebookNode:
    """A notebook of these cells, which get ids after their places."""
    for number, cell in enumerate(cells):
        cell["id"] = f"{id_prefix}-{number}"
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return _node({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})


# The setup cell ------------------------------------------------------------------------------------------------------

PUBLISHED_FOLDER = "notebooks"  # of the site, with the notebooks and the wheel
SETUP_ID = "setup"
_SETUP = """\
# Installs attnlab, the package of this course, where it is missing.
try:
    import attnlab
except ModuleNotFoundError:
    import importlib, pathlib, subprocess, sys

    wheel = next(pathlib.Path().glob("attnlab-*.whl"), "{address}")
    if not wheel:
        raise ModuleNotFoundError(
            "put {wheel} into this folder and run this cell again; the file is in the book's folder "
            "{folder}, and in attention-course.zip"
        ) from None
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    importlib.invalidate_caches()"""
_TORCH = """
try:
    import torch
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "this chapter needs PyTorch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    ) from None"""


def setup_source(needs_torch: bool, site: str | None = None) -> str:
    """The first code cell of every notebook: it installs `attnlab` if it is missing, and does nothing otherwise.

    The wheel is taken from the notebook's folder, or from the site: the one that `_config.yml` names under
    `html: baseurl:`, or the one where a reader clicked on the notebook, whose address the page writes into this cell.
    If there is neither, the cell says in a sentence what to fetch.

    needs_torch: whether the notebook imports PyTorch, which is too large to be installed unasked
    site: the address of the published book; the one in `_config.yml` if None
    """
    site = published_at() if site is None else site
    address = f"{site.rstrip('/')}/{PUBLISHED_FOLDER}/{wheel_name()}" if site else ""
    return _SETUP.format(address=address, wheel=wheel_name(), folder=PUBLISHED_FOLDER) + (_TORCH if needs_torch else "")


def published_at() -> str:
    """The address of the published book, or an empty string."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    return (config.get("html") or {}).get("baseurl") or ""


def wheel_name() -> str:
    """The file name of the wheel of `attnlab`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return f"{project['name']}-{project['version']}-py3-none-any.whl"
