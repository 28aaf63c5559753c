"""Put the feedback pages of a class into a zip, to upload to the platform.

    python -m autograder feedback-zip canvas | moodle ASSIGNMENT --to FILE

Canvas and Moodle identify a file's owner by its name. A submission's name is in the record of where it came from, and
its page gets the matching name.
"""

import sys
import zipfile
from pathlib import Path

from autograder.gradebook import feedback_stamps, scores
from autograder.platforms import canvas, collect, moodle
from autograder.reports.model import printable
from course.errors import CourseError
from course.files import add_to_zip, replacing
from course.folder import course_folder

PLATFORMS = {one.NAME: one for one in (canvas, moodle)}


def run(platform: str, assignment: str, course: Path | None, to: Path, students: set[str] | None = None) -> int:
    """Write the zip, and say whose pages are missing; 1 if there are any. students: ids, if not all"""
    pages, without = gather(platform, assignment, course_folder(course), students)
    if not pages:
        raise CourseError(
            f"there is no page of {assignment} for {platform}: collect from it, grade, and run "
            f"`nbgrader generate_feedback {assignment}`"
        )
    try:
        with replacing(to) as file, zipfile.ZipFile(file, "w") as archive:
            for name, path in pages.items():
                add_to_zip(archive, name, path.read_bytes())
    except OSError as error:
        raise CourseError(f"{to} cannot be written: {error.strerror}") from None
    for student, why in without.items():
        print(f"autograder: {printable(student)}: {why}", file=sys.stderr)
    print(f"{to}: {len(pages)} page{'s' if len(pages) != 1 else ''}")
    return 1 if without else 0


def gather(
    platform: str, assignment: str, course: Path, chosen: set[str] | None = None
) -> tuple[dict[str, Path], dict[str, str]]:
    """The pages by their names in the zip; and for students without a page the reason."""
    pages, without = {}, {}
    with scores.opened(course) as gradebook:
        stamps = feedback_stamps.of_grades(gradebook, assignment, course / "autograded")
    made = {path.parent.name for path in (course / "feedback").glob(f"*/{assignment}")}
    records = {path.parent.name: path for path in (course / collect.RECORDS).glob(f"*/{assignment}")}
    for student in sorted((made | set(records)) if chosen is None else (made | set(records)) & chosen):
        record = collect.read_record(records.get(student, course / collect.RECORDS / student / assignment))
        members = record.get("members") or {}
        if record.get("platform") != platform or not members:
            without[student] = f"was not collected from {platform}"
            continue
        found = sorted((course / "feedback" / student / assignment).glob("*.html"))
        if not found:
            without[student] = f"has no page: run `nbgrader generate_feedback {assignment}`"
        elif any(feedback_stamps.of_page(path) != stamps.get((student, path.stem)) for path in found):
            without[student] = f"the page shows an older grade: run `nbgrader generate_feedback {assignment}`"
            continue
        for path in found:
            member = members.get(path.stem) or next(iter(members.values()))
            pages[PLATFORMS[platform].feedback_name(member.split("/")[0], path.name)] = path
    return pages, without
