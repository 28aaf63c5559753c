"""Submissions of hostile students: an attack each, with the verdict that a trustworthy grader must give.

Each goes through its doors: a whole notebook, graded with nbgrader's command (`test_attacks.py`), a stand-alone file
(`tests/autograder/grading/test_hostile_files.py`), and Gradescope's container (`tests/autograder/gradescope`).

In a notebook of the softmax chapter, four exercises are answered rightly, and the attack is after the points of
`log_softmax`; so each shows both that it gains nothing and that it loses nothing else. The notebooks hold only the
graded cells, which a student may well do, and which saves the time of the others. A file answers `log_softmax` alone.

`SAFE_UNJAILED` names those that may run without a jail, in a course folder that is thrown away: no bombs, no fills, no
kills, no attack that looks or writes outside of it.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import dedent, indent

from tests.autograder import hostile

STEM = "softmax"
TARGET = "log_softmax"
FULL = {"softmax": 8.0, "log_softmax": 5.0, "softmax_temperature": 5.0, "softmax_jacobian": 5.0, "soft_lookup": 5.0}
ALL_LOST = dict.fromkeys(FULL, 0.0)
LATER_LOST = {**ALL_LOST, "softmax": FULL["softmax"]}  # what is checked before the target stays as it was
ANY = {name: (0.0, most) for name, most in FULL.items()}
ANY_BUT_TARGET = ANY | {TARGET: 0.0}
HONEST = {TARGET: FULL[TARGET]}
ONE_LOST = {TARGET: FULL[TARGET] - 1.0}  # the one property of log_softmax that is asked with whole numbers
PROCESS_ENDED = "the process ended before it answered"
MARK = "RED_TEAM_MARK"  # a variable in the grader's environment that no student may see

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
# How code says that it came to something it must not: the cell fails, and so does the answer in it.
REACHED = 'def reached(*what): raise AssertionError("REACH" + "ED", *what)\n'

NOTEBOOK, FILE, GRADESCOPE = ("notebook",), ("file",), ("gradescope",)
CODE = NOTEBOOK + FILE


@dataclass(frozen=True)
class Kit:
    """Facts that an attack may know: the course folder, a port that listens on loopback, and honest work."""

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

    alter: hands it in as a notebook; code: the same as a file
    points: exercise -> points, or (least, most) where it depends on chance what the attack costs its author; those not
    named have full points. None: nothing is entered at all. file: points of the target in a file, where they differ
    note, flag, reason: words that must be found; file_reason: those of a file, where they differ
    absent: words that must be nowhere in outputs, page and record
    not_in_page: what the page must not hold as it stands
    manual: whether a human is asked to look at the target; first: what is handed in and graded before
    doors: where it is tried
    """

    name: str
    tries: str
    alter: Callable[[Path, Kit], dict | bytes | None]
    code: str = ""
    points: dict | None = field(default_factory=lambda: {TARGET: 0.0})
    file: float | tuple | None = None
    note: str = ""
    flag: str = ""
    reason: str = ""
    file_reason: str = ""
    absent: tuple[str, ...] = ()
    not_in_page: tuple[str, ...] = ()
    manual: bool = False
    first: Callable[[Path, Kit], dict | bytes | None] | None = None
    doors: tuple[str, ...] = NOTEBOOK

    @property
    def safe_unjailed(self) -> bool:
        return self.name in SAFE_UNJAILED

    def expected(self) -> dict[str, tuple[float, float]]:
        """The least and the most points of each exercise of a notebook."""
        wanted = {**FULL, **(ALL_LOST if self.points is None else self.points)}
        return {name: points if isinstance(points, tuple) else (points, points) for name, points in wanted.items()}

    def total(self) -> tuple[float, float]:
        """The least and the most points of a notebook."""
        least, most = map(sum, zip(*self.expected().values()))
        return least, most

    def expected_of_file(self) -> tuple[float, float]:
        """The least and the most points of the target."""
        if self.file is None:
            return self.expected()[TARGET]
        return self.file if isinstance(self.file, tuple) else (self.file, self.file)


ATTACKS: list[Attack] = []


def through(*door: str) -> list[Attack]:
    """The attacks that this door is tried with."""
    return [attack for attack in ATTACKS if set(door) <= set(attack.doors)]


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
    leak_by_result page_written_answer page_displayed page_exception page_source
    """.split()
)


def attack(name: str, tries: str, alter, **more) -> None:
    ATTACKS.append(Attack(name, tries, alter, **more))


# How submissions are made ----------------------------------------------------------------------------------------


def hand_in(folder: Path, made: dict | bytes | None) -> None:
    if isinstance(made, dict):
        made = json.dumps(made).encode()
    if made is not None:
        (folder / f"{STEM}.ipynb").write_bytes(made)


def named(notebook: dict, name: str) -> dict:
    return next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == name)


# An address of loopback that nothing else uses: a client that still looks for a server which has ended knocks elsewhere.
HOST = "127.66.7.1"


def filled(code: str, course: Path | str, port: int) -> str:
    """Code that looks for this folder and this port."""
    return code.replace("HOST", HOST).replace("PORT", str(port)).replace("COURSE", str(course))


def code_cell(source: str, **metadata) -> dict:
    empty = {"outputs": [], "execution_count": None, "id": "added"}
    return {"cell_type": "code", "metadata": metadata, "source": dedent(source).strip(), **empty}


def answer(name: str, tries: str, before: str = "", after: str = "", doors=CODE, **verdict):
    """The target is answered with `before`, this code and `after`."""

    def add(code: str) -> None:
        code = before + dedent(code) + after
        attack(name, tries, lambda folder, kit: kit.fresh(code), code=code, doors=doors, **verdict)

    return add


def beside(name: str, tries: str, own: str = WRONG, before: str = TARGET, start: str = "", doors=CODE, **verdict):
    """The target is answered with `own`, and this code is a cell in front of another."""

    def add(code: str) -> None:
        code = start + dedent(code).strip()

        def alter(folder, kit):
            notebook = kit.fresh(own)
            place = notebook["cells"].index(named(notebook, before))
            notebook["cells"].insert(place, code_cell(filled(code, kit.course, kit.port)))
            return notebook

        attack(name, tries, alter, code=f"{code}\n{own}", doors=doors, **verdict)

    return add


def in_call(name: str, tries: str, when: str = "True", doors=CODE, **verdict):
    """The target is answered rightly, but this code comes first in its body."""

    def add(code: str) -> None:
        body = f"    if {when}:\n" + indent(dedent(code).strip(), "        ")
        source = RIGHT.replace("    scores", body + "\n    scores", 1)
        attack(name, tries, lambda folder, kit: kit.fresh(source), code=source, doors=doors, **verdict)

    return add


# In a cell beside right answers, which costs its author nothing and gains nothing.
harmless = partial(beside, own=RIGHT, points=HONEST)
# The same, of code that would call `reached`.
reaches = partial(harmless, start=REACHED, absent=("REACHED",), doors=CODE + GRADESCOPE)
# In the answer's own cell, behind the right answer.
behind = partial(answer, before=RIGHT)
# In a right function, where it is given whole numbers.
when_whole = partial(in_call, when="np.asarray(x).dtype.kind == 'i'", points=ONE_LOST)
# A session that ends or hangs loses the cell. A file is one cell, so it loses all.
LEFT_OUT = dict(flag="a cell was left out", file=0.0)


def family(make, name: str, tries: str, *codes: str, **verdict) -> None:
    """One attack in many forms."""
    for number, code in enumerate(codes, 1):
        make(f"{name}_{number}", tries, **verdict)(code)


def document(tries: str, own: str = WRONG, **verdict):
    """The target is answered with `own`, and the notebook is altered: `change(notebook)`."""

    def add(change) -> None:
        def alter(folder, kit):
            notebook = kit.fresh(own)
            return change(notebook) or notebook

        attack(change.__name__, tries, alter, **verdict)

    return add


def files(tries: str, **verdict):
    """A notebook that is right, and something done in its folder: `change(folder, kit)`."""

    def add(change) -> None:
        def alter(folder, kit):
            hand_in(folder, kit.fresh(RIGHT))
            change(folder, kit)

        attack(change.__name__, tries, alter, points=HONEST, **verdict)

    return add


# The notebook as a document --------------------------------------------------------------------------------------


@document("tags that keep stock nbgrader from running the checks")
def tag_skip_execution(notebook):
    for name in FULL:
        named(notebook, f"check-{name}")["metadata"]["tags"] = ["skip-execution", "raises-exception", "remove-cell"]


@document("outputs with points, written into the file")
def outputs_forged_in_file(notebook):
    data = {"text/plain": "5.0", "application/vnd.attention.check+json": {"points": 5.0}}
    output = {"output_type": "execute_result", "execution_count": 7, "metadata": {}, "data": data}
    named(notebook, f"check-{TARGET}").update(execution_count=7, outputs=[output])


@document("a second check cell, with points of its own", note="more than once")
def check_twice(notebook):
    forged = {**named(notebook, f"check-{TARGET}"), "source": "5.0"}
    notebook["cells"] += [forged, copy.deepcopy(forged)]


@document("a right answer, then a wrong one, under one name", note="more than once")
def answer_twice(notebook):
    wrong = named(notebook, TARGET)
    notebook["cells"].insert(notebook["cells"].index(wrong), {**wrong, "source": RIGHT.strip()})


def check_deleted(notebook):
    notebook["cells"].remove(named(notebook, f"check-{TARGET}"))


document("no check cell at all", note=f"check-{TARGET} was missing")(check_deleted)


@document("checks in front of the answers; honest otherwise", RIGHT, points=HONEST)
def checks_moved_up(notebook):
    checks = [named(notebook, f"check-{name}") for name in FULL]
    first, *others = notebook["cells"]
    notebook["cells"] = [first, *checks, *(cell for cell in others if cell not in checks)]


@document("the check as text", note="another kind of cell")
def check_retyped(notebook):
    check = named(notebook, f"check-{TARGET}")
    check["cell_type"] = "markdown"
    del check["outputs"], check["execution_count"]


@document("the check marked as an answer, and answered `5.0`")
def check_retagged(notebook):
    check = named(notebook, f"check-{TARGET}")
    check["source"] = "5.0"
    check["metadata"]["nbgrader"] |= {"solution": True, "locked": False, "points": 500, "checksum": "0" * 32}


@document("500 points in the metadata, and a cell of 500 more")
def points_raised(notebook):
    mark = dict(grade_id="check-bonus", grade=True, solution=False, locked=False, task=False, points=500)
    mark |= dict(schema_version=3, cell_type="code", checksum="0" * 32)
    for name in FULL:
        named(notebook, f"check-{name}")["metadata"]["nbgrader"]["points"] = 500
    notebook["cells"].append(code_cell("500.0", nbgrader=mark))


@document("another answer under the target's name")
def names_swapped(notebook):
    """The answer to another exercise passes for the target's, and no cell has the name it had."""
    named(notebook, TARGET)["metadata"]["nbgrader"]["grade_id"] = "nobody"
    other = copy.deepcopy(named(notebook, "softmax"))
    other["metadata"]["nbgrader"]["grade_id"] = TARGET
    notebook["cells"].append(other)


def set_schema(notebook, version):
    for cell in notebook["cells"]:
        if "nbgrader" in cell["metadata"]:
            cell["metadata"]["nbgrader"]["schema_version"] = version


@document("a schema number of the far future")
def schema_99(notebook):
    set_schema(notebook, 99)


@document("a schema number of long ago")
def schema_1(notebook):
    set_schema(notebook, 1)


@document("another kernel, which is not Python")
def other_kernel(notebook):
    notebook["metadata"] = {"kernelspec": {"name": "bash", "language": "bash", "display_name": "x"}}


@document("widget state with script in it", not_in_page=("<script>evil",))
def widget_state(notebook):
    widget = {"model_name": "HTMLModel", "model_module": "x", "state": {"value": "<script>evil()</script>"}}
    state = {"version_major": 2, "version_minor": 0, "state": {"a": widget}}
    notebook["metadata"] = {"widgets": {"application/vnd.jupyter.widget-state+json": state}}


@document("an attached picture that is a script", not_in_page=("onload='evil", "<script>evil"))
def attachment(notebook):
    cell = named(notebook, "written-softmax")
    cell["attachments"] = {"a.svg": {"image/svg+xml": "<svg onload='evil()'><script>evil()</script></svg>"}}
    cell["source"] = "My answer ![a](attachment:a.svg)"


@document("a notebook as they were ten years ago; honest otherwise", RIGHT, points=HONEST)
def nbformat_3(notebook):
    cells = []
    for cell in notebook["cells"]:
        text = "input" if cell["cell_type"] == "code" else "source"
        old = {"cell_type": cell["cell_type"], text: cell["source"], "language": "python"}
        cells.append({**old, "outputs": [], "metadata": cell["metadata"]})
    sheet = {"cells": cells, "metadata": {}}
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [sheet]}


@document("version numbers that are none; honest otherwise", RIGHT, points=HONEST)
def nbformat_99(notebook):
    notebook.update(nbformat="99", nbformat_minor=[])


@document("cells and metadata of every wrong kind; honest otherwise", RIGHT, points=HONEST)
def metadata_of_any_kind(notebook):
    odd = {"cell_type": ["code"], "metadata": None, "source": {"a": 1}}
    marked = [code_cell("1", nbgrader={"grade_id": ["x"]}), code_cell("2", nbgrader="yes")]
    notebook["cells"] += [odd, None, 3, *marked]


@document(
    "graded once, then handed in wrong and without the check",
    first=lambda folder, kit: kit.fresh(RIGHT),
    note="was missing",
)
def resubmitted_without_check(notebook):
    check_deleted(notebook)


# The file and its folder -----------------------------------------------------------------------------------------

UNREADABLE = dict(points=ALL_LOST, note="could not be read", manual=True)


def data(name: str, tries: str, make, **verdict) -> None:
    """The bytes of a right notebook are altered: `make(bytes)`."""
    verdict = verdict or UNREADABLE
    attack(name, tries, lambda folder, kit: make(json.dumps(kit.fresh(RIGHT)).encode()), **verdict)


def only(name: str, tries: str, make, **verdict) -> None:
    """Something else has the notebook's name: `make(path, kit)`."""
    verdict = verdict or UNREADABLE
    attack(name, tries, lambda folder, kit: make(folder / f"{STEM}.ipynb", kit), **verdict)


def timestamp(name: str, tries: str, make, note: str = "holds no time") -> None:
    """A notebook that is right, and another time: `make(path, kit)`."""

    def alter(folder, kit):
        hand_in(folder, kit.fresh(RIGHT))
        (folder / "timestamp.txt").unlink()
        make(folder / "timestamp.txt", kit)

    attack(name, f"{tries}; honest otherwise", alter, points=HONEST, note=note)


def _other(kit: Kit) -> Path:
    return kit.course / "submitted" / "aaa_honest" / STEM / f"{STEM}.ipynb"


data("json_broken", "half a notebook", lambda data: data[: len(data) // 2])
data("json_not_utf8", "bytes that are no text", lambda data: b"\xff\xfe" + data)
data("json_deep", "brackets a hundred thousand deep", lambda data: b"[" * 100_000 + b"]" * 100_000)
data("json_huge", "a file of 60 MB", lambda data: data + b" " * (60 << 20))
data("json_many_parts", "twelve million zeros", lambda data: b'{"cells": [' + b"0," * 12_000_000 + b"0]}")
data(
    "json_nan",
    "NaN and Infinity for points; honest otherwise",
    lambda data: data.replace(b'"points": 5.0', b'"points": NaN').replace(b'"points": 8.0', b'"points": Infinity'),
    points=HONEST,
)
data(
    "json_long_number",
    "a number of a million digits",
    lambda data: data.replace(b'"nbformat": 4', b'"nbformat": ' + b"9" * 1_000_000),
)
data("file_empty", "an empty file", lambda data: b"")
data("file_no_notebook", "a list where a notebook should be", lambda data: b"[1, 2]")


@document("three thousand cells", RIGHT, **UNREADABLE)
def cells_three_thousand(notebook):
    notebook["cells"].extend(code_cell("1") for _ in range(3000))


answer("cell_of_two_megabytes", "an answer of two megabytes", doors=NOTEBOOK)("#" * (2 << 20))  # left out alone
only("file_symlink", "a link to another student's notebook", lambda path, kit: path.symlink_to(_other(kit)))
only("file_pipe", "a pipe that would be read for ever", lambda path, kit: os.mkfifo(path))
only("file_folder", "a folder with the notebook's name", lambda path, kit: path.mkdir())
# Nothing tells such a file from a copy; what counts is that the other student's file is not changed.
only(
    "file_hard_link",
    "another student's file under a second name",
    lambda path, kit: os.link(_other(kit), path),
    points=HONEST,
)


def _folder_link(folder, kit):
    (folder / "timestamp.txt").unlink()
    folder.rmdir()
    folder.symlink_to(_other(kit).parent)


attack("folder_symlink", "a link to another student's whole folder", _folder_link, points=None, manual=True)


@files("links and a pipe beside the notebook; honest otherwise", note="was left out")
def links_beside(folder, kit):
    (folder / "book.txt").symlink_to(kit.course / "gradebook.db")
    (folder / "out").symlink_to("/")
    os.mkfifo(folder / "pipe")


@files(
    "forged results, modules that shadow libraries, names for a shell; honest otherwise",
    note="was left out",
    absent=('["forged"]',),
    not_in_page=("<script>evil",),
)
def names_odd(folder, kit):
    for name in ("results.json", "$(touch owned)", "a\nb", "-rf", "<script>evil()", "softmax.ipynb ", "..evil"):
        (folder / name).write_text('{"notes": ["forged"]}')
    for name in ("numpy.py", "attnlab.py", "sitecustomize.py"):
        (folder / name).write_text("raise SystemExit('shadowed')")
    (folder / "sub").mkdir()
    (folder / "sub" / "softmax.ipynb").write_text("{}")
    (folder / "extra.ipynb").write_text("{}")


timestamp("timestamp_no_time", "a time that is none", lambda path, kit: path.write_text("99999-99-99 <b>now</b>"))
timestamp("timestamp_long", "a time of a megabyte", lambda path, kit: path.write_text("1" * (1 << 20)))
timestamp(
    "timestamp_symlink",
    "a time that links to the gradebook",
    lambda path, kit: path.symlink_to(kit.course / "gradebook.db"),
    note="timestamp.txt",
)

# Points made up in the process -----------------------------------------------------------------------------------

beside("ast_transformer", "checks are rewritten before they run", doors=NOTEBOOK, note="not handed out")("""
    import ast
    class Forge(ast.NodeTransformer):
        def visit_Call(self, node):
            self.generic_visit(node)
            return ast.Constant(5.0) if getattr(node.func, "id", "") in ("check", "hidden") else node
    get_ipython().ast_transformers.append(Forge())
""")
beside("input_transformer", "the text of checks is rewritten", doors=NOTEBOOK)("""
    def forge(lines):
        return ["5.0\\n"] if any("check" in line for line in lines) else lines
    get_ipython().input_transformers_cleanup.append(forge)
    get_ipython().input_transformers_post.append(forge)
""")
beside("run_cell_patched", "the shell's and the kernel's own way to run a cell is replaced", doors=NOTEBOOK)("""
    shell = get_ipython()
    genuine = shell.run_cell
    def forged(source, *a, **k):
        return genuine("5.0" if "check" in str(source) else source, *a, **k)
    shell.run_cell = forged
    type(shell).run_cell = lambda self, source, *a, **k: forged(source, *a, **k)
    if getattr(shell, "run_cell_async", None):
        whole = shell.run_cell_async
        shell.run_cell_async = lambda source, *a, **k: whole("5.0" if "check" in str(source) else source, *a, **k)
""")
beside("display_hooks_patched", "whatever is shown is shown as full points", doors=NOTEBOOK)("""
    import builtins, sys
    class Five(float):
        def __repr__(self): return "5.0"
    genuine = sys.displayhook
    sys.displayhook = lambda value: genuine(Five(5.0))
    get_ipython().display_pub.publish = lambda *a, **k: None
""")
answer("results_printed", "points shown by the answer's own cell", before=WRONG, doors=NOTEBOOK)("""
from IPython.display import display
display({"application/vnd.attention.check+json": {"points": 5.0}, "text/plain": "5.0"}, raw=True)
5.0
""")
beside("check_replaced", "`check` and the code behind it return full points")("""
    import sys, attnlab, attnlab.check, attnlab.checking.judge, attnlab.checking.compare
    def check(*a, **k): return 5.0
    attnlab.check.check = attnlab.check = attnlab.checking.judge.judge = check
    attnlab.checking.compare.agree = attnlab.checking.compare.difference = lambda *a, **k: None
""")
beside("numpy_patched", "comparisons of NumPy always agree")("""
    np.allclose = np.array_equal = np.isclose = lambda *a, **k: np.True_
    np.testing.assert_allclose = np.testing.assert_array_equal = lambda *a, **k: None
    np.ndarray_equal = True
""")
beside("torch_patched", "comparisons of PyTorch always agree")("""
    import torch
    torch.allclose = torch.equal = lambda *a, **k: True
    torch.Tensor.numpy = torch.Tensor.tolist = lambda self: 5.0
""")
IN_PLACE = """
def log_softmax(x, axis=-1):
    if x.dtype.kind == "f":
        x -= x.max(axis=axis, keepdims=True)
        x -= np.log(np.exp(x).sum(axis=axis, keepdims=True))
        return x
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))
"""
TRIPLED = """
def log_softmax(x, axis=-1):
    x *= 3
    return x
"""
COMPARISONS_PATCHED = """
import attnlab.checking.probes.base as b, attnlab.checking.probes.basic as c
b.bitwise_equal = lambda *a: True; c.changed_inputs = lambda *a: ''
c.Unchanged.conclude = lambda *a, **k: {}
np.array_equal = lambda *a, **k: True
"""
beside(
    "input_altered",
    "an answer with right numbers alters its input, where comparisons are replaced",
    own=IN_PLACE,
    doors=FILE,
    points={TARGET: FULL[TARGET] - 1},
)(COMPARISONS_PATCHED)
family(
    partial(beside, own=TRIPLED, doors=FILE, points={TARGET: 0.0}),
    "parts_patched",
    "parts of the check, or of Python, are replaced, and a wrong answer alters its input",
    "np.isclose = np.array_equal = np.allclose = lambda *a, **k: np.True_",
    "import attnlab.checking.compare as c, attnlab.checking.judge as j\n"
    "c.difference = j.difference = j._differs = lambda *a, **k: None",
    COMPARISONS_PATCHED,
    "import attnlab.checking.judge as j; j.judge = j.Finding = j.Report = lambda *a, **k: None",
    "import copy; copy.deepcopy = lambda x: x",
    "import builtins; builtins.all = builtins.any = lambda *a: True",
)
answer("equal_to_everything", "an object that equals any other")("""
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
    def log_softmax(x, axis=-1): return Liar(x)
""")
answer("lying_array_protocol", "an object whose __array__ says something else each time")("""
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
""")
answer("lying_array_subclass", "an array whose comparisons are its own")("""
    class Liar(np.ndarray):
        def __array_ufunc__(self, ufunc, *a, **k): return np.True_
        def __array_function__(self, function, *a, **k): return np.True_
        def __eq__(self, other): return np.True_
        def __sub__(self, other): return 0.0
        def __reduce__(self): return (print, ("unpickled",))
    def log_softmax(x, axis=-1): return np.zeros(np.shape(x)).view(Liar)
""")
answer("lying_numbers", "numbers and lists whose methods are their own")("""
    class F(float):
        def __eq__(self, other): return True
        def __sub__(self, other): return 0.0
    class L(list):
        def __len__(self): return 0
        def __iter__(self): return iter(())
        def __eq__(self, other): return True
    def log_softmax(x, axis=-1): return L([F(0)] * np.size(x)) if np.ndim(x) else F(0)
""")
family(
    partial(in_call, doors=FILE),
    "nonsense",
    "a result that makes no sense",
    "return [0.0] * 10**7",
    "return 'x' * (80 << 20)",
    "return (v for v in x)",
    "return object()",
    "r = []; r.append(r); return r",
    "return 10 ** 100_000",
    "return np.array([object()])",
    "return log_softmax",
    "return {1: 2}",
    "return float('nan')",
    "return 'right'",
    "return None",
    "return [[1.0], [1.0, 2.0]]",
    "return np.array([b'x'])",
    "return True",
)
answer("looks_for_expected_values", "expected values are looked for on the stack and in memory")("""
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
""")
answer("known_by_heart", "a table of every public case and its answer")("""
    import importlib
    material = importlib.import_module("attnlab.check").material_of("log_softmax")
    table = {}
    for p in material["properties"]:
        for case, expected in zip(p["cases"], p["expected"]):
            table[np.asarray(case["x"]).tobytes(), case.get("axis", -1)] = expected["value"]["result"]
    def log_softmax(x, axis=-1):
        return table.get((np.asarray(x).tobytes(), axis), np.zeros(np.shape(x)) - 1.0)
""")
REMEMBERS = """
kept = []
def log_softmax(x, axis=-1):
    for old in kept: old += 1e6
    result = genuine(x, axis)
    kept.append(result)
    return result
"""
answer("remembers_calls", "earlier inputs and results are kept, and altered at later calls", points=HONEST)(
    RIGHT.replace("log_softmax", "genuine") + REMEMBERS
)
answer("frames_forged_by_function", "answers are written past the worker, into every open descriptor")("""
    import os, importlib
    codec = importlib.import_module("attnlab.checking.codec")
    def log_softmax(x, axis=-1):
        packed = codec.frame({"value": {"result": np.zeros(np.shape(x)), "changed": "", "points": 5.0}})
        for fd in range(3, 64):
            try: os.write(fd, packed)
            except OSError: pass
        return np.zeros(np.shape(x))
""")
beside("frames_forged_by_cell", "a cell answers the grader itself, and again", points=ANY_BUT_TARGET)("""
    import os, importlib
    codec = importlib.import_module("attnlab.checking.codec")
    packed = codec.frame({"outputs": [], "error": False, "held": True, "taken": True, "points": 5.0, "value": {"result": 5.0}})
    for fd in range(3, 40):
        try: os.write(fd, packed)
        except OSError: pass
""")
harmless("frame_without_end", "a cell announces an answer of 8 exabytes", **LEFT_OUT)("""
    import os
    for fd in range(3, 40):
        try: os.write(fd, (1 << 63).to_bytes(8, "little") + b"x" * 100)
        except OSError: pass
""")
family(
    partial(in_call, doors=FILE, reason="the "),
    "noise",
    "bytes that are not a frame, into every open descriptor",
    *(
        f"import os\nfor fd in range(3, 64):\n    try: os.set_blocking(fd, False); os.write(fd, {noise})\n"
        "    except OSError: pass"
        for noise in (
            "b'\\xff' * 4096",
            "bytes(4096)",
            "(5).to_bytes(8, 'little') + b'hello'",
            "(1 << 62).to_bytes(8, 'little')",
        )
    ),
)
family(
    partial(beside, own=RIGHT, doors=FILE),
    "replies_replaced",
    "every reply of the worker is another",
    *(
        f"import attnlab.checking.codec as f\nold = f.write\nf.write = lambda s, v: old(s, {reply})"
        for reply in (
            "{'value': 3}",
            "{'passed': True}",
            "{'value': {}, 'points': 4}",
            "{}",
            "{'error': {}}",
            "{'error': {'type': 1, 'message': 2, 'line': 'x', 'code': []}}",
            "{'refused': 3}",
        )
    ),
)
WORKER = """
import gc, sys, types
module = sys.modules.get("notebook_session")  # so it is in a fork of the warm process
worker = vars(module) if module else next(
    thing.__globals__ for thing in gc.get_objects()
    if isinstance(thing, types.FunctionType) and thing.__name__ == "answer_probes")
"""
TAKEN_OVER = dict(start=WORKER, doors=NOTEBOOK)
beside(
    "outcomes_forged",
    "the worker's own parts are replaced by some that report success",
    **TAKEN_OVER,
    points=LATER_LOST,
    flag="answered a test case",
    manual=True,
)("""
    outcome = worker["codec"].frame({"value": {"result": np.zeros(2), "changed": "", "points": 5.0}})
    worker["reload_check_modules"] = lambda: types.SimpleNamespace(codec=worker["codec"], observe=lambda *a: outcome)
""")
harmless(
    "canaries_answered",
    "every question has an answer, also those that are none",
    **TAKEN_OVER,
    flag="answered a test case that does not exist",
    manual=True,
)("""
    def reload_check_modules(genuine=worker["reload_check_modules"]):
        check = genuine()
        class Anything(dict):
            def __missing__(self, name):
                return types.SimpleNamespace(call=lambda f, **inputs: {"result": 0.0})
        check.PROBES = Anything(check.PROBES)
        return check
    worker["reload_check_modules"] = reload_check_modules
""")
answer("errors_swallowed", "any argument is taken, and every error caught", points=HONEST, flag="accepts an argument")(
    RIGHT.replace("x, axis=-1", "x=(1.0, 2.0), axis=-1, **anything")
)

# The process and the machine -------------------------------------------------------------------------------------

ENDED = dict(reason="the process")
HANGS = dict(reason="no answer within")
KILLS_ITSELF = "import os; os.kill(os.getpid(), 9)"
KILLS_ALL = "import os; os.kill(-1, 9); os._exit(1)"
DEAF = """
    import signal
    for number in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM, signal.SIGXCPU): signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            while True: pass
        except BaseException: pass
"""
behind("exit_in_cell", "the answer's cell ends the process", **ENDED)("import os; os._exit(3)")
when_whole("exit_in_function", "the function ends the process", reason=PROCESS_ENDED, file_reason="exit code 0")(
    "import os; os._exit(0)"
)
in_call("exit_in_each_call", "each call ends the process", reason=PROCESS_ENDED, file_reason="exit code 0")(
    "import os; os._exit(0)"
)
behind("exit_later", "a thread ends the process a little later", points=ANY)("""
    import os, threading, time
    threading.Thread(target=lambda: (time.sleep(0.2), os._exit(0)), daemon=True).start()
""")
family(
    partial(in_call, doors=FILE),
    "exit_raised",
    "a call raises what would end Python",
    "import sys; sys.exit()",
    "import sys; sys.exit('bye')",
    "raise KeyboardInterrupt",
    "raise SystemExit(0)",
    "raise GeneratorExit",
    "class E(BaseException): pass\nraise E",
)
family(
    partial(beside, own=RIGHT, doors=FILE, reason="the file raised "),
    "exit_raised_early",
    "a file raises before it defines the answer",
    "import sys; sys.exit()",
    "raise KeyboardInterrupt",
    "raise SystemExit(0)",
    "1 / 0",
)
behind("loop_in_cell", "an endless loop", points=HONEST, file=0.0)("while True: pass")
behind("loop_deaf_to_signals", "an endless loop that ignores signals and catches everything", flag=LEFT_OUT["flag"])(
    DEAF
)
when_whole("loop_in_function", "an endless loop in the function", **HANGS)("while True: pass")
family(
    partial(in_call, doors=FILE, **HANGS),
    "hangs",
    "no call ends",
    "while True: pass",
    "import time; time.sleep(1000)",
    "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()",
)
when_whole("stopped_process", "the function stops itself and the copy that waits")("""
    import os, signal
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
""")
when_whole("parent_killed", "the function kills the copy that waits")("""
    import os, signal
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(1)
""")
when_whole("killed_by_function", "the function kills its process", reason=PROCESS_ENDED, file_reason="signal 9")(
    KILLS_ITSELF
)
when_whole("all_killed_by_function", "the function kills every process it may")(KILLS_ALL)
harmless("killed_by_cell", "a cell kills its process", **LEFT_OUT)(KILLS_ITSELF)
harmless("all_killed_by_cell", "a cell kills every process it may", **LEFT_OUT)(KILLS_ALL)
beside(
    "copies_killed",
    "a later cell kills the copies that wait at earlier checks",
    RIGHT,
    doors=NOTEBOOK,
    points={"softmax": 0.0},
    **ENDED,
)("""
    import os, signal
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in (1, os.getpid(), os.getppid()):
            try: os.kill(int(entry), signal.SIGKILL)
            except OSError: pass
""")
harmless("descriptors_closed", "a cell closes every descriptor", **LEFT_OUT)("import os; os.closerange(0, 500)")
in_call("descriptors_closed_by_call", "each call closes every descriptor", doors=FILE, **ENDED)(
    "import os; os.closerange(0, 256)"
)
when_whole("segmentation_fault", "the function reads address 0", reason=PROCESS_ENDED, file_reason="signal 11")(
    "import ctypes; ctypes.string_at(0)"
)
harmless("segmentation_fault_in_cell", "a cell reads address 0", **LEFT_OUT)("import ctypes; ctypes.string_at(0)")
beside("fork_bomb", "as many processes as there may be", RIGHT, before="softmax", points=ANY)("""
    import os, time
    for _ in range(3000):
        try:
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)
        except OSError: break
""")
HOARD = "hoard = []\nfor _ in range(64): hoard.append(np.ones(32 << 20))"
behind("memory_bomb_in_cell", "all memory", points={TARGET: (0.0, 5.0)})(HOARD)
when_whole("memory_bomb_in_function", "all memory, in the function", points={TARGET: (0.0, 4.0)})(HOARD)
in_call("memory_at_once", "more memory than there is, at once", doors=FILE)("return np.ones(2 ** 36)")
harmless("disk_filled", "all space in every folder that can be written")("""
    import os
    for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), "/var/tmp", "/"):
        for number in range(40):
            try:
                with open(f"{folder}/fill{number}", "wb") as file:
                    for _ in range(32): file.write(bytes(1 << 20))
            except OSError: break
""")
in_call("file_too_big", "a file larger than any may be", doors=FILE)("""
    with open('big', 'wb') as f:
        for _ in range(65): f.write(bytes(1 << 20))
""")
reaches("memory_file", "a file in memory beyond the limit of files", doors=CODE)("""
    import os
    fd = os.memfd_create("hoard")
    try:
        for _ in range(4096): os.write(fd, bytes(1 << 20))
    except OSError as error: print("stopped", error.errno)
    else: reached("a file of 4 GB")
    os.close(fd)
""")
harmless("print_fifty_megabytes", "50 MB of text, and 50 MB past Python")("""
    import os
    for _ in range(50):
        print("spam" * (1 << 18))
        os.write(1, bytes(1 << 20))
""")
family(
    partial(in_call, doors=FILE, points=HONEST),
    "flood",
    "each call writes 18 MB of text",
    *(
        f"import os, sys\nstream = {stream}\nfor _ in range(300): stream.write('flood ' * 10_000)\nstream.flush()"
        for stream in ("sys.stdout", "sys.stderr", "sys.__stdout__", "os.fdopen(1, 'w', closefd=False)")
    ),
)
in_call("noise_on_stdout", "each call writes to its output in three ways", points=HONEST)(
    "import os; print(x); os.write(1, b'12345678' * 100); os.system('echo hello')"
)
in_call("waits_for_input", "each call reads its input to the end", points=HONEST)("import sys; sys.stdin.read()")
harmless("thousand_pictures", "a thousand pictures of 20 kB", doors=NOTEBOOK)("""
    import base64
    from IPython.display import display
    picture = base64.b64encode(bytes(15_000)).decode()
    for _ in range(1000): display({"image/png": picture, "text/plain": "x"}, raw=True)
""")
when_whole("result_huge", "a result of 200 MB")("return np.zeros(25 << 20)")
when_whole("result_deep", "a result ten thousand lists deep")("""
    deep = []
    for _ in range(10_000): deep = [deep]
    return deep
""")
when_whole("exception_that_lies", "an exception without a name, whose words raise")("""
    class Meta(type):
        __name__ = property(lambda self: 1 / 0)
    class Trouble(BaseException, metaclass=Meta):
        def __str__(self): raise KeyboardInterrupt
        __repr__ = __str__
    raise Trouble
""")
harmless("daemon_left_behind", "a process in a session of its own that would outlive the grading")("""
    import os, subprocess, sys
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)  # left-behind-by-red-team"],
                     start_new_session=True)
""")
harmless("threads_left_behind", "threads that print without end, or sleep")("""
    import threading, time
    def talk():
        while True: print("noise"); time.sleep(0.001)
    threading.Thread(target=talk, daemon=True).start()
    for daemon in (True, False): threading.Thread(target=time.sleep, args=(60,), daemon=daemon).start()
""")

# What a student may not see or touch ------------------------------------------------------------------------------

reaches("files_searched", "gradebook, solutions, seed and other submissions are looked for")("""
    import os
    wanted = {"gradebook.db", "secret_seed", "nbgrader_config.py", "submitted", "autograded", "solutions"}
    for folder, folders, files in os.walk("/"):
        folders[:] = [f for f in folders if f not in ("proc", "sys", "site-packages", "dist-packages", "share")]
        for name in wanted & {*folders, *files}: reached(folder, name)
""")
reaches("modules_imported", "the grader's own packages are imported")("""
    import importlib
    for name in ("autograder", "course.folder", "autograder.nbgrader_plugins.stock", "solutions.softmax", "tests",
                 "conftest"):
        try: importlib.import_module(name)
        except ImportError: pass
        else: reached(name)
    try: seed = importlib.import_module("course.folder").course_seed()
    except ImportError: pass
    else: reached("the seed", seed)
""")
reaches("gradebook_written", "SQL on the gradebook", own=WRONG, points={TARGET: 0.0})("""
    import glob, sqlite3
    for path in ("COURSE/gradebook.db", "../../../gradebook.db", "gradebook.db"):
        if glob.glob(path):
            base = sqlite3.connect(path)
            base.execute("UPDATE grade SET manual_score = 5.0")
            base.commit()
            reached(path)
""")
reaches("environment_read", "the environment of every process")("""
    import glob, os
    for path in glob.glob("/proc/[0-9]*/environ") + ["/proc/1/environ", "/proc/self/environ"]:
        try: text = open(path, "rb").read()
        except OSError: continue
        if b"RED_" + b"TEAM_MARK" in text: reached(path)
    if "RED_" + "TEAM_MARK" in os.environ: reached()
""")
reaches("network_used", "loopback, sockets of the system, and names are asked for")("""
    import socket
    def attempt(what, do):
        try: do()
        except OSError: pass
        else: reached(what)
    attempt("loopback", lambda: socket.create_connection(("HOST", PORT), 0.5))
    attempt("loopback 6", lambda: socket.create_connection(("::1", PORT), 0.5))
    attempt("name", lambda: socket.getaddrinfo("red-team.invalid", 80))
    for path in ("\\0red-team-PORT", "/run/dbus/system_bus_socket", "/var/run/docker.sock", "/tmp/.X11-unix/X0"):
        attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
""")
reaches("mounts_written", "Python, the libraries and attnlab are written to")("""
    import os, sys, attnlab
    for folder in (os.path.dirname(attnlab.__file__), os.path.dirname(np.__file__), sys.prefix, "/usr", "/"):
        try:
            with open(os.path.join(folder, "red_team"), "w"): reached(folder)
        except OSError: pass
    for path in (attnlab.__file__, np.__file__):
        try:
            with open(path, "a"): reached(path)
        except OSError: pass
""")
reaches("jail_left", "namespaces, mounts, the root of the first process, rights and limits")("""
    import ctypes, os, resource, subprocess
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) == 0: reached("a user namespace")
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0: reached("mounted")
    for do in (lambda: os.setuid(0), lambda: os.chroot("/tmp"), lambda: os.mknod("/tmp/sda", 0o60600, os.makedev(8, 0)),
               lambda: open("/proc/1/root/etc/passwd").close(),
               lambda: resource.setrlimit(resource.RLIMIT_NPROC, (100000, 100000)),
               lambda: subprocess.run(["bwrap", "--dev-bind", "/", "/", "true"], check=True, capture_output=True)):
        try: do()
        except (OSError, ValueError, subprocess.SubprocessError): pass
        else: reached(do.__code__.co_names)
""")
reaches("gradescope_searched", "Gradescope's own folders and sockets, and every shared folder", doors=GRADESCOPE)("""
    import os, socket
    if os.getuid() == 0: reached("root")
    def attempt(do, *given):
        try: found = do(*given)
        except OSError: return
        if found: reached(given)
    for path in ("source/assignment.bin", "source/options.json", "source/course/solutions/attention.py", "results",
                 "source/course/autograder/hidden.py", "submission_metadata.json", "submission", "source", "tmp"):
        attempt(lambda path: os.listdir(path) if os.path.isdir(path) else open(path).read(1), f"/autograder/{path}")
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/autograder", "/autograder/results", "/autograder/tmp"):
        attempt(open, f"{folder}/mine", "w")
    for family in (socket.AF_INET, socket.AF_UNIX): attempt(socket.socket, family)
    open("mine", "w").write("mine")  # its own folder is the one thing that it may write to
""")

# Hidden inputs to be carried out, for feedback to show -----------------------------------------------------------

STASH = """
def log_softmax(x, axis=-1):
    open("/tmp/stash", "a").write("LEAK" + "ED " + repr(np.asarray(x).tolist()) + chr(10))
    print("LEAK" + "ED", np.asarray(x).tolist())
    kept.append(np.asarray(x).tolist())
    return np.zeros(np.shape(x))
"""
LEAK = dict(absent=("LEAKED",))
beside(
    "leak_by_later_cell",
    "inputs are kept, and printed by a later cell",
    "kept = []" + STASH,
    before="check-soft_lookup",
    doors=NOTEBOOK,
    **LEAK,
)("""
    import os
    print(kept)
    if os.path.exists("/tmp/stash"): print(open("/tmp/stash").read())
""")
answer("leak_by_exception_words", "inputs in the words of an exception", **LEAK)("""
    def log_softmax(x, axis=-1): raise ValueError("LEAK" + f"ED {np.asarray(x).tolist()}")
""")
answer("leak_by_exception_name", "inputs in the name of an exception", **LEAK)("""
    def log_softmax(x, axis=-1):
        raise type(f"LEAK" + f"ED{np.asarray(x).ravel()[0]!r}", (Exception,), {})
""")
answer("leak_by_result", "inputs as the result, and as names and words in it", **LEAK)("""
    def log_softmax(x, axis=-1):
        return {"LEAK" + f"ED {np.asarray(x).tolist()}": "LEAK" + "ED", "result": np.asarray(x).tolist()}
""")
beside("leak_by_outcome", "inputs in an outcome's names and reasons", **TAKEN_OVER, points=LATER_LOST, **LEAK)("""
    def forged(target, probe, inputs, form):
        words = "LEAK" + f"ED {inputs}"
        return form({"refused": words} if len(words) % 2 else {"value": {words: words, "changed": words, "raises": words}})
    worker["reload_check_modules"] = lambda: types.SimpleNamespace(codec=worker["codec"], observe=forged)
""")
family(
    partial(in_call, doors=FILE, points={TARGET: (0.0, 1.0)}, **LEAK),
    "leak",
    "inputs as errors, results and prints of any kind",
    *(
        "told = 'LEAK' + 'ED' + ' '.join(f'{v!r}' for v in np.ravel(x).tolist())\n" + way
        for way in (
            "raise KeyError(told)",
            "raise type('E' + told, (ValueError,), {})(told)",
            "raise type('E', (Exception,), {'__str__': lambda self: told})",
            "print(told); return x",
            "return told",
            "return x * 3",
            "return type(told, (), {})()",
            "import sys; sys.exit(told)",
            "x *= 2; return x",
            "return np.zeros(7)",
            "return [told]",
        )
    ),
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
answer("leak_by_second_start", "an answer dies, and has other parameters when it is started again", **LEAK)(
    SECOND + "NAMES = ('x', 'axis')\nlog_softmax = Answer()"
)


@document("an answer has the inputs of another for parameters", points=ALL_LOST, **LEAK)
def leak_by_another_answer(notebook):
    for name, parameters in {
        "softmax": ("x", "axis"),
        "log_softmax": ("x", "axis"),
        "softmax_temperature": ("x", "temperature"),
        "softmax_jacobian": ("x",),
        "soft_lookup": ("query", "keys", "values"),
    }.items():
        named(notebook, name)["source"] = SECOND + f"NAMES = {parameters!r}\n{name} = Answer()"


answer(
    "leak_by_forged_start",
    "an answer that is started again says itself why it cannot be",
    points=ANY_BUT_TARGET,
    **LEAK,
)("""
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
""")

# Pages that would run something: the browser in `nbgrader_plugins/test_feedback.py` looks at the same ones -----------

PAGE = dict(
    doors=NOTEBOOK,
    not_in_page=("<script>window.pwned", "<img src=x", "<iframe src", "<svg onload", "<base href", "<details open"),
)


@document("markup, script and links in a written answer", not_in_page=PAGE["not_in_page"])
def page_written_answer(notebook):
    evil = "\n\n".join(hostile.MARKDOWN)
    named(notebook, "written-softmax")["source"] = evil
    notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "source": evil, "id": "more"})


answer("page_displayed", "markup, script and terminal codes as outputs", WRONG, **PAGE)(hostile.SHOWS)
answer("page_exception", "markup in an exception of the cell", WRONG, **PAGE)(hostile.RAISES)
answer("page_source", "markup in the answer's own source", after=WRONG, **PAGE)(f"# </pre>{hostile.HTML[0]}\n")
