"""The probe of functions that write text with a model: each of its observations, and what turns it."""

from __future__ import annotations

import pytest
import torch

from attnlab.checking.fakes import FixedCache, fakes_allowed
from tests.attnlab.checking.probes.helpers import draw, seen


def writes(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True, *, rooms=None, again=False):
    """Token after token. `rooms(model)` makes the caches; `again` feeds the whole text with them."""
    caches = (rooms or new_rooms)(model) if use_cache else None
    new = ids
    for _ in range(max_new_tokens):
        logits = model(ids if again or not use_cache else new, caches)[:, -1]
        new = (draw(logits.double(), generator, temperature) if temperature else logits.argmax(-1))[:, None]
        ids = torch.hstack([ids, new])
    return ids


def new_rooms(model):
    return [FixedCache(100) for _ in model.blocks]


def kept_rooms(model, kept=[]):  # noqa: B006 (the mistake under test)
    if not kept:
        kept.extend(new_rooms(model))
    return kept


def by_default(model, ids, max_new_tokens, use_cache=False):
    return writes(model, ids, max_new_tokens, use_cache=use_cache)


def variant(**how):
    """A function as `writes`, in another way."""
    return lambda **inputs: writes(**inputs | how)


def resets(ids, max_new_tokens, generator, **others):
    for _ in range(max_new_tokens):
        again = generator.manual_seed(generator.initial_seed())
        ids = writes(ids=ids, max_new_tokens=1, generator=again, **others)
    return ids


def copies(generator, **others):
    return writes(generator=generator.clone_state(), **others)


DRAWN = dict(temperature=1.5, seed=3)


@pytest.mark.parametrize(
    "f, case, flags",
    [
        (writes, {}, dict(again=True, fed=8, caches=True)),  # 3 of the prompt, and 5 of 6 new ones
        (writes, dict(use_cache=False), dict(again=True, fed=None, caches=True)),
        (variant(again=True), {}, dict(fed=3 + 4 + 5 + 6 + 7 + 8)),
        (variant(rooms=kept_rooms), {}, dict(again=False)),
        (variant(rooms=lambda model: [FixedCache(100) for _ in range(3)]), {}, dict(caches=False)),
        (variant(rooms=lambda model: 2 * [FixedCache(100)], use_cache=False), {}, dict(caches=False)),
        (by_default, dict(use_cache=None), dict(caches=False)),
        (writes, DRAWN, dict(generator_repeats=True, generator_varies=True, agrees=True, length=9, fed=8)),
        (variant(again=True), DRAWN, dict(agrees=False)),
        (variant(temperature=0.0), DRAWN, dict(generator_varies=False)),
        (variant(generator=None), DRAWN, dict(generator_repeats=False, agrees=False)),
        (writes, DRAWN, {"goes on": "should be"}),
        (resets, DRAWN, {"generator_varies": True, "agrees": True, "goes on": "is after a single token"}),
        (copies, DRAWN, {"generator_varies": True, "agrees": True, "goes on": "was at the start"}),
        (copies, dict(temperature=1e-5, seed=3), {"goes on": "should be"}),
    ],
)
def test_what_is_wrong_with_written_text_shows(f, case, flags):
    given = dict(vocab_size=12, n_blocks=2, ids=torch.tensor([[4, 8, 1], [2, 2, 7]]), max_new_tokens=6, use_cache=True)
    with fakes_allowed():
        found = seen("written", f, **given | case)
    assert {name: found[name] for name in flags} == flags


def test_new_caches_in_each_call_of_the_model_show():
    def forgetful(model, ids, max_new_tokens, use_cache):
        for _ in range(max_new_tokens):
            ids = torch.hstack([ids, model(ids, new_rooms(model))[:, -1:].argmax(-1)])
        return ids

    with fakes_allowed():
        case = dict(vocab_size=12, n_blocks=2, ids=torch.tensor([[4, 8, 1]]), max_new_tokens=6, use_cache=True)
        assert seen("written", forgetful, **case)["caches"] is False
