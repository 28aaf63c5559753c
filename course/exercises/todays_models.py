"""The capstone on today's models: it has no exercise, only a question graded by hand."""

from course.kit.exercise import Written

written = Written(points=4, rubric="""TODO""")
