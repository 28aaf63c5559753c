"""Words on an object's methods, on a module that reads with a cache, and on the modules in a list."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attnlab.check import examine
from attnlab.checking import probes
from attnlab.checking.formatting import table
from course.kit.exercise import Exercise
from tests.attnlab.checking.probes.helpers import seen, words


class Tally:
    """Adds tensors up. It gives away its own sum, and alters it in the next step."""

    def __init__(self, width):
        self.total, self.many = torch.zeros(width), 0

    def __len__(self):
        return self.many

    def add(self, x):
        if x.shape != self.total.shape:
            raise ValueError("width")
        self.many += 1
        self.total += x
        return self.total

    def spoil(self, x, y):
        y.zero_()

    def later(self):
        raise NotImplementedError


ONES = torch.ones(2)


def tally(*steps):
    return seen("steps", Tally, init={"width": 2}, steps=list(steps))


def test_a_result_is_taken_down_before_the_next_step_alters_it():
    got = tally({"do": "add", "x": ONES}, {"do": "add", "x": ONES})
    assert [got["step 1, add"].tolist(), got["step 2, add"].tolist()] == [[1, 1], [2, 2]]


@pytest.mark.parametrize(
    "before, step, words",
    [
        ([], {"do": "append", "x": ONES}, {"type": "AttributeError"}),  # the student's error, for nothing was done
        ([{"do": "len"}], {"do": "reset"}, "AttributeError"),  # a result
        ([{"do": "len"}], {"do": "later"}, {"type": "NotImplementedError"}),
    ],
)
def test_a_method_that_is_missing_is_an_error_at_first_and_a_result_later(before, step, words):
    got = tally(*before, step)
    if isinstance(words, dict):
        assert got["error"].items() >= words.items()
    else:
        assert got[f"step {len(before) + 1}, {step['do']}"] == words


@pytest.mark.parametrize(
    "step, altered", [({"do": "spoil", "x": ONES, "y": torch.ones(2)}, "y"), ({"do": "add", "x": ONES}, "")]
)
def test_an_argument_that_a_step_alters_is_named(step, altered):
    assert tally(step)["changed"] == altered


def told(*steps, expected):
    """The words for a student whose first differing step should have given `expected`, in the last step."""
    got = tally(*steps)
    last = [key for key in got if key != "changed"][-1]
    return words("steps", {**got, last: expected}, got)


@pytest.mark.parametrize(
    "steps, expected, phrase",
    [
        ([{"do": "add", "x": ONES}, {"do": "len"}], 3, "In step 2 (len): the result is 1 where 3 was expected"),
        (
            [{"do": "add", "x": torch.ones(3)}],
            ONES,
            "In step 1 (add): it raised ValueError or RuntimeError on input that it should accept",
        ),
        (
            [{"do": "add", "x": ONES}],
            "ValueError",
            "In step 1 (add): it should have raised ValueError, but it returned something",
        ),
        (
            [{"do": "len"}, {"do": "reset"}],
            "ValueError",
            "In step 2 (reset): it raised AttributeError where it should raise ValueError",
        ),
    ],
)
def test_what_differs_is_told_with_its_step(steps, expected, phrase):
    assert told(*steps, expected=expected) == phrase


def test_one_of_several_values_is_told_with_its_step():
    first, other = ({"step 1, append": (torch.ones(2), torch.ones(n)), "changed": ""} for n in (2, 3))
    assert words("steps", first, other) == ("In step 1 (append): value 2 of 2 has shape (3,) where (2,) was expected")


def test_a_step_that_fails_and_should_not_is_told_with_all_steps():
    exercise = Exercise(Tally, section="Steps")

    @exercise.property("adds up", points=1, hint="Add.", probe=probes.steps)
    def adds_up(rng):
        yield dict(init={"width": 2}, steps=[{"do": "len"}, {"do": "add", "x": ONES}])

    class Refuses(Tally):
        def add(self, x):
            raise ValueError

    assert examine(Refuses, exercise.material(1)).findings[0].detail.splitlines()[:4] == [
        "In step 2 (add): it raised ValueError or RuntimeError on input that it should accept.",
        "made with = width: 2",
        "steps     = 1. len",
        "            2. add x of shape (2,)",
    ]


def test_steps_are_shown_one_a_line_with_the_shapes_of_what_they_are_given():
    assert table(
        {
            "steps": [
                {"do": "append", "k": torch.ones(2, 3), "v": torch.ones(2, 1)},
                {"do": "len"},
                {"do": "view", "shape": [3]},
            ]
        }
    ) == ["steps = 1. append k of shape (2, 3), v of shape (2, 1)", "        2. len", "        3. view shape = [3]"]


X = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(1))


class TwoResults(nn.Module):
    def forward(self, x, cache=None):
        return x, cache


def test_a_result_that_is_not_a_tensor_is_told_in_a_sentence():
    assert "should be one tensor" in seen("in_chunks", TwoResults, init={}, cuts=[3], x=X)["refused"]


class Sorted(nn.Module):
    """Rows whose first number is negative go to the first map, the others to the second, and each by its name."""

    def __init__(self):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, x):
        out = torch.zeros_like(x)
        for each, mine in zip(self.maps, (x[..., 0] < 0, x[..., 0] >= 0)):
            out[mine] = each(input=x[mine])
        return out


def test_rows_that_a_module_is_given_by_name_are_counted_too():
    first = int((X[..., 0] < 0).sum())
    assert seen("routed", Sorted, init={}, inner="maps", x=X)["given"].tolist() == [first, 14 - first]


def test_a_module_without_such_a_list_is_told():
    assert "`experts`, an nn.ModuleList" in str(seen("routed", Sorted, init={}, inner="experts", x=X))
