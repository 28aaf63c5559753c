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

LOADERS = [
    *(data.seven_tokens, data.heads, data.generation, data.long_text, data.stream, data.chant_training),
    *(data.score_growth, data.writing, data.engine_logits, data.patching, data.gemma),
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


SHAPES = {
    data.seven_tokens: {"tokens": (7,), "weights": (30, 9, 7, 7), "scores": (30, 9, 7, 7)},
    data.heads: {
        "weights.1": (30, 9, 15, 15),
        **{f"by_text.{name}": (8, 30, 9) for name in ("previous", "first", "self", "induction", "duplicate")},
        "by_text.induction_phrase": (1, 30, 9),
        "ablation.tokens": (5, 8),
        "ablation.baseline": (5, 8),
        "ablation.probabilities": (5, 30, 9, 8),
        **{f"ablation.{name}": (5, 30, 9) for name in ("answer_probabilities", "kl", "kl_mean", "induction")},
        "ablation.groups.random 20.probabilities": (5, 8),
        **{f"ablation.groups.induction.{name}": (5,) for name in ("answer_probabilities", "kl", "kl_mean")},
    },
    data.generation: {"ids": (4, 30), "breaks.base 10,000.difference": (4, 30), "choices.0.logits": (200,)},
    data.stream: {"stream": (2, 61, 576), "added": (2, 60), "words": (2, 31, 4), "first_weights": (30, 9, 5, 5)},
    data.gemma: {"ids": (10, 16), "texts": (10,), "differences": (10,), "mistakes.bases exchanged.differences": (2,)},
    data.chant_training: {"maps": (25, 2, 2, 30, 30), "chances": (25, 29), "losses": (600,)},
    data.score_growth: {"losses": (2, 3, 3, 300), "scores": (2, 3, 3, 300)},
}


def part_of(value, path: str):
    for name in path.split("."):
        if isinstance(value, dict):
            value = value[name]
        else:
            value = value[int(name)] if name.isdigit() else getattr(value, name)
    return value


@pytest.mark.parametrize("load", SHAPES, ids=lambda load: load.__name__)
def test_arrays_have_the_shapes_that_their_loader_documents(load):
    """Their numbers are those that the scripts make, which `tests/test_recordings.py` tests."""
    loaded = load()
    assert {path: np.shape(part_of(loaded, path)) for path in SHAPES[load]} == SHAPES[load]


def test_rows_of_weights_sum_to_one_and_see_no_later_key():
    heads, stream, training = data.heads(), data.stream(), data.chant_training()
    for weights, precision in (
        (data.seven_tokens().weights, 1e-6),
        (heads.weights[1], 1e-3),  # kept in float16
        (stream.first_weights, 1e-3),
        (training.maps, 30 * 0.5 / 255),
    ):
        np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=0, atol=precision)
        assert weights.min() >= 0 and not np.triu(weights, 1).any()


@pytest.fixture(scope="module")
def heads():
    return data.heads()


def test_the_ranking_holds_every_head_once_and_the_largest_first(heads):
    for name, values in heads.measures.items():
        ranking = heads.ranked(name)
        assert {(layer, head) for layer, head, _ in ranking} == {(i, j) for i in range(30) for j in range(9)}
        assert [value for *_, value in ranking] == sorted((value for *_, value in ranking), reverse=True)
        assert all(value == values[layer, head] for layer, head, value in ranking)
        assert all(type(part) is kind for part, kind in zip(ranking[0], (int, int, float)))


def test_measures_are_means_over_texts_of_which_the_first_is_the_seven_tokens(heads):
    for name, values in heads.measures.items():
        np.testing.assert_allclose(values, heads.by_text[name].mean(0))
    np.testing.assert_array_equal(heads.weights[0], data.seven_tokens().weights)
    assert heads.tokens[1] == [*heads.tokens[0], ".", *heads.tokens[0]]
    W = heads.weights[0]
    for name, values in (("previous", W.diagonal(-1, 2, 3)[..., 1:]), ("first", W[:, :, 4:, 0])):
        np.testing.assert_allclose(heads.by_text[name][0], values.mean(-1), rtol=0, atol=1e-6)


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


def test_a_measure_that_does_not_exist_is_refused_with_the_list_of_those_that_do(heads):
    with pytest.raises(ValueError, match="previous, first, self"):
        heads.ranked("syntax")


# what the model writes


@pytest.fixture(scope="module")
def generation():
    return data.generation()


def test_choices_have_their_most_likely_token_first_and_keep_a_part_of_the_probability(generation):
    for choice in generation.choices:
        assert len(choice.tokens) == len(choice.logits) == 200
        assert (np.diff(choice.logits) <= 0).all()
        assert 0.5 < np.exp(choice.logits - choice.logsumexp).sum() < 1
    assert generation.choices[0].tokens[0] == " Paris"


def test_the_course_s_logits_are_those_of_the_other_program_up_to_rounding(generation):
    assert generation.compared_logits.shape == (7, 384)
    assert generation.compared_largest < 1e-3 < generation.compared_spread


def test_the_last_words_of_the_stream_are_those_of_the_whole_model(heads):
    stream, whole = data.stream(), heads.ablation
    for p, prompt in enumerate(stream.prompts):
        at = whole.prompts.index(prompt)
        assert stream.words[p][-1] == whole.tokens[at][:4]
        np.testing.assert_allclose(stream.probabilities[p, -1], whole.baseline[at, :4], atol=1e-6)
        np.testing.assert_allclose(stream.answer_probabilities[p, -1], whole.answer_baseline[at], atol=1e-6)


# A head that forms, and a text that is written


def test_the_training_is_looked_at_every_25_steps_and_comes_down_to_the_floor():
    training = data.chant_training()
    assert (training.steps == np.arange(0, 601, 25)).all()
    assert training.text == 3 * training.text[: training.period] and training.provenance["parameters"] == 19_424
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


def test_the_pronoun_is_read_by_a_causal_model_and_one_head_alone_changes_little():
    pronoun = data.pronoun()
    n = len(pronoun.tokens)
    assert pronoun.weights.shape == (30, 9, n, n) and pronoun.without.shape == (30, 9, len(pronoun.words))
    np.testing.assert_allclose(pronoun.weights.sum(-1), 1, atol=2e-3)  # kept in float16
    assert not np.triu(pronoun.weights, 1).any()
    assert (np.diff(pronoun.whole) <= 0).all() and (pronoun.without.sum(-1) < 1).all()
    assert np.median(abs(pronoun.without - pronoun.whole)) < 0.01
