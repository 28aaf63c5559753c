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


ALTERNATIVES = {
    "scaled_rope_frequencies": [scaled_pair_by_pair, scaled_by_where],
    "LatentAttention": [KeysJoined, Absorbed],
}
