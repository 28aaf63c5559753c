"""References as a student's process gets them: compiled, and without their text.

A notebook can inspect any code that it can call. So what is lent contains only what running it needs: no source,
comments or docstrings, and line 1 as the position of everything. Names, constants and the steps of the code remain.
"""

from __future__ import annotations

import ast
import functools
import marshal

import numpy as np

FILENAME = "<reference>"


@functools.lru_cache(maxsize=256)
def compiled(source: str) -> np.ndarray:
    """Source as a code object in bytes (uint8), for `marshal.loads` in a process of the same Python."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    for node in ast.walk(tree):
        if "lineno" in node._attributes:
            node.lineno, node.col_offset, node.end_lineno, node.end_col_offset = 1, 0, 1, 0
    return np.frombuffer(marshal.dumps(compile(tree, FILENAME, "exec", dont_inherit=True)), np.uint8)


def packed(references: dict | None) -> dict | None:
    """References as `prerequisites.references` has them, for the process of a notebook."""
    if references is None:
        return None
    modules = {name: compiled(source) for name, source in references["sources"].items()}
    return {"setting": references["setting"], "modules": modules}
