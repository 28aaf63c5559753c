"""Link to other hosts, once `_config.yml` names them. These are plain links, so no host gets a request before a click.

    launch: {repository: OWNER/NAME, branch: main, folder: notebooks}

opens each chapter's published notebook on Colab and on Binder.

    report_errors: https://github.com/OWNER/NAME/issues/new     or     mailto:someone@example.org

is where the link at the end of each page leads. The page's title is filled in, as GitHub, Forgejo and mail programs
read it.
"""

from __future__ import annotations

import re
from html import escape
from urllib.parse import quote

from book import exercise_nodes
from book.errors import ConfigurationError

# What each setting of `launch` must look like, as a pattern and in words.
FORMS = {
    "repository": (r"[A-Za-z0-9](?:-?[A-Za-z0-9])*/(?!\.+$)[\w.-]+", "OWNER/NAME, as in GitHub's addresses"),
    "branch": (r"(?![/.-])(?!.*(?:\.\.|//|[/.]$))[\w./+-]+", "the name of a branch"),
    "folder": (r"(?!/)(?!.*(?:\.\.|//|/$))[\w. /-]*", "a folder of the published tree, with no slash at its ends"),
}
DEFAULT = {"repository": "", "branch": "main", "folder": "notebooks"}
_WEB = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[\w.~/%+-]*)?(?:\?[\w.~/%&=+-]*)?", re.ASCII)
_MAIL = re.compile(r"mailto:[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)


def check_settings(app, config) -> None:
    """Raise ConfigurationError if a setting cannot be used."""
    launch_settings(config.launch)
    report_address(config.report_errors)


def launch_settings(given: dict) -> dict[str, str]:
    """Complete and check the settings of `launch`. Raises ConfigurationError, which names the setting that is wrong."""
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


def notebook_addresses(stem: str, repository: str, branch: str, folder: str) -> dict[str, str]:
    """Return the address of a chapter's published notebook on each host."""
    path = f"{folder}/{stem}.ipynb".lstrip("/")
    return {
        "Colab": f"https://colab.research.google.com/github/{repository}/blob/{quote(branch)}/{quote(path)}",
        "Binder": f"https://mybinder.org/v2/gh/{repository}/{quote(branch, safe='')}"
        f"?urlpath={quote(f'lab/tree/{path}', safe='')}",
    }


def notebook_links(stem: str, launch: dict) -> str:
    """Return the links that open a chapter's notebook, as HTML; "" if no repository is configured."""
    chosen = launch_settings(launch)
    hosts = notebook_addresses(stem, **chosen) if chosen["repository"] else {}
    return " ".join(f'<a href="{escape(address)}" rel="noopener">Open in {host}</a>' for host, address in hosts.items())


def add_notebook_links(app, doctree, docname) -> None:
    """Put the links that open a chapter's notebook below its opening."""
    stem = exercise_nodes.chapter_of(docname)
    if app.builder.format == "html" and stem is not None and (links := notebook_links(stem, app.config.launch)):
        exercise_nodes.put_below_opening(doctree, f'<p class="chapter-launch">{links}</p>')


def report_address(given) -> str:
    """Return where errors are reported, or "" if the setting is empty. Raises ConfigurationError."""
    if given and not (isinstance(given, str) and (_WEB.fullmatch(given) or _MAIL.fullmatch(given))):
        raise ConfigurationError(
            "_config.yml: report_errors must be an address as https://github.com/OWNER/NAME/issues/new or "
            f"mailto:someone@example.org, not {given!r}"
        )
    return given or ""


def titled(address: str, title: str) -> str:
    """Fill the title of a page into the address where errors are reported."""
    key = "subject" if address.startswith("mailto:") else "title"
    return f"{address}{'&' if '?' in address else '?'}{key}={quote(f'Error on the page “{title}”', safe='')}"


def add_report_link(app, pagename, templatename, context, doctree) -> None:
    """Put a link to report an error at the end of a page."""
    address = report_address(app.config.report_errors)
    if address and doctree is not None and "body" in context:
        title = re.sub(r"<[^>]*>", "", context.get("title") or "")
        context["body"] += (
            f'<p class="report-error"><a href="{escape(titled(address, title))}" rel="noopener">'
            "Report an error on this page</a></p>"
        )


def setup(app) -> None:
    app.add_config_value("launch", DEFAULT, "html")
    app.add_config_value("report_errors", "", "html")
