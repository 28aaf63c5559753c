"""The former place of `check_for`: source notebooks and gradebooks of running courses import it from here."""

from autograder.nbgrader_plugins.stock import check_for

__all__ = ["check_for"]
