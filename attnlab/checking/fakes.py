"""Fakes that probes use instead of a cache, a model or a function, to see how a student's code uses one.

Each is made for one run and does not answer an exercise: only a probe can make one, while it runs.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from attnlab.checking.schema import Case

_probes_running = 0


@contextlib.contextmanager
def fakes_allowed():
    """While it is entered, fakes can be made."""
    global _probes_running
    _probes_running += 1
    try:
        yield
    finally:
        _probes_running -= 1


def _require_permission() -> None:
    if not _probes_running:
        raise TypeError("attnlab.checking.fakes is a part of the check, and answers no exercise: write your own")


class FixedCache:
    """A cache of a fixed number of tokens. It neither grows nor checks what it is given."""

    def __init__(self, tokens: int):
        _require_permission()
        self.tokens, self.held, self.rows = tokens, 0, None

    def __getattr__(self, name: str):
        raise AttributeError(f"use only append, len and reset of a cache: other caches have no `{name}`")

    def __len__(self) -> int:
        return self.held

    @property
    def heads(self) -> int:
        return 0 if self.rows is None else self.rows[0].shape[1]

    def reset(self) -> None:
        self.held, self.rows = 0, None

    def append(self, k, v):
        """Appends (batch, heads, n, d); returns views of everything stored."""
        if self.rows is None:
            self.rows = [new.new_zeros(*new.shape[:2], self.tokens, new.shape[3]) for new in (k, v)]
        first, self.held = self.held, self.held + k.shape[2]
        for row, new in zip(self.rows, (k, v)):
            row.narrow(2, first, new.shape[2]).copy_(new.detach())
        return self.all()

    def all(self):
        """Views of everything stored; none before the first `append`."""
        return tuple(row.narrow(2, 0, self.held) for row in self.rows or ())


class ScriptedModel(nn.Module):
    """A language model without weights: its logits follow by arithmetic from the ids read so far.

    It reads the past from all caches it is given, so a stale, shared or missing one changes its output. `fed` counts
    the tokens that it was given, call by call.
    """

    blocks: nn.ModuleList

    def __init__(self, vocab_size: int, n_blocks: int):
        _require_permission()
        super().__init__()
        self.vocab_size, self.fed, self.given, self.held = vocab_size, [], [], []
        self.add_module("blocks", nn.ModuleList([nn.Identity()] * n_blocks))
        self.embedding = nn.Embedding(vocab_size, 1)  # for code that reads a model's device or dtype

    def forward(self, ids, caches=None):
        """ids (batch, n) -> logits (batch, n, vocab_size), float32."""
        self.fed.append(ids.shape[1])
        past = ids
        if caches is not None:
            caches = list(caches)
            self.held.append(caches)  # kept alive: two caches must not share an id
            self.given.append([id(cache) for cache in caches])
            row = ids[:, None, :, None].float()
            read = [cache.append(row, row.clone())[0][:, 0, :, 0] for cache in caches]
            past = torch.stack(read).sum(0) / max(1, len(self.blocks))
        past = past.double()
        places = torch.arange(1, past.shape[1] + 1, dtype=torch.float64, device=past.device)
        story = (past * places.sqrt()).cumsum(-1)[:, -ids.shape[1] :]
        tokens = torch.arange(self.vocab_size, dtype=torch.float64, device=past.device)
        return (4 * torch.sin(story[..., None] * (1 + tokens.sqrt()) + tokens)).float()


class TrackedMLP(nn.Module):
    """A model to be trained: linear layers with a tanh between each two. It records its forward and backward passes.

    layers: [weight, bias] of each layer
    happened: "forward" and "backward" in the order in which they came; a probe adds "step"
    modes: whether it was in training mode, for each forward pass
    """

    layers: Any  # a ModuleList of linear layers; the stubs know only that they are modules

    def __init__(self, layers):
        _require_permission()
        super().__init__()
        self.layers, self.happened, self.modes = nn.ModuleList(), [], []
        for weight, bias in layers:
            layer = nn.Linear(*weight.shape[::-1], dtype=weight.dtype)
            with torch.no_grad():
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)
            self.layers.append(layer)

    def forward(self, x):
        """x (batch, width of the first layer) -> (batch, width of the last one)."""
        self.happened.append("forward")
        self.modes.append(self.training)
        for i, layer in enumerate(self.layers):
            x = layer(torch.tanh(x) if i else x)
        if x.requires_grad:
            x.register_hook(lambda gradient: self.happened.append("backward"))
        return x


class TinyModel(nn.Module):
    """A language model without softmax, norms and positions.

    `blocks[i].attention.W_o` reads the results of the block's heads, side by side: a mean over a token and those before
    it, times a factor that depends on the token. `called` counts the calls of each W_o.

    weights: name -> tensor: embedding.weight (vocab_size, d_model), and per block i those of blocks.i.attention.W_v
        and blocks.i.attention.W_o, (d_model, d_model)
    """

    blocks: Any  # a ModuleList; the stubs do not know what its modules hold

    def __init__(self, weights: dict[str, torch.Tensor]):
        _require_permission()
        super().__init__()
        tokens, width = weights["embedding.weight"].shape
        self.embedding = nn.Embedding(tokens, width, dtype=weights["embedding.weight"].dtype)
        self.blocks = nn.ModuleList()
        self.called = [0] * (len(weights) // 2)
        for at in range(len(weights) // 2):
            block, attention = nn.Module(), nn.Module()
            for name in ("W_v", "W_o"):
                layer = nn.Linear(width, width, bias=False, dtype=self.embedding.weight.dtype)
                attention.add_module(name, layer)
                if name == "W_o":
                    layer.register_forward_pre_hook(lambda *_, at=at: self._count(at))
            block.add_module("attention", attention)
            self.blocks.append(block)
        self.load_state_dict(weights)

    def _count(self, at):
        self.called[at] += 1

    def forward(self, ids, caches=None):
        """ids (batch, n) -> logits (batch, n, vocab_size)."""
        stream = self.embedding(ids)
        read = torch.arange(1, ids.shape[1] + 1, dtype=stream.dtype, device=stream.device)[:, None]
        for block in self.blocks:
            found = torch.tanh(block.attention.W_v(stream)).cumsum(dim=1) / read
            stream = stream + block.attention.W_o(found * torch.sigmoid(stream.sum(-1, keepdim=True)))
            stream = stream + torch.tanh(stream)
        return torch.matmul(stream, self.embedding.weight.mT)


# Losses and optimizers by name. Only of the first loss is it all the same which of its inputs comes first.
LOSSES = {
    "mse_loss": F.mse_loss,
    "cross_entropy": F.cross_entropy,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
}
OPTIMIZERS = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}


# Feature maps by name; only the first may be 0. One of them changes the width, and none is linear.
FEATURE_MAPS = {
    "relu(x)": torch.relu,
    "elu(x) + 1": lambda x: F.elu(x) + 1,
    "exp(x)": torch.exp,
    "x * x + 0.1": lambda x: x * x + 0.1,
    "softplus of x and -x, side by side": lambda x: F.softplus(torch.cat([x, -x], dim=-1)),
}


def made_as_described(f, inputs: Case):
    """Make the feature map or the model that a case describes, and return `f` and its inputs with it.

    A case is plain data, and these are not.
    """
    inputs = dict(inputs)
    if "feature_map" in inputs:
        f = functools.partial(f, feature_map=FEATURE_MAPS[inputs.pop("feature_map")])
    if "model" in inputs:
        with fakes_allowed():
            inputs["model"] = TinyModel(inputs["model"])
    return f, inputs
