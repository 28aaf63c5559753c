"""A model of the course is listened to while it reads: its weights, its words after each layer, switches, writing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from attnlab import data, smollm2
from attnlab.model_trace import Reader
from solutions import kv_cache
from solutions.language_model import LanguageModel, generate

SIZES = dict(vocab_size=50, d_model=24, n_layers=3, n_heads=6, n_kv_heads=2, d_ff=40)


class Letters:
    """One token for each letter."""

    def encode(self, text):
        return [ord(letter) - 60 for letter in text]

    def decode(self, ids):
        return "".join(chr(i + 60) for i in ids)


@pytest.fixture
def model():
    torch.manual_seed(2)
    model = LanguageModel(**SIZES).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.requires_grad_(False)


@pytest.fixture
def asked(model):
    told = []
    reader = Reader(model, generate, Letters(), lambda message, arrays: told.append((message, arrays)))

    def ask(**question):
        told.clear()
        reader.ask(question)
        return told

    return ask


def of(told, name):
    return [message[name] for message, _ in told if name in message]


def maps(told):
    return [torch.from_numpy(arrays[0]) for message, arrays in told if "layer" in message]


def weights_of(model, ids):
    """Return the weights of each block's attention, from PyTorch's own product (`need_weights` of a module)."""
    x, found = model.embedding(torch.tensor([ids])), []
    for block in model.blocks:
        part, rows = block.attention, block.norm_1(x)
        q, k = (
            kv_cache.apply_rope(
                layer(rows).unflatten(-1, (heads, 4)).transpose(1, 2), torch.arange(len(ids)), part.base
            )
            for layer, heads in ((part.W_q, 6), (part.W_k, 2))
        )
        k = k.repeat_interleave(3, dim=1)
        scores = q @ k.mT / 2
        found.append(scores.masked_fill(torch.ones(len(ids), len(ids)).triu(1).bool(), -torch.inf).softmax(-1)[0])
        x = block(x)
    return found


def test_weights_and_words_are_those_of_the_model(asked, model):
    told, ids = asked(read="HELLO"), Letters().encode("HELLO")
    assert of(told, "tokens") == [list("HELLO")] and of(told, "layer") == [0, 1, 2] and of(told, "ready") == [True]
    for found, expected in zip(maps(told), weights_of(model, ids), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    shares = model(torch.tensor([ids]))[0, -1].softmax(0)
    (words,), (lens,) = of(told, "next"), of(told, "lens")
    assert [word for word, *_ in words] == [Letters().decode([i]) for i in shares.topk(10).indices.tolist()]
    assert [share for _, share, _ in words] == pytest.approx(shares.topk(10).values.tolist(), abs=1e-6)
    assert len(lens) == 4 and lens[-1] == [words[0][0], pytest.approx(words[0][1])]
    x = model.embedding(torch.tensor([ids]))
    for depth, (word, share) in enumerate(lens):
        row = (model.norm(x)[0, -1] @ model.embedding.weight.T).softmax(0)
        assert (word, share) == (Letters().decode([row.argmax().item()]), pytest.approx(row.max().item(), abs=1e-6))
        x = model.blocks[depth](x) if depth < 3 else x


def test_a_head_that_is_off_gives_zeros_and_comes_back(asked, model):
    whole = of(asked(read="HELLO"), "next")
    told = asked(head=[1, 4, 1])
    saved = model.blocks[1].attention.W_o.weight.data.clone()
    model.blocks[1].attention.W_o.weight.data[:, 16:20] = 0  # the columns that this head meets
    expected = model(torch.tensor([Letters().encode("HELLO")]))[0, -1].softmax(0)
    model.blocks[1].attention.W_o.weight.data = saved
    (words,) = of(told, "next")
    assert {word: share for word, share, _ in words} == {
        word: pytest.approx(expected[Letters().encode(word)[0]].item(), abs=1e-6) for word, *_ in words
    }
    assert {word: was for word, _, was in words}.items() >= {word: was for word, was, _ in whole[0]}.items()
    assert of(asked(head=[1, 4, 0]), "next") == whole


def test_it_writes_what_generate_writes(asked, model):
    asked(read="HELLO")
    told = asked(write=6, temperature=0, seed=3)
    expected = generate(model, torch.tensor([Letters().encode("HELLO")]), 6)[0].tolist()
    assert of(told, "text")[-1] == Letters().decode(expected[5:])
    assert of(told, "pieces") == [list(Letters().decode(expected))]
    assert all(array.shape == (6, 11, 11) for array in maps(told))


@pytest.mark.parametrize("text", ["", "A" * 300])
def test_a_text_that_is_too_short_or_too_long_is_told(asked, text):
    told = asked(read=text)
    assert of(told, "error") == [f"ValueError: the text has {len(text)} tokens, and may have 1 to 256"]


def test_an_error_of_the_students_code_is_told_and_nothing_stays_behind(asked, model, monkeypatch):
    monkeypatch.setattr(model.blocks[1], "forward", lambda *_: 1 / 0)
    assert of(asked(read="HELLO"), "error") == ["ZeroDivisionError: division by zero"]
    monkeypatch.undo()
    assert of(asked(read="HELLO"), "ready") == [True]


def test_attention_whose_weights_cannot_be_seen_has_no_maps(asked, model, monkeypatch):
    monkeypatch.setattr(
        kv_cache.GroupedQueryAttention, "forward", lambda self, x, cache=None: self.W_o(x.cumsum(1)), raising=True
    )
    told = asked(read="HELLO")
    assert of(told, "layer") == [0, 1, 2] and all(arrays == [] for _, arrays in told)
    assert of(told, "ready") == [True]


@pytest.mark.slow
def test_the_real_model_reads_as_recorded(smollm2_file):
    recorded, told = data.seven_tokens(), []
    real = smollm2.load(LanguageModel)
    reader = Reader(real, generate, smollm2.tokenizer(), lambda message, arrays: told.append((message, arrays)))
    reader.ask({"read": " ".join(recorded.tokens)})
    found = torch.stack(maps(told)).numpy()
    np.testing.assert_allclose(found, recorded.weights, rtol=0, atol=1e-4)
    (lens,) = of(told, "lens")
    assert len(lens) == 31
