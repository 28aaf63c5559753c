"""What a hostile student may hand in: one attack each, with the verdict that a grader to be trusted must give.

All are submissions of the softmax chapter. Four exercises are answered rightly, and what `log_softmax` is worth is
what the attack is after; so each shows both that it gains nothing and that it loses nothing else. The notebooks hold
only the graded cells, which a student may well do, and which saves the time of the others.

`SAFE_UNJAILED` names those that may run without a jail, in a course folder that is thrown away: no bombs, no fills, no
kills, nothing that is looked for or written elsewhere.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent

STEM = "softmax"
TARGET = "log_softmax"
FULL = {"softmax": 8.0, "log_softmax": 5.0, "softmax_temperature": 5.0, "softmax_jacobian": 5.0, "soft_lookup": 5.0}
ALL_LOST = dict.fromkeys(FULL, 0.0)
MARK = "RED_TEAM_MARK"  # a variable in the grader's environment that nobody inside may see
WHOLE_NUMBERS = 1.0  # points of the one property of log_softmax that is asked with whole numbers

WRONG = """
def log_softmax(x, axis=-1):
    return np.zeros(np.shape(x)) - 1.0
"""
RIGHT = """
def log_softmax(x, axis=-1):
    scores = np.asarray(x, dtype=float)
    gaps = scores - scores.max(axis=axis, keepdims=True)
    return gaps - np.log(np.exp(gaps).sum(axis=axis, keepdims=True))
"""


@dataclass(frozen=True)
class Kit:
    """What an attack may know: the course folder, a port that listens on loopback, and honest work."""

    notebook: dict
    course: Path
    port: int

    def fresh(self, answer: str = WRONG) -> dict:
        """A notebook with this answer to the target, and right answers to all else."""
        notebook = copy.deepcopy(self.notebook)
        named(notebook, TARGET)["source"] = answer.strip()
        return notebook


@dataclass(frozen=True)
class Attack:
    """An attack, and what must come of it.

    points: exercise -> points, or (least, most) where it depends on chance what the attack costs its author; those
    not named have full points. None: nothing is entered at all.
    note, flag, reason: words that must be found
    absent: words that must be nowhere in outputs, page and record
    not_in_page: what the page must not hold as it stands
    manual: whether a human is asked to look at the target; first: what is handed in and graded before
    """

    name: str
    tries: str
    alter: Callable[[Path, Kit], dict | bytes | None]
    points: dict | None = field(default_factory=lambda: {TARGET: 0.0})
    note: str = ""
    flag: str = ""
    reason: str = ""
    absent: tuple[str, ...] = ()
    not_in_page: tuple[str, ...] = ()
    manual: bool = False
    first: Callable[[Path, Kit], dict | bytes | None] | None = None
    safe_unjailed: bool = False

    def expected(self) -> dict:
        return {**FULL, **self.points}


LATER_LOST = {**ALL_LOST, "softmax": FULL["softmax"]}  # what is checked before the target stays as it was

ATTACKS: list[Attack] = []
HONEST = {TARGET: FULL[TARGET]}
ONE_LOST = {TARGET: FULL[TARGET] - WHOLE_NUMBERS}
UNSURE = {name: (0.0, most) for name, most in FULL.items()} | {TARGET: 0.0}


SAFE_UNJAILED = set(
    """
    tag_skip_execution outputs_forged_in_file check_twice answer_twice check_deleted checks_moved_up check_retyped
    check_retagged points_raised names_swapped schema_99 schema_1 other_kernel widget_state attachment nbformat_3
    nbformat_99 metadata_of_any_kind resubmitted_without_check json_broken json_not_utf8 json_deep json_nan
    json_long_number file_empty file_no_notebook file_symlink file_folder file_hard_link folder_symlink names_odd
    timestamp_no_time timestamp_long timestamp_symlink ast_transformer input_transformer run_cell_patched
    display_hooks_patched results_printed check_replaced numpy_patched torch_patched equal_to_everything
    lying_array_protocol lying_array_subclass lying_numbers looks_for_expected_values known_by_heart remembers_calls
    exception_that_lies modules_imported gradebook_written leak_by_exception_words leak_by_exception_name
    leak_by_result page_written_answer page_displayed page_terminal_codes page_exception page_source
    """.split()
)


def attack(name: str, tries: str, alter, **verdict) -> None:
    ATTACKS.append(Attack(name, tries, alter, safe_unjailed=name in SAFE_UNJAILED, **verdict))


def harmless(name: str, tries: str, source: str, before: str = TARGET, **verdict) -> None:
    """An attack in a cell beside right answers, which costs its author nothing and gains nothing."""
    attack(name, tries, beside(source, RIGHT, before), points=HONEST, **verdict)


# How submissions are made ----------------------------------------------------------------------------------------


def hand_in(folder: Path, made: dict | bytes | None) -> None:
    if isinstance(made, dict):
        made = json.dumps(made).encode()
    if made is not None:
        (folder / f"{STEM}.ipynb").write_bytes(made)


def named(notebook: dict, name: str) -> dict:
    return next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == name)


def code_cell(source: str, **metadata) -> dict:
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": dedent(source).strip(),
        "outputs": [],
        "execution_count": None,
        "id": "added",
    }


def answer(source: str):
    """The target is answered with this source."""
    return lambda folder, kit: kit.fresh(dedent(source))


def beside(source: str, own: str = WRONG, before: str = TARGET):
    """The target is answered with `own`, and a cell is added in front of another."""

    def alter(folder, kit):
        notebook = kit.fresh(own)
        place = notebook["cells"].index(named(notebook, before))
        notebook["cells"].insert(
            place, code_cell(source.replace("PORT", str(kit.port)).replace("COURSE", str(kit.course)))
        )
        return notebook

    return alter


def metadata(change, own: str = WRONG):
    """The target is answered with `own`, and the notebook is altered: `change(notebook)`."""

    def alter(folder, kit):
        notebook = kit.fresh(own)
        return change(notebook) or notebook

    return alter


def files(change, own: str = RIGHT):
    """A notebook that is right, and something done in its folder: `change(folder, kit)`."""

    def alter(folder, kit):
        hand_in(folder, kit.fresh(own))
        change(folder, kit)

    return alter


def when_whole(action: str, before: str = ""):
    """The target is answered rightly, but where it is given whole numbers it does something else."""
    source = RIGHT.replace(
        "    scores",
        "    if np.asarray(x).dtype.kind == 'i':\n" + indent(dedent(action).strip(), "        ") + "\n    scores",
        1,
    )
    return answer(dedent(before) + source)


# The notebook as a document --------------------------------------------------------------------------------------


def _tags(notebook):
    for name in FULL:
        named(notebook, f"check-{name}")["metadata"]["tags"] = ["skip-execution", "raises-exception", "remove-cell"]


def _forged_outputs(notebook):
    check = named(notebook, f"check-{TARGET}")
    check["execution_count"] = 7
    check["outputs"] = [
        {
            "output_type": "execute_result",
            "execution_count": 7,
            "metadata": {},
            "data": {"text/plain": "5.0", "application/vnd.attention.check+json": {"points": 5.0}},
        }
    ]


def _twice(notebook):
    place = notebook["cells"].index(named(notebook, f"check-{TARGET}"))
    forged = copy.deepcopy(notebook["cells"][place])
    forged["source"] = "5.0"
    notebook["cells"] += [forged, copy.deepcopy(forged)]


def _answer_twice(notebook):
    place = notebook["cells"].index(named(notebook, TARGET))
    early = copy.deepcopy(notebook["cells"][place])
    early["source"] = RIGHT.strip()
    notebook["cells"].insert(place, early)


def _without_check(notebook):
    notebook["cells"].remove(named(notebook, f"check-{TARGET}"))


def _checks_first(notebook):
    checks = [named(notebook, f"check-{name}") for name in FULL]
    first, *others = notebook["cells"]
    notebook["cells"] = [first, *checks, *(cell for cell in others if cell not in checks)]


def _check_as_text(notebook):
    check = named(notebook, f"check-{TARGET}")
    check["cell_type"] = "markdown"
    del check["outputs"], check["execution_count"]


def _check_of_my_own(notebook):
    check = named(notebook, f"check-{TARGET}")
    check["source"] = "5.0"
    check["metadata"]["nbgrader"] |= {"solution": True, "locked": False, "points": 500, "checksum": "0" * 32}


def _worth_more(notebook):
    for name in FULL:
        named(notebook, f"check-{name}")["metadata"]["nbgrader"]["points"] = 500
    notebook["cells"].append(
        code_cell(
            "500.0",
            nbgrader={
                "grade_id": "check-bonus",
                "grade": True,
                "solution": False,
                "locked": False,
                "task": False,
                "points": 500,
                "schema_version": 3,
                "cell_type": "code",
                "checksum": "0" * 32,
            },
        )
    )


def _other_names(notebook):
    """The answer to another exercise passes for the target's, and nothing has the name it had."""
    named(notebook, TARGET)["metadata"]["nbgrader"]["grade_id"] = "nobody"
    other = copy.deepcopy(named(notebook, "softmax"))
    other["metadata"]["nbgrader"]["grade_id"] = TARGET
    notebook["cells"].append(other)


def _schema(version):
    def change(notebook):
        for cell in notebook["cells"]:
            if "nbgrader" in cell["metadata"]:
                cell["metadata"]["nbgrader"]["schema_version"] = version

    return change


def _set(**values):
    return lambda notebook: notebook.update(values)


def _nbformat_3(notebook):
    cells = [
        {
            "cell_type": c["cell_type"],
            "input" if c["cell_type"] == "code" else "source": c["source"],
            "language": "python",
            "outputs": [],
            "metadata": c["metadata"],
        }
        for c in notebook["cells"]
    ]
    return {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [{"cells": cells, "metadata": {}}],
    }


def _strange_metadata(notebook):
    notebook["cells"] += [
        {"cell_type": ["code"], "metadata": None, "source": {"a": 1}},
        None,
        3,
        code_cell("1", nbgrader={"grade_id": ["x"]}),
        code_cell("2", nbgrader="yes"),
    ]


def _attachment(notebook):
    cell = named(notebook, "written-softmax")
    cell["attachments"] = {"a.svg": {"image/svg+xml": "<svg onload='evil()'><script>evil()</script></svg>"}}
    cell["source"] = "My answer ![a](attachment:a.svg)"


attack("tag_skip_execution", "tags that keep stock nbgrader from running the checks", metadata(_tags))
attack("outputs_forged_in_file", "outputs with points, written into the file", metadata(_forged_outputs))
attack("check_twice", "a second check cell, with points of its own", metadata(_twice), note="more than once")
attack(
    "answer_twice", "a right answer, then a wrong one, under one name", metadata(_answer_twice), note="more than once"
)
attack("check_deleted", "no check cell at all", metadata(_without_check), note=f"check-{TARGET} was missing")
attack(
    "checks_moved_up", "checks in front of the answers; honest otherwise", metadata(_checks_first, RIGHT), points=HONEST
)
attack("check_retyped", "the check as text", metadata(_check_as_text), note="another kind of cell")
attack("check_retagged", "the check marked as an answer, and answered `5.0`", metadata(_check_of_my_own))
attack("points_raised", "500 points in the metadata, and a cell of 500 more", metadata(_worth_more))
attack("names_swapped", "another answer under the target's name", metadata(_other_names))
attack("schema_99", "a schema number of the far future", metadata(_schema(99)))
attack("schema_1", "a schema number of long ago", metadata(_schema(1)))
attack(
    "other_kernel",
    "another kernel, which is no Python",
    metadata(_set(metadata={"kernelspec": {"name": "bash", "language": "bash", "display_name": "x"}})),
)
attack(
    "widget_state",
    "widget state with script in it",
    metadata(
        _set(
            metadata={
                "widgets": {
                    "application/vnd.jupyter.widget-state+json": {
                        "version_major": 2,
                        "version_minor": 0,
                        "state": {
                            "a": {
                                "model_name": "HTMLModel",
                                "model_module": "x",
                                "state": {"value": "<script>evil()</script>"},
                            }
                        },
                    }
                }
            }
        )
    ),
    not_in_page=("<script>evil",),
)
attack(
    "attachment",
    "an attached picture that is a script",
    metadata(_attachment),
    not_in_page=("onload='evil", "<script>evil"),
)
attack(
    "nbformat_3", "a notebook as they were ten years ago; honest otherwise", metadata(_nbformat_3, RIGHT), points=HONEST
)
attack(
    "nbformat_99",
    "version numbers that are none; honest otherwise",
    metadata(_set(nbformat="99", nbformat_minor=[]), RIGHT),
    points=HONEST,
)
attack(
    "metadata_of_any_kind",
    "cells and metadata of every wrong kind; honest otherwise",
    metadata(_strange_metadata, RIGHT),
    points=HONEST,
)
attack(
    "resubmitted_without_check",
    "graded once, then handed in wrong and without the check",
    metadata(_without_check),
    first=lambda folder, kit: kit.fresh(RIGHT),
    note="was missing",
)

# The file and its folder -----------------------------------------------------------------------------------------

UNREADABLE = dict(points=ALL_LOST, note="could not be read", manual=True)


def _bytes(make):
    return lambda folder, kit: make(json.dumps(kit.fresh(RIGHT)).encode())


def _only(make):
    def alter(folder, kit):
        make(folder / f"{STEM}.ipynb", kit)

    return alter


def _other(kit: Kit) -> Path:
    return kit.course / "submitted" / "aaa_honest" / STEM / f"{STEM}.ipynb"


def _odd_names(folder, kit):
    for name in (
        "results.json",
        "$(touch owned)",
        "a\nb",
        "-rf",
        "<script>evil()",
        "softmax.ipynb ",
        "..evil",
        "numpy.py",
        "attnlab.py",
        "sitecustomize.py",
    ):
        (folder / name).write_text("raise SystemExit('shadowed')" if name.endswith(".py") else '{"notes": ["forged"]}')
    (folder / "sub").mkdir()
    (folder / "sub" / "softmax.ipynb").write_text("{}")
    (folder / "extra.ipynb").write_text("{}")


def _links(folder, kit):
    (folder / "book.txt").symlink_to(kit.course / "gradebook.db")
    (folder / "out").symlink_to("/")
    os.mkfifo(folder / "pipe")


def _timestamp(make):
    def change(folder, kit):
        (folder / "timestamp.txt").unlink()
        make(folder / "timestamp.txt", kit)

    return files(change)


def _folder_link(folder, kit):
    (folder / "timestamp.txt").unlink()
    folder.rmdir()
    folder.symlink_to(_other(kit).parent)


attack("json_broken", "half a notebook", _bytes(lambda data: data[: len(data) // 2]), **UNREADABLE)
attack("json_not_utf8", "bytes that are no text", _bytes(lambda data: b"\xff\xfe" + data), **UNREADABLE)
attack(
    "json_deep", "brackets a hundred thousand deep", _bytes(lambda data: b"[" * 100_000 + b"]" * 100_000), **UNREADABLE
)
attack("json_huge", "a file of 33 MB", _bytes(lambda data: data + b" " * (33 << 20)), **UNREADABLE)
attack(
    "json_many_parts",
    "twelve million zeros",
    _bytes(lambda data: b'{"cells": [' + b"0," * 12_000_000 + b"0]}"),
    **UNREADABLE,
)
attack(
    "json_nan",
    "NaN and Infinity for points; honest otherwise",
    _bytes(
        lambda data: data.replace(b'"points": 5.0', b'"points": NaN').replace(b'"points": 8.0', b'"points": Infinity')
    ),
    points=HONEST,
)
attack(
    "json_long_number",
    "a number of a million digits",
    _bytes(lambda data: data.replace(b'"nbformat": 4', b'"nbformat": ' + b"9" * 1_000_000)),
    **UNREADABLE,
)
attack("file_empty", "an empty file", _bytes(lambda data: b""), **UNREADABLE)
attack("file_no_notebook", "a list where a notebook should be", _bytes(lambda data: b"[1, 2]"), **UNREADABLE)
attack(
    "cells_three_thousand",
    "three thousand cells",
    metadata(lambda notebook: notebook["cells"].extend(code_cell("1") for _ in range(3000)), RIGHT),
    **UNREADABLE,
)
attack("cell_of_two_megabytes", "an answer of two megabytes", answer("#" * (2 << 20)), **UNREADABLE)
attack(
    "file_symlink",
    "a link to another student's notebook",
    _only(lambda path, kit: path.symlink_to(_other(kit))),
    **UNREADABLE,
)
attack("file_pipe", "a pipe that would be read for ever", _only(lambda path, kit: os.mkfifo(path)), **UNREADABLE)
attack("file_folder", "a folder with the notebook's name", _only(lambda path, kit: path.mkdir()), **UNREADABLE)
# Nothing tells such a file from a copy; what counts is that the other's stays as it was.
attack(
    "file_hard_link",
    "another student's file under a second name",
    _only(lambda path, kit: os.link(_other(kit), path)),
    points=HONEST,
)
attack("folder_symlink", "a link to another student's whole folder", _folder_link, points=None, manual=True)
attack(
    "links_beside",
    "links and a pipe beside the notebook; honest otherwise",
    files(_links),
    points=HONEST,
    note="was left out",
)
attack(
    "names_odd",
    "forged results, modules that shadow libraries, names for a shell; honest otherwise",
    files(_odd_names),
    points=HONEST,
    note="was left out",
    absent=('["forged"]',),
    not_in_page=("<script>evil",),
)
attack(
    "timestamp_no_time",
    "a time that is none; honest otherwise",
    _timestamp(lambda path, kit: path.write_text("99999-99-99 <b>now</b>")),
    points=HONEST,
    note="holds no time",
)
attack(
    "timestamp_long",
    "a time of a megabyte; honest otherwise",
    _timestamp(lambda path, kit: path.write_text("1" * (1 << 20))),
    points=HONEST,
    note="holds no time",
)
attack(
    "timestamp_symlink",
    "a time that links to the gradebook; honest otherwise",
    _timestamp(lambda path, kit: path.symlink_to(kit.course / "gradebook.db")),
    points=HONEST,
    note="timestamp.txt",
)

# Points made up in the process -----------------------------------------------------------------------------------

attack(
    "ast_transformer",
    "checks are rewritten before they run",
    beside("""
    import ast
    class Forge(ast.NodeTransformer):
        def visit_Call(self, node):
            self.generic_visit(node)
            return ast.Constant(5.0) if getattr(node.func, "id", "") in ("check", "hidden") else node
    get_ipython().ast_transformers.append(Forge())
    """),
    note="not handed out",
)
attack(
    "input_transformer",
    "the text of checks is rewritten",
    beside("""
    def forge(lines):
        return ["5.0\\n"] if any("check" in line for line in lines) else lines
    get_ipython().input_transformers_cleanup.append(forge)
    get_ipython().input_transformers_post.append(forge)
    """),
)
attack(
    "run_cell_patched",
    "the shell's and the kernel's own way to run a cell is replaced",
    beside("""
    shell = get_ipython()
    genuine = shell.run_cell
    def forged(source, *a, **k):
        return genuine("5.0" if "check" in str(source) else source, *a, **k)
    shell.run_cell = forged
    type(shell).run_cell = lambda self, source, *a, **k: forged(source, *a, **k)
    if getattr(shell, "run_cell_async", None):
        whole = shell.run_cell_async
        shell.run_cell_async = lambda source, *a, **k: whole("5.0" if "check" in str(source) else source, *a, **k)
    """),
)
attack(
    "display_hooks_patched",
    "whatever is shown is shown as full points",
    beside("""
    import builtins, sys
    class Five(float):
        def __repr__(self): return "5.0"
    genuine = sys.displayhook
    sys.displayhook = lambda value: genuine(Five(5.0))
    get_ipython().display_pub.publish = lambda *a, **k: None
    """),
)
attack(
    "results_printed",
    "points shown by the answer's own cell",
    answer(
        WRONG
        + """
from IPython.display import display
display({"application/vnd.attention.check+json": {"points": 5.0}, "text/plain": "5.0"}, raw=True)
5.0
"""
    ),
)
attack(
    "check_replaced",
    "`check` and what stands behind it return full points",
    beside("""
    import sys, attnlab, attnlab.check, attnlab.checking.judge, attnlab.checking.compare
    def check(*a, **k): return 5.0
    attnlab.check.check = attnlab.check = attnlab.checking.judge.judge = check
    attnlab.checking.compare.agree = attnlab.checking.compare.difference = lambda *a, **k: None
    """),
)
attack(
    "numpy_patched",
    "comparisons of NumPy always agree",
    beside("""
    np.allclose = np.array_equal = np.isclose = lambda *a, **k: np.True_
    np.testing.assert_allclose = np.testing.assert_array_equal = lambda *a, **k: None
    np.ndarray_equal = True
    """),
)
attack(
    "torch_patched",
    "comparisons of PyTorch always agree",
    beside("""
    import torch
    torch.allclose = torch.equal = lambda *a, **k: True
    torch.Tensor.numpy = torch.Tensor.tolist = lambda self: 5.0
    """),
)
LIAR = """
class Liar:
    def __init__(self, x=None): self.shape, self.dtype, self.ndim = np.shape(x), np.dtype(float), np.ndim(x)
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __getattr__(self, name):
        if name.startswith("__array"): raise AttributeError(name)
        return lambda *a, **k: self
    def __bool__(self): return True
    def __float__(self): return 0.0
    __le__ = __lt__ = __ge__ = __gt__ = __eq__
    __hash__ = None
"""
attack(
    "equal_to_everything",
    "an object that equals whatever it is compared with",
    answer(LIAR + "def log_softmax(x, axis=-1):\n    return Liar(x)"),
)
attack(
    "lying_array_protocol",
    "an object whose __array__ says something else each time",
    answer("""
    class Liar:
        shape, ndim, dtype = (2,), 1, np.dtype(float)
        def __array__(self, *a, **k):
            import inspect
            for frame in inspect.stack():
                for value in frame.frame.f_locals.values():
                    if isinstance(value, np.ndarray): return value
            return np.zeros(2)
        def __array_ufunc__(self, *a, **k): return True
        def __array_function__(self, *a, **k): return True
    setattr(Liar, "__tor" + "ch_function__", classmethod(lambda cls, *a, **k: True))  # the word would load PyTorch
    def log_softmax(x, axis=-1): return Liar()
    """),
)
attack(
    "lying_array_subclass",
    "an array whose comparisons are its own",
    answer("""
    class Liar(np.ndarray):
        def __array_ufunc__(self, ufunc, *a, **k): return np.True_
        def __array_function__(self, function, *a, **k): return np.True_
        def __eq__(self, other): return np.True_
        def __sub__(self, other): return 0.0
        def __reduce__(self): return (print, ("unpickled",))
    def log_softmax(x, axis=-1): return np.zeros(np.shape(x)).view(Liar)
    """),
)
attack(
    "lying_numbers",
    "numbers and lists whose methods are their own",
    answer("""
    class F(float):
        def __eq__(self, other): return True
        def __sub__(self, other): return 0.0
    class L(list):
        def __len__(self): return 0
        def __iter__(self): return iter(())
        def __eq__(self, other): return True
    def log_softmax(x, axis=-1): return L([F(0)] * np.size(x))
    """),
)
attack(
    "looks_for_expected_values",
    "expected values are looked for on the stack and in memory",
    answer("""
    import gc, sys
    def log_softmax(x, axis=-1):
        frame = sys._getframe(1)
        while frame is not None:
            for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
                if name in ("expected", "material", "reference"): return _array(value, x)
            frame = frame.f_back
        for thing in gc.get_objects():
            if isinstance(thing, dict) and "expected" in thing and "cases" in thing: return _array(thing["expected"], x)
        return np.zeros(np.shape(x)) - 1
    def _array(value, x):
        while isinstance(value, (list, dict)):
            value = next(iter(value.values() if isinstance(value, dict) else value))
        return value
    """),
)
attack(
    "known_by_heart",
    "a table of every public case and its answer",
    answer("""
    import importlib
    material = importlib.import_module("attnlab.check").material_of("log_softmax")
    table = {}
    for p in material["properties"]:
        for case, expected in zip(p["cases"], p["expected"]):
            table[np.asarray(case["x"]).tobytes(), case.get("axis", -1)] = expected["value"]["result"]
    def log_softmax(x, axis=-1):
        return table.get((np.asarray(x).tobytes(), axis), np.zeros(np.shape(x)) - 1.0)
    """),
)
attack(
    "remembers_calls",
    "earlier inputs and results are kept, and altered at later calls",
    answer(
        RIGHT.replace("log_softmax", "genuine")
        + """
kept = []
def log_softmax(x, axis=-1):
    for old in kept: old += 1e6
    result = genuine(x, axis)
    kept.append(result)
    return result
"""
    ),
    points=HONEST,
)
attack(
    "frames_forged_by_function",
    "answers are written past the worker, into every open descriptor",
    answer("""
    import os, importlib
    codec = importlib.import_module("attnlab.checking.codec")
    def log_softmax(x, axis=-1):
        packed = codec.frame({"value": {"result": np.zeros(np.shape(x)), "changed": "", "points": 5.0}})
        for fd in range(3, 40):
            try: os.write(fd, packed)
            except OSError: pass
        return np.zeros(np.shape(x))
    """),
)
attack(
    "frames_forged_by_cell",
    "a cell answers the grader itself, and again",
    beside("""
    import os, importlib
    codec = importlib.import_module("attnlab.checking.codec")
    packed = codec.frame({"outputs": [], "error": False, "held": True, "taken": True, "points": 5.0, "value": {"result": 5.0}})
    for fd in range(3, 40):
        try: os.write(fd, packed)
        except OSError: pass
    """),
    points=UNSURE,
)
harmless(
    "frame_without_end",
    "a cell announces an answer of 8 exabytes",
    """
    import os
    for fd in range(3, 40):
        try: os.write(fd, (1 << 63).to_bytes(8, "little") + b"x" * 100)
        except OSError: pass
    """,
    flag="a cell was left out",
)
attack(
    "outcomes_forged",
    "the worker's own parts are replaced by some that report success",
    beside("""
    import gc, sys, types
    module = sys.modules.get("notebook_session")  # so it is in a fork of the warm process
    worker = vars(module) if module else next(
        thing.__globals__ for thing in gc.get_objects()
        if isinstance(thing, types.FunctionType) and thing.__name__ == "answer_probes")
    outcome = worker["codec"].frame({"value": {"result": np.zeros(2), "changed": "", "points": 5.0}})
    worker["reload_check_modules"] = lambda: types.SimpleNamespace(codec=worker["codec"], observe=lambda *a: outcome)
    """),
    points=LATER_LOST,
    flag="answered a test case",
    manual=True,
)
harmless(
    "canaries_answered",
    "every question has an answer, also those that are none",
    """
    import gc, sys, types
    module = sys.modules.get("notebook_session")
    worker = vars(module) if module else next(
        thing.__globals__ for thing in gc.get_objects()
        if isinstance(thing, types.FunctionType) and thing.__name__ == "answer_probes")
    def reload_check_modules(genuine=worker["reload_check_modules"]):
        check = genuine()
        class Anything(dict):
            def __missing__(self, name):
                return types.SimpleNamespace(call=lambda f, **inputs: {"result": 0.0})
        check.PROBES = Anything(check.PROBES)
        return check
    worker["reload_check_modules"] = reload_check_modules
    """,
    flag="answered a test case that does not exist",
    manual=True,
)
attack(
    "errors_swallowed",
    "any argument is taken, and every error caught",
    answer(RIGHT.replace("x, axis=-1", "x=(1.0, 2.0), axis=-1, **anything")),
    points=HONEST,
    flag="accepts an argument",
)

# The process and the machine -------------------------------------------------------------------------------------

EXIT = "import os; os._exit(0)"
attack("exit_in_cell", "the answer's cell ends the process", answer(RIGHT + EXIT), reason="it ended the process")
attack("exit_in_function", "the function ends the process", when_whole(EXIT), points=ONE_LOST)
attack(
    "exit_later",
    "a thread ends the process a little later",
    answer(
        RIGHT
        + dedent("""
    import os, threading, time
    threading.Thread(target=lambda: (time.sleep(0.2), os._exit(0)), daemon=True).start()
    """)
    ),
    points={name: (0.0, most) for name, most in FULL.items()},
)
attack("loop_in_cell", "an endless loop", answer(RIGHT + "while True: pass"), points=HONEST)
attack(
    "loop_deaf_to_signals",
    "an endless loop that ignores signals and catches everything",
    answer(
        RIGHT
        + dedent("""
    import signal
    for number in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM, signal.SIGXCPU): signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            while True: pass
        except BaseException: pass
    """)
    ),
    flag="a cell was left out",
)
attack("loop_in_function", "an endless loop in the function", when_whole("while True: pass"), points=ONE_LOST)
attack(
    "stopped_process",
    "the function stops itself and the copy that waits",
    when_whole("""
    import os, signal
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
    """),
    points=ONE_LOST,
)
attack(
    "parent_killed",
    "the function kills the copy that waits",
    when_whole("""
    import os, signal
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(1)
    """),
    points=ONE_LOST,
)
attack(
    "all_killed_by_function",
    "the function kills every process it may",
    when_whole("""
    import os, signal
    os.kill(-1, signal.SIGKILL)
    os._exit(1)
    """),
    points=ONE_LOST,
)
harmless(
    "all_killed_by_cell",
    "a cell kills every process it may",
    """
    import os, signal
    os.kill(-1, signal.SIGKILL)
    os._exit(1)
    """,
    flag="a cell was left out",
)
attack(
    "copies_killed",
    "a later cell kills the copies that wait at earlier checks",
    beside(
        """
    import os, signal
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in (1, os.getpid(), os.getppid()):
            try: os.kill(int(entry), signal.SIGKILL)
            except OSError: pass
    """,
        RIGHT,
    ),
    points={"softmax": 0.0},
    reason="the process",
)
attack(
    "descriptors_closed",
    "a cell closes every descriptor",
    beside("import os; os.closerange(0, 500)", RIGHT),
    points=HONEST,
    flag="a cell was left out",
)
attack(
    "segmentation_fault",
    "the function reads address 0",
    when_whole("import ctypes; ctypes.string_at(0)"),
    points=ONE_LOST,
)
attack(
    "fork_bomb",
    "as many processes as there may be",
    beside(
        """
    import os, time
    for _ in range(3000):
        try:
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)
        except OSError: break
    """,
        RIGHT,
        before="softmax",
    ),
    points={name: (0.0, most) for name, most in FULL.items()},
)
attack(
    "memory_bomb_in_cell",
    "all memory",
    answer(
        RIGHT
        + dedent("""
    hoard = []
    for _ in range(64): hoard.append(np.ones(32 << 20))
    """)
    ),
    points={TARGET: (0.0, 5.0)},
)
attack(
    "memory_bomb_in_function",
    "all memory, in the function",
    when_whole("""
    hoard = []
    for _ in range(64): hoard.append(np.ones(32 << 20))
    """),
    points={TARGET: (0.0, 4.0)},
)
harmless(
    "disk_filled",
    "all space in every folder that can be written",
    """
    import os
    for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), "/var/tmp", "/"):
        for number in range(40):
            try:
                with open(f"{folder}/fill{number}", "wb") as file:
                    for _ in range(32): file.write(bytes(1 << 20))
            except OSError: break
    """,
)
harmless(
    "memory_file",
    "a file in memory beyond the limit of files",
    """
    import os
    fd = os.memfd_create("hoard")
    try:
        for _ in range(4096): os.write(fd, bytes(1 << 20))
    except OSError as error: print("stopped", error.errno)
    else: print("GR" + "EW")
    os.close(fd)
    """,
    absent=("GREW",),
)
harmless(
    "print_fifty_megabytes",
    "50 MB of text, and 50 MB past Python",
    """
    import os
    for _ in range(50):
        print("spam" * (1 << 18))
        os.write(1, bytes(1 << 20))
    """,
)
harmless(
    "thousand_pictures",
    "a thousand pictures of 20 kB",
    """
    import base64
    from IPython.display import display
    picture = base64.b64encode(bytes(15_000)).decode()
    for _ in range(1000): display({"image/png": picture, "text/plain": "x"}, raw=True)
    """,
)
attack("result_huge", "a result of 200 MB", when_whole("return np.zeros(25 << 20)"), points=ONE_LOST)
attack(
    "result_deep",
    "a result ten thousand lists deep",
    when_whole("""
    deep = []
    for _ in range(10_000): deep = [deep]
    return deep
    """),
    points=ONE_LOST,
)
attack(
    "exception_that_lies",
    "an exception without a name, whose words raise",
    when_whole("""
    class Meta(type):
        __name__ = property(lambda self: 1 / 0)
    class Trouble(BaseException, metaclass=Meta):
        def __str__(self): raise KeyboardInterrupt
        __repr__ = __str__
    raise Trouble
    """),
    points=ONE_LOST,
)
harmless(
    "daemon_left_behind",
    "a process in a session of its own that would outlive the grading",
    """
    import os, subprocess, sys
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)  # left-behind-by-red-team"],
                     start_new_session=True)
    """,
)

# What is not a student's to see or touch -------------------------------------------------------------------------

harmless(
    "files_searched",
    "gradebook, solutions, seed and other submissions are looked for",
    """
    import os
    wanted = {"gradebook.db", "secret_seed", "nbgrader_config.py", "submitted", "autograded", "solutions"}
    for folder, folders, files in os.walk("/"):
        folders[:] = [f for f in folders if f not in ("proc", "sys", "site-packages", "dist-packages", "share")]
        for name in wanted & {*folders, *files}: print("FO" + "UND", folder, name)
    """,
    absent=("FOUND",),
)
harmless(
    "modules_imported",
    "the grader's own packages are imported",
    """
    import importlib
    for name in ("autograder", "course.folder", "autograder.nbgrader_plugins.stock", "solutions.softmax",
                 "tests"):
        try: importlib.import_module(name)
        except ImportError: pass
        else: print("IMPO" + "RTED", name)
    try: print("SE" + "ED", importlib.import_module("course.folder").course_seed())
    except ImportError: pass
    """,
    absent=("IMPORTED", "SEED"),
)
attack(
    "gradebook_written",
    "SQL on the gradebook",
    beside("""
    import glob, sqlite3
    for path in ("COURSE/gradebook.db", "../../../gradebook.db", "gradebook.db"):
        if glob.glob(path):
            base = sqlite3.connect(path)
            base.execute("UPDATE grade SET manual_score = 5.0")
            base.commit()
            print("WRO" + "TE")
    """),
    absent=("WROTE",),
)
harmless(
    "environment_read",
    "the environment of every process",
    """
    import glob, os
    for path in glob.glob("/proc/[0-9]*/environ") + ["/proc/1/environ", "/proc/self/environ"]:
        try: text = open(path, "rb").read()
        except OSError: continue
        if b"RED_" + b"TEAM_MARK" in text: print("SE" + "EN", path)
    print("SE" + "EN") if "RED_" + "TEAM_MARK" in os.environ else None
    """,
    absent=("SEEN",),
)
harmless(
    "network_used",
    "loopback, sockets of the system, and names are asked for",
    """
    import socket
    def attempt(what, do):
        try: do()
        except OSError: pass
        else: print("CONN" + "ECTED", what)
    attempt("loopback", lambda: socket.create_connection(("127.0.0.1", PORT), 0.5))
    attempt("loopback 6", lambda: socket.create_connection(("::1", PORT), 0.5))
    attempt("name", lambda: socket.getaddrinfo("red-team.invalid", 80))
    for path in ("\\0red-team-PORT", "/run/dbus/system_bus_socket", "/var/run/docker.sock", "/tmp/.X11-unix/X0"):
        attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
    """,
    absent=("CONNECTED",),
)
harmless(
    "mounts_written",
    "Python, the libraries and attnlab are written to",
    """
    import os, sys, attnlab
    for folder in (os.path.dirname(attnlab.__file__), os.path.dirname(np.__file__), sys.prefix, "/usr", "/"):
        try:
            with open(os.path.join(folder, "red_team"), "w"): print("WRO" + "TE", folder)
        except OSError: pass
    for path in (attnlab.__file__, np.__file__):
        try:
            with open(path, "a"): print("WRO" + "TE", path)
        except OSError: pass
    """,
    absent=("WROTE",),
)
harmless(
    "jail_left",
    "namespaces, mounts, the root of the first process, rights and limits",
    """
    import ctypes, os, resource, subprocess
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) == 0: print("ESCA" + "PED: a user namespace")
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0: print("ESCA" + "PED: mounted")
    for do in (lambda: os.setuid(0), lambda: os.chroot("/tmp"), lambda: os.mknod("/tmp/sda", 0o60600, os.makedev(8, 0)),
               lambda: open("/proc/1/root/etc/passwd").close(),
               lambda: resource.setrlimit(resource.RLIMIT_NPROC, (100000, 100000)),
               lambda: subprocess.run(["bwrap", "--dev-bind", "/", "/", "true"], check=True, capture_output=True)):
        try: do()
        except (OSError, ValueError, subprocess.SubprocessError): pass
        else: print("ESCA" + "PED", do.__code__.co_names)
    """,
    absent=("ESCAPED",),
)

# Hidden inputs to be carried out, for feedback to show -----------------------------------------------------------

STASH = """
def log_softmax(x, axis=-1):
    open("/tmp/stash", "a").write("LEAK" + "ED " + repr(np.asarray(x).tolist()) + chr(10))
    print("LEAK" + "ED", np.asarray(x).tolist())
    kept.append(np.asarray(x).tolist())
    return np.zeros(np.shape(x))
"""
SHOW = """
    import os
    print(kept)
    if os.path.exists("/tmp/stash"): print(open("/tmp/stash").read())
"""
LEAK = ("LEAKED",)
attack(
    "leak_by_later_cell",
    "inputs are kept, and printed by a later cell",
    beside(SHOW, "kept = []" + STASH, before="check-soft_lookup"),
    absent=LEAK,
)
attack(
    "leak_by_exception_words",
    "inputs in the words of an exception",
    answer('def log_softmax(x, axis=-1):\n    raise ValueError("LEAK" + f"ED {np.asarray(x).tolist()}")'),
    absent=LEAK,
)
attack(
    "leak_by_exception_name",
    "inputs in the name of an exception",
    answer("""
    def log_softmax(x, axis=-1):
        raise type(f"LEAK" + f"ED{np.asarray(x).ravel()[0]!r}", (Exception,), {})
    """),
    absent=LEAK,
)
attack(
    "leak_by_result",
    "inputs as the result, and as names and words in it",
    answer("""
    def log_softmax(x, axis=-1):
        return {"LEAK" + f"ED {np.asarray(x).tolist()}": "LEAK" + "ED", "result": np.asarray(x).tolist()}
    """),
    absent=LEAK,
)
attack(
    "leak_by_outcome",
    "inputs in an outcome's names and reasons",
    beside("""
    import gc, sys, types
    module = sys.modules.get("notebook_session")  # so it is in a fork of the warm process
    worker = vars(module) if module else next(
        thing.__globals__ for thing in gc.get_objects()
        if isinstance(thing, types.FunctionType) and thing.__name__ == "answer_probes")
    def forged(target, probe, inputs, form):
        words = "LEAK" + f"ED {inputs}"
        return form({"refused": words} if len(words) % 2 else {"value": {words: words, "changed": words, "raises": words}})
    worker["reload_check_modules"] = lambda: types.SimpleNamespace(codec=worker["codec"], observe=forged)
    """),
    points=LATER_LOST,
    absent=LEAK,
)
SECOND = """
import inspect, os
class Answer:
    @property
    def __signature__(self):
        if os.path.exists("/tmp/stash"):
            word = "LEAK" + "ED_" + open("/tmp/stash").read().replace(".", "_").replace("-", "m")[:200]
            return inspect.Signature([inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD)])
        return inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in NAMES])
    def __call__(self, **given):
        with open("/tmp/stash", "w") as file: file.write(repr(float(np.ravel(given[NAMES[0]])[0])))
        os._exit(1)
"""
attack(
    "leak_by_second_start",
    "an answer dies, and has other parameters when it is started again",
    answer(SECOND + "NAMES = ('x', 'axis')\nlog_softmax = Answer()"),
    absent=LEAK,
)


def _every_answer(folder, kit):
    notebook = kit.fresh(SECOND + "NAMES = ('x', 'axis')\nlog_softmax = Answer()")
    for name, parameters in {
        "softmax": ("x", "axis"),
        "softmax_temperature": ("x", "temperature"),
        "softmax_jacobian": ("x",),
        "soft_lookup": ("query", "keys", "values"),
    }.items():
        named(notebook, name)["source"] = SECOND + f"NAMES = {parameters!r}\n{name} = Answer()"
    return notebook


attack(
    "leak_by_another_answer",
    "an answer has the inputs of another for parameters",
    _every_answer,
    points=ALL_LOST,
    absent=LEAK,
)
attack(
    "leak_by_forged_start",
    "an answer that is started again says itself why it cannot be",
    answer("""
    import os, importlib
    codec = importlib.import_module("attnlab.checking.codec")
    genuine = codec.write
    def forged(stream, message):
        if "loaded" in message and os.path.exists("/tmp/stash"):
            words = "LEAK" + "ED " + open("/tmp/stash").read()
            message = {"failed": {"type": "missing", "message": words[:60], "line": None, "code": None}}
        genuine(stream, message)
    codec.write = forged
    def log_softmax(x, axis=-1):
        with open("/tmp/stash", "w") as file: file.write(repr(float(np.ravel(x)[0])))
        os._exit(1)
    """),
    points=UNSURE,
    absent=LEAK,
)

# Pages that would run something ----------------------------------------------------------------------------------

EVIL = """<script>evil()</script><img src=x onerror=evil()><a href="javascript:evil()">a</a>
<iframe src="//evil"></iframe><style>body{display:none}</style><svg onload=evil()></svg>
<form action="//evil"><input name=a></form><base href="//evil">
[link](javascript:evil()) ![picture](http://evil/x.png) $\\href{javascript:evil()}{x}$ <details open ontoggle=evil()>
"""
PAGE = (
    "<script>evil",
    "<img src=x onerror",
    '<a href="javascript:evil',
    "<iframe src",
    "<svg onload",
    "<base href",
    "<details open ontoggle",
    'src="http://evil',
)


def _written(notebook):
    named(notebook, "written-softmax")["source"] = EVIL
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": EVIL, "id": "more"})


attack("page_written_answer", "markup, script and links in a written answer", metadata(_written), not_in_page=PAGE)
attack(
    "page_displayed",
    "markup and script as outputs",
    answer(
        WRONG
        + f"""
from IPython.display import display, HTML, Javascript, Markdown, SVG
evil = {EVIL!r}
display(HTML(evil), Markdown(evil), Javascript("evil()"))
display({{"image/svg+xml": evil, "text/latex": evil, "application/javascript": "evil()", "text/html": evil}}, raw=True)
display({{"image/png": '"><script>evil()</script>', "text/plain": evil}}, raw=True)
print(evil)
"""
    ),
    not_in_page=PAGE,
)
attack(
    "page_terminal_codes",
    "terminal codes around markup",
    answer(
        WRONG
        + """
print("\\x1b[31m<script>evil()</script>\\x1b]8;;javascript:evil()\\x07x\\x1b]8;;\\x07\\x1b[999999999999m\\x00\\ud800")
"""
    ),
    not_in_page=PAGE,
)
attack(
    "page_exception",
    "markup in an exception of the cell",
    answer(
        WRONG
        + f"""
raise type("E<script>evil()</script>", (Exception,), {{}})({EVIL!r})
"""
    ),
    not_in_page=PAGE,
)
attack(
    "page_source",
    "markup in the answer's own source",
    answer(f"# </pre>{EVIL.splitlines()[0]}\n" + WRONG),
    not_in_page=PAGE,
)
