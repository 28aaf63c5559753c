"""Steps that this course adds to nbgrader's own.

One is for feedback. Two are for comparisons with nbgrader's own way of grading (AUTOGRADER_STOCK=1).
"""

# Nbgrader's tables and traits have no types.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

from nbgrader import utils
from nbgrader.preprocessors import Execute, NbGraderPreprocessor, SaveAutoGrades

from autograder.grading.results import MIMETYPE
from autograder.grading.sanitize import is_grader_note
from course import catalog, prerequisites
from course.cells import exercise_of, nbgrader_of


class DropGradersNote(NbGraderPreprocessor):
    """Leaves the note to the grader out of a student's feedback."""

    def preprocess(self, nb, resources):
        nb.cells = [cell for cell in nb.cells if not is_grader_note(cell)]
        return nb, resources


class ExecuteWithReferences(Execute):
    """Runs a notebook as nbgrader does; `attnlab.mine` gives it the references of the chapters it builds on."""

    def preprocess(self, nb, resources, *args, **kwargs):
        stem = resources["nbgrader"]["notebook"]
        if not catalog.chapters_in(stem):  # an assignment of the instructor's own
            return super().preprocess(nb, resources, *args, **kwargs)
        with prerequisites.importable(stem):
            return super().preprocess(nb, resources, *args, **kwargs)


class SaveGrades(SaveAutoGrades):
    """Saves scores as nbgrader does, and books the points of a stretch exercise as extra credit."""

    def preprocess_cell(self, cell, resources, cell_index):
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        grade_id = nbgrader_of(cell).get("grade_id", "")
        exercise = catalog.all_exercises().get(exercise_of(grade_id))
        if not utils.is_grade(cell) or cell.cell_type != "code" or nbgrader_of(cell).get("points"):
            return cell, resources  # a stretch exercise may have been released with points, before it became one
        if exercise and exercise.bonus:
            grade = self.gradebook.find_grade(grade_id, self.notebook_id, self.assignment_id, self.student_id)
            grade.extra_credit = min(self._earned(cell), exercise.points)
            self.gradebook.db.commit()
        return cell, resources

    @staticmethod
    def _earned(cell) -> float:
        for output in cell.outputs:
            record = output.get("data", {}).get(MIMETYPE)
            if isinstance(record, dict) and isinstance(record.get("points"), (int, float)):
                return max(0.0, float(record["points"]))
        return 0.0
