"""The recorded attention of a real model: what its loaders promise."""

import dataclasses
import functools
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab import data

# The recording is kept in float32; every promise holds to this precision.
PRECISION = 1e-6


LOADERS = [
    *(data.seven_tokens, data.heads, data.generation, data.long_text, data.stream, data.chant_training),
    *(data.score_growth, data.writing, data.engine_logits, data.patching),
    *(functools.partial(data.small_model, name) for name in data.SMALL_MODELS),
]


def parts(value):
    """Every array, list and dictionary in a recording."""
    if isinstance(value, np.ndarray | list | dict):
        yield value
    if dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        value = list(value.values())
    for part in value if isinstance(value, list | tuple) else ():
        yield from parts(part)


@pytest.mark.parametrize("load", LOADERS, ids=lambda load: getattr(load, "__name__", "") or load.args[0])
def test_arrays_are_read_only_and_two_calls_share_nothing(load):
    one, other = list(parts(load())), list(parts(load()))
    assert not any(part.flags.writeable for part in one if isinstance(part, np.ndarray))
    assert not {id(part) for part in one} & {id(part) for part in other}
    assert any(isinstance(part, dict) and "script" in part for part in one)


@pytest.fixture(scope="module")
def recording():
    return data.seven_tokens()


def test_the_sentence_is_seven_clean_words(recording):
    assert recording.tokens == ["The", "CEO", "announced", "record", "earnings", "on", "Friday"]
    assert all(type(token) is str for token in recording.tokens)


def test_weights_and_scores_are_layers_by_heads_by_queries_by_keys(recording):
    assert recording.weights.shape == recording.scores.shape == (30, 9, 7, 7)
    assert recording.weights.dtype == recording.scores.dtype == np.float64


def test_every_row_of_weights_sums_to_one(recording):
    np.testing.assert_allclose(recording.weights.sum(-1), 1.0, rtol=0, atol=PRECISION)


def test_weights_are_never_negative_and_no_query_attends_to_a_later_key(recording):
    assert recording.weights.min() >= 0 and not np.triu(recording.weights, 1).any()


def test_scores_are_there_for_later_keys_too(recording):
    assert np.isfinite(recording.scores).all()
    later = np.triu(np.ones((7, 7), dtype=bool), 1)
    assert recording.scores[..., later].all()


def test_softmax_of_the_masked_scores_gives_the_weights(recording):
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    scores = torch.tensor(recording.scores).masked_fill(later, -torch.inf)
    np.testing.assert_allclose(scores.softmax(-1).numpy(), recording.weights, rtol=0, atol=PRECISION)


def test_the_head_width_and_the_sentence_are_those_of_the_recording(recording):
    assert recording.d_head == 64
    assert recording.provenance["sentence"] == "The CEO announced record earnings on Friday"


# The heads, measured and taken out.

# The weights of the second text are kept in float16, everything else in float32.
HALF_PRECISION = 1e-3
NAMED = ("induction", "previous", "first", "self")


@pytest.fixture(scope="module")
def heads():
    return data.heads()


def test_the_first_text_is_the_seven_token_recording(heads, recording):
    assert heads.texts[0] == "The CEO announced record earnings on Friday"
    assert heads.provenance["sentences"][0] == heads.texts[0]
    assert heads.tokens[0] == recording.tokens
    np.testing.assert_array_equal(heads.weights[0], recording.weights)


def test_the_second_text_says_the_sentence_twice(heads):
    assert heads.tokens[1] == [*heads.tokens[0], ".", *heads.tokens[0]]
    assert heads.texts[1] == f"{heads.texts[0]}. {heads.texts[0]}"


def test_there_is_one_map_per_layer_head_and_text(heads):
    assert len(heads.texts) == len(heads.tokens) == len(heads.weights)
    for tokens, weights in zip(heads.tokens, heads.weights):
        assert weights.shape == (30, 9, len(tokens), len(tokens))
        assert weights.dtype == np.float64


def test_the_maps_are_causal_and_their_rows_sum_to_one(heads):
    for weights in heads.weights:
        later = np.triu(np.ones(weights.shape[-2:], dtype=bool), 1)
        assert weights.min() >= 0
        assert not weights[..., later].any()
        np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=0, atol=HALF_PRECISION)


def test_a_causal_model_reads_the_first_sentence_alike_in_both_texts(heads):
    """The second sentence comes later, so nothing in the first may change."""
    np.testing.assert_allclose(heads.weights[1][..., :7, :7], heads.weights[0], rtol=0, atol=HALF_PRECISION)


def test_every_measure_has_a_value_per_head_that_is_a_mean_weight(heads):
    assert set(heads.measures) == {"previous", "first", "self", "induction", "duplicate", "induction_phrase"}
    assert set(heads.by_text) == set(heads.measures) == set(heads.provenance["measures"])
    for name, values in heads.measures.items():
        assert values.shape == (30, 9), name
        assert 0 <= values.min() and values.max() <= 1, name
        np.testing.assert_allclose(values, heads.by_text[name].mean(0))


def test_measures_are_taken_over_several_texts(heads):
    assert {name: len(values) for name, values in heads.by_text.items()} == {
        "previous": 8,
        "first": 8,
        "self": 8,
        "induction": 8,
        "duplicate": 8,
        "induction_phrase": 1,
    }


def test_measures_of_the_seven_tokens_follow_from_their_weights(heads):
    W = heads.weights[0]
    expected = {
        "previous": W.diagonal(-1, 2, 3)[..., 1:].mean(-1),  # the diagonal begins with query 1
        "first": W[:, :, 4:, 0].mean(-1),
        "self": W.diagonal(0, 2, 3)[..., 1:].mean(-1),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(heads.by_text[name][0], values, rtol=0, atol=PRECISION, err_msg=name)


def test_induction_on_the_phrase_follows_from_the_weights_of_the_second_text(heads):
    W = heads.weights[1]
    # "CEO" to "Friday" stand at 1 to 6 and again at 9 to 14; a query looks at what came next the first time.
    expected = np.mean([W[:, :, query, query - 7] for query in range(9, 15)], axis=0)
    np.testing.assert_allclose(heads.measures["induction_phrase"], expected, rtol=0, atol=HALF_PRECISION)


def test_the_ranking_holds_every_head_once_and_the_largest_first(heads):
    for name, values in heads.measures.items():
        ranking = heads.ranked(name)
        assert {(layer, head) for layer, head, _ in ranking} == {(i, j) for i in range(30) for j in range(9)}
        assert [value for *_, value in ranking] == sorted((value for *_, value in ranking), reverse=True)
        assert all(value == values[layer, head] for layer, head, value in ranking)
        assert all(type(part) is kind for part, kind in zip(ranking[0], (int, int, float)))


def test_a_measure_that_does_not_exist_is_refused_with_the_list_of_those_that_do(heads):
    with pytest.raises(ValueError, match="previous, first, self"):
        heads.ranked("syntax")


def test_a_head_that_is_strong_on_random_tokens_is_strong_on_the_phrase_too(heads):
    """Two texts with nothing in common but a repetition: the strongest induction head is the same."""
    assert heads.ranked("induction")[0][:2] == heads.ranked("induction_phrase")[0][:2]


def test_ablation_arrays_fit_the_prompts_the_heads_and_the_tokens(heads):
    a = heads.ablation
    p, t = len(a.prompts), 8
    assert len(a.tokens) == len(a.answers) == p
    assert all(len(tokens) == len(set(tokens)) == t for tokens in a.tokens)
    assert a.baseline.shape == (p, t)
    assert a.probabilities.shape == (p, 30, 9, t)
    assert a.answer_baseline.shape == (p,)
    assert a.answer_probabilities.shape == a.kl.shape == a.kl_mean.shape == (p, 30, 9)
    for group in a.groups.values():
        assert group.probabilities.shape == (p, t)
        assert group.answer_probabilities.shape == group.kl.shape == group.kl_mean.shape == (p,)


def test_the_next_tokens_of_the_whole_model_are_sorted_by_probability(heads):
    baseline = heads.ablation.baseline
    assert (np.diff(baseline, axis=1) <= 0).all()
    assert (baseline.sum(1) <= 1).all() and baseline.min() > 0


def test_probabilities_without_a_head_are_probabilities(heads):
    a = heads.ablation
    for probabilities in (a.probabilities, *(group.probabilities for group in a.groups.values())):
        assert probabilities.min() >= 0
        assert probabilities.sum(-1).max() <= 1 + PRECISION


def test_an_answer_among_the_tokens_has_the_same_probabilities_there(heads):
    a = heads.ablation
    found = [p for p in range(len(a.prompts)) if a.answers[p] in a.tokens[p]]
    assert len(found) >= 3
    for p in found:
        t = a.tokens[p].index(a.answers[p])
        assert a.answer_baseline[p] == a.baseline[p, t]
        np.testing.assert_array_equal(a.answer_probabilities[p], a.probabilities[p, :, :, t])
        for group in a.groups.values():
            assert group.answer_probabilities[p] == group.probabilities[p, t]


def test_a_divergence_is_never_negative_and_at_least_what_the_top_tokens_show(heads):
    """Lumping all other tokens together cannot raise a KL divergence, so the eight tokens give a lower bound."""
    a = heads.ablation
    P, Q = a.baseline[:, None, None], a.probabilities
    rest_P, rest_Q = 1 - P.sum(-1), 1 - Q.sum(-1)
    bound = (P * np.log(P / Q)).sum(-1) + rest_P * np.log(rest_P / rest_Q)
    assert a.kl.min() >= 0 and a.kl_mean.min() >= 0
    assert (a.kl >= bound - 1e-5).all()


def test_named_groups_are_the_five_strongest_heads_by_their_measure(heads):
    for name in NAMED:
        assert heads.ablation.groups[name].heads == [(layer, head) for layer, head, _ in heads.ranked(name)[:5]]


def test_control_groups_hold_five_heads_of_which_none_is_in_a_named_group(heads):
    groups = heads.ablation.groups
    strongest = {head for name in NAMED for head in groups[name].heads}
    for kind in ("random", "same layers"):
        for number in range(1, 21):
            chosen = groups[f"{kind} {number}"].heads
            assert len(set(chosen)) == 5
            assert not strongest & set(chosen)
            if kind == "same layers":
                assert sorted(layer for layer, _ in chosen) == sorted(layer for layer, _ in groups["induction"].heads)
    assert len(groups) == len(NAMED) + 40


def test_a_head_changes_what_later_layers_look_at_but_not_earlier_ones_or_its_own(heads):
    a = heads.ablation
    for (layer, head), baseline, left in zip(a.groups["induction"].heads, a.induction_baseline, a.induction):
        assert baseline == heads.by_text["induction"][0, layer, head]
        assert left.shape == (30, 9)
        np.testing.assert_allclose(left[layer:], baseline, rtol=0, atol=PRECISION)
        assert (left[:layer] != baseline).any()


# what the model writes


@pytest.fixture(scope="module")
def generation():
    return data.generation()


def test_each_prompt_has_a_continuation_of_thirty_tokens(generation):
    assert generation.ids.shape == (4, 30) and generation.ids.dtype.kind == "i"
    assert len(generation.prompts) == len(generation.texts) == len(generation.prompt_lengths) == 4
    assert generation.ids.min() >= 0 and generation.ids.max() < 49152


def test_choices_have_their_most_likely_token_first_and_keep_a_part_of_the_probability(generation):
    for choice in generation.choices:
        assert len(choice.tokens) == len(choice.logits) == 200
        assert (np.diff(choice.logits) <= 0).all()
        assert 0.5 < np.exp(choice.logits - choice.logsumexp).sum() < 1
    assert generation.choices[0].tokens[0] == " Paris"


def test_each_break_has_a_change_for_every_written_token(generation):
    assert list(generation.breaks) == [
        "one position too far",
        "base 10,000",
        "pairs of neighbors",
        "heads dealt round",
    ]
    for broken in generation.breaks.values():
        assert broken.difference.shape == broken.kl.shape == broken.ids.shape == (4, 30)
        assert (broken.kl > -1e-4).all() and len(broken.texts) == 4
        assert len(broken.first) == generation.prompt_lengths[0] + 30


def test_the_course_s_logits_are_those_of_the_other_program_up_to_rounding(generation):
    assert generation.compared_logits.shape == (7, 384)
    assert generation.compared_largest < 1e-3 < generation.compared_spread


# The stream, block by block.


@pytest.fixture(scope="module")
def stream():
    return data.stream()


def test_the_stream_has_a_state_before_the_first_block_and_two_for_each_block(stream):
    texts = len(stream.prompts)
    assert stream.stream.shape == (texts, 61, 576) and stream.rms.shape == (texts, 61)
    assert stream.probabilities.shape == (texts, 31, 4) and stream.answer_probabilities.shape == (texts, 31)
    assert [len(words) for words in stream.words] == [31] * texts
    assert stream.added.shape == (texts, 60)
    size = (stream.stream**2).mean(-1) ** 0.5
    assert 0.6 < size.min() and size.max() < 1.01  # the largest numbers are cut


def test_the_last_words_of_the_stream_are_those_of_the_whole_model(stream, heads):
    for p, prompt in enumerate(stream.prompts):
        whole = heads.ablation.prompts.index(prompt)
        assert stream.words[p][-1] == heads.ablation.tokens[whole][:4]
        np.testing.assert_allclose(stream.probabilities[p, -1], heads.ablation.baseline[whole, :4], atol=PRECISION)
        np.testing.assert_allclose(
            stream.answer_probabilities[p, -1], heads.ablation.answer_baseline[whole], atol=PRECISION
        )


def test_the_weights_on_the_first_prompt_are_causal_shares(stream):
    n = len(stream.first_tokens)
    assert stream.first_weights.shape == (30, 9, n, n)
    assert not np.triu(stream.first_weights, 1).any()
    np.testing.assert_allclose(stream.first_weights.sum(-1), 1, atol=HALF_PRECISION)


# A head that forms, and a text that is written


def test_the_training_of_the_small_model_is_looked_at_every_25_steps():
    training = data.chant_training()
    assert (training.steps == np.arange(0, 601, 25)).all()
    assert training.maps.shape == (25, 2, 2, 30, 30) and training.chances.shape == (25, 29)
    assert training.losses.shape == (600,) and training.text == 3 * training.text[: training.period]
    assert training.provenance["parameters"] == 19_424


def test_rows_of_its_maps_sum_to_one_and_its_loss_comes_down_to_the_floor():
    training = data.chant_training()
    np.testing.assert_allclose(training.maps.sum(-1), 1.0, atol=30 * 0.5 / 255)
    assert not np.triu(training.maps, 1).any()
    assert training.losses[0] == pytest.approx(np.log(26), abs=0.05)
    assert training.floor < training.losses[-50:].mean() < training.floor + 0.15


def test_the_chapter_trains_the_model_that_was_recorded():
    """The first losses of the chapter's own cells, with the reference model, are the recorded ones."""
    from scripts import record_chants
    from solutions.language_model import LanguageModel

    chapter = Path(__file__).parents[2].joinpath("chapters/language_model.md").read_text("utf-8")
    cells = re.findall(r"^```\{code-cell\}\n(?:^:[^\n]*\n)*(.*?)^```$", chapter, flags=re.M | re.S)
    space = {"LanguageModel": LanguageModel, "np": np, "torch": torch, "F": torch.nn.functional, "math": math}
    for name in ("def chants", "def new_model"):
        [cell] = [one for one in cells if name in one]
        exec(cell.partition("exam = ")[0], space)
    model, rng = space["new_model"](2), np.random.default_rng(1)
    loss = space["nats_per_letter"](model, space["chants"](32, rng)).mean().item()
    steps = record_chants.train(3)
    recorded = data.chant_training().losses
    assert loss == pytest.approx(recorded[0], abs=2e-3)
    assert [next(steps)[2] for _ in range(3)] == pytest.approx(recorded[:3].tolist(), abs=2e-3)


def test_scores_grow_without_norms_at_the_highest_rate_alone():
    grown = data.score_growth()
    assert grown.losses.shape == grown.scores.shape == (2, 3, 3, 300)
    assert (grown.scores[0, 2].max(-1) > 500).all() and (grown.scores[1].max(-1) < 15).all()
    assert grown.losses[0, 2, :, -20:].mean() > 3.2 > grown.losses[1, 2, :, -20:].mean()


def test_its_first_steps_can_be_repeated():
    from scripts import record_score_growth as script

    grown = data.score_growth()
    for kind in (0, 1):
        losses, scores = script.train(bool(kind), 0.003, seed=1, steps=3)
        assert losses == pytest.approx(grown.losses[kind, 0, 1, :3].tolist(), abs=4e-3)
        assert scores == pytest.approx(grown.scores[kind, 0, 1, :3].tolist(), rel=4e-3)


def test_three_texts_were_written_step_by_step():
    writing = data.writing()
    assert "".join(writing.tokens) == "Once upon a time"
    assert [run.temperature for run in writing.runs] == [0, 0.8, 0.8]
    for run in writing.runs:
        assert run.shares.shape == run.ids.shape == (14, 6)
        assert (run.shares.sum(1) <= 1 + 1e-6).all() and (np.diff(run.shares[:, :5]) <= 0).all()
    assert not writing.runs[0].taken.any()  # greedy: always the likeliest
    texts = ["".join(row[i] for row, i in zip(run.tokens, run.taken)) for run in writing.runs]
    assert len(set(texts)) == 3 and data.generation().texts[2].startswith(texts[0])


def test_every_token_that_may_follow_the_second_beginning_is_continued():
    choice, writing = data.generation().choices[1], data.writing()
    assert writing.beginning == choice.prompt
    assert list(writing.continuations) == choice.tokens
    assert all(len(text) < 120 and "\n" not in text for text in writing.continuations.values())


def test_three_programs_give_the_same_logits_but_not_the_same_bits():
    recorded, independent = data.engine_logits(), data.generation().compared_logits
    assert recorded.engine.shape == recorded.course.shape == independent.shape
    pairs = itertools.combinations([recorded.engine, recorded.course, independent], 2)
    assert all(0 < np.abs(one - other).max() < 1e-3 for one, other in pairs)


def moved_by(asked):
    """Shares (layers, heads): how far each head alone moves the preference to the donor's answer, mean over texts."""
    return ((asked.patched - asked.plain) / (asked.swapped - asked.plain)).mean(-1)


def test_a_single_head_carries_capitals_and_languages():
    for asked in data.patching():
        assert asked.patched.shape == asked.reads.shape == (30, 9, 8) and len(asked.answers) == 8
        assert (asked.plain < 0).all() and (asked.swapped > 0).all()
        share = moved_by(asked)
        assert np.unravel_index(share.argmax(), share.shape) == (23, 4) and share[23, 4] > 0.8
        assert np.partition(share, -2, axis=None)[-2] < 0.31
        assert asked.reads[23, 4].mean() > 0.8 and asked.reads[16, 0].mean() > 0.7 and abs(share[16, 0]) < 0.01


def test_heads_that_carry_nothing_can_be_needed():
    capital, _ = data.patching()
    ablation = data.heads().ablation
    prompt = ablation.prompts.index(capital.question.format("France"))
    without = ablation.answer_probabilities[prompt]
    assert list(map(tuple, np.argwhere(without < 0.3))) == [(0, 4), (23, 4)]
    assert abs(moved_by(capital)[0, 4]) < 0.01
