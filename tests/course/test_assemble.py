"""The instructor's notebooks: what is joined, what is hidden, and what an author hears about a mistake."""

import ast

import nbformat
import pytest

from attnlab.checking import codec
from course import assemble, catalog, chapter, release
from course.errors import CourseError

STUB = '''def double(x, times=2):
    """Twice x."""
    raise NotImplementedError'''


def test_the_body_of_the_solution_is_between_the_markers_under_the_stubs_docstring():
    solution = 'def double(x, times=2):\n    """Other words."""\n    # why\n    return x * times\n'
    assert (
        assemble.splice(STUB, solution, "here")
        == '''def double(x, times=2):
    """Twice x."""
    ### BEGIN SOLUTION
    # why
    return x * times
    ### END SOLUTION'''
    )


def test_methods_of_a_class_are_spliced_one_by_one_and_given_lines_stay():
    stub = '''class Box(Base):
    """Holds d."""

    def __init__(self, d):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        raise NotImplementedError'''
    solution = """class Box(Base):
    def __init__(self, d):
        super().__init__()
        self.d = d

    def forward(self, x):
        return x + self.d"""
    joined = assemble.splice(stub, solution, "here")
    assert joined.count("super().__init__()") == 1
    assert joined.count("### BEGIN SOLUTION") == joined.count("### END SOLUTION") == 2
    assert "return x + self.d" in joined and "NotImplementedError" not in joined


GIVEN = """class Box(Base):
    def __init__(self, d):
        self.d = d

    def forward(self, x):
        {}"""


def test_a_method_that_the_stub_gives_stays_as_it_is_and_must_be_the_solutions():
    stub, solution = GIVEN.format("raise NotImplementedError"), GIVEN.format("return x + self.d")
    joined = assemble.splice(stub, solution, "here")
    assert joined.count("self.d = d") == joined.count("### BEGIN SOLUTION") == 1
    with pytest.raises(CourseError, match="gives Box.__init__ in full"):
        assemble.splice(stub, solution.replace("self.d = d", "self.d = 2 * d"), "here")


A_CLASS = "class A:\n    def f(self):\n        raise NotImplementedError"


@pytest.mark.parametrize(
    "stub, solution, words",
    [
        (STUB, "def double(x, times=3):\n    return x", "differ in signature"),
        (STUB, "def double(x):\n    return x", "differ in signature"),
        (STUB, "def triple(x, times=2):\n    return x", "has no double"),
        ("def double(x):\n    return 4", "def double(x):\n    return x", "raise NotImplementedError"),
        (A_CLASS, "class A:\n    def f(self): return 1\n\n    def g(self): return 2", "which the stub lacks"),
    ],
)
def test_a_stub_that_does_not_fit_its_solution_is_named(stub, solution, words):
    with pytest.raises(CourseError, match=words):
        assemble.splice(stub, solution, "here")


@pytest.mark.parametrize("stem", catalog.chapters())
def test_source_notebooks_are_valid_and_hold_every_exercise_and_its_locked_test(stem):
    notebook = assemble.source_notebook(stem)
    nbformat.validate(notebook)
    by_id = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "nbgrader" in c.metadata}
    for name, exercise in catalog.exercises_of(stem).items():
        assert by_id[name].metadata.nbgrader.solution and not by_id[name].metadata.nbgrader.grade
        graded = by_id[f"check-{name}"].metadata.nbgrader
        assert graded.grade and graded.locked and not graded.solution
        assert graded.points == (0 if exercise.bonus else exercise.points)
    assert by_id[f"written-{stem}"].metadata.nbgrader.points == catalog.written_of(stem).points
    assert "BEGIN MARK SCHEME" in by_id[f"question-{stem}"].source


# A base class's constructor, and the calls of a training loop, which the chapters make themselves.
IN_MANY_PROGRAMS = {"super().__init__()", "optimizer.zero_grad()", "loss.backward()", "optimizer.step()"}


@pytest.mark.parametrize("stem", catalog.chapters())
def test_the_students_notebook_holds_no_solution_no_hidden_test_and_no_rubric(stem):
    text = nbformat.writes(release.student_notebook(stem))
    for word in ("autograder", "HIDDEN", "MARK SCHEME", "BEGIN SOLUTION", "solutions", "source_map"):
        assert word not in text
    for name in catalog.exercises_of(stem):
        definition, source = _solution(stem, name)
        given = _given_methods(stem, name)
        for method, function in assemble._functions(definition).items():
            for line in [] if method in given else assemble._body_lines(function, source, given=0):
                if (
                    len(line.strip()) >= 12
                    and not line.strip().startswith("#")
                    and line.strip() not in IN_MANY_PROGRAMS
                ):
                    assert line.strip() not in text, f"{name}: {line}"


def _given_methods(stem, name):
    """The methods that the stub gives in full."""
    read = chapter.read(stem)
    (stub,) = (read.notebook.cells[cells.stub] for cells in read.exercises if cells.name == name)
    methods = assemble._functions(chapter.definition_in(stub.source, "here"))
    return {method for method, node in methods.items() if "NotImplementedError" not in ast.unparse(node)}


def _solution(stem, name):
    source = assemble.solution_source(stem, name)
    return chapter.definition_in(source, "here"), source.split("\n")


@pytest.mark.parametrize("stem", catalog.chapters())
def test_no_book_markup_reaches_a_notebook(stem):
    for cell in release.student_notebook(stem).cells:
        if cell.cell_type == "markdown":
            for mark in (":::", "{ref}", "{cite", ")=\n", "{code-cell}", "+++"):
                assert mark not in cell.source


@pytest.mark.parametrize("stem", catalog.chapters())
def test_a_notebook_begins_with_its_number_and_ends_with_what_it_cites(stem):
    first, *_, last = release.student_notebook(stem).cells
    assert first.source.startswith(f"# {catalog.chapters().index(stem) + 1}. ")
    cited = "{cite" in catalog.chapter_path(stem).read_text("utf-8")
    assert last.source.startswith("## References\n") == cited


@pytest.mark.parametrize("name", catalog.all_exercises())
def test_every_section_that_a_report_points_at_is_a_heading_of_the_chapter(name):
    stem = catalog.chapter_of(name)
    text = catalog.chapter_path(stem).read_text("utf-8")
    headings = {line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")}
    exercise = catalog.exercise(name)
    for section in [exercise.section, *[m.section for m in exercise.misconceptions if m.section]]:
        assert section in headings


def test_hidden_inputs_depend_on_the_seed_and_public_ones_do_not_come_again():
    exercise = catalog.exercise("softmax")
    public, one, other = exercise.material(), exercise.material(1), exercise.material(2)
    drawn = [codec.frame(m["properties"][1]["cases"]) for m in (public, one, other)]
    assert len(set(drawn)) == 3
    assert codec.frame(exercise.material(1)["properties"]) == codec.frame(one["properties"])
