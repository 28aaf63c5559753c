"""The block chapter's reference answers against PyTorch's own operations and layers, and the chapter's facts."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from solutions.kv_cache import KVCache
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

SEED = 50_101
CAT_SAT = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]], dtype=torch.float64)


@pytest.fixture
def draw():
    generator = torch.Generator().manual_seed(SEED)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


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


def close(actual, expected, rtol=1e-10, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)


def lower(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


# norms


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 5), (2, 3, 2, 7)])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_layer_norm_is_pytorch_s_with_its_gradients(draw, shape, eps):
    weight, bias, upstream = draw(shape[-1]), draw(shape[-1]), draw(*shape)
    results = []
    for norm in (layer_norm, lambda x, w, b, e: F.layer_norm(x, x.shape[-1:], w, b, e)):
        leaves = [t.clone().requires_grad_() for t in (upstream.sin(), weight, bias)]
        out = norm(*leaves, eps)
        (out * upstream).sum().backward()
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for ours, theirs in zip(*results):
        close(ours, theirs)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 5), (2, 3, 2, 7)])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_rms_norm_is_pytorch_s_with_its_gradients(draw, shape, eps):
    weight, x, upstream = draw(shape[-1]), draw(*shape), draw(*shape)
    results = []
    for norm in (rms_norm, lambda x, w, e: F.rms_norm(x, x.shape[-1:], w, e)):
        leaves = [t.clone().requires_grad_() for t in (x, weight)]
        out = norm(*leaves, eps)
        (out * upstream).sum().backward()
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for ours, theirs in zip(*results):
        close(ours, theirs)


def test_a_token_of_zeros_gives_the_bias_or_zeros_and_finite_gradients(draw):
    x = torch.zeros(2, 5, dtype=torch.float64, requires_grad=True)
    bias = draw(5)
    out = layer_norm(x, draw(5), bias)
    close(out.detach(), bias.expand(2, 5))
    assert not rms_norm(x, draw(5)).any()
    (out * draw(2, 5)).sum().backward()
    assert x.grad.isfinite().all()


def test_layer_norm_keeps_its_digits_when_the_mean_is_large(draw):
    x = draw(3, 8)
    ours = layer_norm((x + 3000.0).float(), torch.ones(8), torch.zeros(8))
    in_double = F.layer_norm((x + 3000.0).float().double(), (8,))
    close(ours.double(), in_double, rtol=2e-3, atol=2e-3)


def test_norms_leave_their_input_and_its_dtype(draw):
    x = draw(2, 3, 4).float()
    before = x.clone()
    assert layer_norm(x, torch.ones(4), torch.zeros(4)).dtype == rms_norm(x, torch.ones(4)).dtype == torch.float32
    assert torch.equal(x, before)


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

SETTINGS = dict(dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64)


def copy_attention(theirs, ours):
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
        theirs.out_proj.weight.copy_(ours.W_o.weight)
        theirs.in_proj_bias.zero_()
        theirs.out_proj.bias.zero_()


def pairs_of_parameters(block, twin, attentions):
    """Our parameter's gradient and PyTorch's, for all of both."""
    for ours, theirs in attentions.items():
        ours, theirs = getattr(block, ours), getattr(twin, theirs)
        yield torch.cat([ours.W_q.weight.grad, ours.W_k.weight.grad, ours.W_v.weight.grad]), theirs.in_proj_weight.grad
        yield ours.W_o.weight.grad, theirs.out_proj.weight.grad
    parts = {f"norm_{i}": f"norm{i}" for i in range(1, len(attentions) + 2)}
    for ours, theirs in (parts | {"feed_forward.W_1": "linear1", "feed_forward.W_2": "linear2"}).items():
        for name in ("weight", "bias"):
            yield block.get_parameter(f"{ours}.{name}").grad, twin.get_parameter(f"{theirs}.{name}").grad


def twin_of(block, kind, attentions, d_model, n_heads, d_ff):
    twin = kind(d_model, n_heads, d_ff, **SETTINGS)
    for ours, theirs in attentions.items():
        copy_attention(getattr(twin, theirs), getattr(block, ours))
    for i in range(1, len(attentions) + 2):
        getattr(twin, f"norm{i}").load_state_dict(getattr(block, f"norm_{i}").state_dict())
    twin.linear1.load_state_dict(block.feed_forward.W_1.state_dict())
    twin.linear2.load_state_dict(block.feed_forward.W_2.state_dict())
    return twin


def agree_forward_and_backward(block, twin, attentions, run_ours, run_theirs, inputs, upstream):
    leaves = [[t.clone().requires_grad_() for t in inputs] for _ in range(2)]
    out, expected = run_ours(*leaves[0]), run_theirs(*leaves[1])
    close(out, expected)
    for result in (out, expected):
        (result * upstream).sum().backward()
    for ours, theirs in zip(*leaves):
        close(ours.grad, theirs.grad)
    for ours, theirs in pairs_of_parameters(block, twin, attentions):
        close(ours, theirs)


@pytest.mark.parametrize("mask", [None, lower(5), torch.tensor([[[True] * 5], [[True] * 3 + [False] * 2]])])
def test_the_encoder_block_is_pytorch_s_layer_forward_and_backward(filled, draw, mask):
    attentions = {"attention": "self_attn"}
    block = filled(EncoderBlock(12, 3, 20))
    twin = twin_of(block, nn.TransformerEncoderLayer, attentions, 12, 3, 20)
    hidden = None if mask is None else ~mask.expand(2, 5, 5).repeat_interleave(3, dim=0)
    agree_forward_and_backward(
        block,
        twin,
        attentions,
        lambda x: block(x, mask),
        lambda x: twin(x, src_mask=hidden),
        [draw(2, 5, 12)],
        draw(2, 5, 12),
    )


@pytest.mark.parametrize("memory_mask", [None, torch.tensor([[True] * 7, [True] * 4 + [False] * 3])])
def test_the_decoder_block_is_pytorch_s_layer_forward_and_backward(filled, draw, memory_mask):
    attentions = {"self_attention": "self_attn", "cross_attention": "multihead_attn"}
    block = filled(DecoderBlock(12, 3, 20))
    twin = twin_of(block, nn.TransformerDecoderLayer, attentions, 12, 3, 20)
    padding = None if memory_mask is None else ~memory_mask
    agree_forward_and_backward(
        block,
        twin,
        attentions,
        lambda x, m: block(x, m, memory_mask),
        lambda x, m: twin(x, m, tgt_mask=~lower(5), memory_key_padding_mask=padding),
        [draw(2, 5, 12), draw(2, 7, 12)],
        draw(2, 5, 12),
    )


def test_the_decoder_block_sees_no_later_token_and_all_of_the_memory(filled, draw):
    block, x, memory = filled(DecoderBlock(12, 3, 20)), draw(2, 5, 12), draw(2, 7, 12)
    later, other = x.clone(), memory.clone()
    later[:, 3:] += 100.0
    other[:, 6] += 1.0
    before = block(x, memory)
    assert torch.equal(block(later, memory)[:, :3], before[:, :3])
    assert (block(x, other) != before).any(dim=-1).all()


def test_the_decoder_block_refuses_a_sentence_without_its_batch(filled, draw):
    with pytest.raises(ValueError, match=r"\(batch, n, d_model\)"):
        filled(DecoderBlock(12, 3, 20))(draw(5, 12), draw(7, 12))


SILENT = {
    EncoderBlock: ((12, 3, 20), ("attention.W_o", "feed_forward.W_2"), 1),
    DecoderBlock: ((12, 3, 20), ("self_attention.W_o", "cross_attention.W_o", "feed_forward.W_2"), 2),
    LlamaBlock: ((12, 3, 3, 20), ("attention.W_o", "feed_forward.W_down"), 1),
}


@pytest.mark.parametrize("kind", SILENT)
def test_a_block_whose_parts_say_nothing_is_the_identity(filled, draw, kind):
    sizes, last_maps, n_inputs = SILENT[kind]
    block = filled(kind(*sizes))
    for name in last_maps:
        for parameter in block.get_submodule(name).parameters():
            nn.init.zeros_(parameter)
    inputs = [draw(2, 5, 12) for _ in range(n_inputs)]
    assert torch.equal(block(*inputs), inputs[0])


# the Llama block


def llama_by_pytorch(block, x, base, eps):
    """One pass without a cache, of PyTorch's own operations and complex numbers for the rotation."""
    batch, n, width = x.shape
    heads, kv_heads = block.attention.n_heads, block.attention.n_kv_heads
    d = width // heads

    def turned(t):
        angles = torch.outer(torch.arange(n), base ** (-torch.arange(0, d, 2).double() / d))
        pairs = torch.complex(t[..., : d // 2], t[..., d // 2 :]) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([pairs.real, pairs.imag], dim=-1)

    def split(t, how_many):
        return t.unflatten(-1, (how_many, d)).transpose(1, 2)

    y = F.rms_norm(x, (width,), block.norm_1.weight, eps)
    q, k, v = (
        split(getattr(block.attention, f"W_{name}")(y), h) for name, h in zip("qkv", (heads, kv_heads, kv_heads))
    )
    said = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
    x = x + block.attention.W_o(said.transpose(1, 2).flatten(2))
    y = F.rms_norm(x, (width,), block.norm_2.weight, eps)
    net = block.feed_forward
    return x + net.W_down(F.silu(net.W_gate(y)) * net.W_up(y))


@pytest.mark.parametrize("base, eps", [(10_000.0, 1e-5), (50.0, 0.1)])
def test_the_llama_block_is_its_definition_in_pytorch_s_operations(filled, draw, base, eps):
    block, x = filled(LlamaBlock(16, 4, 2, 11, base, eps)), draw(2, 6, 16)
    close(block(x), llama_by_pytorch(block, x, base, eps), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chunks", [[6], [1] * 6, [3, 1, 2]])
def test_the_llama_block_reads_in_chunks_as_in_one_pass(filled, draw, chunks):
    block, x, cache = filled(LlamaBlock(16, 4, 2, 11)), draw(2, 6, 16), KVCache()
    pieces = [block(part, cache) for part in x.split(chunks, dim=1)]
    close(torch.cat(pieces, dim=1), block(x), rtol=1e-5, atol=1e-6)
    assert len(cache) == 6


# what the chapter says


@pytest.mark.parametrize("token, normed", list(zip(CAT_SAT, [[1, -1, 1, -1], [-1, 1, -1, 1], [1, 1, -1, -1]])))
def test_the_cat_sat_normed_by_hand(token, normed):
    ours = layer_norm(token, torch.ones(4).double(), torch.zeros(4).double(), eps=0.0)
    close(ours, torch.tensor(normed, dtype=torch.float64))
    close(rms_norm(token, torch.ones(4).double(), eps=0.0), token * math.sqrt(2))


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
