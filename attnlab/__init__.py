"""What a student of the course imports: `check`, the widgets, and data recorded from a real model."""

from attnlab.check import check

__version__ = "0.1.0"
__all__ = ["check"]
