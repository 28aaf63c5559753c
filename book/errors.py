"""Errors that stop a build with one line."""


class ConfigurationError(SystemExit):
    """A setting that cannot be used. Jupyter Book would print any other exception with a traceback."""


class ChapterError(SystemExit):
    """A chapter that cannot be built."""
