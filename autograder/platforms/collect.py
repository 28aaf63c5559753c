"""`python -m autograder collect ASSIGNMENT SOURCE`: a platform's download, sorted into the course's `submitted` folder.

SOURCE is a zip of Canvas or Moodle, a folder of clones, the `inbound` folder of nbgrader's exchange, or a folder of
folders or files that are named after students. Only its outermost name, which the platform gave, says whose a file is.
Its content says which notebook it is. A problem with one student never stops the others.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import json
import os
import re
import tempfile
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from autograder.gradebook import scores
from autograder.grading.submission import Refused, read_bytes, suffix
from autograder.platforms import layouts, moodle, notebooks, roster, sources, times
from autograder.platforms.names import Owner
from autograder.reports.model import printable, show
from course.errors import CourseError
from course.files import draft_folder, replacing_folder
from course.folder import course_folder

COLLECTED, REPLACED, UNCHANGED, LEFT_OUT, MISSING = "collected", "replaced", "unchanged", "left out", "missing"
TIMESTAMP, SECRET = "timestamp.txt", "submission_secret.txt"  # as nbgrader calls them
RECORDS = "collected"  # the folder, in the course's, of where each submission came from
RECORD = "record.json"
LATE_OR_NOT = (
    "marked LATE by the platform, and has an extension: was it handed in within that? It counts as in time, unless the "
    "roster gives the time in a column submitted"
)


@dataclass
class Row:
    """The outcome of collecting for one student. asks: whether a note is a question to the instructor"""

    student: str
    status: str
    notes: list[str] = field(default_factory=list)
    asks: bool = False

    def ask(self, question: str) -> None:
        self.notes.append(question)
        self.asks = True


@dataclass
class _HandedIn:
    """The files of one student in a source."""

    owner: Owner
    files: list[sources.File] = field(default_factory=list)
    owners: dict[str, Owner] = field(default_factory=dict)  # by outermost name


def run(assignment: str, source: Path, course: Path | None, class_list: Path | None, zone: datetime.tzinfo) -> int:
    """Collect, and print the outcome for each student; 1 if something was left out."""
    if not source.exists():
        raise CourseError(f"there is no {source}")
    return print_outcome(assignment, collect(assignment, [source], course, class_list, zone))


def print_outcome(assignment: str, rows: list[Row]) -> int:
    """Print the outcome for each student, those to check last; 1 if something was left out or is asked."""
    order = [UNCHANGED, COLLECTED, REPLACED, MISSING, LEFT_OUT]
    counts = collections.Counter(row.status for row in rows)
    shown = [(row.status, row.student, note) for row in rows for note in row.notes or [""]]
    widths = [max((len(printable(line[column])[:40]) for line in shown), default=0) for column in (0, 1)]
    for status, student, note in sorted(shown, key=lambda line: order.index(line[0])):
        show(f"{status:{widths[0]}}  {printable(student)[:40]:{widths[1]}}  {printable(note)}".rstrip())
    show(f"{assignment}: " + ", ".join(f"{counts[status]} {status}" for status in reversed(order)))
    return 1 if counts[LEFT_OUT] or any(row.asks for row in rows) else 0


def collect(
    assignment: str,
    found: Iterable[Path],
    course: Path | None = None,
    class_list: Path | None = None,
    zone: datetime.tzinfo = datetime.UTC,
    leave: Collection[Path] = (),
) -> list[Row]:
    """Put submissions where nbgrader looks for them; returns the outcome for each student.

    A submission that is already there with the same content is left unchanged. A different one is replaced by the
    newer; the older is kept next to the record of where it came from.
    zone: for times without one; leave: files to skip. Raises CourseError if nothing can be collected at all.
    """
    course = course_folder(course)
    mine, others = notebooks.of_assignment(assignment, course)
    due, longer, known = None, {}, []
    with contextlib.suppress(CourseError), scores.opened(course) as gradebook:
        due, longer = scores.deadlines(gradebook, assignment)
        known = scores.students(gradebook)
    listed = roster.read(class_list, known, zone) if class_list else None
    collector = _Collector(assignment, course, mine, others, listed, due, longer, zone)
    if due:
        show(f"{assignment} is due {times.shown(due, zone)}")
    for source in found:
        with sources.opened(source) as files:
            collector.take(source, [file for file in files if source / file.path not in leave])
    rows = collector.rows
    if listed:
        seen = {row.student for row in rows}
        rows += [Row(student.id, MISSING, [student.name]) for student in listed.students if student.id not in seen]
    return rows


@dataclass
class _Collector:
    assignment: str
    course: Path
    mine: list[notebooks.Released]
    others: list[notebooks.Released]
    roster: roster.Roster | None
    due: datetime.datetime | None
    longer: dict[str, datetime.timedelta]
    zone: datetime.tzinfo
    alone: bool = False  # whether the source has a single outermost name
    rows: list[Row] = field(default_factory=list)

    def take(self, source: Path, files: list[sources.File]) -> None:
        tops = {file.path.parts[0]: len(file.path.parts) > 1 for file in files}
        layout = layouts.recognized(source, tops, self.assignment, self.zone, self.roster)
        platform, self.alone = layout.kind, len(tops) == 1
        show(f"{printable(source.name)} is read as {layouts.WORDS[platform]}")
        students: dict[str, dict[str, _HandedIn]] = {}  # by key, then by label
        for file in files:
            top = file.path.parts[0]
            owner = layout.owner(top, tops[top])
            if owner is None:
                if suffix(file.path.name) in (".ipynb", ".zip"):
                    self.rows.append(Row(str(file.path), LEFT_OUT, [f"not named as in {layouts.WORDS[platform]}"]))
                continue
            one = students.setdefault(owner.key, {}).setdefault(owner.label, _HandedIn(owner))
            if owner.time and one.owner.time and owner.time > one.owner.time:
                one.files.clear()  # those of an earlier attempt
                one.owner = owner
            if owner.time == one.owner.time:
                one.files.append(file)
                one.owners[top] = owner
                one.owner = replace(one.owner, late=one.owner.late or owner.late)
        former = self._former_ids(platform)
        ids = self._ids(platform, students, former)
        for key, by_label in students.items():
            try:
                owner, student = ids[key]
                if isinstance(student, str):
                    raise roster.NotFound(student)
                row = self._store(platform, student, by_label[owner.label])
                if (before := former.get(owner.number, student.id)) != student.id:
                    row.ask(
                        f"{platform}'s number {owner.number} was {before} before: is that the same person? Then remove "
                        f"submitted/{before} and collected/{before}, and {before} from the gradebook"
                    )
                others = [label for label in by_label if label != owner.label]
                row.notes += [f"a file under the same number but the name {label!r} was left out" for label in others]
            except roster.NotFound as error:
                row = Row(next(iter(by_label)) or key, LEFT_OUT, [str(error)])
            except Exception as error:  # whatever it is, it must not stop the others
                row = Row(next(iter(by_label)) or key, LEFT_OUT, [f"could not be collected: {error!r}"])
            self.rows.append(row)

    def _former_ids(self, platform: str) -> dict[str, str]:
        """The ids under which the platform's numbers were collected before; in Moodle they differ from time to time."""
        wanted = self.assignment if platform == moodle.NAME else "*"
        return {number: student for student, number in _recorded(platform, self.course, wanted)}

    def _ids(self, platform: str, students: dict[str, dict[str, _HandedIn]], given: dict[str, str]) -> dict[str, Any]:
        """Find the owner of each key: a student of the roster, or words that say why it has none.

        given: the ids of earlier collections, by the platform's numbers
        """
        listed = self.roster.students if self.roster else []
        names_of = {student.numbers.get(platform): student.name for student in listed}
        chosen = {}
        for key, by_label in students.items():
            only = len(by_label) == 1
            labels = [label for label in by_label if only or roster.alike(names_of.get(key, ""), label)]
            chosen[key] = by_label[labels[0]].owner if len(labels) == 1 else None
        claims = collections.Counter(
            roster.letters(owner.label) for key, owner in chosen.items() if owner and key not in names_of
        )
        tidy = {key: _tidy(owner.label) for key, owner in chosen.items() if owner}
        names_taken = collections.Counter(tidy.values())
        found: dict[str, tuple] = {}
        for key, owner in chosen.items():
            if owner is None:
                words = ", ".join(repr(label) for label in students[key])
                found[key] = Owner(""), f"files under the number {key} have several names: {words}"
            elif self.roster:
                try:
                    found[key] = owner, self._listed(platform, owner, claims, given)
                except roster.NotFound as error:
                    found[key] = owner, str(error)
            else:
                plain = tidy[key]
                free = names_taken[plain] == 1 and all(number == key for number, name in given.items() if name == plain)
                name = given.get(key) or (plain if free and plain else _tidy(f"{owner.label}_{key}"))
                found[key] = owner, roster.Student(name)
        meant = collections.Counter(who.id for _, who in found.values() if isinstance(who, roster.Student))
        for key, (owner, who) in found.items():
            if isinstance(who, roster.Student) and meant[who.id] > 1:
                found[key] = owner, f"several in this source would be {who.id}"
        return found

    def _listed(
        self, platform: str, owner: Owner, claims: collections.Counter, given: dict[str, str]
    ) -> roster.Student:
        """The student on the roster. A student who was found by name keeps that number. Raises NotFound."""
        assert self.roster
        for student in self.roster.students:
            if student.id == given.get(owner.number) and not student.numbers.get(platform):
                return student
        student = self.roster.find(platform, owner, claims)
        if not student.numbers.get(platform):
            before = [number for number, name in given.items() if name == student.id and number != owner.number]
            if before:
                raise roster.NotFound(
                    f"would be {student.id}, whose number was {before[0]} and not {owner.number}: "
                    f"the roster needs {platform}_id"
                )
        return student

    def _store(self, platform: str, student: roster.Student, handed_in: _HandedIn) -> Row:
        row = Row(student.id, LEFT_OUT)
        contents = sources.contents(handed_in.files)
        found = self._found(contents, handed_in, row)
        if platform == layouts.PLAIN and (doubtful := self._doubtful(found, handed_in)):
            row.ask(
                f"whose are {', '.join(doubtful[:3])}? Each would be {student.id}: put each student's files into a "
                "folder of its own"
            )
            return row
        chosen = self._chosen(found, handed_in, row)
        row.notes += contents.left_out
        if not chosen:
            paths = [file.path for file in handed_in.files]
            row.notes += [] if row.notes else ["no notebook: " + ", ".join(str(path) for path in paths[:5])]
            return row
        files = {f"{name}.ipynb": data for name, (_, data) in chosen.items()}
        self._add_time(platform, student, handed_in, files, row)
        if platform == layouts.EXCHANGE:
            self._add_own(handed_in, SECRET, files)
        place = self.course / "submitted" / student.id / self.assignment
        aside = self.course / RECORDS / student.id / self.assignment
        there = _existing_files(place)
        if there is not None and _content(there) == _content(files) and _time(there) == _time(files):
            row.status = UNCHANGED
        elif there and (before := _time(there)) and (now := _time(files)) and now < before:
            row.status = UNCHANGED
            row.notes.insert(0, "what was collected before is newer, and is kept")
            return row
        else:
            row.status = REPLACED if there is not None else COLLECTED
            _replace(place, files, aside)
        record = {
            "platform": platform,
            "number": handed_in.owner.number,
            "label": handed_in.owner.label,
            "late": handed_in.owner.late,
            "timed": bool(handed_in.owner.time or student.submitted),
            "members": {name: path for name, (path, _) in chosen.items()},
        }
        aside.mkdir(parents=True, exist_ok=True)
        (aside / RECORD).write_text(json.dumps(record, indent=1), "utf-8")
        return row

    def _found(self, contents: sources.Contents, handed_in: _HandedIn, row: Row) -> dict[str, dict[bytes, str]]:
        """The copies of this assignment's notebooks: by name, then paths by content. Skipped files are noted."""
        found: dict[str, dict[bytes, str]] = {}
        for path, data in contents.notebooks.items():
            one = notebooks.recognized(data, _own_name(path, handed_in), [*self.mine, *self.others])
            if one in self.mine:
                found.setdefault(one.name, {}).setdefault(data, path)
            elif one:
                row.notes.append(f"{path!r} is the notebook {one.name}: collect it for {one.assignment}")
            else:
                row.notes.append(f"{path!r} is not a notebook of {self.assignment}")
        return found

    def _doubtful(self, found: dict[str, dict[bytes, str]], handed_in: _HandedIn) -> list[str]:
        """The paths of plain files that would be the same student's, but may be several students'.

        These are copies of a notebook in different files, or in different folders of a source's only folder. A file
        that begins with the assignment's name does not begin with a student's.
        """
        named = handed_in.owner.label.casefold() == self.assignment.casefold()
        doubtful = []
        for copies in found.values():
            places = {path: self._place(PurePosixPath(path).parts, handed_in) for path in copies.values()}
            paths = [path for path, place in places.items() if place]
            if named or len({*places.values()} - {()}) > 1:
                doubtful += paths
        return sorted(doubtful)

    def _place(self, parts: tuple[str, ...], handed_in: _HandedIn) -> tuple[str, ...]:
        """The part of a path that may stand for a student; nothing in a student's own folder, or beside a time."""
        top, *inner = parts
        if handed_in.owners[top].time:
            return ()
        if any(file.path.parts == (top,) for file in handed_in.files):
            return (top,)
        return (top, inner[0]) if self.alone and len(inner) > 1 else ()

    def _chosen(
        self, found: dict[str, dict[bytes, str]], handed_in: _HandedIn, row: Row
    ) -> dict[str, tuple[str, bytes]]:
        """The copy of each notebook that counts: paths and contents by name."""
        chosen = {}
        for one in self.mine:
            copies = found.get(one.name, {})
            if not copies:
                continue

            def worth(copy: tuple[bytes, str], one=one):
                """More answers, then what was uploaded later, then the name that was handed out."""
                data, path = copy
                owner = handed_in.owners[PurePosixPath(path).parts[0]]
                answered = notebooks.answered(data, one) if len(copies) > 1 else 0
                return answered, owner.order, _own_name(path, handed_in) == f"{one.name}.ipynb", path

            data, path = max(copies.items(), key=worth)
            chosen[one.name] = path, data
            if len(copies) > 1:
                others = ", ".join(repr(other) for other in copies.values() if other != path)
                row.notes.append(f"took {path!r} for {one.name}, not {others}: check that this is right")
            elif _own_name(path, handed_in).casefold() != f"{one.name}.ipynb":
                row.notes.append(f"{one.name} from {path!r}")
        if found and len(chosen) < len(self.mine):
            row.notes.append("without " + ", ".join(one.name for one in self.mine if one.name not in chosen))
        return chosen

    def _add_time(
        self, platform: str, student: roster.Student, handed_in: _HandedIn, files: dict[str, bytes], row: Row
    ) -> None:
        """Record when it was handed in, if that is known. A time that a student could set does not count."""
        time = handed_in.owner.time or student.submitted
        if time is None and handed_in.owner.late:
            if self.due is None:
                row.notes.append(
                    "marked LATE, but the gradebook has no due date, so the grader will not count it as late"
                )
                return
            if student.id in self.longer:
                row.ask(LATE_OR_NOT)
                return
            time = self.due + datetime.timedelta(seconds=1)
            row.notes.append("marked LATE, without a time: counted as one second late")
        if time is not None:
            files[TIMESTAMP] = f"{time.isoformat(' ', 'microseconds')} UTC".encode("ascii")
        elif platform == layouts.PLAIN:
            self._add_own(handed_in, TIMESTAMP, files)

    def _add_own(self, handed_in: _HandedIn, name: str, files: dict[str, bytes]) -> None:
        """Add a small file of nbgrader's from STUDENT or STUDENT/ASSIGNMENT of the source."""
        for file in handed_in.files:
            if file.path.name == name and file.path.parts[1:-1] in ((), (self.assignment,)):
                with contextlib.suppress(Exception):  # without it, then
                    files[name] = file.read(1000)


def marked_late(course: Path | None, student: str, assignment: str) -> bool:
    """Whether the platform marked a student's submission as late without giving a time."""
    record = read_record(course_folder(course) / RECORDS / student / assignment)
    return record.get("late") is True and not record.get("timed")


def read_record(folder: Path) -> dict[str, Any]:
    """Where a submission came from; nothing if that is not known. folder: STUDENT/ASSIGNMENT among the records"""
    try:
        found = json.loads(read_bytes(folder / RECORD, 1 << 20))
    except (Refused, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def numbers(platform: str, course: Path, assignment: str = "*") -> dict[str, str]:
    """The platform's numbers of students, by their ids, as far as something was collected from there."""
    return {student: number for student, number in _recorded(platform, course, assignment) if str(number).isdecimal()}


def _recorded(platform: str, course: Path, assignment: str = "*") -> Iterator[tuple[str, str]]:
    """The ids and the platform's numbers in the records of earlier collections from it."""
    for path in sorted((course / RECORDS).glob(f"*/{assignment}/{RECORD}")):
        record = read_record(path.parent)
        if record.get("platform") == platform and record.get("number"):
            yield path.parent.parent.name, record["number"]


def _own_name(path: str, handed_in: _HandedIn) -> str:
    first, *inner = PurePosixPath(path).parts
    return inner[-1] if inner else handed_in.owners[first].rest or first


def _tidy(label: str) -> str:
    """A label as a student's id: safe as the name of a folder and on a page."""
    plain = unicodedata.normalize("NFC", label)
    safe = (
        letter if re.match(r"[\w .,@+'-]", letter) or unicodedata.category(letter)[0] == "M" else "_"
        for letter in plain
    )
    return "".join(safe).strip(" .")[:100]


def _existing_files(place: Path) -> dict[str, bytes] | None:
    """Read the files of a submission's folder that count, or None if the folder is missing."""
    if not os.path.lexists(place):
        return None
    if place.is_symlink():
        return {}
    found = {}
    for path in [*place.glob("*.ipynb"), place / TIMESTAMP, place / SECRET]:
        if os.path.lexists(path):
            try:
                found[path.name] = read_bytes(path, sources.MAX_COLLECTED)
            except Refused:
                found[path.name] = b""  # a link, say: whatever it is, it is to be replaced
    return found


def _content(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name != TIMESTAMP}


def _time(files: dict[str, bytes]) -> datetime.datetime | None:
    return times.known_time(files.get(TIMESTAMP, b"").decode("ascii", "replace"))


def _replace(place: Path, files: dict[str, bytes], aside: Path) -> None:
    """Put files in place in one step, and move those that were there before aside."""
    aside.mkdir(parents=True, exist_ok=True)
    before = aside / f"replaced-{1 + sum(1 for _ in aside.glob('replaced-*'))}"
    with tempfile.TemporaryDirectory(dir=aside) as scratch:
        with replacing_folder(place, draft_folder(Path(scratch), files), before):
            pass
