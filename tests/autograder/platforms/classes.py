"""Classes of forty as they come from each platform, drawn from a seed: names, dates, and what goes wrong.

A class knows what should come of it, by what was drawn and not by what the collector says.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.autograder.platforms.handed_in import zipped
from tests.conftest import write_files

SIZE = 40
DUE = datetime.datetime(2026, 9, 30, 18, 0)
FIRST = (
    "Ada Anna Boris Dmitri Émile Farid Grace Hana Ivo Jean-Luc Jürgen Łukasz María मीना मोना Nguyễn Ольга Βίκτωρ "
    "李 王 Éva Søren İpek O'Neil Renée Noa Aon Ano"
).split()
LAST = (
    "Lovelace Petrov Müller Muller Nagy-Kovács García शर्मा वर्मा Trần Иванова Παππάς 伟 偉 Smith Schmidt O'Brien Dvořák "
    "van_Dijk de_la_Cruz Li Il Østergård"
).split()
ACCIDENTS = "resubmitted renamed zipped unnamed_json junk no_notebook other_chapter late guest".split()


@dataclass
class Member:
    """One student: their id and login, their numbers on platforms, when they handed in, and what went wrong."""

    id: str
    first: str
    last: str
    number: int
    login: str
    when: datetime.datetime
    accident: str = ""
    attempts: list[bytes] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.first} {self.last}"

    @property
    def plain(self) -> str:
        """The name as Canvas writes it: the words, the last one first, without spaces and marks."""
        return "".join(letter for letter in f"{self.last}{self.first}".lower() if letter.isalnum())

    @property
    def listed(self) -> bool:
        """Whether the class list has the student."""
        return self.accident != "guest"

    @property
    def taken(self) -> bytes | None:
        """The notebook that should be graded, if any."""
        bad = self.accident in ("no_notebook", "other_chapter", "guest")
        return None if bad else self.attempts[-1]


@dataclass
class Drawn:
    """A class. draw: the source of chance; answer: `answer(student, attempt)` gives a notebook; other: of a chapter."""

    draw: random.Random
    members: list[Member]
    other: bytes

    def odd(self) -> set[str]:
        """Those who must be named in what the collector says."""
        return {m.id for m in self.members if m.accident in ("no_notebook", "other_chapter", "guest", "resubmitted")}


def drawn(seed: int, answer, other: bytes) -> Drawn:
    draw, members, used = random.Random(seed), [], set()
    while len(members) < SIZE:
        first, last, n = draw.choice(FIRST), draw.choice(LAST).replace("_", " "), len(members)
        stem = "".join(letter for letter in (first[:3] + last[:3]).lower() if "a" <= letter <= "z") or "x"
        login = draw.choice(["{}{}", "{}_{}", "{}-{}", "von_{}{}", "s{1}"]).format(stem, draw.randrange(100))
        if login in used or any(login.endswith(other) or other.endswith(login) for other in used):
            if draw.random() < 0.8:  # some logins end with another's
                continue
        if login in used:
            continue
        used.add(login)
        when = DUE + datetime.timedelta(minutes=draw.randrange(-9000, -30))
        one = Member(f"{login}", first, last, 10_000 + 37 * n + draw.randrange(37), login, when)
        members.append(one)
    draw.shuffle(members)
    for one, accident in zip(members, 2 * ACCIDENTS[:-1] + ["guest"]):
        one.accident = accident
    members[-1].first, members[-1].last = members[-2].first, members[-2].last  # two of one name
    for one in members:
        one.attempts = [answer(one.id, attempt) for attempt in range(1 + (one.accident == "resubmitted"))]
        if one.accident == "late":
            one.when = DUE + datetime.timedelta(hours=draw.randrange(1, 60))
    draw.shuffle(members)
    return Drawn(draw, members, other)


def files_of(one: Member, of: Drawn, stem: str) -> list[list[tuple[str, bytes]]]:
    """The files of each attempt, by the names that the student gave them."""
    attempts = []
    for data in one.attempts:
        name = f"{stem}.ipynb"
        if one.accident == "renamed":
            name = of.draw.choice([f"{stem} (1).ipynb", f"{one.first} hw.ipynb", f"Copy of {stem}.ipynb"])
        files = [(name, data)]
        if one.accident == "zipped":
            files = [(f"{stem}.zip", zipped((f"work/{name}", data), ("__MACOSX/work/._" + name, b"\0")))]
        elif one.accident == "unnamed_json":
            files = [(f"{name}.json", data)]
        elif one.accident == "junk":
            files += [("notes.pdf", b"%PDF"), ("photo.png", b"\x89PNG")]
        elif one.accident == "no_notebook":
            files = [("essay.pdf", b"%PDF")]
        elif one.accident == "other_chapter":
            files = [("multi_head.ipynb", of.other)]
        attempts.append(files)
    return attempts


# How platforms pack a class. Each gives the members of a zip (or the files of a folder), and a class list.


def _own(of: Drawn, *columns: str) -> str:
    """An instructor's own class list. Two of one name are told apart by the platform's number."""
    rows = [["id", "name", *columns]]
    for one in of.members:
        more = {"submitted": one.when.isoformat(" "), "github": one.login}
        if one.listed:
            rows.append([one.id, one.name, *(more.get(column, str(one.number)) for column in columns)])
    return "\n".join(",".join(row) for row in rows) + "\n"


def canvas(of: Drawn, stem: str):
    members, attachment = [], 50_000
    for one in of.members:
        late = "LATE_" if one.accident == "late" else ""
        for attempt, files in enumerate(files_of(one, of, stem)):
            for name, data in files:
                attachment += 1
                if attempt:
                    name = name.replace(".ipynb", f"-{attempt}.ipynb")
                members.append((f"{one.plain}_{late}{one.number}_{attachment}_{name}", data))
    rows = ["Student,ID,SIS User ID,SIS Login ID,Section", "    Points Possible,,,,"]
    rows += [f'"{one.last}, {one.first}",{one.number},,{one.id},S1' for one in of.members if one.listed]
    return members, "\n".join(rows) + "\n"


def moodle(of: Drawn, stem: str, folder: bool, team: str = ""):
    members = []
    for one in of.members:
        for files in files_of(one, of, stem)[-1:]:  # Moodle keeps the last attempt
            for name, data in files:
                between = "_/" if folder else "_"
                members.append((f"{team}{one.name}_{one.number}_assignsubmission_file{between}{name}", data))
    return members, _own(of, "moodle_id", "submitted")


def blackboard(of: Drawn, stem: str):
    members = []
    for one in of.members:
        for attempt, files in enumerate(files_of(one, of, stem)):
            when = (one.when - datetime.timedelta(hours=len(one.attempts) - 1 - attempt)).strftime("%Y-%m-%d-%H-%M-%S")
            members += [(f"Week 1_{stem}_{one.login}_attempt_{when}_{name}", data) for name, data in files]
            members.append((f"Week 1_{stem}_{one.login}_attempt_{when}.txt", b"Name: ..."))
    return members, _own(of)


def brightspace(of: Drawn, stem: str):
    members = []
    for one in of.members:
        for attempt, files in enumerate(files_of(one, of, stem)):
            when = one.when - datetime.timedelta(hours=len(one.attempts) - 1 - attempt)
            shown = when.strftime("%b %d, %Y %I%M %p")
            members += [(f"{one.number}-77 - {one.name} - {shown} - {name}", data) for name, data in files]
    return members, _own(of, "brightspace_id")


def ilias(of: Drawn, stem: str):
    members = []
    for one in of.members:
        for number, files in enumerate(files_of(one, of, stem)):
            place = f"{stem}/Abgaben/{one.last}_{one.first}_{one.login}_{one.number}"
            members += [(f"{place}/2026093018000{number}_{name}", data) for name, data in files]
    return members, _own(of)


def clones(of: Drawn, stem: str):
    members = []
    for one in of.members:
        members += [(f"cs-101-{stem}-{one.login}/{name}", data) for name, data in files_of(one, of, stem)[-1]]
        members.append((f"cs-101-{stem}-{one.login}/.git/config", b"[core]"))
    return members, _own(of, "github")


def classroom(of: Drawn, stem: str):
    rows = ["identifier,github_username,github_id,name"]
    rows += [f"{one.id},{one.login},{one.number},{one.name}" for one in of.members if one.listed]
    return clones(of, stem)[0], "\n".join(rows) + "\n"


def exchange(of: Drawn, stem: str):
    members = []
    for one in of.members:
        for attempt, files in enumerate(files_of(one, of, stem)):
            when = (one.when - datetime.timedelta(hours=len(one.attempts) - 1 - attempt)).strftime(
                "%Y-%m-%d %H:%M:%S.%f UTC"
            )
            members += [(f"{one.id}+{stem}+{when}+s3cr3t/{name}", data) for name, data in files]
    return members, _own(of)


def folders(of: Drawn, stem: str):
    members = []
    for one in of.members:
        members += [(f"{one.id}/{stem}/{name}", data) for name, data in files_of(one, of, stem)[-1]]
    return members, _own(of)


LAYOUTS = {
    "canvas": canvas,
    "moodle": lambda of, stem: moodle(of, stem, folder=True),
    "moodle, flat": lambda of, stem: moodle(of, stem, folder=False),
    "moodle, teams": lambda of, stem: moodle(of, stem, folder=True, team="Group A-"),
    "blackboard": blackboard,
    "brightspace": brightspace,
    "ilias": ilias,
    "clones": clones,
    "classroom": classroom,
    "exchange": exchange,
    "folders": folders,
}
UNPACKED = {"clones", "classroom", "exchange", "folders"}
ONE_ATTEMPT = {"moodle", "moodle, flat", "moodle, teams", "clones", "classroom", "folders"}
WITH_TIMES = {"moodle", "moodle, flat", "moodle, teams", "blackboard", "brightspace", "exchange"}


def written(of: Drawn, layout: str, stem: str, place: Path) -> tuple[Path, Path]:
    """Write a class as its platform does; returns the source and the class list."""
    members, listed = LAYOUTS[layout](of, stem)
    place.mkdir(parents=True, exist_ok=True)
    (place / "list.csv").write_text(listed, "utf-8")
    if layout in UNPACKED:
        return write_files(place / "source", dict(members)), place / "list.csv"
    (place / "class.zip").write_bytes(zipped(*members))
    return place / "class.zip", place / "list.csv"
