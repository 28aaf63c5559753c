"""Join chapter, solution and grading cell into the nbgrader source notebook.

Generated, never edited: `build/course/source/<stem>/<stem>.ipynb`. One assignment per chapter, named after it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

import nbformat

from course import catalog, cells, chapter, check_data, effort, plain_markdown
from course.errors import CourseError
from course.folder import course_folder


def write_all(stems: list[str] | tuple[str, ...] = (), course: Path | None = None) -> list[Path]:
    """Write source notebooks and check data for the chapters named, or for all; returns the notebooks' paths."""
    unknown = [stem for stem in stems if stem not in catalog.chapters()]
    if unknown:
        raise CourseError(f"unknown chapter {unknown[0]!r}; there are: {', '.join(catalog.chapters())}")
    written = []
    for stem in stems or catalog.chapters():
        text = nbformat.writes(source_notebook(stem))
        path = (course or course_folder()) / "source" / stem / f"{stem}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
        written.append(path)
    check_data.write_checks(stems or catalog.chapters())
    return written


def source_notebook(stem: str) -> nbformat.NotebookNode:
    """The instructor's notebook of one chapter: solutions in place, graded cells locked, markdown in its plain form."""
    read, where = chapter.read(stem), f"chapters/{stem}.md"
    stubs = {cells.stub: cells.name for cells in read.exercises}
    checks = {cells.check: cells.name for cells in read.exercises}
    number = catalog.chapters().index(stem) + 1
    made = []
    for index, cell in enumerate(read.notebook.cells):
        if index in stubs:
            _add_estimate(made, catalog.exercises_of(stem)[stubs[index]])
            made.append(_solution_cell(stem, stubs[index], cell.source))
        elif index in checks:
            made.append(_graded_cell(catalog.exercises_of(stem)[checks[index]], cell.source))
        elif chapter.is_written(cell):
            made += _written_cells(stem, plain_markdown.markdown(cell.source, where))
        elif cell.cell_type == "markdown":
            made.append(cells.new_cell("markdown", plain_markdown.markdown(cell.source, where)))
        else:
            # The book's tags; Jupyter has another name for it. The imports, the first code cell, stay open: a student
            # looks there for what `np` and `check` are.
            tags = set(cell.metadata.get("tags", [])) if any(one.cell_type == "code" for one in made) else set()
            folded = {"hide-input", "remove-input"} & tags
            made.append(cells.new_cell("code", cell.source, {"jupyter": {"source_hidden": True}} if folded else {}))
    if made and made[0].cell_type == "markdown":
        made[0].source = re.sub(r"^# (?=\S)", f"# {number}. ", made[0].source, count=1, flags=re.MULTILINE)
    if sources := plain_markdown.references(
        cell.source for cell in read.notebook.cells if cell.cell_type == "markdown"
    ):
        made.append(cells.new_cell("markdown", sources))
    notebook = cells.new_notebook(made, stem.replace("_", "-"))
    _add_setup(notebook)
    return notebook


def _add_estimate(made: list, exercise) -> None:
    """Say above a stub how long it takes: at the end of the text before it, or in a cell of its own after code."""
    words = effort.of_exercise(exercise)
    if words and made and made[-1].cell_type == "markdown" and not cells.nbgrader_of(made[-1]):
        made[-1].source += f"\n\n*{words}.*"
    elif words:
        made.append(cells.new_cell("markdown", f"*{words}.*"))


def _add_setup(notebook: nbformat.NotebookNode) -> None:
    """Put the cell that installs `attnlab` before the first code cell. The ids of the others stay."""
    code = [place for place, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    if code:
        needs_torch = any(re.search(r"^(import|from) torch\b", notebook.cells[place].source, re.M) for place in code)
        setup = cells.new_cell("code", cells.setup_source(needs_torch), {"jupyter": {"source_hidden": True}})
        setup["id"] = cells.SETUP_ID
        notebook.cells.insert(code[0], setup)


def splice(stub: str, solution: str, where: str) -> str:
    """The stub with each body replaced by the solution's between nbgrader's markers; docstrings stay the stub's.

    stub, solution: source of one function, or of one class, whose methods are spliced one by one. A method without
    `raise NotImplementedError` at its end is given, and stays unchanged.
    Raises CourseError if signatures or methods differ.
    """
    wanted, answers = chapter.definition_in(stub, where), _functions(chapter.definition_in(solution, where))
    lines, source = stub.rstrip().split("\n"), solution.split("\n")
    replaced, others = [], []
    for name, node in _functions(wanted).items():
        if name not in answers:
            raise CourseError(f"{where}: the solution of {wanted.name} has no {name}")
        answer = answers.pop(name)
        if _signature(node) != _signature(answer):
            raise CourseError(
                f"{where}: the stub {name}{_signature(node)} and its solution "
                f"{name}{_signature(answer)} differ in signature"
            )
        *given, last = map(ast.unparse, _statements(node) or node.body)
        if not last.startswith("raise NotImplementedError"):
            if [*given, last] != [ast.unparse(statement) for statement in _statements(answer)]:
                others.append(name)
            continue
        if [ast.unparse(statement) for statement in _statements(answer)[: len(given)]] != given:
            raise CourseError(f"{where}: the solution of {node.name} does not begin as the stub does")
        replaced.append((node.body[-1], _body_lines(answer, source, len(given))))
    if answers:
        raise CourseError(f"{where}: the solution of {wanted.name} defines {', '.join(answers)}, which the stub lacks")
    if not replaced:
        raise CourseError(f"{where}: the exercise {wanted.name} has no `raise NotImplementedError` to fill in")
    if others:
        raise CourseError(f"{where}: the stub gives {', '.join(others)} in full, but not as the solution has it")
    for statement, body in reversed(replaced):
        indent = " " * statement.col_offset
        marked = [f"{indent}### BEGIN SOLUTION", *body, f"{indent}### END SOLUTION"]
        lines[statement.lineno - 1 : statement.end_lineno] = marked
    return "\n".join(lines)


def solution_source(stem: str, name: str) -> str:
    """The source of one reference. Raises CourseError if it is missing."""
    reference = catalog.exercises_of(stem)[name].reference
    if reference.__module__ != f"solutions.{stem}":
        raise CourseError(f"the reference of {name} must come from solutions/{stem}.py")
    return textwrap.dedent(inspect.getsource(reference))


def _functions(node: ast.FunctionDef | ast.ClassDef) -> dict[str, ast.FunctionDef]:
    """A function by its name, or the methods of a class by names such as `Box.forward`."""
    if isinstance(node, ast.FunctionDef):
        return {node.name: node}
    return {f"{node.name}.{item.name}": item for item in node.body if isinstance(item, ast.FunctionDef)}


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){returns}"


def _statements(node: ast.FunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node) is not None else node.body


def _body_lines(node: ast.FunctionDef, source: list[str], given: int) -> list[str]:
    """The lines of a function's body, comments too, without docstring and the first `given` statements."""
    statements = _statements(node)
    before = node.body[: len(node.body) - len(statements) + given]
    start = before[-1].end_lineno if before else statements[0].lineno - 1
    # Lines are taken as they are, multi-line strings too: stubs and solutions are both indented by four spaces.
    return "\n".join(source[start : node.end_lineno]).strip("\n").split("\n")


def _solution_cell(stem: str, name: str, stub: str):
    source = splice(stub, solution_source(stem, name), f"chapters/{stem}.md, {name}")
    return cells.new_cell("code", source, cells.nbgrader_metadata(name, "code", solution=True))


def _graded_cell(exercise, source: str):
    # On the instructor's side `check` means the hidden tests. The import is cut from the students' copy, where
    # the same line runs attnlab's check on public cases.
    lines = [
        "### BEGIN HIDDEN TESTS",
        "from autograder.hidden import check_for",
        f"check = check_for({exercise.name!r})",
        "### END HIDDEN TESTS",
        source.strip(),
    ]
    points = 0 if exercise.bonus else exercise.points  # a bonus is added on top, as nbgrader's extra credit
    metadata = cells.nbgrader_metadata(cells.check_id(exercise.name), "code", grade=True, locked=True, points=points)
    return cells.new_cell("code", "\n".join(lines), metadata)


def _written_cells(stem: str, question: str):
    written = catalog.written_of(stem)
    rubric = f"\n\n=== BEGIN MARK SCHEME ===\n\n{textwrap.dedent(written.rubric).strip()}\n\n=== END MARK SCHEME ==="
    answer = cells.nbgrader_metadata(f"written-{stem}", "markdown", grade=True, solution=True, points=written.points)
    asked = cells.nbgrader_metadata(f"question-{stem}", "markdown", locked=True)
    return [
        cells.new_cell("markdown", question + rubric, asked),
        cells.new_cell("markdown", "Write your answer here.", answer),
    ]
