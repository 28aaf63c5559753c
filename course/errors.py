"""The exception for mistakes in the course's own files or on the command line."""


class CourseError(Exception):
    """A mistake that an author or instructor can fix. Its message is one line that names it."""
