"""Writing token by token, with and without a cache: which keys and values are computed, what it costs, what is held.

Sources: MQA, Shazeer, 2019, arXiv:1911.02150; GQA, Ainslie et al., 2023, arXiv:2305.13245; MLA, DeepSeek-V2, 2024,
arXiv:2405.04434, whose Table 1 compares what the four hold.
"""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

SCHEMES = ("mha", "gqa", "mqa", "mla")
LARGEST = dict(
    n_layers=1000, n_heads=512, n_kv_heads=512, d_head=1024, d_model=65536, latent=65536, rope=1024, bytes_per_element=8
)
LONGEST = 8  # tokens of the prompt, and of the continuation: more rows do not fit a phone


class DecodeStepper(CourseWidget):
    """Writing token by token, with a cache and without one, side by side.

    What you learn by moving what:

    - *Next*: the first pass reads the whole prompt, with a cache and without. From then on, one new row of K and V is
      computed per pass with a cache; without one, all rows are computed again.
    - *Race*: both writers process equally many tokens in a second; one has written the text when the other has not;
    - the rows of the passes: with a cache each token is computed once, so they form a thin line; without one they
      fill a triangle.
    - the bars: the ratio of the work grows with every pass, and so do the bytes held, which are its price;
    - the scheme: fewer key/value heads, or one latent row, hold fewer bytes for the same tokens. It may be left out of
      sight (`choose_scheme=False`).

    n_layers, n_heads, n_kv_heads, d_head: sizes of the model. n_kv_heads is that of grouped-query attention and divides
        n_heads. Left out, all are those of SmolLM2-135M (arXiv:2502.02737): 30, 9, 3 and 64.
    d_model: n_heads * d_head; may be left out.
    prompt, continuation: 1 to 8 tokens each. Pass 0 reads the prompt and writes the first token of the continuation;
        each later pass reads the token that the pass before it wrote. The last token is never read.
    scheme: "mha", "gqa", "mqa" or "mla". step: the pass shown, 0 to len(continuation) - 1.
    latent, rope: numbers that MLA keeps per token and layer, whatever the heads. Left out, 4 * d_head and d_head // 2,
        as DeepSeek-V2 chooses them.
    bytes_per_element: 2 for float16 and bfloat16.

    Counted, for one layer and then times n_layers: the projections of Q, K, V and O for the tokens that a pass
    processes, and 2 * n_q * n_kv * d_model multiply-adds for scores and weighted sums, masked pairs included. MLA's
    are not counted: its projections can be multiplied out in several ways, and each has a different count.
    Raises ValueError, naming the size, for what does not fit.
    """

    _esm = module("decode_stepper", "weights")
    _css = style("decode_stepper")

    n_layers = traitlets.Int(30, read_only=True, help="layers, each with its own cache").tag(sync=True)
    n_heads = traitlets.Int(9, read_only=True, help="query heads").tag(sync=True)
    n_kv_heads = traitlets.Int(3, read_only=True, help="key/value heads of GQA").tag(sync=True)
    d_head = traitlets.Int(64, read_only=True, help="width of a head").tag(sync=True)
    d_model = traitlets.Int(576, read_only=True, help="width of a token, n_heads * d_head").tag(sync=True)
    latent = traitlets.Int(256, read_only=True, help="numbers of MLA's latent row").tag(sync=True)
    rope = traitlets.Int(32, read_only=True, help="numbers of MLA's rotated key").tag(sync=True)
    bytes_per_element = traitlets.Int(2, read_only=True, help="bytes per number").tag(sync=True)
    prompt = traitlets.List(traitlets.Unicode(), read_only=True, help="tokens given").tag(sync=True)
    continuation = traitlets.List(traitlets.Unicode(), read_only=True, help="tokens written").tag(sync=True)
    scheme = traitlets.Enum(SCHEMES, "gqa", help="which heads have their own keys and values").tag(sync=True)
    step = traitlets.Int(0, help="pass shown, from 0").tag(sync=True)
    choose_scheme = traitlets.Bool(True, read_only=True, help="whether schemes can be chosen").tag(sync=True)

    def __init__(
        self,
        n_layers=30,
        n_heads=9,
        n_kv_heads=3,
        d_head=64,
        d_model=None,
        prompt=("the", "cat", "sat"),
        continuation=("on", "the", "mat", "and", "slept"),
        *,
        scheme="gqa",
        step=0,
        latent=None,
        rope=None,
        bytes_per_element=2,
        choose_scheme=True,
        **kwargs,
    ):
        sizes = dict(
            n_layers=n_layers,
            n_heads=n_heads,
            n_kv_heads=n_kv_heads,
            d_head=d_head,
            d_model=n_heads * d_head if d_model is None else d_model,
            latent=4 * d_head if latent is None else latent,
            rope=d_head // 2 if rope is None else rope,
            bytes_per_element=bytes_per_element,
        )
        for name, size in sizes.items():
            least = 0 if name == "rope" else 1
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or not least <= size <= LARGEST[name]:
                raise ValueError(f"{name} must be a whole number from {least} to {LARGEST[name]}, got {size!r}")
        if n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads must divide n_heads: {n_kv_heads} does not divide {n_heads}")
        if sizes["d_model"] != n_heads * d_head:
            raise ValueError(f"d_model must be n_heads * d_head = {n_heads * d_head}, got {d_model}")
        tokens = {}
        for name, given in dict(prompt=prompt, continuation=continuation).items():
            if isinstance(given, str) or not 1 <= len(given) <= LONGEST:
                raise ValueError(f"{name} must be a list of 1 to {LONGEST} tokens, got {given!r}")
            tokens[name] = [str(token) for token in given]
        super().__init__(**kwargs)
        with self.hold_sync():
            for name, size in sizes.items():
                self.set_trait(name, int(size))
            for name, words in tokens.items():
                self.set_trait(name, words)
            self.scheme, self.step = scheme, step
            self.set_trait("choose_scheme", bool(choose_scheme))
            passes, choice = len(continuation), 90 if choose_scheme else 0
            self.min_height, self.narrow_extra = 285 + 30 * passes + choice, 86

    @traitlets.validate("step")
    def _pass_exists(self, proposal):
        last = len(self.continuation) - 1
        if self.continuation and not 0 <= proposal["value"] <= last:
            raise ValueError(f"step must be 0 to {last}, one pass for each token written; got {proposal['value']}")
        return proposal["value"]

    def numbers_held(self):
        """Numbers that each scheme keeps for one token in one layer."""
        row = 2 * self.d_head  # one key and one value
        return dict(mha=row * self.n_heads, gqa=row * self.n_kv_heads, mqa=row, mla=self.latent + self.rope)

    def picture(self):
        """Which rows of K and V each pass computes, with a cache and without, and the bytes held by each scheme."""
        from matplotlib.colors import ListedColormap
        from matplotlib.figure import Figure

        tokens = [*self.prompt, *self.continuation[:-1]]
        p, n = len(self.prompt), len(self.continuation)
        place, passes = np.arange(len(tokens))[:, None], np.arange(n)
        known, first = place < p + passes, np.where(passes == 0, 0, p + passes - 1)
        cached = np.where(known, np.where(place >= first, 2, 1), 0)  # 0 not there yet, 1 read, 2 computed
        figure = Figure(figsize=(8.2, 0.27 * len(tokens) + 1.4), layout="constrained")
        left, right, bars = figure.subplots(1, 3)
        colors = ListedColormap(["#ffffff", "#d5e6f8", "#0a6ed1"])
        for ax, table, title in [(left, cached, "with a cache"), (right, 2 * known, "without")]:
            ax.imshow(table, cmap=colors, vmin=0, vmax=2, aspect="auto")
            ax.set_xticks(passes, passes + 1)
            ax.set_yticks(np.arange(len(tokens)), tokens)
            ax.set(xlabel="pass", title=title)
            ax.axvline(self.step, color="black", lw=0.8, ls=":")
        held = {
            name: numbers * (p + self.step) * self.n_layers * self.bytes_per_element
            for name, numbers in self.numbers_held().items()
        }
        bars.barh([name.upper() for name in held], list(held.values()), color="#b35900")
        bars.invert_yaxis()
        bars.set(xlabel="bytes", title=f"held after pass {self.step + 1}")
        return figure
