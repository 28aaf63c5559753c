"""A class report as one HTML page that stands alone: no script, nothing from another host, light and dark.

Every text is escaped. The plots are inline SVG, drawn by Matplotlib; each has its numbers in a table beside it.
"""

from __future__ import annotations

import html
import io
import math
import re
import statistics
import textwrap
import warnings
from collections.abc import Iterable, Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from autograder.reports.model import NOT_HANDED_IN, ClassReport, points, printable
from autograder.reports.text import heading, lateness, outcome, shown, some, summary, total

INK, SOFT, BAR = "#010101", "#020202", "#030303"  # stand for colours that the page decides
VARIABLES = {INK: "var(--ink)", SOFT: "var(--soft)", BAR: "var(--bar)"}
WIDTH = 4.0  # inches; at most as wide as a telephone, so that letters keep their size there
LETTERS = 52  # of a label, on one line of a plot
MOST = 10  # misconceptions in the plot; the table has all

STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1f2328;--mute:#59636e;--line:#d1d9e0;--soft:#e4e9ee;--bar:#2f6fb0;
--head:#f3f6f9}
@media (prefers-color-scheme:dark){:root{--page:#14181d;--ink:#e6edf3;--mute:#9aa7b4;--line:#3a434d;--soft:#2b333c;
--bar:#6aaaf0;--head:#1d242c}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:70rem;background:var(--page);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.2rem 0 .3rem}
p,ul{margin:.3rem 0}ul{padding-left:1.2rem}
.scroll{overflow-x:auto;margin:.5rem 0}.scroll:focus-visible{outline:2px solid var(--bar);outline-offset:2px}
table{border-collapse:collapse;font-size:.92rem;overflow-wrap:break-word}
caption{text-align:left;color:var(--mute);padding:.2rem 0}
caption span{position:sticky;left:0;display:inline-block;max-width:min(44rem,100vw - 2.5rem)}
th,td{border-bottom:1px solid var(--line);padding:.25rem .6rem;text-align:left;vertical-align:top}
thead th{background:var(--head)}
th.number,td.number{text-align:right;font-variant-numeric:tabular-nums}
th:first-child{position:sticky;left:0;max-width:13rem;background:var(--page)}
thead th:first-child{background:var(--head)}
tbody th{font-weight:600}
td.long{min-width:15rem}tbody td.number{min-width:4.5rem}
.side{display:grid;grid-template-columns:minmax(0,1fr);gap:0 2rem;align-items:start}
@media (min-width:60rem){.side{grid-template-columns:24rem minmax(0,1fr)}th:first-child{max-width:26rem}}
figure{margin:.5rem 0}svg{display:block;width:100%;max-width:24rem;height:auto}
svg text{font-family:system-ui,-apple-system,"Segoe UI",sans-serif!important}
.mute{color:var(--mute)}code{font-size:.95em}
@media print{.scroll{overflow:visible}body{max-width:none}}
"""


def as_html(report: ClassReport) -> str:
    """The whole page."""
    title = f"{printable(report.assignment)}: class report"
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Should a text ever get through as markup: it could still load and run nothing.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_esc(title)}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        f"<h1>{_esc(title)}</h1>",
        *(f"<p>{_esc(line)}</p>" for line in summary(report)),
        *_totals(report),
        *_scores(report),
        *_properties(report),
        *_misconceptions(report),
        *_lists("For review", "Flags and notes for a human. None of them changed a score.", report, "review"),
        *_lists("Could not be graded", "What counts as zero or stands as it was before, and why.", report, "problems"),
        *_times(report),
        *_waiting(report),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


# Sections


def _totals(report: ClassReport) -> Iterable[str]:
    totals = [student.total for student in report.graded()]
    top = max(report.max_score, *totals, 1.0)
    step = next(step for k in range(99) for step in (10**k, 2 * 10**k, 5 * 10**k) if top / step <= 10)
    bins = math.ceil(top / step)
    edges = [step * i for i in range(bins + 1)]
    counts = [0] * bins
    for value in totals:
        counts[min(bins - 1, int(value / step))] += 1  # the last one has its upper end
    words = "; ".join(
        f"{a} to {'under ' if b < edges[-1] else ''}{b}: {count}"
        for a, b, count in zip(edges, edges[1:], counts)
        if count
    )
    yield "<h2>Distribution of totals</h2>"
    yield from _figure("totals", histogram(edges, counts), f"Students by total, in points. {words}.")
    yield f'<p class="mute">Students by total. {_esc(words)}.</p>'


def _scores(report: ClassReport) -> Iterable[str]:
    head = [
        "Student",
        f"Total ({points(report.max_score)})",
        *(heading(report, e) for e in report.exercises),
        "Late",
        "Penalty",
    ]
    body = [
        [
            student.name,
            total(student),
            *(shown(student, exercise) for exercise in report.exercises),
            lateness(student).replace(" ", "\N{NO-BREAK SPACE}"),
            f"−{points(student.penalty())}" if student.penalty() else "",
        ]
        for student in report.students
    ]
    yield "<h2>Scores</h2>"
    yield from _table(
        "Points by student and exercise, and how many can be had. A question mark: waits for a human.",
        head,
        body,
        numbers=range(1, len(head)),
    )


def _properties(report: ClassReport) -> Iterable[str]:
    yield "<h2>What holds, by exercise</h2>"
    for number, exercise in enumerate(report.exercises):
        counts = report.properties(exercise)
        if not counts:
            continue
        bars = [(title, had / asked, f"{had} of {asked}") for title, (had, asked) in counts.items()]
        yield f"<h3>{_esc(exercise.name)}</h3>"
        yield '<div class="side">'
        yield from _figure(
            f"exercise{number}",
            bar_chart(bars),
            f"Share of the answers to {exercise.name} that have each property; the numbers are in the table.",
        )
        yield "<div>"
        yield from _table(
            f"{outcome(report, exercise)}.",
            ["Property", "Passed", "Of"],
            [[title, str(had), str(asked)] for title, (had, asked) in counts.items()],
            numbers=(1, 2),
        )
        yield "</div></div>"


def _misconceptions(report: ClassReport) -> Iterable[str]:
    found = report.misconceptions()
    yield "<h2>Misconceptions</h2>"
    if not found:
        yield "<p>None was recognised.</p>"
        return
    most = len(found[0][2])
    bars = [
        (f"{exercise.name}: {text}", len(students) / most, str(len(students)))
        for exercise, text, students in found[:MOST]
    ]
    yield '<div class="side">'
    yield from _figure(
        "misconceptions", bar_chart(bars), "Students by misconception, the most frequent first; all are in the table."
    )
    yield "<div>"
    yield from _table(
        "Misconceptions, the most frequent first, and who has them.",
        ["Exercise", "Misconception", "Students", "Who"],
        [
            [exercise.name, text, str(len(students)), ", ".join(s.name for s in students)]
            for exercise, text, students in found
        ],
        numbers=(2,),
        long=(1,),
    )
    yield "</div></div>"


def _lists(title: str, words: str, report: ClassReport, what: str) -> Iterable[str]:
    yield f"<h2>{title}</h2>"
    students = [student for student in report.students if getattr(student, what)]
    if not students:
        yield "<p>Nothing.</p>"
        return
    yield f'<p class="mute">{words}</p>'
    for student in students:
        yield f"<h3>{_esc(student.name)}</h3>"
        yield "<ul>" + "".join(f"<li>{_code(text)}</li>" for text in some(getattr(student, what))) + "</ul>"


def _times(report: ClassReport) -> Iterable[str]:
    times = report.times()
    if times:
        median = statistics.median(seconds for seconds, _ in times)
        yield "<h2>Time to grade</h2>"
        yield from _table(
            f"The slowest first. Median {median:.1f} s.",
            ["Student", "Seconds"],
            [[student.name, f"{seconds:.1f}"] for seconds, student in times],
            numbers=(1,),
        )


def _waiting(report: ClassReport) -> Iterable[str]:
    missing = [student for student in report.students if student.status == NOT_HANDED_IN]
    lists = [("Not handed in", [", ".join(s.name for s in missing) + "."] if missing else [])]
    for title, kinds in (("Written answers to grade", ("written", "task")), ("Scores to confirm", ("code", "bonus"))):
        lists.append(
            (
                title,
                [
                    f"{exercise.name}, {len(students)}: {', '.join(s.name for s in students)}."
                    for exercise, students in report.to_grade(kinds)
                ],
            )
        )
    for title, lines in lists:
        yield f"<h2>{title}</h2>"
        yield from (f"<p>{_esc(line)}</p>" for line in lines or ["Nobody." if title == "Not handed in" else "None."])


# Pieces


def _esc(text: str) -> str:
    return html.escape(text)


def _code(text: str) -> str:
    """Escaped, with what stands in back quotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _esc(text))


def _table(
    caption: str,
    head: Sequence[str],
    body: Sequence[Sequence[str]],
    numbers: Iterable[int] = (),
    long: Iterable[int] = (),
) -> Iterable[str]:
    """A table whose first column names the rows. It scrolls by itself, by keyboard too, where it is too wide."""
    kind = {**dict.fromkeys(numbers, ' class="number"'), **dict.fromkeys(long, ' class="long"')}
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{_esc(caption)}"><table>'
    yield f"<caption><span>{_esc(caption)}</span></caption>"
    columns = (f'<th scope="col"{kind.get(i, "")}>{_esc(text)}</th>' for i, text in enumerate(head))
    yield f"<thead><tr>{''.join(columns)}</tr></thead><tbody>"
    for row in body:
        yield (
            f'<tr><th scope="row">{_code(row[0])}</th>'
            + "".join(f"<td{kind.get(i, '')}>{_code(text)}</td>" for i, text in enumerate(row[1:], 1))
            + "</tr>"
        )
    yield "</tbody></table></div>"


def _figure(name: str, figure: Figure, label: str) -> Iterable[str]:
    """A Matplotlib figure as inline SVG in the page's colours. name: not that of another figure of the page"""
    drawn = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that Matplotlib's font lacks; the browser's has it
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    svg = drawn.getvalue()[drawn.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)  # several drawings share one page
    svg = re.sub(r"#0[123]0[123]0[123]", lambda found: VARIABLES.get(found[0], found[0]), svg)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{_esc(label)}"', 1)
    yield f"<figure>{svg}</figure>"


def histogram(edges: Sequence[float], counts: Sequence[int]) -> Figure:
    """How many totals lie between each two edges, in points."""
    figure = Figure(figsize=(WIDTH, 2.3), layout="constrained")
    axes = figure.add_subplot()
    axes.bar(edges[:-1], counts, width=[0.94 * (b - a) for a, b in zip(edges, edges[1:])], align="edge", color=BAR)
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("points", color=INK, fontsize=9)
    axes.set_ylabel("students", color=INK, fontsize=9)
    axes.tick_params(colors=INK, labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    return figure


def bar_chart(bars: Sequence[tuple[str, float, str]]) -> Figure:
    """Bars from 0 to 1, each with its label above and a few words behind."""
    labels = [textwrap.shorten(label.replace("`", ""), 3 * LETTERS - 10, placeholder=" …") for label, _, _ in bars]
    labels = [textwrap.wrap(label, LETTERS) or [""] for label in labels]
    line, bar, gap, long = 0.165, 0.13, 0.12, WIDTH - 0.75  # inches
    height = sum(len(label) * line + bar + gap for label in labels)
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    top = 0.0
    for lines, (_, share, words) in zip(labels, bars):
        for text in lines:
            axes.text(0, top + line / 2, text, va="center", fontsize=9, color=INK, parse_math=False)
            top += line
        axes.barh(top + bar / 2, long, bar, color=SOFT)
        axes.barh(top + bar / 2, long * share, bar, color=BAR)
        axes.text(long + 0.08, top + bar / 2, words, va="center", fontsize=9, color=INK, parse_math=False)
        top += bar + gap
    return figure
