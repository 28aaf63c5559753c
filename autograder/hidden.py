"""The former address of `check_for`, by which released notebooks call it. Hidden tests are in `grading`."""

from autograder.nbgrader_plugins.stock import check_for

__all__ = ["check_for"]
