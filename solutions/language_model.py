"""Reference answers of the chapter on the whole model: a Llama-style language model, sampling, generation, patching.

Shapes follow the course: ids (batch, n), logits (batch, n, vocab_size). Inputs are never changed. Values that do not
fit raise ValueError. Sources: Touvron et al., 2023 (Llama); Fan et al., 2018 (top-k); Holtzman et al., 2020 (top-p);
Vig et al., 2020, and Meng et al., 2022 (activation patching).
"""

import torch
from torch import nn

from solutions.kv_cache import KVCache
from solutions.transformer_block import LlamaBlock, RMSNorm


class LanguageModel(nn.Module):
    """Token ids to logits: embedding, blocks, norm, and the embedding again as the head."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_layers: int,
        n_heads: int,
        n_kv_heads: int,
        d_ff: int,
        base: float = 10000.0,
        eps: float = 1e-5,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.blocks = nn.ModuleList(LlamaBlock(d_model, n_heads, n_kv_heads, d_ff, base, eps) for _ in range(n_layers))
        self.norm = RMSNorm(d_model, eps)

    def forward(self, ids: torch.Tensor, caches: list[KVCache] | None = None) -> torch.Tensor:
        vocab_size = self.embedding.num_embeddings
        if ids.ndim != 2:
            raise ValueError(f"ids are {tuple(ids.shape)}, not (batch, n)")
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
            raise ValueError(f"ids from {int(ids.min())} to {int(ids.max())}; the vocabulary has {vocab_size}")
        if caches is None:
            caches = [None] * len(self.blocks)
        if len(caches) != len(self.blocks):
            raise ValueError(f"{len(caches)} caches for {len(self.blocks)} blocks")
        x = self.embedding(ids)
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache)
        return self.norm(x) @ self.embedding.weight.T


def sample(
    logits: torch.Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Draw one token: temperature, then top-k, then top-p over the tokens that are left."""
    if temperature < 0:
        raise ValueError(f"temperature {temperature} is below 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k {top_k} leaves no token")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p {top_p} is not a share above 0")
    if temperature == 0:
        return logits.argmax(dim=-1)
    ordered, tokens = logits.sort(dim=-1, descending=True)
    # Subtract the largest first: a tiny temperature then makes the others very negative, and nothing overflows.
    ordered = (ordered - ordered[..., :1]) / temperature
    if top_k is not None:
        ordered[..., top_k:] = -torch.inf
    shares = ordered.softmax(dim=-1)
    if top_p is not None:
        # A token stays while the probabilities before it have not reached top_p, so the one that crosses it also stays.
        before = shares.cumsum(dim=-1) - shares
        shares = shares.masked_fill(before >= top_p, 0.0)
    drawn = torch.multinomial(shares.reshape(-1, shares.shape[-1]), 1, generator=generator)
    return tokens.gather(-1, drawn.reshape(*logits.shape[:-1], 1)).squeeze(-1)


def generate(
    model: nn.Module,
    ids: torch.Tensor,
    max_new_tokens: int,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> torch.Tensor:
    """One token at a time; with caches, only new tokens are read."""
    caches = [KVCache() for _ in model.blocks] if use_cache else None
    text, unread = ids, ids
    with torch.set_grad_enabled(False):
        for _ in range(max_new_tokens):
            logits = model(unread if use_cache else text, caches)[:, -1]
            unread = sample(logits, temperature, generator=generator)[:, None]
            text = torch.cat([text, unread], dim=1)
    return text


def patch_head(
    model: nn.Module, ids: torch.Tensor, donor_ids: torch.Tensor, layer: int, head: int, n_heads: int
) -> torch.Tensor:
    """The model reads ids, and one head gives what it gives for donor_ids: a hook in front of W_o, for each reading."""
    if ids.shape != donor_ids.shape:
        raise ValueError(f"texts of shape {tuple(ids.shape)} and {tuple(donor_ids.shape)}")
    if not 0 <= layer < len(model.blocks) or not 0 <= head < n_heads:
        raise ValueError(f"no head {head} of {n_heads} in block {layer} of {len(model.blocks)}")
    mixing, kept = model.blocks[layer].attention.W_o, []

    def keep(_, inputs):
        kept.append(inputs[0].unflatten(-1, (n_heads, -1))[:, :, head])

    def replace(_, inputs):
        found = inputs[0].unflatten(-1, (n_heads, -1)).clone()
        found[:, :, head] = kept[0]
        return found.flatten(-2)

    with torch.set_grad_enabled(False):
        for text, hook in ((donor_ids, keep), (ids, replace)):
            with mixing.register_forward_pre_hook(hook):
                patched = model(text)
    return patched


def test_sample(sample) -> None:
    """Accept an implementation of sample by returning, reject it by raising."""

    def shares(logits, n=2000, **limits):
        """How often each token was drawn from one row of logits."""
        source, rows, counts = torch.Generator().manual_seed(0), 400, torch.zeros(len(logits))
        for _ in range(n // rows):
            drawn = sample(logits.expand(rows, -1).clone(), generator=source, **limits)
            counts += torch.bincount(drawn, minlength=len(logits))
        return counts / n

    def close(logits, wanted, **limits):
        found = shares(logits, **limits)
        wanted = torch.tensor(wanted) / sum(wanted)
        assert (found[wanted == 0] == 0).all(), "a token that is left out was drawn"
        assert ((found - wanted).abs() < 0.06).all(), "tokens were not drawn by their shares"

    logits = torch.tensor([0.1, 0.5, 0.05, 0.3, 0.05]).log()
    close(logits, [0.1, 0.5, 0.05, 0.3, 0.05])
    close(logits - 100, [0.1, 0.5, 0.05, 0.3, 0.05])
    close(logits, [x**2 for x in (0.1, 0.5, 0.05, 0.3, 0.05)], temperature=0.5)
    close(logits, [x**0.5 for x in (0.1, 0.5, 0.05, 0.3, 0.05)], temperature=2.0)
    close(logits, [0, 1, 0, 0, 0], temperature=1e-6)
    close(logits, [0, 1, 0, 0, 0], top_k=1)
    close(logits, [0, 0.5, 0, 0.3, 0], top_k=2)
    close(logits, [0.1, 0.5, 0, 0.3, 0], top_k=3)
    close(logits, [0.1, 0.5, 0.05, 0.3, 0.05], top_k=5)
    close(logits, [0.1, 0.5, 0.05, 0.3, 0.05], top_k=9)
    close(logits, [0, 1, 0, 0, 0], top_p=0.3)
    close(logits, [0, 0.5, 0, 0.3, 0], top_p=0.6)
    close(logits, [0.1, 0.5, 0, 0.3, 0], top_p=0.85)
    close(logits, [0.1, 0.5, 0.05, 0.3, 0.05], top_p=1.0)
    close(logits, [0, 1, 0, 0, 0], top_p=0.001)
    # After temperature and top_k: the shares are those of what is left.
    close(logits, [0.1**0.5, 0.5**0.5, 0, 0.3**0.5, 0], temperature=2.0, top_p=0.7)
    close(logits, [0, 1, 0, 0, 0], top_k=2, top_p=0.6)
    close(logits, [0, 0.5, 0, 0.3, 0], top_k=2, top_p=0.7)
    close(logits, [0, 0.25, 0, 0.09, 0], temperature=0.5, top_k=3, top_p=0.85)
    for shape in [(4,), (1, 4), (3, 4), (2, 3, 4)]:
        many = torch.randn(shape)
        before = many.clone()
        for limits in ({}, {"temperature": 0.0}, {"temperature": 2.0, "top_k": 2}, {"top_p": 0.5}):
            drawn = sample(many, **limits)
            assert drawn.shape == many.shape[:-1], "a token for each row"
            assert drawn.dtype == torch.int64, "tokens are whole numbers"
        assert torch.equal(many, before), "the logits were changed"
        for limits in (
            {"temperature": 0.0},
            {"temperature": 0},
            {"top_k": 1},
            {"temperature": 0.0, "top_k": 2, "top_p": 0.5},
        ):
            assert torch.equal(sample(many, **limits), many.argmax(dim=-1)), "the most likely token"
    close_by = torch.tensor([[1.0, 1.000001, 0.5]]).expand(50, -1)
    assert (sample(close_by, temperature=0.0) == 1).all(), "at temperature 0 nothing is left to chance"
    # A sum equal to top_p has reached it: one of two tokens is enough.
    halves = torch.tensor([[2.0, 2.0, -torch.inf]]).expand(50, -1)
    assert len(set(sample(halves, top_p=0.5).tolist())) == 1, "one token too many stays"
    # Rows differ, and each has limits of its own.
    rows = torch.tensor([[9.0, 0.0, 8.5, -9.0], [0.0, 7.0, -9.0, 7.5]])
    for limits in ({"top_k": 2}, {"top_p": 0.9}, {}):
        for _ in range(17):
            first, second = sample(rows, **limits).tolist()
            assert first in (0, 2) and second in (1, 3), "the limits of one row were used for another"
    # One generator: the same seed gives the same tokens, and no other source of random numbers is used.
    flat = torch.zeros(50, 20)
    one, other = (sample(flat, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, other), "the same seed gave other tokens"
    source = torch.Generator().manual_seed(3)
    assert not torch.equal(sample(flat, generator=source), sample(flat, generator=source)), "it draws the same twice"
    torch.manual_seed(57)
    wanted = torch.rand(3)
    torch.manual_seed(57)
    sample(flat, generator=source)
    assert torch.equal(torch.rand(3), wanted), "it draws from PyTorch's own generator too"
    torch.manual_seed(57)
    one, two = sample(flat), sample(flat)
    torch.manual_seed(57)
    assert torch.equal(sample(flat), one) and not torch.equal(one, two), "without a generator it is PyTorch's own"
    assert len(set(one.tolist())) > 5, "all rows have the same random number"
