"""Honest submissions: right, wrong, partial, late, odd and noisy. What each earns is known from stock nbgrader.

`record_stock_grades.py` grades them with stock nbgrader and keeps the result in `stock_grades.json`;
`test_parity.py` grades them with this project.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import linecache
import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from course import catalog
from tests.alternatives import dot_products as alternatives
from tests.autograder import small_course

RECORD = Path(__file__).with_name("stock_grades.json")
# Both graders are told of the rule for late work in the same way, on the command line.
PENALTY = "--AssignLatePenalties.plugin_class=tests.autograder.penalty.TenPercentADay"
WRITTEN = "Length is lost: a key of twice the size scores the same."


@dataclass
class Honest:
    """One student's work.

    answers: texts by notebook and cell; a notebook that is not named is not handed in
    extra: code cells of the student's own, each behind the cell named ("" for the top)
    imports: the first code cell of every notebook, where the student changed it
    copied, deleted: cells that were pasted a second time, or removed
    broken: the files' bytes are cut in half
    """

    answers: dict[str, dict[str, str]]
    late_hours: float = -24.0
    extra: list[tuple[str, str]] = field(default_factory=list)
    imports: str | None = None
    copied: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    broken: bool = False


def notebooks() -> dict[str, nbformat.NotebookNode]:
    """The instructor's notebooks of the assignment."""
    return {**{stem: small_course.thin(stem) for stem in small_course.KEPT}, "own": small_course.own()}


@functools.cache
def submissions() -> dict[str, Honest]:
    """All of them, by student."""
    right = {name: small_course.reference("dot_products", name) for name in small_course.KEPT["dot_products"]}
    full = {**right, "written-dot_products": WRITTEN}
    dot, cosine = right["dot"], right["cosine_similarity"]
    double = "def double(x):\n    return 2 * x"
    noted = dot.replace("\n    if", "\n    seen.append(len(a))\n    if", 1)
    assert noted != dot

    def basics(dot=dot, cosine=cosine, **more):
        return Honest({"dot_products": {"dot": dot, "cosine_similarity": cosine}}, **more)

    def own(double, by_hand=None):
        return Honest({"own": {"double": double, **({"by-hand": by_hand} if by_hand else {})}})

    found = {
        "right": Honest({"dot_products": full}),
        "no-written-answer": basics(),
        "written-answer-alone": Honest({"dot_products": {"written-dot_products": WRITTEN}}),
        "released": Honest({"dot_products": {}}),
        "first-exercise-alone": Honest({"dot_products": {"dot": dot}}),
        "second-exercise-alone": Honest({"dot_products": {"cosine_similarity": cosine}}),
        "empty-cells": basics("", ""),
        "only-a-comment": basics("# I could not do this one"),
        "syntax-error": basics("def dot(a, b)\n    return 0.0"),
        "wrong-indent": basics(dot, "def cosine_similarity(a, b):\nreturn 0.0"),
        "misspelt-name": basics(dot.replace("def dot", "def dott")),
        "raises-after-the-definition": basics(dot + "\n\n1 / 0"),
        "raises-when-called": basics("def dot(a, b):\n    return undefined"),
        "calls-itself-for-ever": basics("def dot(a, b):\n    return dot(a, b)"),
        "a-number-and-no-function": basics("dot = 3"),
        "other-arguments": basics("def dot(a):\n    return 0.0"),
        "late-an-hour": Honest({"dot_products": full}, late_hours=1),
        "late-ten-minutes": Honest({"dot_products": full}, late_hours=0.1),
        "late-three-days": Honest({"dot_products": {"dot": dot}}, late_hours=70),
        "late-beyond-all-points": Honest({"dot_products": full}, late_hours=400),
        "late-and-empty": Honest({"dot_products": {}}, late_hours=30),
        "helper-in-a-cell-of-its-own": basics(
            "def dot(a, b):\n    same_length(a, b)\n    return sum(map(product, a, b))",
            extra=[
                ("", "def same_length(a, b):\n    if len(a) != len(b):\n        raise ValueError('lengths differ')"),
                ("", "def product(x, y):\n    return x * y"),
            ],
        ),
        "helper-too-late": basics(
            "def dot(a, b):\n    return helper(a, b)",
            extra=[("check-dot", "def helper(a, b):\n    return sum(x * y for x, y in zip(a, b))")],
        ),
        "own-cell-breaks-a-name": basics(extra=[("check-dot", "np = None")]),
        "own-cell-raises": basics(extra=[("dot", "print(dot([1], [2]))\nraise ValueError('just trying')")]),
        "more-imports": basics(
            "def dot(a, b):\n    return fsum(x * y for x, y in zip(a, b, strict=True))",
            imports="from math import *\nimport numpy as np\nfrom attnlab import check",
        ),
        "imports-lost": basics(imports="# nothing"),
        "class-that-is-called": basics(
            "class Dot:\n    def __call__(self, a, b):\n        if len(a) != len(b):\n            raise ValueError\n"
            "        return float(sum(x * y for x, y in zip(a, b)))\n\n\ndot = Dot()"
        ),
        "lambda": basics("dot = lambda a, b: sum(x * y for x, y in zip(a, b, strict=True))"),
        "dataclass": basics(
            "from dataclasses import dataclass\n\n\n@dataclass\nclass Pair:\n    x: float\n    y: float\n\n\n"
            "def dot(a, b):\n"
            "    return float(sum(p.x * p.y for p in [Pair(*both) for both in zip(a, b, strict=True)]))"
        ),
        "keeps-a-list-outside": basics("seen = []\n\n\n" + noted),
        "warns": basics(
            "import sys\nimport warnings\n\nwarnings.warn('now')\nprint('on stderr', file=sys.stderr)\n\n"
            + dot.replace("\n    if", "\n    warnings.warn('when called')\n    if", 1)
        ),
        "prints-a-lot": basics(
            dot.replace("\n    if", "\n    print('x' * 10_000)\n    if", 1) + "\n\nprint('y' * 300_000)"
        ),
        "silent-thread": basics(
            "import threading\nimport time\n\nthreading.Thread(target=time.sleep, args=(600,), "
            "daemon=True).start()\n\n" + dot
        ),
        "takes-a-second": basics("import time\n\ntime.sleep(1)\n\n" + dot),
        "shows-a-result": basics(dot + "\n\n0.25"),
        "torch": basics(
            "import torch\n\n\ndef dot(a, b):\n    a, b = (torch.tensor(x, dtype=torch.float64) for x in (a, b))\n"
            "    if len(a) != len(b):\n        raise ValueError('lengths')\n    return float((a * b).sum())"
        ),
        "own-right": own(double, "print(double(4))"),
        "own-half-right": own("def double(x):\n    return x + 2 if x == 2 else 2 * abs(x)"),
        "own-raises": own("def double(x):\n    raise ValueError(x)", "double(1)"),
        "own-not-done": Honest({"own": {}}),
        "bonus": Honest(
            {"attention": {name: small_course.reference("attention", name) for name in small_course.KEPT["attention"]}}
        ),
        "bonus-late-and-wrong": Honest(
            {
                "attention": {
                    "attention_weights": small_course.reference("attention", "attention_weights"),
                    "attention_backward": _renamed(_wrong("attention_backward")[0].wrong, "attention_backward"),
                }
            },
            late_hours=30,
        ),
        "all-notebooks": Honest({"dot_products": right, "own": {"double": double}, "attention": {}}),
    }
    names = ("dot", "cosine_similarity")
    # Other right answers; the one in PyTorch is used above.
    others = [alternatives.ALTERNATIVES[name] for name in names]
    for number in range(5):
        found[f"other-{number}"] = Honest(
            {"dot_products": {name: _renamed(answers[number], name) for name, answers in zip(names, others)}}
        )
    wrong = [[m.wrong for m in _wrong(name) if _stands_alone(m.wrong)] for name in names]
    for number in range(0, 20, 2):
        found[f"wrong-{number}"] = Honest(
            {"dot_products": {name: _renamed(answers[number], name) for name, answers in zip(names, wrong)}}
        )
    return {**found, **_different(dot, cosine, double)}


def _different(dot, cosine, double) -> dict[str, Honest]:
    """Where this grader means to differ from stock nbgrader; `test_parity.DIFFERENT` says how."""
    loud = (
        "import sys\nimport threading\nimport time\n\n\ndef talk():\n    for _ in range(6000):\n"
        "        print('still here', file=sys.stderr, flush=True)\n        time.sleep(0.01)\n\n\n"
        "threading.Thread(target=talk, daemon=True).start()\n\n"
    )
    both = {"dot": dot, "cosine_similarity": cosine}
    return {
        "different-dead-kernel": Honest({"dot_products": {**both, "dot": "import os\n\nos._exit(1)"}}),
        "different-loud-thread": Honest({"dot_products": {**both, "dot": loud + dot}}),
        "different-warning-in-a-test": Honest(
            {"own": {"double": "import warnings\n\n\n" + double.replace("\n", "\n    warnings.warn('doubling')\n", 1)}}
        ),
        "different-half-a-file": Honest({"dot_products": both}, broken=True),
        "different-test-deleted": Honest({"dot_products": both}, deleted=("check-dot",)),
        "different-exercise-pasted-twice": Honest({"dot_products": both}, copied=("dot",)),
        "different-test-pasted-twice": Honest({"dot_products": both}, copied=("check-dot",)),
    }


def _wrong(name):
    return catalog.exercise(name).misconceptions


def _stands_alone(function) -> bool:
    """Whether a wrong answer is a definition that a student could have written into a cell."""
    return function.__closure__ is None and function.__name__ != "<lambda>"


def _renamed(function, name: str) -> str:
    """The source of a function under an exercise's name, with the imports and the helpers that it uses."""
    file = function.__code__.co_filename
    if file.startswith("<"):  # an edited reference: its file holds the answer and what the answer needs
        return "".join(linecache.getlines(file)).strip("\n")
    module = inspect.getmodule(function)
    source = _plain(function)
    helpers, waiting = {}, [source]
    while waiting:
        for helper in sorted(set(re.findall(r"\b_\w+(?=\()", waiting.pop())) - helpers.keys()):
            if hasattr(module, helper):
                helpers[helper] = _plain(getattr(module, helper))
                waiting.append(helpers[helper])
    text = "\n\n\n".join([*helpers.values(), re.sub(rf"\b{function.__name__}\b", name, source)])
    used = [line for line in ("import math", "import operator") if line.split()[1] + "." in text]
    # A wrong answer may be a right one with a twist; students have no `solutions`.
    assert "solutions." not in text, f"{function.__name__} leans on the reference"
    return "\n".join([*used, "", text]).strip("\n")


def _plain(function) -> str:
    """The source without decorators."""
    source = inspect.getsource(function)
    return source[re.search(r"^def ", source, re.MULTILINE).start() :].rstrip("\n")


def hand_in(course: Path, only=None) -> None:
    """Put the submissions into a course folder."""
    for student, work in submissions().items():
        if only is None or student in only:
            place = small_course.folder(course, student, work.late_hours)
            for name, text in _files(course, work).items():
                (place / f"{name}.ipynb").write_text(text, "utf-8")


def _files(course: Path, work: Honest) -> dict[str, str]:
    found = {}
    for name, answers in work.answers.items():
        notebook = small_course.answered(small_course.released(course, name), answers)
        if work.imports is not None:
            next(cell for cell in notebook.cells if cell.cell_type == "code").source = work.imports
        cells = []
        for place, source in work.extra:
            if not place:
                cells.append(nbformat.v4.new_code_cell(source))
        for cell in notebook.cells:
            mark = cell.metadata.get("nbgrader", {}).get("grade_id")
            if mark not in work.deleted:
                cells += [nbformat.from_dict(cell)] * (2 if mark in work.copied else 1)
            cells += [nbformat.v4.new_code_cell(source) for place, source in work.extra if place and place == mark]
        notebook.cells = [nbformat.from_dict({**cell, "id": f"cell-{number}"}) for number, cell in enumerate(cells)]
        text = nbformat.writes(notebook)
        found[name] = text[: len(text) // 2] if work.broken else text
    return found


def fingerprint(course: Path) -> str:
    """A hash of all that is handed in, and of what it is graded by but the hidden tests."""
    known = hashlib.sha256()
    for student, work in submissions().items():
        known.update(json.dumps([student, work.late_hours, _files(course, work)], sort_keys=True).encode())
    with small_course.book(course) as gradebook:
        notebooks = gradebook.find_assignment(small_course.ASSIGNMENT).notebooks
        points = sorted([n.name, c.name, c.max_score] for n in notebooks for c in n.grade_cells)
    known.update(json.dumps(points).encode())
    return known.hexdigest()
