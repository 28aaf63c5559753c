"""A link at the end of each page to report an error on it, once `_config.yml` says where.

    report_errors: https://github.com/OWNER/NAME/issues/new     or     mailto:someone@example.org

The page's title is filled in, as GitHub, Forgejo and mail programs read it. Without an address there is no link.
"""

from __future__ import annotations

import re
from html import escape
from urllib.parse import quote

from book.errors import ConfigurationError

_WEB = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[\w.~/%+-]*)?(?:\?[\w.~/%&=+-]*)?", re.ASCII)
_MAIL = re.compile(r"mailto:[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)


def checked(address) -> str:
    """The address, if it is one or is empty. Raises ConfigurationError."""
    if address and not (isinstance(address, str) and (_WEB.fullmatch(address) or _MAIL.fullmatch(address))):
        raise ConfigurationError(
            "_config.yml: report_errors must be an address as https://github.com/OWNER/NAME/issues/new or "
            f"mailto:someone@example.org, not {address!r}"
        )
    return address or ""


def link(address: str, title: str) -> str:
    """The address with the title of a page filled in."""
    key = "subject" if address.startswith("mailto:") else "title"
    return f"{address}{'&' if '?' in address else '?'}{key}={quote(f'Error on the page “{title}”', safe='')}"


def add_link(app, pagename, templatename, context, doctree) -> None:
    address = checked(app.config.report_errors)
    if address and doctree is not None and "body" in context:
        title = re.sub(r"<[^>]*>", "", context.get("title") or "")
        context["body"] += (
            f'<p class="report-error"><a href="{escape(link(address, title))}" rel="noopener">'
            "Report an error on this page</a></p>"
        )


def setup(app) -> None:
    app.add_config_value("report_errors", "", "html")
    app.connect("config-inited", lambda app, config: checked(config.report_errors) and None)
    app.connect("html-page-context", add_link, priority=450)  # before what a page needs is read from its text
