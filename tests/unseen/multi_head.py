"""Wrong answers to the multi-head chapter that its list of misconceptions does not hold in these words."""

import functools

import torch

from tests.alternatives.multi_head import ByEinsum, parameters_head_by_head
from tests.unseen.parts import changed


def own_error(kind):
    raise kind("my own words")


FILL = 'scores.masked_fill(mask.logical_not(), float("-inf"))'
ADD_LOG = "scores + mask.to(scores.dtype).log()"
layer = functools.partial(changed, ByEinsum)

# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "split_heads": [
        (lambda x, n_heads: x.view(x.shape[0], n_heads, x.shape[1], -1), "cuts the list of tokens"),
        (lambda x, n_heads: x.reshape(*x.shape[:2], -1, n_heads).permute(0, 3, 1, 2), "every n_heads-th number"),
        (lambda x, n_heads: torch.stack(x.chunk(n_heads, -1)), "in front of the batch"),
        (lambda x, n_heads: list(x.chunk(n_heads, -1)), None),
        (lambda x, n_heads: x.permute(0, 2, 1).reshape(len(x), n_heads, x.shape[1], -1), "mixes the tokens"),
        (lambda x, n_heads: x.view(x.shape[1], len(x), n_heads, -1).permute(1, 2, 0, 3), "in front of the batch"),
        (lambda x, n_heads: x.unflatten(-1, (n_heads, -1)).transpose(1, 2) if x.shape[2] % n_heads == 0
         and x.transpose_(0, 1).transpose_(0, 1) is x else own_error(ValueError), "operation in place"),
        (lambda x, n_heads: x.unflatten(-1, (n_heads, -1)).transpose(1, 2).double(), None),
    ],
    "merge_heads": [
        (lambda x: x.reshape(x.shape[0], x.shape[2], -1), "joins the tokens of one head"),
        (lambda x: torch.cat(list(x.unbind(1)), dim=1), "one below the other"),
        (lambda x: x.swapaxes_(1, 2).flatten(2), "operation in place"),
        (lambda x: x.flip(1).transpose(1, 2).flatten(2) if x.ndim == 4 else own_error(ValueError), None),
    ],
    "MultiHeadAttention": [
        (layer(".view(batch, n, self.heads, self.width)", ".view(batch, self.heads, n, self.width).transpose(1, 2)"),
         "a reshape to (batch, n_heads"),
        (layer("reshape(x.shape)), weights", "reshape(x.shape)), weights.sum(1)"), "averaged or added up"),
        (layer("mask.logical_not()", "mask", ".nan_to_num(0.0)", ""), "inverted"),
        (layer("mask.unsqueeze(1)", "mask[None]"), "read as one map per head"),
        (layer('float("-inf")', "-1e6"), "big finite number"),
        (layer('float("-inf")', "-1e20"), "gives all keys equal weights"),
        (layer(FILL, ADD_LOG, ".nan_to_num(0.0)", ""), "gives nan"),
        (layer(FILL, ADD_LOG), "sends nan backwards"),
        (layer("(self.W_q, self.W_k, self.W_v)", "(self.W_q, self.W_v, self.W_k)"), "Keys and values are exchanged"),
        (layer("mask.unsqueeze(1)", "(mask[None] if len(mask) == self.heads else mask[:, None])"), None),
        (layer("F.softmax(scores, dim=-1).nan_to_num(0.0)", "scores.exp() / scores.exp().sum(-1, keepdim=True).clamp("
               "min=1e-300 if scores.dtype == torch.float64 else 1e-30)"), None),
        (layer("reshape(x.shape)), weights", "reshape(x.shape)).detach(), weights"), None),
        (layer("mask.unsqueeze(1)", "mask.unsqueeze_(1)"), "mask is changed"),
        (layer(FILL, f"{FILL}\n            mask |= ~mask.any(-1, keepdim=True)"), "mask is changed"),
    ],
    "attention_parameters": [
        (changed(parameters_head_by_head, "int(bias) * d_model", "0"), None),
        (changed(parameters_head_by_head, "d_head if bias else 0", "int(bias)", "int(bias) * d_model",
         "n_heads * bias"),
         None),
    ],
}
