"""The grader's command line: `python -m autograder COMMAND`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.checking.report import as_text
from autograder.sandbox import bubblewrap
from course.errors import CourseError


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if getattr(options, "no_jail", False):
        os.environ[bubblewrap.NO_JAIL] = "1"  # workers and nbgrader's commands inherit it
    try:
        return options.run(options) or 0
    except CourseError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("autograder: interrupted; finished work is kept, and a second run does the rest", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has closed the pipe, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m autograder", description=__doc__)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    chapters: dict[str, Any] = dict(nargs="*", help="stems such as softmax; all chapters if none is named")
    assignment = "its name in the gradebook, such as softmax"
    zone: dict[str, Any] = dict(
        type=_zone, default="UTC", metavar="ZONE", help="for times without a time zone (default: UTC)"
    )
    folder: dict[str, Any] = dict(type=Path, metavar="FOLDER")
    course = "course folder (default: build/course)"

    def command(name: str, run: Callable, words: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=words)
        made.set_defaults(run=run)
        return made

    parser = command("assemble", _assemble, "make the instructor's notebooks and the data of the checks")
    parser.add_argument("chapter", **chapters)

    parser = command("release", _release, "make the student notebooks and the bundle in dist/")
    parser.add_argument("--dist", type=Path, default=Path("dist"), help="folder for the bundle (default: dist)")

    parser = command("sample", _sample, "grade the sample class from release to feedback and CSV")
    parser.add_argument("chapter", **chapters)
    parser.add_argument("--course", **folder, help="an empty folder (default: build/sample_class)")
    parser.add_argument("--no-jail", action="store_true", help="run the samples with your rights, outside the jail")

    parser = command("collect", _collect, "sort a download from a learning platform into the submitted folder")
    parser.add_argument("assignment", help=assignment)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="a zip from Canvas or Moodle, or a folder")
    roster = "the class list: ids, names, the platform's numbers"
    parser.add_argument("--roster", type=Path, metavar="FILE", help=roster)
    parser.add_argument("--timezone", **zone)
    parser.add_argument("--course", **folder, help=course)

    parser = command("grade", _grade, "grade what was handed in, several submissions at a time")
    parser.add_argument("assignment", nargs="+", help=assignment)
    parser.add_argument("--course", **folder, help=course)
    parser.add_argument("--student", metavar="ID", help="only this student")
    parser.add_argument("--force", action="store_true", help="grade again what is already graded")
    parser.add_argument("--watch", action="store_true", help="keep running, and grade what arrives")
    workers = "processes (default: as many as speed up this class, at most one per core)"
    parser.add_argument("--workers", type=_positive, metavar="N", help=workers)
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler, such as tls://host:8786")
    for name, what in (("ca", "certificate of the authority"), ("cert", "own certificate"), ("key", "own key")):
        parser.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"{what}, for a scheduler")
    parser.add_argument("--no-jail", action="store_true", help="run with your rights: only submissions you trust")

    parser = command("report", _report, "scores, mistakes and what to look at, of a whole class")
    parser.add_argument("assignment", help=assignment)
    parser.add_argument("--course", **folder, help=course)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write one row per student and exercise")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a self-contained page with plots")

    parser = command("export", _export, "grades for a spreadsheet, or for the gradebook of a learning platform")
    parser.add_argument("format", choices=["by-exercise", "canvas", "moodle"])
    parser.add_argument("assignment", nargs="*", help="all of them if none is named")
    parser.add_argument("--course", **folder, help=course)
    parser.add_argument("--roster", type=Path, metavar="FILE", help=roster)
    parser.add_argument(
        "--pending", action="store_true", help="include totals that wait for a human, as they are so far"
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")

    parser = command("gradescope", _gradescope, "write the zip that Gradescope makes its autograder from")
    parser.add_argument("assignment", help=assignment)
    parser.add_argument("--course", **folder, help=course)
    parser.add_argument("--to", type=Path, metavar="FILE", help="default: dist/gradescope-ASSIGNMENT.zip")
    when = "when students see the tests (default: after_due_date)"
    visibility = ("visible", "after_due_date", "after_published", "hidden")
    parser.add_argument("--visibility", choices=visibility, default="after_due_date", help=when)
    limit = "Gradescope's time limit for a submission, as set there (default: 10)"
    parser.add_argument("--minutes", type=int, choices=range(5, 41), metavar="5..40", default=10, help=limit)

    parser = command("feedback-zip", _feedback_zip, "feedback in one zip, to upload to a learning platform")
    parser.add_argument("platform", choices=["canvas", "moodle"])
    parser.add_argument("assignment", help=assignment)
    parser.add_argument("--course", **folder, help=course)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")

    parser = command("extend", _extend, "give students extensions, from a CSV file")
    parser.add_argument("assignment", help=assignment)
    parser.add_argument("file", type=Path, metavar="FILE", help="columns: id, and until, or days and hours")
    parser.add_argument("--timezone", **zone)
    parser.add_argument("--course", **folder, help=course)

    parser = command("similar", _similar, "answers that are alike, by exercise; compared on this machine")
    parser.add_argument("assignment", help=assignment)
    parser.add_argument("--answers", action="store_true", help="print both answers of each pair")
    parser.add_argument("--course", **folder, help=course)

    parser = command("try", _try, "grade stand-alone Python files against one exercise")
    parser.add_argument("name", help="the exercise, such as softmax")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="one JSON object per line, one line per file")
    parser.add_argument("--no-jail", action="store_true", help="run the files with your rights: only files you trust")

    parser = command("doctor", _doctor, "try to break out of the jail for student code, and say what held")
    parser.add_argument(
        "--other-user", action="store_true", help="test the weaker sandbox of the Gradescope bundle instead"
    )
    return whole


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of processes")
    return int(text)


def _zone(text: str) -> datetime.tzinfo:
    try:
        return zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time zone; an example is Europe/Berlin") from None


# The commands. Each imports what it needs: PyTorch and nbgrader take seconds.


def _assemble(options) -> None:
    from course import assemble

    for path in assemble.write_all(options.chapter):
        print(path)


def _release(options) -> None:
    from autograder.gradebook import released, scores
    from course import assemble, catalog, release
    from course.folder import course_folder, gradebook_exists

    if gradebook_exists(course_folder()):
        with scores.opened(None) as gradebook:
            for stem in catalog.chapters():
                released.ensure_same_cells(gradebook, stem, stem, assemble.source_notebook(stem).cells)
    print(release.bundle(options.dist))


def _sample(options) -> int:
    from autograder.demo import sample_class

    if bubblewrap.required() and bubblewrap.problem():
        print(
            f"autograder: the samples are this course's own, so they are graded without a jail: {bubblewrap.problem()}",
            file=sys.stderr,
        )
        os.environ[bubblewrap.NO_JAIL] = "1"
    return sample_class.run(options.course, options.chapter)


def _collect(options) -> int:
    from autograder.platforms import collect

    return collect.run(options.assignment, options.source, options.course, options.roster, options.timezone)


def _grade(options) -> int:
    from autograder.batch import run

    return run.grade(options)


def _report(options) -> None:
    from autograder.reports import command

    command.report(options.assignment, options.course, options.csv, options.html)


def _export(options) -> None:
    from autograder.nbgrader_plugins import export

    export.write(options.format, options.assignment, options.course, options.to, options.roster, options.pending)


def _feedback_zip(options) -> int:
    from autograder.platforms import feedback_zip

    return feedback_zip.run(options.platform, options.assignment, options.course, options.to)


def _extend(options) -> None:
    from autograder.platforms import extensions

    extensions.run(options.assignment, options.file, options.course, options.timezone)


def _similar(options) -> None:
    from autograder.reports import similarity

    similarity.run(options.assignment, options.course, options.answers)


def _gradescope(options) -> int | None:
    from nbgrader.converters.base import NbGraderException

    from autograder.gradescope import bundle

    to = options.to or Path("dist", f"gradescope-{options.assignment}.zip")
    try:
        points = bundle.write(options.assignment, options.course, to, options.visibility, options.minutes)
    except NbGraderException:  # and said so
        return 1
    print(
        f"{to}\nIt contains the answers and the hidden tests: give it only to Gradescope. Autograder points: {points:g}"
    )


def _try(options) -> int:
    from attnlab.checking.judge import no_answer
    from autograder.grading.results import as_record
    from autograder.grading.single_file import Unreadable, grade_file
    from course import catalog

    exercise = catalog.exercise(options.name)
    bubblewrap.ensure()  # treat a student's file like a notebook
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


def _doctor(options) -> int:
    from autograder.sandbox import doctor

    return doctor.run_other_user() if options.other_user else doctor.run()


if __name__ == "__main__":
    sys.exit(main())
