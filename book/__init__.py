"""The book's own machinery: what turns the chapters into a static site that needs no other host and leaks no answer."""


def setup(app):
    """Register every part with Sphinx.

    Imports stay in here: the chapters' kernels import `book.kernel_setup` without Sphinx.
    """
    from book import (
        accessibility,
        bibliography,
        chapter_reader,
        code_lines,
        downloads,
        drawers,
        edition,
        estimates,
        exercise_cards,
        fonts,
        landing,
        launch_links,
        leaks,
        live_model,
        living_picture,
        mathematics,
        metadata,
        not_found,
        page_weight,
        progress,
        quiz,
        report_link,
        search,
        slim_pages,
    )

    for part in (
        edition,
        chapter_reader,
        code_lines,
        quiz,
        living_picture,
        mathematics,
        downloads,
        drawers,
        launch_links,
        estimates,
        exercise_cards,
        progress,
        bibliography,
        metadata,
        report_link,
        not_found,
        landing,
        search,
        slim_pages,
        accessibility,
        fonts,
        page_weight,
        live_model,
        leaks,
    ):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
