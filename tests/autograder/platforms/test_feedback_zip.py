"""Pages go back under the names by which Canvas and Moodle know whose they are."""

import re
import zipfile

import pytest
from nbgrader.api import Gradebook

from autograder.__main__ import main
from autograder.gradebook import feedback_stamps
from autograder.platforms import collect
from tests.autograder.platforms.handed_in import course as new_course
from tests.autograder.platforms.handed_in import notebook, zipped
from tests.conftest import write_files

CANVAS = ["lovelaceada_12345_67801_softmax (1).ipynb", "petrovboris_LATE_12346_67802_work.zip"]
MOODLE = ["Ada Lovelace_201_assignsubmission_file_/softmax.ipynb", "Wei Li_202_assignsubmission_file_softmax.ipynb"]


def canvas_reads(name: str) -> list[str]:
    """The ids of user and attachment, as Canvas's `infer_comment_context_from_filename` finds them."""
    return [part for part in name.split("_") if re.fullmatch(r"\d+", part)][:2]


def moodle_reads(name: str) -> tuple[str, str, str]:
    """Participant, plugin and file name, as Moodle's `is_valid_filename_for_import` finds them."""
    parts = name.split("/")
    info = parts.pop(0).split("_", 4)
    rest = info[4] if len(info) > 4 else ""
    return info[1], f"{info[2]}_{info[3]}", "/".join([rest, *parts]).lstrip("/")


def graded(tmp_path, members):
    """A course that collected these members, with a page of feedback for each student."""
    course = new_course(tmp_path / "course")
    content = {False: notebook(), True: zipped(("a/softmax.ipynb", notebook()))}
    (tmp_path / "class.zip").write_bytes(zipped(*((name, content[name.endswith(".zip")]) for name in members)))
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_assignment("softmax")
        gradebook.add_notebook("softmax", "softmax")
        for row in collect.collect("softmax", [tmp_path / "class.zip"], course):
            gradebook.add_student(row.student)
            gradebook.add_submission("softmax", row.student)
            write_files(course, {f"autograded/{row.student}/softmax/softmax.ipynb": row.student})
        stamps = feedback_stamps.of_grades(gradebook, "softmax", course / "autograded")
    for (student, _), stamp in stamps.items():
        page = f"<head>{feedback_stamps.tag(stamp)}</head>{student}"
        write_files(course, {f"feedback/{student}/softmax/softmax.html": page})
    return course


ON_CANVAS = {"lovelaceada": ["12345", "67801"], "petrovboris": ["12346", "67802"]}
ON_MOODLE = {
    student: (number, "assignsubmission_file", "softmax.html")
    for student, number in (("Ada Lovelace", "201"), ("Wei Li", "202"))
}


@pytest.mark.parametrize(
    "platform, members, reads, wanted",
    [("canvas", CANVAS, canvas_reads, ON_CANVAS), ("moodle", MOODLE, moodle_reads, ON_MOODLE)],
)
def test_the_platform_finds_the_student_of_each_page(tmp_path, platform, members, reads, wanted):
    course = graded(tmp_path, members)
    to = tmp_path / "feedback.zip"
    assert main(["feedback-zip", platform, "softmax", "--course", str(course), "--to", str(to)]) == 0
    with zipfile.ZipFile(to) as archive:
        assert {
            archive.read(name).decode().partition("</head>")[2]: reads(name) for name in archive.namelist()
        } == wanted
        assert all(name.endswith("softmax.html") for name in archive.namelist())


def test_a_page_of_an_older_grade_is_not_sent(tmp_path, capsys):
    course = graded(tmp_path, CANVAS)
    (course / "autograded/petrovboris/softmax/softmax.ipynb").write_text("graded again")
    to = tmp_path / "feedback.zip"
    assert main(["feedback-zip", "canvas", "softmax", "--course", str(course), "--to", str(to)]) == 1
    assert "petrovboris: the page shows an older grade: run `nbgrader generate_feedback" in capsys.readouterr().err
    with zipfile.ZipFile(to) as archive:
        assert [canvas_reads(name) for name in archive.namelist()] == [ON_CANVAS["lovelaceada"]]


def test_students_not_collected_from_there_or_without_a_page_are_named(tmp_path, capsys):
    course = graded(tmp_path, CANVAS)
    (course / "feedback" / "lovelaceada" / "softmax" / "softmax.html").unlink()
    write_files(course, {"feedback/zoe/softmax/softmax.html": "zoe"})
    arguments = ["softmax", "--course", str(course), "--to", str(tmp_path / "feedback.zip")]
    assert main(["feedback-zip", "canvas", *arguments]) == 1
    said = capsys.readouterr()
    assert "zoe: was not collected from canvas" in said.err and "lovelaceada: has no page" in said.err
    assert said.out.endswith("feedback.zip: 1 page\n")
    assert main(["feedback-zip", "moodle", *arguments]) == 2
    assert "there is no page of softmax for moodle" in capsys.readouterr().err


def test_one_section_alone_is_in_the_zip(tmp_path, capsys):
    course, to = graded(tmp_path, CANVAS), tmp_path / "feedback.zip"
    write_files(tmp_path, {"students.csv": "id,section\nlovelaceada,A\npetrovboris,B\n"})
    section = ["--roster", str(tmp_path / "students.csv"), "--section", "A"]
    assert main(["feedback-zip", "canvas", "softmax", "--course", str(course), "--to", str(to), *section]) == 0
    said = capsys.readouterr()
    assert said.out.endswith(f"{to}: 1 page\n") and said.err == ""
