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
