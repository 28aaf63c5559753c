"""Clean the outputs and texts of a submission: for an instructor in formgrader, for the student as feedback.

Outputs are made by student code, and formgrader shows them in a page that may grade. So only kinds that cannot run
anything are kept, HTML is reduced to text markup, and everything is cut to a size that a page can handle.

Text is made safe twice: in the graded notebook itself (`markdown`), whatever shows it, and again in the pages of this
course, where Markdown becomes HTML (`rendered`).
"""

import functools
import html as entities
import os
import re
import site
import sys
from collections.abc import Container
from typing import Any

import nh3
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from autograder.grading.submission import PICTURE, PICTURE_NAME, PICTURE_TOO_LARGE, instead_of_picture, picture_size
from autograder.sandbox import limits
from course.cells import nbgrader_metadata, nbgrader_of, new_cell, new_output
from course.folder import ROOT
from course.nbgrader_workarounds import utils

MAX_TAGS, MAX_UNTIDY, MAX_DEPTH = 300, 20_000, 60  # HTML of more tags or characters must be well formed, and no deeper
MAX_COLORS = 4_000  # changes of color in one output; each takes time to be found
TOO_MUCH = "[The rest of this output was too long to keep.]"
TOO_LONG = "[The rest was too long to show.]"
TAGS = frozenset(
    """
    a abbr b blockquote br caption code col colgroup dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img li ol p
    pre s small span strong sub summary sup table tbody td tfoot th thead tr tt u ul
    """.split()
)
JOINER = "\u2060"  # a character of no width: between "<" and a letter, it turns a tag into text

_PICTURE = re.compile(r"data:image/(png|jpeg);base64,")
_ANY, _SPAN, _LENGTH = re.compile(""), re.compile(r"\d{1,2}$"), re.compile(r"\d{1,4}$")
# Of colored code, and of a pandas table.
_CLASSES = re.compile(r"\s*(([a-z]{1,2}[0-9]?|highlight|dataframe)(\s+|$))*$")
_CELL = {"colspan": _SPAN, "rowspan": _SPAN, "align": _ANY}
_ATTRIBUTES = {
    "a": {"href": re.compile(r"https?://|mailto:|#"), "title": _ANY},
    "img": {"src": _PICTURE, "alt": _ANY, "width": _LENGTH, "height": _LENGTH},
    "td": _CELL,
    "th": {**_CELL, "scope": _ANY},
    "tr": {"align": _ANY},
    "ol": {"start": re.compile(r"\d{1,6}$")},
    **dict.fromkeys(("div", "span", "table"), {"class": _CLASSES}),
}
# What TeX in a page could do besides setting a formula: fetch, link, style, or overlap other content.
_TEX = re.compile(
    r"\\(href|url|require|class|style|cssId|unicode|html\w*|data|toggle|texttip|mathtip|tooltip|bbox|include\w*"
    r"|mmlToken|rule|Rule|Space|hspace|hskip|kern|mkern|mskip|mspace|raise|lower|moveleft|moveright"
    r"|def|let|newcommand|renewcommand|newenvironment|renewenvironment|Newextarrow|DeclareMathOperator)(?![a-zA-Z])"
)
_FETCHED = re.compile(rf"!\[(?![^\[\]\n]{{0,500}}\]\({PICTURE_NAME}\))")
_LINK = re.compile(rf"(\]\s*+)([(:])(?!\s*<?(?:https?://|mailto:|#|[\w./-]+(?:[)\s#?]|$))|{PICTURE_NAME}\))")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_OPENING = re.compile(r"<[A-Za-z]")
_PLAIN_TAG = re.compile(
    r"""<(/?)([A-Za-z][A-Za-z0-9]*)(?:\s+[\w:-]+(?:\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>=`]+))?){0,30}+\s*/?>"""
)
_ENTITY = re.compile(r"&(?=#|\w)(#[xX]?[0-9a-fA-F]{1,9};?|\w{1,32};?)?")
_HEADING = re.compile(
    r"^([ \t>*+.)\d-]{0,40}#{1,6}[ \t]*)(?=[^\s#])|^([ \t>*+.)\d-]{0,40})(?=\S.*\n[ \t>]*(?:=+|-+)[ \t]*$)",
    re.MULTILINE,
)
_ALIGN = re.compile(r' style="text-align: ?(left|right|center);?"')
_CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
_COLOR = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]|\x1b")


class OutputBudget:
    """The room that is left in a notebook: outputs, characters (of markup and attached pictures apart), and pixels."""

    def __init__(self, markup: int = limits.MAX_MARKUP):
        self._left = {
            "outputs": limits.MAX_OUTPUTS,
            "characters": limits.MAX_SHOWN,
            "markup": markup,
            "pictures": limits.MAX_PICTURES,
            "pixels": 4 * limits.MAX_PIXELS,
        }

    def take(self, **what: int) -> bool:
        """Whether there is room for this; if so, reserve it."""
        if any(count > self._left[kind] for kind, count in what.items()):
            return False
        for kind, count in what.items():
            self._left[kind] -= count
        return True

    def spend(self, **what: int) -> None:
        """Reserve it. Raises _Full if there is no room for it."""
        if not self.take(**what):
            raise _Full


class _Full(Exception):
    """Raised where an output has no room left."""


def outputs(given: list[dict[str, Any]], count: int, budget: OutputBudget | None = None) -> list:
    """Outputs of a cell, as nbformat has them, from what a student's process says they are."""
    budget, kept, full = budget or OutputBudget(), [], False
    for output in given:
        try:
            budget.spend(outputs=1)
            kept += _output(output, count, budget) if isinstance(output, dict) else []
        except _Full:
            full = True
    return [*kept, new_output("stream", name="stdout", text=f"{TOO_MUCH}\n")] if full else kept


def _output(output: dict[str, Any], count: int, budget: OutputBudget) -> list:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        text = _text(output.get("text"))
        budget.spend(characters=len(text))
        return [new_output("stream", name=name, text=text)]
    if kind == "error":
        traceback = output.get("traceback")
        lines = [_text(line)[:10_000] for line in traceback[:100]] if isinstance(traceback, list) else []
        budget.spend(characters=sum(map(len, lines)))
        name, words = _text(output.get("ename"))[:200], _text(output.get("evalue"))[:2000]
        return [new_output("error", ename=name, evalue=words, traceback=lines)]
    if kind in ("display_data", "execute_result") and isinstance(output.get("data"), dict):
        data = _data(output["data"], budget)
        more = {"execution_count": count} if kind == "execute_result" else {}
        return [new_output(kind, data=data, metadata={}, **more)] if data else []
    return []


def _data(given: dict[str, Any], budget: OutputBudget) -> dict[str, Any]:
    kept, pixels = {}, 0
    for kind in ("image/png", "image/jpeg"):
        size = picture_size(given[kind]) if isinstance(given.get(kind), str) else None
        if size is not None:
            kept[kind], pixels = given[kind], pixels + size
    page = given.get("text/html")
    if isinstance(page, str) and not kept:
        budget.spend(markup=min(len(page), limits.MAX_HTML))
        # Its formulas, if any, remain text, because TeX could turn a table into anything.
        shown = html(_hide_local_paths(page)) if len(page) <= limits.MAX_HTML else f"<p>{TOO_MUCH}</p>"
        kept["text/html"] = f'<div class="tex2jax_ignore">{shown}</div>'
    if "text/plain" in given:
        kept["text/plain"] = _text(given["text/plain"])
    budget.spend(characters=sum(map(len, kept.values())), pixels=pixels)
    return kept


def _text(value) -> str:
    """Text that can be written and read again: no half characters, no control characters, not too much."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    text = text[: limits.MAX_TEXT] + (f"\n{TOO_MUCH}" if len(text) > limits.MAX_TEXT else "")
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.encode("utf-8", "replace").decode("utf-8"))
    if text.count("\x1b") > MAX_COLORS:
        text = _COLOR.sub("", text)
    return _hide_local_paths(text)


def _hide_local_paths(text: str) -> str:
    """Text without the places where this course and Python's libraries are on the instructor's machine."""
    for path in _places():
        text = text.replace(path, "…")
    return text


@functools.cache
def _places() -> list[str]:
    found = {str(ROOT), sys.prefix, sys.base_prefix, site.getuserbase(), os.path.expanduser("~")}
    found |= {os.path.realpath(path) for path in found}
    return sorted((path for path in found if path.count(os.sep) > 1 or path == "/root"), key=len, reverse=True)


def html(page: str) -> str:
    """Cut HTML down to marked-up text.

    It keeps no script, style, form or frame, nothing that is fetched from elsewhere, and no name that the page around
    it knows.
    """
    page = page.encode("utf-8", "replace").decode("utf-8")  # half characters, which nh3 does not take
    if not _cheap_to_parse(page):
        return f"<pre>{entities.escape(re.sub('<[^<>]*>', ' ', page))}</pre>"
    return _TEX.sub(rf"\\{JOINER}\1", _CLEANER.clean(_entities(page)))


def _cheap_to_parse(page: str) -> bool:
    """Whether this can be read in little time: few tags, or well formed without deep nesting, as tables are."""
    if len(page) <= MAX_UNTIDY and len(_OPENING.findall(page)) <= MAX_TAGS:
        return True
    open_tags: list[str] = []
    place = 0
    while (found := _TAG.search(page, place)) is not None:
        tag = _PLAIN_TAG.match(page, found.start())
        if tag is None:
            return False
        name, place = tag[2].lower(), tag.end()
        if tag[1]:
            if not open_tags or open_tags.pop() != name:
                return False
        elif name not in ("br", "hr", "img", "col"):
            open_tags.append(name)
        if name not in TAGS | {"style"} or "style" in open_tags[:-1] or len(open_tags) > MAX_DEPTH:
            return False
    return True


def _attribute(tag: str, name: str, value: str) -> str | None:
    """The value of an attribute, or None if it may not stay. Raises nothing: nh3 would let the value pass."""
    pattern = _ATTRIBUTES.get(tag, {}).get(name)
    if pattern is None or not pattern.match(value):
        return None
    if name == "src" and picture_size(value.partition(",")[2]) is None:
        return None
    return value


_CLEANER = nh3.Cleaner(
    tags=TAGS,
    attributes={tag: set(patterns) for tag, patterns in _ATTRIBUTES.items()},
    attribute_filter=_attribute,
    url_schemes={"http", "https", "mailto", "data"},
    link_rel=None,
)


def _entities(text: str) -> str:
    """Break the entities of characters that mean something to Markdown, HTML or TeX.

    Those that make a tag plain text, such as `&lt;`, stay.
    """

    def replaced(match):
        meant = entities.unescape(match[0])
        is_text = match[0] in ("&lt;", "&gt;", "&amp;", "&quot;", "&nbsp;")
        return match[0] if is_text or meant != match[0] and not meant.isascii() else f"&{JOINER}{match[0][1:]}"

    return _ENTITY.sub(replaced, text)


def markdown(source: str, shown: Container[str] = ()) -> str:
    """A student's text, in which no tag is one, no picture is fetched and no link runs anything. It reads as before.

    shown: names of the pictures that stay, as `submission` gives them
    """
    source = PICTURE.sub(
        lambda found: found[0] if found[2] in shown else instead_of_picture(found[1], PICTURE_TOO_LARGE), source
    )
    if len(source) > limits.MAX_ANSWER:
        source = f"{source[: limits.MAX_ANSWER]}\n\n{TOO_LONG}"
    source = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", source)
    source = _entities(_TAG.sub(f"<{JOINER}", _FETCHED.sub(f"!{JOINER}[", source)))
    source = _LINK.sub(rf"\1{JOINER}\2", source)
    # A heading gets a name in the page, and may not take that of a score.
    source = _HEADING.sub(lambda match: f"{match[0]}{JOINER}", source)
    return _TEX.sub(rf"\\{JOINER}\1", source)


def code(source: str) -> str:
    """Return a student's code to be shown: unchanged, unless no page could show it."""
    source = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", source)
    return source if len(source) <= limits.MAX_CODE else f"{source[: limits.MAX_CODE]}\n# {TOO_LONG}"


def plain(text: str) -> str:
    """A sentence for a page, without anything that could be markup."""
    sentence = markdown(re.sub(r"[<>&]", "", " ".join(text.split()))[:500])
    return sentence[:1].upper() + sentence[1:] + ("" if sentence.endswith((".", "?", "!")) else ".")


@pass_context
def rendered(context, source: str) -> str:
    """Render Markdown as HTML for nbconvert's pages. All text but the instructor's is cleaned once more."""
    cell = context.get("cell") or {}
    metadata = cell.get("metadata", {})
    locked = metadata.get("nbgrader", {}).get("locked", False) or metadata.get("given", False)
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=not locked, attachments=cell.get("attachments", {}))
    try:
        page = MarkdownWithMath(renderer=renderer).render(source)
    except Exception:  # a missing picture, nesting that is too deep: the other cells are still shown
        return f"<pre>{entities.escape(source)}</pre>"
    return page if locked else html(_ALIGN.sub(r' align="\1"', page))


NOTE = "for-the-grader"  # name of the cell; no student's cell has a name
MAX_NOTES = 30


def insert_grader_note(notebook, notes: list[str]) -> None:
    """Put what a human should see above everything else, where there is something."""
    if not notes:
        return
    more = [f"and {len(notes) - MAX_NOTES} more, in results.json"] if len(notes) > MAX_NOTES else []
    lines = "".join(f"<li>{entities.escape(plain(note))}</li>" for note in notes[:MAX_NOTES] + more)
    # HTML without an empty line, so that Markdown leaves it alone, and TeX too.
    source = f'<div class="tex2jax_ignore"><b>For the grader:</b><ul>{lines}</ul></div>'
    cell = new_cell("markdown", source, nbgrader_metadata(NOTE, "markdown", locked=True))
    cell["id"], cell.metadata.nbgrader["checksum"] = NOTE, utils().compute_checksum(cell)
    notebook.cells.insert(0, cell)


def is_grader_note(cell) -> bool:
    return nbgrader_of(cell).get("grade_id") == NOTE
