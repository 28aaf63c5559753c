"""Released cells: the gradebook's record of the cells that nbgrader knows, in the released notebook's sequence.

A fingerprint of it is kept with each grade, to recognize grades of an older release.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import nbformat
from nbgrader import api
from nbgrader.api import Gradebook

from attnlab.notebook_cells import one_newline
from autograder.grading.messages import Plan
from autograder.grading.reassembly import ReleasedCell
from course import catalog, check_data
from course.cells import exercise_of, nbgrader_of
from course.errors import CourseError
from course.folder import course_seed


def plans(gradebook: Gradebook, assignment: str, release: Path) -> dict[str, Plan]:
    """The notebooks of an assignment as they were released, by name.

    release: the folder of the assignment's student notebooks
    Raises nbgrader's MissingEntry for an unknown assignment, and CourseError if this checkout cannot grade it.
    """
    found = {}
    for notebook in gradebook.find_assignment(assignment).notebooks:
        official = _official_cells(notebook)
        known = catalog.exercises_in(notebook.name) if catalog.chapters_in(notebook.name) else None
        tested = [name for cell in official if (name := _hidden_test_of(cell))]
        gone = [name for name in tested if known is not None and name not in known]
        if tested and known is None:
            raise CourseError(
                f"{assignment}: {notebook.name}.ipynb has checks of a chapter ({_listed(tested)}), which are graded "
                "only in the notebook of that chapter: call it as the chapter is called"
            )
        if gone:
            raise CourseError(
                f"{assignment}: it was released with {_listed(gone)}, which this checkout no longer has in the chapter "
                f"{notebook.name}; no score was changed. Grade it with the version that it was released with"
            )
        found[notebook.name] = _in_sequence(official, release / f"{notebook.name}.ipynb", assignment)
    return found


def fingerprint(plans: dict[str, Plan], course: Path) -> str:
    """A hash of what a grade depends on: graded cells, points, the hidden tests' seed, the code behind points."""
    chapters = {name: plan for name, plan in plans.items() if catalog.chapters_in(name)}
    stamps = {name: _stamp(plan, course_seed(course)) for name, plan in chapters.items()}
    cells = {
        name: [asdict(cell) for cell in plan if cell.cell_type == "code" or cell.name is not None]
        for name, plan in plans.items()
    }
    return hashlib.sha256(json.dumps([stamps, cells], sort_keys=True).encode("ascii")).hexdigest()


def _stamp(plan: Plan, seed: int) -> str:
    """A hash of the seed and of the code that the points of a chapter's released exercises depend on."""
    names = dict.fromkeys(name for cell in plan if (name := _hidden_test_of(cell)))
    recorded = sorted({check_data.graded_as(catalog.chapter_of(name), name) for name in names})
    return hashlib.sha256(f"{seed} {' '.join(recorded)}".encode()).hexdigest()[:20]


def ensure_same_cells(gradebook: Gradebook, assignment: str, notebook: str, cells: Iterable) -> None:
    """Raise CourseError if a new release would add or remove cells of a notebook that has submissions.

    cells: of the new source notebook. nbgrader refuses that too, when it has removed the old release.
    """
    try:
        record = gradebook.find_notebook(notebook, assignment)
    except api.MissingEntry:
        return
    if not record.submissions:
        return
    old = {cell.name for cell in record.source_cells}
    new = {name for cell in cells if (name := nbgrader_of(cell).get("grade_id"))}
    changes = [f"{what} {_listed(names)}" for what, names in (("removes", old - new), ("adds", new - old)) if names]
    if changes:
        raise CourseError(
            f"{assignment}: this version of the course {' and '.join(changes)}, and submissions of the old release are "
            "in the gradebook; nothing was released and no score was changed. This version can still grade "
            "the old release. For the new notebook, begin another course folder"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted({exercise_of(name) or name for name in names}))


def _hidden_test_of(cell: ReleasedCell) -> str | None:
    name = exercise_of(cell.name or "")
    return name if name and f"check_for({name!r})" in cell.source else None


def _in_sequence(official: list[ReleasedCell], path: Path, assignment: str) -> list[ReleasedCell]:
    """The gradebook's cells and the plain ones, as they follow each other in the released notebook."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0][:100]
        raise CourseError(
            f"{path} cannot be read ({why}); `nbgrader generate_assignment {assignment}` makes it again"
        ) from None
    if (language := _language(notebook.metadata)) not in {"python", "ipython"}:
        raise CourseError(
            f"{path.name} is a notebook in {language}, and only Python is graded in the sandbox. nbgrader's own way, "
            f"`AUTOGRADER_STOCK=1 nbgrader autograde {assignment}`, runs it with your rights if its kernel is there"
        )
    left, found = {cell.name: cell for cell in official}, []
    for cell in notebook.cells:
        text, name = one_newline(cell.source), nbgrader_of(cell).get("grade_id")
        if name in left:
            found.append(replace(left.pop(name), given=text, id=cell.get("id")))
        else:
            kind = "code" if cell.cell_type == "code" else "markdown"
            found.append(ReleasedCell(None, kind, text, id=cell.get("id")))
    return [*found, *left.values()]


def _language(metadata) -> str:
    """The language that a notebook says it is in; Python if it says nothing."""
    kernel = metadata.get("kernelspec", {})
    known = metadata.get("language_info", {}).get("name") or kernel.get("language")
    if known:
        return str(known).lower()
    name = str(kernel.get("name", "python"))
    return "python" if "python" in name.lower() else name


def _official_cells(notebook: api.Notebook) -> list[ReleasedCell]:
    grades, solutions, tasks = (
        {cell.name: cell for cell in cells}
        for cells in (notebook.grade_cells, notebook.solution_cells, notebook.task_cells)
    )
    points = {name: cell.max_score for name, cell in {**grades, **tasks}.items()}
    return [
        ReleasedCell(
            cell.name,
            cell.cell_type,
            one_newline(cell.source or ""),
            bool(cell.locked),
            cell.name in solutions,
            cell.name in grades,
            cell.name in tasks,
            points.get(cell.name),
        )
        for cell in notebook.source_cells
    ]
