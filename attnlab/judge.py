"""From outcomes to a report: which properties hold, and which misconception explains those that do not.

`material` is what an exercise is judged by, as plain data (see `autograder.exercise`):

  name, signature, section, bonus
  properties     list of {title, points, probe, hint, rtol, atol, cases, expected}
                 cases: list of inputs; expected: the reference's outcome for each
  misconceptions list of {text, section, outcomes}; outcomes[p][c]: what this mistake gives on case c of property p

The check in a student's notebook and the hidden test differ in their material and in nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from attnlab.compare import Difference, difference, short


@dataclass
class Finding:
    """One property of a report. `points` were earned out of `max_points`; `detail` says what happened, in words."""

    title: str
    passed: bool
    points: float
    max_points: float
    hint: str = ""
    misconception: str | None = None
    section: str | None = None
    kind: str | None = None
    detail: str = ""


@dataclass
class Report:
    """What is known about one student's answer to one exercise. `reason` is set where nothing could be judged."""

    exercise: str
    max_points: float
    bonus: bool = False
    findings: list[Finding] = field(default_factory=list)
    reason: str | None = None
    not_done: bool = False

    @property
    def points(self) -> float:
        return float(sum(finding.points for finding in self.findings))

    @property
    def passed(self) -> bool:
        return self.reason is None and all(finding.passed for finding in self.findings)


def judge(material: dict, outcomes: list[list[dict | None]], show_cases: bool = True) -> Report:
    """The report on a student's outcomes.

    outcomes[p][c] is the outcome of case c of property p, or None where no answer came.
    show_cases: whether the words may contain inputs and expected values (never for hidden tests).
    """
    properties = material["properties"]
    report = Report(material["name"], float(sum(p["points"] for p in properties)), material["bonus"])
    if _not_done(outcomes):
        report.not_done = True
        report.reason = f"{material['name']} is not done yet"
        report.findings = [_finding(p, False) for p in properties]
        return report
    differences = [[_differs(p, expected, got) for expected, got in zip(p["expected"], row)]
                   for p, row in zip(properties, outcomes)]
    candidates = _candidates(material, outcomes, differences)
    for p, (prop, row) in enumerate(zip(properties, differences)):
        finding = _finding(prop, not any(row))
        if not finding.passed:
            case = _smallest(prop["cases"], row)
            finding.kind = row[case].kind
            match = next((m for m in candidates if _matches(m, p, prop, outcomes[p])), None)
            if match is not None:
                finding.misconception = match["text"]
                finding.section = match["section"] or material["section"]
            elif show_cases:
                finding.detail = _words(row[case], prop["cases"][case])
            else:
                finding.detail = _discreet(row[case])
        report.findings.append(finding)
    return report


def no_answer(material: dict, reason: str) -> Report:
    """The report on an answer that could not be judged at all: nothing earned, and why."""
    properties = material["properties"]
    return Report(material["name"], float(sum(p["points"] for p in properties)), material["bonus"],
                  [_finding(p, False) for p in properties], reason)


def _finding(prop: dict, passed: bool) -> Finding:
    points = float(prop["points"])
    return Finding(prop["title"], passed, points if passed else 0.0, points, prop["hint"])


def _not_done(outcomes) -> bool:
    came = [outcome for row in outcomes for outcome in row if outcome is not None]
    return bool(came) and all(o.get("error", {}).get("type") == "NotImplementedError" for o in came)


def _differs(prop: dict, expected: dict, got: dict | None) -> Difference | None:
    if got is None:
        return Difference("no answer", "no answer came", expected, None)
    if "error" in got:
        return Difference("error", _error_words(got["error"]), expected, got)
    if "refused" in got:
        return Difference("type", got["refused"], expected, got)
    return difference(expected["value"], got.get("value"), prop["rtol"], prop["atol"])


def _candidates(material, outcomes, differences) -> list[dict]:
    """Misconceptions that this answer does not contradict, best explanation first.

    A mistake is ruled out as soon as the answer is right on a case where that mistake is wrong. Among the rest, the
    one that agrees with the answer on most of its wrong cases comes first; then the order of declaration decides.
    """
    ranked = []
    for order, m in enumerate(material["misconceptions"]):
        agreeing, possible = 0, True
        for p, prop in enumerate(material["properties"]):
            for c, wrong in enumerate(m["outcomes"][p] if m.get("outcomes") else []):
                fails = _differs(prop, prop["expected"][c], wrong) is not None
                if fails and differences[p][c] is None:
                    possible = False
                elif differences[p][c] is not None and _same(wrong, outcomes[p][c]):
                    agreeing += 1
        if possible and agreeing:
            ranked.append((-agreeing, order, m))
    return [m for _, _, m in sorted(ranked, key=lambda item: item[:2])]


def _matches(m: dict, p: int, prop: dict, row) -> bool:
    """Whether a misconception gives on every case of property p exactly what the student gave, and is wrong there."""
    wrong = m["outcomes"][p]
    fails = any(_differs(prop, expected, outcome) for expected, outcome in zip(prop["expected"], wrong))
    return fails and all(_same(a, b) for a, b in zip(wrong, row))


def _same(a: dict, b: dict | None) -> bool:
    if b is None or a.keys() != b.keys():
        return False
    if "error" in a:  # the same exception by its type and words; the line it stands on is the student's own
        return all(a["error"][key] == b["error"][key] for key in ("type", "message"))
    if "refused" in a:
        return a["refused"] == b["refused"]
    return difference(a["value"], b["value"], rtol=1e-7, atol=1e-12) is None


def _smallest(cases, row) -> int:
    failing = [c for c, found in enumerate(row) if found]
    return min(failing, key=lambda c: (_size(cases[c]), c))


def _size(value) -> int:
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    return int(np.size(value)) if isinstance(value, np.ndarray) else getattr(value, "numel", lambda: 1)()


def _error_words(error: dict) -> str:
    where = f" in line {error['line']}" if error["line"] else ""
    code = f": `{error['code']}`" if error["code"] else ""
    message = f" ({error['message']})" if error["message"] else ""
    return f"your code raised {error['type']}{message}{where}{code}"


_SHOWN = {"value", "nan", "shape", "dtype", "type", "none"}


def _words(found: Difference, case: dict) -> str:
    """What went wrong on the smallest failing input, with what was expected and what came."""
    words = found.words[0].upper() + found.words[1:] + ("" if found.words.endswith("?") else ".")
    lines = [words, f"input:    {short(case)}"]
    if found.kind in _SHOWN and not isinstance(found.expected, (dict, str, bool)):
        lines += [f"expected: {short(found.expected)}", f"came:     {short(found.got)}"]
    return "\n".join(lines)


def _discreet(found: Difference) -> str:
    """The same without inputs, expected values or messages that could carry them."""
    return {
        "none": "Returned None.", "type": "Returned another kind of value than asked for.",
        "shape": "Returned another shape than asked for.", "dtype": "Returned another kind of number than asked for.",
        "nan": "Returned nan where a number was expected.", "value": "Returned other numbers than expected.",
        "no answer": "No answer came in time.",
        "error": f"Raised {found.got['error']['type']}." if found.kind == "error" else "",
    }[found.kind]
