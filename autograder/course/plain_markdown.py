"""The book's markdown as markdown that any notebook shows: JupyterLab, Colab, formgrader, feedback pages.

A chapter uses a small set of MyST constructs; each has a plain form here. Anything else is an error, so that no
student ever meets raw markup.
"""

from __future__ import annotations

import functools
import html
import re

from autograder.course import catalog
from autograder.course.folder import ROOT
from autograder.errors import CourseError

_ADMONITIONS = {
    "note": "Note",
    "tip": "Tip",
    "warning": "Warning",
    "important": "Important",
    "hint": "Hint",
    "seealso": "See also",
    "admonition": None,
}
_LABEL = re.compile(r"^\(([\w-]+)\)=$")
_OPEN = re.compile(r"^(:{3,})\{([\w-]+)\}\s*(.*)$")
_ROLE = re.compile(r"\{([\w:]+)\}`([^`]+)`")
_CHOICE = re.compile(r"^- \[([ x])\] (.*?) :: (.*)$")
# nbgrader's pages style a summary as a plain block, which takes its triangle away; this gives it back.
_SUMMARY = '<summary style="display: list-item">'
_OPTION = re.compile(r"^:[\w-]+:")


def markdown(text: str, where: str) -> str:
    """`text` without MyST constructs. `where` names the chapter in errors."""
    lines = _blocks(text.split("\n"), where)
    return "\n".join(lines).strip("\n")


def _blocks(lines: list[str], where: str) -> list[str]:
    made, i, fence = [], 0, None
    while i < len(lines):
        line = lines[i]
        ticks = re.match(r"^\s*(`{3,}|~{3,})", line)
        if fence or ticks:  # code stays as it is
            if fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
            elif not fence:
                if re.match(r"^\s*[`~]{3,}\{", line):
                    raise CourseError(
                        f"{where}: the directive {line.strip()!r} has no plain form; "
                        f"use a colon fence from the list in guides/authors.md"
                    )
                fence = ticks.group(1)
            made.append(line)
        elif _LABEL.match(line):
            pass  # only the book can point at labels
        elif _OPEN.match(line):
            colons, name, title = _OPEN.match(line).groups()
            end = next((j for j in range(i + 1, len(lines)) if lines[j].rstrip() == colons), None)
            if end is None:
                raise CourseError(f"{where}: the block {line.strip()!r} is never closed")
            made += _directive(name, title, lines[i + 1 : end], where)
            i = end
        elif line.startswith(":::"):
            raise CourseError(f"{where}: {line.strip()!r} opens no directive and closes none")
        else:
            made.append(_inline(line, where))
        i += 1
    return made


def _directive(name: str, title: str, body: list[str], where: str) -> list[str]:
    body = list(body)
    while body and (_OPTION.match(body[0]) or not body[0].strip()):
        body.pop(0)
    title = _inline(title, where)
    if name == "quiz":
        return _quiz(title, body, where)
    if name == "dropdown":
        return ["<details>", f"{_SUMMARY}{_summary(title)}</summary>", "", *_blocks(body, where), "", "</details>"]
    if name in _ADMONITIONS:
        head = title if name == "admonition" else (_ADMONITIONS[name] + (f": {title}" if title else ""))
        return [f"> **{head}**", ">", *[f"> {line}".rstrip() for line in _blocks(body, where)]]
    raise CourseError(
        f"{where}: the directive {name!r} has no plain form; use one of "
        f"{', '.join(sorted([*_ADMONITIONS, 'dropdown', 'quiz']))}"
    )


def _quiz(question: str, body: list[str], where: str) -> list[str]:
    choices = [match.groups() for match in map(_CHOICE.match, body) if match]
    if (
        len(choices) < 2
        or sum(mark == "x" for mark, _, _ in choices) != 1
        or any(line.strip() and not _CHOICE.match(line) for line in body)
    ):
        raise CourseError(f"{where}: the quiz {question!r} needs lines `- [ ] choice :: feedback`, one of them [x]")
    asked = [f"**{question}**", ""]
    asked += [f"- ({chr(97 + i)}) {_inline(choice, where)}" for i, (_, choice, _) in enumerate(choices)]
    told = [
        f"- ({chr(97 + i)}) {'**Right.**' if mark == 'x' else 'No.'} {_inline(feedback, where)}"
        for i, (mark, _, feedback) in enumerate(choices)
    ]
    return [*asked, "", "<details>", f"{_SUMMARY}Answer</summary>", "", *told, "", "</details>"]


def _summary(title: str) -> str:
    """A title inside HTML: code in back quotes becomes <code>."""
    return re.sub(r"`([^`]+)`", lambda m: f"<code>{m.group(1)}</code>", html.escape(title, quote=False))


def _inline(line: str, where: str) -> str:
    def replace(match):
        role, content = match.groups()
        text, target = re.match(r"^(.*?)\s*<([^<>]+)>$", content).groups() if content.endswith(">") else (None, content)
        if role in {"ref", "numref"}:
            return text or _title_of(target, where)
        if role == "term":
            name = _term(target, where)
            return text or name
        if role == "doc":
            return text or target
        if role in {"cite:p", "cite:t", "cite"}:
            cited = "; ".join(_cited(key.strip(), where) for key in content.split(","))
            return cited if role == "cite:t" else f"({cited})"
        if role == "abbr":
            return content.split("(")[0].strip()
        if role == "math":
            return f"${content}$"
        raise CourseError(f"{where}: the role {role!r} has no plain form")

    return _ROLE.sub(replace, line)


def _title_of(label: str, where: str) -> str:
    titles = _labels()
    if label not in titles:
        raise CourseError(f"{where}: no chapter has the label {label!r}")
    return titles[label]


@functools.cache
def _labels() -> dict[str, str]:
    """label -> title of the heading it stands before, over all chapters."""
    found = {}
    for stem in catalog.chapters():
        path = catalog.chapter_path(stem)
        text = path.read_text("utf-8") if path.exists() else ""
        found.update(re.findall(r"^\(([\w-]+)\)=\n+#+ (.+)$", text, re.MULTILINE))
    return found


def _term(name: str, where: str) -> str:
    if name.lower() not in glossary():
        raise CourseError(f"{where}: the glossary in appendices/notation.md has no term {name!r}")
    return name


@functools.cache
def glossary() -> dict[str, str]:
    """term in lower case -> label of the section of appendices/notation.md it is in."""
    path, found, section, inside = ROOT / "appendices" / "notation.md", {}, "", False
    for line in path.read_text("utf-8").splitlines() if path.is_file() else []:
        section = _LABEL.match(line)[1] if _LABEL.match(line) else section
        if line.startswith("```"):
            inside = line == "```{glossary}"
        elif inside and line and not line.startswith(" "):
            found[line.lower()] = section
    return found


@functools.cache
def _bibliography() -> dict[str, str]:
    """key -> "Author et al., year" for every entry of references.bib."""
    from pybtex.database import parse_file

    found = {}
    for key, entry in parse_file(str(ROOT / "references.bib")).entries.items():
        people = [" ".join(p.prelast_names + p.last_names) for p in entry.persons.get("author", [])]
        names = people[0] if len(people) == 1 else " and ".join(people) if len(people) == 2 else f"{people[0]} et al."
        found[key] = f"{names.strip('{}')}, {entry.fields.get('year', 'n.d.')}"
    return found


def _cited(key: str, where: str) -> str:
    if key not in _bibliography():
        raise CourseError(f"{where}: references.bib has no entry {key!r}")
    return _bibliography()[key]
