"""Facts that the chapter on scores that stay in hand states, and the words of its references' errors."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from solutions.kv_cache import KVCache
from solutions.steady_attention import GatedAttention, QKNormAttention, softmax_with_sink
from tests.references import close, rotated

SEED = 13_131


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: softmax_with_sink(torch.ones(2, 3, 4, 5), torch.ones(2)), "one number per head"),
        (lambda: softmax_with_sink(torch.ones(3, 4, 5), torch.ones(3)), "one number per head"),
        (lambda: QKNormAttention(8, 4, 3, 4), "4 heads, 3"),
        (lambda: QKNormAttention(8, 2, 2, 3), "width 3"),
        (lambda: QKNormAttention(8, 0, 1, 4), "0"),
        (lambda: QKNormAttention(8, 2, 2, 4, window=0), "window of 0"),
        (lambda: QKNormAttention(10, 2, 2, 4)(torch.ones(2, 5, 8)), r"\(batch, n, 10\)"),
        (lambda: QKNormAttention(10, 2, 2, 4)(torch.ones(5, 10)), r"\(batch, n, 10\)"),
        (lambda: QKNormAttention(10, 2, 2, 4)(torch.ones(1, 2, 5, 10)), r"\(batch, n, 10\)"),
        (lambda: GatedAttention(8, 4, 3, 4, 2), "4 heads and 3"),
        (lambda: GatedAttention(8, 0, 1, 4, 2), "0 heads"),
        (lambda: GatedAttention(8, 2, 2, 4, 3), "3 numbers of 4"),
        (lambda: GatedAttention(8, 2, 2, 4, 0), "0 numbers of 4"),
        (lambda: GatedAttention(8, 2, 2, 4, 6), "6 numbers of 4"),
        (lambda: GatedAttention(10, 2, 2, 4, 2)(torch.ones(5, 10)), r"\(batch, n, 10\)"),
        (lambda: GatedAttention(10, 2, 2, 4, 2)(torch.ones(2, 5, 8)), r"\(batch, n, 10\)"),
    ],
)
def test_sizes_that_do_not_fit_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# against Qwen3-Next

SIZES: dict[str, Any] = dict(d_model=24, n_heads=4, n_kv_heads=2, d_head=8, d_rotary=4, base=50.0, eps=1e-3)


def qwens_weights(layer: GatedAttention) -> dict[str, torch.Tensor]:
    """The layer's weights in the order of Qwen3-Next's files.

    Each head's query rows come before its gate rows in one map, and the weights of the norms are stored minus 1.
    """
    heads = (layer.n_heads, -1)
    pairs = [layer.W_q.weight.unflatten(0, heads), layer.W_g.weight.unflatten(0, heads)]
    return {
        "q_proj.weight": torch.cat(pairs, dim=1).flatten(0, 1),
        "k_proj.weight": layer.W_k.weight,
        "v_proj.weight": layer.W_v.weight,
        "o_proj.weight": layer.W_o.weight,
        "q_norm.weight": layer.norm_q.weight - 1,
        "k_norm.weight": layer.norm_k.weight - 1,
    }


@pytest.mark.parametrize("d_rotary", [2, 4, 8])
def test_the_gated_layer_is_that_of_qwen3_next(draw, d_rotary):
    pytest.importorskip("transformers")
    from transformers import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention, Qwen3NextRotaryEmbedding

    torch.manual_seed(SEED)
    sizes = SIZES | dict(d_rotary=d_rotary)
    layer = GatedAttention(**sizes)
    with torch.no_grad():
        layer.norm_q.weight.normal_(1, 0.5)
        layer.norm_k.weight.normal_(1, 0.5)
    config = Qwen3NextConfig(
        hidden_size=sizes["d_model"],
        num_attention_heads=sizes["n_heads"],
        num_key_value_heads=sizes["n_kv_heads"],
        head_dim=sizes["d_head"],
        rms_norm_eps=sizes["eps"],
        attention_bias=False,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": sizes["base"],
            "partial_rotary_factor": d_rotary / sizes["d_head"],
        },
    )
    config._attn_implementation = "eager"
    theirs = Qwen3NextAttention(config, layer_idx=0).eval()
    theirs.load_state_dict(qwens_weights(layer))
    x = draw(2, 7, sizes["d_model"]).float()
    angles = Qwen3NextRotaryEmbedding(config)(x, torch.arange(7)[None])
    hidden = torch.full((7, 7), -torch.inf).triu(1)[None, None]
    with torch.no_grad():
        close(layer(x), theirs(x, angles, hidden)[0], 1e-5)
        cache = KVCache()
        close(torch.cat([layer(part, cache) for part in x.split([3, 1, 3], dim=1)], dim=1), layer(x), 1e-5)


def test_the_gated_layer_agrees_with_pytorchs_own_operations(draw):
    torch.manual_seed(SEED)
    layer, x = GatedAttention(**SIZES).double(), draw(2, 6, SIZES["d_model"])
    q, k, v = (W(x).unflatten(-1, (-1, 8)).transpose(1, 2) for W in (layer.W_q, layer.W_k, layer.W_v))
    q, k = (F.rms_norm(heads, (8,), norm.weight, 1e-3) for heads, norm in ((q, layer.norm_q), (k, layer.norm_k)))
    q, k = (torch.cat([rotated(heads[..., :4], torch.arange(6), 50.0), heads[..., 4:]], -1) for heads in (q, k))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)
    close(layer(x), layer.W_o(mixed * layer.W_g(x).sigmoid()), 1e-5)


# the chapter's facts


def test_a_gate_can_close_a_head_that_a_softmax_cannot(draw):
    torch.manual_seed(SEED)
    layer, x = GatedAttention(**SIZES).double(), draw(1, 6, SIZES["d_model"])
    x[..., 0] = 1.0
    with torch.no_grad():
        layer.W_g.weight[:] = 0
        layer.W_g.weight[:, 0] = -50.0
    assert layer(x).abs().max() < 1e-18 < QKNormAttention(24, 4, 2, 8).double()(x).abs().max()


def test_only_the_norms_bound_a_score(draw):
    """A normed query and key of width d give at most sqrt(d) times the largest weights, however long the tokens are."""
    torch.manual_seed(SEED)
    layer, x = QKNormAttention(10, 2, 2, 4).double(), 100 * draw(1, 6, 10)
    close(layer(1000 * x), 1000 * layer(x), 1e-5)
