"""Show on an exercise's card what the check says to a common mistake, where a reader cannot try it on the page.

The report is made from the data that `check` uses: what the mistake gives on the public cases. The code of the mistake
is not shown, since it is nearly an answer.
"""

from __future__ import annotations

from attnlab.check import material_of
from attnlab.checking.judge import Report, judge
from attnlab.checking.report import as_html

SAMPLE = '<details class="sample-report"><summary>What a check says to a common mistake</summary>{report}</details>'


def sample(name: str) -> str:
    """Return HTML of the report on the first mistake of an exercise that is named while something else is right."""
    material = material_of(name)
    for mistake in material["misconceptions"]:
        report = report_on(material, mistake)
        if any(finding.passed for finding in report.findings) and any(f.misconception for f in report.findings):
            # Nothing has just happened that a screen reader should announce.
            return SAMPLE.format(report=as_html(report, styled=False).replace(' role="status"', "", 1))
    return ""


def report_on(material, mistake) -> Report:
    """The report on an answer with a known mistake, whose outcomes are kept only where they differ from right ones."""
    outcomes = [
        [right if wrong is None else wrong for wrong, right in zip(given, prop["expected"], strict=True)]
        for given, prop in zip(mistake["outcomes"], material["properties"], strict=True)
    ]
    return judge(material, outcomes)
