"""Show on an exercise's card what the check says to a common mistake, where a reader cannot try it on the page.

The report is made from the data that `check` uses: what the mistake gives on the public cases. The code of the mistake
is not shown, since it is nearly an answer.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from attnlab.check import material_of
from attnlab.checking.judge import Report, judge
from attnlab.checking.report import as_html

SAMPLE = '<details class="sample-report"><summary>What a check says to a common mistake</summary>{report}</details>'

LINK = re.compile(r'<a href="#[^"]*">([^<]*)</a>')


def sample(name: str, sections: Mapping[str, str]) -> str:
    """Return HTML of the report on the first mistake of an exercise that is named while something else is right.

    sections: title -> anchor, of the page that the report is on
    """
    material = material_of(name)
    for mistake in material["misconceptions"]:
        report = report_on(material, mistake)
        if any(finding.passed for finding in report.findings) and any(f.misconception for f in report.findings):
            # Nothing has just happened that a screen reader should announce.
            written = as_html(report, styled=False).replace(' role="status"', "", 1)
            return SAMPLE.format(report=LINK.sub(lambda link: linked(html.unescape(link[1]), sections), written))
    return ""


def linked(title: str, sections: Mapping[str, str]) -> str:
    """Return a link to a section of the page, or its title alone where the page has no such section."""
    words = html.escape(title)
    return f'<a href="#{sections[title]}">{words}</a>' if title in sections else words


def report_on(material, mistake) -> Report:
    """The report on an answer with a known mistake, whose outcomes are kept only where they differ from right ones."""
    outcomes = [
        [right if wrong is None else wrong for wrong, right in zip(given, prop["expected"], strict=True)]
        for given, prop in zip(mistake["outcomes"], material["properties"], strict=True)
    ]
    return judge(material, outcomes)
