"""Tell browsers, search engines and previews of shared links what a page is about.

Its addresses are absolute, or left out: they need `html: baseurl:` in `_config.yml`.
"""

from __future__ import annotations

import re
import shutil
from html import escape
from pathlib import Path

from docutils import nodes

from book.errors import ConfigurationError
from course import catalog
from course.folder import ROOT

PICTURE = "preview.png"  # drawn by scripts/draw_preview.py
SHARED = "book/images/share"  # pictures of single pages, taken by scripts/take_screenshot.py
PICTURE_SIZE = (1200, 630)
PICTURE_TEXT = (
    "Seven words, and lines from one to those that it reads in a head of SmolLM2-135M, one of 270 squares beside them"
)
COLORS = {"light": "#ffffff", "dark": "#14181e"}
LONGEST = 200  # characters of a description


def check_address(app, config) -> None:
    """Raise ConfigurationError if the site's address cannot be used."""
    base_url(config)


def base_url(config) -> str:
    """Return the site's address with a slash at its end, or "" if it is not configured. Raises ConfigurationError."""
    address = config.html_baseurl
    if address and not re.fullmatch(r"https?://[\w.-]+(?::\d+)?(?:/[\w.~/-]*)?", address):
        raise ConfigurationError(
            f"_config.yml: html.baseurl must be an address as https://example.org/attention/, not {address!r}"
        )
    return address and address.rstrip("/") + "/"


def shared_pages() -> list[str]:
    """List the pages that have a picture of their own: the chapters, and the pages of `play` but for its list."""
    played = sorted(path.stem for path in (ROOT / "play").glob("*.md") if path.stem != "index")
    return [f"chapters/{stem}" for stem in catalog.chapters()] + [f"play/{stem}" for stem in played]


def picture_of(app, pagename: str) -> str:
    """Return the file name of a page's picture, below `_static`: its own, or that of the first page."""
    own = f"{pagename.rpartition('/')[2]}.png"
    return f"share/{own}" if "/" in pagename and Path(app.srcdir, SHARED, own).is_file() else PICTURE


def description(doctree) -> str:
    """Return the first paragraphs without formulas, at most LONGEST characters, cut at the end of a word."""
    text = ""
    for paragraph in doctree.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section) and not list(paragraph.findall(nodes.math)):
            text = f"{text} {' '.join(paragraph.astext().split())}".strip()
            if len(text) >= 60:
                break
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rsplit(" ", 1)[0].rstrip(",.;:") + "…"


def name_first_page(app, pagename, templatename, context, doctree) -> None:
    """Give the window of the first page a title that says more than the name of the book twice."""
    if pagename == app.config.root_doc == "index" and app.config.first_title:  # a draft begins with its chapter
        context["theme_logo"] = {**context.get("theme_logo", {}), "text": context["docstitle"]}
        context["title"], context["docstitle"] = app.config.first_title, ""


def add_tags(app, pagename, templatename, context, doctree) -> None:
    """Put the tags that describe a page into its head."""
    base, book = base_url(app.config), app.config.html_title or app.config.project
    title = re.sub(r"<[^>]*>", "", context.get("title") or book)
    about = description(doctree) if doctree is not None else ""
    tags = {
        "og:title": title,
        "og:site_name": book,
        "og:type": "website" if doctree is None or pagename == app.config.root_doc else "article",
        "og:locale": "en_US",
        "og:description": about,
    }
    names = {
        "description": "" if 'name="description"' in context.get("metatags", "") else about,
        "twitter:card": "summary_large_image" if base else "summary",
    }
    if base:
        width, height = PICTURE_SIZE
        picture = picture_of(app, pagename)
        tags |= {
            "og:url": base + app.builder.get_target_uri(pagename),
            "og:image": f"{base}_static/{picture}",
            "og:image:width": str(width),
            "og:image:height": str(height),
            "og:image:alt": PICTURE_TEXT if picture == PICTURE else f"“{title}”, beside a picture from the page",
        }
    written = [f'<meta property="{key}" content="{escape(text)}"/>' for key, text in tags.items() if text]
    written += [f'<meta name="{key}" content="{escape(text)}"/>' for key, text in names.items() if text]
    written += [
        f'<meta name="theme-color" media="(prefers-color-scheme: {scheme})" content="{color}"/>'
        for scheme, color in COLORS.items()
    ]
    own = re.sub(r'<meta [^>]*name="viewport"[^>]*>', "", context.get("metatags", ""))  # the page's head has one
    context["metatags"] = "\n    ".join([own, *written])


def copy_pictures(app, exception) -> None:
    """Copy the pictures of previews into the site, if the site has an address: previews need an absolute one."""
    if not exception and app.builder.format == "html" and base_url(app.config):
        shutil.copy(Path(app.srcdir, "book", "images", PICTURE), Path(app.outdir, "_static", PICTURE))
        if (own := Path(app.srcdir, SHARED)).is_dir():
            shutil.copytree(own, Path(app.outdir, "_static", "share"), dirs_exist_ok=True)


def setup(app) -> None:
    app.add_config_value("first_title", "", "html")
