"""The book's own machinery: what turns the chapters into a static site that needs no other host and leaks no answer."""


def setup(app):
    """Register every part with Sphinx.

    Imports stay in here: the chapters' kernels import `book.quiet` without Sphinx.
    """
    from book import (
        access,
        downloads,
        edition,
        fonts,
        launch,
        leaks,
        lean,
        mathematics,
        metadata,
        missing,
        progress,
        quiz,
        reader,
        weight,
    )

    for part in (
        edition,
        reader,
        quiz,
        mathematics,
        downloads,
        launch,
        progress,
        metadata,
        missing,
        lean,
        access,
        fonts,
        weight,
        leaks,
    ):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
