"""From logits to one token: temperature, top-k and top-p on a vocabulary, and draws from what they leave."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

HOTTEST = 5.0
LARGEST = 1e4  # size of a logit
MOST_TOKENS = 200_000
NAMED = 1000  # most likely tokens whose names are sent; the others are shown by their rank
SHOWN = 12  # most likely tokens with a row of their own
MOST_DRAWS = 10_000
MOST_SEED = 2**32 - 1


class SamplingExplorer(CourseWidget):
    """The most likely next tokens, three ways to change what is drawn, and draws.

    What to try, and what it shows:

    - the temperature: divides the logits before the softmax. Below 1 the most likely token gets more, above 1 the
      unlikely ones do; at 0 the most likely token gets everything, and every draw is the same;
    - top-k: keeps a fixed number of tokens, whether the model is sure or not;
    - top-p: goes down the list and stops at the token with which the sum reaches p. That token stays. How many are
      kept depends on how sure the model is;
    - what is left is divided by its sum, so that it adds up to 1 again: cutting the tail raises everything else;
    - a sentence: where it is known how a sentence goes on after a token, each draw writes one;
    - draw: each draw uses the next number of a seeded generator, so the same seed gives the same tokens. After many
      draws the shares of the tally come close to the probabilities.

    The order is temperature, then top-k, then top-p over what is left, as in the exercise `sample`.

    tokens: one string for each logit. A leading space belongs to the token and counts when it follows the prompt.
    logits: (vocab_size,) finite numbers of size at most 10,000, 2 to 200,000 of them; a list, an array or a tensor.
    prompt: the text before the token.
    temperature: 0 to 5.
    top_k: tokens kept, 1 or more; None keeps all.
    top_p: above 0 and at most 1; 1 or None keeps all.
    seed: whole number from 0 to 2**32 - 1.
    continuations: how the sentence goes on after a token, a dict; a token that is missing ends it.
    Tokens and logits that do not fit raise ValueError, a setting out of range `TraitError`. Assigning to a setting
    changes the widget and clears the tally. `put` brings another prompt.

    The logits are sent once, as bytes, the largest first: float32, little-endian, 4 bytes per token. A whole vocabulary
    of 50,000 adds 200 KB to a page; the thousand most likely tokens add 4 KB.
    """

    _esm = module("sampling_explorer", "weights", "fields", "random")
    _css = style("sampling_explorer")

    data = traitlets.Bytes(help="logits, largest first, float32, little-endian").tag(sync=True)
    vocab_size = traitlets.Int(0, help="how many logits").tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode(), help="the most likely tokens, in the order of data").tag(sync=True)
    continuations = traitlets.List(traitlets.Unicode(), help="what follows the tokens").tag(sync=True)
    prompt = traitlets.Unicode("", help="text before the token").tag(sync=True)
    temperature = traitlets.CFloat(1.0, help="logits are divided by it; 0: the largest is taken").tag(sync=True)
    top_k = traitlets.Int(None, allow_none=True, help="tokens kept; None: all").tag(sync=True)
    top_p = traitlets.CFloat(1.0, help="sum of probability at which no more are kept; 1: all").tag(sync=True)
    seed = traitlets.Int(0, help="of the generator that draws").tag(sync=True)
    drawn = traitlets.Int(0, help="draws so far").tag(sync=True)

    def __init__(
        self, tokens, logits, prompt="", temperature=1.0, top_k=None, top_p=None, seed=0, continuations=None, **kwargs
    ):
        top_k, seed = (int(n) if isinstance(n, np.integer) else n for n in (top_k, seed))
        super().__init__(
            temperature=temperature, top_k=top_k, top_p=1.0 if top_p is None else top_p, seed=seed, **kwargs
        )
        self.put(tokens, logits, prompt, continuations)
        self.observe(self._clear, ["temperature", "top_k", "top_p", "seed", "data"])

    @property
    def logits(self):
        """The logits as sent, (vocab_size,), the largest first."""
        return np.frombuffer(self.data, dtype="<f4")

    def put(self, tokens, logits, prompt="", continuations=None):
        """Replace tokens, logits, prompt and what follows; sizes may change. Raises ValueError when they do not fit."""
        try:
            numbers = np.asarray(logits, dtype=float)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise ValueError(f"logits must be an array of numbers ({problem})") from None
        if numbers.ndim != 1:
            raise ValueError(f"logits must be (vocab_size,), one number per token; their shape is {numbers.shape}")
        if not 2 <= len(numbers) <= MOST_TOKENS:
            raise ValueError(f"logits must be for 2 to {MOST_TOKENS} tokens, got {len(numbers)}")
        if not np.all(np.abs(numbers) <= LARGEST):
            raise ValueError(f"logits must be finite numbers of size at most {LARGEST:g}")
        if isinstance(tokens, str):
            raise ValueError(f"tokens must be a list of strings; it is one string, {tokens!r}")
        tokens = [str(token) for token in tokens]
        if len(tokens) != len(numbers):
            raise ValueError(f"tokens must name the {len(numbers)} logits, got {len(tokens)} names")
        sent = numbers.astype("<f4")
        order = np.argsort(-sent, kind="stable")  # of equal logits the first comes first, as in argmax
        with self.hold_sync():
            self.data, self.vocab_size = sent[order].tobytes(), len(numbers)
            self.tokens, self.prompt = [tokens[i] for i in order[:NAMED]], str(prompt)
            rows = min(len(numbers), SHOWN) + (len(numbers) > SHOWN)
            self.continuations = [continuations.get(token, "") for token in self.tokens] if continuations else []
            self.min_height, self.narrow_extra = 284 + 24 * rows, 97

    @traitlets.validate("temperature", "top_k", "top_p", "seed", "drawn")
    def _in_range(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        if name == "top_k" and value is None:
            return value
        least, most = {
            "temperature": (0, HOTTEST),
            "top_k": (1, MOST_TOKENS),
            "top_p": (0, 1),
            "seed": (0, MOST_SEED),
            "drawn": (0, MOST_DRAWS),
        }[name]
        if not least <= value <= most or name == "top_p" and value == 0:
            limits = "above 0 and at most 1" if name == "top_p" else f"from {least} to {most:g}"
            raise traitlets.TraitError(f"{name} must be {limits}; got {value:g}")
        return value

    def _clear(self, change):
        self.drawn = 0

    def shares(self):
        """(before, kept): probabilities at this temperature, and what is drawn from; (vocab_size,), largest first."""
        logits = self.logits.astype(float)
        before = np.zeros(len(logits))
        if self.temperature == 0:
            before[0] = 1.0
            return before, before.copy()
        before = np.exp((logits - logits[0]) / self.temperature)
        before /= before.sum()
        kept = before.copy()
        if self.top_k is not None:
            kept[self.top_k :] = 0.0
        kept /= kept.sum()
        if self.top_p < 1:
            reached = np.cumsum(kept) - kept  # by the tokens before each: the one that crosses stays
            kept[reached >= self.top_p] = 0.0
        return before, kept / kept.sum()

    def picture(self):
        """The most likely tokens with both probabilities as bars."""
        from matplotlib.figure import Figure

        rows = min(self.vocab_size, SHOWN)
        before, kept = (shares[:rows] for shares in self.shares())
        figure = Figure(figsize=(6.0, 1.0 + 0.28 * rows), layout="constrained")
        axes = figure.add_subplot()
        axes.barh(range(rows), before, height=0.8, color="#c9ced4", label="at this temperature")
        bars = axes.barh(range(rows), kept, height=0.4, color="#0a6ed1", label="drawn from")
        axes.bar_label(bars, [f"{share:.3f}" if share else "" for share in kept], padding=3)
        names = [token.replace("\n", "⏎").strip() or "␣" for token in self.tokens[:rows]]
        axes.set_yticks(range(rows), names)
        cut = "all" if self.top_k is None else self.top_k
        axes.set(
            xlim=(0, 1.12),
            xlabel="probability",
            title=f"temperature {self.temperature:g}, top-k {cut}, top-p {self.top_p:g}",
        )
        axes.invert_yaxis()
        axes.legend(loc="lower right", frameon=False)
        return figure
