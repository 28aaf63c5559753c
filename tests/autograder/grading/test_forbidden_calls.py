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
    "line, word",
    [
        ("return float(np.dot(a, b))", "dot"),
        ("return np.array(a).dot(b)", "dot"),
        ("from numpy import dot as d; return d(a, b)", "dot"),
        ("from numpy import *; return dot(a, b)", "*"),
        ("return np.array(a) @ np.array(b)", "@"),
        ("return np.einsum('i,i', a, b)", "einsum"),
        ("return math.sumprod(a, b)", "sumprod"),
        ("return eval('np.d' 'ot(a, b)')", "eval"),
    ],
)
@pytest.mark.parametrize("name", ["dot", "matmul"])
def test_what_is_to_be_written_by_hand_is_not_taken_from_a_library(name, line, word):
    (said,) = forbidden_calls(f"def {name}(a, b):\n    {line}\n", catalog.exercise(name))
    assert f" {word} in line 2" in said


def test_derivatives_are_to_be_worked_out():
    line = "def attention_backward(Q, K, V, d_output):\n    output.backward(d_output)"
    (said,) = forbidden_calls(line, catalog.exercise("attention_backward"))
    assert "backward in line 2" in said


@pytest.mark.parametrize(
    "name, source",
    [
        ("matmul", "def matmul(A, B):\n    return [[dot(row, column) for column in zip(*B)] for row in A]"),
        ("dot", "def dot(a, b):\n    return float(sum(x * y for x, y in zip(a, b)))"),
        ("pairwise_scores", "def pairwise_scores(Q, K):\n    return np.einsum('id,jd->ij', Q, K)"),
        ("softmax", "loss.backward()"),
        ("MultiHeadAttention", "model.eval()"),
    ],
)
def test_the_same_names_are_free_elsewhere(name, source):
    assert forbidden_calls(source, catalog.exercise(name)) == []


@pytest.mark.parametrize(
    "line",
    [
        "import attnlab.stand_ins",
        "import attnlab.probes as p",
        "from attnlab import stand_ins",
        "from attnlab.stand_ins import Room",
        "attnlab.codec.frame = None",
    ],
)
def test_an_answer_that_uses_a_part_of_the_check_is_told_of(line):
    (said,) = forbidden_calls(f"x = 1\n{line}\n", SOFTMAX)
    assert "line 2" in said and "part of the check" in said


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


@pytest.mark.parametrize(
    "name, line, told",
    [
        ("layer_norm", "return F.layer_norm(x, x.shape[-1:], weight, bias, eps)", "layer_norm"),
        ("rms_norm", "return nn.RMSNorm(x.shape[-1])(x)", "RMSNorm"),
        ("gelu", "return F.gelu(x)", "gelu"),
        ("gelu_tanh", "return torch.nn.GELU(approximate='tanh')(x)", "GELU"),
        ("GroupedQueryAttention", "F.scaled_dot_product_attention(q, k, v)", "scaled_dot_product_attention"),
        ("tiled_attention", "F.scaled_dot_product_attention(Q, K, V)", "scaled_dot_product_attention"),
        ("EncoderBlock", "self.layer = nn.TransformerEncoderLayer(8, 2)", "TransformerEncoderLayer"),
    ],
)
def test_an_operation_that_the_contract_rules_out_is_told_of(name, line, told):
    (said,) = forbidden_calls(f"def {name}():\n    {line}\n", catalog.exercise(name))
    assert f"uses {told} in line 2" in said


@pytest.mark.parametrize(
    "name, line",
    [
        ("EncoderBlock", "self.norm_1 = nn.LayerNorm(d_model)"),
        ("LlamaBlock", "self.norm_1 = nn.RMSNorm(d_model, eps=eps)"),
        ("FeedForward", "return self.W_2(F.gelu(self.W_1(x)))"),
        ("SwiGLU", "return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))"),
        ("sample", "return torch.multinomial(logits.log_softmax(-1).exp(), 1)"),
        ("tiled_attention", "total = scores.logsumexp(-1)"),
        ("sliding_window_attention", "part = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"),
    ],
)
def test_a_part_of_an_answer_is_not_told_of(name, line):
    assert forbidden_calls(f"def {name}():\n    {line}\n", catalog.exercise(name)) == []
