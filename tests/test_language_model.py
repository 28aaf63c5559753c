"""The reference answers of the chapter on the whole model against PyTorch's own operations, and the chapter's facts."""

import copy
import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.kv_cache import KVCache
from solutions.language_model import LanguageModel, generate, patch_head, sample
from tests.references import llama_block, with_gradients

SEED = 110_211
# Sizes that all differ: 13 words, 5 tokens, 24 wide, 3 blocks, 6 heads of 4 on 2 key/value heads, 20 hidden.
SIZES = dict(vocab_size=13, d_model=24, n_layers=3, n_heads=6, n_kv_heads=2, d_ff=20, base=500.0, eps=1e-3)


@pytest.fixture
def ids():
    return torch.tensor([[3, 12, 0, 7, 3], [1, 1, 9, 4, 11]])


@pytest.fixture
def model(draw):
    made = LanguageModel(**SIZES).double()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            drawn = draw(*parameter.shape)
            parameter.copy_(1 + 0.3 * drawn if "norm" in name else drawn / parameter.shape[-1] ** 0.5)
    return made


def by_fused_operations(model, ids):
    """The same model from its weights alone."""

    def weight(name, *within):
        return model.get_parameter(".".join([*within, name, "weight"]))

    x = F.embedding(ids, weight("embedding"))
    for layer in range(3):
        x = llama_block(x, lambda name: weight(name, f"blocks.{layer}"), 6, 2, 500.0, 1e-3)
    return F.linear(F.rms_norm(x, (24,), weight("norm"), 1e-3), weight("embedding"))


# As close as angles in float32 allow.
close = functools.partial(torch.testing.assert_close, rtol=1e-5, atol=1e-6)


# the model


def test_logits_and_gradients_agree_with_pytorch_s_fused_operations(model, ids, draw):
    upstream = draw(2, 5, 13)
    runs = (lambda: model(ids), lambda: by_fused_operations(model, ids))
    close(*(with_gradients(run, upstream, [], model.parameters()) for run in runs))


@pytest.mark.parametrize("bad", [13, -1, 400])
def test_an_id_outside_of_the_vocabulary_is_named(model, ids, bad):
    ids[1, 2] = bad
    with pytest.raises(ValueError, match=f"{bad}.*13"):
        model(ids)


@pytest.mark.parametrize("shape", [(5,), (1, 2, 5), ()])
def test_ids_without_a_batch_are_named(model, shape):
    with pytest.raises(ValueError, match=r"\(batch, n\)"):
        model(torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize("number", [2, 4])
def test_a_wrong_number_of_caches_is_named(model, ids, number):
    with pytest.raises(ValueError, match=f"{number} caches for 3 blocks"):
        model(ids, [KVCache() for _ in range(number)])


def test_smollm2_has_the_parameters_of_its_name():
    with torch.device("meta"):
        model = LanguageModel(vocab_size=49152, d_model=576, n_layers=30, n_heads=9, n_kv_heads=3, d_ff=1536)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008


# sampling


def shares_of(logits, draws=40_000, **limits):
    """How often each token is drawn."""
    rows = logits.expand(draws, -1)
    ids = sample(rows, generator=torch.Generator().manual_seed(SEED), **limits)
    return torch.bincount(ids, minlength=logits.shape[-1]) / draws


def expected_shares(logits, temperature=1.0, top_k=None, top_p=None):
    """By a loop over tokens, in plain Python."""
    odds = {i: math.exp(x / temperature) for i, x in enumerate(logits.tolist())}
    order = sorted(odds, key=odds.get, reverse=True)[:top_k]
    total, reached, kept = sum(odds[i] for i in order), 0.0, []
    for i in order:
        kept.append(i)
        reached += odds[i] / total
        if top_p is not None and reached >= top_p:
            break
    total = sum(odds[i] for i in kept)
    return torch.tensor([odds[i] / total if i in kept else 0.0 for i in range(len(odds))])


@pytest.mark.parametrize(
    "limits",
    [{}, dict(top_k=3, top_p=0.7), dict(top_k=5, top_p=0.8, temperature=1.7)]
    + [dict(temperature=temperature) for temperature in (0.5, 3.0)]
    + [dict(top_k=top_k) for top_k in (1, 4, 99)]
    + [dict(top_p=top_p) for top_p in (1e-9, 0.6, 0.95, 1.0)],
)
def test_tokens_are_drawn_with_the_shares_that_a_loop_computes(draw, limits):
    logits = draw(7)
    shares, expected = shares_of(logits, **limits), expected_shares(logits, **limits)
    assert torch.equal(shares > 0, expected > 0)
    torch.testing.assert_close(shares, expected, rtol=0, atol=0.012)


def test_any_leading_axes_give_one_token_each(draw):
    logits = draw(2, 3, 4, 7)
    assert torch.equal(sample(logits, temperature=0), logits.argmax(-1))
    assert torch.equal(sample(logits, top_k=1), logits.argmax(-1))
    assert sample(draw(7)).shape == () and sample(draw(3, 7)).shape == (3,) and sample(logits).shape == (2, 3, 4)


@pytest.mark.parametrize("temperature", [1e-4, 1e-30])
def test_a_tiny_temperature_is_greedy_and_does_not_overflow(draw, temperature):
    logits = (1000 * draw(50, 7)).float()
    assert torch.equal(sample(logits, temperature), logits.argmax(-1))


def test_a_token_with_a_logit_of_minus_infinity_is_never_drawn(draw):
    logits = draw(7)
    logits[2] = -math.inf
    assert shares_of(logits)[2] == 0


@pytest.mark.parametrize("name, value", [("temperature", -0.1), ("top_k", 0), ("top_p", 0.0), ("top_p", 1.01)])
def test_limits_that_mean_nothing_are_named(draw, name, value):
    with pytest.raises(ValueError, match=f"{name} {value}"):
        sample(draw(7), **{name: value})


# writing


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_writing_is_the_argmax_of_one_pass_over_the_result(model, ids, use_cache):
    text = generate(model, ids, 6, use_cache=use_cache)
    assert text.shape == (2, 11) and torch.equal(text[:, :5], ids)
    assert torch.equal(model(text)[:, 4:-1].argmax(-1), text[:, 5:])


def test_drawn_text_is_the_same_with_caches_and_without_and_differs_by_seed(model, ids):
    def text(seed, use_cache):
        return generate(model, ids, 12, 1.5, torch.Generator().manual_seed(seed), use_cache)

    assert torch.equal(text(1, True), text(1, False))
    assert not torch.equal(text(1, True), text(2, True))


def test_writing_nothing_gives_the_prompt_and_leaves_it_alone(model, ids):
    before = ids.clone()
    assert torch.equal(generate(model, ids, 0), before)
    generate(model, ids, 2)
    assert torch.equal(ids, before)


def test_what_is_written_can_be_trained_on(model, ids):
    text = generate(model, ids, 3)
    F.cross_entropy(model(text)[:, :-1].transpose(1, 2), text[:, 1:]).backward()
    assert model.embedding.weight.grad.isfinite().all()


# patching a head


def patched_by_weights(model, ids, donor_ids, layer, head, n_heads):
    """Without a hook: the donor's head through its columns of W_o alone, the text's other heads through the others."""

    def before(ids):
        x = model.embedding(ids)
        for block in model.blocks[:layer]:
            x = block(x)
        return x

    def mixed(x, is_kept):
        attention = copy.deepcopy(model.blocks[layer].attention)
        with torch.no_grad():
            attention.W_o.weight.mul_(is_kept)
        return attention(model.blocks[layer].norm_1(x))

    is_head = torch.arange(n_heads).repeat_interleave(24 // n_heads) == head
    x = before(ids)
    x = x + mixed(x, ~is_head) + mixed(before(donor_ids), is_head)
    x = x + model.blocks[layer].feed_forward(model.blocks[layer].norm_2(x))
    for block in model.blocks[layer + 1 :]:
        x = block(x)
    return model.norm(x) @ model.embedding.weight.T


@pytest.mark.parametrize("layer, head", [(0, 0), (1, 3), (2, 5)])
def test_a_patched_head_is_the_donor_s_through_its_columns_of_w_o(model, ids, layer, head):
    donor_ids = (ids + 4) % 13
    expected = patched_by_weights(model, ids, donor_ids, layer, head, 6)
    close(patch_head(model, ids, donor_ids, layer, head, 6), expected.detach())
    assert (expected - model(ids)).abs().max() > 0.01


def test_the_head_of_the_same_text_changes_nothing_and_no_hook_is_left(model, ids):
    logits = model(ids)
    assert torch.equal(patch_head(model, ids, ids, 1, 2, 6), logits)
    patch_head(model, ids, ids.flip(1), 1, 2, 6)
    assert torch.equal(model(ids), logits)
    model.norm.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        patch_head(model, ids, ids.flip(1), 1, 2, 6)
    assert not model.blocks[1].attention.W_o._forward_pre_hooks


@pytest.mark.parametrize("layer, head, donor", [(3, 0, 5), (-1, 0, 5), (0, 6, 5), (0, -1, 5), (0, 0, 4)])
def test_heads_that_do_not_exist_and_texts_of_two_lengths_are_named(model, ids, layer, head, donor):
    with pytest.raises(ValueError, match="no head|texts of shape"):
        patch_head(model, ids, ids[:, :donor], layer, head, 6)


# the chapter's facts


def test_a_tied_model_without_blocks_says_each_word_of_the_table_again():
    table = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0]])
    model = LanguageModel(5, 4, 0, 1, 1, 4)
    with torch.no_grad():
        model.embedding.weight.copy_(table)
        assert model(torch.arange(5)[None])[0].argmax(-1).tolist() == [0, 1, 2, 3, 4]


def test_large_embeddings_make_an_untrained_model_sure_and_small_ones_make_it_guess():
    torch.manual_seed(SEED)
    model, ids = LanguageModel(26, 32, 2, 2, 1, 64), torch.randperm(26)[None]
    with torch.no_grad():
        sure = F.cross_entropy(model(ids)[0, :-1], ids[0, 1:])
        model.embedding.weight.mul_(0.02)
        guess = F.cross_entropy(model(ids)[0, :-1], ids[0, 1:])
    assert sure > 15 and abs(guess - math.log(26)) < 0.1


@pytest.mark.parametrize("period", [3, 4, 5])
def test_the_floor_of_repeated_rows_is_the_loss_of_who_knows_the_rule(period):
    """On a smaller alphabet: 6 letters, periods 3 to 5, 11 long. The best guess weighs all texts that begin alike."""
    from itertools import permutations

    texts = {
        np.resize(row, 11).astype(int).tobytes(): 1 / 3 / math.perm(6, p)
        for p in (3, 4, 5)
        for row in permutations(range(6), p)
    }
    text = np.resize(np.arange(period), 11).astype(int)
    loss = 0.0
    for n in range(1, 11):
        begins = [sum(p for other, p in texts.items() if other.startswith(text[:m].tobytes())) for m in (n, n + 1)]
        loss -= math.log(begins[1] / begins[0])
    assert loss == pytest.approx(math.log(3) + sum(math.log(6 - t) for t in range(1, period)))


@pytest.fixture(scope="module")
def written():
    return data.generation()


def test_the_story_begins_and_the_capital_is_paris(written):
    assert written.texts[written.prompts.index("The capital of France is")].startswith(" Paris")
    assert written.texts[written.prompts.index("Once upon a time")].startswith(", the city of")


def test_steps_with_a_cache_stay_alike_and_without_one_grow(written):
    with_cache, without = (
        np.median(times.reshape(-1, 10)[1:], axis=1) for times in (written.seconds_with, written.seconds_without)
    )
    assert with_cache[-1] < 2 * with_cache[0] and without[-1] > 1.5 * without[0]
    assert written.seconds_without.sum() > 2 * written.seconds_with.sum()


def test_an_error_of_positions_shows_from_the_second_token_on_and_one_of_the_cache_after_the_prompt(written):
    n = written.prompt_lengths[0]
    for name in ("base 10,000", "pairs of neighbors"):
        assert written.breaks[name].first[0] < 1e-3 < 0.1 < written.breaks[name].first[1]
    assert (written.breaks["one position too far"].first[:n] < 1e-3).all()
    assert written.breaks["one position too far"].first[n:].max() > 0.5
    assert written.breaks["heads dealt round"].first[0] > 0.5
