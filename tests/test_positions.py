"""The positions chapter's reference answers against PyTorch's own operations in float64, and the chapter's facts."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import data
from solutions.positions import LearnedPositions, alibi_bias, shift_matrix, sinusoidal_encoding
from tests.references import CAT_SAT, with_gradients

SEED = 70_007


def close(actual, expected, atol=1e-14):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=atol)


def speeds(d_model):
    return torch.pow(
        torch.tensor(10000.0, dtype=torch.float64), -torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    )


# sinusoids


@pytest.mark.parametrize("max_len, d_model", [(4, 4), (9, 14), (300, 6), (7, 2)])
def test_each_pair_of_columns_is_a_complex_exponential(max_len, d_model):
    angles = torch.outer(torch.arange(max_len, dtype=torch.float64), speeds(d_model))
    hands = torch.polar(torch.ones_like(angles), angles)
    expected = torch.stack([hands.imag, hands.real], dim=-1).flatten(1)
    close(sinusoidal_encoding(max_len, d_model), expected.numpy(), atol=1e-12)


def test_the_encoding_is_float64_and_begins_with_zeros_and_ones():
    encoding = sinusoidal_encoding(1, 6)
    assert encoding.dtype == np.float64
    assert encoding.tolist() == [[0, 1, 0, 1, 0, 1]]


@pytest.mark.parametrize("max_len, d_model", [(5, 7), (5, 1), (-1, 4), (3, -2)])
def test_sizes_without_an_encoding_are_refused_by_name(max_len, d_model):
    with pytest.raises(ValueError, match=f"{max_len}.*{d_model}"):
        sinusoidal_encoding(max_len, d_model)


# shifts


@pytest.mark.parametrize("offset", [0, 1, -1, 7, -40, 1000])
def test_a_shift_is_a_block_diagonal_of_rotations(offset):
    angles = offset * speeds(10)
    blocks = [torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angles]
    close(shift_matrix(offset, 10), torch.block_diag(*blocks).numpy(), atol=1e-12)


@pytest.mark.parametrize("offset", [0, 1, -1, 13, -60, 400])
def test_a_shift_takes_every_encoding_to_the_one_further_on(offset):
    encoding = sinusoidal_encoding(600, 12)
    start = np.arange(100, 200)
    moved = encoding[start] @ shift_matrix(offset, 12).T
    np.testing.assert_allclose(moved, encoding[start + offset], rtol=0, atol=1e-11)


@pytest.mark.parametrize("d_model", [5, 1, -2])
def test_a_shift_of_odd_or_negative_width_is_refused(d_model):
    with pytest.raises(ValueError, match=str(d_model)):
        shift_matrix(3, d_model)


# learned positions


@pytest.fixture
def module(rng):
    made = LearnedPositions(9, 6).double()
    with torch.no_grad():
        made.table.copy_(torch.from_numpy(rng.normal(size=(9, 6))))
    return made


def test_learned_positions_agree_with_an_embedding_of_the_places_forward_and_backward(rng, module):
    x, upstream = (torch.from_numpy(rng.normal(size=(2, 5, 6))) for _ in range(2))
    twin = nn.Embedding.from_pretrained(module.table.detach().clone(), freeze=False)
    output, to_x, to_table = with_gradients(module, upstream, [x], [module.table])
    theirs = with_gradients(lambda x: x + twin(torch.arange(5)), upstream, [x], [twin.weight])
    assert torch.equal(output, theirs[0]) and torch.equal(to_x, upstream)
    close(to_table.numpy(), theirs[2].numpy())
    assert not to_table[5:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_learned_positions_have_exactly_one_parameter_and_keep_the_dtype(dtype):
    made = LearnedPositions(7, 4).to(dtype)
    assert [tuple(p.shape) for p in made.parameters()] == [(7, 4)]
    assert made(torch.zeros(2, 3, 4, dtype=dtype)).dtype == dtype


def test_a_text_that_fills_the_table_is_accepted_and_one_token_more_is_not(module):
    assert module(torch.zeros(2, 9, 6, dtype=torch.float64)).shape == (2, 9, 6)
    with pytest.raises(ValueError, match="10 tokens.*9 positions"):
        module(torch.zeros(2, 10, 6, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(2, 5, 1), (2, 5, 7), (5, 6), (2, 2, 5, 6)])
def test_tokens_that_would_only_broadcast_are_refused(module, shape):
    with pytest.raises(ValueError, match="table needs"):
        module(torch.zeros(shape, dtype=torch.float64))


# ALiBi


@pytest.mark.parametrize("n_heads, n", [(8, 5), (2, 7), (3, 4), (1, 6), (12, 2)])
def test_the_bias_is_slope_times_distance_under_a_causal_mask(n_heads, n):
    places = torch.arange(n, dtype=torch.float64)
    slopes = torch.exp2(-8 * torch.arange(1, n_heads + 1, dtype=torch.float64) / n_heads)
    expected = torch.einsum("h,ij->hij", slopes, places - places[:, None])
    expected = expected.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
    close(alibi_bias(n_heads, n), expected.numpy())


def test_eight_heads_have_the_slopes_of_the_paper():
    assert (-alibi_bias(8, 2)[:, 1, 0]).tolist() == [2.0**-h for h in range(1, 9)]


def test_a_token_has_no_penalty_on_itself_and_no_minus_before_its_zero():
    own = np.diagonal(alibi_bias(3, 5), axis1=1, axis2=2)
    assert not own.any() and not np.signbit(own).any()


@pytest.mark.parametrize("n_heads, n", [(0, 4), (-1, 4), (2, -1)])
def test_a_bias_without_heads_or_of_negative_length_is_refused(n_heads, n):
    with pytest.raises(ValueError, match=f"{n_heads}.*{n}"):
        alibi_bias(n_heads, n)


# the chapter's facts


def test_positions_0_to_3_by_hand():
    assert np.round(sinusoidal_encoding(4, 4), 3).tolist() == [
        [0, 1, 0, 1],
        [0.841, 0.54, 0.01, 1],
        [0.909, -0.416, 0.02, 1],
        [0.141, -0.99, 0.03, 1],
    ]


def test_the_longest_wavelength_comes_close_to_but_never_reaches_10000_turns():
    assert np.round(10000 ** (510 / 512)) == 9647


def test_the_dot_product_of_two_places_is_a_sum_of_cosines_of_their_distance():
    encoding = sinusoidal_encoding(1600, 32)
    expected = float(torch.cos(4 * speeds(32)).sum())
    for place in (5, 105, 1505):
        assert encoding[place] @ encoding[place + 4] == pytest.approx(expected, abs=1e-10)
        assert encoding[place] @ encoding[place - 4] == pytest.approx(expected, abs=1e-10)


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


def test_one_causal_layer_without_positions_sees_which_words_came_before_and_not_their_order(rng):
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
