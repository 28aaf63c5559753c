"""The cross-attention chapter's reference answers against PyTorch's own operations, and the chapter's facts."""

import functools
import re
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from solutions.cross_attention import CrossAttention, attention_multiply_adds, hard_alignment
from tests.references import CAT_SAT, multihead, with_gradients

SEED = 60_061
CHAPTER = (Path(__file__).parent.parent / "chapters" / "cross_attention.md").read_text("utf-8")
BATCH, HEADS, ASKING, SOURCE, WIDTH = 2, 3, 5, 7, 12
MASK = torch.tensor([[True] * 7, [True, True, False, True, False, False, False]])


@pytest.fixture
def layer():
    torch.manual_seed(SEED)
    return CrossAttention(WIDTH, HEADS).double()


@pytest.fixture
def sequences(draw):
    """x_q and x_kv."""
    return draw(BATCH, ASKING, WIDTH), draw(BATCH, SOURCE, WIDTH)


def fused(layer, x_q, x_kv, mask=None):
    """The same layer by PyTorch's scaled_dot_product_attention."""
    q, k, v = (
        F.linear(x, W.weight).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for x, W in ((x_q, layer.W_q), (x_kv, layer.W_k), (x_kv, layer.W_v))
    )
    attn_mask = None if mask is None else mask[:, None, None].expand(-1, HEADS, x_q.shape[1], -1)
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
    return F.linear(heads.transpose(1, 2).flatten(-2), layer.W_o.weight)


close = functools.partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


# against PyTorch


@pytest.mark.parametrize("mask", [None, MASK])
def test_multihead_attention_whose_mask_means_the_opposite_agrees_forward_and_backward(layer, sequences, draw, mask):
    twin, upstream = multihead(layer, HEADS), (draw(BATCH, ASKING, WIDTH), draw(BATCH, HEADS, ASKING, SOURCE))
    *ours, in_q, in_k, in_v, out = with_gradients(
        lambda *x: layer(*x, mask),
        upstream,
        sequences,
        [W.weight for W in (layer.W_q, layer.W_k, layer.W_v, layer.W_o)],
    )
    padding = None if mask is None else ~mask
    expected = with_gradients(
        lambda x_q, x_kv: twin(x_q, x_kv, x_kv, key_padding_mask=padding, average_attn_weights=False),
        upstream,
        sequences,
        twin.parameters(),
    )
    close([*ours, torch.cat([in_q, in_k, in_v]), out], expected)


@pytest.mark.parametrize("some", [(True, True), (True, False), (False, True)])
def test_fused_attention_agrees_forward_and_backward_also_where_a_source_is_empty(layer, sequences, draw, some):
    mask, upstream = MASK & torch.tensor(some)[:, None], draw(BATCH, ASKING, WIDTH)
    ours = with_gradients(lambda *x: layer(*x, mask)[0], upstream, sequences, layer.parameters())
    close(ours, with_gradients(lambda *x: fused(layer, *x, mask), upstream, sequences, layer.parameters()))
    assert all(part.isfinite().all() for part in ours)


def test_single_precision_stays_single_and_agrees(layer, sequences):
    x_q, x_kv = sequences
    exact = layer(x_q, x_kv, MASK)
    for ours, expected in zip(layer.float()(x_q.float(), x_kv.float(), MASK), exact):
        assert ours.dtype == torch.float32
        close(ours.double(), expected, rtol=1e-4, atol=1e-6)


# masks


def test_padding_changes_no_bit_and_gets_no_gradient(layer, sequences):
    x_q, x_kv = sequences
    before = layer(x_q, x_kv, MASK)
    changed = torch.where(MASK[..., None], x_kv, torch.full_like(x_kv, 1e6)).requires_grad_()
    after = layer(x_q, changed, MASK)
    for first, second in zip(before, after):
        assert torch.equal(first, second)
    after[0].sum().backward()
    assert not changed.grad[~MASK].any() and changed.grad[MASK].any()


def test_a_padded_batch_agrees_with_each_source_alone(layer, sequences):
    x_q, x_kv = sequences
    output, weights = layer(x_q, x_kv, MASK)
    for i in range(BATCH):
        alone, its_weights = layer(x_q[i : i + 1], x_kv[i : i + 1, MASK[i]])
        close(output[i : i + 1], alone)
        close(weights[i : i + 1][..., MASK[i]], its_weights)


def test_the_order_of_the_source_does_not_matter(layer, sequences):
    (x_q, x_kv), order = sequences, [3, 0, 6, 1, 5, 2, 4]
    output, weights = layer(x_q, x_kv)
    shuffled_output, shuffled_weights = layer(x_q, x_kv[:, order])
    close(shuffled_output, output)
    close(shuffled_weights, weights[..., order])


def test_with_one_source_token_each_query_brings_home_its_value(layer, draw):
    x_q, x_kv = draw(BATCH, ASKING, WIDTH), draw(BATCH, 1, WIDTH)
    close(layer(x_q, x_kv)[0], layer.W_o(layer.W_v(x_kv)).expand(-1, ASKING, -1))


# sizes


@pytest.mark.parametrize("d_model, n_heads", [(10, 3), (12, 0), (12, -3), (3, 4)])
def test_heads_that_do_not_divide_the_width_are_refused(d_model, n_heads):
    with pytest.raises(ValueError, match=f"{n_heads} heads.*width of {d_model}"):
        CrossAttention(d_model, n_heads)


@pytest.mark.parametrize(
    "size_q, size_kv, words",
    [
        ((2, 5, 9), (2, 7, 12), r"x_q.*\(2, 5, 9\).*12"),
        ((2, 5, 12), (2, 7, 9), r"x_kv.*\(2, 7, 9\).*12"),
        ((5, 12), (2, 7, 12), r"x_q.*\(5, 12\)"),
        ((2, 5, 12), (1, 2, 7, 12), "x_kv"),
        ((1, 5, 12), (2, 7, 12), "1 sequences.*2"),
    ],
)
def test_inputs_that_do_not_fit_are_named(layer, size_q, size_kv, words):
    with pytest.raises(ValueError, match=words):
        layer(torch.ones(size_q, dtype=torch.float64), torch.ones(size_kv, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(2, 5), (1, 7), (7,), (2, 5, 7)])
def test_a_mask_of_another_shape_is_refused(layer, sequences, shape):
    with pytest.raises(ValueError, match="kv_mask"):
        layer(*sequences, torch.ones(shape, dtype=torch.bool))


# alignment and cost


def test_alignment_of_averaged_weights_is_refused():
    with pytest.raises(ValueError, match="3 dimensions"):
        hard_alignment(torch.ones(2, 5, 7))


def test_the_count_is_what_pytorch_counts_for_the_two_products():
    from torch.utils.flop_counter import FlopCounterMode

    q, k, v = (torch.ones(HEADS, n, WIDTH // HEADS) for n in (ASKING, SOURCE, SOURCE))
    with FlopCounterMode(display=False) as counter:
        (q @ k.mT) @ v
    assert attention_multiply_adds(ASKING, SOURCE, WIDTH) == counter.get_total_flops() // 2


@pytest.mark.parametrize("sizes", [(-1, 7, 64), (13, -7, 64), (13, 7, -64), (-13, -7, 64)])
def test_a_negative_size_is_refused(sizes):
    with pytest.raises(ValueError, match="negative"):
        attention_multiply_adds(*sizes)


# the chapter's facts


def test_the_two_tokens_by_hand_bring_home_what_the_chapter_prints():
    layer = CrossAttention(4, 1)
    with torch.no_grad():
        for W in layer.parameters():
            W.copy_(torch.eye(4))
    source = torch.tensor([CAT_SAT])
    output, weights = layer(torch.tensor([[[2.0, 0, 2, 0], [0, 1, 0, 1]]]), source)
    close(weights[0, 0], torch.tensor([[2.0, 0, 1], [0, 1, 0.5]]).softmax(-1), rtol=1e-6, atol=1e-6)
    assert hard_alignment(weights).tolist() == [[0, 1]]
    close(output[0], weights[0, 0] @ source[0], rtol=1e-6, atol=1e-6)


def test_thirteen_syllables_read_seven_words():
    output, weights = CrossAttention(64, 4)(torch.ones(1, 13, 64), torch.ones(1, 7, 64))
    assert output.shape == (1, 13, 64) and weights.shape == (1, 4, 13, 7)


@pytest.mark.parametrize("n_q, n_kv", [(13, 7), (7, 13), (20, 20), (1, 900)])
def test_one_long_sequence_costs_one_rectangle_more_than_the_three_maps_and_at_most_a_third_more(n_q, n_kv):
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
    run("for a verb, most weight is on", end="print(")
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
