"""The penalty for lateness, by a table or by nbgrader's own setting."""

import pytest

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
