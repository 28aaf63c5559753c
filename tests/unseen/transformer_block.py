"""Wrong answers to the chapter on blocks that its lists of misconceptions do not hold in these words."""

import torch
import torch.nn.functional as F

from tests.alternatives.transformer_block import (
    DecoderWithPytorchsNorms, EncoderWithPytorchsNorms, FeedForwardByModules, LlamaWithPytorchsNorms,
    SwigluByPytorch, gelu_tanh_by_a_sigmoid, layer_norm_by_var)
from tests.unseen.parts import changed

MEMORY = "x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)[0]"


def batch_normed(x, weight, bias, eps=1e-5):
    """The norm of images: each of the d numbers over all tokens."""
    return F.batch_norm(x.reshape(-1, x.shape[-1]), None, None, weight, bias, True, 0.1, eps).reshape(x.shape)


class OriginalOrder(DecoderWithPytorchsNorms):
    """The paper of 2017: add, then norm."""

    def forward(self, x, memory, memory_mask=None):
        n = x.shape[1]
        x = self.norm_1(x + self.self_attention(x, torch.ones(n, n).tril().bool())[0])
        x = self.norm_2(x + self.cross_attention(x, memory, memory_mask)[0])
        return self.norm_3(self.feed_forward(x) + x)


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "layer_norm": [
        (changed(layer_norm_by_var, "correction=0, ", "", "(variance + eps) ** 0.5", "(variance ** 0.5 + eps)"),
         "two slips"),
        (changed(layer_norm_by_var, "correction=0, ", ""), "unbiased"),
        (batch_normed, "run over the tokens"),
        (lambda x, weight, bias, eps=1e-5: F.layer_norm(x, x.shape[-1:], weight, bias, 2 * eps), None),
    ],
    "rms_norm": [
        (lambda x, weight, eps=1e-5: F.layer_norm(x, x.shape[-1:], weight, None, eps), "The mean is subtracted"),
        (lambda x, weight, eps=1e-5: x / x.square().mean(-1, keepdim=True).sqrt().clamp(min=eps) * weight, None),
    ],
    "gelu": [
        (lambda x: F.gelu(x, approximate="tanh"), "approximation with tanh"),
        (lambda x: F.silu(x), "SiLU"),
    ],
    "gelu_tanh": [
        (lambda x: F.gelu(x), "exact GELU"),
        (lambda x: F.relu(x), "ReLU"),
        (changed(gelu_tanh_by_a_sigmoid, "0.044715", "0.04"), None),
    ],
    "FeedForward": [
        (changed(FeedForwardByModules, "nn.GELU()", 'nn.GELU("tanh")'), "approximation with tanh"),
        (changed(FeedForwardByModules, "nn.Linear(d_ff, d_model)", "nn.Linear(d_ff, d_model, bias=False)"), None),
    ],
    "SwiGLU": [(changed(SwigluByPytorch, "F.silu(", "torch.tanh("), None)],
    "EncoderBlock": [
        (changed(EncoderWithPytorchsNorms, "return residual", "return x + residual"), None),
        (changed(EncoderWithPytorchsNorms, "output, _ =", "output ="), None),
    ],
    "DecoderBlock": [
        (OriginalOrder, "post-norm"),
        (changed(DecoderWithPytorchsNorms, MEMORY, "pass"), "adds nothing"),
        (changed(DecoderWithPytorchsNorms, MEMORY, MEMORY.replace(
            "memory_mask", "None if memory_mask is None else ~memory_mask")), None),
    ],
    "LlamaBlock": [
        (changed(LlamaWithPytorchsNorms, "h = x", "self.attention(self.norm_1(x), cache=cache)\n        h = x"), None),
        (changed(LlamaWithPytorchsNorms, ", eps=eps)", ")"), None),
    ],
}
