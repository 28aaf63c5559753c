"""Links that open a chapter's notebook on Colab and on Binder, once `_config.yml` says where it is published.

    launch: {repository: OWNER/NAME, branch: main, folder: notebooks}

Without a repository there are no links. They are plain links, so these hosts get no request before a click.
"""

from __future__ import annotations

import re
from html import escape
from urllib.parse import quote

from book import check_cells
from book.errors import ConfigurationError

# What each setting must look like, as a pattern and in words.
FORMS = {
    "repository": (r"[A-Za-z0-9](?:-?[A-Za-z0-9])*/(?!\.+$)[\w.-]+", "OWNER/NAME, as in GitHub's addresses"),
    "branch": (r"(?![/.-])(?!.*(?:\.\.|//|[/.]$))[\w./+-]+", "the name of a branch"),
    "folder": (r"(?!/)(?!.*(?:\.\.|//|/$))[\w. /-]*", "a folder of the published tree, with no slash at its ends"),
}
DEFAULT = {"repository": "", "branch": "main", "folder": "notebooks"}


def settings(given: dict) -> dict[str, str]:
    """All settings, checked. Raises ConfigurationError, which names the setting that is wrong."""
    unknown = sorted(set(given) - set(DEFAULT)) if isinstance(given, dict) else ["?"]
    if unknown:
        raise ConfigurationError(f"_config.yml: `launch` has {', '.join(DEFAULT)}, and no {unknown[0]!r}")
    chosen = {**DEFAULT, **given}
    for name, (form, words) in FORMS.items():
        if name == "repository" and not chosen[name]:
            continue
        if not isinstance(chosen[name], str) or not re.fullmatch(form, chosen[name], re.ASCII):
            raise ConfigurationError(f"_config.yml: launch.{name} must be {words}, not {chosen[name]!r}")
    return chosen


def links(stem: str, repository: str, branch: str, folder: str) -> dict[str, str]:
    """The address of a chapter's published notebook on each host."""
    path = f"{folder}/{stem}.ipynb".lstrip("/")
    return {
        "Colab": f"https://colab.research.google.com/github/{repository}/blob/{quote(branch)}/{quote(path)}",
        "Binder": f"https://mybinder.org/v2/gh/{repository}/{quote(branch, safe='')}"
        f"?urlpath={quote(f'lab/tree/{path}', safe='')}",
    }


def add_links(app, doctree, docname) -> None:
    stem, chosen = check_cells.chapter_of(docname), settings(app.config.launch)
    if app.builder.format != "html" or stem is None or not chosen["repository"]:
        return
    written = " ".join(
        f'<a href="{escape(address)}" rel="noopener">Open in {host}</a>'
        for host, address in links(stem, **chosen).items()
    )
    check_cells.put_below_title(doctree, f'<p class="chapter-launch">{written}</p>')


def setup(app) -> None:
    app.add_config_value("launch", DEFAULT, "html")
    app.connect("config-inited", lambda app, config: settings(config.launch))
    app.connect("doctree-resolved", add_links, priority=300)  # before the link to the download, which goes above them
