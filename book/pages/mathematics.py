"""Set formulas as MathML when the book is built: a page needs no script for them, and screen readers can read them.

`latex2mathml` translates. This module corrects what `latex2mathml` gets wrong and replaces what browsers leave out of
MathML (MathML Core has no column alignment and no named spaces). A command that is passed through untranslated is an
error that names it.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml import converter
from sphinx.util import logging

NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
THIN = "0.167em"
SPACES = {
    "negativethinmathspace": f"-{THIN}",
    "thinmathspace": THIN,
    "mediummathspace": "0.222em",
    "thickmathspace": "0.278em",
}
ORDINARY = {"|", "/", "…", "∞", "∂"}  # TeX sets these without space, MathML with
CLOSING = {")", "]", "}", "|", "!", "…", "∞"}
TOUCHING_BEFORE, TOUCHING_AFTER = re.compile(r"[(\[“‘]+$"), re.compile(r"^[.,;:?!…)\]”’]+")
BELOW = {"max", "min", "argmax", "argmin", "lim", "sup", "inf"}  # their index goes below in a displayed formula
# A shape or an index: numbers, short names and dots between brackets.
_ENTRY = r"(?:[−-]?\d[\d.]*|[A-Za-z]{1,2}|[A-Za-z]{1,5}_\w{1,5}|\.{3}|…)"
SHAPE = re.compile(rf"(\({_ENTRY}(?:, {_ENTRY})+\))")


class FormulaError(ValueError):
    """A formula that cannot be set. The message says which part of it."""


def mathml(latex: str, display: bool = False) -> str:
    """Translate a formula into a `<math>` element for an HTML page.

    latex: TeX without the dollar signs
    display: whether it is on a line of its own
    raises FormulaError where a command is not known
    """
    bare = re.sub(r"\\.", "", latex, flags=re.DOTALL)
    if bare.count("{") != bare.count("}"):
        raise FormulaError(f"the formula {latex!r} cannot be set: its braces do not match")
    known = re.sub(r"\\(begin|end)\{(?:aligned|split)\}", r"\\\1{align*}", latex)
    try:
        tree = ElementTree.fromstring(converter.convert(known, display="block" if display else "inline"))
    except Exception as error:  # its own errors, and `&` outside of a table, which is not XML
        raise FormulaError(f"the formula {latex!r} cannot be set: {type(error).__name__} {error}".rstrip()) from None
    for element in tree.iter():
        element.tag = element.tag.removeprefix(NAMESPACE)
        if element.tag != "mtext" and re.search(r"\\|&", element.text or ""):
            raise FormulaError(f"the formula {latex!r} cannot be set: {element.text!r} is not known")
    if [child.tag for child in tree] == ["mrow"]:
        tree[:] = list(tree[0])
    for element in tree.iter():
        _name_operators(element)
    for element in tree.iter():
        _unwrap(element)
        _space(element)
    if not display:
        tree.attrib.pop("display")
    tree.set("alttext", " ".join(latex.split()))
    return ElementTree.tostring(tree, "unicode")


def _name_operators(element) -> None:
    """Make a word an upright name instead of a sign with space on both sides; put the index of a maximum below it."""
    if element.tag == "mo" and re.fullmatch(r"[A-Za-z ]{2,}", element.text or ""):
        element.tag = "mi"
    first = element[0] if len(element) else None
    if element.tag == "msub" and first is not None and first.text in BELOW:
        element.tag, first.tag = "munder", "mo"
        first.attrib.update(movablelimits="true", lspace="0", rspace="0")
    if element.tag == "mi" and re.fullmatch("[Α-Ω]", element.text or ""):
        element.set("mathvariant", "normal")  # as in print: small Greek letters are slanted, capitals upright
    if element.tag == "mspace" and element.get("width") in SPACES:
        element.set("width", SPACES[element.get("width")])


def _unwrap(element) -> None:
    """Replace each group of one element by the element."""
    for place, child in enumerate(element):
        while child.tag == "mrow" and len(child) == 1 and not child.attrib:
            child = child[0]
        element[place] = child


def _space(row) -> None:
    """Put a thin space between a named function and its argument, as in print: `log x`, but `log(x)`."""
    if row.tag not in {"math", "mrow", "mtd", "msqrt", "mstyle"}:
        return
    for place, child in enumerate(row):
        if child.tag == "mo" and child.text in ORDINARY:
            child.attrib.update(lspace="0", rspace="0")
        before = row[place - 1] if place else None
        if (
            child.tag == "mo"
            and child.text in {"−", "+"}
            and before is not None
            and before.tag == "mo"
            and before.text not in CLOSING
        ):
            child.set("form", "prefix")  # a sign, as in `= -1`, not a difference
    for place in range(len(row) - 2, -1, -1):
        if _is_name(row[place]) and _is_applied_to(row[place + 1]):
            row.insert(place + 1, ElementTree.Element("mspace", width=THIN))
        before = row[place].tag in {"mi", "mn", "msub", "msup", "msubsup", "mfrac"} or _closes(row, place)
        if before and _is_name(row[place + 1]):
            row.insert(place + 1, ElementTree.Element("mspace", width=THIN))


def _closes(row, place: int) -> bool:
    """Tell whether the element at this place closes a bracket or a pair of bars."""
    text = row[place].text if row[place].tag == "mo" else None
    bars = sum(one.tag == "mo" and one.text == "|" for one in row[: place + 1])
    return text in {")", "]", "}"} or text == "|" and bars % 2 == 0


def _is_name(element) -> bool:
    base = element[0] if element.tag in {"msub", "msup", "msubsup", "munder"} else element
    return base.tag in {"mi", "mo"} and bool(re.fullmatch(r"[A-Za-z ]{2,}", base.text or ""))


def _is_applied_to(element) -> bool:
    first = element[0] if element.tag == "mrow" and len(element) else element
    return first.tag not in {"mo", "mspace"}


def keep_together(app, doctree, name) -> None:
    """Keep punctuation that touches an inline formula on the same line: browsers may break the line between the two."""
    if app.builder.format != "html":  # where `visit` below would not write them
        return
    for node in list(doctree.findall(nodes.math)):
        row, place = node.parent, node.parent.index(node)
        for key, beside, touching in (("before", place - 1, TOUCHING_BEFORE), ("after", place + 1, TOUCHING_AFTER)):
            text = row[beside] if 0 <= beside < len(row) else None
            found = touching.search(text) if isinstance(text, nodes.Text) else None
            if found:
                node[key] = found.group()
                row[beside] = nodes.Text(text[: found.start()] + text[found.end() :])


def keep_shapes_whole(app, doctree, name) -> None:
    """Keep `(2, 3, 4)` on one line, in the text and as code."""
    for node in list(doctree.findall(nodes.Text)):
        within = node.parent
        if isinstance(within, nodes.literal) and SHAPE.fullmatch(node):
            within["classes"].append("unbroken")
        elif not isinstance(within, (nodes.literal, nodes.raw, nodes.FixedTextElement, nodes.math)):
            parts = SHAPE.split(node)
            if len(parts) > 1:
                new = [
                    nodes.inline("", part, classes=["unbroken"]) if i % 2 else nodes.Text(part)
                    for i, part in enumerate(parts)
                    if part
                ]
                within.replace(node, new)


def visit(self, node) -> None:
    display = isinstance(node, nodes.math_block)
    tag = "div" if display else "span"
    try:
        formula = mathml(node.astext(), display)
    except FormulaError as error:
        logging.getLogger(__name__).warning(str(error), location=node, type="book", subtype="mathematics")
        formula = f"<code>{self.encode(node.astext())}</code>"
    place = f' id="{node["ids"][0]}"' if display and node["ids"] else ""
    formula = f'<{tag} class="math notranslate nohighlight"{place}>{formula}</{tag}>'
    before, after = (self.encode(node.get(key, "")) for key in ("before", "after"))
    self.body.append(f'<span class="unbroken">{before}{formula}{after}</span>' if before or after else formula)
    raise nodes.SkipNode


def setup(app) -> None:
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
