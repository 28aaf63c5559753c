"""The cache and the models that probes use instead of real ones."""

from __future__ import annotations

import contextlib

import pytest
import torch

from attnlab.checking.fakes import FixedCache, ScriptedModel, TinyModel, fakes_allowed
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


# They answer no exercise


class Cache(FixedCache):
    def __init__(self):
        super().__init__(100)


class Holds:
    def __init__(self):
        self.held = FixedCache(100)

    def __len__(self):
        return len(self.held)


@pytest.mark.parametrize("answer", [Cache, Holds, lambda: ScriptedModel(VOCAB, 2), lambda: TinyModel(WEIGHTS)])
def test_a_fake_does_not_answer_an_exercise(answer):
    outcome = outcome_of(answer, "steps", {"init": {}, "steps": [{"do": "len"}]})
    assert "write your own" in outcome["error"]["message"]


# FixedCache


def test_a_cache_is_empty_at_first():
    assert len(FixedCache(4)) == 0


def test_a_cache_gives_back_all_that_was_put_in_in_order():
    cache = FixedCache(6)
    first, second = (rows(1, 2), rows(2, 2, width=5)), (rows(3, 3), rows(4, 3, width=5))
    cache.append(*first)
    k, v = cache.append(*second)
    assert torch.equal(k, torch.cat([first[0], second[0]], dim=2))
    assert torch.equal(v, torch.cat([first[1], second[1]], dim=2))


def test_a_cache_counts_tokens():
    cache = FixedCache(6)
    cache.append(rows(1, 2), rows(2, 2))
    cache.append(rows(1, 3), rows(2, 3))
    assert len(cache) == 5


def test_what_a_cache_gave_before_stays_as_it_was():
    cache = FixedCache(6)
    k, _ = cache.append(rows(1, 2), rows(2, 2))
    cache.append(rows(3, 2), rows(4, 2))
    assert torch.equal(k, rows(1, 2))


def test_a_cache_keeps_numbers_and_not_the_tensors_it_was_given():
    cache, k = FixedCache(6), rows(1, 2)
    cache.append(k, rows(2, 2))
    k.zero_()
    assert torch.equal(cache.append(rows(3, 1), rows(4, 1))[0][:, :, :2], rows(1, 2))


def test_a_cache_that_is_full_raises():
    cache = FixedCache(3)
    cache.append(rows(1, 2), rows(2, 2))
    with pytest.raises(RuntimeError):
        cache.append(rows(1, 2), rows(2, 2))


def test_a_cache_that_is_reset_takes_another_batch():
    cache = FixedCache(4)
    cache.append(rows(1, 2), rows(2, 2))
    cache.reset()
    k, _ = cache.append(rows(5, 3)[:1], rows(6, 3)[:1])
    assert len(cache) == 3 and torch.equal(k, rows(5, 3)[:1])


def test_a_cache_takes_what_gradients_flow_through():
    k = rows(1, 2).requires_grad_()
    assert not FixedCache(4).append(k, k)[0].requires_grad


def test_a_cache_keeps_the_dtype():
    assert FixedCache(4).append(rows(1, 2).double(), rows(2, 2).double())[0].dtype == torch.float64


# ScriptedModel


def test_a_scripted_model_gives_a_logit_for_each_token_of_the_vocabulary():
    logits = ScriptedModel(VOCAB, 2)(IDS)
    assert (logits.shape, logits.dtype) == ((2, 5, VOCAB), torch.float32)


def test_a_scripted_model_gives_the_same_each_time_it_is_made():
    assert torch.equal(ScriptedModel(VOCAB, 2)(IDS), ScriptedModel(VOCAB, 3)(IDS))


def test_a_scripted_model_does_not_see_the_future():
    other = IDS.clone()
    other[:, 3:] = 7
    assert torch.equal(ScriptedModel(VOCAB, 2)(IDS)[:, :3], ScriptedModel(VOCAB, 2)(other)[:, :3])


@pytest.mark.parametrize("place", range(5))
def test_a_scripted_model_depends_on_every_token_of_the_past(place):
    other = IDS.clone()
    other[:, place] = 8
    assert (ScriptedModel(VOCAB, 2)(IDS)[:, -1] != ScriptedModel(VOCAB, 2)(other)[:, -1]).any(-1).all()


def test_a_scripted_model_depends_on_the_order():
    assert not torch.allclose(ScriptedModel(VOCAB, 2)(IDS)[:, -1], ScriptedModel(VOCAB, 2)(IDS.flip(1))[:, -1])


def test_a_scripted_model_reads_each_text_alone():
    torch.testing.assert_close(ScriptedModel(VOCAB, 2)(IDS)[1:], ScriptedModel(VOCAB, 2)(IDS[1:]))


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("cuts", [[5], [3, 2], [1, 1, 1, 1, 1]])
def test_a_scripted_model_reads_the_past_from_its_caches(cuts, n_blocks):
    model, caches = ScriptedModel(VOCAB, n_blocks), new_caches(n_blocks)
    pieces = [model(piece, caches) for piece in IDS.split(cuts, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), ScriptedModel(VOCAB, n_blocks)(IDS))


def test_caches_that_are_new_in_each_call_change_what_a_scripted_model_gives():
    model = ScriptedModel(VOCAB, 2)
    model(IDS[:, :4], new_caches(2))
    assert not torch.allclose(model(IDS[:, 4:], new_caches(2)), model(IDS)[:, 4:])


def test_one_cache_for_all_blocks_changes_what_a_scripted_model_gives():
    model, caches = ScriptedModel(VOCAB, 2), new_caches(1) * 2
    # Blocks that write into one cache see texts of different lengths, which is an error, or the wrong past.
    with pytest.raises(RuntimeError):
        model(IDS, caches)


def test_caches_of_the_text_before_change_what_a_scripted_model_gives():
    model, caches = ScriptedModel(VOCAB, 2), new_caches(2)
    model(IDS.flip(1), caches)
    assert not torch.allclose(model(IDS, caches), model(IDS))


def test_a_stale_cache_among_good_ones_changes_what_a_scripted_model_gives():
    model, caches = ScriptedModel(VOCAB, 2), new_caches(2)
    model(IDS[:, :4], caches)
    caches[1].reset()
    caches[1].append(*[torch.zeros(2, 1, 4, 1)] * 2)
    assert not torch.allclose(model(IDS[:, 4:], caches), model(IDS)[:, 4:])


def test_a_scripted_model_counts_the_tokens_it_was_given():
    model, caches = ScriptedModel(VOCAB, 2), new_caches(2)
    model(IDS[:, :4], caches)
    model(IDS[:, 4:], caches)
    assert model.fed == [4, 1]


def test_a_scripted_model_tells_its_caches_apart():
    model, caches = ScriptedModel(VOCAB, 2), new_caches(2)
    model(IDS[:, :2], caches)
    model(IDS[:, 2:3], caches)
    model(IDS, new_caches(2))
    first, second, third = model.given
    assert first == second and len(set(first)) == 2 and not set(first) & set(third)


def test_a_scripted_model_looks_like_a_model_with_blocks_and_parameters():
    model = ScriptedModel(VOCAB, 3)
    assert len(model.blocks) == 3
    assert next(model.parameters()).dtype == torch.float32


def test_reading_leaves_the_ids_as_they_were():
    ids = IDS.clone()
    ScriptedModel(VOCAB, 2)(ids, new_caches(2))
    assert torch.equal(ids, IDS)


# TinyModel


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
