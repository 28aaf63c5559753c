"""Show each exercise as a card.

A card has the contract, how long the exercise takes, a link to the notebook, and the cell and its hints folded. The
notebook that students get does not change.

The check of a card has run, or the build would have failed. Its result is not shown: it is not the reader's.
"""

from __future__ import annotations

import ast
import re
from html import escape

from docutils import nodes
from sphinx_design.dropdown import dropdown_main

from attnlab.checking.report import STYLE
from book import exercise_nodes
from book.chapter_pages import downloads, estimates, sample_reports
from book.pages import external_links
from book.site import answers
from course import catalog


def fold(app, doctree, docname) -> None:
    """Put each exercise's cell, box and hints into a card."""
    stem = exercise_nodes.chapter_of(docname)
    if stem is None or app.builder.format != "html":
        return
    opened = links(stem, app.config.launch)
    exercises, stubs = catalog.exercises_of(stem), dict(exercise_nodes.stubs_in(doctree))
    sections = {section[0].astext(): section["ids"][0] for section in doctree.findall(nodes.section)}
    shown = False  # whether a report, which needs the style, is on the page
    for name, check in list(exercise_nodes.checks_in(doctree)):
        stub, section = stubs[name], check.parent
        first, last = section.index(stub), section.index(check)
        source = next(stub.findall(nodes.literal_block)).astext()
        controls, hints = followers(section, last + 1)
        place = f"exercise-{name}"  # which may be the heading's own: "Exercise: sample"
        free = not any(place in heading["ids"] for heading in doctree.findall(nodes.section))
        card = nodes.container(classes=["exercise-card"], ids=[place] if free else [])
        card += exercise_nodes.raw(head(name, source, estimates.of_card(exercises[name])))
        card += exercise_nodes.raw(answers.offer(stem, name))
        if stem not in (answers.chapters() or ()):
            if report := sample_reports.sample(name, sections):
                card += exercise_nodes.raw(report if shown else STYLE + report)
                shown = True
        card += exercise_nodes.raw(f'<p class="exercise-open">{opened} <code>check({name})</code> answers there.</p>')
        card += exercise_nodes.raw(f"<details><summary>{inside(len(hints))}</summary>")
        card += [*section[first:last], *hints, exercise_nodes.raw("</details>"), *controls]
        section[first : last + 1 + len(controls) + len(hints)] = [card]


def followers(section: nodes.Element, start: int) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Return the controls of an exercise, then its hints: the nodes that follow its check in the section."""
    controls, hints = [], []
    for node in section[start:]:
        if exercise_nodes.is_control(node) and not hints:
            controls.append(node)
        elif isinstance(node, dropdown_main) and node.astext().startswith("Hint"):
            hints.append(node)
        else:
            break
    return controls, hints


def inside(hints: int) -> str:
    """Name the folded part of a card for its contents."""
    return "The cell to fill in" + (f", and {hints} hints" if hints > 1 else ", and a hint" if hints else "")


def links(stem: str, launch: dict[str, str]) -> str:
    """Return links to the chapter's notebook: on the hosts that the configuration names, else to its file."""
    return external_links.notebook_links(stem, launch) or downloads.notebook_link(stem, "Download the notebook")


def head(name: str, source: str, effort: str) -> str:
    """Return a card's title and its contract: the signatures, and the first paragraph of the docstring."""
    signatures, sentence = contract(source)
    listed = "".join(f"<code>{escape(line)}</code>" for line in signatures)
    said = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(sentence, quote=False))
    return (
        f'<p class="exercise-title"><span>Your turn: <code>{name}</code></span> {effort}</p>'
        f'<p class="exercise-contract">{listed}</p><p>{said}</p>'
    )


def contract(source: str) -> tuple[list[str], str]:
    """Return the signatures of a stub, without `self`, and the first paragraph of its docstring."""
    (defined,) = [node for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    if isinstance(defined, ast.FunctionDef):
        signatures = [signature(defined)]
    else:
        bases = ", ".join(map(ast.unparse, defined.bases))
        signatures = [f"class {defined.name}({bases})" if bases else f"class {defined.name}"]
        signatures += [signature(node) for node in defined.body if isinstance(node, ast.FunctionDef)]
    paragraph = (ast.get_docstring(defined) or "").split("\n\n")[0]
    return signatures, " ".join(paragraph.split())


def signature(function: ast.FunctionDef) -> str:
    """Write a method's signature, such as `forward(x: Tensor) -> Tensor`."""
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{function.name}({re.sub(r'^self(?:, )?', '', ast.unparse(function.args))}){returns}"
