"""Observe a language model of the course while it reads: its heads' weights, and its prediction after each layer.

The model is yours: nothing of it is computed here a second time. Its matrix products are listened to, and where rows
that sum to one meet the values, those rows are a layer's weights. What each layer would say comes from the model's own
last lines, which are given the results of all layers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

LONGEST = 256  # tokens of a text
PRODUCTS = {"matmul", "__matmul__", "__rmatmul__", "bmm", "einsum"}
NEXT = 10  # words that are told


class _Products(TorchFunctionMode):
    """Calls `found(weights)` with what looks like attention weights, (heads, n, n), when they meet another matrix."""

    def __init__(self, n: int, found: Callable):
        super().__init__()
        self.n, self.found = n, found

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in PRODUCTS:
            for one in args:
                if isinstance(one, torch.Tensor) and one.ndim > 2 and one.shape[-2:] == (self.n, self.n):
                    rows = one.detach().double()
                    if (rows >= 0).all() and (rows.sum(-1) - 1).abs().max() < 1e-3:
                        self.found(rows.reshape(-1, self.n, self.n))
        return func(*args, **(kwargs or {}))


@contextmanager
def listening(model: nn.Module, said: Callable) -> Iterator[None]:
    """While this lasts, `said(ids)` is called with all new ids whenever `generate` gives the newest to the model."""
    new: list[int] | None = None

    def on_call(_, arguments, keywords):
        nonlocal new
        ids = arguments[0] if arguments else next(iter(keywords.values()))
        if new is None:  # the first call reads the text
            new = []
        else:
            new.append(int(ids[0, -1]))
            said(new)

    hook = model.register_forward_pre_hook(on_call, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


class Reader:
    """Reads a text with a model, and tells what happens, in the words that the widget `LiveModel` understands.

    model: a LanguageModel by the contract, in one part; generate: as in the chapter language_model
    tokenizer: what has `encode(text)` and `decode(ids)`
    tell: called as tell(message, arrays), with a dict and a list of float32 arrays
    """

    def __init__(self, model: nn.Module, generate: Callable, tokenizer, tell: Callable):
        self.model, self.generate, self.tokenizer, self.tell = model, generate, tokenizer, tell
        self.ids: list[int] = []
        self.off: set[tuple[int, int]] = set()
        self.whole: torch.Tensor | None = None  # next probabilities of the model with all heads, (vocab_size,)

    def ask(self, question: dict) -> None:
        """Answer one of {"read": text}, {"head": [layer, head, how]}, {"write": n, ...}; a failure is told, too."""
        try:
            if "read" in question:
                self.read(question["read"])
            elif "head" in question:
                layer, head, how = question["head"]
                (self.off.add if how else self.off.discard)((layer, head))
                self.look()
            elif "write" in question:
                self.write(question["write"], question["temperature"], question["seed"])
            else:
                raise ValueError(f"nothing is known of {', '.join(question)}")
            self.tell({"ready": True, "kept": True, "simd": True}, [])
        except Exception as error:  # the student's own code runs in here
            self.tell({"error": f"{type(error).__name__}: {error}"}, [])

    def read(self, text: str) -> None:
        ids = self.tokenizer.encode(text)
        if not 0 < len(ids) <= LONGEST:
            raise ValueError(f"the text has {len(ids)} tokens, and may have 1 to {LONGEST}")
        self.ids, self.whole = ids, None
        self.tell({"tokens": [self.tokenizer.decode([i]) for i in ids], "ids": ids}, [])
        self.look()

    def look(self) -> None:
        """Read the text once, and tell of each layer, then of the next token."""
        shares = self._shares()
        now = shares[-1]
        if not self.off:
            self.whole = now
        whole = now if self.whole is None else self.whole
        likeliest = dict.fromkeys(i for row in (now, whole) for i in row.topk(NEXT).indices.tolist())

        def said(i):
            return self.tokenizer.decode([int(i)])

        self.tell(
            {
                "next": [[said(i), now[i].item(), whole[i].item()] for i in likeliest],
                "lens": [[said(row.argmax()), row.max().item()] for row in shares],
            },
            [],
        )

    def write(self, n: int, temperature: float, seed: int) -> None:
        """Let `generate` write on, and tell the text after each token."""
        given = len(self.ids)
        generator = torch.Generator().manual_seed(int(seed))

        def said(new):
            self.tell({"text": self.tokenizer.decode(new), "ids": new}, [])

        with listening(self.model, said), self._switches():
            written = self.generate(
                self.model, torch.tensor([self.ids]), int(n), temperature=temperature, generator=generator
            )
        self.ids, self.whole = written[0].tolist(), None
        self.tell({"text": self.tokenizer.decode(self.ids[given:]), "ids": self.ids[given:]}, [])
        self.tell({"pieces": [self.tokenizer.decode([i]) for i in self.ids]}, [])
        self.look()

    @contextmanager
    def _switches(self) -> Iterator[None]:
        """While this lasts, the heads that are off hand zeros to W_o."""
        with ExitStack() as ends:
            for layer in {layer for layer, _ in self.off}:
                heads = [head for at, head in self.off if at == layer]
                part = self.model.blocks[layer].attention

                def silence(module, inputs, heads=heads, n_heads=part.n_heads):
                    width = inputs[0].shape[-1] // n_heads
                    kept = inputs[0].clone()
                    for head in heads:
                        kept[..., head * width : (head + 1) * width] = 0
                    return (kept, *inputs[1:])

                ends.callback(part.W_o.register_forward_pre_hook(silence).remove)
            yield

    def _shares(self) -> torch.Tensor:
        """Next-token probabilities after the embedding and after each layer, (layers + 1, vocab_size)."""
        depths, seen = [], []

        def after(layer):
            def hook(module, inputs, output):
                if not layer:
                    depths.append(inputs[0][:, -1:])
                depths.append(output[:, -1:])
                maps = seen[-1].float().numpy() if seen else None
                seen.clear()
                self.tell({"layer": layer}, [] if maps is None else [maps])

            return hook

        with ExitStack() as ends:
            for layer, block in enumerate(self.model.blocks):
                ends.callback(block.register_forward_hook(after(layer)).remove)
            # The last norm is given all depths instead of the last one alone: what follows is the model's own.
            ends.callback(self.model.norm.register_forward_pre_hook(lambda *_: (torch.cat(depths, dim=1),)).remove)
            with torch.no_grad(), self._switches(), _Products(len(self.ids), seen.append):
                logits = self.model(torch.tensor([self.ids]))
        return logits[0].double().softmax(dim=-1)
