"""The package that students of the course import: `check`, the widgets, and data recorded from a real model."""

from attnlab.check import check

__version__ = "0.1.0"
__all__ = ["check"]
