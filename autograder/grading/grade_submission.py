"""Grade one submission: bytes in, bytes out, in this process or on another machine, without a gradebook.

What was handed in is read as text, combined with the release, run in the jail and judged from outside.
The result is what a grader enters: scores and comments by cell, the notebook to show, and a record of everything.
"""

import functools
import hashlib
import importlib
import json
import math
import re
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import rwbase
from traitlets.config import Config

from attnlab.check import Points
from attnlab.checking import code_slice, library_calls
from attnlab.checking.judge import Report
from attnlab.checking.report import as_html, as_text
from autograder.grading import dependencies, hidden_tests, messages, reasons, sanitize, second_run
from autograder.grading.execution import Cell, Evaluated, evaluate
from autograder.grading.messages import Plan, Settings
from autograder.grading.reassembly import Reassembled, ReleasedCell, fit, reassemble
from autograder.grading.results import MIMETYPE, RESULTS, Entered, Entries, Flag, NotebookRecord, as_record
from autograder.grading.submission import Refused, SubmittedCell, picture_size, submitted_cells
from autograder.sandbox.bubblewrap import Jail, NoJail
from autograder.sandbox.limits import MAX_MARKUP, MAX_SEARCHED, WALL, Limits, Times
from course import catalog, prerequisites
from course.cells import exercise_of, nbgrader_of, new_output
from course.kit import library_shortcuts
from course.kit.exercise import Exercise
from course.nbgrader_workarounds import utils

NOT_RUN = "Not run while grading: no answer depends on this cell.\n"
NOT_COUNTED = "Not run while grading: this is a second copy of an answer.\n"


def prepare(assignment: bytes) -> tuple[float, float]:
    """Load what all submissions of an assignment have in common.

    Returns the seconds that one of them may take: of this process's processor time, and of wall time.
    """
    common = _assignment(assignment)
    for name in common.plans:
        _exercises(name)
    times = common.settings.times
    return times.grader, WALL * (times.grader + len(common.plans) * times.submission)


def grade(
    assignment: bytes,
    submission: bytes,
    many: bool = True,
    failed: dict[str, str] | None = None,
    begun: Callable[[str], None] = lambda name: None,
    confine: type[Jail] | None = None,
) -> bytes:
    """The result of one submission, packed: scores and comments by notebook, and as files the notebooks and the record.

    many: more submissions will be graded by this process
    failed: names of notebooks that cannot be graded -> why; begun: called with the name of each notebook
    confine: the kind of sandbox, if not a jail
    Raises NoJail if code cannot be confined, and MemoryError.
    """
    common = _assignment(assignment)
    handed_in, notebooks = messages.unwrap(submission)
    failed = failed or {}
    found = NotebookMatcher(common.plans, notebooks, handed_in["refused"], failed, begun)
    notes = handed_in["notes"] + found.notes
    entries, record, files, faults, used_up = {}, {}, {}, {}, False
    for name, plan in common.plans.items():
        begun(name)
        graded, settings = NotebookGrade(name, plan), common.settings
        try:
            if name in failed:
                graded.fail(failed[name])
                settings = Settings()  # a preprocessor may be what ended the process
            elif name in found.refused:
                graded.refuse(found.refused[name])
            elif name in found.cells:
                how = {"many": many, "times": common.settings.times, "confine": confine}
                graded.grade(found.cells[name], common, name in found.needs_confirmation, **how)
            entries[name], record[name] = graded.entries(), graded.record()
            files |= graded.files(handed_in, notes, settings)
        except (NoJail, MemoryError):
            raise
        except Exception:  # in the grader, or in the instructor's own preprocessors
            # The end of it, for a terminal: it may contain a student's words.
            faults[name] = re.sub(r"[^\n -~]", "?", traceback.format_exc()[-4000:])
            graded = NotebookGrade(name, plan)
            graded.fail(reasons.FAULT)
            entries[name], record[name] = graded.entries(), graded.record()
            files |= graded.files(handed_in, notes, Settings())
        used_up = used_up or graded.evaluated.used_up
    of = {"submission": handed_in["digest"], "release": common.fingerprint}
    files[RESULTS] = json.dumps({"graded": of, "notes": notes, "notebooks": record}, indent=1).encode("ascii")
    return messages.wrap({"notebooks": entries, "used_up": used_up, "faults": faults}, files)


def _exercises(notebook: str) -> dict[str, Exercise]:
    return catalog.exercises_in(notebook)


class NotebookMatcher:
    """Which file is which notebook of the assignment: the one with its name, or else the one that has its cells.

    cells, refused: by the assignment's names; needs_confirmation: names for which several files would do
    """

    def __init__(
        self,
        plans: dict[str, Plan],
        files: dict[str, bytes],
        refused: dict[str, str],
        failed: dict[str, str] | None = None,
        begun: Callable[[str], None] = lambda name: None,
    ):
        failed = failed or {}
        self.cells: dict[str, list[SubmittedCell]] = {}
        self.refused: dict[str, str] = {}
        self.needs_confirmation: set[str] = set()
        self.notes: list[str] = []
        read, refused = {}, {**refused, **{file: why for file, why in failed.items() if file in files}}
        for file, data in files.items():
            if file in failed:
                continue
            begun(file)
            try:
                read[file] = submitted_cells(data)
            except Refused as error:
                refused[file] = str(error)
        own = {name: fit(read[name], plan) for name, plan in plans.items() if name in read}
        own = {name: worked for name, (recognized, worked) in own.items() if recognized}
        others = {file: found for file, found in read.items() if file not in own}
        for name, plan in plans.items():
            file = name if own.get(name) else self._other_file(name, plan, others, least=int(name in own))
            file = name if file is None and name in own else file
            if file is not None:
                self.cells[name] = read[file]
                others.pop(file, None)
            elif name in refused:
                self.refused[name] = refused[name]
            elif name in read:
                self.refused[name] = f"{name}.ipynb has none of the cells that were handed out under this name"
        if not self.cells and not self.refused:
            there = ", ".join(f"{file}.ipynb" for file in sorted([*files, *refused])[:5])
            for name in plans:
                nothing = f"none of the files handed in ({there[:200]}) is {name}.ipynb or has its cells"
                self.refused[name] = nothing if there else "no notebook was handed in"
        self.notes += [
            f"the notebook '{file[:100]}.ipynb' was not graded" for file in sorted(others.keys() - plans.keys())
        ]
        self.notes += [
            f"the notebook '{file[:100]}.ipynb' could not be read: {refused[file]}"
            for file in sorted(refused.keys() - plans.keys())
        ]

    def _other_file(self, name: str, plan: Plan, files: dict[str, list[SubmittedCell]], least: int) -> str | None:
        """The file under another name that has this notebook's cells, and of several the one with most answers.

        least: answers that it must have
        """
        fits = {file: fit(found, plan, named=False) for file, found in files.items()}
        fits = {file: worked for file, (recognized, worked) in fits.items() if recognized and worked >= least}
        if not fits:
            return None
        if len(fits) > 1:
            self.needs_confirmation.add(name)
        file = max(sorted(fits), key=lambda file: fits[file])
        which = f"one of {len(fits)} that have" if len(fits) > 1 else "which has"
        self.notes.append(f"{name}.ipynb was handed in as '{file[:100]}.ipynb', {which} its cells")
        return file


class _Assignment:
    """An assignment as `pack_assignment` packed it; its files are in a folder of this process."""

    def __init__(self, data: bytes):
        record, files = messages.unwrap(data)
        given = record["settings"]
        times, limits = Times(**given.pop("times")), Limits(**given.pop("limits"))
        self.settings = Settings(times=times, limits=limits, **given)
        self.fingerprint = record["fingerprint"]
        self.plans = {name: [ReleasedCell(**cell) for cell in cells] for name, cells in record["notebooks"].items()}
        self._folder = tempfile.TemporaryDirectory(prefix="given-", ignore_cleanup_errors=True)
        self.given: dict[str, Path] = {}
        self._hidden: dict[str, bytes] = {}
        for path, content in files.items():
            kind, _, name = path.partition("/")
            if kind == "hidden":
                self._hidden[name] = content
            else:
                self.given[name] = Path(self._folder.name) / name
                self.given[name].parent.mkdir(parents=True, exist_ok=True)
                self.given[name].write_bytes(content)
        self.material = functools.cache(lambda name: hidden_tests.unpacked(self._hidden[name]))


_assignment = functools.lru_cache(maxsize=8)(_Assignment)


class NotebookGrade:
    """The state of one notebook of a submission. It is missing until it is refused or graded."""

    def __init__(self, name: str, plan: Plan):
        self.name, self.plan = name, plan
        self.plain = {cell.text for cell in plan if cell.name is None}
        self.notebook: Any = None  # a NotebookNode, unless it is missing
        self.reassembled = Reassembled()
        self.evaluated = Evaluated()
        self.refused: str | None = None
        self.failed = False  # the grader cannot read or judge it, so a human must look
        self.notes: list[str] = []
        self.skipped: set[int] = set()  # places of the handout's own cells that were not run
        self.seconds = 0.0

    def refuse(self, why: str) -> None:
        """Give no points to a notebook that could not be read, and show the released one."""
        self.refused = why
        self.reassembled = reassemble([], self.plan)
        self.notebook = self.reassembled.notebook
        self.notes.append(f"the notebook could not be read: {why}")

    def fail(self, why: str) -> None:
        """It could not be graded: it earns no points until a human has looked."""
        self.refuse(why)
        self.failed, self.notes = True, []
        self.evaluated.flags.append(Flag("not graded", f"the notebook could not be graded: {why}"))

    def files(self, handed_in: dict[str, Any], notes: list[str], settings: Settings) -> dict[str, bytes]:
        """The notebook that is shown, by its file's name; none if it is missing."""
        if self.notebook is None:
            return {}
        flags = [str(flag) for flag in self.evaluated.flags]
        sanitize.insert_grader_note(self.notebook, notes + self.notes + flags)
        names = {"student": handed_in["student"], "assignment": handed_in["assignment"], "notebook": self.name}
        made, resources = self.notebook, {"unique_key": self.name, "nbgrader": names}
        for path in settings.preprocessors:
            module, _, kind = path.rpartition(".")
            step = getattr(importlib.import_module(module), kind)(config=Config(settings.config))
            made, resources = step(made, resources)
        # As nbformat writes it, but without an indent, which makes Python's encoder ten times as slow.
        text = json.dumps(rwbase.strip_transient(rwbase.split_lines(made)), ensure_ascii=False, sort_keys=True)
        return {f"{self.name}.ipynb": text.encode("utf-8", "replace")}

    def grade(self, submitted: list[SubmittedCell], common: _Assignment, needs_confirmation: bool, **how) -> None:
        """Run a submitted notebook, judge its answers, and make the notebook that is shown.

        needs_confirmation: whether it is in doubt that this is the notebook which should be graded; how: see `evaluate`
        """
        exercises, settings = _exercises(self.name), common.settings
        self.reassembled = reassemble(submitted, self.plan, settings.extra_cells)
        self.notebook, self.notes = self.reassembled.notebook, self.reassembled.notes
        if needs_confirmation:
            self.reassembled.needs_confirmation |= {cell.name for cell in self.plan if cell.grade}
        begin = time.monotonic()
        cells = self._code_cells(exercises)
        if not settings.run_all:
            self.skipped = self._not_needed(cells, set(exercises))
        run = [cell for cell in cells if cell.place not in self.skipped]
        options = {
            "files": common.given,
            "references": prerequisites.references(self.name),
            "limits": settings.limits,
            **how,
        }
        self.evaluated = evaluate(run, exercises, common.material, **options)
        second_run.regrade_with_references(self.evaluated, run, exercises, common.material, begin, **options)
        self.seconds = time.monotonic() - begin
        self._look_for_library_calls(cells, exercises, common.material)
        self._look_for_missing_names(cells)
        self._fill_in()

    def _look_for_library_calls(self, cells: list[Cell], exercises: dict[str, Exercise], material) -> None:
        """An answer that calls a function for its whole work loses its points until a human has looked."""
        own = [cell for cell in cells if not cell.check and not self._is_plain(self.notebook.cells[cell.place])]
        if sum(len(cell.source) for cell in own) > MAX_SEARCHED:
            self.notes.append("there is too much code to look for calls of library functions in it")
            return
        for cell in own:
            name = nbgrader_of(self.notebook.cells[cell.place]).get("grade_id")
            if name not in self.evaluated.reports:
                continue
            around = [other.source for other in own if other is not cell]
            whole, much = material(name)["by_hand"], library_shortcuts.partial(exercises[name].reference)
            found = library_calls.uses(name, cell.source, whole, much, around, exercises)
            self.notes += [f"{name} {use}" for use in found if use.kind != "whole"]
            self.evaluated.flags += [Flag("library", str(use), name) for use in found if use.kind == "whole"]
            self.evaluated.reports[name] = library_calls.without_points(self.evaluated.reports[name], found)

    def _look_for_missing_names(self, cells: list[Cell]) -> None:
        """Tell of names that an answer uses and that are missing, since a cell of the student's own raised."""
        stopped = {}
        for cell in cells:
            errors = [out for out in self.evaluated.outputs.get(cell.place, []) if out["output_type"] == "error"]
            if errors and not nbgrader_of(self.notebook.cells[cell.place]):
                kind = re.sub(r"\W", "", str(errors[0].get("ename")))[:40]
                names = {name for statement in code_slice.of_cell(cell.source) for name in statement.binds}
                stopped |= dict.fromkeys(names, (kind, cell.source.strip().partition("\n")[0][:80]))
        for cell in cells if stopped else ():
            name = nbgrader_of(self.notebook.cells[cell.place]).get("grade_id") or ""
            report = self.evaluated.reports.get(name)
            if not cell.solution or report is None or report.passed:
                continue
            needs = {need for statement in code_slice.of_cell(cell.source) for need in statement.needs}
            for missing in sorted(needs & stopped.keys()):
                kind, line = stopped[missing]
                words = f"`{missing}` may be missing: the cell that defines it, `{line}` ..., stopped with {kind}"
                self.reassembled.told[name] = words
                self.notes.append(f"{name}: {words}")

    def _code_cells(self, exercises: dict[str, Exercise]) -> list[Cell]:
        cells = []
        for place, cell in enumerate(self.notebook.cells):
            if cell.cell_type == "code" and place not in self.reassembled.not_run:
                mark = nbgrader_of(cell)
                name = exercise_of(mark.get("grade_id", ""))
                checks = mark.get("grade") and not mark.get("solution") and name in exercises
                cells.append(Cell(place, cell.source, bool(mark.get("solution")), name if checks else None))
        return cells

    def _not_needed(self, cells: list[Cell], names: set[str]) -> set[int]:
        """The positions of the handout's own cells that nothing graded depends on."""
        own = {cell.place: cell.source for cell in cells if self._is_plain(self.notebook.cells[cell.place])}
        others = [cell.source for cell in cells if cell.place not in own and not cell.check]
        return own.keys() - dependencies.needed(own, others, names)

    def _is_plain(self, cell) -> bool:
        return not nbgrader_of(cell) and cell.source.strip() in self.plain

    def _fill_in(self) -> None:
        """Put outputs into the notebook: the student's own, cleaned, and at each check what was found."""
        count, budget = 0, sanitize.OutputBudget(markup=MAX_MARKUP // 2)
        for place, cell in enumerate(self.notebook.cells):
            mark = nbgrader_of(cell)
            name = exercise_of(mark.get("grade_id")) if mark.get("grade") else None
            report = self.evaluated.reports.get(name) if name else None
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
            elif place in self.skipped or place in self.reassembled.not_run:
                why = NOT_RUN if place in self.skipped else NOT_COUNTED
                cell.outputs = [new_output("stream", name="stdout", text=why)]
            else:
                cell.outputs = self.evaluated.outputs.get(place, [])
                for output in cell.outputs:
                    if output["output_type"] == "execute_result":
                        output["execution_count"] = count

    def entries(self) -> Entries:
        """The entries for the gradebook: points, extra credit and doubt by graded cell, and comments."""
        return {
            "missing": self.notebook is None,
            "grades": self._entered,
            "comments": {
                cell.name: self._comment(cell.name) for cell in self.plan if cell.name and (cell.solution or cell.task)
            },
        }

    @functools.cached_property  # read once the notebook is graded: by `entries` and by `record`
    def _entered(self) -> dict[str, Entered]:
        judged = self._judged()
        return {
            cell.name: Entered(*self._score(cell), self._needs_confirmation(cell), judged.get(cell.name))
            for cell in self.plan
            if cell.name and (cell.grade or cell.task)
        }

    def _judged(self) -> dict[str, str]:
        """A hash of what each graded cell judges: the sources of the cells since the graded cell before."""
        found, part = {}, hashlib.sha256()
        for cell in self.notebook.cells if self.notebook else ():
            mark = nbgrader_of(cell)
            part.update(cell.source.encode("utf-8", "replace") + b"\0")
            if mark.get("grade") or mark.get("task"):
                found[mark.get("grade_id")] = part.hexdigest()[:20]
                part = hashlib.sha256()
        return found

    def record(self) -> NotebookRecord:
        """The entries for `results.json`."""
        return {
            "missing": self.notebook is None,
            "refused": self.refused,
            "seconds": round(self.seconds, 3),
            "notes": self.notes,
            "flags": [asdict(flag) for flag in self.evaluated.flags],
            "exercises": [as_record(report, self.name) for report in self.evaluated.reports.values()],
            "entered": self._entered,
        }

    def _cell(self, name: str | None) -> nbformat.NotebookNode:
        return next(cell for cell in self.notebook.cells if nbgrader_of(cell).get("grade_id") == name)

    def _score(self, cell: ReleasedCell) -> tuple[float | None, float | None]:
        """The points of a graded cell, None if a human must look; and extra credit, None if it has none."""
        exercise = exercise_of(cell.name)
        if self.notebook is None or self.refused:
            return 0.0, 0.0 if exercise else None
        if cell.task:
            return None, None  # a human's to grade, whatever was done
        report = self.evaluated.reports.get(exercise or "")
        if report is not None:
            # A stretch exercise may have been released with points of its own, before it became one.
            return (0.0, report.points) if report.bonus and not cell.points else (report.points, None)
        return self._score_as_nbgrader(cell.name), None

    def _score_as_nbgrader(self, name: str | None) -> float | None:
        quiet: Any = nbformat.from_dict(self._cell(name))
        if quiet.cell_type == "code":  # a warning is not a failure
            quiet.outputs = [output for output in quiet.outputs if output.get("name") != "stderr"]
        try:
            score, most = utils().determine_grade(quiet)
        except (ValueError, KeyError, TypeError):
            return 0.0
        return score if score is None or math.isfinite(score) and 0 <= score <= most else 0.0

    def _needs_confirmation(self, cell: ReleasedCell) -> bool:
        if self.refused or cell.name in self.reassembled.needs_confirmation:
            return True
        exercise = exercise_of(cell.name)
        return self.failed or any(flag.exercise == exercise and flag.doubts_score for flag in self.evaluated.flags)

    def _comment(self, name: str | None) -> str | None:
        """nbgrader's comment on a solution cell."""
        if self.notebook is None:
            return None
        if self.refused:
            until = " until an instructor has looked at it" if self.failed else ""
            return f"{sanitize.plain(self.refused)} This counts as zero{until}."
        cell = self._cell(name)
        if not nbgrader_of(cell).get("locked") and _is_as_released(cell):
            return "No response."
        report = self.evaluated.reports.get(name or "")
        if report is not None and report.reason and not report.not_done:
            return sanitize.plain(report.reason)
        told = self.reassembled.told.get(name)
        return sanitize.plain(told) if told else None


def _is_as_released(cell) -> bool:
    mark = nbgrader_of(cell)
    return bool(mark) and mark.get("checksum") == utils().compute_checksum(cell)


def _shown_source(cell, budget: sanitize.OutputBudget) -> str:
    markdown = cell.cell_type == "markdown"
    if markdown and "attachments" in cell:
        cell.attachments = {name: file for name, file in cell.attachments.items() if _fits(file, budget)}
    source = sanitize.markdown(cell.source, cell.get("attachments", {})) if markdown else sanitize.code(cell.source)
    if budget.take(markup=len(source)):
        return source
    return sanitize.TOO_LONG if markdown else f"# {sanitize.TOO_LONG}"


def _fits(file: dict[str, str], budget: sanitize.OutputBudget) -> bool:
    (data,) = file.values()
    return budget.take(pictures=len(data), pixels=picture_size(data) or 0)


def report_outputs(report: Report, count: int) -> list:
    """A report as a notebook shows it: the table, and the points as nbgrader reads them."""
    table = {"text/html": as_html(report, graded=True), "text/plain": as_text(report, graded=True)}
    points = {**Points(report)._repr_mimebundle_(), MIMETYPE: as_record(report, "notebook")}
    return [
        new_output("display_data", data=table, metadata={}),
        new_output("execute_result", data=points, metadata={}, execution_count=count),
    ]
