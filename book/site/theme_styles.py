"""Drop from the style sheets of the theme and of extensions the rules for classes that the site does not have.

They are written for every kind of site, and a browser draws nothing before it has read them. A rule stays if all
classes that it asks for are words of some page or script. What it excludes with `:not()` or lists in `:is()` does not
count.
"""

from __future__ import annotations

import re
from pathlib import Path

import tinycss2
from tinycss2.ast import AtRule, IdentToken, LiteralToken, Node, QualifiedRule

SHEETS = ("styles/*.css", "sphinx-design.min.css", "mystnb.*.css")
COMPOSED = {"bs-tooltip-auto"}  # Bootstrap's script puts this name together, from that of its class
NESTED = {"media", "supports", "container", "layer"}


def drop_unused(app, exception) -> None:
    """Write the style sheets without these rules. All pages and scripts must be there."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    texts = (path.read_text("utf-8", "replace") for kind in ("*.html", "*.js") for path in out.rglob(kind))
    words = COMPOSED.union(*(re.findall(r"[\w-]+", text) for text in texts))
    for sheet in (path for pattern in SHEETS for path in (out / "_static").glob(pattern)):
        rules = tinycss2.parse_stylesheet(sheet.read_text("utf-8"), skip_comments=True, skip_whitespace=True)
        sheet.write_text(tinycss2.serialize(used(rules, words)), "utf-8")


def used(rules: list, words: set[str]) -> list:
    """Return the rules that may match something, without selectors that do not."""
    kept = []
    for rule in rules:
        if isinstance(rule, QualifiedRule):
            selectors = [one for one in split(rule.prelude) if classes(one) <= words]
            if not selectors:
                continue
            comma = LiteralToken(rule.source_line, rule.source_column, ",")
            prelude: list[Node] = [token for one in selectors for token in (*one, comma)]
            rule.prelude = prelude[:-1]
        elif isinstance(rule, AtRule) and rule.lower_at_keyword in NESTED and rule.content is not None:
            rule.content = used(tinycss2.parse_rule_list(rule.content, True, True), words)
            if not rule.content:
                continue
        kept.append(rule)
    return kept


def split(prelude: list) -> list[list]:
    """Return the selectors of a rule, as lists of tokens."""
    selectors: list[list] = [[]]
    for token in prelude:
        if token == ",":
            selectors.append([])
        else:
            selectors[-1].append(token)
    return selectors


def classes(selector: list) -> set[str]:
    """Return the classes that an element must have, or be in, to match."""
    return {name.value for dot, name in zip(selector, selector[1:]) if dot == "." and isinstance(name, IdentToken)}
