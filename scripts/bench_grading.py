"""How fast grading is, side by side: `make bench`.

One class is graded by stock nbgrader, by stock nbgrader with the students split over the cores, and by
`python -m autograder grade`, in one run on this machine; the grades must be equal, except where an exercise failed
through an earlier one: there the course grades it once more with a right one, and stock does not. Then it measures
growth: more workers, and the writer with up to ten thousand students. CPU time is that of the whole machine, so run
nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import sqlalchemy
from nbgrader.api import Gradebook, Student

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from autograder.batch import run as grade
from autograder.demo import sample_class
from autograder.gradebook import released
from autograder.gradebook.writer import Writer
from autograder.grading import hidden_tests
from autograder.grading.results import RESULTS
from autograder.sandbox import bubblewrap
from course import catalog, release
from course.cells import exercise_of
from course.folder import ROOT
from scripts import postgres

STEMS = ["dot_products", "softmax", "attention", "masks"]  # --chapters names others
SEED = "20260921"  # of the hidden inputs, so that all contenders judge by the same
CORES = len(os.sched_getaffinity(0))
MB = 1 << 20


# The class --------------------------------------------------------------------------------------------------------


def students(count: int) -> list[str]:
    """Names whose first letter assigns them to a core."""
    return [f"{chr(97 + number % CORES)}{number:02}" for number in range(count)]


def make_class(course: Path, count: int) -> None:
    """Release a course, hidden tests included, and hand in honest work of `count` students in each chapter.

    Most answers are right, some are wrong, some are not begun and some raise an error. One student in eight is late.
    """
    release.generate(STEMS, course)
    hidden_tests.of_exercises(course, [name for stem in STEMS for name in catalog.exercises_of(stem)])
    wrong = {
        name: source
        for student in ("esra", "farid")
        for name, source in sample_class.read_sample(sample_class.SAMPLES / f"{student}.py").definitions.items()
    }
    draw = random.Random(1)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        for stem in STEMS:
            gradebook.update_or_create_assignment(stem, duedate=sample_class.DUE.replace(tzinfo=None))
        for name in students(count):
            gradebook.update_or_create_student(name)
    class_ = []
    for number, name in enumerate(students(count)):
        sample = sample_class.Sample(name, "", late_hours=30 if number % 8 == 7 else -24)
        for exercise in catalog.all_exercises():
            fate = draw.random()
            if exercise in wrong and fate < 0.3:
                sample.definitions[exercise] = wrong[exercise]
            elif fate < 0.9:
                sample.references.append(exercise)
        class_.append(sample)
    sample_class.hand_in(course, class_, STEMS)


def grades(course: Path) -> dict:
    """Every score that a grader enters, and what lateness costs."""
    found = {}
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        for stem in STEMS:
            for submission in gradebook.find_assignment(stem).submissions:
                for notebook in submission.notebooks:
                    found[stem, submission.student_id] = (
                        notebook.late_submission_penalty,
                        {one.name: (one.auto_score, one.extra_credit) for one in notebook.grades},
                    )
    return found


def failed_through_another(course: Path) -> set[tuple[str, str, str]]:
    """Chapter, student and exercise of answers that the course graded once more, with an earlier one put right."""
    found = set()
    for path in (course / "autograded").glob(f"*/*/{RESULTS}"):
        for notebook in json.loads(path.read_text("utf-8"))["notebooks"].values():
            again = {one["exercise"] for one in notebook["exercises"] if one["through"]}
            found |= {(path.parent.name, path.parent.parent.name, name) for name in again}
    return found


def compared(base: dict, found: dict, again: set) -> tuple[list, int]:
    """Where grades differ from stock's; and how many are higher, of the answers that were graded again."""
    different, higher = [], 0
    for key, (penalty, scores) in base.items():
        other_penalty, others = found.get(key, (None, {}))
        if (penalty, scores.keys()) != (other_penalty, others.keys()):
            different.append(key)
            continue
        for name, of_stock in scores.items():
            if (*key, exercise_of(name)) in again and _points(others[name]) > _points(of_stock):
                higher += 1
            elif others[name] != of_stock:
                different.append((*key, name))
    return different, higher


def _points(score: tuple[float | None, float | None]) -> float:
    """Return the points of an exercise, which may be for extra credit."""
    return sum(filter(None, score))


# Measuring ----------------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """Seconds of wall time, seconds of CPU time of the whole machine, and bytes of memory at the peak."""

    wall: float
    cpu: float
    peak: int


class measure:
    """`with measure() as m: ...`, then `m.result`."""

    def __enter__(self):
        self._cpu, self._begin, self._peak, self._stop = busy(), time.monotonic(), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc):
        wall = time.monotonic() - self._begin
        self._stop.set()
        self._thread.join()
        self.result = Measured(wall, busy() - self._cpu, self._peak)

    def _watch(self):
        while not self._stop.wait(0.5):
            self._peak = max(self._peak, memory_below(os.getpid()))


def busy() -> float:
    """Seconds that all cores together have worked since this machine started."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def memory_below(root: int) -> int:
    """Bytes that the descendants of a process hold; what several share is counted once (PSS)."""
    total = 0
    for process in psutil.Process(root).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


# The contenders -----------------------------------------------------------------------------------------------------


def nbgrader(course: Path, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=ROOT / "autograder",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COURSE_DIR": str(course), "AUTOGRADER_STOCK": "1"},
    )


def stock(course: Path) -> None:
    for stem in STEMS:
        nbgrader(course, "autograde", stem).wait()


def sharded_stock(course: Path) -> None:
    for stem in STEMS:
        shards = [nbgrader(course, "autograde", stem, f"--student={chr(97 + core)}*") for core in range(CORES)]
        for shard in shards:
            shard.wait()


def ours(course: Path, workers: int = CORES, *more: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "autograder",
            "grade",
            *STEMS,
            "--course",
            str(course),
            "--force",
            "--workers",
            str(workers),
            *more,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def own_code(course: Path) -> float:
    """CPU seconds of the students' code alone: the cells they wrote, and all calls of the hidden tests.

    Each submission runs in a fork of one process that has loaded everything.
    """
    program = Path(__file__).with_name("bench_own_code.py")
    jobs = [str(path) for stem in STEMS for path in sorted((course / "submitted").glob(f"*/{stem}/{stem}.ipynb"))]
    done = subprocess.run([sys.executable, str(program), *jobs], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def one_from_warm(course: Path) -> list[float]:
    """Seconds from the command to the entered grade, for single submissions with a warm fork server."""
    os.environ["COURSE_DIR"] = str(course)
    name, found = students(1)[0], []
    graders = [grade.configured(stem, course, True, name) for stem in STEMS]
    graders[0].pool._graded = 100  # as after a class, so that the server stays
    for turn in range(4):
        for grader in graders:
            grader.pool = graders[0].pool
            begin = time.monotonic()
            grader.grade(grader.due())
            if turn:
                found.append(time.monotonic() - begin)
    graders[0].pool.close()
    return found


# Growth ---------------------------------------------------------------------------------------------------------------


def writer_rates(url: str, course: Path, sizes=(100, 1000, 10_000)) -> list[tuple[int, float, float]]:
    """(students, results per second of the last hundred or thousand, and of all) as one gradebook grows."""
    stem, plan = STEMS[:2][-1], {}
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "attention") as gradebook:
        plans = released.plans(gradebook, stem, course / "release" / stem)
    official = {name: [cell for cell in found if cell.name] for name, found in plans.items()}
    for name, cells in official.items():
        plan[name] = {
            "missing": False,
            "grades": {cell.name: [1.0, None, False] for cell in cells if cell.grade or cell.task},
            "comments": {cell.name: None for cell in cells if cell.solution or cell.task},
        }
    with Gradebook(url, "attention") as gradebook:
        gradebook.add_assignment(stem)
        for name, cells in official.items():
            gradebook.add_notebook(name, stem)
            for cell in cells:
                if cell.grade:
                    gradebook.add_grade_cell(cell.name, name, stem, max_score=cell.points, cell_type=cell.cell_type)
                if cell.solution:
                    gradebook.add_solution_cell(cell.name, name, stem)
    found, done, used = [], 0, 0.0
    with Writer(url, "attention") as writer:
        for size in sizes:
            with Gradebook(url, "attention") as gradebook:
                gradebook.db.execute(
                    sqlalchemy.insert(Student.__table__), [{"id": f"s{n:06}"} for n in range(done, size)]
                )
                gradebook.db.commit()
            last, begin = max(done, size - 1000), time.monotonic()
            for number in range(done, size):
                if number == last:
                    mark = time.monotonic()
                writer.enter(stem, f"s{number:06}", None, plan)
            used += time.monotonic() - begin
            found.append((size, (size - last) / (time.monotonic() - mark), size / used))
            done = size
    return found


# The table ----------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=16, help="in each chapter (default: 16)")
    parser.add_argument(
        "--chapters",
        nargs="+",
        default=STEMS,
        metavar="STEM",
        choices=catalog.chapters(),
        help=f"default: {' '.join(STEMS)}",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as well")
    parser.add_argument("--skip-growth", action="store_true", help="only the contenders")
    options = parser.parse_args()
    STEMS[:] = options.chapters
    bubblewrap.ensure()
    os.environ["AUTOGRADER_SEED"] = SEED
    os.environ.pop("GRADEBOOK_URL", None)  # the invented class has a gradebook of its own
    figures: dict = {"cores": CORES, "students": options.students, "chapters": list(STEMS)}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        fresh = Path(folder) / "fresh"
        say(f"making a class of {options.students} students in {len(STEMS)} chapters")
        make_class(fresh, options.students)
        count = len(list((fresh / "submitted").glob("*/*/*.ipynb")))
        figures["submissions"] = count
        own = own_code(fresh)
        figures["own_cpu_each"] = own / count
        results = {}
        for name, run in {"stock": stock, f"stock, {CORES} shards": sharded_stock, "this course": ours}.items():
            say(f"grading with {name}")
            course = Path(folder) / name.replace(" ", "_").replace(",", "")
            shutil.copytree(fresh, course)
            with measure() as measured:
                run(course)
            results[name] = measured.result, grades(course), failed_through_another(course)
        base = results["stock"][1]
        for name, (_, found, again) in results.items():
            different, higher = compared(base, found, again)
            if different:
                raise SystemExit(f"{name} gave other grades than stock: {different[:5]}")
            say(f"{name}: grades equal, but {higher} are higher, of answers that failed through an earlier one")
        print(table(results, count, own))
        figures["contenders"] = {name: vars(result) for name, (result, *_) in results.items()}
        say("one submission from a warm server")
        times = one_from_warm(Path(folder) / "this_course")
        figures["one_warm"] = {"median": sorted(times)[len(times) // 2], "max": max(times)}
        print(
            f"\none submission from a warm server: median {figures['one_warm']['median']:.2f} s, "
            f"at most {figures['one_warm']['max']:.2f} s"
        )
        if not options.skip_growth:
            figures["growth"] = growth(Path(folder), 3 * options.students)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def table(results: dict, count: int, own: float) -> str:
    first = results["stock"][0]
    shards = results[f"stock, {CORES} shards"][0]
    lines = [
        f"{count} submissions, {CORES} cores, grades equal; students' own code: {own / count:.3f} s of CPU each",
        "",
        f"{'':<18}{'seconds':>9}{'per second':>11}{'to stock':>10}{'to shards':>11}{'CPU s':>8}{'own code':>10}"
        f"{'peak MB':>9}",
    ]
    for name, (result, *_) in results.items():
        lines.append(
            f"{name:<18}{result.wall:>9.1f}{count / result.wall:>11.2f}{first.wall / result.wall:>9.1f}x"
            f"{shards.wall / result.wall:>10.1f}x{result.cpu:>8.1f}{own / result.cpu:>10.0%}"
            f"{result.peak / MB:>9.0f}"
        )
    return "\n".join(lines)


def growth(folder: Path, size: int) -> dict:
    """Workers and the writer. The class is larger than the contenders', because two runs are subtracted."""
    found: dict = {"workers": {}, "writer": {}}
    fresh, few = folder / "whole", folder / "half"
    make_class(fresh, size)
    # Each run pays for its start once; a class of half the size separates that from the cost per submission.
    shutil.copytree(fresh, few)
    for path in sorted((few / "submitted").iterdir())[::2]:
        shutil.rmtree(path)
    count, half = (len(list((class_ / "submitted").glob("*/*/*.ipynb"))) for class_ in (fresh, few))
    own_each = (own_code(fresh) - own_code(few)) / (count - half)
    print(
        f"\nworkers{f'seconds for {half}':>17}{f'for {count}':>9}   each further one: seconds   per s   CPU s  overhead"
    )
    for workers in sorted({1, 2, CORES}):
        results = []
        for number, class_ in enumerate((few, fresh)):
            course = folder / f"workers_{workers}_{number}"
            shutil.copytree(class_, course)
            with measure() as measured:
                ours(course, workers)
            results.append(measured.result)
        less, more = results
        wall_each, each = (more.wall - less.wall) / (count - half), (more.cpu - less.cpu) / (count - half)
        found["workers"][workers] = {
            "seconds": {half: less.wall, count: more.wall},
            "each": {"wall": wall_each, "cpu": each, "own_cpu": own_each, "overhead_cpu": each - own_each},
        }
        print(
            f"{workers:>7}{less.wall:>17.1f}{more.wall:>9.1f}{wall_each:>28.2f}{1 / wall_each:>10.2f}{each:>7.2f}"
            f"{each - own_each:>10.2f}"
        )
    for name, url in databases(folder):
        rates = writer_rates(url, fresh)
        found["writer"][name] = rates
        print(f"\nwriter on {name}\n{'students':>10}{'per second, lately':>20}{'in all':>9}")
        for size, lately, overall in rates:
            print(f"{size:>10}{lately:>20.0f}{overall:>9.0f}")
    hours = 100_000 * wall_each / 3600
    found["estimate_100000_hours"] = {"these cores": hours, "64 cores": hours * CORES / 64}
    print(
        f"\n100,000 submissions like these: {hours:.1f} hours on these {CORES} cores, {hours * CORES / 64:.1f} on 64, "
        "if more workers help as much as they do here (above)\nand the writer keeps its rate: "
        f"{100_000 / found['writer']['SQLite'][-1][1] / 3600:.2f} hours of one core."
    )
    return found


def databases(folder: Path):
    yield "SQLite", f"sqlite:///{folder / 'growth.db'}"
    with postgres.server() as url:
        if url:
            yield "PostgreSQL", url


def say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
