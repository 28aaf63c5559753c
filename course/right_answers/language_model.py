"""Right answers of the chapter language_model, for its hunt. RIGHT says by what each differs from the reference."""

import torch
import torch.nn.functional as F


def sample_by_filling(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    """As it is often written: what is out gets minus infinity, and one softmax at the end shares out."""
    if temperature == 0:
        return torch.argmax(logits, dim=-1)
    logits = logits / temperature
    if top_k is not None:
        smallest = torch.topk(logits, min(top_k, logits.size(-1))).values[..., -1, None]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    if top_p is not None:
        ordered, places = torch.sort(logits, descending=True)
        out = F.softmax(ordered, dim=-1).cumsum(-1) >= top_p
        out[..., 1:] = out[..., :-1].clone()
        out[..., 0] = False
        logits = logits.masked_fill(torch.zeros_like(out).scatter(-1, places, out), float("-inf"))
    flat = F.softmax(logits, dim=-1).flatten(0, -2) if logits.dim() > 1 else F.softmax(logits, dim=-1)[None]
    return torch.multinomial(flat, num_samples=1, generator=generator).view(logits.shape[:-1])


def sample_by_gumbel(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    """The largest of logits plus Gumbel noise is a draw from their softmax; limits by rank, in double precision."""
    if temperature == 0:
        return logits.max(-1).indices
    scaled = logits.double() / temperature
    order = scaled.argsort(dim=-1, descending=True)
    scaled = scaled.gather(-1, order)
    stays = torch.ones_like(scaled, dtype=torch.bool)
    if top_k is not None:
        stays &= torch.arange(scaled.shape[-1], device=logits.device) < top_k
    if top_p is not None:
        shares = scaled.masked_fill(~stays, -torch.inf).softmax(-1)
        upto = shares.cumsum(-1)
        stays &= torch.cat([torch.zeros_like(upto[..., :1]), upto[..., :-1]], dim=-1) < top_p
    noise = torch.rand(scaled.shape, generator=generator, dtype=torch.float64, device=logits.device)
    noisy = (scaled - (-noise.log()).log()).masked_fill(~stays, -torch.inf)
    return order.gather(-1, noisy.argmax(-1, keepdim=True)).squeeze(-1)


def sample_by_steps_on_a_line(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Shares laid end to end, and one number from 0 to their total for each row; in a list of rows."""
    if temperature < 0:
        raise ValueError("below zero")
    if top_k is not None and top_k < 1 or top_p is not None and not 0.0 < top_p <= 1.0:
        raise ValueError("nothing left")
    rows = logits.reshape(-1, logits.shape[-1])
    if temperature == 0:
        return rows.argmax(1).reshape(logits.shape[:-1])
    shares = ((rows - rows.max(1, keepdim=True).values) / temperature).double().exp()
    best = shares.sort(1, descending=True)
    kept = best.values.clone()
    if top_k is not None:
        kept[:, top_k:] = 0
    if top_p is not None:
        total = kept.sum(1, keepdim=True)
        reached = (kept.cumsum(1) - kept) >= top_p * total
        kept[reached] = 0
    line = kept.cumsum(1)
    point = line.new_empty(len(rows), 1).uniform_(generator=generator) * line[:, -1:]
    place = torch.searchsorted(line, point, right=True).clamp(max=rows.shape[1] - 1)
    return best.indices.gather(1, place).reshape(logits.shape[:-1])


def sample_among_the_largest(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Only the largest logits are looked at; a token leaves if those above it have reached top_p."""
    if temperature == 0:
        return logits.topk(1).indices.squeeze(-1)
    size = logits.shape[-1]
    largest, tokens = logits.double().topk(size if top_k is None else min(top_k, size))
    shares = ((largest - largest[..., :1]) / temperature).softmax(-1)
    if top_p is not None:
        above = torch.nn.functional.pad(shares.cumsum(-1)[..., :-1], (1, 0))
        shares = shares * (above < top_p)
    drawn = torch.multinomial(shares.reshape(-1, shares.shape[-1]), 1, generator=generator)
    return tokens.reshape(-1, tokens.shape[-1]).gather(1, drawn).reshape(logits.shape[:-1])


def sample_by_quantiles(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Counts for each row how many cumulated shares are below one random number; tokens stay in their sequence."""
    if temperature < 0:
        raise ValueError("a temperature below 0")
    if temperature == 0:
        return logits.argmax(-1)
    scaled = (logits.double() - logits.double().amax(-1, keepdim=True)) / temperature
    rank = scaled.argsort(-1, descending=True).argsort(-1)
    powers = scaled.exp()
    if top_k is not None:
        powers = torch.where(rank < top_k, powers, 0.0)
    if top_p is not None:
        shares = powers / powers.sum(-1, keepdim=True)
        above = ((rank[..., None, :] < rank[..., :, None]) * shares[..., None, :]).sum(-1)
        powers = torch.where(above < top_p, powers, 0.0)
    line = powers.cumsum(-1)
    point = torch.rand(line[..., :1].shape, generator=generator, dtype=torch.float64) * line[..., -1:]
    return (line <= point).sum(-1)


RIGHT = {
    "fills what is out with minus infinity": sample_by_filling,
    "takes the largest of logits plus Gumbel noise": sample_by_gumbel,
    "looks up one random number on a line of shares": sample_by_steps_on_a_line,
    "looks at the largest logits alone": sample_among_the_largest,
    "keeps the tokens in their own sequence": sample_by_quantiles,
}
