"""One block with nine switches: what each change of today's models does to shapes, parameters, cache and work.

The block has the width and the heads of Qwen3-4B, and is else that of Llama 2, whose rule for `d_ff` gives 6,912. Each
switch brings a setting that a model was published with:

- normed, wide: Qwen3-4B; Yang et al., 2025, arXiv:2505.09388; 32 heads of 128 at a width of 2,560
- sink: gpt-oss; OpenAI, 2025, arXiv:2508.10925
- window: Gemma 3; Gemma Team, 2025, arXiv:2503.19786; 1,024 tokens in five of six layers
- stretched: Llama 3.1; Grattafiori et al., 2024, arXiv:2407.21783; a factor of 8
- latent: DeepSeek-V3; DeepSeek-AI, 2024, arXiv:2412.19437; 512 numbers and a rotated key of 64
- gated, state: Qwen3-Next; Qwen Team, 2025; a gate for each number of a head, and in three of four layers, in place of
  attention, a gated delta rule with 32 states of 128 x 128 numbers, 16 key heads and a convolution over four tokens
- experts: gpt-oss-20b; 4 of 32 experts, each as wide inside as the model
"""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

# full: every how many layers one has no window; attending: every how many one attends, where the others keep a state.
# Widths and counts are as in the classes of the course.
SIZES = dict(
    d_model=2560,
    n_heads=32,
    n_kv_heads=8,
    d_head=80,
    wide_head=128,
    d_ff=6912,
    window=1024,
    full=6,
    factor=8,
    d_latent=512,
    d_rope=64,
    attending=4,
    n_states=32,
    n_state_keys=16,
    d_state=128,
    conv=4,
    n_experts=32,
    top_k=4,
    d_expert=2560,
)
SWITCHES = ("normed", "wide", "sink", "window", "stretched", "latent", "gated", "state", "experts")
SHORTEST, LONGEST = 2**10, 2**17
BYTES, STATE_BYTES = 2, 4  # per number


class BlockSwitches(CourseWidget):
    """The block of Llama 2 and nine switches, each with the name of a model that has it.

    What you learn by pressing what:

    - the latent, the window and the states make the cache small, the window and the states only in long texts;
    - experts multiply the parameters, and a token uses few of them;
    - wide heads cost parameters, cache and work alike;
    - a gate costs parameters and no cache;
    - the norms of queries and keys, the sink and the stretched frequencies cost almost nothing.

    normed, wide, sink, window, stretched, latent, gated, state, experts: whether the switch is on.
    tokens: length of the text that is in the cache, 2^10 to 2^17.
    sizes: other sizes than `SIZES`, some or all of them.
    Raises ValueError or TraitError, with the reason, for anything else.
    """

    _esm = module("block_switches")
    _css = style("block_switches")

    sizes = traitlets.Dict(read_only=True, help="widths and counts").tag(sync=True)
    normed = traitlets.Bool(False, help="queries and keys are normed").tag(sync=True)
    wide = traitlets.Bool(False, help="heads have a width of their own").tag(sync=True)
    sink = traitlets.Bool(False, help="a learned sink in each head").tag(sync=True)
    window = traitlets.Bool(False, help="a window in most layers").tag(sync=True)
    stretched = traitlets.Bool(False, help="slow frequencies are divided").tag(sync=True)
    latent = traitlets.Bool(False, help="a latent in place of keys and values").tag(sync=True)
    gated = traitlets.Bool(False, help="a gate on what the heads return").tag(sync=True)
    state = traitlets.Bool(False, help="a state in place of attention in most layers").tag(sync=True)
    experts = traitlets.Bool(False, help="experts in place of the network").tag(sync=True)
    tokens = traitlets.Int(8192, help="tokens in the cache").tag(sync=True)

    def __init__(self, sizes=None, **kwargs):
        sizes = sizes or {}
        unknown = sorted(set(sizes) - set(SIZES))
        if unknown:
            raise ValueError(f"sizes are {', '.join(SIZES)}; unknown: {', '.join(unknown)}")
        for name, value in sizes.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        super().__init__(**kwargs)
        self.set_trait("sizes", SIZES | {name: int(value) for name, value in sizes.items()})
        self.min_height, self.narrow_extra = 477, 302

    @traitlets.validate("tokens")
    def _possible(self, proposal):
        if not SHORTEST <= proposal["value"] <= LONGEST:
            raise traitlets.TraitError(f"tokens must be from {SHORTEST} to {LONGEST}, got {proposal['value']}")
        return proposal["value"]

    def numbers(self, on=None):
        """Return a block's parameters, those a token uses, bytes per token in the cache, and multiply-adds per token.

        With a window or states, the mean of the layers.
        on: the switches that are on, instead of those of the widget
        """
        on = {name for name in SWITCHES if getattr(self, name)} if on is None else set(on)
        z = self.sizes
        d = z["wide_head"] if "wide" in on else z["d_head"]
        heads, keys = z["n_heads"] * d, z["n_kv_heads"] * d
        if "latent" in on:
            maps = z["d_model"] * (2 * heads + z["n_heads"] * z["d_rope"] + z["d_latent"] + z["d_rope"])
            maps += 2 * z["d_latent"] * heads
            kept, per_key = z["d_latent"] + z["d_rope"], z["n_heads"] * (2 * z["d_latent"] + z["d_rope"])
        else:
            maps = 2 * z["d_model"] * (heads + keys)
            kept, per_key = 2 * keys, 2 * heads
        maps += ("gated" in on) * z["d_model"] * heads
        small = 2 * z["d_model"] + ("normed" in on) * 2 * d + ("sink" in on) * z["n_heads"]
        small += ("latent" in on) * z["d_latent"]
        router = one = used = 0
        if "experts" in on:
            router, one = z["d_model"] * z["n_experts"], 3 * z["d_model"] * z["d_expert"]
            network, used = router + z["n_experts"] * one, router + z["top_k"] * one
        else:
            network = used = 3 * z["d_model"] * z["d_ff"]
        n = self.tokens
        seen = (n + (z["full"] - 1) * min(n, z["window"])) / z["full"] if "window" in on else n
        attention = {
            "parameters": maps + small + network,
            "used": maps + small + used,
            "cache": BYTES * kept * seen / n,
            "work": maps + used + per_key * seen,
        }
        if "state" not in on:
            return attention
        keys, values = z["n_state_keys"] * z["d_state"], z["n_states"] * z["d_state"]
        numbers = values * z["d_state"]
        maps = z["d_model"] * (2 * keys + 3 * values + 2 * z["n_states"]) + z["conv"] * (2 * keys + values)
        small = 2 * z["d_model"] + 2 * z["n_states"] + z["d_state"]
        delta = {
            "parameters": maps + small + network,
            "used": maps + small + used,
            "cache": STATE_BYTES * numbers / n,
            "work": maps + used + 4 * numbers,  # fade, recall, write, read
        }
        share = 1 / z["attending"]
        return {name: share * attention[name] + (1 - share) * delta[name] for name in attention}

    def picture(self):
        """How many times as large each number is as without any switch."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 2.2), layout="constrained")
        ax = figure.subplots()
        own, base = self.numbers(), self.numbers(())
        names = ["parameters", "used by a token", "cache", "multiply-adds"]
        factors = [own[name] / base[name] for name in own]
        ax.barh(names, np.log2(factors), color="#0a6ed1")
        ax.axvline(0, color="#8a939c")
        for at, factor in enumerate(factors):
            ax.text(np.log2(factor), at, f" × {factor:.3g} ", va="center", ha="left" if factor >= 1 else "right")
        ax.set(xlim=(-5.5, 5.5), xticks=range(-4, 5, 2))
        ax.set_xticklabels(["1/16", "1/4", "1", "4", "16"])
        ax.invert_yaxis()
        on = [name for name in SWITCHES if getattr(self, name)]
        ax.set_title("beside the block of Llama 2, with: " + (", ".join(on) or "nothing on"), fontsize=10)
        return figure
