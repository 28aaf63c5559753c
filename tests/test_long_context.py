"""Facts that the chapter on longer texts and smaller caches states, and the words of its references' errors."""

import pytest
import torch
import torch.nn.functional as F

from solutions.long_context import LatentAttention, index_scores, top_k_attention
from solutions.rope import apply_rope
from tests.references import close

SEED = 17_171

ROWS = torch.ones(1, 2, 3, 4), torch.ones(1, 2, 5, 4), torch.ones(1, 2, 5, 6)
SIZES = dict(d_model=10, n_heads=3, d_head=4, d_rope=6, d_latent=5)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: LatentAttention(**SIZES | dict(d_rope=3)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(d_rope=0)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(n_heads=0)), "do not fit"),
        (lambda: LatentAttention(**SIZES | dict(d_latent=0)), "do not fit"),
        (lambda: index_scores(torch.ones(1, 2, 3, 4), torch.ones(1, 5, 3), torch.ones(1, 3, 2)), "do not fit"),
        (lambda: index_scores(torch.ones(1, 2, 3, 4), torch.ones(1, 5, 4), torch.ones(1, 2, 3)), "do not fit"),
        (lambda: index_scores(torch.ones(2, 3, 4), torch.ones(1, 5, 4), torch.ones(1, 3, 2)), "do not fit"),
        (lambda: top_k_attention(*ROWS, torch.ones(1, 3, 4), 2), "do not fit"),
        (lambda: top_k_attention(*ROWS, torch.ones(1, 2, 3, 5), 2), "do not fit"),
        (lambda: top_k_attention(*ROWS, torch.ones(1, 3, 5), 0), "at least one key, not 0"),
    ],
)
def test_sizes_that_do_not_fit_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# against DeepSeek-V3.2


def test_the_scores_put_keys_in_the_order_of_deepseeks_indexer(draw):
    pytest.importorskip("transformers")
    from transformers.models.deepseek_v32.configuration_deepseek_v32 import DeepseekV32Config
    from transformers.models.deepseek_v32.modeling_deepseek_v32 import DeepseekV32Indexer

    torch.manual_seed(SEED)
    heads, width, turned, n = 4, 8, 4, 9
    config = DeepseekV32Config(
        hidden_size=24, index_n_heads=heads, index_head_dim=width, qk_rope_head_dim=turned, index_topk=n, q_lora_rank=12
    )
    theirs, x, latent = DeepseekV32Indexer(config, layer_idx=0), draw(2, n, 24).float(), draw(2, n, 12).float()
    at = torch.arange(n)
    speeds = 10000.0 ** -(torch.arange(turned // 2) / (turned // 2))
    angles = (at[:, None] * speeds).repeat(1, 2)[None].expand(2, -1, -1)
    hidden = torch.full((n, n), -torch.inf).triu(1)
    order = theirs(x, latent, (angles.cos(), angles.sin()), hidden, at[None]).long()

    def partly_turned(rows):
        return torch.cat([apply_rope(rows[..., :turned], at), rows[..., turned:]], dim=-1)

    with torch.no_grad():
        q = partly_turned(theirs.wq_b(latent).unflatten(-1, (heads, width)).transpose(1, 2))
        k = partly_turned(theirs.k_norm(theirs.wk(x)))
        ours = (index_scores(q, k, theirs.weights_proj(x)) + hidden).argsort(dim=-1, descending=True)
    for i in range(n):  # what comes later has no order
        assert torch.equal(ours[:, i, : i + 1], order[:, i, : i + 1])


# the chapter's facts


def test_chosen_keys_are_attended_to_as_by_pytorchs_own_operation(draw):
    Q, K, V, scores = draw(2, 3, 5, 4), draw(2, 3, 8, 4), draw(2, 3, 8, 6), draw(2, 5, 8)
    seen = torch.zeros(2, 5, 8, dtype=torch.bool)
    for text in range(2):
        for i in range(5):
            best = scores[text, i, : i + 4].argsort(descending=True)[:3]
            seen[text, i, best] = True
    output, weights = top_k_attention(Q, K, V, scores, 3)
    close(output, F.scaled_dot_product_attention(Q, K, V, attn_mask=seen[:, None]), 1e-9)
    assert torch.equal(weights > 0, seen[:, None].expand_as(weights))


def test_further_tokens_get_the_rows_of_one_pass(draw):
    Q, K, V, scores = draw(2, 3, 8, 4), draw(2, 3, 8, 4), draw(2, 3, 8, 6), draw(2, 8, 8)
    whole = top_k_attention(Q, K, V, scores, 3)[0]
    parts = [
        top_k_attention(Q[:, :, a:b], K[:, :, :b], V[:, :, :b], scores[:, a:b, :b], 3)[0]
        for a, b in ((0, 3), (3, 4), (4, 8))
    ]
    close(torch.cat(parts, dim=2), whole, 1e-9)
