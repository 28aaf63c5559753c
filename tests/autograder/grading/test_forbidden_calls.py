"""Calls that do the whole work are told of; the student's own functions of the same name are not."""

import pytest

from autograder.course import catalog
from autograder.grading.forbidden_calls import forbidden_calls

SOFTMAX = catalog.exercise("softmax")


@pytest.mark.parametrize(
    "line, name",
    [
        ("return torch.softmax(x, axis)", "softmax"),
        ("return x.softmax(-1)", "softmax"),
        ("from torch.nn.functional import softmax as s; return s(x)", "softmax"),
        ("return scipy.special.logsumexp(x)", "logsumexp"),
        ("return getattr(torch, 'softmax')(x)", "softmax"),
        ("return torch.nn.functional.scaled_dot_product_attention(x, x, x)", "scaled_dot_product_attention"),
    ],
)
def test_a_call_that_does_the_whole_work_is_told_of_with_its_line(line, name):
    (said,) = forbidden_calls(f"def softmax(x, axis=-1):\n    {line}\n", SOFTMAX)
    assert name in said and "line 2" in said


@pytest.mark.parametrize(
    "source",
    [
        "def softmax(x, axis=-1):\n    e = np.exp(x - x.max())\n    return e / e.sum()",
        "y = softmax(x)",
        "not python (",
        "from attnlab.mine import softmax",
        "%matplotlib inline\nx = 1",
    ],
)
def test_honest_work_is_not(source):
    assert forbidden_calls(source, SOFTMAX) == []


@pytest.mark.parametrize("name", catalog.all_exercises())
def test_no_reference_is_told_of(name):
    import inspect

    exercise = catalog.exercise(name)
    assert forbidden_calls(inspect.getsource(exercise.reference), exercise) == []
