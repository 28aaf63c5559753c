"""Pictures in a written answer reach the person who grades, whatever program put them there, and nothing else does."""

import base64
import json

import bs4
import pytest

from autograder.grading import sanitize, submission
from autograder.grading.grade_submission import NotebookGrade
from autograder.grading.reassembly import ReleasedCell, reassemble
from autograder.grading.submission import submitted_cells
from autograder.sandbox import limits
from tests.autograder.grading.test_sanitize import png

PHOTO, SKETCH = png(8, 5), png(3, 3)
SVG = base64.b64encode(b"<svg onload=alert(1)>").decode()
LARGE = "A" * (limits.MAX_PICTURE + 4)
ANSWER = "written-toy"


def submitted(source, attached=None):
    """The cells of a notebook in which the written answer is this text."""
    files = {name: {"image/png": data} for name, data in (attached or {}).items()}
    marked = {"nbgrader": {"grade_id": ANSWER, "solution": True}}
    text = {"cell_type": "markdown", "source": source, "attachments": files, "metadata": marked}
    return submitted_cells(json.dumps({"cells": [text, {"cell_type": "code", "source": "y = 1"}]}).encode())


def graded(source, attached=None):
    """The written answer as the notebook shows it to the grader, and as HTML."""
    given = ReleasedCell(ANSWER, "markdown", "your answer", solution=True, grade=True, points=4)
    grade = NotebookGrade("toy", [given])
    grade.reassembled = reassemble(submitted(source, attached), [given])
    grade.notebook = grade.reassembled.notebook
    grade._fill_in()
    cell = grade.notebook.cells[0]
    return cell, bs4.BeautifulSoup(sanitize.rendered({"cell": cell}, cell.source), "html.parser")


@pytest.mark.parametrize(
    "source, attached",
    [
        ("before\n\n![my sketch](attachment:image.png)\n\nafter", {"image.png": PHOTO}),
        ("before\n\n![my [first] sketch](attachment:image%20(1).png)\n\nafter", {"image (1).png": PHOTO}),
        ('before\n\n![my sketch](<attachment:a.jpg> "title")\n\nafter', {"a.jpg": PHOTO}),
        (f"before\n\n![my sketch](data:image/png;base64,{PHOTO})\n\nafter", {}),
        (f'before\n\n<div><img alt="x" src="data:image/jpeg;base64,{PHOTO}" width="5"/></div>\n\nafter', {}),
        (f"before\n\n![my sketch][image1]\n\nafter\n\n[image1]: <data:image/png;base64,{PHOTO}>", {}),
    ],
    ids=["attached", "a name in parentheses", "with a title", "embedded", "HTML", "defined below"],
)
def test_a_picture_is_shown_however_a_program_writes_it(source, attached):
    _, page = graded(source, attached)
    assert [image["src"] for image in page.find_all("img")] == [f"data:image/png;base64,{PHOTO}"]
    assert "before" in page.text and "after" in page.text


def test_several_pictures_are_shown_in_their_places_and_a_long_answer_is_kept():
    words = "word " * 2000
    cell, page = graded(f"![one](data:image/png;base64,{PHOTO}) {words} ![two](attachment:b) end", {"b": SKETCH})
    assert [(image["alt"], image["src"][-40:]) for image in page.find_all("img")] == [
        ("one", PHOTO[-40:]),
        ("two", SKETCH[-40:]),
    ]
    assert cell.source.endswith("end") and len(cell.attachments) == 2


@pytest.mark.parametrize(
    "source, attached, why",
    [
        ("![photo](attachment:a)", {"a": LARGE}, submission.PICTURE_TOO_LARGE),
        (f"![photo](data:image/jpeg;base64,{LARGE})", {}, submission.PICTURE_TOO_LARGE),
        ("![photo](attachment:a)", {"a": png(60_000, 60_000, b"\0")}, submission.PICTURE_TOO_LARGE),
        ("![photo](attachment:a)", {"a": SVG}, submission.PICTURE_UNKNOWN),
        (f"![photo](data:image/svg+xml;base64,{SVG})", {}, submission.PICTURE_UNKNOWN),
        (f"![photo](data:image/png;base64,{SVG})", {}, submission.PICTURE_UNKNOWN),
        ("![photo](attachment:a)", {}, submission.PICTURE_MISSING),
        (f"![photo](attachment:{'a' * 32}.png)", {}, submission.PICTURE_MISSING),
    ],
    ids=["large", "large and embedded", "many pixels", "SVG", "embedded SVG", "SVG called PNG", "none", "an own name"],
)
def test_a_picture_that_is_not_shown_is_left_out_alone_with_the_reason(source, attached, why):
    cell, page = graded(f"before {source} after\n\n![small](attachment:small)", {**attached, "small": SKETCH})
    assert f"before (A picture was here: photo. {why}) after" in cell.source
    assert [image["alt"] for image in page.find_all("img")] == ["small"] and len(json.dumps(cell)) < 3000


def test_all_pictures_of_a_notebook_together_are_bounded():
    large = base64.b64encode(base64.b64decode(PHOTO) + bytes(limits.MAX_PICTURE // 4 * 3 - 1000)).decode()
    source = "\n\n".join(f"![{number}](attachment:{number})" for number in range(6))
    cell, _ = graded(source, {str(number): large[:-4] + f"{number:04}" for number in range(6)})
    assert len(cell.attachments) == 4 and cell.source.count(submission.PICTURE_TOO_LARGE) == 2


def test_the_same_large_picture_in_many_cells_is_shown_until_the_room_is_used_up(monkeypatch):
    monkeypatch.setattr(limits, "MAX_PICTURES", len(PHOTO) + 10)
    given = [ReleasedCell(f"written-{n}", "markdown", "yours", solution=True, grade=True, points=4) for n in range(3)]
    (cell, _) = submitted("![a](attachment:a)", {"a": PHOTO})
    grade = NotebookGrade("toy", given)
    copies = [type(cell)(one.name, cell.kind, cell.source, solution=True, pictures=cell.pictures) for one in given]
    grade.reassembled = reassemble(copies, given)
    grade.notebook = grade.reassembled.notebook
    grade._fill_in()
    assert [len(one.get("attachments", {})) for one in grade.notebook.cells] == [1, 0, 0]
    assert submission.PICTURE_TOO_LARGE in grade.notebook.cells[1].source


def test_another_picture_under_the_same_name_is_another_answer():
    first, second, again = (submitted("![a](attachment:a)", {"a": data})[0] for data in (PHOTO, SKETCH, PHOTO))
    assert first.source != second.source and first == again


def test_a_picture_follows_an_answer_that_is_moved_to_its_place():
    given = [
        ReleasedCell("question", "markdown", "Explain.", locked=True),
        ReleasedCell(ANSWER, "markdown", "your answer", solution=True, grade=True, points=4),
    ]
    question, *_ = submitted("Explain.")
    beside, *_ = submitted("![a](attachment:a)", {"a": PHOTO})
    cells = [
        type(question)("question", "markdown", "Explain."),
        type(question)(ANSWER, "markdown", "your answer", solution=True),
        type(beside)(None, "markdown", beside.source, pictures=beside.pictures),
    ]
    made = reassemble(cells, given).notebook.cells
    assert [len(cell.get("attachments", {})) for cell in made] == [0, 1]


@pytest.mark.parametrize("source", ["![" * 50_000, "![a](attachment:(" * 20_000, "[a[b" * 50_000, "<img " * 50_000])
def test_odd_texts_take_little_time(source):
    assert submission._named(source, {})[0] == source
