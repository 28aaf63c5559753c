"""The tour of the living picture on a page that is not a notebook."""

from sphinx.cmd.build import main

from course.folder import ROOT
from tests.conftest import write_files

PAGE = """# Attention

:::{living-picture}
:::

[A chapter](chapters/rope.md)
"""
STEP = """
def setup(app):
    from book.directives import living_picture

    app.connect("html-page-context", living_picture.add_host)
"""


def test_a_plain_page_shows_the_tour_and_its_stops_lead_to_the_chapters(tmp_path, open_page):
    settings = dict(
        extensions=["myst_parser", "book.directives.living_picture"],
        myst_enable_extensions=["colon_fence"],
        html_static_path=[str(ROOT / "book" / "assets")],
        html_theme="basic",
    )
    conf = "".join(f"{name} = {value!r}\n" for name, value in settings.items()) + STEP
    write_files(tmp_path, {"chapters/rope.md": "# Rotary positions\n", "index.md": PAGE, "conf.py": conf})
    assert main(["-q", str(tmp_path), str(tmp_path / "site")]) == 0

    page = open_page((tmp_path / "site" / "index.html").as_uri(), reduced_motion="reduce")
    page.locator("[data-mounted=true] [data-widget=living_picture]").wait_for()
    page.locator("[data-stop=rope]").click()
    page.get_by_role("link", name="10. RoPE").click()
    page.wait_for_url("**/chapters/rope.html")
    assert page.get_by_role("heading", name="Rotary positions").is_visible()
    assert "host.js" not in page.content()
