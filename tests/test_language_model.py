"""Facts that the chapter on the whole model states, and the words of its references' errors."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.kv_cache import KVCache
from solutions.language_model import LanguageModel, patch_head, sample

SEED = 110_211


@pytest.fixture
def model():
    torch.manual_seed(SEED)
    return LanguageModel(vocab_size=13, d_model=24, n_layers=3, n_heads=6, n_kv_heads=2, d_ff=20)


IDS = torch.arange(10).reshape(2, 5)


@pytest.mark.parametrize(
    "call, words",
    [
        *((lambda model, bad=bad: model(torch.tensor([[3, bad]])), f"{bad}.*13") for bad in (13, -1, 400)),
        *(
            (lambda model, shape=shape: model(torch.zeros(shape, dtype=torch.long)), r"\(batch, n\)")
            for shape in [(5,), (1, 2, 5), ()]
        ),
        *((lambda model, n=n: model(IDS, [KVCache()] * n), f"{n} caches for 3 blocks") for n in (2, 4)),
        *(
            (lambda model, name=name, value=value: sample(torch.ones(7), **{name: value}), f"{name} {value}")
            for name, value in [("temperature", -0.1), ("top_k", 0), ("top_p", 0.0), ("top_p", 1.01)]
        ),
        *(
            (lambda model, place=place: patch_head(model, IDS, IDS, *place, 6), "no head")
            for place in [(3, 0), (-1, 0), (0, 6), (0, -1)]
        ),
        (lambda model: patch_head(model, IDS, IDS[:, :4], 0, 0, 6), "texts of shape"),
    ],
)
def test_arguments_that_do_not_fit_are_named(model, call, words):
    with pytest.raises(ValueError, match=words):
        call(model)


def test_no_hook_is_left_after_an_error(model):
    model.norm.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        patch_head(model, IDS, IDS.flip(1), 1, 2, 6)
    assert not model.blocks[1].attention.W_o._forward_pre_hooks


def test_a_token_with_a_logit_of_minus_infinity_is_never_drawn(draw):
    logits = draw(7)
    logits[2] = -math.inf
    assert (sample(logits.expand(10_000, -1), generator=torch.Generator().manual_seed(SEED)) != 2).all()


# the chapter's facts


def test_smollm2_has_the_parameters_of_its_name():
    with torch.device("meta"):
        model = LanguageModel(vocab_size=49152, d_model=576, n_layers=30, n_heads=9, n_kv_heads=3, d_ff=1536)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008


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
def test_the_floor_of_repeated_rows_is_the_loss_of_a_model_that_knows_the_rule(period):
    """On a smaller alphabet: 6 letters, periods 3 to 5, 11 long. The best guess weighs all texts that begin alike."""
    texts = {
        np.resize(row, 11).astype(int).tobytes(): 1 / 3 / math.perm(6, p)
        for p in (3, 4, 5)
        for row in itertools.permutations(range(6), p)
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


def test_a_position_error_shows_from_the_second_token_and_a_cache_error_after_the_prompt(written):
    n = written.prompt_lengths[0]
    for name in ("base 10,000", "pairs of neighbors"):
        assert written.breaks[name].first[0] < 1e-3 < 0.1 < written.breaks[name].first[1]
    assert (written.breaks["one position too far"].first[:n] < 1e-3).all()
    assert written.breaks["one position too far"].first[n:].max() > 0.5
    assert written.breaks["heads dealt round"].first[0] > 0.5
