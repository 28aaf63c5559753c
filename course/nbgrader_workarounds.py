"""Workarounds for nbgrader 0.9.6 and its dependencies. Check each when the version changes."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType


def prepare_process() -> None:
    """Let nbgrader find its helper program, and spare the process what no notebook needs."""
    # nbgrader starts `alembic` by name. It is in the same folder as this Python, which may not be on the PATH.
    programs = str(Path(sys.executable).parent)
    if programs not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, [programs, os.environ.get("PATH")]))
    # nbformat imports jsonschema, which builds the grammars of this package to check addresses in other scripts. That
    # takes two seconds in every process, and no notebook contains such an address: without it they are not checked.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


@functools.cache
def utils() -> ModuleType:
    """nbgrader's module `utils`, without the package around it.

    Importing the package also imports nbgrader's server extensions and its database, which takes a second in each
    process that grades.
    """
    package = importlib.util.find_spec("nbgrader")
    assert package and package.origin
    spec = importlib.util.spec_from_file_location("course._nbgrader_utils", Path(package.origin).with_name("utils.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def replace_converters(autograde: type, generate_feedback: type) -> None:
    """Let nbgrader's commands and formgrader's buttons use these converters: no setting names them."""
    from nbgrader import converters
    from nbgrader.apps import api, autogradeapp, generatefeedbackapp

    for module in (converters, api, autogradeapp):
        vars(module)["Autograde"] = autograde
    for module in (converters, api, generatefeedbackapp):
        vars(module)["GenerateFeedback"] = generate_feedback
