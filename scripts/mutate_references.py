"""Measure how the checks treat slips: `python scripts/mutate_references.py [EXERCISE ...]`.

Every reference in `solutions/` is changed in one place at a time, see `mutants.py`. Each mutant is examined as a
student's answer is, on the public inputs and, if it passes, on hidden ones. One that passes both is compared with the
reference on up to a thousand further inputs of the same kinds: it agrees on all of them, or it survives, and the checks
have a hole. Others agree there and differ only beyond, on such inputs scaled, emptied, with an axis more or without an
optional argument. Read those: the checks miss something, or the exercise promises nothing there.

What fails is counted by what its author is told, the first of these: a misconception by name, a relation of what came
to what was expected, an exception wherever it fails (crash) or on some properties (partly), or none of them.

Mutants and their order are the same on every machine. They run with your rights, each in a child with limits.
"""

from __future__ import annotations

import argparse
import collections
import inspect
import json
import linecache
import multiprocessing
import os
import random
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from attnlab.check import examine
from attnlab.checking import codec
from attnlab.checking.compare import difference
from attnlab.checking.hunting.mutants import Mutant, mutants
from attnlab.checking.judge import Finding, Report, judge
from attnlab.checking.observe import outcome_of
from attnlab.checking.report import as_text
from course import catalog
from course.errors import CourseError
from course.kit.exercise import PUBLIC_SEED, Exercise
from course.kit.hunt import without_hunts

HIDDEN_SEED = 31_415
DRAWN_SEEDS = range(100_000, 100_200)
DRAWN = 1000  # inputs on which a mutant that passes is compared with the reference
SECONDS = 20  # of processor time for a mutant; for the further inputs, three times what the reference needs on top
MEMORY = 2 << 30  # bytes that a mutant may take
PASSING = ("agree", "beyond", "survive")
FAILING = ("named", "told", "crash", "partly", "neither", "endless")


def tried(exercise: Exercise, wanted: list[Mutant] | None = None) -> list[dict]:
    """Return a record of each mutant of one exercise: the change, the verdict, and the words that led to it."""
    wanted = list(mutants(inspect.getsource(exercise.reference))) if wanted is None else wanted
    public, hidden = exercise.material(PUBLIC_SEED), exercise.material(HIDDEN_SEED)
    for material in (public, hidden):  # once here, so that it is not done in each child: where misconceptions go wrong
        judge(material, [[None] * len(prop["cases"]) for prop in material["properties"]])
    endless = {"feedback": "It did not come to its end within the limits."}
    results = [
        in_child(lambda: examined(defined(m, exercise), public, hidden), SECONDS) or {"verdict": "endless"} | endless
        for m in wanted
    ]
    passing = [place for place, result in enumerate(results) if result["verdict"] == "agree"]
    if passing:
        begin = time.process_time()
        inputs = drawn(exercise)
        limit = SECONDS + 3 * int(time.process_time() - begin)
    for place in passing:
        result = in_child(lambda: compared(defined(wanted[place], exercise), inputs), limit)
        results[place] = result or {"verdict": "survive"} | endless
    chapter = exercise.reference.__module__.rpartition(".")[2]
    return [
        {"exercise": exercise.name, "chapter": chapter, "kind": m.kind, "before": m.before, "after": m.after} | result
        for m, result in zip(wanted, results)
    ]


def defined(mutant: Mutant, exercise: Exercise):
    """The mutant as a live object. It sees what its reference sees, so what it calls is right."""
    source, file = mutant.source, f"<mutant of {exercise.name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # reports quote its lines
    names = dict(vars(sys.modules[exercise.reference.__module__]))
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names[exercise.name]


def examined(answer, public: dict, hidden: dict) -> dict:
    """The verdict of the check or, where it finds nothing, of the hidden test; "agree" where neither does."""
    for inputs, material in (("public", public), ("hidden", hidden)):
        report = examine(answer, material, show_cases=inputs == "public")
        if not report.passed:
            verdict, finding = classified(report)
            return {
                "verdict": verdict,
                "inputs": inputs,
                "kinds": sorted({str(f.kind) for f in report.findings if not f.passed}),
                "points": [report.points, report.max_points],
                "named": sorted({f.misconception for f in report.findings if f.misconception}),
                "told": sorted({str(told) for told in map(_relation, report.findings) if told}),
                "feedback": _words_on(finding, report),
            }
    return {"verdict": "agree"}


def classified(report: Report) -> tuple[str, Finding | None]:
    """Return the kind of feedback that a failing answer gets, and the first finding with it."""
    failing = [finding for finding in report.findings if not finding.passed]
    for verdict, tells in (("named", lambda finding: finding.misconception), ("told", _relation)):
        if found := next(filter(tells, failing), None):
            return verdict, found
    crashed = list(filter(_crashed, failing))
    verdict = "neither" if not crashed else "crash" if len(crashed) == len(failing) else "partly"
    return verdict, next(iter(crashed or failing), None)


def _relation(finding: Finding):
    return None if finding.relation == "exception" else finding.relation


def _crashed(finding: Finding) -> bool:
    """Whether an exception came where none should. Where one should, it earns nothing by itself (`idle`)."""
    return finding.kind in {"error", "idle"} or re.search(r"\braised (?!nothing)", finding.detail) is not None


def _words_on(finding: Finding | None, report: Report) -> str:
    """The lines of the report on one finding, or all lines of a report that has none."""
    text = as_text(report)
    blocks = re.split(r"\n(?= (?:ok|no)   )", text)[1:]
    return blocks[report.findings.index(finding)] if finding and len(blocks) == len(report.findings) else text


def drawn(exercise: Exercise) -> list[tuple]:
    """Draw up to a thousand different inputs of the exercise's own kinds, then as many varied ones.

    returns: for each its property, the input, how it was varied (or None), and the right outcome
    """
    found, further = {}, {}
    for seed in DRAWN_SEEDS:
        for place, prop in enumerate(exercise.properties if len(found) < DRAWN else ()):
            for case in exercise.inputs(prop, seed):
                found.setdefault((place, codec.frame(case)), (prop, case))
    chosen = list(found.values())[:DRAWN]
    for prop, case in chosen:
        for how, other in varied(case, exercise) if prop.probe.name == "call" else ():
            further.setdefault((how, codec.frame(other)), (prop, other, how))
    found = []
    for prop, case, how in [(*one, None) for one in chosen] + list(further.values())[:DRAWN]:
        right, again = (outcome_of(prop.reference or exercise.reference, prop.probe.name, case) for _ in range(2))
        # Without a generator the reference draws as it likes, and there is nothing to compare with.
        if "value" in right and difference(right["value"], again.get("value"), prop.rtol, prop.atol) is None:
            found.append((prop, case, how, right))
    return found


def varied(case: dict, exercise: Exercise) -> Iterator[tuple[str, dict]]:
    """Yield inputs close to those of a case, each with the change that was made; the reference may refuse them."""
    arrays = {name: value for name, value in case.items() if hasattr(value, "ndim") and value.ndim}
    for name, value in arrays.items():
        if "float" in str(value.dtype):
            yield f"{name} times 1000", case | {name: value * 1000}
        yield f"an axis more on {name}", case | {name: value[None]}
    yield "an axis more on all", case | {name: value[None] for name, value in arrays.items()}
    for size in sorted({size for value in arrays.values() for size in value.shape}):
        emptied = {
            name: value[tuple(slice(0) if n == size else slice(None) for n in value.shape)]
            for name, value in arrays.items()
        }
        yield f"without what there are {size} of", case | emptied
    for name, parameter in inspect.signature(exercise.reference).parameters.items():
        if name in case and parameter.default is not parameter.empty:
            yield f"without {name}", {other: value for other, value in case.items() if other != name}


def compared(answer, inputs: list[tuple]) -> dict:
    """Whether an answer agrees with the reference on these inputs, and where it first does not."""
    for prop, case, how, right in inputs:
        got = outcome_of(answer, prop.probe.name, case)
        found = difference(right["value"], got.get("value"), prop.rtol, prop.atol)
        if "value" not in got or found:
            place = f"{prop.title}, {how}" if how else prop.title
            words = found.words if "value" in got else json.dumps(got)
            return {"verdict": "beyond" if how else "survive", "feedback": f"{place}: {words}"}
    return {"verdict": "agree", "inputs": len(inputs)}


def in_child(work: Callable[[], dict], seconds: int) -> dict | None:
    """Return the result of `work` in a fork with limits, or None if it did not end within them."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, resource.RLIM_INFINITY))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            said = json.dumps(work()).encode()
            with os.fdopen(writes, "wb") as stream:
                stream.write(said)
        except Exception:  # of this script: what a mutant raises is an outcome
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else None


# What is shown ----------------------------------------------------------------------------------------------------


def table(records: list[dict]) -> str:
    """One row per chapter: how many mutants were made and agree, survive or fail, and what those that fail are told."""
    columns = ("made", *PASSING, "fail", *FAILING)
    rows = collections.defaultdict(collections.Counter)
    for record in records:
        for row in (record["chapter"], "all"):
            rows[row].update({"made", record["verdict"], *(["fail"] if record["verdict"] in FAILING else [])})
    rows["all"] = rows.pop("all")  # the last
    lines = [f"{'':<20}" + "".join(f"{column:>9}" for column in columns)]
    return "\n".join(lines + [f"{r:<20}" + "".join(f"{rows[r][column]:>9}" for column in columns) for r in rows])


def block(record: dict) -> str:
    """One mutant for reading: where, the lines before and after, and what its author is told."""
    changed = [f"{mark} {line}" for mark in "-+" for line in record["before" if mark == "-" else "after"].split("\n")]
    head = f"{record['exercise']} ({record['kind']}): {record['verdict']}"
    return "\n".join([head, *changed, record.get("feedback", "")])


def points(exercises: list[Exercise]) -> str:
    """List how many misconceptions each exercise has, how many of them earn nothing, and their mean share of points."""
    lines, everything = [f"{'':<28}{'mistakes':>9}{'nothing':>9}{'mean':>7}"], []
    for exercise in exercises:
        material = exercise.material(PUBLIC_SEED)
        reports = [judge(material, m["outcomes"]) for m in material["misconceptions"]]
        shares = [report.points / report.max_points for report in reports]
        everything += shares
        lines.append(_points_row(exercise.name, shares))
    return "\n".join([*lines, _points_row("all", everything)])


def _points_row(name: str, shares: list[float]) -> str:
    mean = sum(shares) / len(shares) if shares else 0.0
    return f"{name:<28}{len(shares):>9}{shares.count(0.0):>9}{mean:>7.0%}"


def _tried(name: str) -> list[dict]:
    return tried(catalog.exercise(name))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("exercise", nargs="*", metavar="EXERCISE", help="such as softmax; all if none is named")
    parser.add_argument("--list", choices=PASSING + FAILING, help="show these mutants below the table")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, drawn at random")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the drawing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of every mutant")
    parser.add_argument("--points", action="store_true", help="what registered misconceptions are worth instead")
    options = parser.parse_args(arguments)
    try:
        exercises = [catalog.exercise(name) for name in options.exercise or without_hunts(catalog.all_exercises())]
    except CourseError as error:
        parser.error(str(error))
    if options.points:
        print(points(exercises))
        return
    forks = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), forks) as pool:
        records = [record for some in pool.map(_tried, [e.name for e in exercises]) for record in some]
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    print(table(records))
    listed = [record for record in records if record["verdict"] == options.list]
    if options.sample is not None and options.sample < len(listed):
        listed = random.Random(options.seed).sample(listed, options.sample)
    for record in listed:
        print(f"\n{block(record)}")


if __name__ == "__main__":
    main()
