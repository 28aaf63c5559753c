"""Probes on a class: it is made, given weights, and asked like a function."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attnlab.check import examine
from attnlab.checking import probes
from attnlab.checking.probes.class_as_function import KEEP
from attnlab.checking.report import as_text
from course.kit.exercise import Exercise
from course.kit.generators import normal
from tests.attnlab.checking.probes.helpers import seen, words


class Scale(nn.Module):
    """Multiplies by a matrix and by nothing else."""

    def __init__(self, width, extra=0):
        super().__init__()
        if width < 1:
            raise ValueError("width")
        self.W = nn.Linear(width, width, bias=False)
        self.extra = nn.Parameter(torch.randn(extra)) if extra else None

    def forward(self, x, twice=None):
        y = self.W(x)
        return y if self.extra is None else y + self.extra.sum()


W = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
X = torch.tensor([[1.0, 10.0]], dtype=torch.float64)


def test_a_parameter_beyond_those_asked_for_shows_and_repeats():
    case = dict(init={"width": 2, "extra": 3}, weights={"W.weight": W}, x=X)
    first, second = (seen("call", Scale, **case)["result"] for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, X @ W.T)


@pytest.mark.parametrize(
    "weights, words",
    [
        ({"U.weight": W}, "it has no parameter `U.weight`; it has W.weight"),
        ({"W.weight": W[:1]}, "its parameter `W.weight` has shape (2, 2) where (1, 2) was expected"),
    ],
)
def test_weights_that_do_not_fit_are_told_in_words(weights, words):
    assert seen("call", Scale, init={"width": 2}, weights=weights, x=X) == {"refused": f"{words}. {KEEP}"}
    assert seen("error_of", Scale, init={"width": 2}, weights=weights, x=X) == {"refused": f"{words}. {KEEP}"}


def test_a_class_that_is_not_a_module_is_told_in_words():
    assert "extends nn.Module" in seen("call", lambda width: None, init={"width": 2}, x=X)["refused"]


def test_the_only_parameter_needs_no_name():
    assert torch.equal(seen("call", Scale, init={"width": 2}, weights={"*": W}, x=X)["result"], X @ W.T)
    two = seen("call", Scale, init={"width": 2, "extra": 1}, weights={"*": W}, x=X)
    assert two == {"refused": "it should have one parameter; it has 2"}


@pytest.mark.parametrize(
    "answer, words",
    [
        (lambda x: (x, None), "the result should be one tensor that can be differentiated, not Tensor, NoneType"),
        (lambda x: torch.cat([x, x], 1), "the result has shape (1, 4) where (1, 2) was expected"),
    ],
)
def test_a_result_that_cannot_be_differentiated_is_told_in_words(answer, words):
    assert seen("gradients", answer, x=X, upstream=[X]) == {"refused": words}


def test_the_line_of_an_error_in_a_method_is_the_students_own():
    class Fails(Scale):
        def forward(self, x, twice=None):
            return self.missing(x)

    error = seen("call", Fails, init={"width": 2}, weights={"W.weight": W}, x=X)["error"]
    assert error["type"] == "AttributeError"
    assert error["code"] == "return self.missing(x)"


# What a student reads ------------------------------------------------------------------------------------------------


def scale_exercise():
    scale = Exercise(Scale, section="Scaling")

    @scale.property("has one matrix", points=1, hint="One layer, no bias.")
    def matrix(rng):
        yield dict(init={"width": 2})
        yield dict(init={"width": 5})

    @scale.property("multiplies by it", points=2, hint="Call the layer.")
    def product(rng):
        yield dict(init={"width": 3}, weights={"W.weight": normal(rng, 3, 3)}, x=normal(rng, 2, 3))

    @scale.property("has the right gradients", points=1, probe=probes.gradients, hint="Detach nothing.")
    def slopes(rng):
        yield dict(
            init={"width": 3},
            weights={"W.weight": normal(rng, 3, 3)},
            x=normal(rng, 2, 3),
            upstream=[normal(rng, 2, 3)],
        )

    return scale


def told(cls, **options):
    cls.__name__ = "Scale"
    return as_text(examine(cls, scale_exercise().material(), **options))


def test_other_parameters_than_asked_for_are_named():
    class Biased(Scale):
        def __init__(self, width, extra=0):
            super().__init__(width)
            self.W = nn.Linear(width, width)

    report = " ".join(told(Biased).split())
    assert "Its parameters are W.bias (2,), W.weight (2, 2); the exercise asks for W.weight (2, 2)." in report
    assert "Its parameters are not those that are asked for." in " ".join(told(Biased, show_cases=False).split())


def test_a_detached_result_costs_the_gradients_and_nothing_else():
    class Detached(Scale):
        def forward(self, x, twice=None):
            return self.W(x).detach()

    words = told(Detached)
    assert "2 of 3 passed" in words and "`gradient with respect to x` is 0 at" in words
    assert "A gradient is not right." in told(Detached, show_cases=False)


def test_a_method_that_is_left_out_is_told_as_not_done():
    class Half(Scale):
        def forward(self, x, twice=None):
            raise NotImplementedError

    words = told(Half)
    assert "1 of 3 passed" in words and "This part is not done yet in line" in words


def test_the_weights_are_not_among_the_inputs_shown():
    class Twice(Scale):
        def forward(self, x, twice=None):
            return 2 * self.W(x)

    words = told(Twice)
    assert "made with = width: 3" in words and "W.weight" not in words


class TwoNames(nn.Module):
    """One map that is held twice: in a sequence, which comes first, and by itself."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width, bias=False), nn.Tanh())
        self.W = self.layers[0]
        self.A = self.W

    def forward(self, x):
        return self.W(x)


@pytest.mark.parametrize("name", ["W.weight", "A.weight", "layers.0.weight"])
def test_a_parameter_with_several_names_can_be_asked_for_by_each(name):
    assert torch.equal(seen("call", TwoNames, init={"width": 2}, weights={name: W}, x=X)["result"], X @ W.T)
    listed = seen("call", TwoNames, init={"width": 2}, weights={name: W})
    assert listed == {"result": {"parameters": f"{name} (2, 2)"}}


def test_a_parameter_with_several_names_goes_by_the_least_deep_if_none_is_asked_for():
    assert seen("call", TwoNames, init={"width": 2}) == {"result": {"parameters": "W.weight (2, 2)"}}


def test_a_parameter_cannot_serve_as_two():
    both = {"W.weight": W, "A.weight": W}
    said = seen("call", TwoNames, init={"width": 2}, weights=both, x=X)["refused"]
    assert "its `A.weight` is the same parameter as `W.weight`" in said


def test_of_many_parameters_those_that_differ_are_named():
    asked = ", ".join(f"part.W_{i}.weight (12, 12)" for i in range(9))
    came = asked.replace("W_8", "W_x").replace("W_0.weight (12", "W_0.weight (3")
    assert words("call", {"result": {"parameters": asked}}, {"result": {"parameters": came}}) == (
        "Its parameters are not those asked for: missing part.W_0.weight (12, 12), part.W_8.weight (12, 12); "
        "extra part.W_0.weight (3, 12), part.W_x.weight (12, 12)"
    )
