"""Results in the gradebook: whole or not at all, the same however often, on SQLite and on PostgreSQL."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy
from nbgrader.api import Gradebook, MissingEntry

from autograder.__main__ import main
from autograder.gradebook import penalties, scores, writer
from autograder.gradebook.writer import INDEXES, Writer
from autograder.grading.results import Entered
from course.folder import GRADEBOOK_URL
from scripts import postgres

DUE = datetime.datetime(2026, 9, 30, 18, 0)
RESULT = {
    "softmax": {
        "missing": False,
        "grades": {
            "check-a": Entered(4.0, None, False, "a"),
            "check-b": Entered(0.0, 2.5, False, "b"),
            "written": Entered(None, None, False, "w"),
            "task": Entered(None, None, False, "t"),
        },
        "comments": {"a": "No response.", "written": None, "task": None},
    }
}


@pytest.fixture(scope="module")
def server():
    with postgres.server() as url:
        yield url


BOTH = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)  # the others ask nothing of the database


@pytest.fixture
def url(request, tmp_path) -> str:
    """A gradebook with one assignment and a student."""
    if getattr(request, "param", "sqlite") == "sqlite":
        address = f"sqlite:///{tmp_path / 'gradebook.db'}"
    else:
        address = request.getfixturevalue("server")
        if address is None:
            pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
        engine = sqlalchemy.create_engine(address)
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("DROP SCHEMA public CASCADE"))
            connection.execute(sqlalchemy.text("CREATE SCHEMA public"))
        engine.dispose()
    with Gradebook(address, "attention") as gradebook:
        gradebook.add_assignment("softmax", duedate=DUE)
        gradebook.add_notebook("softmax", "softmax")
        for name, kind in (("check-a", "code"), ("check-b", "code"), ("written", "markdown")):
            gradebook.add_grade_cell(name, "softmax", "softmax", max_score=4, cell_type=kind)
        gradebook.add_task_cell("task", "softmax", "softmax", max_score=2, cell_type="markdown")
        for name in ("a", "written"):
            gradebook.add_solution_cell(name, "softmax", "softmax")
        for name in ("check-a", "a"):
            gradebook.add_source_cell(name, "softmax", "softmax", cell_type="code", source="x", checksum="1")
        gradebook.add_student("ada")
    return address


def enter(url: str, when=DUE, late=None) -> None:
    with Writer(url, "attention", late) as into:
        into.enter("softmax", "ada", when, RESULT)


def entered(url: str, student: str = "ada") -> dict:
    """Everything that the gradebook holds of a submission, by nbgrader's own ways."""
    with Gradebook(url, "attention") as gradebook:
        submission = gradebook.find_submission("softmax", student)
        (notebook,) = submission.notebooks
        return {
            "score": submission.score,
            "late": submission.total_seconds_late,
            "when": submission.timestamp,
            "penalty": notebook.late_submission_penalty,
            "grades": {
                g.name: (g.auto_score, g.manual_score, g.extra_credit, g.needs_manual_grade) for g in notebook.grades
            },
            "comments": {c.name: (c.auto_comment, c.manual_comment) for c in notebook.comments},
        }


@BOTH
def test_a_result_is_entered_as_nbgrader_would(url):
    enter(url)
    found = entered(url)
    assert found["score"] == 6.5 and found["when"] == DUE and found["penalty"] is None
    assert found["grades"] == {
        "check-a": (4.0, None, None, False),
        "check-b": (0.0, None, 2.5, False),
        "written": (None, None, None, True),
        "task": (None, None, None, True),
    }
    assert found["comments"] == {"a": ("No response.", None), "written": (None, None), "task": (None, None)}


def by_hand(url: str, cell: str, score: float) -> None:
    with Gradebook(url, "attention") as gradebook:
        grade = gradebook.find_grade(cell, "softmax", "softmax", "ada")
        grade.manual_score, grade.needs_manual_grade = score, False
        gradebook.db.commit()


@BOTH
def test_a_penalty_is_a_share_of_the_score_that_counts_whenever_it_is_known(url):
    def tenth(student, notebook, seconds):
        return notebook.score / 10

    def renewed(*assignments):
        with Gradebook(url, "attention") as gradebook:
            return penalties.renew(gradebook, [*assignments], tenth)

    enter(url, DUE + datetime.timedelta(hours=2), tenth)
    assert entered(url)["penalty"] == 0.65
    by_hand(url, "written", 3.5)
    assert renewed("dot_products") == []
    assert renewed("softmax") == [("softmax", "ada", "softmax", 0.65, 1.0)]
    assert renewed() == [] and entered(url)["penalty"] == 1.0
    for extension, now in ((datetime.timedelta(hours=3), 0.0), (None, 1.0)):
        with Writer(url, "attention") as into:
            into.extend("softmax", "ada", extension)
        assert renewed()[0].now == now
    with Gradebook(url, "attention") as gradebook:
        gradebook.update_or_create_assignment("softmax", duedate=DUE + datetime.timedelta(days=1))
    assert renewed()[0].now == 0.0 and entered(url)["score"] == 10


@BOTH
def test_entered_again_nothing_changes_and_nothing_is_doubled(url):
    with Writer(url, "attention") as into:
        into.enter("softmax", "ada", DUE, RESULT)
        first = entered(url)
        into.enter("softmax", "ada", DUE, RESULT)
    enter(url, when=None)  # no new time: the old one stays
    assert entered(url) == first
    with Gradebook(url, "attention") as gradebook:
        for table, many in dict(submitted_assignment=1, submitted_notebook=1, grade=4, comment=3).items():
            assert gradebook.db.execute(sqlalchemy.text(f"SELECT count(*) FROM {table}")).scalar() == many


@BOTH
def test_report_and_export_read_what_was_entered_wherever_it_is(url, tmp_path, monkeypatch, capsys):
    enter(url, DUE + datetime.timedelta(hours=2), late=lambda student, notebook, seconds: 1.5)
    course, table = tmp_path / "course", tmp_path / "table.csv"
    monkeypatch.setenv(GRADEBOOK_URL, url)
    with scores.opened(course) as gradebook:
        read = scores.read(gradebook, "softmax").submissions["ada"]
    found = entered(url)
    assert read.grades["softmax", "check-b"] == scores.Grade(2.5, 0.0, None, 2.5, False)
    assert {cell: tuple(grade[1:]) for (_, cell), grade in read.grades.items()} == found["grades"]
    assert (read.total, read.penalty, read.seconds_late) == (found["score"] - 1.5, found["penalty"], found["late"])
    assert main(["report", "softmax", "--course", str(course)]) == 1, (
        "nothing is released here"
    )  # and no rule takes penalties
    assert "1 of 1 student handed in; 1 graded." in capsys.readouterr().out
    assert main(["export", "by-exercise", "--course", str(course), "--to", str(table)]) == 0
    assert table.read_text().splitlines()[1].endswith("4,2.5,pending,pending,0,6.5,2") and not course.exists()


def test_a_grade_whose_cell_is_gone_counts_as_it_does_for_nbgrader(url, tmp_path):
    with Writer(url, "attention") as into:
        into.enter("softmax", "ada", DUE, RESULT)
        gone = into._db.execute(sqlalchemy.text("SELECT id FROM base_cell WHERE name = 'check-a'")).scalar()
        for table in ("grade_cells", "base_cell"):
            into._db.execute(sqlalchemy.text(f"DELETE FROM {table} WHERE id = '{gone}'"))
        into._db.commit()
    with scores.opened(tmp_path) as gradebook:
        read = scores.read(gradebook, "softmax")
        assert read.submissions["ada"].total == gradebook.find_submission("softmax", "ada").score == 6.5
    assert len(read.cells) == 3


def test_what_a_human_entered_stays_and_waits_for_a_look(url):
    enter(url)
    with Gradebook(url, "attention") as gradebook:
        grade = gradebook.find_grade("check-a", "softmax", "softmax", "ada")
        grade.manual_score, grade.needs_manual_grade = 3.0, False
        gradebook.find_comment("a", "softmax", "softmax", "ada").manual_comment = "Nearly."
        gradebook.db.commit()
    enter(url)
    found = entered(url)
    assert found["grades"]["check-a"] == (4.0, 3.0, None, True)
    assert found["comments"]["a"] == ("No response.", "Nearly.")


def decide(url, **cells) -> None:
    """Enter scores as a human does in formgrader, which ends the wait."""
    with Gradebook(url, "attention") as gradebook:
        for name, values in cells.items():
            grade = gradebook.find_grade(name.replace("_", "-"), "softmax", "softmax", "ada")
            grade.needs_manual_grade = False
            for column, value in values.items():
                setattr(grade, column, value)
        gradebook.db.commit()


def enter_again(url, **changed: Entered) -> dict:
    """Enter the result again, with other points or answers for some cells; returns the grades."""
    (plan,) = RESULT.values()
    grades = {**plan["grades"], **{name.replace("_", "-"): value for name, value in changed.items()}}
    with Writer(url, "attention") as into:
        into.enter("softmax", "ada", None, {"softmax": {**plan, "grades": grades}}, {"softmax": plan["grades"]})
    return entered(url)["grades"]


DECIDED = {"check_a": {"manual_score": 3.0}, "check_b": {"extra_credit": 1.0}, "written": {"manual_score": 3.5}}


def test_what_a_human_decided_holds_while_what_it_judged_is_the_same(url):
    enter(url)
    decide(url, **DECIDED)
    assert enter_again(url) == {
        "check-a": (4.0, 3.0, None, False),
        "check-b": (0.0, None, 1.0, False),
        "written": (None, 3.5, None, False),
        "task": (None, None, None, True),  # no human has looked
    }


@pytest.mark.parametrize(
    "changed, wanted",
    [
        ({"check_a": Entered(4.0, None, False, "another")}, (4.0, 3.0, None, True)),
        ({"check_a": Entered(2.0, None, False, "a")}, (2.0, 3.0, None, True)),
        ({"check_b": Entered(0.0, 2.0, False, "another")}, (0.0, None, 1.0, True)),
        ({"written": Entered(None, None, False, "another")}, (None, 3.5, None, True)),
    ],
)
def test_and_waits_for_a_look_when_that_has_changed(url, changed, wanted):
    enter(url)
    decide(url, **DECIDED)
    (name,) = changed
    found = enter_again(url, **changed)
    assert found.pop(name.replace("_", "-")) == wanted
    assert [waits for *_, waits in found.values()].count(True) == 1  # the task


def test_a_doubt_that_a_human_has_settled_does_not_come_back_and_a_new_one_does(url):
    doubted = {"check_a": Entered(0.0, None, True, "a")}
    enter(url)
    assert enter_again(url, **doubted)["check-a"] == (0.0, None, None, True)
    with Writer(url, "attention") as into:
        decide(url, check_a={})
        result = {
            "softmax": {**RESULT["softmax"], "grades": {**RESULT["softmax"]["grades"], "check-a": doubted["check_a"]}}
        }
        into.enter("softmax", "ada", None, result, {"softmax": result["softmax"]["grades"]})
    assert entered(url)["grades"]["check-a"] == (0.0, None, None, False)


def test_extra_credit_of_which_nothing_is_recorded_is_the_graders(url):
    enter(url)
    decide(url, check_b={"extra_credit": 1.0})
    enter(url)
    assert entered(url)["grades"]["check-b"] == (0.0, None, 2.5, False)


def test_lateness_costs_what_the_plugin_says_and_a_missing_notebook_nothing(url):
    asked = []

    def late(student, notebook, seconds):
        asked.append((student, notebook.score, seconds))
        return 1.5

    when = DUE + datetime.timedelta(hours=1)
    with Writer(url, "attention", late) as into:
        into.enter("softmax", "ada", when, RESULT)
        assert asked == [("ada", 6.5, 3600.0)] and entered(url)["penalty"] == 1.5
        nothing = {"softmax": {**RESULT["softmax"], "missing": True}}
        into.enter("softmax", "ada", when, nothing)
    assert entered(url)["penalty"] is None and len(asked) == 1
    assert not any(waits for *_, waits in entered(url)["grades"].values())


@BOTH
def test_what_fails_halfway_leaves_nothing_and_the_next_goes_on(url, monkeypatch):
    with Writer(url, "attention") as into:
        whole = Writer._enter_comments

        def break_off(self, *args):
            whole(self, *args)
            raise RuntimeError("lightning")

        monkeypatch.setattr(Writer, "_enter_comments", break_off)
        with pytest.raises(RuntimeError):
            into.enter("softmax", "ada", DUE, RESULT)
        monkeypatch.undo()
        with pytest.raises(MissingEntry):
            entered(url)
        into.enter("softmax", "ada", DUE, RESULT)
    assert entered(url)["score"] == 6.5


def test_two_writers_that_meet_enter_one_result(url, monkeypatch):
    """Both find no submission; the second to commit finds the first one's."""
    with Writer(url, "attention") as first, Writer(url, "attention") as second:
        whole, met = Writer._enter, []

        def enter(self, *args):
            if self is second and not met:
                met.append(True)
                self._db.rollback()
                first.enter("softmax", "ada", DUE, RESULT)
                raise sqlalchemy.exc.IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed"))
            whole(self, *args)

        monkeypatch.setattr(Writer, "_enter", enter)
        second.enter("softmax", "ada", DUE, RESULT)
    assert entered(url)["score"] == 6.5


def test_students_are_made_only_where_that_is_wanted(url):
    with Writer(url, "attention") as into:
        with pytest.raises(MissingEntry, match="boris"):
            into.admit("boris", create=False)
        into.admit("boris", create=True)
        into.admit("boris", create=False)
        into.admit("o'brien", create=True)
        for odd in ("<img src=x>", "a&b", 'a"b', "a%2f", "a#b", "a\nb"):
            with pytest.raises(MissingEntry, match="cannot be a student's id"):
                into.admit(odd, create=True)
        into.enter("softmax", "boris", None, RESULT)
    assert entered(url, "boris")["when"] is None


def test_an_unknown_assignment_is_named(url):
    with Writer(url, "attention") as into:
        with pytest.raises(MissingEntry, match="sofmax"):
            into.enter("sofmax", "ada", None, RESULT)


@BOTH
def test_rows_are_found_by_index_however_large_the_table(url):
    """Every question of `enter` is answered by an index: none reads a whole table of students' rows."""
    with Writer(url, "attention") as into:
        into.enter("softmax", "ada", DUE, RESULT)
        engine = into._gradebook.engine
        if engine.dialect.name != "sqlite":
            names = {index["name"] for table, _ in INDEXES for index in sqlalchemy.inspect(engine).get_indexes(table)}
            assert {f"attention_{table}_{column}" for table, column in INDEXES} <= names
            return
        asked = []

        @sqlalchemy.event.listens_for(engine, "before_cursor_execute")
        def remember(connection, cursor, statement, parameters, context, executemany):
            if statement.startswith(("SELECT", "UPDATE")) and not executemany:
                asked.append((statement, parameters))

        into.enter("softmax", "ada", DUE + datetime.timedelta(hours=1), RESULT)
        with engine.connect() as connection:
            plans = [
                row[-1]
                for statement, parameters in list(asked)
                for row in connection.exec_driver_sql("EXPLAIN QUERY PLAN " + statement, parameters)
            ]
    large = {"grade", "comment", "submitted_notebook", "submitted_assignment", "student"}
    assert plans and [plan for plan in plans if plan.startswith("SCAN") and large & set(plan.split())] == []


def test_a_gradebook_that_refuses_indexes_works_without(url, monkeypatch):
    monkeypatch.setattr(writer, "INDEXES", [("no_such_table", "x")])
    enter(url)
    assert entered(url)["score"] == 6.5


def test_a_notebook_is_due_with_the_last_of_its_assignments(url):
    later = DUE + datetime.timedelta(days=7)
    with Gradebook(url, "attention") as gradebook:
        for name, due in (("again", later), ("never", None)):
            gradebook.add_assignment(name, duedate=due)
            gradebook.add_notebook("softmax", name)
        gradebook.add_notebook("masks", "never")
        assert scores.due_dates(gradebook) == {"softmax": later}


def test_an_extension_of_one_student_counts_for_when_a_notebook_is_due(url):
    with Gradebook(url, "attention") as gradebook:
        for student, extension in (("ada", {"days": 3}), ("late", {"days": 2}), ("none", None)):
            gradebook.update_or_create_student(student)
            gradebook.update_or_create_submission("softmax", student)
            if extension:
                gradebook.grant_extension("softmax", student, **extension)
        for whose, days in ((None, 3), (["late"], 2), (["none"], 0), ([], 0)):
            assert scores.due_dates(gradebook, whose) == {"softmax": DUE + datetime.timedelta(days=days)}
        assert scores.extended(gradebook) == {"ada", "late"}
