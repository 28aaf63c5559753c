"""The hidden tests as a notebook cell sees them under stock nbgrader: `check(f)`, on inputs from the secret seed.

This runs in the student's kernel, with the trust that stock nbgrader gives it. It shows property titles, misconceptions
and hints, never inputs or expected values.
"""

import contextlib
import io

from attnlab.check import Points, show
from autograder.grading.results import MIMETYPE, as_record
from autograder.grading.single_file import grade_object
from course import catalog


class Score(Points):
    """Points of the hidden tests, in the form nbgrader reads: a float as the cell's result, always there."""

    def _repr_mimebundle_(self, **kwargs):
        return {**super()._repr_mimebundle_(**kwargs), MIMETYPE: as_record(self.report, "notebook")}

    def _ipython_display_(self):
        raise NotImplementedError


def check_for(name: str):
    """The hidden test of one exercise, to be bound to the name `check` in its cell."""
    exercise = catalog.exercise(name)

    def check(answer) -> Score:
        """Grade a live answer on hidden inputs. What it prints or warns costs nothing and is not kept."""
        # The cell's own output must be the table and the score alone: nbgrader takes a line on stderr for a failure.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            report = grade_object(answer, exercise)
        show(report)
        return Score(report)

    return check
