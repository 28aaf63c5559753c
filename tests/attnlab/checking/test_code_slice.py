"""The statements that a definition needs, and no others."""

import pytest

from attnlab.checking.code_slice import excerpt, needed, statements

MODULE = """\
import math
import torch
from torch import nn
from numpy import *

rate = 3
limit: int = 2
left, right = 1, 2
table = [row for row in range(limit)]
table += [9]


def helper(a, scale=rate):
    number = a + limit
    return [q * number for q in table]


def unrelated():
    return rate


class Layer(nn.Module):
    width = left

    def forward(self, x):
        return helper(x) + math.pi * self.width


print(unrelated())
"""


def test_a_class_needs_its_base_its_helpers_and_what_these_need():
    kept = excerpt(MODULE, "m.py", ["Layer"])
    for line in (
        "import math",
        "from torch import nn",
        "rate = 3",
        "limit: int = 2",
        "left, right = (1, 2)",
        "table += [9]",
        "def helper",
    ):
        assert line in kept
    for line in ("import torch\n", "unrelated", "print"):
        assert line not in kept


def test_what_is_kept_runs():
    space = {}
    exec(excerpt(MODULE, "m.py", ["helper"]), space)
    assert space["helper"](1) == [0, 3, 27]
    assert "Layer" not in space


INNER = "a = 1\nb = 2\nc = 3\ndef wrap(f): return f\n@wrap\ndef f(x=b):\n    def g():\n        return a\n    return g"


@pytest.mark.parametrize(
    "source, expected",
    [
        ("x = 1 / 0\ndef f(x):\n    y = x\n    return [x for x in y]", [1]),
        ("x = 1\n[x for x in range(3)]\ndef f(rows):\n    return [x for x in rows], x", [0, 2]),
        (INNER, [0, 1, 3, 4]),
        ("from math import *\nx = 1\ndef f(): return pi", [0, 2]),
        ("def f(): return g()\ndef g(): return f()", [0, 1]),
        ("def f(): return len([])", [0]),
        ("x = 1", []),
    ],
    ids=["local", "comprehension", "inner, default, decorator", "star import", "cycle", "built-in", "missing"],
)
def test_a_function_needs_the_statements_that_bind_its_global_names(source, expected):
    assert needed(statements(source, "m.py"), ["f"]) == expected


def test_every_binding_of_a_name_counts_unless_the_caller_says_which():
    found = statements("def f(): return 1\ndef f(): return 2\ndef g(): return f()", "m.py")
    assert needed(found, ["g"]) == [0, 1, 2]
    assert needed(found, ["g"], only={"f": [0]}) == [0, 2]


def test_text_that_is_not_python_is_a_syntax_error():
    with pytest.raises(SyntaxError):
        statements("def f(:", "m.py")
