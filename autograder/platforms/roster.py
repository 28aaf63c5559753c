"""The class list: who is who on the platform.

Four kinds of CSV files are read, recognized by their first lines:

- your own: `id`, and any of `name` (or `first_name`, `last_name`), `email`, `canvas_id`, `moodle_id`,
  `brightspace_id`, `github`, `submitted`, `section`;
- the gradebook that Canvas exports: `Student`, `ID`, `SIS User ID`, `SIS Login ID`, `Section`;
- the grading worksheet of a Moodle assignment: `Identifier`, `Full name`, `Email address`, and more;
- the roster that GitHub Classroom exports: `identifier`, `github_username`, `github_id`, `name`.
"""

import collections
import csv
import datetime
import io
import itertools
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from autograder.grading.submission import Refused, read_bytes
from autograder.platforms import brightspace, canvas, moodle, names
from autograder.platforms.names import Owner
from autograder.platforms.times import parse_time
from course.errors import CourseError

MAX_ROSTER = 32 << 20  # bytes
OWN = "own"
CLASSROOM = "classroom"
GITHUB = "github"  # the column of logins, which identify clones
ADD = "add the student, and collect again"
NO_TIME = {"", "-", "–", "—"}
MAX_WORDS = 5  # of a name that is written without spaces


@dataclass(frozen=True)
class Student:
    """One row. numbers: the platform's, by its name; submitted: when, in UTC; row: the row as it was read"""

    id: str
    name: str = ""
    email: str = ""
    numbers: dict[str, str] = field(default_factory=dict)
    submitted: datetime.datetime | None = None
    row: dict[str, str] = field(default_factory=dict)


class NotFound(Exception):
    """No entry of the list matches; the message says why, and what to do."""


@dataclass(frozen=True)
class Roster:
    """A class list, and how its file was written. kind: "own", "canvas", "moodle" or "classroom"."""

    kind: str
    head: list[str]
    students: list[Student]

    def find(self, platform: str, owner: Owner, claims: collections.Counter) -> Student:
        """The matching student. Raises NotFound.

        claims: how many whose numbers are not on the list are written the same way, by `letters`
        """
        by_number = {student.numbers[platform]: student for student in self.students if student.numbers.get(platform)}
        if owner.number and owner.number in by_number:
            return by_number[owner.number]
        if not owner.number:
            same = self._by_login(owner) or [s for s in self.students if alike(s.name, owner.label)]
            if len(same) == 1:
                return same[0]
            if same:
                raise NotFound(f"{owner.label} is more than once on the roster")
            raise NotFound(f"{owner.label} is not on the roster: {ADD}")
        column = f"{platform}_id"
        free = [s for s in self.students if not s.numbers.get(platform)]
        # Moodle writes a team before the name, with a hyphen between.
        labels = names.endings(owner.label, "-")
        same = next((found for label in labels if (found := [s for s in free if alike(s.name, label)])), [])
        if owner.label and len(same) == 1 and claims[letters(owner.label)] == 1:
            return same[0]
        if len(same) > 1 or claims[letters(owner.label)] > 1 and same:
            raise NotFound(f"several students are called {owner.label}: the roster needs {column} for them")
        raise NotFound(f"{platform}'s number {owner.number} ({owner.label}) is not on the roster: {ADD}")

    def _by_login(self, owner: Owner) -> list[Student]:
        """The students whose id or login it is, or may be."""
        found: list[Student] = []
        for login in owner.logins or (owner.label,):
            wanted = login.casefold()
            if wanted:
                found += [s for s in self.students if wanted in (s.id.casefold(), s.numbers.get(GITHUB, "").casefold())]
        return found

    def ids(self) -> set[str]:
        """All ids, in lower case."""
        return {student.id.casefold() for student in self.students}

    def logins(self) -> set[str]:
        """All logins on GitHub, in lower case; the ids if the list has none."""
        return {
            student.numbers[GITHUB].casefold() for student in self.students if student.numbers.get(GITHUB)
        } or self.ids()


def letters(name: str) -> str:
    """Return the words of a name in a fixed order: "Lovelace, Ada" and "ada lovelace" are alike."""
    return " ".join(sorted(_words(name)))


def _words(name: str) -> list[str]:
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(character if _of_a_word(character) else " " for character in plain).split()


def _of_a_word(character: str) -> bool:
    """Whether it is a letter, a number, or a mark on them, such as a vowel sign of Hindi."""
    return unicodedata.category(character)[0] in "LNM"


def alike(name: str, label: str) -> bool:
    """Whether a label is a student's name, in any order of its words; Canvas writes them without spaces."""
    words, other = _words(name), _words(label)
    if sorted(words) == sorted(other):
        return True
    if len(words) > MAX_WORDS or not words or len(other) != 1:
        return False
    return other[0] in {"".join(order) for order in itertools.permutations(words)}


def usable_id(text: str) -> bool:
    """Whether nbgrader can take this for a student's id: it is the name of a folder."""
    return bool(text) and text.isprintable() and not re.search(r"[/\\\0]|^\.|^\s|\s$", text) and len(text) <= 100


def read(path: Path, known: Iterable, zone: datetime.tzinfo = datetime.UTC) -> Roster:
    """Read a class list. Raises CourseError with a line that names what is wrong in it.

    known: the gradebook's students, whose addresses tell their ids if the file has none; zone: for times without one
    """
    try:
        text = read_bytes(path, MAX_ROSTER).decode("utf-8-sig")
    except Refused as error:
        raise CourseError(f"the roster: {error}") from None
    except UnicodeDecodeError:
        raise CourseError(f"{path} is not text in UTF-8: save it as CSV UTF-8") from None
    first = text.partition("\n")[0]
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), restval="")
    head = [name or "" for name in rows.fieldnames or []]
    kinds = {canvas.NAME: {"Student", "ID"}, moodle.NAME: {"Identifier", "Grade"}, OWN: {"id"}}
    kinds[CLASSROOM] = {"identifier", "github_username"}
    kind = next((kind for kind, needed in kinds.items() if needed <= set(head)), None)
    if kind is None:
        raise CourseError(
            f"{path} is not a roster: its first line must have the column id, or be that of Canvas's exported "
            "gradebook (Student, ID), of Moodle's grading worksheet (Identifier, Grade) or of GitHub Classroom's "
            f"roster (identifier, github_username), in English; it has: {', '.join(head)[:200]}. If Moodle wrote it in "
            "another language, switch your own to English there and download it again"
        )
    by_email = {student.email.casefold(): student.id for student in known if student.email}
    students, seen = [], {}
    try:
        for row in rows:
            row = {name or "": value.strip() for name, value in row.items() if isinstance(value, str)}
            where = f"{path}, line {rows.line_num}"
            try:
                student = _READERS[kind](row, by_email, zone)
            except ValueError as error:
                raise CourseError(f"{where}: {error}") from None
            if student is None:
                continue
            if not usable_id(student.id):
                raise CourseError(f"{where}: {student.id!r} cannot be a student's id")
            for name, value in {"id": student.id, **student.numbers}.items():
                if value and seen.setdefault((name, value), rows.line_num) != rows.line_num:
                    raise CourseError(f"{where}: {value} ({name}) is also in line {seen[name, value]}")
            students.append(student)
    except csv.Error as error:
        raise CourseError(f"{path}, line {rows.line_num}: {error}") from None
    return Roster(kind, head, students)


def section(path: Path, name: str) -> set[str]:
    """The ids of the students in a section, from a class list of the instructor's own. Raises CourseError."""
    listed = read(path, [])
    if listed.kind != OWN or "section" not in listed.head:
        raise CourseError(f"{path} does not say who is in which section: it needs the columns id and section")
    found = {student.id for student in listed.students if student.row["section"] == name}
    if not found:
        known = ", ".join(sorted({student.row["section"] for student in listed.students} - {""}))
        raise CourseError(f"{path} has no section {name!r}; there are: {known}")
    return found


def _time(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """The time of a submission, or None if there is none. Raises ValueError."""
    return None if text in NO_TIME else parse_time(text, zone)


def _own(row: dict[str, str], by_email: dict[str, str], zone: datetime.tzinfo) -> Student | None:
    if not any(row.values()):
        return None
    name = row.get("name") or f"{row.get('first_name', '')} {row.get('last_name', '')}".strip()
    numbers = {
        canvas.NAME: row.get("canvas_id", ""),
        moodle.NAME: row.get("moodle_id", ""),
        brightspace.NAME: row.get("brightspace_id", ""),
        GITHUB: row.get("github", ""),
    }
    return Student(row["id"], name, row.get("email", ""), numbers, _time(row.get("submitted", ""), zone), row)


def _canvas(row: dict[str, str], by_email: dict[str, str], zone: datetime.tzinfo) -> Student | None:
    if not row["ID"] or row["Student"] == "Student, Test":  # points possible, and Canvas's test student
        return None
    login = row.get("SIS Login ID") or row.get("SIS User ID") or row["ID"]
    return Student(login, row["Student"], numbers={canvas.NAME: row["ID"]}, row=row)


def _moodle(row: dict[str, str], by_email: dict[str, str], zone: datetime.tzinfo) -> Student | None:
    """The word before the number is in the downloading user's language."""
    number = re.search(r"\d+$", row["Identifier"])
    if number is None:
        return None
    email = row.get("Email address", "")
    login = by_email.get(email.casefold()) or row.get("Username") or row.get("ID number") or email
    submitted = _time(row.get("Last modified (submission)", ""), zone)
    name = row.get("Full name", "")  # missing if marking is blind
    return Student(login or name or row["Identifier"], name, email, {moodle.NAME: number[0]}, submitted, row)


def _classroom(row: dict[str, str], by_email: dict[str, str], zone: datetime.tzinfo) -> Student | None:
    student = row["identifier"] or row["github_username"]
    return Student(student, row.get("name", ""), numbers={GITHUB: row["github_username"]}, row=row) if student else None


_READERS = {CLASSROOM: _classroom, OWN: _own, canvas.NAME: _canvas, moodle.NAME: _moodle}
