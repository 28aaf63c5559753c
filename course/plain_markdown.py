"""The book's markdown as plain markdown, which JupyterLab, Colab, formgrader and feedback pages can show.

A chapter uses a small set of MyST constructs; each has a plain form here. Anything else is an error, so that raw markup
never reaches a student.
"""

from __future__ import annotations

import functools
import html
import itertools
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from course import catalog
from course.errors import CourseError
from course.folder import ROOT
from course.quiz import quiz_choices

_ADMONITIONS = {name: name.capitalize() for name in ("note", "tip", "warning", "important", "hint")}
_ADMONITIONS |= {"seealso": "See also", "admonition": ""}
_LABEL = re.compile(r"^\(([\w-]+)\)=$")
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_OPEN = re.compile(r"^(:{3,})\{([\w-]+)\}\s*(.*)$")
_ROLE = re.compile(r"\{([\w:]+)\}`([^`]+)`")
_OPTION = re.compile(r"^:[\w-]+:")
_CITATIONS = {"cite:p", "cite:t", "cite"}


def markdown(text: str, where: str) -> str:
    """`text` without MyST constructs. Raises CourseError for one without a plain form; `where` names the file in it."""
    try:
        return "\n".join(_blocks(text.split("\n"))).strip("\n")
    except CourseError as error:
        raise CourseError(f"{where}: {error}") from None


def _blocks(lines: list[str]) -> list[str]:
    made, i, fence = [], 0, None
    while i < len(lines):
        line = lines[i]
        bare, ticks = line.strip(), _FENCE.match(line)
        if fence:  # code stays as it is
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = None
            made.append(line)
        elif ticks:
            fence = ticks[1]
            if bare[len(fence) :].startswith("{"):
                raise CourseError(
                    f"the directive {bare!r} has no plain form; use a colon fence from the list in guides/authors.md"
                )
            made.append(line)
        elif block := _OPEN.match(line):
            colons, name, title = block.groups()
            end = next((j for j in range(i + 1, len(lines)) if lines[j].rstrip() == colons), None)
            if end is None:
                raise CourseError(f"the block {bare!r} is never closed")
            made += _directive(name, _inline(title), lines[i + 1 : end])
            i = end
        elif line.startswith(":::"):
            raise CourseError(f"{bare!r} opens no directive and closes none")
        elif not _LABEL.match(line):  # only the book can point at labels
            made.append(_inline(line))
        i += 1
    return made


def _directive(name: str, title: str, body: list[str]) -> list[str]:
    body = list(itertools.dropwhile(lambda line: _OPTION.match(line) or not line.strip(), body))
    if name == "quiz":
        return _quiz(title, body)
    if name == "dropdown":
        return _folded(re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(title, quote=False)), _blocks(body))
    if name not in _ADMONITIONS:
        known = ", ".join(sorted([*_ADMONITIONS, "dropdown", "quiz"]))
        raise CourseError(f"the directive {name!r} has no plain form; use one of {known}")
    head = ": ".join(filter(None, [_ADMONITIONS[name], title]))
    return [f"> **{head}**", ">", *[f"> {line}".rstrip() for line in _blocks(body)]]


def _quiz(question: str, body: list[str]) -> list[str]:
    asked, told = [], []
    for letter, choice in zip(string.ascii_lowercase, quiz_choices(question, body)):
        asked.append(f"- ({letter}) {_inline(choice.text)}")
        told.append(f"- ({letter}) {'**Right.**' if choice.right else 'No.'} {_inline(choice.feedback)}")
    return [f"**{question}**", "", *asked, "", *_folded("Answer", told)]


def _folded(summary: str, body: list[str]) -> list[str]:
    # nbgrader's pages show a summary as a plain block, which takes its triangle away; the style gives it back.
    return ["<details>", f'<summary style="display: list-item">{summary}</summary>', "", *body, "", "</details>"]


def _inline(line: str) -> str:
    return _ROLE.sub(_plain_role, line)


def _plain_role(match: re.Match) -> str:
    role, content = match.groups()
    titled = re.match(r"^(.*?)\s*<([^<>]+)>$", content)
    text, target = titled.groups() if titled else (None, content)
    if role in {"ref", "numref"}:
        return text or _entry(_labels(), target, "no chapter has the label")
    if role == "term":
        if target.lower() not in glossary():
            raise CourseError(f"the glossary in appendices/notation.md has no term {target!r}")
        return text or target
    if role == "doc":
        return text or target
    if role in _CITATIONS:
        links = "; ".join(_linked(entry.cited, entry.address) for entry in _cited(content))
        return links if role == "cite:t" else f"({links})"
    if role == "abbr":
        return content.split("(")[0].strip()
    if role == "math":
        return f"${content}$"
    raise CourseError(f"the role {role!r} has no plain form")


def _entry(table: Mapping[str, Any], key: str, otherwise: str):
    if key not in table:
        raise CourseError(f"{otherwise} {key!r}")
    return table[key]


@functools.cache
def _labels() -> dict[str, str]:
    """label -> title of the heading that follows it, over all chapters."""
    found = {}
    for path in map(catalog.chapter_path, catalog.chapters()):
        text = path.read_text("utf-8") if path.exists() else ""
        found.update(re.findall(r"^\(([\w-]+)\)=\n+#+ (.+)$", text, re.MULTILINE))
    return found


@functools.cache
def glossary() -> dict[str, str]:
    """term in lower case -> label of the section of appendices/notation.md it is in."""
    path, found, section, inside = ROOT / "appendices" / "notation.md", {}, "", False
    for line in path.read_text("utf-8").splitlines() if path.is_file() else []:
        if label := _LABEL.match(line):
            section = label[1]
        elif line.startswith("```"):
            inside = line == "```{glossary}"
        elif inside and line and not line.startswith(" "):
            found[line.lower()] = section
    return found


def references(texts: Iterable[str]) -> str:
    """A section that lists, with links, what these texts of a chapter cite; nothing where they cite nothing."""
    lines = {
        entry.line
        for text in texts
        for role, content in _ROLE.findall(text)
        if role in _CITATIONS
        for entry in _cited(content)
    }
    return "\n".join(["## References", "", *[f"- {line}" for line in sorted(lines)]]) if lines else ""


def _cited(keys: str) -> list[Entry]:
    """The entries that a citation names. Raises CourseError for one that is not there."""
    return [_entry(bibliography(), key.strip(), "references.bib has no entry") for key in keys.split(",")]


class Entry(NamedTuple):
    """An entry of references.bib, as chapters cite it: "Su et al., 2024", its address or "", and a line for a list."""

    cited: str
    address: str
    line: str


@functools.cache
def bibliography() -> dict[str, Entry]:
    """All entries of references.bib, by key."""
    from pybtex.database import parse_file

    found = {}
    for key, entry in parse_file(str(ROOT / "references.bib")).entries.items():
        fields, authors = entry.fields, entry.persons.get("author", [])
        people = [_unicode(" ".join(person.prelast_names + person.last_names)) for person in authors]
        cited = " and ".join(people) if len(people) <= 2 else f"{people[0]} et al."
        cited = f"{cited}, {fields.get('year', 'n.d.')}"
        address = f"https://doi.org/{fields['doi']}" if "doi" in fields else fields.get("url", "")
        address = address.replace("(", "%28").replace(")", "%29")  # which would end a link
        venue = next((fields[name] for name in ("journal", "booktitle", "publisher") if name in fields), "")
        parts = [cited, _linked(_unicode(fields["title"]), address), _unicode(venue)]
        found[key] = Entry(cited, address, ". ".join(filter(None, parts)) + ".")
    return found


def _linked(text: str, address: str) -> str:
    return f"[{text}]({address})" if address else text


def _unicode(text: str) -> str:
    """A field of references.bib without TeX, except for formulas."""
    from pybtex.richtext import Text

    return str(Text.from_latex(" ".join(text.split())))
