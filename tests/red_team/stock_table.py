"""The attacks that are safe without a jail against stock nbgrader, as a table: python -m tests.red_team.stock_table

Each runs alone, in a copy of a course folder that is thrown away, with AUTOGRADER_STOCK=1 and a time limit. What
happens here is what `test_attacks.py` holds; the column says it in words.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from course import release
from course.folder import ROOT
from tests.red_team import course as class_
from tests.red_team.attacks import FULL, RIGHT, STEM, TARGET, Attack, Kit, through

ATTACKS = through("notebook")
TABLE = Path(__file__).with_name("stock.md")
SECONDS = 120
NOT_YET = "not run yet"
NOT_RUN = "not run: it would reach beyond its own process or folder"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="stock-") as scratch:
        released, course = Path(scratch) / "released", Path(scratch) / "course"
        os.environ["COURSE_DIR"] = str(released)
        release.bundle(released / "dist")
        class_.make(released, course)
        safe = {attack.name: attack for attack in ATTACKS if attack.safe_unjailed}
        seen = dict.fromkeys(safe, NOT_YET)
        with ThreadPoolExecutor(max_workers=2) as pool:
            started = {pool.submit(observed, attack, course): name for name, attack in reversed(safe.items())}
            for done in as_completed(started):
                seen[started[done]] = done.result()
                write(seen)  # what is known so far


def write(seen: dict[str, str]) -> None:
    lines = [
        f"| {attack.tries} (`{attack.name}`) | {seen.get(attack.name, NOT_RUN)} | {verdict(attack)} |"
        for attack in ATTACKS
    ]
    TABLE.write_text(HEAD + "\n".join(lines) + "\n", "utf-8")


HEAD = f"""# The attacks, under stock nbgrader and here

Every attack answers four exercises of the chapter rightly ({sum(FULL.values()) - FULL[TARGET]:g} points) and is after
what a fifth is worth ({FULL[TARGET]:g} points). The left column was seen with `AUTOGRADER_STOCK=1`, one student at a
time, without a jail; attacks that might reach beyond were not run there. The right one is what `test_attacks.py` holds.
Written by `python -m tests.red_team.stock_table`.

| attack | stock nbgrader | here |
| --- | --- | --- |
"""


def observed(attack: Attack, course: Path) -> str:
    """Describe how stock nbgrader grades an attack. It leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="stock-") as scratch:
        own = Path(scratch) / "course"
        shutil.copytree(course, own)
        kit, name = Kit(class_.right_notebook(own), own, 9), class_.student(attack)
        class_.hand_in(own, class_.HONEST[0], lambda folder, kit: kit.fresh(RIGHT), kit)
        if attack.first:
            class_.hand_in(own, name, attack.first, kit)
            _command(own, "autograde", STEM, "--student", name)
        class_.hand_in(own, name, attack.alter, kit, hours=1)
        ended = _command(own, "autograde", STEM, "--student", name)
        words = [ended] if ended else []
        if not list(own.glob(f"autograded/{name}/{STEM}/*.ipynb")):
            words.append("no graded notebook")
        found = class_.points(own, name)
        words.append(_points_in_words(attack, found))
        if attack.not_in_page or attack.absent:
            _command(own, "generate_feedback", STEM, "--student", name)
            text = "".join(path.read_text("utf-8", "replace") for path in own.glob(f"feedback/{name}/{STEM}/*.html"))
            if any(word in text for word in (*attack.not_in_page, *attack.absent)):
                words.append("**the feedback page shows or runs it**")
        return "; ".join(words)


def _points_in_words(attack: Attack, found: dict | None) -> str:
    if not found:
        return "no score"
    got = sum(value or 0.0 for value in found.values())
    least, most = attack.total()
    judged = " **undeserved**" if got > most else " **lost**" if got < least else ""
    return f"{got:g} points{judged}"


def _command(course: Path, *arguments: str) -> str:
    """Run an nbgrader command; returns what went wrong with it as a whole, or nothing."""
    patient = ("--Execute.timeout=60", "--Execute.iopub_timeout=60")  # a busy machine must not look like an attack
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "nbgrader", *arguments, "--force", *patient],
        cwd=ROOT / "autograder",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "COURSE_DIR": str(course), "AUTOGRADER_STOCK": "1"},
    )
    try:
        process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "the command did not end"
    return f"the command failed ({process.returncode})" if process.returncode else ""


def verdict(attack: Attack) -> str:
    if attack.points is None:
        return "not graded, and no score"
    least, most = attack.total()
    words = [f"{least:g} points" if least == most else f"{least:g} to {most:g} points, as chance has it"]
    if attack.flag:
        words.append("flagged")
    if attack.note:
        words.append("noted")
    if attack.not_in_page or attack.absent:
        words.append("nothing shown")
    return ", ".join(words)


if __name__ == "__main__":
    main()
