"""The block chapter's reference answers against PyTorch's own operations and layers, and the chapter's facts."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import data
from solutions.transformer_block import (
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LlamaBlock,
    RMSNorm,
    SwiGLU,
    gelu,
    gelu_tanh,
    layer_norm,
    rms_norm,
)
from tests.references import CAT_SAT, llama_block, lower, with_gradients

SEED = 50_101


@pytest.fixture
def filled(draw):
    """A module in float64 with drawn parameters."""

    def fill(module):
        module = module.double()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(draw(*parameter.shape) / (parameter.shape[-1] ** 0.5 if parameter.ndim == 2 else 1.0))
        return module

    return fill


close = functools.partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


# norms


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 5), (2, 3, 2, 7)])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("ours, theirs", [(layer_norm, F.layer_norm), (rms_norm, F.rms_norm)])
def test_norms_are_pytorch_s_with_their_gradients(draw, ours, theirs, shape, eps):
    weights = [draw(shape[-1]) for _ in range(2 if ours is layer_norm else 1)]
    upstream, inputs = draw(*shape), [draw(*shape), *weights]
    expected = with_gradients(lambda x, *weights: theirs(x, shape[-1:], *weights, eps), upstream, inputs)
    close(with_gradients(lambda *x: ours(*x, eps), upstream, inputs), expected)


def test_a_token_of_zeros_gives_the_bias_or_zeros_and_finite_gradients(draw):
    x = torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
    bias = draw(5)
    out = layer_norm(x, draw(5), bias)
    close(out.detach(), bias.expand(2, 5))
    assert not rms_norm(x, draw(5)).any()
    (out * draw(2, 5)).sum().backward()
    assert x.grad.isfinite().all()


def test_norms_keep_the_dtype(draw):
    x = draw(2, 3, 4).float()
    assert layer_norm(x, torch.ones(4), torch.zeros(4)).dtype == rms_norm(x, torch.ones(4)).dtype == torch.float32


@pytest.mark.parametrize("x, weight, bias", [((3, 4), 1, 4), ((3, 4), 4, 1), ((3, 1), 4, 4), ((3, 4), 3, 3)])
def test_norms_name_the_widths_that_do_not_fit(draw, x, weight, bias):
    with pytest.raises(ValueError, match=rf"\({weight},\)"):
        layer_norm(draw(*x), draw(weight), draw(bias))
    if weight != x[-1]:
        with pytest.raises(ValueError, match=rf"\({weight},\)"):
            rms_norm(draw(*x), draw(weight))


@pytest.mark.parametrize("ours, theirs", [(LayerNorm(6), nn.LayerNorm(6)), (RMSNorm(6, 1e-3), nn.RMSNorm(6, 1e-3))])
def test_the_modules_have_pytorch_s_parameters_and_start_as_they_do(draw, ours, theirs):
    start, expected = ours.state_dict(), theirs.state_dict()
    assert start.keys() == expected.keys() and all(torch.equal(start[name], expected[name]) for name in start)
    x = draw(2, 3, 6).float()
    close(ours(x), theirs(x), rtol=1e-5, atol=1e-6)


# activations and networks


@pytest.mark.parametrize("ours, approximate", [(gelu, "none"), (gelu_tanh, "tanh")])
def test_gelu_is_pytorch_s_up_to_a_thousand(draw, ours, approximate):
    x = torch.cat([torch.linspace(-9, 9, 721, dtype=torch.float64), 300 * draw(50), torch.tensor([-1e3, 0.0, 1e3])])
    x.requires_grad_()
    out, expected = ours(x), F.gelu(x, approximate=approximate)
    close(out, expected)
    close(*(torch.autograd.grad(result.sum(), x)[0] for result in (out, expected)))


def test_the_two_gelus_differ_by_up_to_five_in_ten_thousand():
    x = torch.linspace(-6, 6, 12_001, dtype=torch.float64)
    gap = (gelu(x) - gelu_tanh(x)).abs()
    assert gap.max() == pytest.approx(4.73e-4, abs=1e-6) and x[gap.argmax()].abs() == pytest.approx(2.70, abs=0.01)


def test_the_feed_forward_network_is_pytorch_s_three_modules_in_a_row(filled, draw):
    network, x = filled(FeedForward(6, 11)), draw(2, 3, 6)
    close(network(x), nn.Sequential(network.W_1, nn.GELU(), network.W_2)(x))


def test_swiglu_is_silu_of_the_gate_times_up(filled, draw):
    network, x = filled(SwiGLU(6, 11)), draw(2, 3, 6)
    gate, up = (x @ getattr(network, name).weight.T for name in ("W_gate", "W_up"))
    close(network(x), F.linear(F.silu(gate) * up, network.W_down.weight))
    assert {name: tuple(p.shape) for name, p in network.named_parameters()} == {
        "W_gate.weight": (11, 6),
        "W_up.weight": (11, 6),
        "W_down.weight": (6, 11),
    }


def test_two_linear_maps_in_a_row_would_be_one():
    cases = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    both = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)[:, None]
    table = torch.cat([cases, torch.ones(4, 1)], dim=1).double()
    best = table @ torch.linalg.lstsq(table, both).solution
    close((best - both).abs(), torch.full((4, 1), 0.25, dtype=torch.float64))


# blocks against PyTorch's own layers, on copied weights

FEED_FORWARD = {"feed_forward.W_1": "linear1", "feed_forward.W_2": "linear2"}
SETTINGS = dict(dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64)


def as_pytorch_names_them(block, names):
    """The block's parameters by the names of PyTorch's layer, which stacks three maps and has biases, here 0.

    names: PyTorch's name for each part
    """
    found = {}
    for ours, theirs in names.items():
        part = block.get_submodule(ours)
        if hasattr(part, "W_q"):
            found[f"{theirs}.in_proj_weight"] = torch.cat([part.W_q.weight, part.W_k.weight, part.W_v.weight])
            found[f"{theirs}.out_proj.weight"] = part.W_o.weight
            for bias, size in (("in_proj_bias", 36), ("out_proj.bias", 12)):
                found[f"{theirs}.{bias}"] = torch.zeros(size, dtype=torch.float64)
        else:
            found |= {f"{theirs}.{name}": parameter for name, parameter in part.named_parameters()}
    return found


def agree_forward_and_backward(block, layer, names, run_ours, how, inputs, upstream):
    """how: what PyTorch's layer is told besides its inputs"""

    def theirs(*inputs):
        return torch.func.functional_call(layer, as_pytorch_names_them(block, names), inputs, how)

    assert as_pytorch_names_them(block, names).keys() == dict(layer.named_parameters()).keys()
    close(*(with_gradients(run, upstream, inputs, block.parameters()) for run in (run_ours, theirs)))


@pytest.mark.parametrize("mask", [None, lower(5), torch.tensor([[[True] * 5], [[True] * 3 + [False] * 2]])])
def test_the_encoder_block_is_pytorch_s_layer_forward_and_backward(filled, draw, mask):
    block, layer = filled(EncoderBlock(12, 3, 20)), nn.TransformerEncoderLayer(12, 3, 20, **SETTINGS)
    hidden = None if mask is None else ~mask.expand(2, 5, 5).repeat_interleave(3, dim=0)
    names = {"attention": "self_attn", "norm_1": "norm1", "norm_2": "norm2", **FEED_FORWARD}
    agree_forward_and_backward(
        block, layer, names, lambda x: block(x, mask), dict(src_mask=hidden), [draw(2, 5, 12)], draw(2, 5, 12)
    )


@pytest.mark.parametrize("memory_mask", [None, torch.tensor([[True] * 7, [True] * 4 + [False] * 3])])
def test_the_decoder_block_is_pytorch_s_layer_forward_and_backward(filled, draw, memory_mask):
    block, layer = filled(DecoderBlock(12, 3, 20)), nn.TransformerDecoderLayer(12, 3, 20, **SETTINGS)
    names = {"self_attention": "self_attn", "cross_attention": "multihead_attn", **FEED_FORWARD}
    names |= {f"norm_{i}": f"norm{i}" for i in (1, 2, 3)}
    how = dict(tgt_mask=~lower(5), memory_key_padding_mask=None if memory_mask is None else ~memory_mask)
    inputs, upstream = [draw(2, 5, 12), draw(2, 7, 12)], draw(2, 5, 12)
    agree_forward_and_backward(block, layer, names, lambda x, m: block(x, m, memory_mask), how, inputs, upstream)


def test_the_decoder_block_refuses_a_sentence_without_its_batch(filled, draw):
    with pytest.raises(ValueError, match=r"\(batch, n, d_model\)"):
        filled(DecoderBlock(12, 3, 20))(draw(5, 12), draw(7, 12))


# the Llama block


@pytest.mark.parametrize("base, eps", [(10_000.0, 1e-5), (50.0, 0.1)])
def test_the_llama_block_is_its_definition_in_pytorch_s_operations(filled, draw, base, eps):
    block, x = filled(LlamaBlock(16, 4, 2, 11, base, eps)), draw(2, 6, 16)
    expected = llama_block(x, lambda name: block.get_parameter(f"{name}.weight"), 4, 2, base, eps)
    close(block(x), expected, rtol=1e-5, atol=1e-6)


# what the chapter says


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
