"""`check(f)`: what may be given to it, what comes back, and how it looks in a notebook and elsewhere."""

from __future__ import annotations

import concurrent.futures
import linecache
import re
import signal
import sys
import time

import numpy as np
import pytest
import torch

from attnlab import check
from attnlab.check import examine, exercises, parameter_problem
from attnlab.checking import codec, diagnosis
from solutions.softmax import softmax as reference_softmax
from tests.course.toy_exercise import RIGHT, doubled, make

TOY = make().material()
MODULE = sys.modules["attnlab.check"]  # `attnlab.check` itself is the function


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """An installation whose exercises are `doubled` and, as a copy of it, `Halver`."""
    for name in ("doubled", "Halver"):
        (tmp_path / f"{name}.gz").write_bytes(codec.pack({**TOY, "name": name}))
    monkeypatch.setattr(MODULE, "CHECKS", tmp_path)


def named(name: str, function):
    function.__name__ = name
    return function


def complaint(answer, kind=(TypeError, ValueError)) -> str:
    with pytest.raises(kind) as raised:
        check(answer)
    message = str(raised.value)
    assert "\n" not in message and message.endswith((".", "?", ":`."))
    assert raised.value._render_traceback_() == [f"check: {message}"]
    return message


def test_it_prints_the_report_and_returns_the_points(installed, capsys):
    points = check(doubled)
    assert float(points) == 4.0 and "3 of 3 passed" in capsys.readouterr().out


def test_an_exception_where_none_or_another_is_due_is_shown_with_its_line(capsys):
    def split_heads(x, n_heads):
        batch, n, width = x.shape
        if width % n_heads:
            return {}[n_heads]
        return x.reshape(batch, n, n_heads, width // n_heads).transpose(1, 2)

    check(split_heads)
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r'In "refuses a width that does not divide", your code raised KeyError \(4\) in line \d+: `return', said
    )


def test_an_exception_in_one_of_several_calls_is_shown_with_its_line(capsys):
    class KVCache:
        kept = None

        def append(self, k, v):
            self.kept = torch.stack([k, v]) if self.kept is None else torch.cat([self.kept, torch.stack([k, v])], 2)
            return self.kept[0], self.kept[1]

        def __len__(self):
            return 0 if self.kept is None else self.kept.shape[2]

        def reset(self):
            self.kept = None

    check(KVCache)
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r'In "gives back everything so far, new tokens last", step 1, your code raised RuntimeError \(stack expects '
        r"each tensor to be equal size.*\) in line \d+: `self.kept = torch.stack",
        said,
    )
    assert "counts only where numbers are computed" not in said


def test_it_knows_the_exercises_it_has_data_for(installed):
    assert exercises() == ["Halver", "doubled"]


@pytest.mark.parametrize(
    "answer, words",
    [
        ("doubled", "Leave out the quotes: check(doubled)"),
        ("nothing", "not a string"),
        (np.ones(2), "not the result of a call; it got a NumPy array."),
        (None, "it got None."),
        (1.5, "it got a number."),
        ([1], "it got a list."),
        (True, "it got a truth value."),
        (type("Halver", (), {})(), "check(Halver)"),
        (type("Halver", (), {"__call__": lambda self: 1})(), "check takes the class"),
    ],
)
def test_a_wrong_kind_of_argument_is_a_type_error_in_words(installed, answer, words):
    assert words in complaint(answer, TypeError)


@pytest.mark.parametrize(
    "answer, words",
    [
        (named("double", lambda x: x), "Did you mean doubled?"),
        (named("HALVER", lambda x: x), "Did you mean Halver?"),
        (named("zzz", lambda x: x), "The exercises are: Halver, doubled."),
        (lambda x: x, "A lambda has no name"),
        (np.dot, "This is NumPy's own dot."),
        (np.linalg.norm, "This is NumPy's own norm."),
        (len, "This is Python's own len."),
        (np.exp, "This is NumPy's own exp."),
    ],
)
def test_a_function_that_is_not_an_answer_is_told_in_words(installed, answer, words):
    assert words in complaint(answer)


def test_while_nbgrader_validates_an_answer_that_does_not_pass_raises_its_report(installed, monkeypatch, capsys):
    check(wrong := named("doubled", lambda x, times=1: x))
    said = capsys.readouterr().out
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(MODULE.NotPassed) as raised:
        check(wrong)
    assert raised.value._render_traceback_() == [said.removesuffix("\n")] and not capsys.readouterr().out
    assert check(doubled).report.passed


def test_while_nbgrader_validates_a_stretch_exercise_may_be_left_undone(tmp_path, monkeypatch):
    (tmp_path / "doubled.gz").write_bytes(codec.pack({**TOY, "bonus": True}))
    monkeypatch.setattr(MODULE, "CHECKS", tmp_path)
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")

    def undone(x, times=1):
        raise NotImplementedError

    assert check(named("doubled", undone)).report.not_done
    with pytest.raises(MODULE.NotPassed):
        check(named("doubled", lambda x, times=1: x))


def test_an_installation_without_data_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(MODULE, "CHECKS", tmp_path)
    assert "has no exercises" in complaint(doubled, ValueError)


# Signatures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer, words",
    [
        (lambda x: x, "has no parameter `times`"),
        (lambda x, n=1: x, "has no parameter `times`"),
        (lambda x, n: x, "has `n` where `times` should be"),
        (lambda x, y, times=1: x, "also requires `y`"),
        (lambda: 1, "has no parameter `x`, `times`"),
        (lambda x, /, times=1: x, "has no parameter `x`"),
    ],
)
def test_other_parameters_are_told_apart_with_the_signature_to_keep(answer, words):
    reason = examine(answer, TOY).reason
    assert words in reason and reason.endswith("Keep the parameters as they were: `doubled(x, times=1)`.")


@pytest.mark.parametrize(
    "answer",
    [
        lambda *a, **k: doubled(*a, **k),
        lambda x, times=1, *, verbose=False: doubled(x, times),
        lambda times=1, x=None: doubled(x, times),
    ],
)
def test_parameters_that_can_be_given_by_name_are_fine(answer):
    assert examine(answer, TOY).passed


def test_absurd_parameter_lists_give_short_words():
    many = [("p" * 1000, "KEYWORD_ONLY", False)] * 1000
    assert len(parameter_problem(many, TOY)) < 600


# Live answers ------------------------------------------------------------------------------------------------------


def test_what_the_answer_prints_is_not_shown_and_not_kept(installed, capsys):
    def noisy(x, times=1):
        for _ in range(50):
            print("noise" * 1000)
            print("noise" * 1000, file=sys.stderr)
        return doubled(x, times)

    assert float(check(named("doubled", noisy))) == 4.0
    seen = capsys.readouterr()
    assert "noise" not in seen.out and seen.err == ""


def test_an_answer_that_spoils_its_inputs_does_not_spoil_the_next_check():
    def spoil(x, times=1):
        result = doubled(x, times)
        np.asarray(x)[...] = 7
        return result

    first = [finding.passed for finding in examine(spoil, TOY).findings]
    assert first == [True, False, True] == [finding.passed for finding in examine(spoil, TOY).findings]


def test_a_check_answers_in_well_under_a_second(installed, capsys):
    start = time.process_time()
    check(doubled)
    check(named("doubled", lambda x, times=1: x + 1))
    assert time.process_time() - start < 1


# Time ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient(installed, monkeypatch):
    """The same installation, with short limits."""
    monkeypatch.setattr(MODULE, "CASE_SECONDS", 0.3)


ENDLESS = """\
def doubled(x, times=1):
    calls.append(x)
    {loop}
"""
LOOPS = {
    "plain": "while True: pass",
    "catches exceptions": "while True:\n        try: 1 / 0\n        except Exception: pass",
    "catches everything": "while True:\n        try: pass\n        except: pass",
    "waits": "import time; time.sleep(1000)",
}


def from_source(source: str, name: str, monkeypatch, **names):
    """Run a source, with its lines where tracebacks look for them, and return what it defines, as in a notebook."""
    monkeypatch.setitem(linecache.cache, "<cell>", (len(source), None, source.splitlines(True), "<cell>"))
    exec(compile(source, "<cell>", "exec"), names)
    return names[name]


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_that_never_ends_is_broken_off_and_the_rest_left_out(impatient, capsys, monkeypatch, kind):
    calls = []
    points = check(from_source(ENDLESS.format(loop=LOOPS[kind]), "doubled", monkeypatch, calls=calls))
    told = " ".join(capsys.readouterr().out.split())
    assert float(points) == 0.0 and "Kernel > Interrupt" in told
    assert "Still running after" in told and "Not run: the time for this check was up." in told
    assert [len(x) for x in calls] == [3, 4]  # the smallest case of the first property, and the second property


def test_where_a_loop_was_is_shown_with_its_input(impatient, monkeypatch):
    report = examine(from_source(ENDLESS.format(loop=LOOPS["plain"]), "doubled", monkeypatch, calls=[]), TOY)
    words, *shown = report.findings[0].detail.splitlines()
    assert words.startswith("Still running after ") and words.endswith(" seconds in line 3: `while True: pass`.")
    assert shown and shown[0].startswith("x")


def test_a_property_that_ends_keeps_its_points_though_another_never_does(impatient, capsys):
    def halting(x, times=1):
        while times == 3:
            pass
        return doubled(x, times)

    points = check(named("doubled", halting))
    assert float(points) == 2.0 and "Still running" in capsys.readouterr().out


def computes_for_a_while():
    begin = time.process_time()
    while time.process_time() - begin < 0.3:
        pass


@pytest.mark.parametrize("limit, delay", [(None, computes_for_a_while), (0.3, lambda: time.sleep(0.4))])
def test_an_answer_that_is_slow_or_waits_for_the_processor_is_judged(installed, capsys, monkeypatch, limit, delay):
    if limit:
        monkeypatch.setattr(MODULE, "CASE_SECONDS", limit)

    def slow(x, times=1):
        delay()
        return doubled(x, times)

    assert float(check(named("doubled", slow))) == 4.0


def test_all_cases_together_have_a_limit_too(installed, capsys, monkeypatch):
    monkeypatch.setattr(MODULE, "CHECK_SECONDS", 1e-9)
    check(doubled)
    assert "Not run: the time for this check was up." in capsys.readouterr().out


def test_a_loop_is_broken_off_in_another_thread_too(impatient, monkeypatch):
    answer = from_source(ENDLESS.format(loop=LOOPS["plain"]), "doubled", monkeypatch, calls=[])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        report = pool.submit(examine, answer, TOY).result()
    assert " seconds in line 3: `while True: pass`." in report.findings[0].detail


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer signals")
def test_a_handler_and_a_timer_that_were_there_come_back():
    def not_yet(*_):
        raise AssertionError("too early")

    former = signal.signal(signal.SIGALRM, not_yet)
    signal.setitimer(signal.ITIMER_REAL, 1000, 7)
    try:
        assert examine(doubled, TOY).passed
        left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
        assert 0 < left <= 1000 and interval == 7 and signal.getsignal(signal.SIGALRM) is not_yet
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def test_an_interrupted_check_says_so_in_one_line(installed, monkeypatch):
    source = "def doubled(x, times=1):\n    raise KeyboardInterrupt"
    with pytest.raises(KeyboardInterrupt) as raised:
        check(from_source(source, "doubled", monkeypatch))
    assert raised.value._render_traceback_() == [
        "check: interrupted while doubled was running in line 2: `raise KeyboardInterrupt`. Nothing was judged."
    ]


# Why it fails ------------------------------------------------------------------------------------------------------


def told_above(capsys, source, monkeypatch, **names) -> str:
    """Return what check prints above the table."""
    check(from_source(source, "doubled", monkeypatch, **names))
    printed = capsys.readouterr().out
    return " ".join(printed[: re.search(r"^doubled  ", printed, re.MULTILINE).start()].split())


@pytest.mark.parametrize(
    "source",
    [
        "kept = []\ndef doubled(x, times=1):\n    kept.append(1)\n    return len(kept) * x * times",
        "def doubled(x, times=1, memory=[]):\n    memory.extend(x * times)\n    return x * 0 + sum(memory)",
        "total = 0.0\ndef doubled(x, times=1):\n    global total\n    total += sum(x)\n    return x * total * times",
    ],
)
def test_an_answer_that_keeps_something_between_calls_is_told(installed, capsys, monkeypatch, source):
    told = told_above(capsys, source, monkeypatch)
    assert told.startswith(
        "Called again with the same input, it gives a different result: something is kept between calls"
    )


def test_an_argument_that_is_never_used_is_told_with_the_global_in_its_place(installed, capsys, monkeypatch):
    source = "def doubled(x, times=1):\n    return [2 ** times * v for v in X]"
    assert told_above(capsys, source, monkeypatch, X=np.ones(3)) == (
        "Your doubled never uses its argument x. It reads the notebook's X instead."
    )
    assert told_above(capsys, "def doubled(x, times=1):\n    return x * 2 ** 2", monkeypatch) == (
        "Your doubled never uses its argument times."
    )


@pytest.mark.parametrize(
    "body",
    [
        "return [x[i] * times for i in range(0)]",
        "def inner():\n        return x, times\n    return inner()",
        "return (lambda: x * 0 * times)()",
        "return eval('x * times * 0')",
        "x, times = x, times\n    return 0",
        "raise NotImplementedError('x')",
    ],
)
def test_an_argument_that_is_used_in_any_way_is_not_told(installed, capsys, monkeypatch, body):
    assert told_above(capsys, f"def doubled(x, times=1):\n    {body}", monkeypatch) == ""


def test_a_right_answer_is_told_nothing_of_its_arguments(installed, capsys):
    check(named("doubled", lambda x, times=1, spare=None: doubled(x, times)))
    assert capsys.readouterr().out.startswith("doubled  ")


def test_an_argument_that_no_answer_needs_is_not_told(capsys):
    def attention_parameters(d_model, n_heads, bias=False):
        return 2 * d_model**2

    check(attention_parameters)
    said = capsys.readouterr().out
    assert "bias" in said.partition("attention_parameters   ")[0] and "argument n_heads" not in said


def test_arguments_of_a_class_are_looked_at_in_its_methods():
    class Scale:
        def __init__(self, width, n_heads):
            self.width = width

        def forward(self, x, mask=None):
            return [x * self.width for _ in range(2)]

    assert diagnosis.unused_arguments(Scale) == [
        "__init__ of your Scale never uses its argument n_heads.",
        "forward of your Scale never uses its argument mask.",
    ]


CHAIN = """
def exponentials(x):
    return softmax(x)

def softmax(x, axis=-1):
    {softmax}

def softmax_temperature(x, temperature):
    if temperature <= 0:
        raise ValueError
    return exponentials(x / temperature)
"""


@pytest.mark.parametrize(
    "body, words",
    [
        ("raise NotImplementedError", "softmax_temperature calls your softmax, which is not done yet: write that one"),
        ("return np.exp(x)", "softmax_temperature calls your softmax, which does not pass its own check yet: correct"),
    ],
)
def test_an_earlier_exercise_that_fails_is_named_also_through_a_helper(capsys, monkeypatch, body, words):
    check(from_source(CHAIN.format(softmax=body), "softmax_temperature", monkeypatch, np=np))
    assert words in " ".join(capsys.readouterr().out.split())


def test_an_earlier_exercise_that_passes_is_not_named(capsys, monkeypatch):
    source = CHAIN.format(softmax="return softmax_of_the_course(x, axis)").replace("/ temperature", "* temperature")
    check(from_source(source, "softmax_temperature", monkeypatch, softmax_of_the_course=reference_softmax))
    told = capsys.readouterr().out
    assert "calls your" not in told and told.startswith("softmax_temperature  ")


def test_a_method_of_the_same_name_is_not_taken_for_the_exercise():
    names = {}
    exec("def a(x, t):\n    return x.b() + x.T\ndef b():\n    return 1\nT = 1", names)
    assert list(diagnosis.called(names["a"])) == []
    assert diagnosis.unused_arguments(names["a"]) == ["Your a never uses its argument t."]


def test_the_first_in_the_chain_is_named():
    source = "def a():\n    return b() + c()\ndef b():\n    return c()\ndef c():\n    return a()"
    names = {}
    exec(source, names)
    assert [other.__name__ for other in diagnosis.called(names["a"])] == ["c", "b"]


# An older definition ----------------------------------------------------------------------------------------------


@pytest.fixture
def shell(installed):
    """`run(cell, ...)` runs cells in an IPython shell; returns what the last one printed."""
    interactive = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    from IPython.utils.capture import capture_output

    interactive.clear_instance()
    made = interactive.instance()
    made.history_manager.enabled = False
    made.user_ns["check"] = check

    def run(*cells) -> str:
        for cell in cells:
            with capture_output() as captured:
                made.run_cell(cell, store_history=True)
        return " ".join(captured.stdout.split())

    yield run
    interactive.clear_instance()


OLD = "def doubled(x, times=1):\n    return x"
OLDER = "this check judges the older one"
IN_A_STRING = "text = '''\ndef doubled(x):\n'''\n"
WRAP = "import functools\ndef wrap(f):\n    @functools.wraps(f)\n    def g(*a, **k): return f(*a, **k)\n    return g"


@pytest.mark.parametrize(
    "newest, why",
    [
        (OLD.replace(":", "") + " * 2", "SyntaxError in line 1: "),
        ("y = 3\n" + OLD + " * (2", "SyntaxError in line 3: "),
        ("return 3\n" + OLD + " * 2", "SyntaxError in line 1: "),
        ("1 / 0\n" + OLD + " * 2", "an error above it ended its cell"),
        ("%matplotlib nonsense\nraise OSError\n" + OLD + " * 2", "an error above it ended its cell"),
    ],
)
def test_a_newest_definition_that_did_not_run_is_told_first(shell, newest, why):
    told = shell(OLD, newest, "check(doubled)")
    assert told.startswith(f"Your newest doubled did not run ({why}") and OLDER in told


def test_a_definition_below_its_check_is_told(shell):
    assert "(it is below this check)" in shell(OLD, "check(doubled)\n" + OLD + " * 2")


def test_a_class_is_found_by_its_methods(shell):
    made = "class Halver:\n    def forward(self, x): return 1\n    def __init__(self, x, times=1): pass"
    assert OLDER in shell(made, made + "(2", "check(Halver)")
    assert OLDER not in shell(made.replace("1", "2"), "check(Halver)")


@pytest.mark.parametrize(
    "cells",
    [
        [OLD],
        [OLD, OLD],
        [OLD, OLD + " * (2", OLD + " * 2"],
        [OLD, OLD + " * (2", OLD],
        [OLD, OLD + "\n1 / 0"],
        [OLD, "1 / 0\n" + OLD],
        [OLD, IN_A_STRING + "1 / 0", IN_A_STRING + "oops("],
        [OLD, "def tester():\n    def doubled(x): return 2\n    oops("],
        [OLD, "def doubled_twice(x): return (", "print('def doubled('"],
        ["%%capture\n" + OLD, OLD + " * 2"],
        ["%%time\n" + OLD],
        [OLD, "%%time\n" + OLD + " * 2"],
        ["def same(f): return f", OLD + " * 2", "@same\n" + OLD],
        [WRAP, OLD, "@wrap\n" + OLD],
        [OLD, "old = doubled", OLD + " * 2", "doubled = old"],
    ],
)
def test_there_is_no_false_alarm_about_an_older_definition(shell, cells):
    told = shell(*cells, "check(doubled)")
    assert "of 3 passed" in told and OLDER not in told


@pytest.mark.parametrize("cell", ["%run answers_in_a_file.py", "from answers_in_a_file import doubled"])
def test_code_from_a_file_is_not_taken_for_an_older_definition(shell, tmp_path, monkeypatch, cell):
    (tmp_path / "answers_in_a_file.py").write_text(OLD + " * 2.0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    told = shell(OLD, cell, OLD + " * (", "check(doubled)")
    assert "of 3 passed" in told and OLDER not in told


# In a notebook -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """`run(cell, ...)` runs cells in a real kernel that has the toy installed; returns the outputs of the last."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    folder = tmp_path_factory.mktemp("checks")
    (folder / "doubled.gz").write_bytes(codec.pack(TOY))
    start = (
        f"import sys; sys.path.insert(0, {str(MODULE.CHECKS.parent.parent)!r})\nimport pathlib\n"
        f"from attnlab import check\nsys.modules['attnlab.check'].CHECKS = pathlib.Path({str(folder)!r})"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(start)])
    client = nbclient.NotebookClient(book, timeout=120, kernel_name="python3", allow_errors=True)

    with client.setup_kernel():
        client.execute_cell(book.cells[0], 0)

        def run(*sources):
            for source in sources:
                book.cells.append(nbformat.v4.new_code_cell(source))
                cell = client.execute_cell(book.cells[-1], len(book.cells) - 1)
            return cell.outputs

        yield run


def test_a_notebook_shows_a_table_as_html_with_text_beside_it(notebook):
    (table,) = notebook(RIGHT, "check(doubled)")
    assert table.output_type == "display_data"
    assert '<div class="attn-check"' in table.data["text/html"] and "3 of 3 passed" in table.data["text/plain"]


def test_less_than_full_marks_are_told_in_words_and_never_as_a_bare_number(notebook):
    _, points = notebook("def doubled(x, times=1):\n    return doubled_once(x)", "check(doubled)")
    assert points.data == {
        "text/plain": "0 of 4 points on these cases",
        "text/html": "<small>0 of 4 points on these cases</small>",
    }


def test_the_points_read_the_same_in_plain_python(installed, capsys):
    assert repr(check(named("doubled", lambda x, times=1: None))) == "0 of 4 points on these cases"


def test_an_error_in_a_notebook_cell_is_shown_with_its_line(notebook):
    table, _ = notebook("def doubled(x, times=1):\n    y = x\n    return y / undefined", "check(doubled)")
    shown = " ".join(table.data["text/plain"].split())
    assert "NameError (name 'undefined' is not defined) in line 3: `return y / undefined`" in shown


def test_nothing_goes_to_stderr_whatever_the_answer_does(notebook):
    outputs = notebook(
        "import sys, warnings, logging\ndef doubled(x, times=1):\n"
        "    warnings.warn('w'); logging.error('e')\n    print('p', file=sys.stderr); print('p')\n    return x / 0",
        "check(doubled)",
    )
    assert [output.output_type for output in outputs] == ["display_data", "display_data"]


def test_a_wrong_argument_in_a_notebook_is_one_line_and_no_traceback(notebook):
    (error,) = notebook("check('doubled')")
    assert error.output_type == "error" and error.ename == "WrongKind"
    assert len(error.traceback) == 1 and "Leave out the quotes" in error.traceback[0]


def test_a_notebook_says_that_the_newest_cell_did_not_run(notebook):
    table, _ = notebook(
        "def doubled(x, times=1):\n    return x", "def doubled(x, times=1)\n    return 2 * x", "check(doubled)"
    )
    assert table.data["text/plain"].startswith("Your newest doubled did not run (SyntaxError in line 1: ")
    assert '<div class="attn-check" role="alert"><p>Your newest doubled did not run' in table.data["text/html"]
    (table, *_) = notebook("def doubled(x, times=1):\n    return 3 * x * times", "check(doubled)")
    assert table.data["text/plain"].startswith("doubled  ")


def test_a_loop_without_end_in_a_notebook_comes_back(notebook):
    table, _ = notebook(
        "sys.modules['attnlab.check'].CASE_SECONDS = 0.3\n"
        "def doubled(x, times=1):\n    while times:\n        x = x + 0",
        "check(doubled)",
    )
    assert "seconds in line" in " ".join(table.data["text/plain"].split())


def test_an_interrupt_in_a_notebook_is_one_line(notebook):
    (error,) = notebook(
        "import os, signal\ndef doubled(x, times=1):\n    os.kill(os.getpid(), signal.SIGINT)\n    return x",
        "check(doubled)",
    )
    assert error.output_type == "error" and len(error.traceback) == 1
    assert error.traceback[0].startswith("check: interrupted while doubled was running in line ")
