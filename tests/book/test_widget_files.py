"""Widgets' code is in files that pages share; what a page had is what it gets."""

import json
import re

from fontTools.ttLib import TTFont

import book
from attnlab import widgets
from book.site import fonts, widget_files

TYPE = "application/vnd.jupyter.widget-"


def page_of(*models):
    saved = {"version_major": 2, "state": {f"m{i}": {"state": state} for i, state in enumerate(models)}}
    text = json.dumps(saved).replace("<", "\\u003c")
    return (
        '<html><head>\n<script defer="defer" src="../_static/host.js?v=1"></script></head><body>'
        f'<script type="{TYPE}state+json">{text}</script><script type="{TYPE}view+json">{{"model_id": "m0"}}</script>'
        "</body></html>"
    )


def states(page):
    found = widget_files.STATE.search(page)
    assert found
    return [one["state"] for one in json.loads(found[2])["state"].values()]


def content(file):
    found = re.fullmatch(r"\(self\.widgetFiles \?\?= \{\}\)\[\"\w+\"\] = (.*);\n", file)
    assert found
    return json.loads(found[1])


WIDGET = {"_esm": 'export default "−</script>"', "_css": ".a { color: red }", "head": 3, "maps": [0.1, 1e-9]}
OTHER = {"_esm": "export default 2", "_css": "", "head": 1}
LAYOUT = {"_model_name": "LayoutModel"}


def test_two_views_of_one_kind_share_a_file_and_keep_their_values():
    page, files = widget_files.lighten(page_of(WIDGET, {**WIDGET, "head": 5}, OTHER, LAYOUT))
    one, two, other, layout = states(page)
    assert one["_files"] == two["_files"] != other["_files"] and len(files) == 2
    assert content(files[f"{one['_files']}.js"]) == {key: WIDGET[key] for key in widget_files.BEGINNING}
    assert (one["head"], two["head"], one["maps"]) == (3, 5, WIDGET["maps"]) and layout == LAYOUT
    assert "export default" not in page and '</script>"' not in page


def test_what_all_widgets_begin_with_is_a_file_of_its_own():
    begin = widget_files.BEGINNING
    page, files = widget_files.lighten(page_of({key: begin[key] + "own" for key in begin} | {"head": 1}))
    (state,) = states(page)
    own = content(files[f"{state['_files']}.js"])
    assert all(getattr(widgets, name)._esm.startswith(begin["_esm"]) for name in widgets.__all__)
    assert own["_esm"] == own["_css"] == "own" and content(files[f"{own['after']}.js"]) == begin


def test_the_files_are_loaded_before_the_script_that_needs_them():
    page, files = widget_files.lighten(page_of(WIDGET, OTHER))
    loaded = re.findall(r'<script defer="defer" src="([^"]+)"', page)
    assert loaded[:-1] == [f"../_static/widgets/{name}" for name in sorted(files)] and "host.js" in loaded[-1]


class App:
    """As much of Sphinx as the step needs."""

    class builder:
        format = "html"

    def __init__(self, folder):
        self.outdir = folder


def test_a_second_build_changes_nothing_and_what_no_page_uses_goes(tmp_path):
    (tmp_path / "_static").mkdir()
    for name, models in (("one.html", [WIDGET]), ("two.html", [WIDGET, OTHER]), ("plain.html", [])):
        (tmp_path / name).write_text(page_of(*models) if models else "<html></html>", "utf-8")
    widget_files.share(App(tmp_path), None)
    first = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(first) == 5  # the three pages and two files
    widget_files.share(App(tmp_path), None)
    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == first
    (tmp_path / "two.html").write_text(page_of(WIDGET), "utf-8")
    widget_files.share(App(tmp_path), None)
    assert len(list((tmp_path / widget_files.FOLDER).iterdir())) == 1


def test_the_fonts_of_a_first_build_hold_the_letters_of_the_files(tmp_path):
    (tmp_path / "_static" / "styles").mkdir(parents=True)
    (tmp_path / "_static" / "vendor/fontawesome/webfonts").mkdir(parents=True)
    (tmp_path / "one.html").write_text(page_of({**WIDGET, "_esm": 'export default "x₂"'}), "utf-8")
    for step in book.steps()["build-finished"]:
        if step in (widget_files.share, fonts.write_fonts):
            step(App(tmp_path), None)
    for name in fonts.TEXT:
        assert ord("₂") in (TTFont(tmp_path / "_static" / name).getBestCmap() or {})
