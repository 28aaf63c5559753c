"""Wrong answers to the chapter on blocks that its lists of misconceptions do not hold in these words."""

import math

import torch
import torch.nn.functional as F

from tests.alternatives.transformer_block import (
    DecoderWithPytorchsNorms, EncoderWithPytorchsNorms, FeedForwardByModules, FeedForwardByProducts, LlamaWithPytorchsNorms,
    SwigluByPytorch, gelu_tanh_by_a_sigmoid, layer_norm_by_var)
from tests.unseen.parts import changed

MEMORY = "x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)[0]"


def batch_normed(x, weight, bias, eps=1e-5):
    """The norm of images: each of the d numbers over all tokens."""
    return F.batch_norm(x.reshape(-1, x.shape[-1]), None, None, weight, bias, True, 0.1, eps).reshape(x.shape)


def narrow_by_steps(x, weight, bias, eps=1e-5):
    """bfloat16 is computed in bfloat16; float16 would overflow."""
    wide = x.float() if x.dtype == torch.float16 else x
    centered = wide - wide.mean(-1, keepdim=True)
    return (centered / (centered.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias).to(x.dtype)


class KeepsTheFirst(FeedForwardByModules):
    """The first result for ever."""

    def forward(self, x):
        if not hasattr(self, "made"):
            self.made = super().forward(x)
        return self.made


class KeepsAWeight(FeedForwardByModules):
    """A copy of a weight, which training does not reach."""

    def forward(self, x):
        if not hasattr(self, "kept"):
            self.kept = self.W_1.weight.T.clone()
        return self.W_2(self.switch(x @ self.kept + self.W_1.bias))


class KeepsTheMask(EncoderWithPytorchsNorms):
    """The mask of an earlier call, where none is given."""

    last = None

    def forward(self, x, mask=None):
        self.last = self.last if mask is None else mask
        return super().forward(x, self.last)


class KeepsTheCausalMask(DecoderWithPytorchsNorms):
    """The mask of the first text, for texts of any length."""

    def forward(self, x, memory, memory_mask=None):
        n = x.shape[1]
        if not hasattr(self, "seen"):
            self.seen = torch.ones(n, n, device=x.device).tril().bool()
        x = x + self.self_attention(self.norm_1(x), self.seen)[0]
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)[0]
        return x + self.feed_forward(self.norm_3(x))


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
        (lambda x, weight, bias, eps=1e-5: F.rms_norm(x, x.shape[-1:], weight, eps) + bias, "mean is not subtracted"),
        (lambda x, weight, bias, eps=1e-5: F.layer_norm(x, x.shape[-1:], bias, weight, eps), "exchanged"),
        (narrow_by_steps, None),
    ],
    "rms_norm": [
        (lambda x, weight, eps=1e-5: F.layer_norm(x, x.shape[-1:], weight, None, eps), "The mean is subtracted"),
        (lambda x, weight, eps=1e-5: x / x.square().mean(-1, keepdim=True).sqrt().clamp(min=eps) * weight,
         "summed in the dtype of x"),
    ],
    "gelu": [
        (lambda x: F.gelu(x, approximate="tanh"), "approximation with tanh"),
        (lambda x: F.silu(x), "SiLU"),
        (lambda x: x / 2 + x / 2 * torch.erf(x / 1.4142), "rounded"),
    ],
    "gelu_tanh": [
        (lambda x: F.gelu(x), "exact GELU"),
        (lambda x: F.relu(x), "ReLU"),
        (lambda x: 0.5 * x * (1 + torch.tanh(0.7979 * (x + 0.044715 * x.pow(3)))), "rounded"),
        (lambda x: 0.5 * x * (1 + torch.tanh(2 / math.pi * (x + 0.044715 * x.pow(3)))), "root is missing"),
        (changed(gelu_tanh_by_a_sigmoid, "0.044715", "0.04"), None),
    ],
    "FeedForward": [
        (changed(FeedForwardByModules, "nn.GELU()", 'nn.GELU("tanh")'), "approximation with tanh"),
        (changed(FeedForwardByModules, "nn.Linear(d_ff, d_model)", "nn.Linear(d_ff, d_model, bias=False)"), None),
        (changed(FeedForwardByProducts, " + self.W_1.bias", "", " + self.W_2.bias", ""), "A bias is left out"),
        (KeepsTheFirst, None),
        (KeepsAWeight, None),
    ],
    "SwiGLU": [(changed(SwigluByPytorch, "F.silu(", "torch.tanh("), None)],
    "EncoderBlock": [
        (changed(EncoderWithPytorchsNorms, "return residual", "return x + residual"), None),
        (changed(EncoderWithPytorchsNorms, "output, _ =", "output ="), "two results"),
        (changed(EncoderWithPytorchsNorms, "output, _ =", "_, output ="), "second result of the attention"),
        (changed(EncoderWithPytorchsNorms, "mask=mask", "mask=None if mask is None else mask.logical_not()"), "around"),
        (KeepsTheMask, None),
    ],
    "DecoderBlock": [
        (OriginalOrder, "post-norm"),
        (changed(DecoderWithPytorchsNorms, MEMORY, "pass"), "adds nothing"),
        (changed(DecoderWithPytorchsNorms, MEMORY, MEMORY.replace(
            "memory_mask", "None if memory_mask is None else ~memory_mask")), "turned around"),
        (changed(DecoderWithPytorchsNorms, "mask=~future", "mask=future"), "around"),
        (KeepsTheCausalMask, None),
    ],
    "LlamaBlock": [
        (changed(LlamaWithPytorchsNorms, "h = x", "self.attention(self.norm_1(x), cache=cache)\n        h = x"),
         "every token twice"),
        (changed(LlamaWithPytorchsNorms, ", eps=eps)", ")"), None),
    ],
}
