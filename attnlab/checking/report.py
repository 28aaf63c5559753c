"""A report as text, as HTML and as data: one line per property, and a helpful sentence for each that failed."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence

from attnlab.checking.judge import Finding, Report
from attnlab.checking.schema import ToldExercise, ToldFinding

WIDTH = 78

# Colors follow the page in JupyterLab, in the book and in plain HTML. Nothing here depends on color alone.
STYLE = """<style>
.attn-check{border:1px solid var(--jp-border-color1,var(--pst-color-border,#c9ced6));border-radius:8px;
padding:.6rem .9rem;margin:.3rem 0;max-width:46rem;font-size:.95em;line-height:1.45;
color:var(--jp-ui-font-color1,var(--pst-color-text-base,#1f2328));
background:var(--jp-layout-color1,var(--pst-color-background,#fff))}
.attn-check p{margin:.15rem 0}.attn-check ul{list-style:none;margin:.3rem 0 0;padding:0}
.attn-check li{margin:.25rem 0;padding:0 0 0 2.4rem;position:relative}
.attn-check li>b:first-child{position:absolute;left:0;font-family:monospace}
.attn-check li.ok>b:first-child{color:var(--pst-color-success,#1a7f37)}
.attn-check li.no>b:first-child{color:var(--pst-color-danger,#c2182b)}
.attn-check .why{margin:.1rem 0 .3rem;color:inherit}div.attn-check li pre{white-space:pre-wrap;margin:.2rem 0;
font-size:.9em;background:transparent!important;color:inherit;padding:0;border:0}
body[data-jp-theme-light="false"] .attn-check li.ok>b:first-child,
html[data-theme="dark"] .attn-check li.ok>b:first-child{color:#5fd38a}
body[data-jp-theme-light="false"] .attn-check li.no>b:first-child,
html[data-theme="dark"] .attn-check li.no>b:first-child{color:#ff8f8f}
</style>"""


def headline(report: Report) -> str:
    """`2 of 3 passed`, or that it is not done."""
    if report.not_done:
        return "not done yet"
    if not _judged(report):
        return "could not be checked"
    return f"{sum(f.passed for f in report.findings)} of {len(report.findings)} passed"


def opening(report: Report, graded: bool = False) -> str | None:
    """The sentence before the list, where there is something to say about the answer as a whole.

    graded: whether this is what was handed in, so that there is nothing left to try
    """
    if report.not_done and graded:
        return f"Nothing was written here, so it earns 0 of {report.max_points:g} points."
    if report.not_done:
        return (
            "Not done yet, and that is fine. Replace `raise NotImplementedError` above with your code, "
            "run that cell, then run this one again."
        )
    sentences = []
    if report.through:
        *most, last = [f"`{name}`" for name in report.through]
        earlier, are = (f"{', '.join(most)} and {last}", "are") if most else (last, "is")
        sentences.append(
            f"`{report.exercise}` builds on {earlier}, which {are} not right yet. With a right {earlier} it earns "
            f"{report.points:g} of {report.max_points:g} points, and that is what counts."
            + (" The lines that fail below are its own." if report.points < report.max_points else "")
        )
    if report.reason:
        end = "" if report.reason.endswith((".", "?")) else "."
        sentences.append(report.reason[0].upper() + report.reason[1:] + end)
    return " ".join(sentences) or None


def _judged(report: Report) -> bool:
    """Whether the properties say anything, which they do not if the answer never ran."""
    return not report.not_done and (report.reason is None or any(f.passed or f.kind for f in report.findings))


def as_text(report: Report, graded: bool = False) -> str:
    """The report as plain text, at most WIDTH columns wide. graded: see `opening`"""
    head = headline(report)
    lines = [f"{report.exercise:<{WIDTH - len(head) - 2}}  {head}"]
    if said := opening(report, graded):
        lines += textwrap.wrap(said, WIDTH - 2, initial_indent="  ", subsequent_indent="  ")
    for finding, title, why, evidence in notes(report):
        mark = "ok" if finding.passed else "no"
        lines += textwrap.wrap(title, WIDTH, initial_indent=f" {mark}   ", subsequent_indent=" " * 6)
        for sentence in why:
            lines += textwrap.wrap(sentence, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
        if why and finding.misconception and finding.section:
            lines.append(f'      See "{finding.section}".')
        lines += [f"      {line}" for line in evidence]
    return "\n".join(lines)


def as_data(report: Report, notices: Sequence[str] = ()) -> ToldExercise:
    """The report as data for other programs. notices: sentences about the answer as a whole, which come first"""
    findings: list[ToldFinding] = []
    for finding, title, why, evidence in notes(report):
        remark = title.removeprefix(finding.title).strip(" ()")  # "the same mistake", where a reason is not repeated
        sentence = " ".join(why) or (f"{remark[0].upper()}{remark[1:]}." if remark else "")
        section = finding.section if why and finding.misconception else None
        findings.append(
            ToldFinding(
                title=finding.title, passed=finding.passed, sentence=sentence, section=section, example=evidence
            )
        )
    return ToldExercise(
        name=report.exercise,
        passed=report.passed,
        judged=_judged(report),
        bonus=report.bonus,
        points=report.points,
        max_points=report.max_points,
        sentence=" ".join(filter(None, [*notices, opening(report)])),
        findings=findings,
    )


def notes(report: Report):
    """Each finding with its title, and the sentences and lines of numbers below it.

    One small example is enough: the input that fails is shown for the first failure that no misconception explains,
    and of results that are only numbers the first alone is told. A sentence (an exception that is raised everywhere, a
    missing `return`) is not repeated.
    """
    told, owed, shown, any_passed = set(), set(), False, any(finding.passed for finding in report.findings)
    numbers_told = False
    for finding in report.findings if _judged(report) else []:
        if finding.passed:
            yield finding, finding.title, [], []
            continue
        said, *lines = (finding.misconception or finding.detail).split("\n")
        sentence = finding.fact or finding.place or said
        again = sentence in told
        numbers = finding.kind == "value" and not (finding.misconception or finding.observed)
        if again or numbers and not finding.fact and numbers_told:
            what = "the same mistake" if again else "other numbers"
            more = _kept(finding) or "paid for here" * (sentence in owed)
            yield finding, f"{finding.title} ({', '.join(filter(None, [what, more]))})", [], []
            continue
        told.add(sentence)
        if finding.follows:
            owed.add(sentence)
        numbers_told = numbers_told or numbers
        # A hint on how to get the numbers right does not help if there were no numbers at all.
        astray = finding.kind in {"none", "type", "dtype", "refused"} or finding.kind == "error" and not any_passed
        hint = [f"Hint: {finding.hint}"] if finding.hint and not finding.misconception and not astray else []
        kept = [f"Paid for in {_payer(report.findings, finding)}: {_kept(finding)}."] if _kept(finding) else []
        yield finding, finding.title, [part for part in (finding.fact, said, *hint, *kept) if part], lines * (not shown)
        shown = shown or bool(lines)


def _payer(findings: list[Finding], finding: Finding) -> str:
    """Where the line is that has paid for a mistake, as seen from one that has not."""
    place = next(i for i, each in enumerate(findings) if each is finding)
    paid = [
        i
        for i, each in enumerate(findings)
        if not each.passed
        and not each.follows
        and (each.misconception, each.fact) == (finding.misconception, finding.fact)
    ]
    return "another line" if len(paid) != 1 else "a line below" if paid[0] > place else "a line above"


def _kept(finding: Finding) -> str:
    """The points that a failure keeps, because another line has paid for the mistake."""
    if not finding.follows or finding.points == 0:
        return ""
    if finding.points == finding.max_points:
        return "no point lost here"
    return f"{finding.points:g} of {finding.max_points:g} points kept"


def as_html(report: Report, graded: bool = False, styled: bool = True) -> str:
    """The report as a piece of HTML. Everything that came from a student is escaped.

    styled: whether its style comes with it, so that it needs nothing else
    """
    esc = html.escape
    parts = [
        STYLE if styled else "",
        '<div class="attn-check" role="status">',
        f"<p><b>{esc(report.exercise)}</b>: {esc(headline(report))}</p>",
    ]
    if said := opening(report, graded):
        parts.append(f"<p>{code_in(esc(said))}</p>")
    if _judged(report):
        parts.append("<ul>")
        for finding, title, why, evidence in notes(report):
            mark = "ok" if finding.passed else "no"
            parts.append(f'<li class="{mark}"><b>{mark}</b> {code_in(esc(title))}')
            link = ""
            if finding.misconception and finding.section:
                anchor = finding.section.replace(" ", "-")
                link = f' See <a href="#{esc(anchor)}">{esc(finding.section)}</a>.'
            parts += [
                f'<p class="why">{code_in(esc(sentence))}{link if i == 0 else ""}</p>' for i, sentence in enumerate(why)
            ]
            if evidence:
                parts.append(f"<pre>{esc(chr(10).join(evidence))}</pre>")
            parts.append("</li>")
        parts.append("</ul>")
    return "".join(parts) + "</div>"


def code_in(escaped: str) -> str:
    """`x` in back quotes becomes code, in text that is already escaped."""
    pieces = escaped.split("`")
    if len(pieces) % 2 == 0:
        return escaped
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))
