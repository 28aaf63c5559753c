"""Grade one submission: bytes in, bytes out, in this process or on another machine, without a gradebook.

`submission` is read as text, put together anew from the gradebook's record, run in the jail and judged from outside.
What comes out is what a grader enters: scores and comments by cell, the notebook to show, and a record of everything.
"""

from __future__ import annotations

import hashlib
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

from attnlab.check import Points
from attnlab.report import as_html, as_text
from autograder.course import catalog, prerequisites
from autograder.grading import dependencies, forbidden_calls, graders_note, hidden_tests, messages, nodes, sanitize
from autograder.grading import submission as intake
from autograder.grading.execution import Cell, Evaluated, evaluate
from autograder.grading.results import MIMETYPE, RESULTS, as_record
from autograder.sandbox.limits import Limits, Times


@dataclass(frozen=True)
class Plan:
    """One notebook of an assignment, as the instructor has it.

    order: name of a cell -> its place; plain: sources of the cells that nbgrader does not know
    """

    official: list[intake.Official]
    order: dict[str, int]
    plain: frozenset[str]


@dataclass(frozen=True)
class Settings:
    """How to grade. Preprocessors are class names, called with `config`."""

    extra_cells: bool = True
    run_all: bool = False
    times: Times = Times()
    limits: Limits = Limits()
    preprocessors: tuple[str, ...] = ()
    config: dict = field(default_factory=dict)


def pack_assignment(
    plans: dict[str, Plan], settings: Settings, given: dict[str, bytes], hidden: dict[str, bytes]
) -> bytes:
    """What all submissions of an assignment have in common.

    given: the instructor's files beside the notebooks that code may read
    hidden: what answers are judged by, by exercise, as `kept.packed` gives it
    """
    notebooks = {
        name: {"official": [asdict(cell) for cell in plan.official], "order": plan.order, "plain": sorted(plan.plain)}
        for name, plan in plans.items()
    }
    files = {
        **{f"given/{name}": data for name, data in given.items()},
        **{f"hidden/{name}": data for name, data in hidden.items()},
    }
    return messages.wrap({"settings": asdict(settings), "notebooks": notebooks}, files)


def pack_submission(
    assignment: str, student: str, notes: list[str], refused: dict[str, str], notebooks: dict[str, bytes]
) -> bytes:
    """What was handed in.

    notes: what a human should know of the folder; refused: name of a notebook -> why it could not be read
    """
    return messages.wrap({"assignment": assignment, "student": student, "notes": notes, "refused": refused}, notebooks)


def grade(assignment: bytes, submission: bytes, many: bool = True) -> bytes:
    """The result of one submission, packed: see `_packed`. Raises jail.NoJail where code cannot be confined.

    many: more submissions will be graded by this process
    """
    common = _assignment(assignment)
    asked, files = messages.unwrap(submission)
    graded = {}
    for name, plan in common.plans.items():
        work = graded[name] = _Work(plan.official)
        if name in asked["refused"]:
            work.refuse(asked["refused"][name])
        elif name not in files:
            work.missing = True
        else:
            _grade_notebook(work, name, plan, files[name], common, many)
    return _packed(graded, asked, common)


@dataclass(frozen=True)
class _Assignment:
    """What `pack_assignment` was given; the files lie in a folder of this process's own."""

    plans: dict[str, Plan]
    settings: Settings
    given: dict[str, Path]
    folder: tempfile.TemporaryDirectory
    hidden: dict[str, bytes]
    materials: dict[str, dict] = field(default_factory=dict)  # unpacked, those that were wanted

    def material(self, name: str) -> dict:
        """What answers to an exercise are judged by."""
        if name not in self.materials:
            self.materials[name] = hidden_tests.unpacked(self.hidden[name])
        return self.materials[name]


_known: dict[bytes, _Assignment] = {}
KEPT = 8  # assignments that are kept unpacked


def _assignment(data: bytes) -> _Assignment:
    digest = hashlib.sha256(data).digest()
    if digest not in _known:
        while len(_known) >= KEPT:
            _known.pop(next(iter(_known)))
        _known[digest] = _unpacked(data)
    return _known[digest]


def _unpacked(data: bytes) -> _Assignment:
    record, files = messages.unwrap(data)
    plans = {
        name: Plan([intake.Official(**cell) for cell in plan["official"]], plan["order"], frozenset(plan["plain"]))
        for name, plan in record["notebooks"].items()
    }
    folder = tempfile.TemporaryDirectory(prefix="given-", ignore_cleanup_errors=True)
    given, hidden = (
        {name.removeprefix(kind): content for name, content in files.items() if name.startswith(kind)}
        for kind in ("given/", "hidden/")
    )
    for name, content in given.items():
        (Path(folder.name) / name).write_bytes(content)
    settings = record["settings"]
    plain = {**settings, "preprocessors": tuple(settings["preprocessors"])}
    settings = Settings(**{**plain, "times": Times(**settings["times"]), "limits": Limits(**settings["limits"])})
    return _Assignment(plans, settings, {name: Path(folder.name) / name for name in given}, folder, hidden)


def _grade_notebook(work: _Work, name: str, plan: Plan, data: bytes, common: _Assignment, many: bool) -> None:
    exercises = catalog.exercises_of(name) if name in catalog.chapters() else {}
    settings = common.settings
    try:
        submitted = intake.cells_of(data)
    except intake.Refused as error:
        work.refuse(str(error))
        return
    made = intake.reassemble(submitted, plan.official, plan.plain, settings.extra_cells)
    work.notebook, work.notes = made.notebook, made.notes
    begin = time.monotonic()
    cells = _cells(made.notebook, exercises)
    if not settings.run_all:
        work.left_out = _left_out(cells, made.notebook, plan.plain, set(exercises))
        cells = [cell for cell in cells if cell.place not in work.left_out]
    work.evaluated = evaluate(
        cells,
        exercises,
        common.material,
        files=common.given,
        loans=prerequisites.references(name),
        many=many,
        times=settings.times,
        limits=settings.limits,
    )
    work.seconds = time.monotonic() - begin
    for cell in cells:
        if cell.solution and not cell.check:
            found = exercises.get(work.notebook.cells[cell.place].metadata.nbgrader.grade_id)
            work.notes += forbidden_calls.forbidden_calls(cell.source, found) if found else []
    _fill_in(work, plan.plain)


def _packed(graded: dict[str, _Work], asked: dict, common: _Assignment) -> bytes:
    """Scores, comments and notes by notebook, with the notebooks and the record of results as files."""
    files, notebooks = {}, {}
    for name, work in graded.items():
        official = list(work.official.values())
        notebooks[name] = {
            "missing": work.missing,
            "grades": {
                cell.name: [*work.score(cell.name), work.is_suspect(cell.name)]
                for cell in official
                if cell.grade or cell.task
            },
            "comments": {cell.name: work.comment(cell.name) for cell in official if cell.solution or cell.task},
        }
        if not work.missing:
            graders_note.tell_grader(work.notebook, asked["notes"] + work.notes + work.evaluated.flags)
            files[f"{name}.ipynb"] = _written(work.notebook, name, asked, common.settings).encode("utf-8", "replace")
    record = {
        "notes": asked["notes"],
        "notebooks": {
            name: {
                "missing": work.missing,
                "refused": work.refused,
                "seconds": round(work.seconds, 3),
                "notes": work.notes,
                "flags": work.evaluated.flags,
                "exercises": [as_record(report, name) for report in work.evaluated.reports.values()],
            }
            for name, work in graded.items()
        },
    }
    files[RESULTS] = messages.as_text(record)
    return messages.wrap({"notebooks": notebooks}, files)


def _written(notebook, name: str, asked: dict, settings: Settings) -> str:
    resources = {
        "unique_key": name,
        "nbgrader": {"student": asked["student"], "assignment": asked["assignment"], "notebook": name},
    }
    for path in settings.preprocessors:
        module, _, kind = path.rpartition(".")
        step = getattr(importlib.import_module(module), kind)(config=Config(settings.config))
        notebook, resources = step(notebook, resources)
    # As nbformat writes it, but for the indent: with one Python's encoder is ten times as slow.
    return json.dumps(rwbase.strip_transient(rwbase.split_lines(notebook)), ensure_ascii=False, sort_keys=True)


class _Work:
    """What became of one notebook of a submission."""

    def __init__(self, official: list[intake.Official]):
        self.official = {cell.name: cell for cell in official}
        self.notebook: nbformat.NotebookNode | None = None
        self.evaluated = Evaluated()
        self.missing = False
        self.refused: str | None = None
        self.notes: list[str] = []
        self.left_out: set[int] = set()  # places of the handout's own cells that were not run
        self.seconds = 0.0

    def refuse(self, why: str) -> None:
        """It could not be read: everything is worth nothing, and the notebook is shown as it was given out."""
        self.refused = why
        self.notebook = intake.reassemble([], list(self.official.values())).notebook
        self.notes.append(f"the notebook could not be read: {why}")

    def score(self, name: str) -> tuple[float | None, float | None]:
        """The points of a graded cell, None where a human must look; and extra credit, None where it has none."""
        if self.missing or self.refused:
            return 0.0, 0.0 if self._exercise(name) else None
        if self.official[name].task:
            return None, None  # a human's to grade, whatever was done
        report = self._report(name)
        if report is not None:
            return (0.0, report.points) if report.bonus else (report.points, None)
        return self._score_as_nbgrader(name), None

    def _score_as_nbgrader(self, name: str) -> float | None:
        cell = next(c for c in self.notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)
        quiet = nbformat.from_dict(cell)  # a warning is no failure
        if cell.cell_type == "code":
            quiet.outputs = [output for output in quiet.outputs if output.get("name") != "stderr"]
        try:
            score, most = utils.determine_grade(quiet)
        except (ValueError, KeyError, TypeError):
            return 0.0
        return score if score is None or math.isfinite(score) and 0 <= score <= most else 0.0

    def comment(self, name: str) -> str | None:
        """What nbgrader says beside a solution cell."""
        if self.missing:
            return None
        if self.refused:
            return f"{sanitize.plain(self.refused)} This counts as zero."
        cell = next((c for c in self.notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name), None)
        report = self._report(f"check-{name}")
        if (
            cell is not None
            and not cell.metadata.nbgrader.get("locked")
            and cell.metadata.nbgrader.get("checksum") == utils.compute_checksum(cell)
        ):
            return "No response."
        if report is not None and report.reason and not report.not_done:
            return sanitize.plain(report.reason)
        return None

    def is_suspect(self, name: str) -> bool:
        """Whether a human should look at this score."""
        return any(flag.startswith(f"{name.removeprefix('check-')}: answered") for flag in self.evaluated.flags)

    def _report(self, name: str):
        return self.evaluated.reports.get(name.removeprefix("check-")) if name.startswith("check-") else None

    def _exercise(self, name: str) -> bool:
        return name.startswith("check-")


def _cells(notebook, exercises) -> list[Cell]:
    cells = []
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            mark = cell.metadata.get("nbgrader", {})
            name = mark.get("grade_id", "").removeprefix("check-")
            checks = mark.get("grade") and not mark.get("solution") and name in exercises
            cells.append(Cell(place, cell.source, bool(mark.get("solution")), name if checks else None))
    return cells


def _left_out(cells: list[Cell], notebook, plain: frozenset[str], names: set[str]) -> set[int]:
    """The places of the handout's own cells that nothing graded depends on."""
    own = {
        cell.place: cell.source
        for cell in cells
        if "nbgrader" not in notebook.cells[cell.place].metadata and cell.source.strip() in plain
    }
    others = [cell.source for cell in cells if cell.place not in own and not cell.check]
    return own.keys() - dependencies.needed(own, others, names)


NOT_RUN = "Not run while grading: no answer depends on this cell.\n"


def _fill_in(work: _Work, given: frozenset[str]) -> None:
    """Put outputs into the notebook: the students' own, cleaned, and at each check what was found.

    given: sources of the instructor's plain cells, which are shown as they are
    """
    count, room = 0, sanitize.Room()
    for place, cell in enumerate(work.notebook.cells):
        mark = cell.metadata.get("nbgrader", {})
        name = mark.get("grade_id", "").removeprefix("check-")
        as_released = mark and mark.get("checksum") == utils.compute_checksum(cell)
        if not mark and cell.source.strip() in given:
            cell.metadata["given"] = True  # metadata is the grader's; a student's is not read
        elif not mark.get("locked") and not as_released:
            cell.source = _shown_source(cell, room)
        if cell.cell_type == "markdown":
            continue
        count += 1
        cell.execution_count = count
        if cell.metadata.get("nbgrader", {}).get("grade") and name in work.evaluated.reports:
            cell.outputs = report_outputs(work.evaluated.reports[name], count)
        elif place in work.left_out:
            cell.outputs = [nodes.output("stream", name="stdout", text=NOT_RUN)]
        else:
            cell.outputs = sanitize.outputs(work.evaluated.outputs.get(place, []), count, room)


def _shown_source(cell, room: sanitize.Room) -> str:
    """What a student wrote, as it is shown."""
    markdown = cell.cell_type == "markdown"
    source = sanitize.markdown(cell.source) if markdown else sanitize.code(cell.source)
    if room.take(markup=len(source)):
        return source
    return sanitize.TOO_LONG if markdown else f"# {sanitize.TOO_LONG}"


def report_outputs(report, count: int) -> list:
    """A report as a notebook shows it: the table, and the points as nbgrader reads them."""
    shown = nodes.output(
        "display_data", data={"text/html": as_html(report), "text/plain": as_text(report)}, metadata={}
    )
    bundle = {**Points(report)._repr_mimebundle_(), MIMETYPE: as_record(report, "notebook")}
    return [shown, nodes.output("execute_result", data=bundle, metadata={}, execution_count=count)]
