"""The grader's command line: `python -m autograder COMMAND`."""

import argparse
import datetime
import importlib
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
    options = vars(_parser().parse_args(arguments))
    run = options.pop("run")
    if options.pop("no_jail", False):
        os.environ[bubblewrap.NO_JAIL] = "1"  # workers and nbgrader's commands inherit it
    try:
        if "section" in options:
            options["students"] = _of_section(options.pop("section"), options)
        if isinstance(run, str):  # imported only here: PyTorch and nbgrader take seconds
            module, _, name = run.partition(":")
            run = getattr(importlib.import_module(f"autograder.{module}"), name)
        return run(**options) or 0
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
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    chapters: dict[str, Any] = dict(nargs="*", help="stems such as softmax; all chapters if none is named")
    assignment = "its name in the gradebook, such as softmax"
    zone = "for times without a time zone (default: UTC)"

    in_course = argparse.ArgumentParser(add_help=False)
    in_course.add_argument("--course", type=Path, metavar="FOLDER", help="course folder (default: build/course)")
    of_one = argparse.ArgumentParser(add_help=False, parents=[in_course])
    of_one.add_argument("assignment", help=assignment)
    listed, timed = argparse.ArgumentParser(add_help=False), argparse.ArgumentParser(add_help=False)
    roster = "the class list: ids, names, the platform's numbers"
    listed.add_argument("--roster", type=Path, dest="class_list", metavar="FILE", help=roster)
    of_section = argparse.ArgumentParser(add_help=False)
    only = "only students with this in the column section of --roster"
    of_section.add_argument("--section", metavar="NAME", help=only)
    sectioned = argparse.ArgumentParser(add_help=False, parents=[of_section])
    sectioned.add_argument("--roster", type=Path, dest="section_list", metavar="FILE", help="where sections are read")
    timed.add_argument("--timezone", type=_zone, dest="zone", default="UTC", metavar="ZONE", help=zone)

    def command(name: str, run: Callable | str, words: str, *parents) -> argparse.ArgumentParser:
        """run: what gets the options as keyword arguments, or where to import it from"""
        made = commands.add_parser(name, help=words, parents=parents)
        made.set_defaults(run=run)
        return made

    parser = command("assemble", _assemble, "make the instructor's notebooks and the data of the checks")
    parser.add_argument("chapter", **chapters)

    parser = command("release", _release, "make the student notebooks and the bundle in dist/")
    parser.add_argument("--dist", type=Path, default=Path("dist"), help="folder for the bundle (default: dist)")

    parser = command("sample", _sample, "grade the sample class from release to feedback and CSV")
    parser.add_argument("chapter", **chapters)
    parser.add_argument("--course", type=Path, metavar="FOLDER", help="an empty folder (default: build/sample_class)")
    parser.add_argument("--no-jail", action="store_true", help="run the samples with your rights, outside the jail")

    collecting = "sort a download from a learning platform into the submitted folder"
    parser = command("collect", "platforms.collect:run", collecting, of_one, listed, timed)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="a zip from Canvas or Moodle, or a folder")

    parser = command("grade", "batch.run:grade", "grade what was handed in, several submissions at a time", in_course)
    parser.add_argument("assignment", nargs="+", help=assignment)
    parser.add_argument("--student", metavar="ID", help="only this student")
    parser.add_argument("--force", action="store_true", help="grade again what is already graded")
    parser.add_argument("--watch", action="store_true", help="keep running, and grade what arrives")
    workers = "processes (default: as many as speed up this class, at most one per core)"
    parser.add_argument("--workers", type=_positive, metavar="N", help=workers)
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler, such as tls://host:8786")
    for name, what in (("ca", "certificate of the authority"), ("cert", "own certificate"), ("key", "own key")):
        parser.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=f"{what}, for a scheduler")
    parser.add_argument("--no-jail", action="store_true", help="run with your rights: only submissions you trust")

    reporting = "scores, mistakes and what to look at, of a whole class"
    parser = command("report", _report, reporting, of_one, sectioned)
    parser.add_argument("--csv", type=Path, dest="table", metavar="FILE", help="write one row per student and exercise")
    parser.add_argument("--html", type=Path, dest="page", metavar="FILE", help="write a self-contained page with plots")

    exporting = "grades for a spreadsheet, or for the gradebook of a learning platform"
    parser = command("export", "nbgrader_plugins.export:write", exporting, in_course, listed, of_section)
    parser.add_argument("format", choices=["by-exercise", "canvas", "moodle"])
    parser.add_argument("assignment", nargs="*", help="all of them if none is named")
    parser.add_argument(
        "--pending", action="store_true", help="include totals that wait for a human, as they are so far"
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")

    parser = command("gradescope", _gradescope, "write the zip that Gradescope makes its autograder from", of_one)
    parser.add_argument("--to", type=Path, metavar="FILE", help="default: dist/gradescope-ASSIGNMENT.zip")
    when = "when students see the tests (default: after_due_date)"
    visibility = ("visible", "after_due_date", "after_published", "hidden")
    parser.add_argument("--visibility", choices=visibility, default="after_due_date", help=when)
    limit = "Gradescope's time limit for a submission, as set there (default: 10)"
    parser.add_argument("--minutes", type=int, choices=range(5, 41), metavar="5..40", default=10, help=limit)

    zipping = "feedback in one zip, to upload to a learning platform"
    parser = command("feedback-zip", _feedback_zip, zipping, in_course, sectioned)
    parser.add_argument("platform", choices=["canvas", "moodle"])
    parser.add_argument("assignment", help=assignment)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")

    signing = "a signed record of one student's chapters and points, for the student to show"
    parser = command("record", "reports.signed_record:run", signing, in_course)
    parser.add_argument("student", metavar="STUDENT", help="the student's id in the gradebook")
    parser.add_argument("--to", type=Path, required=True, metavar="FILE")
    parser.add_argument("--name", metavar="NAME", help="what the student wants to be called in it (default: no name)")

    parser = command("extend", _extend, "give students extensions, from a CSV file", of_one, timed)
    parser.add_argument("file", type=Path, metavar="FILE", help="columns: id, and until, or days and hours")

    comparing = "answers that are alike, by exercise; compared on this machine"
    parser = command("similar", "reports.similarity:run", comparing, of_one)
    parser.add_argument("--answers", action="store_true", help="print the answers of each pair or group")

    parser = command("try", _try, "grade stand-alone Python files against one exercise")
    parser.add_argument("exercise", metavar="name", help="the exercise, such as softmax")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--json", action="store_true", dest="as_json", help="one JSON object per line, one line per file"
    )
    parser.add_argument("--no-jail", action="store_true", help="run the files with your rights: only files you trust")

    parser = command("doctor", "sandbox.doctor:run", "try to break out of the jail for student code, and say what held")
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


def _of_section(section: str | None, options: dict[str, Any]) -> set[str] | None:
    """The ids of the section's students, or None for all. It takes the option that only says where sections are."""
    file = options.pop("section_list", None) or options.get("class_list")
    if section is None:
        return None
    from autograder.platforms import roster

    if file is None:
        raise CourseError("--section needs --roster FILE, a class list of your own with the columns id and section")
    return roster.section(file, section)


# Commands that are more than one call


def _assemble(chapter: list[str]) -> None:
    from course import assemble

    for path in assemble.write_all(chapter):
        print(path)


def _release(dist: Path) -> None:
    from autograder.gradebook import released, scores
    from course import assemble, catalog, release
    from course.folder import course_folder, exposed, exposed_in_words, gradebook_exists

    if gradebook_exists(course_folder()):
        with scores.opened(None) as gradebook:
            for stem in catalog.chapters():
                released.ensure_same_cells(gradebook, stem, stem, assemble.source_notebook(stem).cells)
    print(f"... making the notebooks of {len(catalog.chapters())} chapters, and a zip", file=sys.stderr, flush=True)
    print(release.bundle(dist), flush=True)
    for folder in exposed():
        print(f"autograder: {exposed_in_words(folder)}", file=sys.stderr)


def _sample(chapter: list[str], course: Path | None) -> int:
    from autograder.demo import sample_class

    if bubblewrap.required() and bubblewrap.problem():
        print(
            f"autograder: the samples are this course's own, so they are graded without a jail: {bubblewrap.problem()}",
            file=sys.stderr,
        )
        os.environ[bubblewrap.NO_JAIL] = "1"
    return sample_class.run(course, chapter)


def _report(assignment: str, course: Path | None, **options: Any) -> int:
    from autograder.nbgrader_plugins import late
    from autograder.reports import command
    from course.folder import course_folder

    late.renew_in(course_folder(course), [assignment])
    return command.report(assignment, course, **options)


def _feedback_zip(assignment: str, course: Path | None, **options: Any) -> int:
    from autograder.nbgrader_plugins import late
    from autograder.platforms import feedback_zip
    from course.folder import course_folder

    late.renew_in(course_folder(course), [assignment])
    return feedback_zip.run(assignment=assignment, course=course, **options)


def _extend(assignment: str, course: Path | None, **options: Any) -> None:
    from autograder.nbgrader_plugins import late
    from autograder.platforms import extensions
    from course.folder import course_folder

    extensions.run(assignment, course=course, **options)
    late.renew_in(course_folder(course), [assignment])


def _gradescope(assignment: str, course: Path | None, to: Path | None, visibility: str, minutes: int) -> int | None:
    from nbgrader.converters.base import NbGraderException

    from autograder.gradescope import bundle

    to = to or Path("dist", f"gradescope-{assignment}.zip")
    try:
        points = bundle.write(assignment, course, to, visibility, minutes)
    except NbGraderException:  # and said so
        return 1
    print(
        f"{to}\nIt contains the answers and the hidden tests: give it only to Gradescope. Autograder points: {points:g}"
    )


def _try(exercise: str, files: list[Path], as_json: bool) -> int:
    from attnlab.checking.judge import no_answer
    from autograder.grading.results import as_record
    from autograder.grading.single_file import Unreadable, grade_file
    from course import catalog

    asked = catalog.exercise(exercise)
    bubblewrap.ensure()  # treat a student's file like a notebook
    status = 0
    for path in files:
        try:
            report = grade_file(path, asked)
        except Unreadable as error:
            report, status = no_answer(asked.material(0, misconceptions=False), str(error)), 1
            print(f"autograder: {error}", file=sys.stderr)
        name = str(path).encode("utf-8", "replace").decode("utf-8")  # a file's name need not be text
        if as_json:
            print(json.dumps(as_record(report, name)), flush=True)
        elif report.reason is None or any(f.passed for f in report.findings) or report.not_done:
            print(f"{name}: {report.points:g} of {report.max_points:g} points\n{as_text(report)}", flush=True)
        else:
            print(f"{name}: 0 of {report.max_points:g} points: {report.reason}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
