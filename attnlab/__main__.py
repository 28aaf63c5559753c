"""`python -m attnlab check softmax.ipynb`: the public checks of a whole notebook, in a terminal or for a program.

As for `attnlab.mine`, only what an answer needs is run, not the rest of the notebook. The word `check` may be left out.

The exit status is 0 if every exercise passes that is not a bonus, 1 if not, and 2 if nothing could be checked: the
file is missing, is not a notebook or has no exercise of the course, or the command line is wrong.

With `--json`, standard output is one JSON object with the same exit status, see `ToldNotebook` in
`attnlab.checking.schema`; what the notebook's own lines print goes to standard error. With status 2 the object is
`{"error": "..."}`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from attnlab.check import exercises, in_words, material_of, report_of
from attnlab.checking.judge import Report, no_answer
from attnlab.checking.report import as_data, as_text
from attnlab.checking.schema import ToldError, ToldNotebook
from attnlab.mine import Notebook, NotThere


class _Parser(argparse.ArgumentParser):
    """A parser that tells its errors as JSON if it is asked for JSON."""

    as_json = False

    def error(self, message: str) -> NoReturn:
        if self.as_json:
            _print_json(ToldError(error=message))
            self.exit(2)
        super().error(message)


def main(arguments: list[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    words = [word for word in arguments if not word.startswith("-")]
    if words[:1] == ["check"]:
        arguments.remove("check")
    parser = _Parser(
        prog="python -m attnlab",
        usage="%(prog)s check [-h] [--json | --github] NOTEBOOK",
        description="Run the public checks of a notebook.",
        epilog="Exit status: 0 if every exercise passes that is not a bonus, 1 if not, 2 if nothing could be checked.",
    )
    parser.as_json = "--json" in arguments
    parser.add_argument(
        "notebook",
        metavar="NOTEBOOK",
        type=Path,
        help="such as softmax.ipynb, with the earlier notebooks in the same folder",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object, for a program to read")
    whole = "write the points to GITHUB_OUTPUT, as `result`, for GitHub Classroom's reporter; the exit status is then 0"
    form.add_argument("--github", action="store_true", help=whole)
    options = parser.parse_args(arguments)
    if options.json:
        return _told_as_json(options.notebook)
    if options.github and not os.environ.get("GITHUB_OUTPUT"):
        parser.error("--github is for a GitHub workflow, which sets GITHUB_OUTPUT")
    try:
        found = checked(options.notebook)
    except NotThere as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    for report, notices in found:
        print(in_words(report, notices), end="\n\n")
    reports = [report for report, _ in found]
    print(f"{options.notebook.name}: {_points(reports)} of {_max_points(reports)} points on the public cases")
    if options.github:
        result = base64.b64encode(json.dumps(for_classroom(reports)).encode()).decode("ascii")
        with open(os.environ["GITHUB_OUTPUT"], "a", encoding="ascii") as file:
            file.write(f"result={result}\n")
        return 0
    return 0 if _passed(reports) else 1


def _told_as_json(path: Path) -> int:
    """Print the checks of a notebook as JSON; returns the exit status."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = checked(path)
    except NotThere as error:
        _print_json(ToldError(error=str(error)))
        return 2
    except Exception as error:  # a program that reads JSON gets JSON, whatever happens
        traceback.print_exc()
        _print_json(ToldError(error=f"the check itself failed: {type(error).__name__}: {error}"))
        return 2
    reports = [report for report, _ in found]
    told = ToldNotebook(
        notebook=path.name,
        passed=_passed(reports),
        points=_points(reports),
        max_points=_max_points(reports),
        exercises=[as_data(report, notices) for report, notices in found],
    )
    _print_json(told)
    return 0 if told["passed"] else 1


def _print_json(told: Mapping[str, object]) -> None:
    print(json.dumps(told, indent=2))


def checked(path: Path) -> list[tuple[Report, list[str]]]:
    """The report on each exercise of a notebook's chapter, and sentences to be shown above it.

    Raises NotThere if the notebook does not belong to a chapter.
    """
    if not path.is_file():
        raise NotThere(f"there is no {path}")
    materials = {name: material_of(name) for name in exercises()}
    path = path.resolve()
    os.chdir(path.parent)  # where `attnlab.mine` looks for the earlier notebooks
    notebook = Notebook(path)
    there = {*notebook.answers, *notebook.broken}.union(*(statement.binds for statement in notebook.statements))
    chapters = [material["chapter"] for name, material in materials.items() if name in there]
    if not chapters:
        raise NotThere(f"{path.name} contains no exercise of the course")
    chapter = path.stem if path.stem in chapters else max(chapters, key=chapters.count)
    names = [name for name, material in materials.items() if material["chapter"] == chapter]
    names.sort(key=lambda name: [*notebook.answers, name].index(name))  # in the notebook's order
    return [_report(notebook, name, materials[name]) for name in names]


def _report(notebook: Notebook, name: str, material: dict) -> tuple[Report, list[str]]:
    try:
        value = notebook.value(name)
    except NotThere as error:
        return no_answer(material, f"nothing can be checked: {error}"), []
    if not callable(value):
        return no_answer(material, f"{name} is not a function or class"), []
    return report_of(value, material)


def for_classroom(reports: list[Report]) -> dict:
    """Return the result for the reporter of GitHub Classroom: points and status of each exercise, plus any bonus."""
    return {
        "version": 1,
        "status": "pass" if _passed(reports) else "fail",
        "max_score": _max_points(reports),
        "tests": [
            {
                "name": f"{report.exercise} (bonus)" if report.bonus else report.exercise,
                "status": "pass" if report.passed else "fail",
                "score": _plain(report.points),
                "message": None if report.passed else as_text(report),
                "test_code": f"check({report.exercise})",
                "filename": "",
                "line_no": 0,
            }
            for report in reports
        ],
    }


def _passed(reports: list[Report]) -> bool:
    return all(report.passed for report in reports if not report.bonus)


def _points(reports: list[Report]) -> float | int:
    return _plain(sum(report.points for report in reports))


def _max_points(reports: list[Report]) -> float | int:
    return _plain(sum(report.max_points for report in reports if not report.bonus))


def _plain(points: float) -> float | int:
    return int(points) if points == int(points) else points


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader has closed the pipe, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
