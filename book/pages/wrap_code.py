"""Wrap long lines of code on a narrow screen, with a hanging indent: each such line becomes an element."""

from __future__ import annotations

import html
import re

LONGEST = 34  # letters that a phone shows in a row
BLOCK = re.compile(
    r'(<div class="highlight-(?!text|none|default)[\w+-]+ notranslate"><div class="highlight"><pre>(?:<span></span>)?)'
    r"(.*?)(</pre>)",
    re.DOTALL,
)


def hang(body: str) -> str:
    """Put each long line of code in a page's body into a separate element."""
    return BLOCK.sub(lambda found: found[1] + "".join(map(_line, found[2].splitlines(keepends=True))) + found[3], body)


def _line(line: str) -> str:
    text = html.unescape(re.sub(r"<[^>]*>", "", line)).rstrip()
    if len(text) <= LONGEST or line.count("<span") != line.count("</span>"):
        return line
    indent = len(text) - len(text.lstrip())
    style = f' style="--indent:{indent}"' if indent else ""
    return f'<span class="code-line"{style}>{line}</span>'


def hang_lines(app, pagename, templatename, context, doctree) -> None:
    """Wrap the long lines of a page's code."""
    if "body" in context:
        context["body"] = hang(context["body"])
