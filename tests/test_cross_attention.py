"""Facts that the cross-attention chapter states, and the words of its references' errors."""

import re
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from solutions.cross_attention import CrossAttention, attention_multiply_adds, hard_alignment
from tests.references import CAT_SAT, close

CHAPTER = (Path(__file__).parent.parent / "chapters" / "cross_attention.md").read_text("utf-8")


# sizes


@pytest.mark.parametrize(
    "x_q, x_kv, mask, words",
    [
        ((2, 5, 9), (2, 7, 12), (2, 7), r"x_q.*\(2, 5, 9\).*12"),
        ((2, 5, 12), (2, 7, 9), (2, 7), r"x_kv.*\(2, 7, 9\).*12"),
        ((5, 12), (2, 7, 12), (2, 7), r"x_q.*\(5, 12\)"),
        ((2, 5, 12), (1, 2, 7, 12), (2, 7), "x_kv"),
        ((1, 5, 12), (2, 7, 12), (2, 7), "1 sequences.*2"),
        *(((2, 5, 12), (2, 7, 12), shape, "kv_mask") for shape in [(2, 5), (1, 7), (7,), (2, 5, 7)]),
    ],
)
def test_inputs_that_do_not_fit_are_named(x_q, x_kv, mask, words):
    with pytest.raises(ValueError, match=words):
        CrossAttention(12, 3)(torch.ones(x_q), torch.ones(x_kv), torch.ones(mask, dtype=torch.bool))


@pytest.mark.parametrize(
    "answer, arguments, words",
    [
        *(
            (CrossAttention, sizes, "{1} heads.*width of {0}".format(*sizes))
            for sizes in [(10, 3), (12, 0), (12, -3), (3, 4)]
        ),
        (hard_alignment, (torch.ones(2, 5, 7),), "3 dimensions"),
        *(
            (attention_multiply_adds, sizes, "negative")
            for sizes in [(-1, 7, 64), (13, -7, 64), (13, 7, -64), (-13, -7, 64)]
        ),
    ],
)
def test_arguments_that_do_not_fit_are_named(answer, arguments, words):
    with pytest.raises(ValueError, match=words):
        answer(*arguments)


# the chapter's facts


def test_the_two_tokens_by_hand_give_what_the_chapter_prints():
    layer = CrossAttention(4, 1)
    with torch.no_grad():
        for W in layer.parameters():
            W.copy_(torch.eye(4))
    source = torch.tensor([CAT_SAT])
    output, weights = layer(torch.tensor([[[2.0, 0, 2, 0], [0, 1, 0, 1]]]), source)
    close(weights[0, 0], torch.tensor([[2.0, 0, 1], [0, 1, 0.5]]).softmax(-1), 1e-6)
    assert hard_alignment(weights).tolist() == [[0, 1]]
    close(output[0], weights[0, 0] @ source[0], 1e-6)


@pytest.mark.parametrize("n_q, n_kv", [(13, 7), (7, 13), (20, 20), (1, 900)])
def test_one_long_sequence_costs_one_rectangle_more_and_at_most_a_third_more(n_q, n_kv):
    def cost(a, b):
        return attention_multiply_adds(a, b, 64)

    three = cost(n_kv, n_kv) + cost(n_q, n_q) + cost(n_q, n_kv)
    assert cost(n_q + n_kv, n_q + n_kv) - three == cost(n_q, n_kv)
    assert three >= 0.75 * cost(n_q + n_kv, n_q + n_kv)


def cell_with(text):
    """The code cell of the chapter that holds these words."""
    cells = re.findall(r"^```\{code-cell\}\n(.*?)^```$", CHAPTER, re.DOTALL | re.MULTILINE)
    found = [cell for cell in cells if text in cell]
    assert len(found) == 1
    return re.sub(r"\A(?::.*\n)+", "", found[0])


@pytest.fixture(scope="module")
def lomi():
    """The chapter's dictionary and rules."""
    names = {}
    exec(cell_with("DICTIONARY = {").partition("EXAMPLES = ")[0], names)
    return names


def test_the_translation_follows_the_three_rules(lomi):
    english, words, links = lomi["translate"](
        dict(subject=["the", "old", "cat"], verb=["followed"], object=["a", "small", "bird"], adverb=["today"])
    )
    assert " ".join(english) == "the old cat followed a small bird today"
    assert " ".join(words) == "hode lo miru vesa un pipo nika segu"
    assert links == [7, 0, 2, 1, 4, 6, 5, 3]


def test_one_word_becomes_two_and_both_are_linked_to_it(lomi):
    _, words, links = lomi["translate"](dict(subject=["the", "cat"], verb=["sat"], object=[], adverb=[]))
    assert words == ["lo", "miru", "ka", "sedu"] and links == [0, 1, 2, 2]


def test_no_lomi_word_has_two_meanings(lomi):
    words = [word for words in lomi["LEXICON"].values() for word in words]
    assert len(set(words)) == len(words)
    assert [english for english, words in lomi["LEXICON"].items() if "ka" in words] == ["sat"]


def test_the_dictionary_links_of_the_vietnamese_sentence_leave_out_the_article():
    names = {}
    exec(re.search(r"^seven = .*?^dictionary = .*?$", CHAPTER, re.DOTALL | re.MULTILINE).group(), names)
    assert (len(names["seven"]), len(names["thirteen"]), len(names["dictionary"])) == (7, 13, 13)
    assert set(names["dictionary"]) == {1, 2, 3, 4, 5, 6}
    assert [names["seven"][i] for i in names["dictionary"][6:10]] == ["earnings", "earnings", "record", "record"]


@pytest.fixture(scope="module")
def page(lomi):
    """The chapter's own cells, from the language to the ways of judging, with its three models of one head trained."""
    import numpy as np

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    names = dict(lomi, np=np, time=time, torch=torch, nn=nn, F=F)
    names |= dict(CrossAttention=CrossAttention, hard_alignment=hard_alignment)

    def run(text, first=None, end=None):
        cell = cell_with(text)
        exec(cell[first and cell.index(first) : end and cell.index(end)], names)

    run("DICTIONARY = {", "EXAMPLES = ", "fig, panels")
    run("held_out = [")
    run("class Translator")
    run("def batch_of")
    run("SEED = 0", end="print(")
    run("def judged(", end="marks = [")
    run("def forced(", end="print(")
    run("OTHER = 1", end="marks = [")
    run("for a verb, the largest weight is on", end="print(")
    run("def verbs_said(", end="print(")
    run("def links_right(", end="many = ")
    yield names
    torch.set_num_threads(threads)


def test_training_is_judged_on_sentences_it_never_saw(page):
    held_out = {" ".join(english) for english, _, _ in page["held_out"]}
    assert len(page["held_out"]) > 400
    assert held_out.isdisjoint(page["seen"]) and held_out.isdisjoint(page["shown"])


def test_the_translator_learns_to_translate_and_to_align(page):
    marks = page["judged"](page["model"])
    assert page["losses"][0] > 3.5 and page["losses"][-1] < 0.05
    assert marks["sentences"] > 0.95
    assert marks["all words"] > 0.9 > 0.5 > page["same_place"]


def test_the_source_word_that_is_read_decides_which_noun_is_said(page):
    english = page["long_one"][0]
    said = {
        word: page["forced"](page["model"], page["long_one"], page["step"], english.index(word))
        for word in ("cat", "bird", "followed")
    }
    assert (said["cat"], said["bird"]) == ("miru", "pipo")
    assert said["followed"] != "segu"


def test_rows_compared_with_the_word_fed_look_broken(page):
    assert page["links_right"](page["model"], [0], shift=1) < 0.2


def test_where_source_tokens_read_each_other_a_verb_may_be_read_from_another_place(page):
    """Same seed, same sentences; only the encoder's self-attention differs."""
    mixed, unmixed = page["judged"](page["mixed"]), page["judged"](page["unmixed"])
    assert min(mixed["sentences"], unmixed["sentences"]) > 0.95
    assert mixed["verb"] < 0.5 < 0.9 < unmixed["verb"]


def test_the_end_mark_alone_is_enough_for_the_verb_where_source_tokens_read_each_other(page):
    def right(model, place):
        return page["verbs_said"](page[model], place)

    end_mark = (page["source"] == page["END"]).int().argmax(1)[:, None].expand_as(page["links"])
    assert right("mixed", end_mark) > 0.8 > right("mixed", page["links"])
    assert right("unmixed", page["links"]) > 0.9 > 0.3 > right("unmixed", end_mark)
