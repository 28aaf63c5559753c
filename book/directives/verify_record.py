"""Let a reader verify the signed record of a student's work, in the browser.

    :::{verify-record}
    :::

`assets/record.js` verifies it. `record_keys` in `_config.yml` lists the public keys of the courses that this site
vouches for; a record of another key is named as such.
"""

from __future__ import annotations

from html import escape

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class verify_record(nodes.General, nodes.Element):  # noqa: N801  (docutils names nodes in lower case)
    pass


class VerifyRecord(SphinxDirective):
    """Show a field for the file, and what it says."""

    def run(self):
        return [verify_record("", keys=list(self.config.record_keys))]


def visit(self, node) -> None:
    keys = escape(" ".join(node["keys"]))
    self.body.append(
        f'<div class="verify-record pst-js-only" data-keys="{keys}"><label>A record: '
        '<input type="file" accept=".json,application/json"></label><p role="status"></p><table hidden></table></div>\n'
    )


def depart(self, node) -> None:
    pass


def add_files(app, pagename, templatename, context, doctree) -> None:
    """Load the script on the page that has the field."""
    if doctree is not None and next(doctree.findall(verify_record), None) is not None:
        app.add_js_file("record.js", defer="defer")


def setup(app) -> None:
    app.add_config_value("record_keys", [], "html")
    app.add_node(verify_record, html=(visit, depart))
    app.add_directive("verify-record", VerifyRecord)
