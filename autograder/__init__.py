"""The grader: sandbox, grading, gradebook, and what nbgrader loads. Never shipped to students."""

import course  # noqa: F401 - it prepares the process for nbgrader and nbformat
