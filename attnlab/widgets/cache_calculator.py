"""How large the key/value cache of a model gets, and how large it would be with keys and values for every head.

The sizes are those of the papers and of the `config.json` that was published with the weights:

- SmolLM2-135M: Ben Allal et al., 2025, arXiv:2502.02737; 30 layers, 3 of 9 heads, width 64
- Llama-2-7B: Touvron et al., 2023, arXiv:2307.09288; 32 layers, all 32 heads, width 128
- Mistral-7B: Jiang et al., 2023, arXiv:2310.06825, Table 1; 32 layers, 8 of 32 heads, width 128, window 4096
- Llama-3-8B and Llama-3-70B: Grattafiori et al., 2024, arXiv:2407.21783, Table 3; 32 and 80 layers, 8 of 32 and 8 of
  64 heads, width 128
- DeepSeek-V3: DeepSeek-AI, 2024, arXiv:2412.19437, section 4.2; 61 layers, 128 heads of width 128, for which a latent
  row of 512 numbers and a rotated key of 64 are kept
- gpt-oss-20b: OpenAI, 2025, arXiv:2508.10925; 24 layers, 8 of 64 heads, width 64, window 128 in every second layer
- Qwen3-Next-80B: Qwen Team, 2025, the settings beside the weights; 48 layers, of which 12 attend, with 2 of 16 heads
  and width 256; each of the others keeps 32 states of 128 x 128 numbers, and the last rows before its convolution,
  which are under 3% of that and left out
- GPT-3: Brown et al., 2020, arXiv:2005.14165, Table 2.1, the model of 175 billion parameters; 96 layers, all 96 heads,
  width 128
"""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab.widgets._base import CourseWidget, module, style

PRESETS = [
    dict(name="SmolLM2-135M", n_layers=30, n_heads=9, n_kv_heads=3, d_head=64, source="arXiv:2502.02737"),
    dict(name="Llama-2-7B", n_layers=32, n_heads=32, n_kv_heads=32, d_head=128, source="arXiv:2307.09288"),
    dict(name="Mistral-7B", n_layers=32, n_heads=32, n_kv_heads=8, d_head=128, window=4096, source="arXiv:2310.06825"),
    dict(name="Llama-3-8B", n_layers=32, n_heads=32, n_kv_heads=8, d_head=128, source="arXiv:2407.21783"),
    dict(name="Llama-3-70B", n_layers=80, n_heads=64, n_kv_heads=8, d_head=128, source="arXiv:2407.21783"),
    dict(name="DeepSeek-V3", n_layers=61, n_heads=128, d_head=128, latent=512, rope=64, source="arXiv:2412.19437"),
    dict(
        name="gpt-oss-20b",
        n_layers=24,
        n_heads=64,
        n_kv_heads=8,
        d_head=64,
        window=128,
        window_layers=12,
        source="arXiv:2508.10925",
    ),
    dict(
        name="Qwen3-Next",
        n_layers=48,
        n_heads=16,
        n_kv_heads=2,
        d_head=256,
        state_layers=36,
        state=32 * 128 * 128,
        source="Qwen3-Next-80B-A3B, config.json",
    ),
    dict(name="GPT-3 175B", n_layers=96, n_heads=96, n_kv_heads=96, d_head=128, source="arXiv:2005.14165"),
]
NEEDED = ("name", "n_layers", "n_heads", "d_head")
SIZES = ("n_kv_heads", "latent", "rope", "window", "window_layers", "state", "state_layers")
OPTIONAL = (*SIZES, "source")
MOST_MODELS, LARGEST = 9, 4096
LONGEST, WIDEST = 2**19, 512
WIDTHS = (1, 2, 4)
STATE_BYTES = 4  # per number of a state, whatever the cache has


def checked(presets):
    """Fill in every entry of the presets, with every size a plain int. Raises ValueError for wrong entries."""
    if not 1 <= len(presets) <= MOST_MODELS:
        raise ValueError(f"presets must hold 1 to {MOST_MODELS} models, got {len(presets)}")
    whole = []
    for given in presets:
        unknown = set(given) - {*NEEDED, *OPTIONAL}
        missing = [name for name in NEEDED if name not in given]
        if missing or unknown:
            raise ValueError(
                f"a preset has {', '.join(NEEDED)} and may have {', '.join(OPTIONAL)}; "
                f"missing: {missing}, unknown: {sorted(unknown)}"
            )
        name = str(given["name"])
        preset = dict(name=name, source=str(given.get("source", "")))
        for size in ("n_layers", "n_heads", "d_head", *SIZES):
            value = given.get(size)
            if value is None and size not in NEEDED:
                preset[size] = 0
            elif isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= LARGEST * 256:
                raise ValueError(f"{size} of {name} must be a whole number of at least 1, got {value!r}")
            else:
                preset[size] = int(value)
        if bool(preset["latent"]) == bool(preset["n_kv_heads"]):
            raise ValueError(f"{name} needs either n_kv_heads or, for MLA, latent")
        if preset["n_kv_heads"] and preset["n_heads"] % preset["n_kv_heads"]:
            raise ValueError(f"n_kv_heads of {name} must divide its {preset['n_heads']} heads")
        if bool(preset["state"]) != bool(preset["state_layers"]):
            raise ValueError(f"{name} needs both state, in numbers, and state_layers, or neither")
        attending = preset["n_layers"] - preset["state_layers"]
        if attending < 1:
            raise ValueError(f"state_layers of {name} must leave at least one of its {preset['n_layers']} layers")
        if preset["window_layers"] and not (preset["window"] and preset["window_layers"] <= attending):
            raise ValueError(f"window_layers of {name} needs a window, and at most {attending} layers have it")
        whole.append(preset)
    names = [preset["name"] for preset in whole]
    if len(set(names)) < len(names):
        raise ValueError(f"every preset needs a different name, got {names}")
    return whole


class CacheCalculator(CourseWidget):
    """The key/value cache of real models, in bytes, for a context, a batch and a number format.

    What you learn by moving what:

    - the context and the batch: the cache is proportional to both;
    - the bytes per element: halving the width of a number halves the cache;
    - the model: how much grouped-query attention, a window, one latent row, or a state in most layers saves against
      keys and values for every head and every token, which are the hollow part of each bar;
    - the units: 10^9 bytes are a GB, 2^30 bytes a GiB, and the second is the smaller number.

    presets: 1 to 9 models, dicts with name, n_layers, n_heads, d_head and n_kv_heads, or for MLA latent and rope
        instead; a window, in tokens, limits the tokens kept, in window_layers of the layers or in all;
        state_layers of the n_layers keep `state` numbers of 4 bytes in place of keys and values; source says where the
        sizes are from. Left out, nine models with published sizes.
    preset: name of the model chosen. context: 1 to 2^19 tokens. batch: 1 to 512 sequences.
    bytes_per_element: 1, 2 or 4.
    Raises ValueError or TraitError, with the reason, for anything else.
    """

    _esm = module("cache_calculator", "fields")
    _css = style("cache_calculator")

    presets = traitlets.List(traitlets.Dict(), read_only=True, help="models to choose from").tag(sync=True)
    preset = traitlets.Unicode("", help="name of the model chosen").tag(sync=True)
    context = traitlets.Int(8192, help="tokens in the context").tag(sync=True)
    batch = traitlets.Int(1, help="sequences at once").tag(sync=True)
    bytes_per_element = traitlets.Int(2, help="bytes per number: 1, 2 or 4").tag(sync=True)

    def __init__(self, presets=None, *, preset=None, context=8192, batch=1, bytes_per_element=2, **kwargs):
        models = checked(PRESETS if presets is None else presets)
        if preset is None:
            preset = "Llama-3-8B" if presets is None else models[0]["name"]
        super().__init__(**kwargs)
        with self.hold_sync():
            self.set_trait("presets", models)
            self.preset = preset
            self.context, self.batch, self.bytes_per_element = int(context), int(batch), int(bytes_per_element)
            self.min_height, self.narrow_extra = 276 + 35 * len(models), 113 + 10 * len(models)

    @traitlets.validate("preset", "context", "batch", "bytes_per_element")
    def _possible(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        names = [preset["name"] for preset in self.presets]
        if name == "preset" and names and value not in names:
            raise traitlets.TraitError(f"preset must be one of {', '.join(names)}; got {value!r}")
        most = {"context": LONGEST, "batch": WIDEST}.get(name)
        if most and not 1 <= value <= most:
            raise traitlets.TraitError(f"{name} must be between 1 and {most}, got {value}")
        if name == "bytes_per_element" and value not in WIDTHS:
            raise traitlets.TraitError(f"bytes_per_element must be 1, 2 or 4, got {value}")
        return value

    def sizes(self):
        """For each model: bytes of its cache, and of one with keys and values for every head and every token."""
        found = []
        for model in self.presets:
            full = 2 * model["n_heads"] * model["d_head"]
            row = model["latent"] + model["rope"] if model["latent"] else 2 * model["n_kv_heads"] * model["d_head"]
            attending = model["n_layers"] - model["state_layers"]
            bounded = (model["window_layers"] or attending) if model["window"] else 0
            kept = bounded * min(self.context, model["window"]) + (attending - bounded) * self.context
            each = self.batch * self.bytes_per_element
            states = model["state_layers"] * model["state"] * self.batch * STATE_BYTES
            found.append((row * kept * each + states, full * model["n_layers"] * self.context * each))
        return found

    def picture(self):
        """A bar for each model: its cache, and as a hollow bar what plain multi-head attention would need."""
        from matplotlib.figure import Figure

        own, plain = (np.array(sizes) / 1e9 for sizes in zip(*self.sizes()))
        names = [model["name"] for model in self.presets]
        figure = Figure(figsize=(8.2, 0.36 * len(names) + 1.2), layout="constrained")
        ax = figure.subplots()
        ax.barh(names, plain, fill=False, edgecolor="#b35900", label="as plain multi-head attention")
        ax.barh(names, own, color="#0a6ed1", label="as it is")
        for i, (size, name) in enumerate(zip(own, names)):
            ax.text(plain[i], i, f" {size:.3g} GB", va="center", weight="bold" if name == self.preset else "normal")
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.set(
            xlabel="GB (10⁹ bytes)",
            title=f"{self.context:,} tokens, batch {self.batch}, {self.bytes_per_element} bytes per number",
        )
        ax.legend(loc="lower right", fontsize=8)
        return figure
