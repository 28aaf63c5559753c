"""What a submission shows, made fit to be shown: to an instructor in formgrader, to the student as feedback.

Outputs are made by student code, and formgrader shows them in a page that may grade. So only kinds that cannot run
anything are kept, HTML is cut down to what marks text up, and everything is cut to a size that a page can bear.
"""

from __future__ import annotations

import re

import bleach
import nbformat

MAX_TEXT = 400_000  # characters of one output
MAX_NOTEBOOK = 6_000_000  # of all outputs of a notebook
MAX_LINES = 2_000
PICTURES = ("image/png", "image/jpeg")
TOO_MUCH = "[The rest of this output was too much to keep.]"
TAGS = {"a", "abbr", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "details", "div", "dl", "dt", "em",
        "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "li", "ol", "p", "pre", "small", "span", "strong", "sub",
        "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul"}
ATTRIBUTES = {"a": ["href", "title"], "img": ["alt", "src", "width", "height"], "td": ["colspan", "rowspan"],
              "th": ["colspan", "rowspan", "scope"]}
JOINER = "\u2060"  # a character of no width: between "<" and a letter, it makes text of a tag
# What MathJax would do more than set a formula for.
_TEX = re.compile(r"\\(href|require|class|style|cssId|unicode|html\w*|data|toggle|texttip|mathtip|tooltip)\b")
_LINK = re.compile(r"(\]\s*)([(:])(?!\s*<?(?:https?://|mailto:|#|[\w./-]+(?:[)\s#?]|$)))")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def outputs(found: list[dict], count: int) -> list:
    """Outputs of a cell, as nbformat has them, from what a student's process says they are."""
    kept = [_output(output, count) for output in found[:2000] if isinstance(output, dict)]
    return [output for output in kept if output is not None]


def _output(output: dict, count: int):
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return nbformat.v4.new_output("stream", name=name, text=_text(output.get("text")))
    if kind == "error":
        traceback = output.get("traceback") if isinstance(output.get("traceback"), list) else []
        return nbformat.v4.new_output("error", ename=_text(output.get("ename"))[:200],
                                      evalue=_text(output.get("evalue"))[:2000],
                                      traceback=[_text(line)[:10_000] for line in traceback[:100]])
    if kind in ("display_data", "execute_result") and isinstance(output.get("data"), dict):
        data = _data(output["data"])
        more = {"execution_count": count} if kind == "execute_result" else {}
        return nbformat.v4.new_output(kind, data=data, metadata={}, **more) if data else None
    return None


def _data(found: dict) -> dict:
    kept = {}
    for kind in PICTURES:
        if isinstance(found.get(kind), str) and len(found[kind]) <= 2_000_000 and _BASE64.fullmatch(found[kind]):
            kept[kind] = found[kind]
    if "text/plain" in found:
        kept["text/plain"] = _text(found["text/plain"])
    if isinstance(found.get("text/html"), str) and not set(kept) & set(PICTURES):
        page = found["text/html"]
        kept["text/html"] = html(page) if len(page) <= MAX_TEXT else f"<p>{TOO_MUCH}</p>"
    return kept


def _text(value) -> str:
    """Text that can be written and read again: no half characters, not too much."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    text = text[:MAX_TEXT] + (f"\n{TOO_MUCH}" if len(text) > MAX_TEXT else "")
    return text.encode("utf-8", "replace").decode("utf-8")


def html(page: str) -> str:
    """HTML cut down to marked-up text: no script, style, form or frame, and nothing that is fetched from elsewhere."""
    kept = bleach.clean(page, tags=TAGS, attributes=_attribute, protocols={"http", "https", "mailto", "data"}, strip=True)
    return _TEX.sub(rf"\\{JOINER}\1", kept)


def _attribute(tag: str, name: str, value: str) -> bool:
    if tag == "img" and name == "src":
        return bool(re.match(r"data:image/(png|jpeg|gif);base64,", value))
    if tag == "a" and name == "href":
        return not value.strip().lower().startswith("data:")
    return name in ATTRIBUTES.get(tag, ())


def markdown(source: str) -> str:
    """A student's text, in which no tag is one, no picture is fetched and no link runs anything. It reads as before."""
    if len(source) > MAX_TEXT:
        source = source[:MAX_TEXT] + f"\n\n{TOO_MUCH}"
    source = re.sub(r"<(?=[A-Za-z/!?])", f"<{JOINER}", source.replace("![", f"!{JOINER}["))
    return _TEX.sub(rf"\\{JOINER}\1", _LINK.sub(rf"\1{JOINER}\2", source))


def plain(text: str) -> str:
    """A sentence for a page, without anything that could be markup."""
    sentence = re.sub(r"[<>&]", "", text).strip()[:500]
    return sentence[:1].upper() + sentence[1:] + ("" if sentence.endswith((".", "?", "!")) else ".")
