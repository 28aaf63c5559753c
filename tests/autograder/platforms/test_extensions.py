"""Extensions from a CSV file count as nbgrader's own do, and hand nothing in."""

import datetime
import json

import pytest
from nbgrader.api import Gradebook

from autograder.__main__ import main
from autograder.gradebook import scores
from tests.conftest import write_files

DUE = datetime.datetime(2026, 9, 30, 18, 0)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_assignment("softmax", duedate=DUE)
        gradebook.add_notebook("softmax", "softmax")
        gradebook.add_grade_cell("check-softmax", "softmax", "softmax", max_score=6, cell_type="code")
        for student in ("ada", "boris", "chiara"):
            gradebook.add_student(student)
        gradebook.add_submission("softmax", "ada", timestamp=DUE + datetime.timedelta(days=2))
    return folder


def extend(course, text, *more):
    (course / "longer.csv").write_text(text)
    return main(["extend", "softmax", str(course / "longer.csv"), "--course", str(course), *more])


def read(course):
    with scores.opened(course) as gradebook:
        return scores.read(gradebook, "softmax").submissions, scores.deadlines(gradebook, "softmax")[1]


def test_days_hours_and_a_date(course, capsys):
    assert (
        extend(course, "id,days,hours,until\nada,1,12,\nboris,,,2026-10-01 20:30\n", "--timezone", "Europe/Berlin") == 0
    )
    submissions, longer = read(course)
    assert longer == {"ada": datetime.timedelta(hours=36), "boris": datetime.timedelta(minutes=24 * 60 + 30)}
    assert submissions["ada"].seconds_late == 12 * 3600
    assert set(submissions) == {"ada"}, "an extension is not a submission"
    out = capsys.readouterr().out
    assert "ada: 1 day, 12:00:00, until 2026-10-02 06:00:00 UTC (2026-10-02 08:00 Europe/Berlin)\n" in out
    assert "boris" in out
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        assert gradebook.find_submission("softmax", "ada").total_seconds_late == 12 * 3600


@pytest.mark.parametrize("zone, hours", [("UTC", 7 * 24), ("Europe/Berlin", 7 * 24 + 1)])
def test_a_day_is_one_of_the_calendar_where_the_clocks_change(course, capsys, zone, hours):
    """Due on October 20; on October 25 the clocks of Berlin go back an hour."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        gradebook.update_or_create_assignment("softmax", duedate=datetime.datetime(2026, 10, 20, 18))
    assert extend(course, "id,days,hours\nada,7,\nboris,,168\n", "--timezone", zone) == 0
    assert read(course)[1] == {"ada": datetime.timedelta(hours=hours), "boris": datetime.timedelta(hours=168)}


def test_for_a_submission_marked_late_without_a_time_it_is_asked_whether_it_was_in_time(course, capsys):
    record = {"platform": "canvas", "number": "1", "label": "ada", "late": True, "timed": False}
    write_files(course, {"collected/ada/softmax/record.json": json.dumps(record)})
    extend(course, "id,days\nada,2\nboris,1\n")
    ada, boris = capsys.readouterr().out.splitlines()
    assert "was it handed in within that?" in ada and "?" not in boris


def test_zero_takes_it_back(course):
    extend(course, "id,days\nada,2\n")
    assert extend(course, "id,days\nada,0\n") == 0
    submissions, longer = read(course)
    assert longer == {} and submissions["ada"].seconds_late == 2 * 24 * 3600


@pytest.mark.parametrize(
    "text, words",
    [
        ("id,days\nada,1\nzoe,1\n", "line 3: the gradebook has no student 'zoe'"),
        ("id,days\nada,1\nada,2\n", "line 3: ada appears twice"),
        ("id,days\nada,soon\n", "line 2: days and hours must be numbers"),
        ("id,days\nada,-1\n", "line 2: days and hours must be numbers"),
        ("id,until\nada,2026-09-01\n", "line 2: '2026-09-01' is not a time after the due date, 2026-09-30"),
        ("id,until\nada,3/4/2026 10:00\n", "line 2: '3/4/2026 10:00' is not a time that can be read"),
        ("id,until\nada,2026-10-04 10:00 IST\n", "line 2: '2026-10-04 10:00 IST' is not a time that can be read"),
        ("name\nada\n", "must have the column id"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_entered(course, capsys, text, words):
    assert extend(course, text) == 2
    assert words in capsys.readouterr().err and read(course)[1] == {}
