"""An answer that fails through an earlier one of its notebook earns what it earns with the reference in that place."""

import ast
import functools
import json

import nbformat
import numpy as np
import pytest

from autograder.grading import grade_submission, messages, second_run
from autograder.grading.single_file import grade_object
from autograder.sandbox.limits import Times
from course import catalog, prerequisites
from course.cells import nbgrader_of
from tests.autograder import small_course
from tests.conftest import each_chapter

SEED = 20261122
UNDONE = object()

REFUSES_NOTHING = """def softmax_temperature(x, temperature):
    return softmax(np.asarray(x, dtype=float) / temperature) if temperature != 1 else 0.0 * x"""
NO_AXIS = "def softmax(x, axis=-1):\n    e = np.exp(np.asarray(x, dtype=float) - np.max(x))\n    return e / e.sum()"


class Graded:
    """The outcome of one notebook: points, `through` and record by exercise, and the notebook that is shown."""

    def __init__(self, stem: str, result: bytes):
        self.entries, files = messages.unwrap(result)
        self.results, self.text = files["results.json"].decode(), files[f"{stem}.ipynb"].decode()
        self.records = {e["exercise"]: e for e in json.loads(self.results)["notebooks"][stem]["exercises"]}
        self.points = {name: record["points"] for name, record in self.records.items()}
        self.through = {name: record["through"] for name, record in self.records.items() if record["through"]}
        self.notebook = nbformat.reads(self.text, as_version=4)

    def table(self, name: str) -> str:
        """The text below a check, as plain text on one line."""
        (cell,) = [cell for cell in self.notebook.cells if nbgrader_of(cell).get("grade_id") == f"check-{name}"]
        return " ".join(cell.outputs[0]["data"]["text/plain"].split())


@functools.cache
def common(stem: str, times: Times) -> bytes:
    return small_course.packed(stem, notebook(stem), SEED, times=times)


@functools.cache
def notebook(stem: str) -> nbformat.NotebookNode:
    """A handout cut down to its imports and its exercises."""
    return small_course.thin(stem, tuple(catalog.exercises_of(stem)))


@pytest.fixture
def grade(needs_jail):
    """`grade(stem, extra, times, **answers)` grades a chapter's references, but for the answers named.

    extra: cells of the student's own, by what is before
    """
    return grade_chapter


def grade_chapter(stem: str, extra: dict[str, str] | None = None, times: Times = Times(), **answers) -> Graded:
    made = nbformat.v4.new_notebook()
    for cell in notebook(stem).cells:
        name, source = nbgrader_of(cell).get("grade_id"), cell.source
        if name in catalog.exercises_of(stem):
            source = answers.get(name, small_course.reference(stem, name))
            source = stub(stem, name) if source is UNDONE else source
        new = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
        made.cells.append(new(source, metadata=cell.metadata))
        if name in (extra or {}):
            made.cells.append(nbformat.v4.new_code_cell(extra[name]))
    submission = messages.pack_submission("basics", "ada", [], {}, {stem: nbformat.writes(made).encode()})
    return Graded(stem, grade_submission.grade(common(stem, times), submission))


def stub(stem: str, name: str) -> str:
    tree = ast.parse(small_course.reference(stem, name))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = ast.parse("raise NotImplementedError").body
    return ast.unparse(tree)


def full(name: str) -> float:
    return catalog.exercise(name).points


@pytest.mark.parametrize(
    "stem, undone, through",
    [
        ("softmax", "softmax", ["softmax_temperature", "softmax_jacobian", "soft_lookup"]),
        ("multi_head", "split_heads", ["MultiHeadAttention"]),
        ("masks", "masked_softmax", ["causal_attention"]),
        ("dot_products", "dot", ["matmul"]),
        ("rope", "rope_frequencies", ["rope_angles", "apply_rope", "apply_rope_interleaved"]),
    ],
)
def test_an_exercise_that_is_not_done_costs_its_own_points_alone(grade, stem, undone, through):
    done = grade(stem, **{undone: UNDONE})
    assert done.points == {name: 0 if name == undone else full(name) for name in catalog.exercises_of(stem)}
    assert done.through == {name: [undone] for name in through}
    assert done.records[undone]["not_done"]


def test_a_wrong_answer_keeps_its_points_and_its_feedback(grade):
    alone, done = (grade("softmax", softmax=NO_AXIS, **more) for more in ({"softmax_temperature": UNDONE}, {}))
    assert 0 < done.points["softmax"] < full("softmax")
    assert done.records["softmax"] == alone.records["softmax"] and done.table("softmax") == alone.table("softmax")
    assert done.points["softmax_temperature"] == full("softmax_temperature")


def test_the_feedback_names_the_cause(grade):
    done = grade("softmax", softmax=UNDONE)
    assert (
        "`softmax_temperature` builds on `softmax`, which is not right yet. With a right `softmax` it earns 5 of 5 "
        "points, and that is what counts."
    ) in done.table("softmax_temperature")
    assert "builds on" not in done.table("softmax") + done.table("log_softmax")


def test_an_answer_that_is_wrong_by_itself_pays_for_that_and_stands_in_no_way(grade):
    """`soft_lookup` builds on a temperature that refuses nothing and has no 1, and both on a softmax that is undone."""
    lookup = small_course.reference("softmax", "soft_lookup")
    lookup = lookup.replace("softmax(keys @ query)", "softmax_temperature(keys @ query, 1.0)")
    by_itself = grade("softmax", softmax_temperature=REFUSES_NOTHING)
    done = grade("softmax", softmax=UNDONE, softmax_temperature=REFUSES_NOTHING, soft_lookup=lookup)
    assert done.points["softmax"] == 0 and done.points["soft_lookup"] == full("soft_lookup")
    assert 0 < done.points["softmax_temperature"] == by_itself.points["softmax_temperature"] < 5
    assert "The lines that fail below are its own. ok" in done.table("softmax_temperature")
    assert done.through["softmax_temperature"] == ["softmax"]
    assert done.through["soft_lookup"] == ["softmax", "softmax_temperature"]
    assert "`softmax` and `softmax_temperature`, which are not right yet" in done.table("soft_lookup")


def test_an_answer_that_would_fail_in_any_case_keeps_its_report(grade):
    wrong = "def softmax_jacobian(x):\n    return softmax(x) * nothing_such"
    done = grade("softmax", softmax=UNDONE, softmax_jacobian=wrong)
    assert done.points["softmax_jacobian"] == 0 and "softmax_jacobian" not in done.through
    assert "Raised NotImplementedError" in done.table("softmax_jacobian")


def test_an_answer_that_needs_it_through_a_helper_is_graded_again(grade):
    helper = "def weights(scores):\n    return softmax(scores)"
    lookup = small_course.reference("softmax", "soft_lookup").replace("softmax(keys", "weights(keys")
    done = grade("softmax", {"check-softmax": helper}, softmax=UNDONE, soft_lookup=lookup)
    assert done.points["soft_lookup"] == full("soft_lookup")


@pytest.mark.parametrize("broken", ["def softmax(x, axis=-1)\n    return 0", "import os\nos._exit(1)", "softmax = 3"])
def test_an_answer_that_is_not_there_costs_its_own_points_alone(grade, broken):
    done = grade("softmax", softmax=broken)
    assert done.points == {name: 0 if name == "softmax" else full(name) for name in catalog.exercises_of("softmax")}


def test_an_earlier_answer_written_again_later_is_not_replaced(grade):
    own = "def softmax_jacobian(x):\n    x = np.asarray(x, dtype=float)\n    return np.zeros((x.size, x.size))"
    done = grade("softmax", softmax=UNDONE, softmax_jacobian=own)
    assert "softmax_jacobian" not in done.through


@pytest.mark.parametrize("answers", [{}, {"soft_lookup": UNDONE}, {"softmax": NO_AXIS, "log_softmax": UNDONE}])
def test_there_is_no_second_run_where_none_is_needed(grade, answers, monkeypatch):
    def run(*_, **__):
        raise AssertionError("the notebook ran a second time")

    if "softmax" in answers:  # all that builds on it are not done either
        answers = dict.fromkeys(catalog.exercises_of("softmax"), UNDONE) | {"softmax": NO_AXIS}
    monkeypatch.setattr(second_run, "evaluate", run)
    assert not grade("softmax", **answers).through


def test_there_is_no_second_run_when_the_time_is_used_up(grade):
    slow = "import time\ntime.sleep(2.5)"
    done = grade("softmax", {"check-soft_lookup": slow}, Times(cell=10, case=5, submission=2.0), softmax=UNDONE)
    assert not done.through


def test_nothing_that_the_second_run_says_is_shown(grade):
    """The answers say whose function they call, in every way they can."""
    says = "\nwho = getattr(softmax, '__module__', None)\nprint('who', who)\nopen('/tmp/who', 'a').write(str(who))"
    lookup = (
        "def soft_lookup(query, keys, values):\n"
        "    print('who', softmax.__module__)\n"
        "    if np.abs(keys @ query).max() > 300:\n"
        "        raise type('who ' + softmax.__module__, (TypeError,), {})('who ' + softmax.__module__)\n"
        "    return softmax(keys @ query) @ values"
    )
    done = grade("softmax", {"check-softmax": says.strip(), "check-soft_lookup": says.strip()}, softmax=UNDONE)
    partly = grade("softmax", {"check-softmax": says.strip()}, softmax=UNDONE, soft_lookup=lookup)
    assert 0 < partly.points["soft_lookup"] < full("soft_lookup") and partly.through["soft_lookup"] == ["softmax"]
    for shown in (done.text, done.results, partly.text, partly.results, json.dumps(partly.entries)):
        assert "who lent" not in shown and "<lent>" not in shown
    assert "who __main__" in done.text  # the first run's outputs are there


@pytest.mark.parametrize("wait", [0.5, pytest.param(3.0, marks=[pytest.mark.long, pytest.mark.weekly])])
def test_a_reference_does_not_reach_a_copy_that_waits_to_be_asked(grade, wait):
    """The answer, wrong by itself, waits for what the notebook writes down as soon as its reference is lent."""
    steals = f"""def softmax_temperature(x, temperature):
    import marshal, os, time, types
    end = time.monotonic() + {wait}
    while time.monotonic() < end:
        if os.path.exists('/tmp/stolen'):
            code, = marshal.load(open('/tmp/stolen', 'rb')),
            return types.FunctionType(code, globals())(x, temperature)
        time.sleep(0.05)
    return softmax(np.asarray(x) * temperature)"""
    writes = (
        "import marshal\nif softmax_temperature.__module__ == 'lent':\n"
        "    marshal.dump(softmax_temperature.__code__, open('/tmp/stolen', 'wb'))"
    )
    lookup = small_course.reference("softmax", "soft_lookup").replace("softmax(keys", "softmax_temperature(1.0 * keys")
    lookup = lookup.replace("(1.0 * keys @ query)", "(keys @ query, 1.0)")
    answers = dict(softmax=UNDONE, softmax_temperature=steals, soft_lookup=lookup)
    done = grade("softmax", {"check-softmax_temperature": writes}, Times(case=2.0), **answers)
    assert done.points["softmax_temperature"] < full("softmax_temperature") - 1
    assert done.points["softmax"] == 0


def test_to_take_the_reference_earns_nothing_for_the_answer_it_replaces(grade):
    takes = """import builtins, gc
def softmax(x, axis=-1):
    for f in gc.get_objects():
        if getattr(f, '__module__', '') == 'lent' and getattr(f, '__name__', '') == 'softmax':
            return f(x, axis)
    raise NotImplementedError"""
    again = "if softmax.__module__ == 'lent':\n    taken = softmax\n    log_softmax = lambda x, axis=-1: taken(x, axis)"
    done = grade("softmax", {"check-softmax": again}, softmax=takes, log_softmax=UNDONE)
    assert done.points["softmax"] == 0 and done.points["log_softmax"] == 0


@pytest.mark.parametrize("stem", each_chapter("attention", "rope"))
def test_no_reference_passes_for_a_later_answer(stem):
    """A student who leaves an answer undone to get its reference for another exercise gains little or nothing."""
    names = list(catalog.exercises_of(stem))
    for number, name in enumerate(names):
        for earlier in names[:number]:
            with np.errstate(all="ignore"):
                report = grade_object(catalog.exercise(earlier).reference, catalog.exercise(name))
            report = second_run._drop_unearned_points(report)
            assert report.points <= report.max_points / 2, (earlier, name)


@pytest.mark.parametrize("name", [name for stem in catalog.chapters() for name in catalog.exercises_of(stem)])
def test_what_is_lent_runs_with_what_a_chapter_has_and_holds_no_later_answer(name):
    stem = catalog.chapter_of(name)
    names, tree = list(catalog.exercises_of(stem)), ast.parse(prerequisites.reference(name))
    defined = {getattr(node, "name", None) for node in tree.body}
    assert name in defined and not defined & set(names[names.index(name) + 1 :])
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("solutions."):
            given = ast.parse(prerequisites.sources(stem)[node.module.removeprefix("solutions.")]).body
            assert {alias.name for alias in node.names} <= {getattr(node, "name", None) for node in given}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_librarys_own_function_earns_nothing_until_a_human_has_looked(grade, elsewhere):
    helper = "import torch\ndef ready(x, axis):\n    return torch.asarray(x).softmax(axis).numpy()"
    source = "def softmax(x, axis=-1):\n    return ready(x, axis)"
    extra = {"softmax": helper} if elsewhere else None
    done = grade("softmax", extra=extra, softmax=source if elsewhere else f"{helper}\n{source}")
    others = {name: full(name) for name in catalog.exercises_of("softmax") if name != "softmax"}
    assert done.points == {**others, "softmax": 0}
    score, _, doubtful, _ = done.entries["notebooks"]["softmax"]["grades"]["check-softmax"]
    assert (score, doubtful) == (0, True)
    assert "which does the whole work" in done.table("softmax")
