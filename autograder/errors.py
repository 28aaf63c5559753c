"""The one exception for mistakes in the course's own files or in what was asked on the command line."""


class CourseError(Exception):
    """Something an author or instructor can mend. Its message is one line that names what was wrong."""
