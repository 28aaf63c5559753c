"""The engine against the course's own modules with the same quantized weights: logits, texts, heads and breaks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnlab import data, smollm2
from solutions.language_model import LanguageModel, generate

pytestmark = [pytest.mark.slow, pytest.mark.long]
AGREES = 1e-3  # in logits, which go from about -20 to 30
TEXTS = [
    "The capital of France is",
    " The CEO announced record earnings on Friday",
    "Once upon a time, there was a little girl who lived in a village near the forest.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "12 + 30 = 42, and 7 times 8 is",
    "Der Himmel ist blau, und die Straße führt über die Brücke",
    "Ça va, été, naïve café, Ærøskøbing",
    "👍🏽 👨‍👩‍👧‍👦 🇫🇷 means",
    "   leading blanks",
    "\n\n\tTabs and lines\n",
    "日本語のテキスト",
    "Привет, как дела?",
    "¿Dónde está la biblioteca?",
    "for (let i = 0; i < 10; i++) { console.log(i); }",
    "<|im_start|>user\nHi<|im_end|>",
    "a",
    "!!!???...",
    "3.14159265358979",
    "x² + y² = z², so x = ±√(z² − y²)",
    "The cat sat on the mat. The cat sat on the mat. The cat sat on the",
]


@pytest.fixture(scope="module")
def ours(smollm2_file):
    return smollm2.load(LanguageModel)


@pytest.fixture(scope="module")
def ids(smollm2_file):
    tokenizer = smollm2.tokenizer()
    return [tokenizer.encode(text) for text in TEXTS]


@pytest.fixture(scope="module")
def expected(ours, ids):
    with torch.no_grad():
        return [ours(torch.tensor([row]))[0].numpy() for row in ids]


@pytest.fixture
def run(node, pieces):
    """`run(code, **given)` runs JavaScript that finds the opened model, and returns what it prints."""

    def go(code, **given):
        return node(f"const {{ model, tokenizer }} = engine.opened(given.folder);{code}", folder=str(pieces), **given)

    return go


@pytest.fixture
def numbers(run, tmp_path):
    """`numbers(code, **given)`: the arrays in `all`, to which the code adds, as one flat array of float32."""

    def go(code, **given):
        path = str(tmp_path / "numbers")
        run(f"const all = [];{code} engine.save(given.path, all); console.log('null');", path=path, **given)
        return np.fromfile(path, "<f4")

    return go


def test_logits_are_those_of_python_on_twenty_texts(numbers, ids, expected):
    found = numbers("for (const row of given.ids) all.push(engine.logitsOf(model, row));", ids=ids)
    wanted = np.concatenate(expected)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=0, atol=AGREES)


def test_plain_javascript_and_a_cache_filled_in_chunks_give_the_same(numbers, ids, expected):
    code = """
        all.push(engine.logitsOf(engine.opened(given.folder, false).model, given.row));
        for (const [begin, end] of [[0, 3], [3, 4], [4]]) model.read(given.row.slice(begin, end));
        all.push(model.logits(given.row.map((_, position) => [model.layers.length, position])));
    """
    found = numbers(code, row=ids[1])
    wanted = np.stack([expected[1]] * 2)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=0, atol=AGREES)


def test_recorded_texts_are_written_alike_token_by_token(run, ours, ids):
    """Two texts, thirty tokens each, at temperature 0."""
    rows = ids[:2]
    written = [generate(ours, torch.tensor([row]), 30)[0, len(row) :].tolist() for row in rows]
    code = """
        console.log(JSON.stringify(given.rows.map((row) => {
          model.reset();
          model.read(row);
          return [...engine.generate(model, 30, engine.argmax)];
        })));
    """
    assert run(code, rows=rows) == written


@pytest.mark.parametrize("layer", [0, 12])
def test_a_head_switched_off_or_set_to_its_mean_changes_what_python_says_it_changes(numbers, ours, ids, layer):
    """The layers before it stay; it and those after are read again."""
    row, head = ids[1], 4
    code = """
        model.read(given.row);
        for (const how of [1, 2]) {
          model.heads[given.layer][given.head] = how;
          model.restart(given.layer);
          for (let l = given.layer; l < model.layers.length; l++) model.block(l);
          all.push(model.logits());
        }
        all.push(model.means[given.layer]);
    """
    found = numbers(code, row=row, layer=layer, head=head)
    means, d_head = torch.from_numpy(found[2 * ours.embedding.num_embeddings :].copy()), 64
    own = slice(head * d_head, (head + 1) * d_head)
    assert means[own].abs().max() > 0
    for now, instead in enumerate([torch.zeros(d_head), means[own]]):

        def swap(_, inputs, instead=instead):
            heard = inputs[0].clone()
            heard[..., own] = instead
            return (heard,)

        handle = ours.blocks[layer].attention.W_o.register_forward_pre_hook(swap)
        with torch.no_grad():
            wanted = ours(torch.tensor([row]))[0, -1].numpy()
        handle.remove()
        got = found[now * len(wanted) : (now + 1) * len(wanted)]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=AGREES)
    assert np.abs(found[: len(wanted)] - found[len(wanted) : 2 * len(wanted)]).max() > 10 * AGREES


def test_the_weights_of_heads_are_those_of_the_recording(numbers):
    """All 270 heads on the seven words that the course reads everywhere."""
    recorded = data.seven_tokens()
    code = "model.read(tokenizer.encode(given.text)); all.push(...model.maps.flat());"
    found = numbers(code, text=" ".join(recorded.tokens))
    n, at = len(recorded.tokens), 0
    for layer in range(30):
        for t in range(n):
            size = 9 * (t + 1)
            rows = found[at : at + size].reshape(9, t + 1)
            at += size
            np.testing.assert_allclose(rows, recorded.weights[layer, :, t, : t + 1], rtol=0, atol=1e-4)
    assert at == found.size
