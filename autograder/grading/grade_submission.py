"""Grade one submission: bytes in, bytes out, in this process or on another machine, without a gradebook.

What was handed in is read as text, put together anew from the gradebook's record, run in the jail and judged from
outside. What comes out is what a grader enters: scores and comments by cell, the notebook to show, and a record of
everything.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import nbformat
from nbformat.v4 import rwbase
from nbgrader import utils
from traitlets.config import Config

from attnlab import library_calls
from attnlab.check import Points
from attnlab.judge import Report
from attnlab.report import as_html, as_text
from autograder.course import catalog, prerequisites
from autograder.course.cells import exercise_of, nbgrader_of, new_output
from autograder.grading import (
    dependencies,
    graders_note,
    hidden_tests,
    ready_made,
    sanitize,
    second_run,
    serialization,
)
from autograder.grading.execution import Cell, Evaluated, evaluate
from autograder.grading.results import MIMETYPE, RESULTS, Flag, as_record
from autograder.grading.submission import Refused, ReleasedCell, reassemble, submitted_cells
from autograder.sandbox import bubblewrap
from autograder.sandbox.limits import MAX_SEARCHED, Limits, Times

NOT_RUN = "Not run while grading: no answer depends on this cell.\n"


@dataclass(frozen=True)
class Plan:
    """One notebook of an assignment, as the instructor has it. plain: sources of cells that nbgrader does not know"""

    released: list[ReleasedCell]
    plain: frozenset[str]


@dataclass(frozen=True)
class Settings:
    """How to grade. Preprocessors are class names, called with `config`."""

    extra_cells: bool = True
    run_all: bool = False
    times: Times = Times()
    limits: Limits = Limits()
    preprocessors: list[str] = field(default_factory=list)
    config: dict = field(default_factory=dict)


def pack_assignment(
    plans: dict[str, Plan], settings: Settings, given: dict[str, bytes], hidden: dict[str, bytes]
) -> bytes:
    """What all submissions of an assignment have in common.

    given: the instructor's files beside the notebooks that code may read
    hidden: what answers are judged by, by exercise, as `hidden_tests.packed` gives it
    """
    notebooks = {name: {**asdict(plan), "plain": sorted(plan.plain)} for name, plan in plans.items()}
    files = {f"given/{name}": data for name, data in given.items()}
    files |= {f"hidden/{name}": data for name, data in hidden.items()}
    return serialization.wrap({"settings": asdict(settings), "notebooks": notebooks}, files)


def pack_submission(
    assignment: str, student: str, notes: list[str], refused: dict[str, str], notebooks: dict[str, bytes]
) -> bytes:
    """What was handed in.

    notes: what a human should know of the folder; refused: name of a notebook -> why it could not be read
    """
    return serialization.wrap(
        {"assignment": assignment, "student": student, "notes": notes, "refused": refused}, notebooks
    )


def grade(
    assignment: bytes, submission: bytes, many: bool = True, confine: type[bubblewrap.Jail] | None = None
) -> bytes:
    """The result of one submission, packed: scores and comments by notebook, and as files the notebooks and the record.

    many: more submissions will be graded by this process; confine: the kind of sandbox, if not a jail
    Raises NoJail where code cannot be confined.
    """
    common = _assignment(assignment)
    handed_in, notebooks = serialization.unwrap(submission)
    entries, record, files = {}, {}, {}
    for name, plan in common.plans.items():
        graded = NotebookGrade(name, plan)
        if name in handed_in["refused"]:
            graded.refuse(handed_in["refused"][name])
        elif name in notebooks:
            graded.grade(notebooks[name], common, many=many, confine=confine)
        entries[name], record[name] = graded.entries(), graded.record()
        if not graded.missing:
            flags = [str(flag) for flag in graded.evaluated.flags]
            graders_note.tell_grader(graded.notebook, handed_in["notes"] + graded.notes + flags)
            files[f"{name}.ipynb"] = _written(graded.notebook, name, handed_in, common.settings)
    files[RESULTS] = json.dumps({"notes": handed_in["notes"], "notebooks": record}, indent=1).encode("ascii")
    return serialization.wrap({"notebooks": entries}, files)


class _Assignment:
    """What `pack_assignment` was given; the files lie in a folder of this process's own."""

    def __init__(self, data: bytes):
        record, files = serialization.unwrap(data)
        given = record["settings"]
        times, limits = Times(**given.pop("times")), Limits(**given.pop("limits"))
        self.settings = Settings(times=times, limits=limits, **given)
        self.plans = {
            name: Plan([ReleasedCell(**cell) for cell in plan["released"]], frozenset(plan["plain"]))
            for name, plan in record["notebooks"].items()
        }
        self._folder = tempfile.TemporaryDirectory(prefix="given-", ignore_cleanup_errors=True)
        self.given: dict[str, Path] = {}
        self._hidden: dict[str, bytes] = {}
        for path, content in files.items():
            kind, _, name = path.partition("/")
            if kind == "hidden":
                self._hidden[name] = content
            else:
                self.given[name] = Path(self._folder.name) / name
                self.given[name].write_bytes(content)
        self.material = functools.cache(lambda name: hidden_tests.unpacked(self._hidden[name]))


_assignment = functools.lru_cache(maxsize=8)(_Assignment)


def _written(notebook, name: str, handed_in: dict, settings: Settings) -> bytes:
    resources = {
        "unique_key": name,
        "nbgrader": {"student": handed_in["student"], "assignment": handed_in["assignment"], "notebook": name},
    }
    for path in settings.preprocessors:
        module, _, kind = path.rpartition(".")
        step = getattr(importlib.import_module(module), kind)(config=Config(settings.config))
        notebook, resources = step(notebook, resources)
    # As nbformat writes it, but for the indent: with one Python's encoder is ten times as slow.
    text = json.dumps(rwbase.strip_transient(rwbase.split_lines(notebook)), ensure_ascii=False, sort_keys=True)
    return text.encode("utf-8", "replace")


class NotebookGrade:
    """What became of one notebook of a submission. It is missing until it is refused or graded."""

    def __init__(self, name: str, plan: Plan):
        self.name, self.plan = name, plan
        self.notebook: nbformat.NotebookNode | None = None
        self.evaluated = Evaluated()
        self.refused: str | None = None
        self.notes: list[str] = []
        self.skipped: set[int] = set()  # places of the handout's own cells that were not run
        self.seconds = 0.0

    @property
    def missing(self) -> bool:
        return self.notebook is None

    def refuse(self, why: str) -> None:
        """It could not be read: everything is worth nothing, and the notebook is shown as it was given out."""
        self.refused = why
        self.notebook = reassemble([], self.plan.released).notebook
        self.notes.append(f"the notebook could not be read: {why}")

    def grade(self, data: bytes, common: _Assignment, **how) -> None:
        """Run what was handed in, judge its answers, and make the notebook that is shown. how: see `evaluate`"""
        exercises = catalog.exercises_of(self.name) if self.name in catalog.chapters() else {}
        settings = common.settings
        try:
            submitted = submitted_cells(data)
        except Refused as error:
            self.refuse(str(error))
            return
        reassembled = reassemble(submitted, self.plan.released, self.plan.plain, settings.extra_cells)
        self.notebook, self.notes = reassembled.notebook, reassembled.notes
        begin = time.monotonic()
        cells = self._code_cells(exercises)
        if not settings.run_all:
            self.skipped = self._not_needed(cells, set(exercises))
        run = [cell for cell in cells if cell.place not in self.skipped]
        options = {
            "files": common.given,
            "references": prerequisites.references(self.name),
            "times": settings.times,
            "limits": settings.limits,
            **how,
        }
        self.evaluated = evaluate(run, exercises, common.material, **options)
        second_run.improve(self.evaluated, run, exercises, common.material, begin, **options)
        self.seconds = time.monotonic() - begin
        self._look_for_library_calls(cells, exercises, common.material)
        self._fill_in()

    def _look_for_library_calls(self, cells: list[Cell], exercises: dict, material) -> None:
        """An answer that calls what does its whole work loses its points until a human has looked."""
        own = [cell for cell in cells if not cell.check and not self._is_plain(self.notebook.cells[cell.place])]
        if sum(len(cell.source) for cell in own) > MAX_SEARCHED:
            self.notes.append("there is too much code to look for calls of library functions in it")
            return
        for cell in own:
            name = nbgrader_of(self.notebook.cells[cell.place]).get("grade_id")
            if name not in self.evaluated.reports:
                continue
            around = [other.source for other in own if other is not cell]
            whole, much = material(name)["by_hand"], ready_made.words(exercises[name].reference)
            found = library_calls.uses(name, cell.source, whole, much, around, exercises)
            self.notes += [f"{name} {use}" for use in found if use.kind != "whole"]
            self.evaluated.flags += [Flag("library", str(use), name) for use in found if use.kind == "whole"]
            self.evaluated.reports[name] = library_calls.without_points(self.evaluated.reports[name], found)

    def _code_cells(self, exercises: dict) -> list[Cell]:
        cells = []
        for place, cell in enumerate(self.notebook.cells):
            if cell.cell_type == "code":
                mark = nbgrader_of(cell)
                name = exercise_of(mark.get("grade_id", ""))
                checks = mark.get("grade") and not mark.get("solution") and name in exercises
                cells.append(Cell(place, cell.source, bool(mark.get("solution")), name if checks else None))
        return cells

    def _not_needed(self, cells: list[Cell], names: set[str]) -> set[int]:
        """The places of the handout's own cells that nothing graded depends on."""
        own = {cell.place: cell.source for cell in cells if self._is_plain(self.notebook.cells[cell.place])}
        others = [cell.source for cell in cells if cell.place not in own and not cell.check]
        return own.keys() - dependencies.needed(own, others, names)

    def _is_plain(self, cell) -> bool:
        """Whether this is a cell of the handout that nbgrader does not know, as it was given out."""
        return not nbgrader_of(cell) and cell.source.strip() in self.plan.plain

    def _fill_in(self) -> None:
        """Put outputs into the notebook: the student's own, cleaned, and at each check what was found."""
        count, budget = 0, sanitize.OutputBudget()
        for place, cell in enumerate(self.notebook.cells):
            mark = nbgrader_of(cell)
            report = self.evaluated.reports.get(exercise_of(mark.get("grade_id", ""))) if mark.get("grade") else None
            if self._is_plain(cell):
                cell.metadata["given"] = True  # metadata is the grader's; a student's is not read
            elif not mark.get("locked") and not _is_as_released(cell):
                cell.source = _shown_source(cell, budget)
            if cell.cell_type == "markdown":
                continue
            count += 1
            cell.execution_count = count
            if report is not None:
                cell.outputs = report_outputs(report, count)
            elif place in self.skipped:
                cell.outputs = [new_output("stream", name="stdout", text=NOT_RUN)]
            else:
                cell.outputs = sanitize.outputs(self.evaluated.outputs.get(place, []), count, budget)

    def entries(self) -> dict:
        """What the gradebook is told: points, extra credit and doubt by graded cell, and comments."""
        released = self.plan.released
        return {
            "missing": self.missing,
            "grades": {
                cell.name: [*self._score(cell), self._is_doubtful(cell)] for cell in released if cell.grade or cell.task
            },
            "comments": {cell.name: self._comment(cell.name) for cell in released if cell.solution or cell.task},
        }

    def record(self) -> dict:
        """What `results.json` is told."""
        return {
            "missing": self.missing,
            "refused": self.refused,
            "seconds": round(self.seconds, 3),
            "notes": self.notes,
            "flags": [asdict(flag) for flag in self.evaluated.flags],
            "exercises": [as_record(report, self.name) for report in self.evaluated.reports.values()],
        }

    def _cell(self, name: str) -> nbformat.NotebookNode:
        return next(cell for cell in self.notebook.cells if nbgrader_of(cell).get("grade_id") == name)

    def _score(self, cell: ReleasedCell) -> tuple[float | None, float | None]:
        """The points of a graded cell, None where a human must look; and extra credit, None where it has none."""
        exercise = exercise_of(cell.name)
        if self.missing or self.refused:
            return 0.0, 0.0 if exercise else None
        if cell.task:
            return None, None  # a human's to grade, whatever was done
        report = self.evaluated.reports.get(exercise)
        if report is not None:
            return (0.0, report.points) if report.bonus else (report.points, None)
        return self._score_as_nbgrader(cell.name), None

    def _score_as_nbgrader(self, name: str) -> float | None:
        quiet = nbformat.from_dict(self._cell(name))
        if quiet.cell_type == "code":  # a warning is not a failure
            quiet.outputs = [output for output in quiet.outputs if output.get("name") != "stderr"]
        try:
            score, most = utils.determine_grade(quiet)
        except (ValueError, KeyError, TypeError):
            return 0.0
        return score if score is None or math.isfinite(score) and 0 <= score <= most else 0.0

    def _is_doubtful(self, cell: ReleasedCell) -> bool:
        exercise = exercise_of(cell.name)
        return any(flag.exercise == exercise and flag.doubts_score for flag in self.evaluated.flags)

    def _comment(self, name: str) -> str | None:
        """What nbgrader says beside a solution cell."""
        if self.missing:
            return None
        if self.refused:
            return f"{sanitize.plain(self.refused)} This counts as zero."
        cell = self._cell(name)
        if not nbgrader_of(cell).get("locked") and _is_as_released(cell):
            return "No response."
        report = self.evaluated.reports.get(name)
        if report is not None and report.reason and not report.not_done:
            return sanitize.plain(report.reason)
        return None


def _is_as_released(cell) -> bool:
    mark = nbgrader_of(cell)
    return bool(mark) and mark.get("checksum") == utils.compute_checksum(cell)


def _shown_source(cell, budget: sanitize.OutputBudget) -> str:
    """What a student wrote, as it is shown."""
    markdown = cell.cell_type == "markdown"
    source = sanitize.markdown(cell.source) if markdown else sanitize.code(cell.source)
    if budget.take(markup=len(source)):
        return source
    return sanitize.TOO_LONG if markdown else f"# {sanitize.TOO_LONG}"


def report_outputs(report: Report, count: int) -> list:
    """A report as a notebook shows it: the table, and the points as nbgrader reads them."""
    table = {"text/html": as_html(report), "text/plain": as_text(report)}
    points = {**Points(report)._repr_mimebundle_(), MIMETYPE: as_record(report, "notebook")}
    return [
        new_output("display_data", data=table, metadata={}),
        new_output("execute_result", data=points, metadata={}, execution_count=count),
    ]
