"""Facts that the rotary chapter states, and the words of its references' errors."""

import math

import numpy as np
import pytest
import torch

from attnlab import data
from solutions.positions import shift_matrix
from solutions.rope import apply_rope, apply_rope_interleaved, interleaved_to_half, rope_angles, rope_frequencies
from tests.references import CAT_SAT, close

SEED = 80_081
WAYS = {"halves": apply_rope, "neighbors": apply_rope_interleaved}


@pytest.mark.parametrize(
    "answer, arguments, words",
    [
        *((rope_frequencies, (width,), str(width)) for width in (-2, 0, 1, 7)),
        *((rope_angles, (torch.ones(shape), 4), f"{len(shape)} dimensions") for shape in [(), (2, 3)]),
        *(
            (turn, (torch.ones(shape), torch.arange(n)), rf"\({shape[0]},.*{n} positions")
            for turn in WAYS.values()
            for shape, n in [((3, 6), 4), ((3, 6), 1), ((1, 6), 3), ((6,), 6)]
        ),
        *(
            (interleaved_to_half, (torch.ones(shape), n_heads), rf"\({shape[0]},.*{n_heads} heads")
            for shape, n_heads in [((6, 4), 2), ((8, 4), 3), ((8, 4), 0), ((8, 4), -2), ((8,), 1), ((2, 8, 4), 1)]
        ),
    ],
)
def test_arguments_that_do_not_fit_are_named(answer, arguments, words):
    with pytest.raises(ValueError, match=words):
        answer(*arguments)


# the chapter's facts


def test_neighbors_are_turned_by_the_shift_matrix_of_the_positions_chapter(draw):
    x = draw(1, 8)
    close(apply_rope_interleaved(x, torch.tensor([5]))[0], torch.from_numpy(shift_matrix(-5, 8)) @ x[0], 1e-5)


def test_the_cat_sat_by_hand():
    turned = apply_rope(torch.tensor(CAT_SAT), torch.arange(3))
    assert (turned @ turned[2]).tolist() == pytest.approx(
        [math.cos(2) + math.sin(2), math.cos(0.01) + math.sin(0.01), 2], abs=1e-5
    )


def test_a_wrong_pairing_passes_every_test_of_relative_position_and_gives_other_scores(draw):
    q, k, where = draw(6, 8), draw(6, 8), torch.arange(6)
    halves, neighbours = (turn(q, where) @ turn(k, where).T for turn in WAYS.values())
    assert torch.equal(halves.diagonal().round(decimals=4), neighbours.diagonal().round(decimals=4))
    assert (halves - neighbours).abs().max() > 1


def test_bfloat16_loses_its_first_whole_number_at_257_and_float16_at_2049():
    numbers = torch.arange(4000)
    for dtype, first in ((torch.bfloat16, 257), (torch.float16, 2049)):
        lost = numbers[numbers.to(dtype).long() != numbers]
        assert lost[0] == first


@pytest.mark.parametrize(
    "d_head, base, context, pairs",
    [(128, 1e4, 4096, 18), (128, 5e5, 8192, 29), (64, 1e5, 8192, 12), (64, 1e4, 8192, 7), (64, 5e5, 8192, 14)],
)
def test_a_larger_base_leaves_more_pairs_without_a_full_turn(d_head, base, context, pairs):
    wavelengths = [2 * math.pi * base ** (2 * i / d_head) for i in range(d_head // 2)]
    assert sum(w > context for w in wavelengths) == pairs


def test_the_larger_base_slows_the_last_pair_exactly_by_the_stretch():
    stretched = rope_frequencies(8, 10000.0 * 3 ** (8 / 6))
    ratio = rope_frequencies(8) / stretched
    close(ratio[[0, -1]], torch.tensor([1.0, 3.0]), 1e-5)
    assert (ratio.diff() > 0).all()


def test_random_keys_are_as_loud_far_away_as_near(draw):
    q, k = draw(2, 2000, 64)
    sizes = [(apply_rope(q, torch.full((2000,), d)) * k).sum(1).abs().mean() / 8 for d in (0, 1, 10, 100, 1000)]
    assert all(size == pytest.approx(math.sqrt(2 / math.pi), abs=0.05) for size in sizes)


def test_in_layer_0_of_the_real_model_scores_are_the_same_eight_places_on():
    """Ratios of weights of one row are differences of scores: the sum of the row cancels."""
    weights = data.heads().weights[1]

    def change(layer):
        logs = [
            (np.log(weights[layer, :, i, 1 : i + 1]), np.log(weights[layer, :, i + 8, 9 : i + 9])) for i in range(2, 7)
        ]
        return max(np.abs((late - late[:, -1:]) - (early - early[:, -1:])).max() for early, late in logs)

    assert change(0) < 0.002 and change(1) > 1


def test_scores_of_heads_that_look_one_back_follow_the_wave_of_the_fastest_hands():
    scores, offsets = data.seven_tokens().scores[:, :, 1:, 1:], np.arange(-5, 6)
    for layer, head, _ in data.heads().ranked("previous")[:3]:
        mean = np.array([np.diag(scores[layer, head], -k).mean() for k in offsets])
        assert offsets[mean.argmax()] == 1 and offsets[6:][mean[6:].argmin()] == 4
        assert offsets[:6][mean[:6].argmin()] in (-2, -3)
