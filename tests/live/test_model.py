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


def numbers(node, code, tmp_path, **given):
    """Read what JavaScript saved, as one flat array of float32."""
    path = tmp_path / "numbers"
    node(code, path=str(path), **given)
    return np.fromfile(path, "<f4")


def test_logits_are_those_of_python_on_twenty_texts(node, pieces, ids, expected, tmp_path):
    found = numbers(
        node,
        """
        const { model } = engine.opened(given.folder);
        engine.save(given.path, given.ids.map((row) => engine.logitsOf(model, row)));
        console.log("null");
        """,
        tmp_path,
        folder=str(pieces),
        ids=ids,
    )
    wanted = np.concatenate(expected)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=0, atol=AGREES)


def test_plain_javascript_and_a_cache_filled_in_chunks_give_the_same(node, pieces, ids, expected, tmp_path):
    row = ids[1]
    found = numbers(
        node,
        """
        const plain = engine.opened(given.folder, false).model, { model } = engine.opened(given.folder);
        const all = [engine.logitsOf(plain, given.row)];
        model.read(given.row.slice(0, 3));
        model.read(given.row.slice(3, 4));
        model.read(given.row.slice(4));
        all.push(model.logits(given.row.map((_, position) => [model.layers.length, position])));
        engine.save(given.path, all);
        console.log("null");
        """,
        tmp_path,
        folder=str(pieces),
        row=row,
    )
    wanted = np.stack([expected[1]] * 2)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=0, atol=AGREES)


def test_recorded_texts_are_written_alike_token_by_token(node, pieces, ours, ids):
    """Eight texts, thirty tokens each, at temperature 0."""
    rows = ids[:8]
    written = [generate(ours, torch.tensor([row]), 30)[0, len(row) :].tolist() for row in rows]
    found = node(
        """
        const { model } = engine.opened(given.folder);
        console.log(JSON.stringify(given.rows.map((row) => {
          model.reset();
          model.read(row);
          return [...engine.generate(model, 30, engine.argmax)];
        })));
        """,
        folder=str(pieces),
        rows=rows,
    )
    assert found == written


def test_a_head_switched_off_or_set_to_its_mean_changes_what_python_says_it_changes(node, pieces, ours, ids, tmp_path):
    """The layers before it stay; it and those after are read again."""
    row, layer, head = ids[1], 12, 4
    code = """
        const { model } = engine.opened(given.folder);
        model.read(given.row);
        const all = [1, 2].map((how) => {
          model.heads[given.layer][given.head] = how;
          model.reset(given.layer);
          for (let l = given.layer; l < model.layers.length; l++) model.block(l);
          return model.logits();
        });
        engine.save(given.path, [...all, model.means[given.layer]]);
        console.log("null");
    """
    found = numbers(node, code, tmp_path, folder=str(pieces), row=row, layer=layer, head=head)
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


def test_the_weights_of_heads_are_those_of_the_recording(node, pieces, tmp_path):
    """All 270 heads on the seven words that the course reads everywhere."""
    recorded = data.seven_tokens()
    found = numbers(
        node,
        """
        const { model, tokenizer } = engine.opened(given.folder);
        model.read(tokenizer.encode(given.text));
        engine.save(given.path, model.maps.flat());
        console.log("null");
        """,
        tmp_path,
        folder=str(pieces),
        text=" ".join(recorded.tokens),
    )
    n, at = len(recorded.tokens), 0
    for layer in range(30):
        for t in range(n):
            size = 9 * (t + 1)
            rows = found[at : at + size].reshape(9, t + 1)
            at += size
            np.testing.assert_allclose(rows, recorded.weights[layer, :, t, : t + 1], rtol=0, atol=1e-4)
    assert at == found.size
