"""`python -m attnlab softmax.ipynb`: the public checks of a whole notebook, in a terminal or in a workflow.

As for `attnlab.mine`, only what an answer needs is run, not the rest of the notebook. The exit status is 0 if
all checks pass, 1 if not, and 2 if there is nothing to check.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from pathlib import Path

from attnlab.check import examine, exercises, material_of
from attnlab.checking.judge import Report, no_answer
from attnlab.checking.report import as_text
from attnlab.mine import Notebook, NotThere


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m attnlab", description="Run the public checks of a notebook.")
    parser.add_argument(
        "notebook", type=Path, help="such as softmax.ipynb, with the earlier notebooks in the same folder"
    )
    whole = "write the points to GITHUB_OUTPUT, as `result`, for GitHub Classroom's reporter; the exit status is then 0"
    parser.add_argument("--github", action="store_true", help=whole)
    options = parser.parse_args(arguments)
    if options.github and not os.environ.get("GITHUB_OUTPUT"):
        parser.error("--github is for a GitHub workflow, which sets GITHUB_OUTPUT")
    try:
        reports = checked(options.notebook)
    except NotThere as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    for report in reports:
        print(as_text(report), end="\n\n")
    print(f"{options.notebook.name}: {_points(reports)} of {_max_points(reports)} points on the public cases")
    if options.github:
        result = base64.b64encode(json.dumps(for_classroom(reports)).encode()).decode("ascii")
        with open(os.environ["GITHUB_OUTPUT"], "a", encoding="ascii") as file:
            file.write(f"result={result}\n")
        return 0
    return 0 if _passed(reports) else 1


def checked(path: Path) -> list[Report]:
    """The report on each exercise of a notebook's chapter. Raises NotThere if it does not belong to a chapter."""
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


def _report(notebook: Notebook, name: str, material: dict) -> Report:
    try:
        value = notebook.value(name)
    except NotThere as error:
        return no_answer(material, f"nothing can be checked: {error}")
    if not callable(value):
        return no_answer(material, f"{name} is not a function or class")
    return examine(value, material)


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
