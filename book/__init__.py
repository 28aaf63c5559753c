"""Turn the chapters into a static site that needs no other host and leaks no answer."""

OTHERS = "Sphinx and other extensions"  # in a list of steps: where theirs run
BEFORE_OTHERS, AFTER_OTHERS = 400, 900  # priorities for Sphinx, whose own run from 500 to 800


def steps() -> dict:
    """List what runs at each of Sphinx's events, in order.

    Imports stay inside functions: the chapters' kernels import `book.kernel_setup` without Sphinx.
    """
    from book import edition, leaks
    from book.chapter_pages import chapter_reader, downloads, estimates, exercise_cards, progress
    from book.directives import front_page, living_picture, verify_record
    from book.pages import (
        accessibility,
        bibliography,
        external_links,
        late_pictures,
        mathematics,
        metadata,
        slim_pages,
        wrap_code,
    )
    from book.site import (
        all_exercises,
        answers,
        chapter_cards,
        feed,
        fonts,
        live_model,
        moved,
        not_found,
        page_weight,
        search,
        sitemap,
        theme_styles,
        widget_files,
    )

    return {
        "config-inited": [
            edition.configure,
            external_links.check_settings,
            metadata.check_address,
            OTHERS,
            chapter_reader.configure,  # MyST-NB would take the chapters' paths for suffixes
        ],
        "env-get-outdated": [OTHERS, chapter_reader.outdated, answers.outdated],
        "env-updated": [
            OTHERS,
            chapter_reader.stop_on_failure,
            downloads.write_notebooks,  # before the pages, which say how large the bundle is
        ],
        "doctree-resolved": [
            # What is put below a title or a check goes above what was put there before: the last comes first.
            external_links.add_notebook_links,
            edition.add_links,
            OTHERS,
            chapter_reader.plain_errors,
            mathematics.keep_together,
            mathematics.keep_shapes_whole,
            downloads.add_link,
            bibliography.plain_titles,
            accessibility.pictures_in_words,
            accessibility.row_headings,
            estimates.add,
            progress.add_controls,
            answers.lead_from_first_page,
            exercise_cards.fold,  # with everything that was put below a check
        ],
        "html-collect-pages": [OTHERS, edition.pages, not_found.pages, moved.pages, answers.pages, all_exercises.pages],
        "html-page-context": [
            metadata.name_first_page,
            external_links.add_report_link,  # before others read from the text what the page needs
            living_picture.add_host,
            front_page.add_files,
            verify_record.add_files,
            live_model.tell_page,
            search.add_files,
            OTHERS,  # the theme adds scripts as well
            wrap_code.hang_lines,
            late_pictures.load_late,
            metadata.add_tags,
            feed.link,
            accessibility.plain_roles,
            slim_pages.slim_head,
            moved.lead_on,
        ],
        "build-finished": [
            OTHERS,
            metadata.copy_pictures,
            slim_pages.drop_files,
            live_model.copy,
            answers.copy,
            chapter_cards.add,
            widget_files.share,  # when the pages are written
            fonts.write_fonts,  # after it: pages hold the letters of widgets' code as escapes of JSON
            not_found.begin_at_the_root,
            sitemap.write,
            feed.write,
            search.index_site,  # when the pages are final
            theme_styles.drop_unused,
            page_weight.check,  # when all files are there
            leaks.check_site,
        ],
    }


def setup(app):
    """Register the nodes, directives, transforms and settings with Sphinx, and all steps."""
    from book.chapter_pages import drawers, folded_cells
    from book.directives import (
        check_at_work,
        check_figures,
        course_facts,
        front_page,
        living_picture,
        quiz,
        verify_record,
    )
    from book.pages import bibliography, external_links, mathematics, metadata, slim_pages

    parts = (
        quiz,
        living_picture,
        course_facts,
        check_at_work,
        check_figures,
        mathematics,
        folded_cells,
        drawers,
        external_links,
    )
    for part in (*parts, bibliography, metadata, front_page, verify_record, slim_pages):
        part.setup(app)
    for event, functions in steps().items():
        others = functions.index(OTHERS)
        for function in functions[:others]:
            app.connect(event, function, BEFORE_OTHERS)
        for function in functions[others + 1 :]:
            app.connect(event, function, AFTER_OTHERS)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
