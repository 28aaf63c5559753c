"""Search the book by section: Pagefind indexes the built pages, and the search page uses its index.

Each section of a page is a record of its own, with its title and its text: without menus, code, outputs, hints,
answers to guesses and quizzes. Beside the index is `names.json`: terms and exercises, which come first where they match
by name, and the words that a mistyped one may have meant. `assets/search.js` asks both, over http. From the file
system, where no page may fetch anything, it loads Sphinx's own search, and so it does where the folder is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pagefind_bin
from bs4 import BeautifulSoup
from sphinx.util import logging

from course import catalog

FOLDER = "pagefind"
# What Pagefind writes for interfaces that we do not use.
KEPT = re.compile(r"pagefind\.js|pagefind-entry\.json|wasm\.[a-z]+\.pagefind|.*\.pf_(meta|index|fragment)")
LEFT_OUT = (
    "script, style, noscript, svg, nav, .headerlink, .hero, div.cell, fieldset.quiz, details, "
    "p.effort, label.exercise-done, .chapter-download, .chapter-bundle, .chapter-launch, "
    ".chapter-progress, .progress-forget, .solution-link, .report-error, div.citation, table.indextable"
)
HEADINGS = re.compile("^h[1-6]$")
BLOCKS = ["p", "li", "dt", "dd", "td", "th", "div", "section", HEADINGS]
REPEATS = {"Summary", "Check yourself", "Written question", "Further reading"}  # say again what another section says
TEX = (
    (r"\\(?:text|mathrm|operatorname|mathbf|mathbb)\{([^{}]*)\}", r"\1"),
    (r"\\d?frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2"),
    (r"\\sqrt\{?([^{}\s]*)\}?", r"sqrt(\1)"),
    (r"\\(?:left|right|,|;|!|quad)\b|\\[,;! ]", " "),
    (r"\\([a-zA-Z]+)", r"\1"),
    (r"[{}]", ""),
)


@dataclass
class Record:
    """Hold what a search may find. kind: "section", "term" or "exercise"."""

    place: str  # the address, from the top of the site
    title: str
    page: str
    text: str
    kind: str = "section"


def records(page: str, address: str, exercises: Collection[str] = ()) -> Iterator[Record]:
    """Yield the sections, terms and exercises of a built page. exercises: the names that may be there."""
    begin, end = page.find("<article"), page.rfind("</article>")  # what is around it takes longer to read
    article = BeautifulSoup(page[begin:end], "html.parser").find("article") if 0 <= begin < end else None
    if article is None or article.h1 is None:
        return
    whole, stubs = heading(article.h1), {}
    for place in article.select("[id^=exercise-]"):
        name, stub = place["id"].removeprefix("exercise-"), place.find_next("pre")
        described = re.search(r'"""(.+?)(?:\n|""")', stub.get_text()) if stub and name in exercises else None
        if described:
            text = described[1].strip()
            stubs.setdefault(place.find_parent("section").get("id"), []).append(f"{name}: {text}")
            yield Record(f"{address}#{place['id']}", name, whole, text, "exercise")
    for unwanted in article.select(LEFT_OUT):
        unwanted.decompose()
    for formula in article.find_all("math"):
        formula.replace_with(plain(formula.get("alttext", "")))
    for block in article.find_all(BLOCKS):
        block.append("\n")
    for term in article.select("dl.glossary > dt[id]"):
        yield Record(f"{address}#{term['id']}", heading(term), whole, words(term.find_next_sibling("dd")), "term")
    for glossary in article.select("dl.glossary"):
        glossary.decompose()
    for section in reversed(article.find_all("section", id=True)):  # the innermost first
        title, name = section.find(HEADINGS), section["id"]
        section.extract()
        if title is None:
            continue
        own, top = heading(title), title.name == "h1"
        title.extract()
        text = " ".join([words(section), *stubs.get(name, [])]).strip()
        if text or own not in REPEATS:
            yield Record(address if top else f"{address}#{name}", own, "" if top else whole, text or own)


def heading(node) -> str:
    for extra in node.select(".headerlink, .section-number"):
        extra.extract()
    return words(node)


def words(node) -> str:
    return " ".join(node.get_text().split()) if node else ""


def plain(latex: str) -> str:
    """Write a formula in letters, as a reader may type it and can read it in an excerpt."""
    for pattern, replacement in TEX:
        latex = re.sub(pattern, replacement, latex)
    return " ".join(latex.split())


def virtual_page(record: Record) -> str:
    """Write a record as a page for Pagefind: title, page and place are data, the text alone gives excerpts."""
    weight = 0.3 if record.title in REPEATS else 1
    return (
        '<!DOCTYPE html><html lang="en"><body data-pagefind-body><div data-pagefind-ignore>'
        f'<h1 data-pagefind-meta="title">{escape(record.title)}</h1>'
        f'<p data-pagefind-meta="page">{escape(record.page)}</p>'
        f'<p data-pagefind-meta="place">{escape(record.place)}</p></div>'
        f'<p data-pagefind-weight="{weight}">{escape(record.text, quote=False)}</p></body></html>'
    )


def names(found: list[Record]) -> dict:
    """Collect terms and exercises with their texts, the words that corrections are taken from, and all words."""
    split = re.compile(r"[^\W\d_]{2,}")

    def lowered(*texts):
        return {word for text in texts for word in split.findall(text.lower())}

    named = [record for record in found if record.kind != "section"]
    titles = lowered(*(record.title for record in found))
    return {
        "names": [[record.kind, record.title, record.page, record.place, record.text] for record in named],
        "titles": sorted(word for word in titles if len(word) > 3),
        "words": sorted(lowered(*(f"{record.title} {record.text}" for record in found))),
    }


def write(found: list[Record], folder: Path) -> None:
    """Write the index of these records into a folder, in place of an earlier one. Raises CalledProcessError.

    The same records give the same files.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        pages, bundle = Path(scratch, "pages"), Path(scratch, "bundle")
        pages.mkdir()
        for number, record in enumerate(record for record in found if record.kind == "section"):
            (pages / f"{number:05d}.html").write_text(virtual_page(record), "utf-8")
        subprocess.run(
            [pagefind_bin.get_executable(), "--site", str(pages), "--output-path", str(bundle), "--quiet"],
            cwd=scratch,
            check=True,
            capture_output=True,
            text=True,
        )
        for path in sorted(bundle.rglob("*")):
            if path.is_file() and KEPT.fullmatch(path.name):
                target = folder / path.relative_to(bundle)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    (folder / "names.json").write_text(json.dumps(names(found), ensure_ascii=False, separators=(",", ":")), "utf-8")


def index_site(app, exception) -> None:
    """Index the built pages."""
    if exception or app.builder.format != "html":
        return
    found, exercises = [], catalog.all_exercises()
    for document in sorted(app.env.found_docs):
        address = app.builder.get_target_uri(document)
        found += records(Path(app.outdir, address).read_text("utf-8"), address, exercises)
    try:
        write(found, Path(app.outdir, FOLDER))
    except subprocess.CalledProcessError as error:
        logging.getLogger(__name__).warning("Pagefind made no index: %s", error.stderr.strip(), type="book")


def add_files(app, pagename, templatename, context, doctree) -> None:
    """Load the search's script and style on the search page."""
    if pagename == "search":
        app.add_js_file("search.js", defer="defer")
        app.add_css_file("search.css")
