"""The penalty for lateness, by a table or by nbgrader's own setting."""

import datetime

import pytest
from nbgrader.api import Gradebook

from autograder.__main__ import main
from autograder.nbgrader_plugins.late import LateRules
from course.errors import CourseError

HOUR = 3600


@pytest.fixture
def penalty(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DIR", str(tmp_path))

    def of(table, hours, method="none"):
        if table is not None:
            (tmp_path / "late.csv").write_text(table)
        return LateRules(penalty_method=method).late_submission_penalty("ada", 20.0, hours * HOUR)

    return of


@pytest.mark.parametrize("hours, points", [(0.5, None), (1, None), (1.5, 2), (24, 2), (25, 10), (72, 10), (73, 20)])
def test_the_last_step_that_was_passed_counts(penalty, hours, points):
    assert penalty("hours,percent\n72,100\n1,10\n24,50\n", hours) == points


def test_without_a_table_nbgraders_setting_counts(penalty):
    assert penalty(None, 5) is None and penalty(None, 5, "zero") == 20


@pytest.mark.parametrize("table", ["", "hours\n1\n", "hours,percent\n1,150\n", "hours,percent\nsoon,1\n"])
def test_a_table_that_is_wrong_is_named(penalty, table):
    with pytest.raises(CourseError, match=r"late\.csv must have the columns hours and percent"):
        penalty(table, 5)


DUE = datetime.datetime(2026, 9, 30, 18, 0)


@pytest.fixture
def late_course(tmp_path):
    """A course in which ada is two hours late: 6 points for code, and a written answer that is not graded yet."""
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_assignment("softmax", duedate=DUE)
        gradebook.add_notebook("softmax", "softmax")
        gradebook.add_grade_cell("check-softmax", "softmax", "softmax", max_score=6, cell_type="code")
        gradebook.add_grade_cell("written-softmax", "softmax", "softmax", max_score=4, cell_type="markdown")
        gradebook.add_student("ada")
        gradebook.add_submission("softmax", "ada", timestamp=DUE + datetime.timedelta(hours=2))
        gradebook.find_grade("check-softmax", "softmax", "softmax", "ada").auto_score = 6
        gradebook.db.commit()
    (tmp_path / "late.csv").write_text("hours,percent\n1,50\n")
    return tmp_path


def exported(course, capsys) -> tuple[str, str]:
    """The penalty and the total in the table, and what was said."""
    place = course / "table.csv"
    assert main(["export", "by-exercise", "softmax", "--pending", "--course", str(course), "--to", str(place)]) == 0
    penalty, total = place.read_text().splitlines()[1].split(",")[-3:-1]
    return f"{penalty} {total}", capsys.readouterr().err


def test_points_by_hand_and_the_penalty_give_the_same_in_either_order(late_course, capsys):
    points, said = exported(late_course, capsys)
    assert points == "3 3" and "softmax: ada's penalty for lateness is now 3 points; it was 0" in said
    with Gradebook(f"sqlite:///{late_course / 'gradebook.db'}", "attention") as gradebook:
        gradebook.find_grade("written-softmax", "softmax", "softmax", "ada").manual_score = 4
        gradebook.db.commit()
    assert exported(late_course, capsys)[0] == "5 5"
    assert exported(late_course, capsys) == ("5 5", "")


def test_an_extension_and_an_edited_table_take_effect_at_once(late_course, capsys):
    assert exported(late_course, capsys)[0] == "3 3"
    (late_course / "late.csv").write_text("hours,percent\n1,10\n")
    assert exported(late_course, capsys)[0] == "0.6 5.4"
    (late_course / "longer.csv").write_text("id,hours\nada,3\n")
    assert main(["extend", "softmax", str(late_course / "longer.csv"), "--course", str(late_course)]) == 0
    assert "is now 0 points; it was 0.6" in capsys.readouterr().err
    assert exported(late_course, capsys) == ("0 6", "")
