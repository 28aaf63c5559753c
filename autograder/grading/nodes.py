"""Parts of a notebook. nbformat's own constructors validate each part, which takes longer than everything else that is
done to a notebook here; a notebook is validated once, when it is written.
"""

from __future__ import annotations

from nbformat import NotebookNode, from_dict


def code_cell(source: str, metadata: dict | None = None) -> NotebookNode:
    return from_dict(
        {
            "cell_type": "code",
            "id": "",
            "source": source,
            "metadata": metadata or {},
            "execution_count": None,
            "outputs": [],
        }
    )


def markdown_cell(source: str, metadata: dict | None = None, id: str = "") -> NotebookNode:
    return from_dict({"cell_type": "markdown", "id": id, "source": source, "metadata": metadata or {}})


def cell(kind: str, source: str, metadata: dict | None = None) -> NotebookNode:
    """A cell of that kind: "code", or else text."""
    return code_cell(source, metadata) if kind == "code" else markdown_cell(source, metadata)


def output(kind: str, **fields) -> NotebookNode:
    return from_dict({"output_type": kind, **fields})


def notebook(cells: list, metadata: dict) -> NotebookNode:
    return from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})
