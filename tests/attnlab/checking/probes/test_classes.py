"""Probes of an object's methods, of a module that reads with a cache, and of the modules in a list."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attnlab.check import examine
from attnlab.checking import probes
from attnlab.checking.fakes import fakes_allowed
from attnlab.checking.formatting import table
from course.kit.exercise import Exercise
from tests.attnlab.checking.probes.helpers import seen, words


@pytest.fixture(autouse=True)
def fakes_can_be_made():
    """To the answers of this file; `test_fakes.py` tests that they are made for nothing else."""
    with fakes_allowed():
        yield


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

    def view(self, shape):
        return self.total.view(*shape)  # PyTorch's own error is a RuntimeError

    def spoil(self, x, y):
        y.zero_()

    def later(self):
        raise NotImplementedError


ONES = torch.ones(2)


def tally(*steps):
    return seen("steps", Tally, init={"width": 2}, steps=list(steps))


def test_each_step_has_its_result():
    got = tally({"do": "len"}, {"do": "add", "x": ONES}, {"do": "len"})
    assert list(got) == ["step 1, len", "step 2, add", "step 3, len", "changed"]
    assert (got["step 1, len"], got["step 2, add"].tolist(), got["step 3, len"]) == (0, [1, 1], 1)


def test_a_result_is_taken_down_before_the_next_step_alters_it():
    got = tally({"do": "add", "x": ONES}, {"do": "add", "x": ONES})
    assert [got["step 1, add"].tolist(), got["step 2, add"].tolist()] == [[1, 1], [2, 2]]


def test_a_value_error_is_a_result_and_the_next_step_follows():
    got = tally({"do": "add", "x": torch.ones(3)}, {"do": "add", "x": ONES})
    assert (got["step 1, add"], got["step 2, add"].tolist()) == ("ValueError", [1, 1])


def test_an_error_of_pytorchs_own_counts_as_a_value_error():
    assert tally({"do": "view", "shape": [3]})["step 1, view"] == "ValueError"


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


class Past(nn.Module):
    """The sum of all rows so far times W, the earlier ones out of the cache."""

    def __init__(self, width, factor=1.0):
        super().__init__()
        self.W, self.factor = nn.Linear(width, width, bias=False), factor

    def forward(self, x, cache=None, *, scale=None):
        kept = x if cache is None else cache.append(x[:, None], -x[:, None])[0][:, 0]
        sums = self.W(kept).cumsum(1)[:, kept.shape[1] - x.shape[1] :]
        return sums if scale is None else sums * scale


class Forgets(Past):
    """It does not ask the cache."""

    def forward(self, x, cache=None):
        return super().forward(x)


class KeepsToItself(Past):
    """Earlier tokens are kept in the module, although they belong to the caller."""

    def forward(self, x, cache=None):
        before = getattr(self, "before", torch.zeros_like(x[:, :1]))[: x.shape[0]]
        sums = self.W(x).cumsum(1) + before
        self.before = sums[:, -1:].detach()
        return sums


class FeedsTwice(Past):
    """It puts its rows into the cache two times."""

    def forward(self, x, cache=None):
        cache.append(x[:, None], x[:, None])
        return super().forward(x, cache)


class Stack(nn.Module):
    """Several blocks, each with a cache of its own."""

    def __init__(self, width, many):
        super().__init__()
        self.blocks = nn.ModuleList(Past(width) for _ in range(many))

    def forward(self, x, caches=None):
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks)):
            x = block(x, cache)
        return x


class TwoResults(Past):
    def forward(self, x, cache=None):
        return super().forward(x, cache), cache


WIDTH = 3
WEIGHT = {"W.weight": torch.tensor([[1.0, 2, 0], [0, 1, -1], [2, 0, 1]], dtype=torch.float64)}
X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
OTHER = torch.randn(1, 7, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def whole(x):
    """The result of `Past` for all of x at once."""
    return (x @ WEIGHT["W.weight"].T).cumsum(1)


def in_chunks(cls, cuts, **inputs):
    return seen("in_chunks", cls, init={"width": WIDTH}, weights=WEIGHT, cuts=cuts, x=X, **inputs)


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 6]])
def test_chunks_are_put_together_to_what_one_pass_gives(cuts):
    torch.testing.assert_close(in_chunks(Past, cuts)["result"], whole(X))


def test_a_module_that_does_not_ask_its_cache_shows():
    got = in_chunks(Forgets, [3])["result"]
    torch.testing.assert_close(got[:, :3], whole(X)[:, :3])
    assert not torch.allclose(got[:, 3:], whole(X)[:, 3:])


def test_tokens_that_are_fed_twice_show_in_the_numbers():
    assert not torch.allclose(in_chunks(FeedsTwice, [3])["result"], whole(X))


def test_all_that_a_cache_holds_is_given_out_where_it_is_asked_for():
    keys, values = in_chunks(Past, [3], kept=True)["kept"]
    torch.testing.assert_close(keys, X[:, None])
    torch.testing.assert_close(values, -X[:, None])
    assert in_chunks(Forgets, [3], kept=True)["kept"] == []
    assert in_chunks(FeedsTwice, [3], kept=True)["kept"][0].shape == (2, 1, 14, WIDTH)


def test_a_second_text_read_in_between_has_a_cache_of_its_own():
    got = in_chunks(Past, [2, 5], beside=OTHER)["result"]
    for result, x in zip(got, (X, OTHER), strict=True):
        torch.testing.assert_close(result, whole(x))


def test_what_is_kept_in_the_module_shows_beside_a_second_text():
    torch.testing.assert_close(in_chunks(KeepsToItself, [3])["result"], whole(X))
    assert not torch.allclose(in_chunks(KeepsToItself, [3], beside=X.flip(0))["result"][0], whole(X))


def test_another_input_is_given_to_each_chunk_as_it_is():
    got = in_chunks(Past, [3], scale=torch.tensor(2.0, dtype=torch.float64))["result"]
    torch.testing.assert_close(got, 2 * whole(X))


def test_a_module_of_several_blocks_gets_a_cache_for_each():
    weights = {f"blocks.{i}.W.weight": WEIGHT["W.weight"] for i in range(2)}
    got = seen("in_chunks", Stack, init={"width": WIDTH, "many": 2}, weights=weights, cuts=[1, 4], x=X)["result"]
    torch.testing.assert_close(got, whole(whole(X)))


def test_arguments_for_making_it_reach_the_module():
    made = {"width": WIDTH, "factor": 2.0}
    assert "result" in seen("in_chunks", Past, init=made, weights=WEIGHT, cuts=[3], x=X)


def test_a_parameter_that_is_missing_is_told():
    got = seen("in_chunks", Past, init={"width": WIDTH}, weights={"V.weight": WEIGHT["W.weight"]}, cuts=[3], x=X)
    assert "has no parameter `V.weight`" in got["refused"]


def test_a_result_that_is_not_a_tensor_is_told_in_a_sentence():
    assert "should be one tensor" in in_chunks(TwoResults, [3])["refused"]


class Sorted(nn.Module):
    """Rows whose first number is negative go to the first map, the others to the second."""

    def __init__(self, width, how):
        super().__init__()
        self.maps, self.how = nn.ModuleList(nn.Linear(width, width) for _ in range(2)), how

    def forward(self, x):
        out = torch.zeros_like(x)
        for each, mine in zip(self.maps, (x[..., 0] < 0, x[..., 0] >= 0)):
            if self.how == "all":
                out = out + each(x) * mine[..., None]
            elif self.how == "by name":
                out[mine] = each(input=x[mine])
            elif self.how == "vectors":
                out[mine] = torch.stack([each(row) for row in x[mine]])
            else:
                out[mine] = each(x[mine])
        return out


def routed(how, inner="maps"):
    weights = {"maps.0.weight": WEIGHT["W.weight"]}
    return seen("routed", Sorted, init={"width": WIDTH, "how": how}, weights=weights, inner=inner, x=X)


@pytest.mark.parametrize("how", ["rows", "by name", "vectors"])
def test_numbers_are_counted_for_each_module_however_it_is_called(how):
    first = int((X[..., 0] < 0).sum())
    assert routed(how)["given"].tolist() == [WIDTH * first, WIDTH * (14 - first)]


def test_rows_that_are_not_its_own_are_counted_too():
    assert routed("all")["given"].tolist() == [WIDTH * 14] * 2
    torch.testing.assert_close(routed("all")["result"], routed("rows")["result"])


def test_a_module_without_such_a_list_is_told():
    assert "`experts`, an nn.ModuleList" in str(routed("rows", inner="experts"))
