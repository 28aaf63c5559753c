"""Collecting a class: students are stored under the right id, and those that are not are named with a reason."""

from __future__ import annotations

import datetime
import json
import os
import re
import zipfile

import pytest
from nbgrader.api import Gradebook

from autograder.__main__ import main
from autograder.platforms import collect
from autograder.sandbox import limits
from course.errors import CourseError
from tests.autograder.platforms.handed_in import course as new_course
from tests.autograder.platforms.handed_in import damaged, encrypted, link, notebook, zipped
from tests.conftest import write_files

DUE = datetime.datetime(2026, 9, 30, 18, 0)
FULL, HALF, EMPTY = notebook(), notebook(done=1), notebook(done=0)
MANY = zipped(*((f"f{number}", b"") for number in range(limits.MAX_FILES + 50)), compression=zipfile.ZIP_STORED)
OWN = b'{"cells": [{"source": ["def log_softmax(x):"]}]}'  # a student's own notebook
ODD = zipped(("../../jun.ipynb", FULL), link("softmax.ipynb", "/etc/passwd"))


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = new_course(tmp_path_factory.mktemp("template") / "course")
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_assignment("softmax", duedate=DUE)
    return folder


@pytest.fixture
def collected(course, tmp_path):
    """`collected(*members, roster="")` collects a class.zip with these members, and returns the table."""

    def collect_them(*members, roster: str = ""):
        (tmp_path / "class.zip").write_bytes(zipped(*members))
        (tmp_path / "students.csv").write_text(roster)
        return collect.collect(
            "softmax", [tmp_path / "class.zip"], course, tmp_path / "students.csv" if roster else None
        )

    return collect_them


def taken(course, assignment="softmax") -> dict[str, dict[str, bytes]]:
    """Return the content of `submitted`: files by student."""
    return {
        path.parent.name: {file.name: file.read_bytes() for file in path.iterdir()}
        for path in (course / "submitted").glob(f"*/{assignment}")
    }


def by_student(rows) -> dict[str, tuple[str, str]]:
    found = {row.student: (row.status, "; ".join(row.notes)) for row in rows}
    assert len(found) == len(rows)
    return found


# A class as Canvas packs it: what a student's files are called and hold, and what comes of them.
CANVAS = [
    # member, content, student, what is taken (None: left out), a word of the note
    ("lovelaceada_12345_67801_softmax.ipynb", FULL, "lovelaceada", FULL, ""),
    ("petrovboris_LATE_12346_67802_softmax.ipynb", FULL, "petrovboris", FULL, "LATE"),
    ("liwei_12347_67803_softmax.ipynb", FULL, "liwei_12347", FULL, ""),
    ("liwei_12348_67804_softmax.ipynb", HALF, "liwei_12348", HALF, ""),
    ("chiara_12349_67805_softmax (1).ipynb", FULL, "chiara", FULL, "softmax (1).ipynb"),
    ("dmitri_12350_67806_Copy of softmax.ipynb", FULL, "dmitri", FULL, "Copy of softmax.ipynb"),
    ("esra_12351_67807_softmax_final.ipynb", FULL, "esra", FULL, "softmax_final.ipynb"),
    ("farid_12352_67808_Softmax-2.ipynb", FULL, "farid", FULL, "Softmax-2.ipynb"),
    ("grace_12353_67809_log_softmax.ipynb", OWN, "grace", None, "is not"),
    ("hana_12354_67810_softmax.ipynb", notebook("multi_head"), "hana", None, "multi_head"),
    ("ivo_12355_67811_work.zip", zipped(("a/b/softmax.ipynb", FULL), ("a/notes.pdf", b"x")), "ivo", FULL, ""),
    ("eve_12356_67812_work.zip", zipped(("lovelaceada_12345_9_softmax.ipynb", HALF)), "eve", HALF, ""),
    ("jun_12357_67813_work.zip", ODD, "jun", FULL, "link"),
    ("kim_12358_67814_bomb.zip", zipped(("softmax.ipynb", b"\0" * (3 << 20))), "kim", None, "more than"),
    ("lars_12359_67815_many.zip", MANY, "lars", None, "files"),
    ("mona_12360_67816_broken.zip", damaged(zipped(("softmax.ipynb", FULL))), "mona", None, "cannot be read"),
    ("nils_12361_67817_secret.zip", encrypted(zipped(("softmax.ipynb", FULL))), "nils", None, "encrypted"),
    ("olga_12362_67818_no.zip", b"not a zip", "olga", None, "cannot be read"),
    ("paul_12363_67819_essay.pdf", b"%PDF", "paul", None, "no notebook"),
    ("quin_12364_text.html", b"<p>my answer</p>", "quin", None, "no notebook"),
    ("rosa_12365_67820_softmax.ipynb", b'{"cells": [', "rosa", b'{"cells": [', ""),
    ("sven_12366_67821_softmax.ipynb", notebook(marks=False), "sven", notebook(marks=False), ""),
    ("tara_12367_67822_softmax.ipynb", notebook(marks=False, ids=False), "tara", notebook(marks=False, ids=False), ""),
    ("uma_12368_67823_softmax.7z", b"7z", "uma", None, "unpack it yourself"),
    ("łukaszżółć_12369_67824_softmax.ipynb", FULL, "łukaszżółć", FULL, ""),
]


def test_a_class_from_canvas_is_collected_in_one_go(course, collected, tmp_path, monkeypatch):
    monkeypatch.setattr("autograder.platforms.sources.MAX_COLLECTED", 2 << 20)
    rows = by_student(collected(*(row[:2] for row in CANVAS)))
    found = taken(course)
    for member, _, student, wanted, word in CANVAS:
        status, note = rows.pop(student)
        assert status == (collect.COLLECTED if wanted else collect.LEFT_OUT), (member, note)
        assert word in note, (member, note)
        assert found.pop(student, {}).get("softmax.ipynb") == wanted, member
    assert rows == {} and found == {}
    assert {path.name for path in tmp_path.iterdir()} == {"course", "class.zip", "students.csv"}
    assert (course / "submitted/petrovboris/softmax/timestamp.txt").read_text() == "2026-09-30 18:00:01.000000 UTC"


MOODLE = [
    ("Ada Lovelace_201_assignsubmission_file_/softmax.ipynb", FULL, "Ada Lovelace"),
    ("Wei Li_202_assignsubmission_file_/softmax.ipynb", FULL, "Wei Li_202"),
    ("Wei Li_203_assignsubmission_file/sub/softmax (2).ipynb", HALF, "Wei Li_203"),
    ("Éva Nagy-Kovács_204_assignsubmission_file_softmax.ipynb", FULL, "Éva Nagy-Kovács"),
    ("Eve_205_assignsubmission_file_/Ada Lovelace_201_assignsubmission_file_/softmax.ipynb", HALF, "Eve"),
    ("Zoe_206_assignsubmission_onlinetext_/onlinetext.html", b"<p>", None),
]


def test_a_class_from_moodle_in_folders_and_flat(course, collected):
    rows = by_student(collected(*(row[:2] for row in MOODLE)))
    found = taken(course)
    assert {student: found[student]["softmax.ipynb"] for _, _, student in MOODLE if student} == {
        student: data for _, data, student in MOODLE if student
    }
    assert rows["Zoe"][0] == collect.LEFT_OUT and len(found) == 5


def test_moodles_worksheet_gives_students_and_times(course, tmp_path):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_student("ada", email="ada@example.org")
    (tmp_path / "class.zip").write_bytes(zipped(*(row[:2] for row in MOODLE[:3])))
    (tmp_path / "Grades.csv").write_text(
        "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (submission)\n"
        'Participant 201,Ada Lovelace,Ada@example.org,Submitted,,28.00,"Tuesday, 29 September 2026, 6:00 PM"\n'
        "Participant 202,Wei Li,li1@example.org,Submitted,,28.00,-\n"
        "Participant 203,Wei Li,li2@example.org,Submitted,,28.00,-\n"
        "Participant 299,Zoe Zed,zoe@example.org,No submission,,28.00,-\n"
    )
    arguments = ["--roster", str(tmp_path / "Grades.csv"), "--timezone", "Europe/Berlin", "--course", str(course)]
    assert main(["collect", "softmax", str(tmp_path / "class.zip"), *arguments]) == 0
    assert set(taken(course)) == {"ada", "li1@example.org", "li2@example.org"}
    assert taken(course)["ada"]["timestamp.txt"] == b"2026-09-29 16:00:00.000000 UTC"


def test_a_roster_gives_ids_and_lists_missing_and_unknown_students(course, tmp_path, capsys):
    (tmp_path / "class.zip").write_bytes(zipped(*(row[:2] for row in CANVAS[:5])))
    (tmp_path / "students.csv").write_text(
        "id,name,email,canvas_id\nada,Ada Lovelace,,\nboris,Boris P,,12346\n"
        "li1,Li Wei,,12347\nli2,Li Wei,,\nzoe,Zoe,,\n"
    )
    arguments = [str(tmp_path / "class.zip"), "--roster", str(tmp_path / "students.csv"), "--course", str(course)]
    assert main(["collect", "softmax", *arguments]) == 1  # chiara is not on it
    out = capsys.readouterr().out
    assert set(taken(course)) == {"ada", "boris", "li1", "li2"}
    assert "missing    zoe" in out and "number 12349 (chiara) is not on the roster" in out
    assert out.splitlines()[-1] == "softmax: 1 left out, 1 missing, 0 replaced, 4 collected, 0 unchanged"


def test_a_download_packed_again_in_a_folder_and_a_roster_of_a_spreadsheet(course, collected):
    members = ((f"submissions/{member}", data) for member, data, *_ in CANVAS[:2])
    rows = collected(*members, roster="\ufeffid;name;canvas_id\r\nada;Ada;12345\r\nb;B;12346\r\n")
    assert set(taken(course)) == {"ada", "b"} and {row.status for row in rows} == {collect.COLLECTED}


def test_two_of_one_name_are_not_guessed(course, collected):
    rows = collected(*(row[:2] for row in CANVAS[2:4]), roster="id,name\nli1,Li Wei\nli2,Wei Li\n")
    assert taken(course) == {}
    assert ["canvas_id" in note for row in rows if row.status == collect.LEFT_OUT for note in row.notes] == [True, True]


def test_brightspaces_numbers_tell_two_of_one_name_apart(course, collected):
    members = [
        (f"{number}-9 - Li Wei - Sep 29, 2026 1030 AM - softmax.ipynb", data)
        for number, data in ((12, FULL), (13, HALF))
    ]
    rows = collected(*members, roster="id,name\nli1,Li Wei\nli2,Li Wei\n")
    assert {"brightspace_id" in " ".join(row.notes) for row in rows if row.status == collect.LEFT_OUT} == {True}
    collected(*members, roster="id,name,brightspace_id\nli1,Li Wei,12\nli2,Li Wei,13\n")
    assert {student: files["softmax.ipynb"] for student, files in taken(course).items()} == {"li1": FULL, "li2": HALF}


def test_taking_anothers_name_after_the_first_collection_is_noticed(course, collected):
    for number, data in ((12345, FULL), (666, HALF)):
        rows = collected((f"lovelaceada_{number}_1_softmax.ipynb", data), roster="id,name\nada,Ada Lovelace\n")
    assert "whose number was 12345 and not 666" in rows[0].notes[0]
    assert taken(course)["ada"]["softmax.ipynb"] == FULL


def test_a_name_made_to_look_like_anothers_number_replaces_no_student(course, collected):
    members = ("eve_12345_99_1_softmax.ipynb", HALF), ("lovelaceada_12345_67801_softmax.ipynb", FULL)
    rows = collected(*members)
    assert taken(course) == {} and "several names" in rows[0].notes[0]
    rows = collected(*members, roster='Student,ID,SIS Login ID,Section\n"Lovelace, Ada",12345,ada,1\n')
    assert taken(course)["ada"]["softmax.ipynb"] == FULL and "'eve'" in rows[0].notes[0]


def test_collecting_again_changes_nothing_and_newer_content_replaces(course, collected):
    boris = ("boris_2_11_softmax.ipynb", FULL)
    for status in (collect.COLLECTED, collect.UNCHANGED):
        assert {row.status for row in collected(("ada_1_10_softmax.ipynb", HALF), boris)} == {status}
    rows = by_student(collected(("ada_1_20_softmax-1.ipynb", FULL), boris))
    assert (rows["ada"][0], rows["boris"][0]) == (collect.REPLACED, collect.UNCHANGED)
    assert taken(course)["ada"]["softmax.ipynb"] == FULL
    assert (course / "collected/ada/softmax/replaced-1/softmax.ipynb").read_bytes() == HALF
    record = json.loads((course / "collected/ada/softmax/record.json").read_text())
    assert record["number"] == "1" and record["members"] == {"softmax": "ada_1_20_softmax-1.ipynb"}


def test_an_id_once_given_stays_when_a_namesake_comes(collected):
    first = ("liwei_1_10_softmax.ipynb", FULL)
    collected(first)
    rows = by_student(collected(first, ("liwei_2_11_softmax.ipynb", HALF)))
    assert rows["liwei"][0] == collect.UNCHANGED and rows["liwei_2"][0] == collect.COLLECTED


def test_of_two_copies_the_one_with_more_answers_is_taken_then_the_later_one(course, collected):
    later = FULL.replace(b"return x", b"return 2 * x")
    ada = ("ada_1_10_softmax_final.ipynb", FULL), ("ada_1_11_softmax.ipynb", EMPTY)
    boris = ("boris_2_12_softmax.ipynb", FULL), ("boris_2_13_softmax-Copy1.ipynb", later)
    rows = by_student(collected(*ada, *boris))
    assert taken(course)["ada"]["softmax.ipynb"] == FULL and "check that this is right" in rows["ada"][1]
    assert taken(course)["boris"]["softmax.ipynb"] == later


def test_clones_are_told_apart_by_their_logins(course, tmp_path):
    for login, data in (("ada-l", FULL), ("boris", HALF)):
        own = {"timestamp.txt": "2020-01-01 00:00 UTC", ".git/softmax.ipynb": EMPTY, "softmax.ipynb": data}
        write_files(tmp_path / "clones" / f"softmax-2026-{login}", own)
    os.symlink("/etc/passwd", tmp_path / "clones/softmax-2026-boris/link.ipynb")
    collect.collect("softmax", [tmp_path / "clones"], course)
    assert taken(course) == {"ada-l": {"softmax.ipynb": FULL}, "boris": {"softmax.ipynb": HALF}}
    (tmp_path / "students.csv").write_text("id,github\nada,ada-L\nboris,boris\n")
    collect.collect("softmax", [tmp_path / "clones"], course, tmp_path / "students.csv")
    assert set(taken(course)) == {"ada-l", "boris", "ada"}


def test_of_the_exchange_the_newest_is_taken_with_its_time_and_secret(course, tmp_path):
    for folder, data in (
        ("ada+softmax+2026-09-28 10:00:00.000000 UTC+abc", HALF),
        ("ada+softmax+2026-09-29 10:00:00.500000 UTC+abd", FULL),
        ("a+b+multi_head+2026-09-29 10:00:00.000000 UTC+abc", FULL),
        ("a+b+softmax+2026-09-29 10:00:00.000000 UTC+abc", FULL),
    ):
        write_files(tmp_path / "inbound" / folder, {"softmax.ipynb": data, "submission_secret.txt": "s"})
    collect.collect("softmax", [tmp_path / "inbound"], course)
    assert set(taken(course)) == {"ada", "a+b"}
    assert taken(course)["ada"] == {
        "softmax.ipynb": FULL,
        "submission_secret.txt": b"s",
        "timestamp.txt": b"2026-09-29 10:00:00.500000 UTC",
    }


def test_a_plain_folder_of_folders_files_and_attempts(course, tmp_path):
    files = {
        "ada/softmax/softmax.ipynb": FULL,
        "ada/softmax/timestamp.txt": b"2026-10-02 18:00 UTC",
        "boris_softmax.ipynb": HALF,
        "chiara_attempt_2026-09-29-10-30-00_softmax.ipynb": HALF,
        "chiara_attempt_2026-09-29-11-30-00_softmax.ipynb": FULL,
        "dmitri.zip": zipped(("eve_1_2_softmax.ipynb", FULL)),
        "<img src=x>/softmax.ipynb": FULL,
    }
    collect.collect("softmax", [write_files(tmp_path / "plain", files)], course)
    found = taken(course)
    assert set(found) == {"ada", "boris", "chiara", "dmitri", "_img src_x_"}
    assert found["ada"]["timestamp.txt"] == b"2026-10-02 18:00 UTC"
    assert found["chiara"] == {"softmax.ipynb": FULL, "timestamp.txt": b"2026-09-29 11:30:00.000000 UTC"}


def test_what_is_there_and_newer_stays(course, tmp_path):
    for day, data in ((29, FULL), (28, HALF)):
        work = {"softmax.ipynb": data, "timestamp.txt": f"2026-09-{day} 18:00 UTC"}
        write_files(tmp_path / f"day{day}" / "ada", work)
    collect.collect("softmax", [tmp_path / "day29"], course)
    (row,) = collect.collect("softmax", [tmp_path / "day28"], course)
    assert row.status == collect.UNCHANGED and "newer" in row.notes[0]
    assert taken(course)["ada"]["softmax.ipynb"] == FULL


def test_whether_a_late_submission_is_within_its_extension_is_asked(course, collected):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_student("ada")
        gradebook.add_submission("softmax", "ada")
        gradebook.grant_extension("softmax", "ada", days=2)
    rows = collected(("ada_LATE_1_10_softmax.ipynb", FULL))
    assert taken(course)["ada"] == {"softmax.ipynb": FULL} and "was it handed in within that?" in rows[0].notes[0]
    assert collect.print_outcome("softmax", rows) == 1
    rows = collected(("ada_LATE_1_10_softmax.ipynb", FULL), roster="id,name,submitted\nada,Ada,2026-10-01 8:00\n")
    assert taken(course)["ada"]["timestamp.txt"] == b"2026-10-01 08:00:00.000000 UTC"
    assert collect.print_outcome("softmax", rows) == 0


# Names as platforms write them, and the students and times that they stand for.
LAYOUTS = {
    "Blackboard": {
        "Softmax_s1001_attempt_2026-09-29-10-30-00_softmax.ipynb": ("s1001", "2026-09-29 17:30:00"),
        "Softmax_s1002_attempt_2026-09-30-11-30-00_softmax (1).ipynb": ("s1002", "2026-09-30 18:30:00"),
        "Softmax_s1003_attempt_2026-09-30-12-00-00_my_softmax.ipynb": ("s1003", "2026-09-30 19:00:00"),
    },
    "from Blackboard": {
        f"Assignment_1_{login}_attempt_2026-09-29-10-30-00_softmax.ipynb": (login, "2026-09-29 17:30:00")
        for login in ("1234561", "1234562", "1234563")
    },
    "Brightspace": {
        "12-345 - Ada Lovelace - Sep 29, 2026 1030 AM/softmax.ipynb": ("Ada Lovelace", "2026-09-29 17:30:00"),
        "13-345 - Jean-Luc Roi- Sep 30, 2026 1205 PM/softmax.ipynb": ("Jean-Luc Roi", "2026-09-30 19:05:00"),
    },
    "ILIAS": {"Lovelace_Ada_adal_77/softmax.ipynb": ("adal", None), "Roi_Jean-Luc_jlr_78/softmax.ipynb": ("jlr", None)},
    "folders": {
        "Jose\u0301/softmax.ipynb": ("José", None),
        "मीना/softmax.ipynb": ("मीना", None),
        "मोना/softmax.ipynb": ("मोना", None),
    },
    "Canvas": {
        "ann_1001_2001_softmax.ipynb.json": ("ann", None),
        "bob_1002_2002_softmax.ipynb.txt": ("bob", None),
        "cyd_1003_2003_SOFTMAX.IPYNB": ("cyd", None),
    },
}


@pytest.mark.parametrize(
    "layout, wrapper",
    [*((layout, "") for layout in LAYOUTS), *((one, "Exercise 1/Abgaben/") for one in LAYOUTS if one != "folders")],
)
def test_a_layout_is_read_as_a_whole_and_said(course, tmp_path, capsys, layout, wrapper):
    members = [(wrapper + name, FULL + b"\n" * number) for number, name in enumerate(LAYOUTS[layout])]
    (tmp_path / "class.zip").write_bytes(zipped(*members))
    options = ["--timezone", "America/Los_Angeles", "--course", str(course)]
    assert main(["collect", "softmax", str(tmp_path / "class.zip"), *options]) == 0
    assert layout in capsys.readouterr().out.splitlines()[1]
    times = {
        student: files["timestamp.txt"][:19].decode() if "timestamp.txt" in files else None
        for student, files in taken(course).items()
    }
    assert times == dict(LAYOUTS[layout].values())


def test_plain_files_with_a_common_first_word_are_not_one_student(course, tmp_path):
    files = {"softmax_ann.ipynb": FULL, "softmax_bob.ipynb": HALF, "cyd_softmax.ipynb": FULL}
    rows = collect.collect("softmax", [write_files(tmp_path / "plain", files)], course)
    asked = next(row for row in rows if row.asks)
    assert "whose are softmax_ann.ipynb, softmax_bob.ipynb?" in asked.notes[0] and set(taken(course)) == {"cyd"}
    assert collect.print_outcome("softmax", rows) == 1


def test_a_folder_around_the_students_folders_is_not_a_student(course, tmp_path):
    files = {"class/ada/softmax.ipynb": FULL, "class/bo/softmax.ipynb": HALF}
    (row,) = collect.collect("softmax", [write_files(tmp_path / "plain", files)], course)
    assert "whose are class/ada/softmax.ipynb, class/bo/softmax.ipynb?" in row.notes[0] and row.asks
    assert taken(course) == {}


def test_copies_in_a_students_own_zip_are_chosen_from_as_elsewhere(course, tmp_path):
    copies = zipped(("a/softmax.ipynb", FULL), ("b/softmax.ipynb", HALF))
    files = {"ada.zip": copies, "bo/softmax.ipynb": FULL}
    rows = by_student(collect.collect("softmax", [write_files(tmp_path / "plain", files)], course))
    assert rows["ada"][0] == collect.COLLECTED and "check that this is right" in rows["ada"][1]


def test_a_file_that_begins_with_the_assignments_name_is_asked_about(course, tmp_path):
    (row,) = collect.collect("softmax", [write_files(tmp_path / "plain", {"softmax_ann.ipynb": FULL})], course)
    assert "whose are softmax_ann.ipynb?" in row.notes[0] and row.asks and taken(course) == {}


def test_a_platforms_names_below_a_folder_are_read_as_in_its_zip(course, tmp_path):
    files = {f"Abgaben/{name}": data for name, data, student in MOODLE if student}
    collect.collect("softmax", [write_files(tmp_path / "unpacked", files)], course)
    assert set(taken(course)) == {student for *_, student in MOODLE if student}


def test_the_end_of_a_login_is_not_another_students(course, tmp_path):
    (tmp_path / "students.csv").write_text("id,github\nkim,k\nann,ann-m\n")
    source = clones(tmp_path / "clones", "softmax-ann-k", "softmax-ann-m")
    rows = by_student(collect.collect("softmax", [source], course, tmp_path / "students.csv"))
    assert set(taken(course)) == {"ann"} and "ann-k is not on the roster" in rows["ann-k"][1]


def test_a_number_that_comes_under_another_id_is_asked_about(collected):
    ada = ("ada_1_10_softmax.ipynb", FULL)
    collected(ada, roster="id,name,canvas_id\nada,Ada,1\n")
    rows = collected(ada, roster="id,name,canvas_id\nada.l,Ada,1\n")
    assert "canvas's number 1 was ada before: is that the same person?" in rows[0].notes[0]
    assert collect.print_outcome("softmax", rows) == 1


def clones(folder, *names):
    files = ("softmax.ipynb", ".git/config")
    return write_files(folder, {f"{name}/{file}": FULL for name in names for file in files})


@pytest.mark.parametrize(
    "names, students",
    [
        (["softmax-ann-k", "softmax-ann-m"], {"ann-k", "ann-m"}),
        (["softmax-ann-k"], {"ann-k"}),
        (["Softmax-2026-cs-anna", "Softmax-2026-cs-bert"], {"cs-anna", "cs-bert"}),
        (["hw1-ann-k", "hw1-bo"], {"ann-k", "bo"}),
    ],
)
def test_logins_with_hyphens_are_whole(course, tmp_path, names, students):
    collect.collect("softmax", [clones(tmp_path / "clones", *names)], course)
    assert set(taken(course)) == students


def test_where_a_login_begins_is_asked_and_a_roster_tells(course, tmp_path):
    source = clones(tmp_path / "clones", "hw-1-ann-k", "hw-1-ann-m")
    with pytest.raises(CourseError, match="where do the logins begin in hw-1-ann-k, hw-1-ann-m"):
        collect.collect("softmax", [source], course)
    exported = "identifier,github_username,github_id,name\nk,ann-k,1,Ann K\nm,ann-m,2,Ann M\n"
    (tmp_path / "classroom_roster.csv").write_text(exported)
    collect.collect("softmax", [source], course, tmp_path / "classroom_roster.csv")
    assert set(taken(course)) == {"k", "m"}


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["softmax", "NOWHERE"], "there is no"),
        (["sofmax", "ZIP"], "'sofmax' is not released"),
        (["softmax", "BROKEN"], "neither a folder nor a zip"),
        (["softmax", "ZIP", "--roster", "BROKEN"], "is not a roster"),
    ],
)
def test_what_cannot_be_collected_at_all_is_one_line(course, tmp_path, capsys, arguments, words):
    (tmp_path / "ZIP").write_bytes(zipped(("ada_1_10_softmax.ipynb", FULL)))
    (tmp_path / "BROKEN").write_bytes(b"nothing")
    places = {name: str(tmp_path / name) for name in ("ZIP", "BROKEN", "NOWHERE")}
    assert main(["collect", *(places.get(word, word) for word in arguments), "--course", str(course)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line and taken(course) == {}


@pytest.mark.parametrize(
    "text, words",
    [
        ("id\nada\nada\n", "line 3: ada (id) is also in line 2"),
        ("id,canvas_id\nada,1\nboris,1\n", "line 3: 1 (canvas) is also in line 2"),
        ("id\n../x\n", "line 2: '../x' cannot be a student's id"),
        ("id,name\n,Ada\n", "line 2: '' cannot be a student's id"),
        ("id,submitted\nada,2026-09-30 18:00\nbo,30/09/2026\n", "line 3: '30/09/2026' is not a time that can be read"),
        ("Teilnehmer/in,Vollständiger Name\nx,y\n", "switch your own to English"),
    ],
)
def test_a_roster_that_is_wrong_names_the_line(course, collected, text, words):
    with pytest.raises(CourseError, match=re.escape(words)):
        collected(("ada_1_10_softmax.ipynb", FULL), roster=text)
    assert taken(course) == {}
