"""Grades for other programs: the columns that they read, and the scores that count."""

from __future__ import annotations

import csv
import datetime
import shutil

import pytest
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin
from traitlets.config import Config

from autograder.__main__ import main
from autograder.nbgrader_plugins.export import ByExercise, Canvas, Moodle, Stock
from course.errors import CourseError
from tests.conftest import write_files

DUE = datetime.datetime(2026, 9, 30, 18, 0)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Two assignments and five students: complete, late, graded by hand, not handed in, and one with an odd name."""
    course = tmp_path_factory.mktemp("export")
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        for name in ("softmax", "masks"):
            gradebook.add_assignment(name, duedate=DUE)
            gradebook.add_notebook(name, name)
            gradebook.add_grade_cell(f"check-{name}", name, name, max_score=6, cell_type="code")
            gradebook.add_grade_cell(f"written-{name}", name, name, max_score=4, cell_type="markdown")
        for student, more in {
            "ada": dict(first_name="Ada", last_name="Lovelace", email="ada@example.org"),
            "boris": dict(first_name="Борис", last_name="Ö"),
            "chiara": {},
            "dmitri": {},
            "evil": dict(first_name='=HYPERLINK("http://example.org")', last_name="a,b\nc"),
        }.items():
            gradebook.add_student(student, **more)
        for student, auto, manual, extra, penalty in (
            ("ada", 6, 3.5, None, None),
            ("boris", 4.5, None, None, 5.0),
            ("chiara", 2, 4, 1.25, 1.0),
            ("evil", 0, 0, None, None),
        ):
            gradebook.add_submission("softmax", student, timestamp=DUE)
            submitted = gradebook.find_submission_notebook("softmax", "softmax", student)
            submitted.late_submission_penalty = penalty
            check = gradebook.find_grade("check-softmax", "softmax", "softmax", student)
            check.auto_score, check.needs_manual_grade = auto, False
            written = gradebook.find_grade("written-softmax", "softmax", "softmax", student)
            written.manual_score, written.extra_credit = manual, extra
            written.needs_manual_grade = manual is None
            gradebook.db.commit()
    return course


def table(gradebook_of, tmp_path, kind, **options) -> list[list[str]]:
    place = tmp_path / "table.csv"
    exporter = kind(config=Config({"ExportPlugin": options}), to=str(place))
    with Gradebook(f"sqlite:///{gradebook_of / 'gradebook.db'}", "attention") as gradebook:
        exporter.export(gradebook)
    with place.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_a_column_for_each_exercise_and_what_counts(course, tmp_path):
    head, *rows = table(course, tmp_path, ByExercise, assignment=["softmax"])
    columns = ("softmax (6)", "written-softmax (4)", "late penalty", "total (10)", "pending")
    assert head == ["student_id", "last_name", "first_name", "email", *(f"softmax: {column}" for column in columns)]
    by_name = {row[0]: row[4:] for row in rows}
    assert by_name["ada"] == ["6", "3.5", "0", "9.5", "0"]
    assert by_name["boris"] == ["4.5", "pending", "5", "0", "1"]  # a penalty takes no more than there is
    assert by_name["chiara"] == ["2", "5.25", "1", "6.25", "0"]
    assert by_name["dmitri"] == ["", "", "", "", ""]  # without a submission there is no zero


def test_canvas_finds_students_by_login_and_has_the_points_in_its_second_row(course, tmp_path):
    """The rules of Canvas's own importer: header, "Points Possible", then students."""
    head, points, *rows = table(course, tmp_path, Canvas)
    assert "Student" in head[0] and "ID" in head[1] and head[2:5] == ["SIS User ID", "SIS Login ID", "Section"]
    assert head[5:] == ["masks", "softmax"] and "Points Possible" in points[0] and points[5:] == ["10", "10"]
    assert rows[0] == ["Lovelace, Ada", "", "", "ada", "", "", "9.5"]
    assert {len(row) for row in rows} == {len(head)}


def test_moodle_has_the_columns_of_its_own_export(course, tmp_path):
    head, *rows = table(course, tmp_path, Moodle, assignment=["softmax"])
    assert head == ["First name", "Last name", "ID number", "Email address", "Assignment: softmax (Real)"]
    assert rows[0] == ["Ada", "Lovelace", "ada", "ada@example.org", "9.5"]
    assert rows[1] == ["Борис", "Ö", "boris", "", ""]  # waits for a human
    assert table(course, tmp_path, Moodle, assignment=["softmax"], pending=True)[2] == ["Борис", "Ö", "boris", "", "0"]


def test_canvas_gets_its_own_list_back_with_what_is_final(course, tmp_path):
    listed = tmp_path / "canvas.csv"
    listed.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,softmax (77)\n    Points Possible,,,,,10\n"
        '"Lovelace, Ada",12345,u1,ada,S1,\n"Ö, Boris",12346,u2,boris,S1,\n"Student, Test",9,,x,S1,\n'
    )
    head, points, *rows = table(course, tmp_path, Canvas, assignment=["softmax"], class_list=str(listed))
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "softmax"]
    assert rows == [
        ["Lovelace, Ada", "12345", "u1", "ada", "S1", "9.5"],
        ["Ö, Boris", "12346", "u2", "boris", "S1", ""],
    ]


def test_canvas_numbers_come_from_what_was_collected_or_the_instructors_list(course, tmp_path):
    record = '{"platform": "canvas", "number": "12345"}'
    own = "id,canvas_id\nboris,12346\nada,\n"
    write_files(tmp_path, {"course/collected/ada/softmax/record.json": record, "own.csv": own})
    options = dict(course=str(tmp_path / "course"), class_list=str(tmp_path / "own.csv"))
    _, _, *rows = table(course, tmp_path, Canvas, **options)
    assert {row[3]: row[1] for row in rows}["ada"] == "12345" and {row[3]: row[1] for row in rows}["boris"] == "12346"


LISTED = (
    "Student,ID,SIS User ID,SIS Login ID,Section",
    '"Lovelace, Ada",12345,,ada@uni.edu,S1',
    '"Ö, Boris",12346,,BORIS,S1',
    "Chiara,12347,,chiara,S1",
    "Evil,12348,,evil,S1",
    "Zoe,12349,,zoe,S1",
)


@pytest.mark.parametrize(
    "rows, status, totals, words",
    [
        pytest.param(5, 0, ["9.5", "", "7.25", "0"], None, id="by number, and in another case"),
        pytest.param(3, 1, ["9.5", ""], "2 students with a submission not in {}, so not in the table: chiara, evil"),
        pytest.param(6, 0, ["9.5", "", "7.25", "0", ""], "in {}, and not in the gradebook: Zoe"),
    ],
)
def test_students_missing_in_list_or_gradebook_are_named(course, tmp_path, caplog, rows, status, totals, words):
    copy, listed, to = shutil.copytree(course, tmp_path / "course"), tmp_path / "list.csv", tmp_path / "out.csv"
    record = '{"platform": "canvas", "number": "12345"}'
    write_files(tmp_path, {"course/collected/ada/softmax/record.json": record, "list.csv": "\n".join(LISTED[:rows])})
    arguments = ["softmax", "--course", str(copy), "--roster", str(listed), "--to", str(to)]
    assert main(["export", "canvas", *arguments]) == status
    assert [line.rpartition(",")[2] for line in to.read_text("utf-8").splitlines()[2:]] == totals
    assert words.format(listed) in caplog.text if words else str(listed) not in caplog.text


def test_a_bonus_is_headed_with_its_points(tmp_path):
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_assignment("attention")
        gradebook.add_notebook("attention", "attention")
        for name in ("attention_backward", "not_of_the_course"):
            gradebook.add_grade_cell(f"check-{name}", "attention", "attention", max_score=0, cell_type="code")
    (head,) = table(tmp_path, tmp_path, ByExercise)
    assert "attention: attention_backward (+8)" in head and "attention: not_of_the_course (0)" in head


SECTIONS = "id,section\nada,A\nboris,B\nchiara,A\n"


def test_one_section_alone_is_exported(course, tmp_path):
    write_files(tmp_path, {"students.csv": SECTIONS})
    roster, to = str(tmp_path / "students.csv"), tmp_path / "out.csv"
    arguments = ["softmax", "--course", str(course), "--to", str(to), "--roster", roster, "--section", "A"]
    for kind, above in (("by-exercise", 1), ("canvas", 2), ("moodle", 1)):
        assert main(["export", kind, *arguments]) == 0
        rows = to.read_text("utf-8").splitlines()[above:]
        assert len(rows) == 2 and "ada" in rows[0] and "chiara" in rows[1]


@pytest.mark.parametrize(
    "text, more, words",
    [
        (SECTIONS, ["--section", "C"], "has no section 'C'; there are: A, B"),
        ("id\nada\n", ["--section", "A"], "needs the columns id and section"),
        (None, ["--section", "A"], "--section needs --roster FILE"),
    ],
)
def test_a_section_that_cannot_be_found_is_an_error_in_one_line(course, tmp_path, capsys, text, more, words):
    if text:
        write_files(tmp_path, {"students.csv": text})
        more = [*more, "--roster", str(tmp_path / "students.csv")]
    assert main(["report", "softmax", "--course", str(course), *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


WORKSHEET = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade)\n"


def test_moodles_worksheet_comes_back_with_its_grades(course, tmp_path):
    rows = "Participant 7,Ada L,ADA@example.org,Submitted,,10.00,-\nParticipant 8,Zoe,z@example.org,,3,10.00,x\n"
    (tmp_path / "sheet.csv").write_text(WORKSHEET + rows)
    options = dict(assignment=["softmax"], class_list=str(tmp_path / "sheet.csv"))
    assert table(course, tmp_path, Moodle, **options) == [
        WORKSHEET.strip().split(","),
        ["Participant 7", "Ada L", "ADA@example.org", "Submitted", "9.5", "10.00", "-"],
        ["Participant 8", "Zoe", "z@example.org", "", "3", "10.00", "x"],
    ]
    (tmp_path / "sheet.csv").write_text(f"{WORKSHEET}Participant 7,Ada L,ada@example.org,Submitted,,100.00,x\n")
    with pytest.raises(CourseError, match=r"maximum grade of 100.00, and softmax of 10.00"):
        table(course, tmp_path, Moodle, **options)
    with pytest.raises(CourseError, match="a class list of moodle, and this is a table for canvas"):
        table(course, tmp_path, Canvas, **options)


@pytest.mark.parametrize("kind", [ByExercise, Canvas, Moodle, Stock])
def test_a_name_cannot_become_a_formula_or_break_a_line(course, tmp_path, kind):
    rows = table(course, tmp_path, kind, student=["evil"], assignment=["softmax"])
    assert len(rows) == {ByExercise: 2, Canvas: 3, Moodle: 2, Stock: 2}[kind]
    assert not any(field.startswith("=") for row in rows for field in row)


def test_nbgraders_own_table_is_what_nbgrader_writes_where_no_name_is_odd(course, tmp_path):
    plain = ["ada", "boris", "chiara", "dmitri"]
    ours, theirs = (table(course, tmp_path, kind, student=plain) for kind in (Stock, CsvExportPlugin))
    assert ours == theirs and len(ours) == 9


def test_scores_that_are_not_final_are_told_of(course, tmp_path, caplog):
    exporter = Moodle(to=str(tmp_path / "table.csv"))
    exporter.log.propagate = True
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        exporter.export(gradebook)
    assert "totals that wait for a human are left empty (--pending writes them): boris" in caplog.text


@pytest.mark.parametrize(
    "kind, first", [("by-exercise", "student_id"), ("canvas", "Student"), ("moodle", "First name")]
)
def test_the_command_writes_what_it_is_asked_for(course, tmp_path, capsys, kind, first):
    place = tmp_path / "out.csv"
    assert main(["export", kind, "softmax", "--course", str(course), "--to", str(place)]) == 0
    assert place.read_text("utf-8").startswith(first) and capsys.readouterr().out == f"{place}\n"


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["softmax", "--course", "COURSE", "--to", "nowhere/out.csv"], "No such file"),
        (["sofmax", "--course", "COURSE", "--to", "out.csv"], "no assignment called sofmax"),
        (["softmax", "--course", "EMPTY", "--to", "out.csv"], "no gradebook in"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_line(course, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    places = {"COURSE": str(course), "EMPTY": str(tmp_path)}
    assert main(["export", "moodle", *(places.get(word, word) for word in arguments)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
