"""Facts that the block chapter states, and the words of its references' errors."""

import math

import pytest
import torch
from torch import nn

from attnlab import data
from solutions.transformer_block import (
    DecoderBlock,
    EncoderBlock,
    LayerNorm,
    LlamaBlock,
    RMSNorm,
    gelu,
    gelu_tanh,
    layer_norm,
    rms_norm,
)
from tests.references import CAT_SAT, close

SEED = 50_101


@pytest.mark.parametrize("x, weight, bias", [((3, 4), 1, 4), ((3, 4), 4, 1), ((3, 1), 4, 4), ((3, 4), 3, 3)])
def test_norms_name_the_widths_that_do_not_fit(draw, x, weight, bias):
    with pytest.raises(ValueError, match=rf"\({weight},\)"):
        layer_norm(draw(*x), draw(weight), draw(bias))
    if weight != x[-1]:
        with pytest.raises(ValueError, match=rf"\({weight},\)"):
            rms_norm(draw(*x), draw(weight))


def test_the_decoder_block_refuses_a_sentence_without_its_batch():
    with pytest.raises(ValueError, match=r"\(batch, n, d_model\)"):
        DecoderBlock(12, 3, 20)(torch.ones(5, 12), torch.ones(7, 12))


@pytest.mark.parametrize("ours, theirs", [(LayerNorm(6), nn.LayerNorm(6)), (RMSNorm(6, 1e-3), nn.RMSNorm(6, 1e-3))])
def test_the_modules_have_pytorch_s_parameters_and_start_as_they_do(draw, ours, theirs):
    start, expected = ours.state_dict(), theirs.state_dict()
    assert start.keys() == expected.keys() and all(torch.equal(start[name], expected[name]) for name in start)
    x = draw(2, 3, 6).float()
    close(ours(x), theirs(x), 1e-5)


# what the chapter says


def test_the_two_gelus_differ_by_up_to_five_in_ten_thousand():
    x = torch.linspace(-6, 6, 12_001, dtype=torch.float64)
    gap = (gelu(x) - gelu_tanh(x)).abs()
    assert gap.max() == pytest.approx(4.73e-4, abs=1e-6) and x[gap.argmax()].abs() == pytest.approx(2.70, abs=0.01)


def test_two_linear_maps_in_a_row_would_be_one():
    cases = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    both = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)[:, None]
    table = torch.cat([cases, torch.ones(4, 1)], dim=1).double()
    best = table @ torch.linalg.lstsq(table, both).solution
    close((best - both).abs(), torch.full((4, 1), 0.25, dtype=torch.float64))


def test_the_cat_sat_normed_by_hand():
    tokens = torch.tensor(CAT_SAT, dtype=torch.float64)
    close(layer_norm(tokens, torch.ones(4), torch.zeros(4), eps=0.0), 2 * tokens - 1)
    close(rms_norm(tokens, torch.ones(4), eps=0.0), tokens * math.sqrt(2))


def test_averages_of_the_recorded_averages_leave_almost_only_the_first_word():
    mixed = torch.eye(7, dtype=torch.float64)
    for weights in data.seven_tokens().weights.mean(axis=1)[:4]:
        mixed = torch.from_numpy(weights) @ mixed
    assert mixed[-1, 0].item() == pytest.approx(0.96, abs=0.005)


@pytest.mark.parametrize("d, percent", [(4, 15.47), (768, 0.065)])
def test_the_unbiased_spread_is_off_by_15_percent_at_4_and_by_0_07_at_768(draw, d, percent):
    row = draw(d)
    assert 100 * (row.std() / row.std(correction=0) - 1) == pytest.approx(percent, abs=0.005)


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_parameters_come_out_as_published():
    small = LlamaBlock(576, 9, 3, 1536)
    assert 30 * count(small) + 49_152 * 576 + count(RMSNorm(576)) == 134_515_008
    assert [count(block) for block in (EncoderBlock(4, 2, 8), DecoderBlock(4, 2, 8), LlamaBlock(4, 2, 1, 8))] == [
        156,
        228,
        152,
    ]
    block = count(EncoderBlock(768, 12, 3072)) + 4 * 768  # PyTorch's own count, biases of the attention with it
    assert block == count(nn.TransformerEncoderLayer(768, 12, 3072))
    assert 12 * block + (50_257 + 1024) * 768 + count(LayerNorm(768)) == 124_439_808
