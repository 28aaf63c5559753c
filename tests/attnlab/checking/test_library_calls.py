"""Calls that do the whole work cost an answer its points; the student's own functions of the same name do not."""

import inspect
import linecache
import re
from pathlib import Path

import pytest

import attnlab
from attnlab.checking import library_calls
from course import catalog
from course.kit import library_shortcuts
from tests.course.exercises.test_mutations import alternatives


def uses(source, name, around=()):
    reference = catalog.exercise(name).reference
    words = library_shortcuts.full(reference), library_shortcuts.partial(reference)
    return library_calls.uses(name, source, *words, around, catalog.all_exercises())


def said(source, name):
    return [str(use) for use in uses(source, name)]


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
    (use,) = uses(f"def softmax(x, axis=-1):\n    {line}\n", "softmax")
    assert (use.word, use.line, use.kind) == (name, 2, "whole" if name == "softmax" else "much")


BY_HAND = [
    ("return float(np.dot(a, b))", "dot"),
    ("return np.array(a).dot(b)", "dot"),
    ("from numpy import dot as d; return d(a, b)", "dot"),
    ("return np.array(a) @ np.array(b)", "@"),
    ("return np.einsum('i,i', a, b)", "einsum"),
    ("return math.sumprod(a, b)", "sumprod"),
    ("return eval('np.d' 'ot(a, b)')", "eval"),
]


@pytest.mark.parametrize(
    "name, line, word",
    [
        *((name, *row) for name in ("dot", "matmul") for row in BY_HAND),
        ("attention_backward", "output.backward(d_output)", "backward"),
        ("layer_norm", "return F.layer_norm(x, x.shape[-1:], weight, bias, eps)", "layer_norm"),
        ("rms_norm", "return nn.RMSNorm(x.shape[-1])(x)", "RMSNorm"),
        ("gelu", "return F.gelu(x)", "gelu"),
        ("gelu_tanh", "return torch.nn.GELU(approximate='tanh')(x)", "GELU"),
        ("CrossAttention", "nn.MultiheadAttention(q, k, v)", "MultiheadAttention"),
        ("GroupedQueryAttention", "F.scaled_dot_product_attention(q, k, v)", "scaled_dot_product_attention"),
        ("tiled_attention", "F.scaled_dot_product_attention(Q, K, V)", "scaled_dot_product_attention"),
        ("EncoderBlock", "self.layer = nn.TransformerEncoderLayer(8, 2)", "TransformerEncoderLayer"),
    ],
)
def test_an_operation_that_the_contract_rules_out_is_told_of(name, line, word):
    (told,) = said(f"def {name}(a, b):\n    {line}\n", name)
    assert f"uses {word} in line 2" in told


@pytest.mark.parametrize(
    "line",
    [
        "import attnlab.checking.fakes",
        "import attnlab.checking.probes as p",
        "from attnlab.checking import fakes",
        "from attnlab.checking.fakes import FixedCache",
        "attnlab.checking.codec.frame = None",
    ],
)
def test_an_answer_that_uses_a_part_of_the_check_is_told_of(line):
    (told,) = said(f"x = 1\n{line}\n", "softmax")
    assert "line 2" in told and "part of the check" in told


@pytest.mark.parametrize(
    "name, source",
    [
        # The same names are free where they are not the work to be done.
        ("matmul", "def matmul(A, B):\n    return [[dot(row, column) for column in zip(*B)] for row in A]"),
        ("dot", "def dot(a, b):\n    return float(sum(x * y for x, y in zip(a, b)))"),
        ("pairwise_scores", "def pairwise_scores(Q, K):\n    return np.einsum('id,jd->ij', Q, K)"),
        ("softmax", "loss.backward()"),
        ("MultiHeadAttention", "model.eval()"),
        # Honest work.
        ("softmax", "def softmax(x, axis=-1):\n    e = np.exp(x - x.max())\n    return e / e.sum()"),
        ("softmax", "y = softmax(x)"),
        ("softmax", "not python ("),
        ("softmax", "from attnlab.mine import softmax"),
        ("softmax", "%matplotlib inline\nx = 1"),
        # A part of an answer.
        ("EncoderBlock", "def EncoderBlock():\n    self.norm_1 = nn.LayerNorm(d_model)"),
        ("LlamaBlock", "def LlamaBlock():\n    self.norm_1 = nn.RMSNorm(d_model, eps=eps)"),
        ("FeedForward", "def FeedForward():\n    return self.W_2(F.gelu(self.W_1(x)))"),
        ("SwiGLU", "def SwiGLU():\n    return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))"),
        ("sample", "def sample():\n    return torch.multinomial(logits.log_softmax(-1).exp(), 1)"),
        ("tiled_attention", "def tiled_attention():\n    total = scores.logsumexp(-1)"),
        (
            "sliding_window_attention",
            "def sliding_window_attention():\n    part = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
        ),
    ],
)
def test_what_is_free_is_not_told_of(name, source):
    assert said(source, name) == []


@pytest.mark.parametrize("name", catalog.all_exercises())
def test_no_reference_is_told_of(name):
    assert said(inspect.getsource(catalog.exercise(name).reference), name) == []


@pytest.mark.parametrize(
    "before, line",
    [
        ("import torch\nquick = torch.softmax\n", "return quick(x, axis)"),
        ("from torch import softmax as s\n", "return s(x, axis)"),
        ("def helper(x):\n    return x.softmax(-1)\n", "return helper(x)"),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_helper_of_the_answer_is_read_with_it(before, line, elsewhere):
    source = f"def softmax(x, axis=-1):\n    {line}\n"
    found = uses(source, "softmax", [before]) if elsewhere else uses(before + source, "softmax")
    assert [use.kind for use in found] == ["whole"]


@pytest.mark.parametrize(
    "source",
    [
        "def softmax(x, axis=-1):\n    return 0\nassert torch.softmax(x, -1) == softmax(x)",  # a comparison
        "def compare(x):\n    return torch.softmax(x, -1) - softmax(x)\ndef softmax(x, axis=-1):\n    return 0",
        "class softmax:\n    def forward(self, x):\n        return self.softmax(x)",
        "def softmax(x, axis=-1):\n    return mine.softmax(x)",
        "def softmax_jacobian(p):\n    return torch.softmax(p, -1)\ndef softmax(x, axis=-1):\n    softmax_jacobian(x)",
    ],
)
def test_what_the_answer_itself_does_not_call_costs_nothing(source):
    assert uses(source, "softmax") == []


def test_the_check_takes_the_points_and_says_why(monkeypatch, capsys):
    source = "import torch\ndef softmax(x, axis=-1):\n    return torch.softmax(torch.as_tensor(x), axis).numpy()\n"
    names = {}
    exec(compile(source, "<an answer>", "exec"), names)
    monkeypatch.setitem(linecache.cache, "<an answer>", (len(source), None, source.splitlines(True), "<an answer>"))
    points = attnlab.check(names["softmax"])
    assert float(points) == 0 and not points.report.passed
    text = " ".join(capsys.readouterr().out.split())
    assert "`softmax` (line 3), which does the whole work" in text


@pytest.mark.parametrize("name", catalog.all_exercises())
def test_differently_written_right_answers_cost_nothing(name):
    words = library_shortcuts.full(catalog.exercise(name).reference)
    for answer in alternatives(name):
        answer = answer if hasattr(answer, "__qualname__") else type(answer)
        source = Path(inspect.getsourcefile(answer)).read_text("utf-8")
        found = library_calls.uses(answer.__qualname__, source, words)
        assert not [str(use) for use in found if use.kind == "whole"]


def test_what_a_chapter_says_earns_nothing_does():
    """As in `scaled_dot_product_attention would do the whole work, so it earns no points`."""
    promised = 0
    for stem in catalog.chapters():
        text = " ".join(catalog.chapter_path(stem).read_text("utf-8").split())
        for name, exercise in catalog.exercises_of(stem).items():
            contract = " ".join((inspect.getdoc(exercise.reference) or "").split())
            given = re.search(rf"(?:class|def) {name}\b(.*?)raise NotImplementedError", text)
            for words in (contract, given[1] if given else ""):
                for word in re.findall(r"(\w+) would do (?:all the|the whole) work\b", words):
                    promised += 1
                    assert word in library_shortcuts.full(exercise.reference), f"{stem}: {name} names {word}"
    assert promised
