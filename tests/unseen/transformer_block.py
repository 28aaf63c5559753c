"""Wrong answers to the chapter on blocks that its lists of misconceptions do not hold in these words."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from solutions import transformer_block as right


def widths(f):
    """A norm that refuses what does not fit, and else is `f`."""
    def checked(x, weight, *rest, **named):
        if weight.shape != x.shape[-1:] or any(r.shape != weight.shape for r in rest[:1] if torch.is_tensor(r)) or (
                torch.is_tensor(named.get("bias")) and named["bias"].shape != weight.shape):
            raise ValueError("my own words")
        return f(x, weight, *rest, **named)
    return checked


def numpy_habit(x, weight, bias, eps=1e-5):
    """As on paper, with torch's std in place of NumPy's."""
    mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return weight * (x - mean) / (std + eps) + bias


def bessel(x, weight, bias, eps=1e-5):
    left = x - x.mean(-1, keepdim=True)
    return left * ((left ** 2).sum(-1, keepdim=True) / (x.shape[-1] - 1) + eps) ** -0.5 * weight + bias


def two_epsilons(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, 2 * eps)


def rms_clamped(x, weight, eps=1e-5):
    return x / x.square().mean(-1, keepdim=True).sqrt().clamp(min=eps) * weight


def with_forward(base, forward, **others):
    return type(base.__name__, (base,), {"forward": forward, **others})


def doubled(self, x, mask=None):
    x = x + self.attention(self.norm_1(x), mask)[0]
    return 2 * x + self.feed_forward(self.norm_2(x))


def original_order(self, x, memory, memory_mask=None):
    """The paper of 2017: add, then norm."""
    n = x.shape[1]
    x = F.layer_norm(x + self.self_attention(x, torch.ones(n, n).tril().bool())[0], x.shape[-1:], self.norm_1.weight,
                     self.norm_1.bias)
    x = self.norm_2(x + self.cross_attention(x, memory, memory_mask)[0])
    return self.norm_3(self.feed_forward(x) + x)


def memory_ignored(self, x, memory, memory_mask=None):
    n = x.shape[1]
    x = x + self.self_attention(self.norm_1(x), torch.ones(n, n).tril().bool())[0]
    return x + self.feed_forward(self.norm_3(x))


def batch_normed(x, weight, bias, eps=1e-5):
    """What images are normed with: each of the d numbers over all tokens."""
    return F.batch_norm(x.reshape(-1, x.shape[-1]), None, None, weight, bias, True, 0.1, eps).reshape(x.shape)


def padding_inverted(self, x, memory, memory_mask=None):
    """PyTorch's own layers want True for padding."""
    return right.DecoderBlock.forward(self, x, memory, None if memory_mask is None else ~memory_mask)


def read_twice(self, x, cache=None):
    right.LlamaBlock.forward(self, x, cache)
    return right.LlamaBlock.forward(self, x, cache)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "layer_norm": [
        (widths(numpy_habit), "two slips"),
        (widths(bessel), "unbiased"),
        (widths(two_epsilons), None),
        (widths(batch_normed), "run over the tokens"),
    ],
    "rms_norm": [
        (widths(rms_clamped), None),
        (widths(lambda x, weight, eps=1e-5: F.layer_norm(x, x.shape[-1:], weight, None, eps)),
                  "The mean is subtracted"),
    ],
    "gelu": [
        (lambda x: F.gelu(x, approximate="tanh"), "approximation with tanh"),
        (lambda x: F.silu(x), "SiLU"),
        (lambda x: x * torch.sigmoid(1.6 * x), None),
    ],
    "gelu_tanh": [
        (lambda x: F.gelu(x), "exact GELU"),
        (lambda x: F.relu(x), "ReLU"),
        (lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.04 * x ** 3))), None),
    ],
    "FeedForward": [
        (with_forward(right.FeedForward, lambda self, x: self.W_2(F.gelu(self.W_1(x), approximate="tanh"))),
                     "approximation with tanh"),
    ],
    "EncoderBlock": [
        (with_forward(right.EncoderBlock, doubled), None),
    ],
    "DecoderBlock": [
        (with_forward(right.DecoderBlock, original_order), "post-norm"),
        (with_forward(right.DecoderBlock, memory_ignored), "adds nothing"),
        (with_forward(right.DecoderBlock, padding_inverted), None),
    ],
    "LlamaBlock": [
        (with_forward(right.LlamaBlock, read_twice), None),
    ],
}
