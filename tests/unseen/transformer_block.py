"""Wrong answers to the chapter on blocks that its lists of misconceptions do not hold in these words."""

import math

import torch
import torch.nn.functional as F

from tests.alternatives.transformer_block import (
    DecoderWithPytorchsNorms, EncoderWithPytorchsNorms, FeedForwardByModules, FeedForwardByProducts, LlamaWithPytorchsNorms,
    SwigluByPytorch, gelu_tanh_by_a_sigmoid, layer_norm_by_var, layer_norm_in_single, rms_norm_as_llama_does,
    rms_norm_by_einsum)
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


def norm_of_a_copy_called_x(x, weight, bias, eps=1e-5):
    """The dtype in which x came is forgotten."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    return layer_norm_in_single(x, weight, bias, eps)


def norm_of_a_table(x, weight, eps=1e-5):
    """One token alone has no axis of tokens."""
    squares = torch.stack([x.double()[..., i, :].square().mean(-1) for i in range(x.shape[-2])], -1)
    return (x.double() * weight / torch.sqrt(squares[..., None] + eps)).to(x.dtype)


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
        (norm_of_a_copy_called_x, "wide copy is called x"),
        (changed(layer_norm_in_single, "(single / root * weight.float() + bias.float()).to(x.dtype)",
                 "(single / root).to(x.dtype) * weight + bias"), None),
    ],
    "rms_norm": [
        (lambda x, weight, eps=1e-5: F.layer_norm(x, x.shape[-1:], weight, None, eps), "The mean is subtracted"),
        (lambda x, weight, eps=1e-5: x / x.square().mean(-1, keepdim=True).sqrt().clamp(min=eps) * weight,
         "summed in the dtype of x"),
        (norm_of_a_table, None),
        (changed(rms_norm_as_llama_does, "torch.rsqrt(single.pow(2).mean(-1, keepdim=True) + eps)",
                 "(torch.rsqrt(single.pow(2).mean(-1, keepdim=True)) + eps)"), "one over the root"),
        (changed(rms_norm_by_einsum, ".to(x.dtype)", ".float()"), None),
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
        (changed(gelu_tanh_by_a_sigmoid, "sigmoid(2 * ", "sigmoid("), "sigmoid of 2u"),
        (changed(gelu_tanh_by_a_sigmoid, "(2 / torch.pi) ** 0.5", "2 ** 0.5 / torch.pi"), "root is taken of 2 alone"),
    ],
    "FeedForward": [
        (changed(FeedForwardByModules, "nn.GELU()", 'nn.GELU("tanh")'), "approximation with tanh"),
        (changed(FeedForwardByModules, "nn.Linear(d_ff, d_model)", "nn.Linear(d_ff, d_model, bias=False)"), None),
        (changed(FeedForwardByProducts, " + self.W_1.bias", "", " + self.W_2.bias", ""), "A bias is left out"),
        (changed(FeedForwardByProducts, "self.W_1.weight.T", "self.W_1.weight.view(self.W_1.in_features, -1)"),
         "reshaped"),
        (changed(FeedForwardByModules, "self.W_1(x)", "self.W_1(x) + self.W_1.bias"), "A bias is added twice"),
        (changed(FeedForwardByModules, "self.W_2(self", "self.W_2.bias + self.W_2(self"), "A bias is added twice"),
        (changed(FeedForwardByModules, "self.switch(self.W_1(x))", "F.dropout(self.switch(self.W_1(x)), 0.3)"), None),
        (KeepsTheFirst, None),
        (KeepsAWeight, None),
    ],
    "SwiGLU": [
        (changed(SwigluByPytorch, "F.silu(", "torch.tanh("), None),
        (changed(SwigluByPytorch, "F.silu(self.W_gate(x))",
                 "self.W_gate(x) * self.W_gate(x).exp() / (self.W_gate(x).exp() + 1)"), "exponential of a large number"),
        (changed(SwigluByPytorch, "F.silu(self.W_gate(x))", "F.silu(F.silu(self.W_gate(x)))"), "applied twice"),
        (changed(SwigluByPytorch, "F.silu(self.W_gate(x))", "F.silu(self.W_gate(x)) * self.W_gate(x).sigmoid()"),
         "applied twice"),
        (changed(SwigluByPytorch, "return self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))",
                 "both = torch.stack((self.W_gate(x), self.W_up(x)), -1).flatten(-2).tensor_split(2, -1)\n"
                 "        return self.W_down(F.silu(both[0]) * both[1])"), "mixed before they are taken apart"),
    ],
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
        (changed(DecoderWithPytorchsNorms, "x = x + self.self_attention", "y, x = x, x + self.self_attention", "norm_2(x)",
                 "norm_2(y)"), "as it was before the self-attention"),
        (changed(DecoderWithPytorchsNorms, "x = x + self.cross_attention", "y, x = x, x + self.cross_attention",
                 "norm_3(x)", "norm_3(y)"), "as it was before the cross-attention"),
        (changed(DecoderWithPytorchsNorms, "x = x + self.cross_attention", "y, x = x, x + self.cross_attention",
                 "x = x + self.feed_forward", "x = y + self.feed_forward"), "from an earlier stream"),
    ],
    "LlamaBlock": [
        (changed(LlamaWithPytorchsNorms, "h = x", "self.attention(self.norm_1(x), cache=cache)\n        h = x"),
         "every token twice"),
        (changed(LlamaWithPytorchsNorms, ", eps=eps)", ")"), None),
        (changed(LlamaWithPytorchsNorms, "self.norm_1(x)", "F.rms_norm(x, x.shape[-1:], self.norm_1.weight, 1e-5)",
                 "self.norm_2(h)", "F.rms_norm(h, h.shape[-1:], self.norm_2.weight, 1e-5)"), "does not reach the norms"),
        (changed(LlamaWithPytorchsNorms, "h = x", "if cache is not None:\n            cache.reset()\n        h = x"),
         "empties the cache"),
        (changed(LlamaWithPytorchsNorms, "cache=cache)", "cache=__import__('copy').deepcopy(cache))"), "a copy of it"),
    ],
}
