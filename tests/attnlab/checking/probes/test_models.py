"""Probes of functions that write text with a model, or alter what happens inside."""

from __future__ import annotations

import pytest
import torch

from attnlab.checking.fakes import FixedCache, ScriptedModel, fakes_allowed
from attnlab.checking.observe import outcome_of
from tests.attnlab.checking.probes.helpers import draw, seen


@pytest.fixture(autouse=True)
def fakes_can_be_made():
    """To the answers of this file; `test_fakes.py` tests that they are made for nothing else."""
    with fakes_allowed():
        yield


IDS = torch.tensor([[4, 8, 1], [2, 2, 7]])


def pick(logits, temperature, generator):
    return draw(logits.double(), generator, temperature) if temperature else logits.argmax(-1)


def writes(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True, *, rooms=None, again=False):
    """Token after token. `rooms(model)` makes the caches; `again` feeds the whole text with them."""
    room = 10 * (ids.shape[1] + max_new_tokens)
    caches = ([FixedCache(room) for _ in model.blocks] if rooms is None else rooms(model)) if use_cache else None
    new = ids
    for _ in range(max_new_tokens):
        logits = model(ids if again or not use_cache else new, caches)
        new = pick(logits[:, -1], temperature, generator)[:, None]
        ids = torch.hstack([ids, new])
    return ids


def variant(**how):
    """A function as `writes`, in another way."""
    return lambda **inputs: writes(**inputs, **how)


def written(f, **inputs):
    return seen(
        "written", f, **{"vocab_size": 12, "n_blocks": 2, "ids": IDS, "max_new_tokens": 6, "use_cache": True, **inputs}
    )


GREEDY = {"again": True, "fed": 8, "caches": True}  # 3 of the prompt, and 5 of 6 new ones


@pytest.mark.parametrize("use_cache", [True, False])
def test_text_is_the_prompt_and_what_the_model_finds_most_likely(use_cache):
    got = written(writes, use_cache=use_cache)
    text = IDS
    for _ in range(6):
        text = torch.cat([text, ScriptedModel(12, 2)(text)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(got.pop("result"), text)
    assert got == GREEDY | ({} if use_cache else {"fed": None})


def test_the_text_is_not_the_same_token_over_and_over():
    assert all(len(set(row[3:].tolist())) > 2 for row in written(writes)["result"])


def test_feeding_the_whole_text_to_the_caches_shows():
    got = written(variant(again=True))
    assert got["fed"] == 3 + 4 + 5 + 6 + 7 + 8
    assert not torch.equal(got["result"], written(writes)["result"])


def test_a_last_token_that_is_read_shows():
    def reads_on(model, **inputs):
        text = writes(model=model, **inputs)
        model(text[:, -1:], [FixedCache(9) for _ in model.blocks])
        return text

    assert written(reads_on)["fed"] == 9


def test_no_caches_by_default_shows():
    def plain(use_cache=False, **inputs):
        return writes(use_cache=use_cache, **inputs)

    assert written(plain, use_cache=None)["caches"] is False


def test_caches_that_are_left_on_the_model_show():
    def rooms(model):
        if not hasattr(model, "kept"):
            model.kept = [FixedCache(100) for _ in model.blocks]
        return model.kept

    assert written(variant(rooms=rooms))["again"] is False


def test_caches_that_are_left_from_the_call_before_show():
    kept = []

    def rooms(model):
        if not kept:
            kept.extend(FixedCache(100) for _ in model.blocks)
        return kept

    assert written(variant(rooms=rooms))["again"] is False


@pytest.mark.parametrize(
    "f",
    [
        lambda use_cache, **inputs: writes(use_cache=False, **inputs),
        variant(rooms=lambda model: [FixedCache(100) for _ in range(3)]),
    ],
    ids=["none", "one too many"],
)
def test_no_cache_where_there_should_be_some_and_one_too_many_show(f):
    assert written(f)["caches"] is False


def test_new_caches_in_each_call_show():
    def forgetful(model, ids, max_new_tokens, use_cache):
        for _ in range(max_new_tokens):
            logits = model(ids, [FixedCache(50) for _ in model.blocks])
            ids = torch.hstack([ids, logits[:, -1:].argmax(-1)])
        return ids

    got = written(forgetful)
    assert torch.equal(got["result"], written(writes)["result"])
    assert (got["caches"], got["fed"]) == (False, 3 + 4 + 5 + 6 + 7 + 8)


def test_a_prompt_that_is_altered_does_not_alter_the_case():
    ids = IDS.clone()

    def spoil(ids, **inputs):
        text = writes(ids=ids, **inputs)
        ids.zero_()
        return text

    written(spoil, ids=ids)
    assert torch.equal(ids, IDS)


def test_text_that_is_drawn_agrees_with_and_without_a_cache():
    got = written(writes, temperature=1.5, seed=3)
    assert torch.equal(got.pop("prompt"), IDS)
    assert got == {
        "generator_repeats": True,
        "generator_varies": True,
        "agrees": True,
        "length": 9,
        "fed": 8,
        "caches": True,
    }


@pytest.mark.parametrize(
    "f, wrong",
    [
        (variant(again=True), ["agrees"]),
        (lambda temperature, **inputs: writes(temperature=0.0, **inputs), ["generator_varies"]),
        (lambda generator, **inputs: writes(generator=None, **inputs), ["generator_repeats", "agrees"]),
    ],
    ids=["a stale cache", "no temperature", "no generator"],
)
def test_what_is_wrong_with_drawn_text_shows(f, wrong):
    got = written(f, temperature=1.5, seed=3)
    assert [got[key] for key in wrong] == [False] * len(wrong)


def test_a_text_without_its_prompt_shows():
    got = written(lambda ids, **inputs: writes(ids=ids, **inputs)[:, ids.shape[1] :], temperature=1.5, seed=3)
    assert got["length"] == 6
    assert not torch.equal(got["prompt"], IDS)


HEADS = {
    "embedding.weight": torch.randn(5, 4, generator=torch.Generator().manual_seed(1)),
    "blocks.0.attention.W_v.weight": torch.randn(4, 4, generator=torch.Generator().manual_seed(2)),
    "blocks.0.attention.W_o.weight": torch.randn(4, 4, generator=torch.Generator().manual_seed(3)),
}


def patched(what):
    """The observations on an answer that does something to the model before it calls it."""

    def answer(model, ids):
        what(model.blocks[0].attention.W_o)
        return model(ids)

    return outcome_of(answer, "patched", {"model": HEADS, "ids": torch.tensor([[1, 4, 2]])})["value"]


def test_a_model_that_is_left_alone_gives_its_logits_twice():
    seen = patched(lambda mixing: None)
    assert torch.equal(seen["result"], seen["afterwards"]) and seen["hooks"] is True


def test_a_hook_that_stays_shows_in_the_logits_and_a_lost_one_in_the_count():
    whole = patched(lambda mixing: None)["afterwards"]
    stays = patched(lambda mixing: mixing.register_forward_pre_hook(lambda _, inputs: inputs[0] * 0))
    assert not torch.equal(stays["afterwards"], whole) and stays["hooks"] is True
    gone = patched(lambda mixing: mixing._forward_pre_hooks.clear())
    assert torch.equal(gone["afterwards"], whole) and gone["hooks"] is False
