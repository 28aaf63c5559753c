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
    assert content(files[f"{one['_files'][0]}.js"]) == {key: WIDGET[key] for key in widget_files.BEGINNING}
    assert (one["head"], two["head"], one["maps"]) == (3, 5, WIDGET["maps"]) and layout == LAYOUT
    assert "export default" not in page and '</script>"' not in page


def test_each_view_has_a_box_with_room_for_the_drawing_and_the_longest_question():
    plain = {**OTHER, "min_height": 300, "narrow_extra": 40}
    for state, wide, narrow in [
        (plain, 300, 340),
        (
            {
                **plain,
                "predictions": ["How many?", ["Which of these two is larger, the first or the second one?", "a"]],
            },
            382.3,
            469.6,
        ),
        (OTHER, 0, 0),
    ]:
        page, _ = widget_files.lighten(page_of(state))
        box = f'</script><div class="widget-view" style="--wide: {wide}px; --narrow: {narrow}px"></div>'
        assert page.count(box) == page.count('widget-view"') == 1, page
    assert widget_files.lighten(page)[0] == page


def test_what_all_widgets_begin_with_is_a_file_of_its_own():
    begin = widget_files.BEGINNING
    page, files = widget_files.lighten(page_of({key: begin[key] + "own" for key in begin} | {"head": 1}))
    (state,) = states(page)
    shared, own = (content(files[f"{name}.js"]) for name in state["_files"])
    assert all(getattr(widgets, name)._esm.startswith(begin["_esm"]) for name in widgets.__all__)
    assert own["_esm"] == own["_css"] == "own" and shared == begin


def test_many_values_are_in_a_file_and_few_in_the_page():
    buffers = [{"path": ["data"], "encoding": "base64", "data": "A" * widget_files.MANY}]
    page, files = widget_files.lighten(page_of(WIDGET, {**WIDGET, "maps": ["é"] * 1000}))
    few, many = states(page)
    assert few["head"] == 3 and "_saved" not in few and set(many) == {"_files", "_saved"} and len(files) == 2
    assert content(files[f"{many['_saved']}.js"])["state"] == {"head": 3, "maps": ["é"] * 1000}
    one = page_of(WIDGET).replace('"state": {"_esm"', f'"buffers": {json.dumps(buffers)}, "state": {{"_esm"')
    page, files = widget_files.lighten(one)
    assert content(files[f"{states(page)[0]['_saved']}.js"])["buffers"] == buffers and "AAA" not in page


def test_a_page_loads_the_files_of_its_first_widget_before_the_script_that_needs_them():
    begin = widget_files.BEGINNING
    first = {key: begin[key] + "own" for key in begin} | {"maps": [0] * widget_files.MANY}
    page, files = widget_files.lighten(page_of(first, OTHER))
    loaded = re.findall(r'<script defer="defer" src="([^"]+)"', page)
    state = states(page)[0]
    assert loaded[:-1] == [f"../_static/widgets/{name}.js" for name in (*state["_files"], state["_saved"])]
    assert "host.js" in loaded[-1] and len(loaded) == len(files) == 4


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
