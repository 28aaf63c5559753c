"""Record the points and the feedback of every misconception, to compare two versions of the course.

    python scripts/compare_mistakes.py record FILE [EXERCISE ...]     in one version
    python scripts/compare_mistakes.py compare FILE [EXERCISE ...]    in the other; exits with 1 if anything differs
    python scripts/compare_mistakes.py compare --keep-grades FILE [EXERCISE ...]

A change of the way exercises are written must not change a grade. For each exercise, on the public inputs and on
hidden ones, these are recorded: the properties with their points, hints, tolerances, inputs and expected values; the
text of each misconception; and for each misconception the points of every property and the name in its feedback.
Misconceptions with the same text are compared as a set.

With --keep-grades, grades that running courses recorded stay current for each exercise that is the same in both
versions (`graded_as` in `attnlab/checks/manifest.json`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from attnlab.checking import codec
from attnlab.checking.judge import judge
from course import catalog, check_data
from course.kit.exercise import PUBLIC_SEED
from course.kit.hunt import without_hunts

SEEDS = (PUBLIC_SEED, 8191)


def recorded(name: str) -> dict:
    """The record of one exercise, as data for JSON."""
    exercise = catalog.exercise(name)
    record = {"graded_as": check_data.graded_as(catalog.chapter_of(name), name), "seeds": {}}
    for seed in SEEDS:
        made = exercise.material(seed)
        mistakes = defaultdict(list)
        for mistake in made["misconceptions"]:
            report = judge(made, mistake["outcomes"], show_cases=seed == PUBLIC_SEED)
            told = [[finding.points, finding.follows, finding.misconception] for finding in report.findings]
            mistakes[mistake["text"]].append([report.points, mistake["section"], told])
        record["seeds"][str(seed)] = {
            "properties": [_described(prop) for prop in made["properties"]],
            "mistakes": {text: sorted(rows, key=json.dumps) for text, rows in sorted(mistakes.items())},
        }
    return record


def _described(prop: dict) -> dict:
    words = {key: prop[key] for key in ("title", "points", "probe", "hint", "rtol", "atol")}
    data = codec.frame([prop["cases"], prop["expected"], prop["replies"]])
    return {**words, "data": hashlib.sha256(data).hexdigest()}


def differences(before: dict, after: dict) -> list[str]:
    """List the differences between two records of one exercise, a line each."""
    found = []
    for seed, old in before["seeds"].items():
        new = after["seeds"][seed]
        for i, (one, other) in enumerate(zip(old["properties"], new["properties"])):
            found += [f"seed {seed}, property {i + 1}: {key} {one[key]!r} became {other[key]!r}"
                      for key in one if one[key] != other[key]]  # fmt: skip
        if len(old["properties"]) != len(new["properties"]):
            found.append(f"seed {seed}: {len(old['properties'])} properties became {len(new['properties'])}")
        for text in sorted(old["mistakes"].keys() | new["mistakes"].keys()):
            one, other = old["mistakes"].get(text, []), new["mistakes"].get(text, [])
            if one != other:
                found.append(
                    f"seed {seed}: “{text[:90]}”\n    before {json.dumps(one)}\n    after  {json.dumps(other)}"
                )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("exercises", nargs="*", metavar="EXERCISE")
    parser.add_argument("--keep-grades", action="store_true")
    chosen = parser.parse_args()
    names = chosen.exercises or list(without_hunts(catalog.all_exercises()))
    jobs = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        records = dict(zip(names, pool.map(recorded, names)))
    if chosen.action == "record":
        chosen.file.write_text(json.dumps(records, indent=1), "utf-8")
        return 0
    before, wrong, mistakes = json.loads(chosen.file.read_text("utf-8")), [], 0
    for name in names:
        # Through JSON, as the other side has been.
        found = differences(before[name], json.loads(json.dumps(records[name])))
        wrong += [name] * bool(found)
        mistakes += sum(map(len, records[name]["seeds"][str(PUBLIC_SEED)]["mistakes"].values()))
        print("\n  ".join([f"{name}: {'differs' if found else 'the same'}", *found]))
    print(f"{len(names)} exercises, {mistakes} misconceptions, {len(SEEDS)} seeds: {len(wrong)} exercises differ")
    if chosen.keep_grades:
        keep_grades({name: before[name]["graded_as"] for name in names if name not in wrong})
    return 1 if wrong else 0


def keep_grades(recorded: dict[str, str]) -> None:
    """Let grades of these exercises, recorded under these stamps, stay current."""
    check_data.write_checks(catalog.chapters())
    lines = check_data.manifest()
    for name, stamp in recorded.items():
        if lines[name]["grades"] != stamp:
            lines[name]["graded_as"] = stamp
    check_data.write_manifest(lines)


if __name__ == "__main__":
    sys.exit(main())
