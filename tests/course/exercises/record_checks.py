"""Record how the checks treat right and wrong answers: `python -m tests.course.exercises.record_checks [EXERCISE ...]`.

For each exercise: right answers that it accepts, named mistakes, wrong answers that are on no list, and what
`scripts/mutate_references.py` finds about mutants of the reference. The page of the appendices shows the record, and
`test_record_checks.py` compares it. All exercises take more than an hour; those whose checks have not changed since
they were recorded are kept.
"""

from __future__ import annotations

import collections
import importlib
import json
import sys
import time

from attnlab.check import examine, material_of
from course import catalog, stamps
from course.files import write_whole
from course.folder import ROOT
from course.kit.exercise import Exercise
from course.kit.hunt import without_hunts

sys.path.append(str(ROOT / "scripts"))

import mutate_references  # noqa: E402

RECORD = ROOT / "book" / "checks.json"
VERDICTS = (*mutate_references.PASSING, *mutate_references.FAILING)


def counts(name: str) -> dict[str, int]:
    """How many answers of each kind the tests try: right, with a named mistake, wrong and on no list."""
    stem = catalog.chapter_of(name)
    right, unseen = (importlib.import_module(f"tests.{folder}.{stem}") for folder in ("alternatives", "unseen"))
    others = right.ALTERNATIVES.get(name, []) + getattr(right, "PYTORCHS_OWN", {}).get(name, [])
    return {
        "right": 1 + len(others),
        "mistakes": len(catalog.exercise(name).misconceptions),
        "unseen": len(unseen.UNSEEN.get(name, [])),
    }


def mutants_of(exercise: Exercise) -> dict[str, int]:
    """How many mutants of the reference get each verdict of `scripts/mutate_references.py`."""
    found = collections.Counter(one["verdict"] for one in mutate_references.tried(exercise))
    return {verdict: found[verdict] for verdict in VERDICTS}


def stamp(name: str) -> str:
    """A hash of the code that makes the data of this exercise's check."""
    return stamps.data_stamp(catalog.chapter_of(name), name)


def row(name: str, exercise: Exercise) -> dict:
    material = material_of(name)
    begin = time.process_time()
    examine(exercise.reference, material)
    seconds = time.process_time() - begin
    stem = catalog.chapter_of(name)
    return {
        "chapter": stem,
        "stamp": stamp(name),
        **counts(name),
        "mutants": mutants_of(exercise),
        "seconds": round(seconds, 2),
    }


def read() -> dict[str, dict]:
    return json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {}


def main(names: list[str]) -> None:
    exercises = without_hunts(catalog.all_exercises())
    rows = {name: kept for name, kept in read().items() if name in exercises}
    for name, exercise in exercises.items():
        if name in names or not names and rows.get(name, {}).get("stamp") != stamp(name):
            rows[name] = row(name, exercise)
            lines = ",\n".join(f"{json.dumps(one)}: {json.dumps(rows[one])}" for one in exercises if one in rows)
            write_whole(RECORD, f"{{\n{lines}\n}}\n".encode("ascii"))


if __name__ == "__main__":
    main(sys.argv[1:])
