"""Run one probe on a student's object and return what happened as plain data.

`outcome_of` makes all calls and gives the verdict; `observe` makes one call, which runs in the student's process.
The forms of an outcome are in `attnlab.checking.schema`.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import traceback
import warnings
from typing import TYPE_CHECKING

import numpy as np

from attnlab.checking import codec
from attnlab.checking.probes import PROBES
from attnlab.checking.probes.class_as_function import ClassAsFunction, ProbeError

if TYPE_CHECKING:
    from attnlab.checking.schema import Case, ErrorInfo, Outcome, Refused


def outcome_of(target, probe: str, case: Case) -> Outcome:
    """Call a live object in this process, and return the outcome of one case."""
    return PROBES[probe].verdict(case, raw_outcomes_of(target, probe, case))


def raw_outcomes_of(target, probe: str, case: Case) -> list[Outcome]:
    """Make the calls of one case, and return the outcome of each."""
    return [observe(target, probe, copy.deepcopy(inputs)) for inputs in PROBES[probe].calls(case)]


def observe(target, probe: str, inputs: Case, form=codec.copied):
    """Call the probe of that name once on `target`, and return the outcome.

    `inputs` should be fresh, since the call may alter them.

    form: how the outcome is returned: as values independent of the student's objects, or as the bytes of
    `codec.frame`. Warnings cost nothing and are not shown: an overflow is judged by its result.
    """
    asked = ClassAsFunction(target) if "init" in inputs else target
    if "feature_map" in inputs or "model" in inputs:  # descriptions, since a case is plain data
        from attnlab.checking.fakes import made_as_described

        asked, inputs = made_as_described(asked, inputs)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value = PROBES[probe].call(asked, **inputs)
    except KeyboardInterrupt:
        raise
    except ProbeError as error:
        return form({"refused": str(error)})
    except codec.CodecError as error:  # from a probe that looks at results
        return form(_refused(error))
    except BaseException as error:  # SystemExit as well: a student's exit() must not end this process
        return form({"error": describe_error(error, source_file(target))})
    try:
        return form({"value": value})
    except codec.CodecError as error:
        if isinstance(value, dict) and isinstance(value.get("result"), BaseException):
            name = type.__dict__["__name__"].__get__(type(value["result"]))[:60]
            return form({"refused": f"it returns a {name}, which raises nothing: write `raise` instead of `return`"})
        return form(_refused(error))


def _refused(error: codec.CodecError) -> Refused:
    return {"refused": f"{error}; return numbers, lists or arrays"}


def describe_error(error: BaseException, own_file: str | None) -> ErrorInfo:
    """Type and message of an exception, and the last line of the student's own file that it went through."""
    try:
        message = str.__str__(str(error))[:500]
    except BaseException:  # an exception class written by the student may fail to print
        message = ""
    line, code = None, None
    for frame in traceback.extract_tb(error.__traceback__):
        if own_file is not None and frame.filename == own_file:
            line, code = frame.lineno, " ".join((frame.line or "").split())[:200] or None
    if isinstance(error, SyntaxError) and error.filename == own_file:
        line, message = error.lineno, error.msg
    return {"type": type.__dict__["__name__"].__get__(type(error)), "message": message, "line": line, "code": code}


def source_file(target) -> str | None:
    """The file (in a notebook: the cell) that defines a function or class."""
    with contextlib.suppress(Exception):
        target = inspect.unwrap(target)
    if inspect.isclass(target):
        target = next((value for value in vars(target).values() if inspect.isfunction(value)), None)
    return getattr(getattr(target, "__code__", None), "co_filename", None)
