"""The graded notebook has the student's answers in the released cells, in any state that it came back in."""

import copy
import dataclasses

import nbformat
import pytest

from attnlab.notebook_cells import one_newline
from autograder.grading.reassembly import SEVERAL, ReleasedCell, fit, reassemble
from autograder.grading.submission import SubmittedCell
from course.cells import nbgrader_of

STUB = 'def {}(x):\n    """What it does."""\n    raise NotImplementedError'
SHOWN = "plot(double(3))"


def plain(number, source, kind="code"):
    return ReleasedCell(None, kind, source, id=f"toy-{number}")


def stub(number, name):
    return ReleasedCell(name, "code", STUB.format(name), solution=True, given=STUB.format(name), id=f"toy-{number}")


def check(number, name):
    source, graded = f"check = hidden({name!r})\ncheck({name})", dict(locked=True, grade=True, points=3.0)
    return ReleasedCell(f"check-{name}", "code", source, given=f"check({name})", id=f"toy-{number}", **graded)


def written(number, name, source):
    graded = dict(solution=True, grade=True, points=2.0)
    return ReleasedCell(name, "markdown", source, given=source, id=f"toy-{number}", **graded)


RELEASED = [
    plain(0, "# Doubles", "markdown"),
    plain(1, "import numpy as np\nfrom attnlab import check"),
    plain(2, "data = [1, 2]"),
    stub(3, "double"),
    check(4, "double"),
    plain(5, SHOWN),
    stub(6, "triple"),
    check(7, "triple"),
    ReleasedCell("question", "markdown", "Why? SCHEME", locked=True, given="Why?", id="toy-8"),
    written(9, "why", "Write here."),
]
DOUBLE, TRIPLE, WHY = "def double(x):\n    return 2 * x", "def triple(x):\n    return 3 * x", "Because."
ANSWERS = {"double": DOUBLE, "triple": TRIPLE, "why": WHY}
OTHER = "def double(x):\n    return x + x"
MERGED = f"{RELEASED[1].source}\n\n{DOUBLE}"


def handed_in(answers=ANSWERS):
    """The released notebook with these answers."""
    return [
        SubmittedCell(cell.name, cell.cell_type, answers.get(cell.name, cell.given or cell.source), cell.id)
        for cell in RELEASED
    ]


def own(source, kind="code"):
    return SubmittedCell(None, kind, source, "0a1b2c3d")


def named(cells, name):
    return next(number for number, cell in enumerate(cells) if cell.name == name)


def found(made):
    """The text that is graded, by answer."""
    return {
        nbgrader_of(cell)["grade_id"]: cell.source for cell in made.notebook.cells if nbgrader_of(cell).get("solution")
    }


def order(made):
    """Everything in its place: released cells by their ids, added ones by their text."""
    by_text = {cell.source.strip(): cell.id for cell in RELEASED if cell.name is None}
    return [
        nbgrader_of(cell).get("grade_id") or by_text.get(cell.source.strip(), cell.source)
        for cell in made.notebook.cells
    ]


IN_ORDER = [cell.name or cell.id for cell in RELEASED]


def without(cells, *names):
    return [cell for cell in cells if cell.name not in names]


def each(cells, **changes):
    return [dataclasses.replace(cell, **changes) for cell in cells]


def unmarked(cells):
    return each(cells, name=None)


def bare(cells):
    return each(cells, name=None, id=None)


def older(cells, place):
    """As from a release that had no cell at this place: the ids behind it are those of the cells before."""
    return [
        dataclasses.replace(cell, id=cell.id if number < place else f"toy-{number - 1}")
        for number, cell in enumerate(cells)
        if number != place
    ]


def with_added(place, *added, answers=ANSWERS):
    """Cells put behind the one of this name or id; at the end for None."""
    cells = handed_in(answers)
    at = len(cells) if place is None else 1 + next(n for n, cell in enumerate(cells) if place in (cell.name, cell.id))
    return [*cells[:at], *added, *cells[at:]]


def replaced(place, **changes):
    return [dataclasses.replace(c, **changes) if place in (c.name, c.id) else c for c in handed_in()]


def copied(name, source, place):
    """A second cell with this mark behind another one."""
    return with_added(place, SubmittedCell(name, "code", source, "copy"))


UNDONE = {"triple": TRIPLE, "why": WHY}
MISSING, TWICE = ["check-double was missing"], ["double was handed in more than once"]
ELSEWHERE, BY_POSITION = ["double was found in another cell"], ["why was found by its position"]

# What came, for full marks without a doubt. Notes: what the grader is told, in the words that say which.
HARMLESS = {
    "as it should be": (handed_in(), []),
    "reversed": (handed_in()[::-1], []),
    "an answer moved above the imports": ([handed_in()[3], *handed_in()[:3], *handed_in()[4:]], []),
    "an answer moved to the end": (without(handed_in(), "double") + [handed_in()[3]], []),
    "checks first": (sorted(handed_in(), key=lambda cell: not (cell.name or "").startswith("check-")), []),
    "the handout's own cells deleted": ([c for c in handed_in() if c.name], []),
    "only the answers": ([c for c in handed_in() if c.name in ANSWERS], [*MISSING, "check-triple", "question"]),
    "imports deleted": ([c for c in handed_in() if c.id != "toy-1"], []),
    "imports moved to the end": ([*(c for c in handed_in() if c.id != "toy-1"), handed_in()[1]], []),
    "a check deleted": (without(handed_in(), "check-double"), MISSING),
    "a check twice": (
        with_added("check-double", SubmittedCell("check-double", "code", "3.0")),
        ["check-double was handed in more than once"],
    ),
    "a check asked in a cell of one's own": (with_added("double", own("check(double)")), []),
    "marks stripped, ids kept": (unmarked(handed_in()), []),
    "ids stripped, marks kept": (each(handed_in(), id=None), []),
    "marks and ids of one answer stripped": (replaced("double", name=None, id=None), ELSEWHERE),
    "an older release with a cell less": (older(handed_in(), 2), []),
    "an older release with another cell before it": (
        [dataclasses.replace(cell, id=f"toy-{number + 1}") for number, cell in enumerate(handed_in())],
        [],
    ),
    "an older release, marks stripped": (
        unmarked(older(handed_in(), 2)),
        [*ELSEWHERE, "triple was found in another cell", *BY_POSITION],
    ),
    "of another notebook's ids": ([dataclasses.replace(c, id=f"x{n}") for n, c in enumerate(handed_in())], []),
    "carriage returns": (
        [dataclasses.replace(c, source=one_newline(c.source.replace("\n", "\r\n"))) for c in handed_in()],
        [],
    ),
    "spaces at the ends": ([dataclasses.replace(c, source=f"{c.source}  \n") for c in handed_in()], []),
    "an answer as text": (replaced("double", kind="markdown"), ["double was handed in as another kind"]),
    "a check as text": (replaced("check-double", kind="markdown"), ["check-double was handed in as another kind"]),
    "a check rewritten": (replaced("check-double", source="3.0"), []),
    "an old stub at the end": (copied("double", STUB.format("double"), None), TWICE),
    "an old stub before its check": (copied("double", STUB.format("double"), "double"), TWICE),
    "a stub pasted without its mark": (with_added("check-double", own(STUB.format("double"))), []),
    "the same answer twice": (copied("double", DOUBLE, None), TWICE),
    "an old attempt at the end": (copied("double", OTHER, None), TWICE),
    "an old attempt above": (copied("double", OTHER, "toy-2"), TWICE),
    "a copy that became a helper": (copied("double", "def helper(x):\n    return x", "double"), TWICE),
    "a copy that was emptied": (copied("double", "", "double"), TWICE),
    "a second try below, with a second check": (
        [
            *handed_in({**ANSWERS, "double": STUB.format("double")})[:5],
            SubmittedCell("double", "code", DOUBLE),
            SubmittedCell("check-double", "code", "check(double)"),
            *handed_in()[5:],
        ],
        [*TWICE, "check-double was handed in more than once"],
    ),
    "the answer in another cell, the stub left": (with_added("double", own(DOUBLE), answers=UNDONE), ELSEWHERE),
    "the answer above its stub": (with_added("toy-2", own(DOUBLE), answers=UNDONE), ELSEWHERE),
    "the answer at the end": (with_added(None, own(DOUBLE), answers=UNDONE), ELSEWHERE),
    "the answer merged into the imports": (without(replaced("toy-1", source=MERGED), "double"), ELSEWHERE),
    "a written answer in another cell": (replaced("why", name=None, id="new"), BY_POSITION),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_full_marks_and_no_doubt(case):
    cells, notes = HARMLESS[case]
    before = copy.deepcopy(cells)
    made = reassemble(cells, RELEASED)
    wanted = ANSWERS | {"double": MERGED if "merged" in case else DOUBLE}
    assert {name: text.strip() for name, text in found(made).items()} == wanted
    assert [place for place in order(made) if place in IN_ORDER] == IN_ORDER
    assert made.needs_confirmation == set() and cells == before
    assert len(made.notes) == len(notes) and all(any(note in told for told in made.notes) for note in notes), made.notes
    nbformat.validate(made.notebook)
    for cell in made.notebook.cells:  # locked cells run as the instructor has them
        if nbgrader_of(cell).get("locked"):
            assert cell.source == next(c.source for c in RELEASED if c.name == nbgrader_of(cell)["grade_id"])


def test_types_points_locks_and_outputs_come_from_the_release():
    cells = reassemble(handed_in(), RELEASED).notebook.cells
    marks = {nbgrader_of(cell)["grade_id"]: nbgrader_of(cell) for cell in cells if nbgrader_of(cell)}
    assert marks["check-double"].points == 3.0 and marks["check-double"].locked and not marks["check-double"].solution
    assert not marks["double"].grade and "points" not in marks["double"]
    assert all(cell.get("outputs", []) == [] for cell in cells)


def test_an_unchanged_stub_is_graded_as_released():
    made = reassemble(without(handed_in({}), "triple"), RELEASED)
    assert found(made) == {"double": STUB.format("double"), "triple": STUB.format("triple"), "why": "Write here."}
    assert made.notes == ["triple was missing"] and not made.needs_confirmation


# The handout's own cells


CHANGED, OWN = "a cell of the handout was changed: ", "code in a cell that was not handed out: "
# What came, the cells that are added, the one that they follow, and the notes.
ADDED = {
    "a changed cell": (replaced("toy-2", source="x = [3]"), "toy-2", ["x = [3]"], [f"{CHANGED}x = [3]"]),
    "a changed cell without its id": (replaced("toy-1", source="x = 3", id=None), "toy-0", ["x = 3"], [f"{OWN}x = 3"]),
    "a copy of a cell": (with_added("check-double", own("data = [1, 2]")), "check-double", ["toy-2"], []),
    "cells of the student's own": (
        with_added("double", own("help_me = 1"), own("A thought.", "markdown")),
        "double",
        ["help_me = 1", "A thought."],
        [f"{OWN}help_me = 1"],
    ),
}


@pytest.mark.parametrize("case", ADDED)
def test_cells_that_are_not_the_handouts_stay_in_their_place_and_are_told_of(case):
    cells, before, added, notes = ADDED[case]
    made, place = reassemble(cells, RELEASED), IN_ORDER.index(before) + 1
    assert order(made) == [*IN_ORDER[:place], *added, *IN_ORDER[place:]]
    assert made.notes == notes


def test_a_helper_between_a_stub_and_the_answer_below_it_comes_before_the_answer():
    made = reassemble(
        with_added("double", own("class Base: pass"), own(f"{DOUBLE}\n\nx = Base"), answers=UNDONE), RELEASED
    )
    assert order(made)[2:5] == ["toy-2", "class Base: pass", "double"]
    assert found(made)["double"].startswith(DOUBLE)


def test_by_policy_code_of_the_students_own_is_not_run_but_text_stays():
    cells = with_added("toy-2", own("import math"), own("A thought.", "markdown"))
    made = reassemble(cells, RELEASED, run_extra=False)
    assert order(made)[2:5] == ["toy-2", "A thought.", "double"] and len(made.notes) == 1


@pytest.mark.parametrize("name", ["nobody", "check-nobody", None])
def test_an_unknown_grade_id_counts_as_an_added_cell(name):
    made = reassemble([SubmittedCell(name, "code", "x = 1"), *handed_in()], RELEASED)
    assert made.notebook.cells[0].source == "x = 1" and found(made) == ANSWERS


# Several answers


def test_the_copy_that_the_check_saw_counts_and_a_later_one_is_shown_and_not_run():
    made = reassemble(copied("double", OTHER, "toy-5"), RELEASED)
    assert found(made)["double"] == DOUBLE
    (idle,) = made.not_run
    assert made.notebook.cells[idle].source == OTHER and not nbgrader_of(made.notebook.cells[idle])
    assert "the one before its check counts" in made.notes[0]
    assert made.told == {"double": SEVERAL}


def test_an_earlier_attempt_runs_before_the_answer_whose_helpers_it_may_hold():
    made = reassemble(copied("double", f"{OTHER}\n\nhelper = 1", "toy-2"), RELEASED)
    assert order(made)[3:5] == [f"{OTHER}\n\nhelper = 1", "double"] and not made.not_run


def test_a_right_answer_and_then_another_before_the_check_is_graded_as_the_check_saw_it():
    made = reassemble(copied("double", OTHER, "double"), RELEASED)
    assert found(made)["double"] == OTHER and not made.needs_confirmation


@pytest.mark.parametrize("first", [True, False])
def test_both_halves_of_an_answer_that_was_split_run_in_their_order(first):
    helper, uses = "def two():\n    return 2", "def double(x):\n    return two() * x"
    halves = (helper, uses) if first else (uses, helper)
    cells = replaced("double", source=halves[0])
    cells.insert(4, SubmittedCell("double", "code", halves[1], "new"))
    made = reassemble(cells, RELEASED)
    texts = [cell.source for cell in made.notebook.cells]
    assert found(made)["double"] == uses and texts[3:5] == list(halves)
    assert not (made.not_run or made.needs_confirmation)


STUBBED = {**ANSWERS, "why": "Write here."}
TEXT, PART = own("Because.", "markdown"), own("And so.", "markdown")


def around_the_question(before=(), within="Why?", between=(), given="Write here.", after=()):
    """The notebook as handed in, with these cells and texts around the written answer."""
    cells = handed_in({**STUBBED, "question": within, "why": given})
    question, why = named(cells, "question"), named(cells, "why")
    cells[why + 1 : why + 1] = after
    cells[question + 1 : question + 1] = between
    cells[question:question] = before
    return cells


@pytest.mark.parametrize(
    "around, text, where",
    [
        ({"after": [TEXT]}, "Because.", "beside"),
        ({"between": [TEXT]}, "Because.", "beside"),
        ({"before": [TEXT]}, "Because.", "beside"),
        ({"after": [TEXT, PART]}, "Because.\n\nAnd so.", "beside"),
        ({"given": "", "between": [TEXT], "after": [PART]}, "Because.\n\nAnd so.", "beside"),
        ({"after": [own("# Because.\n# And so.")]}, "# Because.\n# And so.", "beside"),
        ({"within": "Why?\n\nBecause."}, "Because.", "of the question"),
        ({"within": "Because.\nWhy?"}, "Because.", "of the question"),
    ],
)
def test_a_written_answer_in_another_cell_is_found_and_told_of(around, text, where):
    made = reassemble(around_the_question(**around), RELEASED)
    assert found(made)["why"] == text
    assert f"why was empty; its text was found in the cell {where}" in " ".join(made.notes)
    assert [cell.source for cell in made.notebook.cells].count(text) == 1
    question = next(cell for cell in made.notebook.cells if nbgrader_of(cell).get("grade_id") == "question")
    assert question.source == "Why? SCHEME"


@pytest.mark.parametrize(
    "around",
    [
        {},
        {"after": [own("print(1)  # Because.")]},
        {"within": "Why not?"},  # the question of another release
        {"after": [own("# Doubles", "markdown")]},  # the handout's own
    ],
)
def test_where_nothing_was_written_the_answer_is_as_released(around):
    made = reassemble(around_the_question(**around), RELEASED)
    assert found(made)["why"] == "Write here." and "was empty" not in " ".join(made.notes)


def test_a_written_answer_in_its_cell_is_the_answer_whatever_is_beside_it():
    made = reassemble(around_the_question(given="Mine.", after=[TEXT]), RELEASED)
    assert found(made)["why"] == "Mine." and "Because." in [cell.source for cell in made.notebook.cells]


def test_imports_alone_are_a_notebook_in_which_nothing_was_done():
    made = reassemble(handed_in()[1:2], RELEASED)
    assert order(made) == IN_ORDER and found(made)["double"] == STUB.format("double")


IN_DOUBT = {
    "two answers and no check": [c for c in copied("double", OTHER, None) if c.name != "check-double"],
    "two answers below their check": [
        *without(handed_in(), "double"),
        handed_in()[3],
        SubmittedCell("double", "code", OTHER),
    ],
    "two checks that saw different answers": [
        *copied("double", OTHER, "check-triple"),
        SubmittedCell("check-double", "code", "check(double)"),
    ],
}


@pytest.mark.parametrize("case", IN_DOUBT)
def test_where_nothing_decides_the_last_answer_is_graded_and_a_human_confirms_it(case):
    made = reassemble(IN_DOUBT[case], RELEASED)
    assert found(made)["double"] == OTHER
    assert made.needs_confirmation == {"check-double"} and any("unclear" in note for note in made.notes)


# Without marks and ids


def test_a_notebook_without_marks_and_ids_is_graded_and_a_human_confirms_it():
    made = reassemble(bare(handed_in()), RELEASED)
    assert found(made) == ANSWERS and order(made) == IN_ORDER
    assert made.needs_confirmation == {"check-double", "check-triple", "why"}
    assert len(made.notes) == 1 and "neither" not in made.notes[0]


def test_what_cannot_be_found_in_it_is_to_be_looked_for_by_a_human():
    made = reassemble([c for c in bare(handed_in()) if c.source != TRIPLE], RELEASED)
    assert found(made)["triple"] == STUB.format("triple") and "check-triple" in made.needs_confirmation
    assert "triple was missing" in made.notes


def test_an_answer_that_is_not_python_is_found_by_its_beginning():
    broken = "def double(x):\n    return 2 *"
    assert found(reassemble(bare(replaced("double", source=broken)), RELEASED))["double"] == broken


@pytest.mark.parametrize("source", ["(" * 50_000, "def double(x):\n    \0", "x = " + "[" * 5000, "-" * 20_000 + "1"])
def test_odd_sources_are_looked_at_without_harm(source):
    assert found(reassemble([*bare(handed_in()), own(source)], RELEASED))["triple"] == TRIPLE


def test_an_answer_merged_into_an_earlier_one_is_not_undone_by_its_stub():
    both = f"{DOUBLE}\n\n\n{TRIPLE}"
    for cells in (without(replaced("double", source=both), "triple"), handed_in({"double": both, "why": WHY})):
        made = reassemble(cells, RELEASED)
        assert found(made)["double"] == both and found(made)["triple"].startswith("# ")
        assert any("triple was found in the cell of an earlier answer" in note for note in made.notes)


# Which file is which notebook


@pytest.mark.parametrize(
    "cells, named, fits",
    [
        (handed_in(), False, True),
        (unmarked(handed_in()), False, True),
        (bare(handed_in()), False, True),
        (bare(handed_in())[3:8], False, True),
        ([own("x = 1")], False, False),
        ([], True, False),
        (bare(handed_in())[:3], True, False),
        ([SubmittedCell("other", "code", "x = 1", "other-3")], True, False),
        (bare(handed_in({}))[6:7], True, True),
    ],
)
def test_a_notebook_is_known_by_its_cells(cells, named, fits):
    assert (fit(cells, RELEASED, named)[0] > 0) == fits


def test_of_several_files_the_one_with_more_answers_fits_better():
    assert fit(handed_in(), RELEASED)[1] == 3 and fit(handed_in({"double": DOUBLE}), RELEASED)[1] == 1
