"""Facts that the multi-head chapter states, and the words of its references' errors."""

import re

import numpy as np
import pytest
import torch

from attnlab import data
from solutions.multi_head import MultiHeadAttention, attention_parameters, merge_heads, split_heads
from tests.references import CAT_SAT, close

SEED = 50_051


@pytest.mark.parametrize(
    "answer, shape, more, words",
    [
        *((split_heads, (2, 5, 12), (n_heads,), f"12.*{n_heads}") for n_heads in (5, 0, -3, 24)),
        *((split_heads, shape, (3,), f"{len(shape)} dimensions") for shape in [(5, 12), (1, 2, 5, 12), (12,)]),
        *((merge_heads, shape, (), f"{len(shape)} dimensions") for shape in [(3, 5, 4), (1, 2, 3, 5, 4)]),
        *((MultiHeadAttention(12, 3), shape, (), r"\(batch, n, 12\)") for shape in [(2, 5, 8), (5, 12), (1, 2, 5, 12)]),
        *(
            (MultiHeadAttention(12, 3), (2, 5, 12), (torch.ones(shape) > 0,), re.escape(str(shape)))
            for shape in [(5,), (4, 4), (3, 5, 5), (2, 2, 5, 5), (1, 2, 3, 5, 5)]
        ),
    ],
)
def test_shapes_that_do_not_fit_are_named(answer, shape, more, words):
    with pytest.raises(ValueError, match=words):
        answer(torch.ones(shape), *more)


@pytest.mark.parametrize("refuse", [MultiHeadAttention, attention_parameters])
@pytest.mark.parametrize("d_model, n_heads", [(10, 4), (8, 0), (6, -2), (4, 8)])
def test_heads_that_do_not_divide_the_width_are_named(refuse, d_model, n_heads):
    with pytest.raises(ValueError, match=f"{d_model}.*{n_heads}"):
        refuse(d_model, n_heads)


# the chapter's facts


def test_pytorch_s_module_averages_the_heads_unless_told_otherwise(draw):
    module, x = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64), draw(2, 5, 12)
    close(module(x, x, x, average_attn_weights=False)[1].mean(dim=1), module(x, x, x)[1])


cat_sat = torch.tensor(CAT_SAT)


def test_no_blend_of_the_cat_sat_comes_nearer_than_half_and_half():
    """The chapter searches a grid; the nearest point of a triangle to a target is also where no corner is downhill."""
    wish, blend = torch.tensor([1.0, 0.0, 0.0, 1.0]), torch.tensor([0.5, 0.5, 0.0]) @ cat_sat
    assert torch.dist(blend, wish) == 1.0
    assert all(torch.dot(blend - wish, corner - blend) >= 0 for corner in cat_sat)


def test_sat_reads_the_three_tokens_by_hand_in_head_0_and_all_alike_in_head_1():
    layer = MultiHeadAttention(4, 2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.eye(4))
        weights = layer(cat_sat[None])[1][0, :, 2]
    assert weights.numpy().round(3).tolist() == [pytest.approx([0.248, 0.248, 0.503]), pytest.approx([0.333] * 3)]


def test_reporting_two_words_from_one_blend_misses_half_of_each_on_average(draw):
    """With shares a and b, the best multiple of a c1 + b c2 misses b^2 / (a^2 + b^2) of c1, and the rest of c2."""
    first, second = draw(2, 100_000)
    for a in (0.1, 0.5, 0.8):
        blend = a * first + (1 - a) * second
        misses = [
            (((blend * word).mean() / (blend * blend).mean() * blend - word) ** 2).mean() for word in (first, second)
        ]
        assert sum(misses) / 2 == pytest.approx(0.5, abs=0.01)


@pytest.fixture(scope="module")
def heads():
    return data.heads()


def test_few_heads_are_strong_in_a_pattern_but_most_rest_on_the_first_token(heads):
    for pattern in ("previous", "self", "induction"):
        assert np.median(heads.measures[pattern]) < 0.1 < 0.79 < heads.ranked(pattern)[0][2]
    assert np.median(heads.measures["first"]) > 0.6
    assert np.median(heads.measures["induction"]) < np.mean(1 / np.arange(26, 51)) == pytest.approx(0.027, abs=0.0005)


def test_the_best_induction_heads_read_the_first_token_and_three_of_five_find_the_phrase(heads):
    best = heads.ranked("induction")[:5]
    assert all(layer >= 15 and heads.measures["first"][layer, head] > 0.8 for layer, head, _ in best)
    phrase = [heads.measures["induction_phrase"][layer, head] for layer, head, _ in heads.ranked("induction")[:5]]
    assert sum(weight < 0.2 for weight in phrase) == 2 and sum(weight > 0.6 for weight in phrase) == 3


def test_the_best_induction_head_reads_what_came_next_the_last_time(heads):
    layer, head, _ = heads.ranked("induction")[0]
    words, weights = heads.tokens[1], heads.weights[1][layer, head]
    assert words[weights[10].argmax()] == "record" and words[10] == "announced" and weights[10].argmax() == 3
    assert words[weights[14].argmax()] == "." and words[14] == "Friday"
    assert weights[2].argmax() == weights[6].argmax() == 0


def test_no_head_reads_friday_from_announced_and_the_head_for_ceo_looks_further_back(heads):
    words, weights = heads.tokens[0], heads.weights[0]
    row = weights[:, :, words.index("announced")]
    assert row[:, :, words.index("Friday")].max() == 0.0
    best = np.unravel_index(row[:, :, words.index("CEO")].argmax(), (30, 9))
    assert row[best][words.index("CEO")] == pytest.approx(0.97, abs=0.005)
    assert weights[best][words.index("earnings"), words.index("record")] < 0.05


def prompt(heads, answer, start):
    found = [
        p
        for p, text in enumerate(heads.ablation.prompts)
        if heads.ablation.answers[p] == answer and text.startswith(start) and len(text) >= len(start)
    ]
    return max(found, key=lambda p: len(heads.ablation.prompts[p]))


def test_without_the_five_induction_heads_copying_suffers_more_than_without_five_others(heads):
    ablation = heads.ablation
    others = [group for name, group in ablation.groups.items() if name.startswith(("random", "same layers"))]
    assert len(others) == 40
    five = ablation.groups["induction"].answer_probabilities
    for answer in ("record", "Friday"):
        p = prompt(heads, answer, "The CEO")
        assert five[p] < 0.7 * min(group.answer_probabilities[p] for group in others)
    paris = prompt(heads, "Paris", "The capital")
    assert five[paris] > 0.9 * ablation.answer_baseline[paris]
    assert sum(group.answer_probabilities[paris] < 0.2 for group in others) == 2


def test_the_harm_of_the_five_does_not_hang_on_zeros_but_the_order_of_single_heads_does(heads):
    ablation, p = heads.ablation, prompt(heads, "record", "The CEO")
    others = [group for name, group in ablation.groups.items() if name.startswith(("random", "same layers"))]
    five = ablation.groups["induction"]
    assert five.kl[p] > max(group.kl[p] for group in others)
    assert five.kl_mean[p] > max(group.kl_mean[p] for group in others)
    assert ablation.kl[p, 8, 1] > ablation.kl[p, 16, 0] and ablation.kl_mean[p, 8, 1] < ablation.kl_mean[p, 16, 0]


def test_record_is_copied_from_the_sentence_said_before(heads):
    ablation = heads.ablation
    begin = "The CEO announced"
    said, alone = (ablation.prompts.index(text) for text in (f"{heads.texts[0]}. {begin}", begin))
    assert ablation.answers[said] == ablation.answers[alone] == "record"
    assert ablation.answer_baseline[said] > 0.6 and ablation.answer_baseline[alone] < 1e-5


def test_one_of_three_previous_heads_is_what_four_of_the_five_induction_heads_need(heads):
    ablation, best = heads.ablation, [place[:2] for place in heads.ranked("previous")[:3]]
    assert best == [(1, 2), (16, 0), (11, 1)]
    left = {place: ablation.induction[:, *place] / ablation.induction_baseline for place in best}
    assert (left[16, 0] < 0.25).sum() == 4 and (left[16, 0] < 0.5).all()
    assert (left[1, 2] > 0.85).all() and (left[11, 1] > 0.85).all()


def test_no_head_is_needed_more_by_the_induction_heads_and_the_next_has_no_pattern(heads):
    mean = heads.ablation.induction.mean(axis=0)
    first, second = (divmod(int(place), 9) for place in np.argsort(mean, axis=None)[:2])
    assert (first, second) == ((16, 0), (1, 5))
    assert mean[first] < 0.11 < mean[second] < 0.2 and 0.69 < heads.ablation.induction_baseline.mean() < 0.7
    assert all(heads.measures[pattern][second] < 0.3 for pattern in ("previous", "first", "self", "induction"))


def test_most_heads_do_little_harm_when_off_and_the_most_harmful_is_not_an_induction_head(heads):
    p, paris = prompt(heads, "record", "The CEO"), prompt(heads, "Paris", "The capital")
    assert all((heads.ablation.kl[one] < 0.01).sum() > 135 for one in (p, paris))
    worst = np.unravel_index(heads.ablation.kl[p].argmax(), (30, 9))
    assert tuple(map(int, worst)) == (8, 1)
    assert heads.measures["induction"][worst] < 0.05 and heads.measures["first"][worst] > 0.8
