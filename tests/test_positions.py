"""Facts that the positions chapter states, and the words of its references' errors."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlab import data
from solutions.positions import LearnedPositions, alibi_bias, shift_matrix, sinusoidal_encoding
from tests.references import CAT_SAT

SEED = 70_007


@pytest.mark.parametrize(
    "answer, sizes, words",
    [
        *((sinusoidal_encoding, sizes, "{}.*{}") for sizes in [(5, 7), (5, 1), (-1, 4), (3, -2)]),
        *((shift_matrix, (3, width), "{1}") for width in (5, 1, -2)),
        *((alibi_bias, sizes, "{}.*{}") for sizes in [(0, 4), (-1, 4), (2, -1)]),
    ],
)
def test_sizes_that_are_not_possible_are_refused_by_name(answer, sizes, words):
    with pytest.raises(ValueError, match=words.format(*sizes)):
        answer(*sizes)


@pytest.mark.parametrize(
    "shape, words",
    [((2, 10, 6), "10 tokens.*9 positions")]
    + [(shape, "table needs") for shape in [(2, 5, 1), (2, 5, 7), (5, 6), (2, 2, 5, 6)]],
)
def test_tokens_that_do_not_fit_the_table_are_refused(shape, words):
    with pytest.raises(ValueError, match=words):
        LearnedPositions(9, 6)(torch.zeros(shape))


# the chapter's facts


def test_eight_heads_have_the_slopes_of_the_paper_and_no_penalty_on_the_token_itself():
    bias = alibi_bias(8, 2)
    assert (-bias[:, 1, 0]).tolist() == [2.0**-h for h in range(1, 9)]
    assert not np.signbit(np.diagonal(bias, axis1=1, axis2=2)).any()


def test_the_dot_product_of_two_places_is_a_sum_of_cosines_of_their_distance():
    encoding = sinusoidal_encoding(1600, 32)
    expected = np.cos(4 * 10000 ** (-np.arange(0, 32, 2) / 32)).sum()
    for place in (5, 105, 1505):
        assert encoding[place] @ encoding[place + 4] == pytest.approx(expected, abs=1e-10)
        assert encoding[place] @ encoding[place - 4] == pytest.approx(expected, abs=1e-10)


def test_positions_0_to_3_and_the_longest_wavelength_by_hand():
    assert np.round(10000 ** (510 / 512)) == 9647
    assert np.round(sinusoidal_encoding(4, 4), 3).tolist() == [
        [0, 1, 0, 1],
        [0.841, 0.54, 0.01, 1],
        [0.909, -0.416, 0.02, 1],
        [0.141, -0.99, 0.03, 1],
    ]


def test_with_one_exponent_per_column_no_matrix_is_a_step():
    columns = np.arange(4)
    angles = np.arange(51)[:, None] / 10000 ** (columns / 4)
    for table, fits in [
        (np.where(columns % 2, np.cos(angles), np.sin(angles)), False),
        (sinusoidal_encoding(51, 4), True),
    ]:
        best = np.linalg.lstsq(table[:-1], table[1:], rcond=None)[0]
        assert (np.abs(table[:-1] @ best - table[1:]).max() < 1e-8) == fits


def test_a_query_matrix_that_shifts_by_minus_two_looks_two_back():
    places = sinusoidal_encoding(40, 64)
    favourites = (places @ shift_matrix(-2, 64).T @ places.T).argmax(axis=1)
    assert favourites[2:].tolist() == list(range(38))


def test_a_causal_layer_without_positions_sees_earlier_words_and_not_their_order(rng):
    tokens, to_q, to_k, to_v = (torch.from_numpy(rng.normal(size=size)) for size in [(5, 8)] + 3 * [(8, 8)])
    to_q, to_k, to_v = (matrix / 8**0.5 for matrix in (to_q, to_k, to_v))

    def layer(x):
        return F.scaled_dot_product_attention(x @ to_q, x @ to_k, x @ to_v, is_causal=True)

    orders = [[*places, 4] for places in itertools.permutations(range(4))]
    one = torch.stack([layer(tokens[order])[-1] for order in orders])
    two = torch.stack([layer(layer(tokens[order]))[-1] for order in orders])
    assert torch.allclose(one, one[0].expand_as(one))
    assert torch.pdist(two).min() > 1e-6


def test_with_places_sat_scores_cat_above_the():
    X = np.array(CAT_SAT)
    placed = X + sinusoidal_encoding(3, 4)
    scores = placed @ placed.T
    assert np.round(scores[2], 3).tolist() == [3.513, 4.506, 4.986]
    assert (X @ X.T)[2].tolist() == [1, 1, 2]


def test_with_a_slope_of_one_half_sat_reads_cat_more_than_the():
    weights = torch.softmax(
        torch.tensor([0.5, 0.5, 1.0], dtype=torch.float64) + torch.from_numpy(alibi_bias(8, 3)[0, 2]), dim=0
    )
    assert np.round(weights.numpy(), 3).tolist() == [0.14, 0.231, 0.629]


def test_four_heads_of_the_real_model_mostly_read_the_token_before_in_every_sentence():
    recording = data.heads()
    layers, heads = np.transpose([place[:2] for place in recording.ranked("previous")[:4]])
    assert recording.measures["previous"][layers, heads].min() > 0.7
    assert recording.by_text["previous"][:, layers, heads].min() > 0.5
    assert np.median(recording.measures["previous"]) < 0.1


def test_in_layer_0_of_the_real_model_two_equal_words_get_unequal_weights():
    """Without positions they would get the same; the recording's rounding is far smaller than the differences."""
    recording = data.heads()
    assert recording.tokens[1][1:6] == recording.tokens[1][9:14]
    last = recording.weights[1][0][:, -1]
    ratios = last[:, 9:14] / last[:, 1:6]
    assert (np.abs(np.log(ratios)).max(axis=1) > 0.2).all()
    assert ratios.max() > 5
