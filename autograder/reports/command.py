"""The report on a class and one assignment: `python -m autograder report ASSIGNMENT`."""

from pathlib import Path

from autograder.reports import csv_table, html_page, read
from autograder.reports.model import printable, show
from autograder.reports.text import as_text
from course.errors import CourseError


def report(
    assignment: str,
    course: Path | None = None,
    table: Path | None = None,
    page: Path | None = None,
    students: set[str] | None = None,
) -> int:
    """Print the report on one assignment; write it as a CSV file and as an HTML page if requested.

    students: ids of those that it is about, if not all
    returns: 1 if something could not be graded or its grade is not of what counts now, as the report says

    Raises CourseError if there is nothing to report, or a file cannot be written.
    """
    found = read.gather(assignment, course, students)
    show(as_text(found) + ("\n" if table or page else ""))
    if table is not None:
        csv_table.write_report(found, table)
        print(f"scores by student and exercise: {printable(table)}")
    if page is not None:
        try:
            page.write_text(html_page.as_html(found), "utf-8")
        except OSError as error:
            raise CourseError(f"{printable(page)} cannot be written: {error.strerror}") from None
        print(f"the report as a page: {printable(page)}")
    return 1 if found.ungradable or any(student.problems for student in found.students) else 0
