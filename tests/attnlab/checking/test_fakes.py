"""The cache and the models that probes use instead of real ones."""

from __future__ import annotations

import contextlib

import pytest
import torch

from attnlab.checking.fakes import FixedCache, ScriptedModel, TinyModel, TrackedMLP, fakes_allowed
from attnlab.checking.observe import outcome_of

VOCAB = 11
ANSWERS = "test_a_fake_does_not_answer_an_exercise"  # where no probe makes fakes
IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
DRAWN = torch.Generator().manual_seed(5)
WEIGHTS = {"embedding.weight": torch.randn(VOCAB, 4, generator=DRAWN)}
for _block in range(2):
    for _name in ("W_v", "W_o"):
        WEIGHTS[f"blocks.{_block}.attention.{_name}.weight"] = torch.randn(4, 4, generator=DRAWN)


@pytest.fixture(autouse=True)
def as_a_probe_does(request):
    """Fakes can be made, except where a test says that no probe runs."""
    with contextlib.nullcontext() if request.node.originalname == ANSWERS else fakes_allowed():
        yield


def rows(seed, n, width=2):
    """Keys (2, 3, n, width), a seed for each."""
    return torch.randn(2, 3, n, width, generator=torch.Generator().manual_seed(seed))


def new_caches(count):
    return [FixedCache(20) for _ in range(count)]


class Cache(FixedCache):
    def __init__(self):
        super().__init__(100)


class Holds:
    def __init__(self):
        self.held = FixedCache(100)

    def __len__(self):
        return len(self.held)


@pytest.mark.parametrize(
    "answer",
    [Cache, Holds, lambda: ScriptedModel(VOCAB, 2), lambda: TinyModel(WEIGHTS), lambda: TrackedMLP([])],
)
def test_a_fake_does_not_answer_an_exercise(answer):
    outcome = outcome_of(answer, "steps", {"init": {}, "steps": [{"do": "len"}]})
    assert "write your own" in outcome["error"]["message"]


# Their numbers: what the mistakes of `generate`, `patch_head` and layers with a cache do not show


def test_what_a_cache_gave_or_was_given_may_change_without_harm():
    cache, k = FixedCache(6), rows(1, 2).requires_grad_()
    first, _ = cache.append(k, rows(2, 2))
    k.data.zero_()
    again, _ = cache.append(rows(3, 1), rows(4, 1))
    assert not first.requires_grad
    assert torch.equal(first, rows(1, 2)) and torch.equal(again[:, :, :2], rows(1, 2))


def test_a_cache_that_is_full_raises_and_one_that_is_reset_takes_another_batch():
    cache = FixedCache(3)
    cache.append(rows(1, 2), rows(2, 2))
    with pytest.raises(RuntimeError):
        cache.append(rows(1, 2), rows(2, 2))
    cache.reset()
    k, _ = cache.append(rows(5, 3)[:1], rows(6, 3)[:1])
    assert len(cache) == 3 and torch.equal(k, rows(5, 3)[:1])


@pytest.mark.parametrize("place", range(5))
def test_a_scripted_model_depends_on_every_token_of_the_past_and_on_no_later_one(place):
    other = IDS.clone()
    other[:, place] = 8
    moved = (ScriptedModel(VOCAB, 2)(IDS) != ScriptedModel(VOCAB, 2)(other)).any(-1)
    assert moved[:, place:].all() and not moved[:, :place].any()


def test_a_scripted_model_depends_on_the_order_and_reads_each_text_alone():
    logits = ScriptedModel(VOCAB, 2)(IDS)
    assert not torch.allclose(logits[:, -1], ScriptedModel(VOCAB, 2)(IDS.flip(1))[:, -1])
    torch.testing.assert_close(logits[1:], ScriptedModel(VOCAB, 2)(IDS[1:]))


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("cuts", [[5], [3, 2], [1, 1, 1, 1, 1]])
def test_a_scripted_model_reads_the_past_from_its_caches(cuts, n_blocks):
    model, caches = ScriptedModel(VOCAB, n_blocks), new_caches(n_blocks)
    pieces = [model(piece, caches) for piece in IDS.split(cuts, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), ScriptedModel(VOCAB, n_blocks)(IDS))


def test_a_stale_cache_among_good_ones_changes_what_a_scripted_model_gives():
    model, caches = ScriptedModel(VOCAB, 2), new_caches(2)
    model(IDS[:, :4], caches)
    caches[1].reset()
    caches[1].append(*[torch.zeros(2, 1, 4, 1)] * 2)
    assert not torch.allclose(model(IDS[:, 4:], caches), model(IDS)[:, 4:])


def test_heads_are_given_to_w_o_side_by_side_and_read_the_past_alone():
    model, given = TinyModel(WEIGHTS), []
    model.blocks[1].attention.W_o.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    logits = model(IDS)
    assert given[0].shape == (2, 5, 4) and logits.shape == (2, 5, VOCAB)
    other = IDS.clone()
    other[:, 3] = 7
    assert torch.equal(model(other)[:, :3], logits[:, :3])
    assert (model(other)[:, 3:] - logits[:, 3:]).abs().amax(-1).gt(1e-4).all()
    assert model.called == [3, 3]
