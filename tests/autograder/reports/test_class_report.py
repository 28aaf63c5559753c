"""The report on a class: its numbers are those of the gradebook, and no student's text does more than be read."""

import csv
import datetime
import html
import json
import os
import re
import shutil
import sqlite3
from html.parser import HTMLParser

import nbformat
import pytest
import sqlalchemy
from nbgrader.api import Gradebook

from autograder.__main__ import main
from autograder.gradebook import released as plans_of
from autograder.grading.submission import read_folder
from autograder.reports import command, csv_table, html_page, model, read
from autograder.reports.text import as_text
from course.errors import CourseError
from course.folder import GRADEBOOK_URL
from tests.conftest import write_files

DUE = datetime.datetime(2026, 9, 30, 18, 0)
HOSTILE = '=cmd|"/c calc"!A1 <img src=x onerror="document.title=1"><script>document.title=2</script>\x1b[2J\u202eevil'
SWAP = "The two are swapped. Then `b` comes first."
# cell, type, points; "stretch" is a bonus: its points come on top
CELLS = [
    ("check-mix", "code", 4),
    ("check-add", "code", 2),
    ("check-stretch", "code", 0),
    ("written-toy", "markdown", 3),
]
# Of the CSV file, in this order.
COLUMNS = (
    "student last_name first_name assignment notebook exercise kind status score max_score auto_score manual_score "
    "extra_credit to_grade hours_late late_penalty passed properties failed_properties misconceptions through reason "
    "seconds review"
).split()


def answer(name, *passed, misconceptions=(), **more):
    """A record of an exercise whose properties are worth two points each."""
    points, most = 2.0 * sum(passed), 2.0 * len(passed)
    properties = [
        dict(title=f"{name} {number}", passed=bool(p), points=2.0 * p, max_points=2.0, hint=None, detail=None)
        | {"misconception": dict(misconceptions).get(number)}
        for number, p in enumerate(passed)
    ]
    record = dict(file="toy", exercise=name, points=points, max_points=most, properties=properties)
    return record | dict(reason=None, not_done=False, through=[]) | more


def results(*exercises, general=(), **more):
    work = dict(missing=False, refused=None, seconds=1.0, notes=[], flags=[], exercises=list(exercises))
    return {"notes": list(general), "notebooks": {"toy": work | more}}


class Course:
    """A course folder with one assignment, `toy`, filled by hand as the grader would fill it."""

    def __init__(self, folder):
        self.folder = folder
        self.gradebook = Gradebook(f"sqlite:///{folder / 'gradebook.db'}")

    def release(self):
        self.gradebook.add_assignment("toy", duedate=DUE)
        self.gradebook.add_notebook("toy", "toy")
        for name, kind, points in CELLS:
            self.gradebook.add_grade_cell(name, "toy", "toy", max_score=points, cell_type=kind)
            self.gradebook.add_source_cell(name, "toy", "toy", cell_type=kind, source="x", checksum="1")
        marked = [{"metadata": {"nbgrader": {"grade_id": name}}} for name, _, _ in CELLS]
        source, empty = json.dumps({"cells": [{"metadata": {}}, *marked]}), nbformat.writes(nbformat.v4.new_notebook())
        write_files(self.folder, {"source/toy/toy.ipynb": source, "release/toy/toy.ipynb": empty})

    def enrol(self, *students, **more):
        for student in students:
            self.gradebook.add_student(student, **more)

    def hand_in(self, student, stamp="2026-09-30 12:00:00 UTC", stage="submitted"):
        return write_files(self.folder / stage / student / "toy", {"toy.ipynb": "{}", "timestamp.txt": stamp})

    def grade(self, student, found, mix=0.0, add=0.0, stretch=0.0, written=None, hours=-6.0, penalty=None):
        """found: the content of results.json, or bytes, or None for no such file; the student is enrolled"""
        stamp = DUE + datetime.timedelta(hours=hours)
        submitted = self.hand_in(student, f"{stamp} UTC")
        place = self.hand_in(student, f"{stamp} UTC", "autograded")
        if isinstance(found, dict):
            plans = plans_of.plans(self.gradebook, "toy", self.folder / "release" / "toy")
            release = plans_of.fingerprint(plans, self.folder)
            found = {"graded": {"submission": read_folder(submitted).digest, "release": release}, **found}
        if found is not None:
            (place / "results.json").write_bytes(found if isinstance(found, bytes) else json.dumps(found).encode())
        self.gradebook.update_or_create_student(student)
        submission = self.gradebook.update_or_create_submission("toy", student, timestamp=str(stamp))
        submission.notebooks[0].late_submission_penalty = penalty
        for grade in submission.notebooks[0].grades:
            grade.needs_manual_grade = grade.name == "written-toy" and written is None
            grade.auto_score = {"check-mix": mix, "check-add": add, "check-stretch": 0.0}.get(grade.name)
            grade.extra_credit = stretch if grade.name == "check-stretch" else None
            grade.manual_score = written if grade.name == "written-toy" else None
        self.gradebook.db.commit()

    def by_hand(self, student, cell, **values):
        grade = self.gradebook.find_grade(cell, "toy", "toy", student)
        for name, value in values.items():
            setattr(grade, name, value)
        self.gradebook.db.commit()

    def report(self):
        return read.gather("toy", self.folder)

    def student(self, name):
        return next(student for student in self.report().students if student.name == name)


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk():
    """Every entry is a commit, and a busy disk takes a second for each. These gradebooks outlive no power cut."""

    def relax(connection, _):
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", relax)
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", relax)


@pytest.fixture(scope="module")
def released(no_waiting_for_the_disk, tmp_path_factory):
    made = Course(tmp_path_factory.mktemp("released"))
    made.release()
    made.gradebook.close()
    return made.folder


@pytest.fixture
def course(released, tmp_path):
    made = Course(shutil.copytree(released, tmp_path / "course"))
    yield made
    made.gradebook.close()


@pytest.fixture
def class_(course):
    """ada: all, bonus too; ben: late, a misconception; cleo: not begun; dan: nothing; eva: no notebook came out."""
    course.enrol("dan", "eva")
    found = results(answer("mix", 1, 1), answer("add", 1), answer("stretch", 1, 1), seconds=2.0)
    course.grade("ada", found, mix=4, add=2, stretch=4, written=2.5)
    found = results(
        answer("mix", 1, 0, misconceptions={1: SWAP}),
        answer("add", 1),
        answer("stretch", 0, 0, misconceptions={0: SWAP, 1: SWAP}),
        seconds=7.0,
        notes=["check-add was missing"],
        flags=[{"kind": "made up", "text": "answered what was not asked", "exercise": "mix"}],
    )
    course.grade("ben", found, mix=2, add=2, hours=25, penalty=1.5)
    found = results(
        answer("mix", 0, 0, reason="mix is not done yet", not_done=True),
        answer("add", 0, reason="nothing is there so far", not_done=True),
        answer("stretch", 0, 0, reason="the notebook raised ValueError"),
        seconds=4.0,
    )
    course.grade("cleo", found, written=0)
    course.hand_in("eva")
    return course


def test_totals_are_those_that_nbgrader_exports(class_):
    assert class_.gradebook.find_submission("toy", "ada").score == 12.5
    totals = {student.name: student.total for student in class_.report().students}
    assert totals == {"ada": 4 + 2 + 4 + 2.5, "ben": 2 + 2 - 1.5, "cleo": 0, "dan": 0, "eva": 0}


def test_a_penalty_takes_no_more_than_there_is(course):
    course.grade("ada", results(answer("mix", 1, 0)), mix=2, hours=50, penalty=9.0)
    assert (course.student("ada").total, course.student("ada").hours_late) == (0, 50)


def test_a_few_seconds_late_are_not_shown_as_none(course):
    course.grade("ada", results(answer("mix", 1, 0)), mix=2, hours=0.01)
    text = as_text(course.report())
    assert "< 0.1 h" in text and " 0.0 h" not in text


def test_what_a_human_gave_counts_instead_and_extra_credit_on_top(class_):
    class_.by_hand("ben", "check-mix", manual_score=3.5, extra_credit=0.25)
    assert class_.student("ben").total == 3.75 + 2 - 1.5
    row = next(r for r in csv_table.report_rows(class_.report()) if (r["student"], r["exercise"]) == ("ben", "mix"))
    assert (row["score"], row["auto_score"], row["manual_score"], row["extra_credit"]) == (3.75, 2, 3.5, 0.25)


def test_properties_misconceptions_and_times_are_counted_by_student(class_):
    report = class_.report()
    mix, add, stretch, _ = report.exercises
    assert report.properties(mix) == {"mix 0": (2, 3), "mix 1": (1, 3)}
    assert report.properties(add) == {"add 0": (2, 3)}
    assert [(e.name, text, [s.name for s in students]) for e, text, students in report.misconceptions()] == [
        ("mix", SWAP, ["ben"]),
        ("stretch", SWAP, ["ben"]),
    ]
    assert [(seconds, student.name) for seconds, student in report.times()] == [(7, "ben"), (4, "cleo"), (2, "ada")]


def test_the_most_frequent_misconception_comes_first(course):
    course.grade("ada", results(answer("mix", 0, 0, misconceptions={0: "rare", 1: "common"})))
    course.grade("ben", results(answer("mix", 1, 0, misconceptions={1: "common"})), mix=2)
    found = [(text, len(students)) for _, text, students in course.report().misconceptions()]
    assert found == [("common", 2), ("rare", 1)]


def test_the_terminal_says_all_of_it(class_):
    text = as_text(class_.report())
    for words in (
        "4 of 5 students handed in; 3 graded.",
        "of 9 points: median 2.5, mean 5, from 0 to 12.5",
        "median 4.0 s, slowest 7.0 s (ben)",
        "mix: 1 of 3 have everything right, 1 did not begin",
        "   1 of 3    mix 1",
        f"1  mix: {SWAP}\n        (ben)",
        "- mix: answered what was not asked",
        "- check-add was missing",
        "- stretch: the notebook raised ValueError",
        "Not handed in: 1\n  dan",
        "Written answers to grade\n  written-toy, 1: ben",
        "- handed in, but there is no result",
    ):
        assert words in text
    lines = text.splitlines()
    for row in ("ada 12.5 4 2 +4 2.5", "ben 2.5? 2 2 0 ? 25.0 h -1.5"):
        assert next(line for line in lines if line.startswith(f"  {row[:3]}")).split() == row.split()


def test_a_submission_that_could_not_be_read_says_why(course):
    course.grade("ada", results(refused="the notebook is no valid JSON", notes=["the notebook could not be read"]))
    course.grade("ben", results(missing=True))
    assert course.student("ada").problems == ["the notebook is no valid JSON"]
    assert course.student("ben").problems == ["the notebook toy was not handed in"]
    assert course.report().times() == []


def stale(class_) -> dict[str, list[str]]:
    report = class_.report()
    told = [line for line in as_text(report).splitlines() if "stale" in line]
    found = {student.name: student.problems for student in report.students if student.stale}
    assert len(told) == bool(found) and all(name in told[0] for name in found)
    return found


@pytest.mark.parametrize("file, text", [("timestamp.txt", "2026-10-09 12:00:00 UTC"), ("toy.ipynb", '{"cells": []}')])
def test_what_was_handed_in_again_since_is_said_whatever_its_time(class_, file, text):
    assert stale(class_) == {}
    place = class_.folder / "submitted" / "ada" / "toy" / file
    place.write_text(text)
    os.utime(place, (0, 0))
    (problems,) = stale(class_).values()
    assert "handed in again since" in problems[0] and list(stale(class_)) == ["ada"]


def test_what_was_graded_under_an_older_release_is_said_also_in_an_export(class_, tmp_path, caplog):
    arguments = ["export", "canvas", "toy", "--course", str(class_.folder), "--to", str(tmp_path / "canvas.csv")]
    assert main(arguments) == 1 and "older release" not in caplog.text, "eva's submission is not graded"
    class_.gradebook.find_grade_cell("check-mix", "toy", "toy").max_score = 6
    class_.gradebook.db.commit()
    assert list(stale(class_)) == ["ada", "ben", "cleo"]
    assert "graded under an older release" in class_.student("ada").problems[0]
    assert main(arguments) == 1
    assert all(f"toy: {student}: graded under an older release" in caplog.text for student in ("ada", "ben", "cleo"))


def test_the_reason_for_a_zero_that_a_flag_gives_is_not_repeated(course):
    record = answer("mix", 1, 0, reason="your code calls a library's mix")
    course.grade("ada", results(record, flags=[dict(kind="library", text="uses mix", exercise="mix")]), mix=0)
    assert [line for line in course.student("ada").review if "uses mix" in line or "library" in line] == [
        "mix: uses mix"
    ]


def test_a_grade_that_does_not_say_what_it_is_of_is_told_of(course):
    course.grade("ada", json.dumps(results(answer("mix", 1, 1))).encode(), mix=4)
    assert list(stale(course)) == ["ada"]


def test_a_missing_release_is_reported_and_the_scores_stay(class_):
    (class_.folder / "release" / "toy" / "toy.ipynb").unlink()
    assert class_.student("ada").total == 12.5
    assert "`nbgrader generate_assignment toy` makes it again" in as_text(class_.report())


def test_students_whom_the_gradebook_does_not_know_are_told_of(class_):
    (class_.hand_in("zoe") / "toy.ipynb").unlink()
    zoe = class_.student("zoe")
    assert (zoe.status, zoe.problems) == (model.NOT_GRADED, ["handed in without a notebook"])


def test_an_older_record_without_the_field_not_done_is_read(course):
    record = {key: value for key, value in answer("mix", 0, 0, reason="not begun").items() if key != "not_done"}
    course.grade("ada", results(record, flags=["mix: in words"]), mix=0)
    assert course.student("ada").problems == ["mix: not begun"] and course.student("ada").review == ["mix: in words"]


def csv_rows(course: Course, folder) -> list[dict[str, str]]:
    csv_table.write_report(course.report(), folder / "t.csv")
    with open(folder / "t.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_csv_says_through_which_answers_another_was_graded_again(course, tmp_path):
    older = {key: value for key, value in answer("mix", 1, 1).items() if key != "through"}
    course.grade("ada", results(older, answer("add", 1, through=["mix", "other"])), mix=4, add=2)
    rows = {row["exercise"]: row["through"] for row in csv_rows(course, tmp_path)}
    assert rows["mix"] == "" and rows["add"] == "mix | other"


def test_points_that_do_not_fit_the_gradebook_are_told_of(class_):
    class_.by_hand("ada", "check-mix", auto_score=1.0)
    assert any("says 4 points, the gradebook 1" in text for text in class_.student("ada").review)


DAMAGED = {
    "no JSON": b"{",
    "no text": b"\xff\xfe\x00",
    "empty": b"",
    "a list": b"[]",
    "nothing": b"{}",
    "nested": b"[" * 100_000,
    "numbers for texts": json.dumps(results(flags=[1, 2])).encode(),
    "no number": json.dumps(results(seconds=float("nan"))).encode(),
    "a huge number": json.dumps(results(seconds=10**400)).encode(),
    "texts for properties": json.dumps(results({**answer("mix", 1), "properties": ["x"]})).encode(),
    "a name that is none": json.dumps(results({**answer("mix", 1), "exercise": {}})).encode(),
}


@pytest.mark.parametrize("what", [*DAMAGED, "missing"])
def test_a_damaged_record_is_reported_and_the_scores_stay(course, what):
    course.grade("ada", DAMAGED.get(what), mix=4)
    ada = course.student("ada")
    (said,) = ada.problems + ada.review
    assert ada.total == 4 and "results.json" in said
    assert html_page.as_html(course.report()) and as_text(course.report())


def test_a_record_that_is_a_link_is_not_followed(course, tmp_path):
    course.grade("ada", None, mix=4)
    (tmp_path / "elsewhere").write_text(json.dumps(results(notes=["from elsewhere"])))
    (course.folder / "autograded" / "ada" / "toy" / "results.json").symlink_to(tmp_path / "elsewhere")
    assert "is a link" in course.student("ada").problems[0] and course.student("ada").review == []


def test_an_id_that_is_a_path_leads_nowhere_else(course):
    write_files(course.folder, {"toy/results.json": json.dumps(results(notes=["from elsewhere"]))})
    course.enrol("..", "ada/../..")
    for student in ("..", "ada/../.."):
        submission = course.gradebook.update_or_create_submission("toy", student)
        submission.notebooks[0].grades[0].auto_score = 1.0
    course.gradebook.db.commit()
    for student in course.report().students:
        assert student.review + student.problems == ["there is no results.json: no properties, no times"]


@pytest.mark.parametrize("begin", "=+-@＝\t\n")
def test_no_cell_of_the_csv_begins_a_formula(course, tmp_path, begin):
    evil = f"{begin}=HYPERLINK(1);={begin}x"
    course.enrol("ada", first_name=evil, last_name=f" {evil}")
    course.enrol(f"{begin.strip()}-1+1")
    found = results(answer("mix", 0, 1, misconceptions={0: evil}, reason=evil), notes=[evil], general=[evil])
    course.grade("ada", found, mix=2)
    rows = csv_rows(course, tmp_path)
    assert len(rows) == 2 * len(CELLS) and list(rows[0]) == COLUMNS
    for row in rows:
        for cell in row.values():
            for part in re.split("[;\t\n]", cell):  # borders of cells, to some
                assert not part.strip().startswith(tuple("=+-@＝")), cell
    assert all(row["first_name"].startswith("'") for row in rows if row["student"] == "ada")


def test_the_csv_has_the_numbers(class_, tmp_path):
    rows = {(row["student"], row["exercise"]): row for row in csv_rows(class_, tmp_path)}
    assert len(rows) == 5 * len(CELLS)
    wanted = dict(kind="code", status="graded", score="2.0", max_score="4.0", hours_late="25.0", late_penalty="1.5")
    wanted |= dict(passed="1", properties="2", failed_properties="mix 1", misconceptions=SWAP, seconds="7.0")
    assert rows["ben", "mix"].items() >= {**wanted, "to_grade": "no"}.items()
    assert rows["ada", "stretch"]["kind"] == "bonus" and rows["ada", "stretch"]["score"] == "4.0"
    assert rows["ben", "written-toy"]["to_grade"] == "yes" and rows["dan", "mix"]["status"] == "not handed in"
    assert rows["eva", "mix"]["status"] == "not graded" and rows["cleo", "mix"]["reason"] == "mix is not done yet"


def test_no_text_moves_the_cursor_or_turns_letters_around(course):
    text = as_text(hostile_class(course))
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "evil" in text and "- a b \N{REPLACEMENT CHARACTER}c" in text


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.ids = set(), set(), []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.ids += [value for name, value in attributes if name == "id"]


def hostile_class(course):
    name = HOSTILE.replace("/", "")
    course.enrol(name, first_name=HOSTILE)
    found = answer("mix", 0, 1, misconceptions={0: HOSTILE}, reason=HOSTILE)
    record = results(found, notes=[HOSTILE * 99], flags=[HOSTILE, "a\nb\r\x00c\ud800"], general=[HOSTILE])
    for prop in record["notebooks"]["toy"]["exercises"][0]["properties"]:
        prop["title"] = f"$x^{{$ {HOSTILE} & 漢字 {prop['title']}"
    course.grade(name, record, mix=2)
    course.grade("ben", results(answer("mix", 1, 1)), mix=4)
    return course.report()


def test_the_page_holds_no_markup_of_a_students_and_no_address(course):
    page = html_page.as_html(hostile_class(course))
    found = Tags(page)
    assert not found.tags & {"script", "img", "iframe", "link", "object", "b", "a", "form"}
    assert not any(name.startswith("on") for name in found.attributes) and "src" not in found.attributes
    assert len(found.ids) == len(set(found.ids)) > 0
    assert html.escape("<script>document.title=2</script>") in page
    addresses = set(re.findall(r"https?://[^\"\s<]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names, which are never fetched


def test_the_page_tells_the_same_twice(class_):
    assert html_page.as_html(class_.report()) == html_page.as_html(class_.report())


def test_one_student_is_a_class(course):
    course.grade("ada", results(answer("mix", 1, 1)), mix=4, written=3)
    report = course.report()
    assert "1 of 1 student handed in; 1 graded." in as_text(report)
    assert "median 7, mean 7, from 7 to 7" in html_page.as_html(report)


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 390)])
def test_the_page_reads_in_a_browser_from_a_file(watched, course, tmp_path, scheme, width):
    (tmp_path / "page.html").write_text(html_page.as_html(hostile_class(course)), "utf-8")
    watch = watched(viewport={"width": width, "height": 800}, color_scheme=scheme)
    watch.page.goto((tmp_path / "page.html").as_uri())
    watch.assert_clean()
    assert watch.page.title() == "toy: class report"
    assert watch.page.evaluate("document.documentElement.scrollWidth") <= width
    assert watch.page.locator("svg[role=img][aria-label]").count() == 3  # totals, one exercise, misconceptions
    ink, paper = watch.page.evaluate("""() => {
        const light = color => color.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
        return [light(getComputedStyle(document.querySelector('svg text')).fill),
                light(getComputedStyle(document.body).backgroundColor)];
    }""")
    assert (ink < 200 and paper > 600) if scheme == "light" else (ink > 600 and paper < 200)
    row = watch.page.get_by_role("table", name="Points by student").get_by_role("row").nth(2)
    assert row.get_by_role("rowheader").inner_text() == "ben" and row.get_by_role("cell").first.inner_text() == "4?"
    tables = watch.page.evaluate("""() => [...document.querySelectorAll('table')].map(t => !!t.caption &&
        [...t.querySelectorAll('th')].every(c => c.scope))""")
    assert tables and all(tables)


# The command


def test_the_command_prints_and_writes(class_, tmp_path, capsys):
    table, page = tmp_path / "t.csv", tmp_path / "t.html"
    arguments = ["report", "toy", "--course", class_.folder, "--csv", table, "--html", page]
    assert main([str(argument) for argument in arguments]) == 1, "eva's submission is not graded"
    out, err = capsys.readouterr()
    assert err == "toy: ben's penalty for lateness is now 0 points; it was 1.5\n", "there is no rule for penalties"
    assert "4 of 5 students handed in" in out and str(table) in out
    assert table.stat().st_size and "</html>" in page.read_text("utf-8")


def test_one_section_alone_is_reported(class_, tmp_path, capsys):
    roster = tmp_path / "students.csv"
    roster.write_text("id,section\nada,A\nben,B\ndan,A\n")
    assert main(["report", "toy", "--course", str(class_.folder), "--roster", str(roster), "--section", "A"]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 students handed in" in out and "Not handed in: 1" in out and "ben" not in out


def test_the_command_says_in_one_line_what_is_wrong(class_, capsys):
    assert main(["report", "tyo", "--course", str(class_.folder)]) == 2
    assert capsys.readouterr() == ("", "autograder: unknown assignment 'tyo'; in the gradebook: toy\n")


def test_the_gradebook_may_be_elsewhere(class_, tmp_path, monkeypatch, capsys):
    class_.gradebook.close()
    elsewhere = (class_.folder / "gradebook.db").rename(tmp_path / "elsewhere.db")
    assert main(["report", "toy", "--course", str(class_.folder)]) == 2
    assert "no gradebook in" in capsys.readouterr().err
    monkeypatch.setenv(GRADEBOOK_URL, f"sqlite:///{elsewhere}")
    assert main(["report", "toy", "--course", str(class_.folder)]) == 1
    assert "4 of 5 students handed in; 3 graded." in capsys.readouterr().out
    assert not (class_.folder / "gradebook.db").exists()


def test_without_a_gradebook_none_is_made(tmp_path):
    with pytest.raises(CourseError, match="no gradebook"):
        read.gather("toy", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "students, handed_in, words",
    [([], [], "0 handed in"), (["ben"], [], "0 handed in"), (["ben", "ada"], ["ada"], "1 handed in")],
)
def test_where_nothing_is_graded_that_is_said(course, students, handed_in, words):
    course.enrol(*students)
    for student in handed_in:
        course.hand_in(student)
    with pytest.raises(CourseError, match=f"nothing of toy is graded yet .{words}"):
        course.report()


def test_a_file_that_is_not_a_gradebook_is_reported_in_one_line(tmp_path):
    (tmp_path / "gradebook.db").write_text("this is no database, it is a letter" * 99)
    with pytest.raises(CourseError, match="cannot be read") as found:
        read.gather("toy", tmp_path)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("option", ["table", "page"])
def test_a_file_that_cannot_be_written_is_one_line(class_, tmp_path, option):
    with pytest.raises(CourseError, match="cannot be written"):
        command.report("toy", class_.folder, **{option: tmp_path / "nowhere" / "file"})
