"""Right answers to the chapter on longer texts and smaller caches, each found in another way than the reference."""

import math

import torch
import torch.nn.functional as F

from solutions import long_context as solutions
from solutions.rope import apply_rope

# scaled_rope_frequencies

def scaled_pair_by_pair(d_head, base, factor, low, high, original_length):
    """A loop over the pairs, in Python's own numbers."""
    found = []
    for i in range(d_head // 2):
        frequency = base ** (-2 * i / d_head)
        wavelength = 2 * math.pi / frequency
        if wavelength < original_length / high:
            found.append(frequency)
        elif wavelength > original_length / low:
            found.append(frequency / factor)
        else:
            kept = (original_length / wavelength - low) / (high - low)
            found.append((1 - kept) * frequency / factor + kept * frequency)
    return torch.tensor(found)


def scaled_by_where(d_head, base, factor, low, high, original_length):
    """As `transformers` does it."""
    plain = 1.0 / base ** (torch.arange(0, d_head, 2).float() / d_head)
    wavelength = 2 * math.pi / plain
    slow, fast = wavelength > original_length / low, wavelength < original_length / high
    scaled = torch.where(slow, plain / factor, plain)
    smooth = (original_length / wavelength - low) / (high - low)
    return torch.where(~slow & ~fast, (1 - smooth) * scaled / factor + smooth * scaled, scaled)


# LatentAttention

class _LatentMaps(solutions.LatentAttention):
    """The reference's maps and norm."""

    def read(self, x, cache):
        """Both parts of the queries, and the latents and rotated keys of all tokens so far."""
        first = 0 if cache is None else len(cache)
        where = torch.arange(first, first + x.shape[1], device=x.device)
        q = self.W_q(x).unflatten(-1, (self.n_heads, self.d_head + self.d_rope)).transpose(1, 2)
        plain, turned = q[..., :self.d_head], apply_rope(q[..., self.d_head:], where, self.base)
        latent, key = self.norm(self.W_down(x)), apply_rope(self.W_k_rope(x), where, self.base)
        latent, key = latent.unsqueeze(1), key.unsqueeze(1)
        return plain, turned, *((latent, key) if cache is None else cache.append(latent, key)), first


class KeysJoined(_LatentMaps):
    """Each head gets whole keys, the shared part joined to its own, for PyTorch's fused attention."""

    def forward(self, x, cache=None):
        plain, turned, latent, key, first = self.read(x, cache)
        k, v = (W(latent[:, 0]).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for W in (self.W_up_k, self.W_up_v))
        q, k = torch.cat([plain, turned], -1), torch.cat([k, key.expand(-1, self.n_heads, -1, -1)], -1)
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(first)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=(self.d_head + self.d_rope) ** -0.5)
        return self.W_o(out.transpose(1, 2).flatten(2))


class Absorbed(_LatentMaps):
    """No key and no value is ever made: the matrices move over to the query and to the average of the latents."""

    def forward(self, x, cache=None):
        plain, turned, latent, key, first = self.read(x, cache)
        up_k, up_v = (W.weight.unflatten(0, (self.n_heads, self.d_head)) for W in (self.W_up_k, self.W_up_v))
        scores = torch.einsum("bhid,hdc,bjc->bhij", plain, up_k, latent[:, 0])
        scores = scores + torch.einsum("bhir,bjr->bhij", turned, key[:, 0])
        places = torch.arange(latent.shape[2], device=x.device)
        scores = scores.masked_fill(places > places[first:, None], -torch.inf) / math.sqrt(self.d_head + self.d_rope)
        mixed = torch.einsum("bhij,bjc->bhic", scores.softmax(-1), latent[:, 0])
        return self.W_o(torch.einsum("bhic,hdc->bihd", mixed, up_v).flatten(2))


# index_scores

def index_by_einsum(q, k, weights):
    return torch.einsum("bhij,bih->bij", torch.einsum("bhid,bjd->bhij", q, k).clamp(min=0), weights)


def index_head_by_head(q, k, weights):
    """A running sum over heads."""
    total = q.new_zeros(q.shape[0], q.shape[2], k.shape[1])
    for h in range(q.shape[1]):
        total = total + weights[:, :, h, None] * F.relu(torch.bmm(q[:, h], k.transpose(1, 2)))
    return total


def index_as_a_product(q, k, weights):
    """As `transformers` does it: for each query, its row of weights times a matrix of heads and keys."""
    products = torch.matmul(q.transpose(1, 2), k.transpose(1, 2).unsqueeze(1))
    return (weights.unsqueeze(-2) @ torch.where(products > 0, products, 0)).squeeze(-2)


# top_k_attention

def top_k_by_fused_attention(Q, K, V, scores, top_k):
    """A mask for each query, and PyTorch's fused attention; an identity in place of V shows its weights."""
    n_q, n_k = scores.shape[-2:]
    later = torch.arange(n_k, device=Q.device) > torch.arange(n_k - n_q, n_k, device=Q.device)[:, None]
    hidden = torch.where(later, -torch.inf, scores.detach().double())
    ranks = hidden.argsort(-1, descending=True).argsort(-1)
    seen = ((ranks < top_k) & ~later)[:, None]
    empty = ~seen.any(-1, keepdim=True)
    weights = F.scaled_dot_product_attention(Q, K, torch.eye(n_k, dtype=Q.dtype, device=Q.device).expand(
        *Q.shape[:2], n_k, n_k), attn_mask=seen | empty)
    weights = torch.where(empty, 0, weights)
    return weights @ V, weights


def top_k_by_gathering(Q, K, V, scores, top_k):
    """Only the chosen keys and values are read, as a fast program does it; each query has its own list."""
    n_q, n_k = scores.shape[-2:]
    readable = torch.ones(n_q, n_k, dtype=torch.bool, device=Q.device).tril(n_k - n_q)
    best = scores.detach().masked_fill(~readable, -torch.inf).topk(min(top_k, n_k), -1).indices
    allowed = readable.expand_as(scores).gather(-1, best)[:, None]
    index = best[:, None].expand(-1, Q.shape[1], -1, -1)

    def picked(x):
        rows = x[:, :, None].expand(-1, -1, n_q, -1, -1)
        return rows.gather(3, index[..., None].expand(-1, -1, -1, -1, x.shape[-1]))

    own = (Q[..., None, :] * picked(K)).sum(-1) / Q.shape[-1] ** 0.5
    top = own.masked_fill(~allowed, -1e30).amax(-1, keepdim=True)
    powers = torch.where(allowed, own - top, -torch.inf).exp()
    total = powers.sum(-1, keepdim=True)
    shares = powers / torch.where(total > 0, total, 1)
    output = (shares[..., None] * picked(V)).sum(-2)
    return output, torch.zeros(*Q.shape[:3], n_k, dtype=Q.dtype, device=Q.device).scatter(-1, index, shares)


def top_k_query_by_query(Q, K, V, scores, top_k):
    """A loop over queries: each sorts the keys that it may read, and attends to the first few."""
    n_q, n_k = scores.shape[-2:]
    weights = torch.zeros(*Q.shape[:3], n_k, dtype=Q.dtype, device=Q.device)
    for i in range(n_q):
        end = i + 1 + n_k - n_q
        if end <= 0:
            continue
        order = scores[:, i, :end].argsort(-1, descending=True)[:, :top_k]
        lists = order[:, None].expand(-1, Q.shape[1], -1)
        own = (Q[:, :, i, None] @ K.mT)[:, :, 0].gather(-1, lists) / math.sqrt(Q.shape[-1])
        rows = torch.zeros_like(weights[:, :, i]).scatter(-1, lists, torch.softmax(own, -1))
        weights = torch.cat([weights[:, :, :i], rows[:, :, None], weights[:, :, i + 1:]], dim=2)
    return weights @ V, weights


ALTERNATIVES = {
    "scaled_rope_frequencies": [scaled_pair_by_pair, scaled_by_where],
    "LatentAttention": [KeysJoined, Absorbed],
    "index_scores": [index_by_einsum, index_head_by_head, index_as_a_product],
    "top_k_attention": [top_k_by_fused_attention, top_k_by_gathering, top_k_query_by_query],
}
