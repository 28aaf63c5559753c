"""Whatever happens in a call becomes plain data."""

from __future__ import annotations

import numpy as np
import pytest

from attnlab.checking.observe import observe


def test_an_exception_tells_its_line_in_the_students_own_file():
    def broken(x):
        return np.linalg.inv(x)

    error = observe(broken, "call", {"x": np.zeros((2, 2))})["error"]
    assert error["type"] == "LinAlgError" and error["code"] == "return np.linalg.inv(x)"
    assert error["line"] == broken.__code__.co_firstlineno + 1


def test_an_exception_in_a_class_tells_its_line():
    class Broken:
        def __init__(self):
            self.half()

        def half(self):
            raise KeyError("k")

    assert observe(Broken, "call", {})["error"]["code"] == 'raise KeyError("k")'


def test_an_exception_that_cannot_print_is_still_described():
    class Odd(Exception):
        def __str__(self):
            raise SystemExit

    def broken():
        raise Odd

    assert observe(broken, "call", {})["error"]["type"] == "Odd"


def test_exit_is_an_error_and_control_c_is_not_swallowed():
    def leave():
        raise SystemExit(3)

    def interrupt():
        raise KeyboardInterrupt

    assert observe(leave, "call", {})["error"]["type"] == "SystemExit"
    with pytest.raises(KeyboardInterrupt):
        observe(interrupt, "call", {})


def test_a_result_that_is_not_plain_data_is_refused():
    assert "generator" in observe(lambda: (x for x in "a"), "call", {})["refused"]


def test_warnings_and_overflows_are_silent(recwarn):
    assert np.isinf(observe(lambda x: np.exp(x), "call", {"x": 1e4})["value"]["result"])
    assert not recwarn.list


def test_the_outcome_keeps_no_hold_on_the_students_objects():
    mine = [1.0]
    outcome = observe(lambda: mine, "call", {})
    mine.append(2.0)
    assert outcome["value"]["result"] == [1.0]
