"""`check(f)`: what may be given to it, what comes back, and how it looks in a notebook and elsewhere."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from attnlab import check, codec
from attnlab.check import examine, exercises, parameter_problem
from tests.autograder.toy_exercise import RIGHT, doubled, make

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


def test_partial_credit_comes_back(installed, capsys):
    assert float(check(named("doubled", lambda x, times=1: doubled(x)))) == 2.0


def test_it_knows_the_exercises_it_has_data_for(installed):
    assert exercises() == ["Halver", "doubled"]


@pytest.mark.parametrize(
    "answer, words",
    [
        ("doubled", "Leave out the quotes: check(doubled)"),
        ("nothing", "not a string"),
        (np.ones(2), "not what a call of it returned; a NumPy array came."),
        (None, "None came."),
        (1.5, "a number came."),
        ([1], "a list came."),
        (True, "a truth value came."),
        (type("Halver", (), {})(), "check(Halver)"),
    ],
)
def test_a_wrong_kind_of_argument_is_a_type_error_in_words(installed, answer, words):
    assert words in complaint(answer, TypeError)


def test_an_object_that_can_be_called_is_not_its_class(installed):
    answer = type("Halver", (), {"__call__": lambda self: 1})()
    assert "check takes the class" in complaint(answer, TypeError)


def test_an_unknown_name_is_a_value_error_with_the_nearest_known_one(installed):
    assert complaint(named("double", lambda x: x), ValueError).endswith("Did you mean doubled?")
    assert complaint(named("HALVER", lambda x: x), ValueError).endswith("Did you mean Halver?")
    assert complaint(named("zzz", lambda x: x), ValueError).endswith("The exercises are: Halver, doubled.")


def test_a_lambda_has_no_name(installed):
    assert "A lambda has no name" in complaint(lambda x: x, ValueError)


@pytest.mark.parametrize(
    "function, whose", [(np.dot, "NumPy's"), (np.linalg.norm, "NumPy's"), (len, "Python's"), (np.exp, "NumPy's")]
)
def test_a_librarys_own_function_is_no_answer(installed, function, whose):
    assert (
        f"This is {whose} own {function.__name__}." in complaint(function, (TypeError, ValueError))
        or function is np.exp
        and "No exercise" in complaint(function)
    )


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
        (lambda x, y, times=1: x, "also asks for `y`"),
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


def test_control_c_stops_a_check():
    def interrupted(x, times=1):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        examine(interrupted, TOY)


def test_a_check_answers_in_well_under_a_second(installed, capsys):
    start = time.process_time()
    check(doubled)
    check(named("doubled", lambda x, times=1: x + 1))
    assert time.process_time() - start < 1


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


def test_less_than_full_marks_are_a_number_that_nbgrader_reads(notebook):
    table, points = notebook("def doubled(x, times=1):\n    return 2.0 * x", "check(doubled)")
    assert "1 of 3 passed" in table.data["text/plain"] or "0 of 3 passed" in table.data["text/plain"]
    assert points.output_type == "execute_result"
    assert float(points.data["text/plain"]) < 4


def test_a_stub_in_a_notebook_is_not_done(notebook):
    table, points = notebook("def doubled(x, times=1):\n    raise NotImplementedError", "check(doubled)")
    assert "not done yet" in table.data["text/plain"] and float(points.data["text/plain"]) == 0.0


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
    assert [output.output_type for output in outputs] == ["display_data", "execute_result"]


def test_a_wrong_argument_in_a_notebook_is_one_line_and_no_traceback(notebook):
    (error,) = notebook("check('doubled')")
    assert error.output_type == "error" and error.ename == "WrongKind"
    assert len(error.traceback) == 1 and "Leave out the quotes" in error.traceback[0]
