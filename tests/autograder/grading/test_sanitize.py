"""Everything honest in a submission is shown, and nothing that could run, fetch or break out of a page."""

import base64
import io
import struct
import sys
import zlib

import bs4
import numpy as np
import pytest
from nbconvert.filters.markdown_mistune import markdown2html_mistune

from autograder.grading import sanitize, submission
from autograder.sandbox import limits
from course.folder import ROOT
from tests.autograder import hostile

HARMLESS = sanitize.TAGS | {"html", "body"}
ATTRIBUTES = set("href src alt title class align colspan rowspan scope start width height".split())
LINKS = ("https://", "http://", "mailto:", "#")


def rendered(source):
    return sanitize.rendered({"cell": {"metadata": {}}}, source)


def shown(data, **more):
    """Return the parts of one displayed output that are kept."""
    return sanitize.outputs([{"output_type": "display_data", "data": data, **more}], 1)


def printed(text):
    (output,) = sanitize.outputs([{"output_type": "stream", "name": "stdout", "text": text}], 1)
    return output.text


def assert_harmless(page):
    """No tag, attribute or address but the few that mark text up, as an HTML parser sees them."""
    for tag in bs4.BeautifulSoup(page, "html.parser").find_all(True):
        assert tag.name in HARMLESS, (tag.name, page)
        for name, value in tag.attrs.items():
            assert name in ATTRIBUTES, (name, page)
            if name == "href":
                assert value.startswith(LINKS), page
            if name == "src":
                assert value.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")), page
            if name == "class":  # names that a page knows, and that no student may use
                assert not {"score", "tabbable", "navbar-fixed-top"} & set(value), page


@pytest.mark.parametrize("page", hostile.HTML)
def test_html_of_an_output_marks_text_up_and_does_nothing_else_and_ends_where_it_began(page):
    (output,) = shown({"text/html": page})
    assert set(output.data) == {"text/html"}
    assert_harmless(output.data["text/html"])
    around = bs4.BeautifulSoup(f"<main>{sanitize.html(page)}<i>after</i></main>", "html.parser")
    assert around.main.find("i", string="after").parent is around.main


@pytest.mark.parametrize("source", hostile.MARKDOWN)
def test_a_written_answer_is_text(source):
    assert_harmless(rendered(sanitize.markdown(source)))
    assert_harmless(rendered(source))  # the second line alone


@pytest.mark.parametrize("source", hostile.MARKDOWN)
def test_a_written_answer_is_text_in_any_page_that_shows_it(source):
    """Also in a page of another configuration, where only the notebook's own text counts."""
    page = bs4.BeautifulSoup(markdown2html_mistune(sanitize.markdown(source)), "html.parser")
    for tag in page.find_all(True):
        assert tag.name in HARMLESS | {"input"}, tag
        assert not any(name.startswith("on") for name in tag.attrs), tag
        if tag.name == "a":
            assert tag["href"].startswith(LINKS), tag
        assert tag.get("id") not in {"check-softmax", "statusmessage", "softmax-comment", "written-softmax"}
        assert tag.name != "img"


@pytest.mark.parametrize(
    "command", ["href", "style", "class", "require", "cssId", "unicode", "html", "bbox", "rule", "def"]
)
def test_tex_sets_formulas_and_does_nothing_else(command):
    for dollar, backslash in (("$", "\\"), ("&#36;", "&#92;"), ("&dollar;", "&bsol;")):
        written = sanitize.markdown(f"{dollar}{backslash}{command}{{a}}{{b}}{dollar}")
        text = bs4.BeautifulSoup(rendered(written), "html.parser").text
        assert f"\\{command}" not in text


HONEST = r"""The weights **add up** to *one*, see [the book](https://example.org/a?b=c), and `a < b`.

- first: $\frac{a}{b} < \exp(x_i - x_j)$
- second: x[0]: 3, f[i](x)

1. one
2. two

| a | b |
|:-:|---|
| 1 | 2 |

```python
if a < b and d[k](x):  # comment
    print("<b>", a & b)
```

A fact &mdash; a &lt; b &amp; c. Mail me@example.org. 3 <4, a<b.
"""


def test_honest_answers_look_as_before():
    before = bs4.BeautifulSoup(markdown2html_mistune(HONEST), "html.parser")
    after = bs4.BeautifulSoup(rendered(sanitize.markdown(HONEST)), "html.parser")
    for tag in ("strong", "em", "a", "li", "ol", "ul", "td", "th", "pre", "code", "span"):
        assert len(after.find_all(tag)) == len(before.find_all(tag)), tag
    assert after.text.replace(sanitize.JOINER, "") == before.text.replace("a<b.", "a<b.")
    assert after.find("a")["href"] == "https://example.org/a?b=c"
    assert r"$\frac{a}{b} < \exp(x_i - x_j)$" in after.text
    assert after.find("th")["align"] == "center"


def test_a_table_of_pandas_and_a_picture_are_kept():
    table = (
        '<div>\n<style scoped>\n .dataframe tbody tr th {vertical-align: top;}\n</style>\n<table border="1" '
        'class="dataframe">\n<thead><tr style="text-align: right;"><th></th><th>a</th></tr></thead>\n<tbody>'
        + "<tr><th>0</th><td>1.5</td></tr>" * 400
        + "</tbody></table></div>"
    )
    (made,) = sanitize.outputs([{"output_type": "execute_result", "data": {"text/html": table, "text/plain": "a"}}], 3)
    page = bs4.BeautifulSoup(made.data["text/html"], "html.parser")
    assert len(page.find_all("td")) == 400 and page.table["class"] == ["dataframe"]
    assert made.data["text/plain"] == "a" and made.execution_count == 3
    picture = png(7, 5)
    figure = {"image/png": picture, "text/plain": "<Figure>"}
    assert [output.data for output in shown(figure)] == [figure]
    (inside,) = shown({"text/html": f'<img alt="a" width="90" src="data:image/png;base64,{picture}">'})
    assert f'src="data:image/png;base64,{picture}"' in inside.data["text/html"]


def png(width, height, data=None):
    """A PNG of one bit a pixel, in base64."""
    rows = zlib.compress(data if data is not None else (b"\0" + b"\0" * ((width + 7) // 8)) * height)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b"")]
    made = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + made).decode()


def test_a_jpeg_is_kept():
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.image

    file = io.BytesIO()
    matplotlib.image.imsave(file, np.zeros((5, 8, 3)), format="jpeg")
    assert submission.picture_size(base64.b64encode(file.getvalue()).decode()) == 40


@pytest.mark.parametrize(
    "data", ["", "AAAA", "no base64!", base64.b64encode(b"<svg onload=alert(1)>").decode(), png(60_000, 60_000, b"\0")]
)
def test_data_that_are_not_a_picture_or_would_fill_the_memory_are_left_out(data):
    assert shown({"image/png": data}) == []


def test_only_kinds_that_cannot_run_are_kept():
    kinds = """application/javascript image/svg+xml text/latex text/markdown text/vnd.mermaid application/pdf
    application/vnd.jupyter.widget-view+json application/json""".split()
    metadata = {"text/html": {"isolated": True}, "filenames": {}}
    (output,) = shown({**dict.fromkeys(kinds, "x"), "text/plain": "kept"}, metadata=metadata)
    assert (output.data, output.metadata) == ({"text/plain": "kept"}, {})


@pytest.mark.parametrize(
    "output",
    [
        None,
        3,
        {},
        {"output_type": "stream"},
        {"output_type": "stream", "text": 3, "name": []},
        {"output_type": "error", "traceback": 3},
        {"output_type": "display_data", "data": []},
        {"output_type": "error", "ename": None, "evalue": {}, "traceback": [None, 4, "\ud800"]},
        {"output_type": "display_data", "data": {"text/plain": ["a"], "text/html": 4}},
        {"output_type": "display_data", "data": {"text/plain": "half", "text/html": "<b>\ud800</b>"}},
        {"output_type": "display_data", "data": {"text/plain": "none", "image/png": "\u00a0AAAA"}},
        {"output_type": "display_data", "data": {"text/html": '<img src="data:image/png;base64,\u00a0AAAA">'}},
    ],
)
def test_forged_outputs_are_written_and_read_like_any(output):
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=sanitize.outputs([output], 1))])
    nbformat.validate(nbformat.reads(nbformat.writes(notebook), 4))


def test_all_outputs_of_a_notebook_together_stay_small():
    budget = sanitize.OutputBudget()
    many = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 300_000},
        {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["y" * 10_000] * 100},
        {"output_type": "display_data", "data": {"text/html": "<p>z</p>" * 200}},
    ] * 60
    kept = sanitize.outputs(many, 1, budget)
    assert len(repr(kept)) < 1.2 * limits.MAX_SHOWN
    assert sanitize.TOO_MUCH in kept[-1].text


@pytest.mark.parametrize(
    "page",
    [
        "<b>" * 30_000,
        "<b><i>" * 15_000,
        "<table><b>" * 9_000,
        "<b><table></b></table>" * 4_000,
        "<ul><li>" * 10_000,
        '<b x="<b>">' * 9_000,
        "<style><b></style>" * 5_000,
    ],
)
def test_html_that_would_take_minutes_to_read_is_shown_as_text(page):
    assert sanitize.html(page).startswith("<pre>")


def test_very_long_answers_and_cells_are_cut_and_say_so():
    assert len(sanitize.markdown("\\\\(" * 100_000)) < 2 * limits.MAX_ANSWER
    assert sanitize.TOO_LONG in sanitize.markdown("a" * 100_000)
    assert sanitize.code("%" * 500_000).endswith(f"# {sanitize.TOO_LONG}")
    assert sanitize.code("if a < b:\n    pass") == "if a < b:\n    pass"


def test_colors_are_kept_unless_there_are_too_many_to_find():
    red = "\x1b[31mred\x1b[0m"
    assert printed(red) == red
    assert "\x1b" not in printed(red * 9_000) and "redred" in printed(red * 9_000)


def test_no_output_contains_a_path_of_the_instructors_machine():
    said = f"File {ROOT}/attnlab/check.py, File {sys.prefix}/lib/python3/site-packages/numpy/core.py"
    error = {"output_type": "error", "ename": "E", "evalue": said, "traceback": [said]}
    all_kinds = printed(said), sanitize.outputs([error], 1), shown({"text/html": said, "text/plain": said})
    assert str(ROOT) not in repr(all_kinds) and sys.prefix not in repr(all_kinds)
    assert "attnlab/check.py" in printed(said) and "numpy/core.py" in printed(said)


def test_a_reason_in_a_comment_is_a_sentence_and_no_markup():
    said = sanitize.plain(f"no <b>such</b> file: [x](javascript:{hostile.RUN}) ![y]({hostile.ELSEWHERE}/y.png)")
    page = bs4.BeautifulSoup(markdown2html_mistune(said), "html.parser")
    assert page.find("img") is None and all(a["href"].startswith("http") for a in page.find_all("a"))
    assert sanitize.plain("it was late") == "It was late."
