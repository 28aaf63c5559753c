"""The grader's command line:
`python -m autograder assemble | release | sample | grade | report | export | try | doctor`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from attnlab.report import as_text
from autograder.errors import CourseError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m autograder", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    assemble = commands.add_parser("assemble", help="make the instructor's notebooks and the data of the checks")
    assemble.add_argument("chapter", nargs="*", help="stems such as softmax; all chapters if none is named")

    release = commands.add_parser("release", help="make the student notebooks and the bundle in dist/")
    release.add_argument("--dist", type=Path, default=Path("dist"), help="folder for the bundle (default: dist)")

    sample = commands.add_parser("sample", help="grade the sample class from release to feedback and CSV")
    sample.add_argument("chapter", nargs="*", help="stems such as softmax; all chapters if none is named")
    sample.add_argument(
        "--course", type=Path, default=None, metavar="FOLDER", help="an empty folder (default: build/sample_class)"
    )
    sample.add_argument("--no-jail", action="store_true", help="run the samples with your rights, outside the jail")

    grade = commands.add_parser("grade", help="grade what was handed in, several submissions at a time")
    grade.add_argument("assignment", nargs="+", help="its name in the gradebook, such as softmax")
    grade.add_argument(
        "--course", type=Path, default=None, metavar="FOLDER", help="course folder (default: build/course)"
    )
    grade.add_argument("--student", metavar="ID", help="this student alone")
    grade.add_argument("--force", action="store_true", help="again, what is graded already")
    grade.add_argument("--watch", action="store_true", help="go on, and grade what arrives")
    grade.add_argument(
        "--workers",
        type=_positive,
        metavar="N",
        help="processes (default: as many as the class is worth, at most one for each core)",
    )
    grade.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler, such as tls://host:8786")
    for name, what in (("ca", "certificate of the authority"), ("cert", "own certificate"), ("key", "own key")):
        grade.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"{what}, for a scheduler")
    grade.add_argument("--no-jail", action="store_true", help="with your rights: only submissions you trust")

    report = commands.add_parser("report", help="scores, mistakes and what to look at, of a whole class")
    report.add_argument("assignment", help="its name in the gradebook, such as softmax")
    report.add_argument(
        "--course", type=Path, default=None, metavar="FOLDER", help="course folder (default: build/course)"
    )
    report.add_argument("--csv", type=Path, metavar="FILE", help="write one row per student and exercise")
    report.add_argument("--html", type=Path, metavar="FILE", help="write a page that stands alone, with plots")

    export = commands.add_parser("export", help="grades for a spreadsheet, or for the gradebook of a learning platform")
    export.add_argument("format", choices=["by-exercise", "canvas", "moodle"])
    export.add_argument("assignment", nargs="*", help="all of them if none is named")
    export.add_argument(
        "--course", type=Path, default=None, metavar="FOLDER", help="course folder (default: build/course)"
    )
    export.add_argument("--to", type=Path, required=True, metavar="FILE")

    attempt = commands.add_parser("try", help="grade stand-alone Python files against one exercise")
    attempt.add_argument("name", help="the exercise, such as softmax")
    attempt.add_argument("files", nargs="+", type=Path, metavar="FILE")
    attempt.add_argument("--json", action="store_true", help="one JSON object a line, one line a file")
    attempt.add_argument("--no-jail", action="store_true", help="run the files with your rights: only files you trust")

    commands.add_parser("doctor", help="try to break out of the jail that student code runs in, and say what held")

    options = parser.parse_args(arguments)
    try:
        return globals()[f"_{options.command}"](options)
    except CourseError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("autograder: interrupted; what is done is kept, and a second run does the rest", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read this has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _assemble(options) -> int:
    from autograder.course import assemble

    for path in assemble.write_all(options.chapter):
        print(path)
    return 0


def _release(options) -> int:
    from autograder.course import release

    print(release.bundle(options.dist))
    return 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of processes")
    return int(text)


def _sample(options) -> int:
    from autograder.demo import sample_class

    _jail_or_say_so(options, "the samples are this course's own, so they are graded without a jail")
    return sample_class.run(options.course, options.chapter)


def _grade(options) -> int:
    from autograder.batch import run
    from autograder.sandbox import bubblewrap

    if options.no_jail:
        os.environ[bubblewrap.NO_JAIL] = "1"  # workers inherit it
    files = {name: getattr(options, f"tls_{name}") for name in ("ca", "cert", "key")}
    return run.run(
        options.assignment,
        options.course,
        workers=options.workers,
        scheduler=options.scheduler,
        tls={name: path for name, path in files.items() if path},
        force=options.force,
        student=options.student,
        watch=options.watch,
    )


def _report(options) -> int:
    from autograder.reports import model

    return model.run(options.assignment, options.course, options.csv, options.html)


def _export(options) -> int:
    from autograder.nbgrader_plugins import export

    return export.run(options.format, options.assignment, options.course, options.to)


def _try(options) -> int:
    from attnlab.judge import no_answer
    from autograder.course import catalog
    from autograder.grading.results import as_record
    from autograder.grading.single_file import Unreadable, grade_file

    exercise = catalog.exercise(options.name)
    _jail_or_say_so(options, "the files run with your rights")
    status = 0
    for path in options.files:
        try:
            report = grade_file(path, exercise)
        except Unreadable as error:
            report, status = no_answer(exercise.material(0, misconceptions=False), str(error)), 1
            print(f"autograder: {error}", file=sys.stderr)
        name = str(path).encode("utf-8", "replace").decode("utf-8")  # a file's name need not be text
        if options.json:
            print(json.dumps(as_record(report, name)), flush=True)
        elif report.reason is None or any(f.passed for f in report.findings) or report.not_done:
            print(f"{name}: {report.points:g} of {report.max_points:g} points\n{as_text(report)}", flush=True)
        else:
            print(f"{name}: 0 of {report.max_points:g} points: {report.reason}", flush=True)
    return status


def _jail_or_say_so(options, what_then: str) -> None:
    """Do without the jail where that was asked for, and, saying so in one line, where there is none."""
    from autograder.sandbox import bubblewrap

    if not options.no_jail and bubblewrap.required() and bubblewrap.problem():
        print(f"autograder: {what_then}: {bubblewrap.problem()}", file=sys.stderr)
        options.no_jail = True
    if options.no_jail:
        os.environ[bubblewrap.NO_JAIL] = "1"  # nbgrader's commands inherit it


def _doctor(options) -> int:
    from autograder.sandbox import doctor

    return doctor.run()


if __name__ == "__main__":
    sys.exit(main())
