"""A transformer block as a diagram: what flows where, in which shape, by which line of code."""

from __future__ import annotations

import traitlets

from attnlab.widgets._base import CourseWidget, module, style

# Steps of each block, in the order in which they are taken; the module has the same in `compute`.
STEPS = {"encoder": 11, "decoder": 18, "llama": 14}
SIZES = dict(batch=64, n=8192, n_memory=8192, d_model=16384, n_heads=256, n_kv_heads=256, d_ff=65536)  # largest
ROW = 25  # CSS pixels of a step in the diagram


class BlockStepper(CourseWidget):
    """The data flow of a pre-norm block: the residual stream, what leaves it, what is added to it, and every shape.

    What you learn by moving what:

    - *Step* through the encoder block: the shape changes within a sub-layer and is the same again before the sum.
    - Follow the thick line, from x to the arrow at the end: there are only additions on it.
    - Press *Decoder*: a second attention is between the two sub-layers. Which two of its inputs come from the side?
    - Press *Llama*: where do keys and values have fewer heads than queries, and where do they have as many?
    - Press a box, or a line of code, to go there. Compare the bar below: which part has the most parameters?

    kind: "encoder", "decoder" or "llama", the block that is shown first.
    batch, n, d_model, n_heads, n_kv_heads, d_ff: sizes; n_memory: tokens of the memory, for the decoder. n_kv_heads is
    for the Llama block, whose heads have an even width, since RoPE rotates pairs.
    code: lines of (pseudo-)code for `kind` instead of the widget's own, or a dict of such lists for several kinds. One
    line for each step, in order; "" where the line before continues.
    step: from 0, where x comes in, to `last`, where it leaves.
    `parameters` maps each part of the block to how many parameters it has.
    Raises ValueError, naming the sizes, when they do not fit.
    """

    _esm = module("block_stepper")
    _css = style("block_stepper")

    kind = traitlets.Enum(list(STEPS), "encoder", help="the block shown").tag(sync=True)
    batch = traitlets.Int(2, help="sequences").tag(sync=True)
    n = traitlets.Int(3, help="tokens of x").tag(sync=True)
    n_memory = traitlets.Int(5, help="tokens of the memory").tag(sync=True)
    d_model = traitlets.Int(4, help="width of the residual stream").tag(sync=True)
    n_heads = traitlets.Int(2, help="query heads").tag(sync=True)
    n_kv_heads = traitlets.Int(1, help="key and value heads of the Llama block").tag(sync=True)
    d_ff = traitlets.Int(8, help="inner width of the feed-forward network").tag(sync=True)
    code = traitlets.Dict(help="kind -> one line for each step").tag(sync=True)
    step = traitlets.Int(0, min=0, help="the step shown, from 0").tag(sync=True)

    def __init__(
        self,
        kind="encoder",
        batch=2,
        n=3,
        d_model=4,
        n_heads=2,
        n_kv_heads=1,
        d_ff=8,
        code=None,
        *,
        n_memory=5,
        step=0,
        **kwargs,
    ):
        if kind not in STEPS:
            raise ValueError(f"kind must be one of {', '.join(STEPS)}; it is {kind!r}")
        sizes = dict(
            batch=batch, n=n, n_memory=n_memory, d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads, d_ff=d_ff
        )
        self._check_sizes(**sizes)
        self._putting = True
        super().__init__(
            kind=kind,
            **{name: int(size) for name, size in sizes.items()},
            code=self._checked_code(kind, code),
            **kwargs,
        )
        self._putting = False
        self.step = step
        self._reserve()

    @staticmethod
    def _check_sizes(d_model, n_heads, n_kv_heads, **others):
        for name, size in dict(others, d_model=d_model, n_heads=n_heads, n_kv_heads=n_kv_heads).items():
            if isinstance(size, bool) or int(size) != size or not 1 <= size <= SIZES[name]:
                raise ValueError(f"{name} must be a whole number from 1 to {SIZES[name]}; it is {size!r}")
        if d_model % n_heads or d_model // n_heads % 2:
            raise ValueError(f"n_heads must cut d_model into heads of even width: {d_model} / {n_heads}")
        if n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads must divide n_heads: {n_heads} / {n_kv_heads}")

    @staticmethod
    def _checked_code(kind, code):
        """kind -> its lines, for the kinds that were given lines."""
        code = {} if code is None else dict(code) if isinstance(code, dict) else {kind: code}
        for name, lines in code.items():
            if name not in STEPS:
                raise ValueError(f"code must be for {', '.join(STEPS)}; {name!r} is not one of them")
            if isinstance(lines, str) or not all(isinstance(line, str) for line in lines):
                raise ValueError("code must be a list of lines")
            if len(lines) != STEPS[name]:
                raise ValueError(
                    f"code must have a line for each of the {STEPS[name]} steps of the {name} block "
                    f'("" where the line before continues); it has {len(lines)}'
                )
            if not lines[0]:
                raise ValueError("the first line of code must not be empty: there is no line before it to continue")
        return {name: list(lines) for name, lines in code.items()}

    @property
    def last(self):
        """The last step, where x leaves the block."""
        return STEPS[self.kind] - 1

    @property
    def parameters(self):
        """Part of the block -> how many parameters it has."""
        d, d_ff = self.d_model, self.d_ff
        attention = 4 * d * d
        two_maps = d_ff * (d + 1) + d * (d_ff + 1)
        if self.kind == "encoder":
            return dict(norm_1=2 * d, attention=attention, norm_2=2 * d, feed_forward=two_maps)
        if self.kind == "decoder":
            return dict(
                norm_1=2 * d,
                self_attention=attention,
                norm_2=2 * d,
                cross_attention=attention,
                norm_3=2 * d,
                feed_forward=two_maps,
            )
        grouped = 2 * d * d + 2 * d * (d // self.n_heads * self.n_kv_heads)
        return dict(norm_1=d, attention=grouped, norm_2=d, feed_forward=3 * d * d_ff)

    @traitlets.validate("step")
    def _exists(self, proposal):
        if not self._putting and proposal["value"] > self.last:
            raise ValueError(f"step must be 0 to {self.last} for the {self.kind} block; it is {proposal['value']}")
        return proposal["value"]

    @traitlets.validate(*SIZES)
    def _fits(self, proposal):
        if not self._putting:
            sizes = {name: getattr(self, name) for name in SIZES}
            self._check_sizes(**{**sizes, proposal["trait"].name: proposal["value"]})
        return proposal["value"]

    @traitlets.validate("code")
    def _one_line_a_step(self, proposal):
        return self._checked_code(self.kind, proposal["value"])

    @traitlets.observe("kind")
    def _another_block(self, change):
        if not self._putting:
            self.step = min(self.step, self.last)
            self._reserve()

    def _reserve(self):
        """CSS pixels on a page of the book, on a wide screen and on a phone; the numbers are the style sheet's."""
        steps = STEPS[self.kind]
        wide = 187 + ROW * steps
        narrow = {"encoder": 242, "decoder": 277, "llama": 254}[self.kind] + ROW * steps
        self.min_height, self.narrow_extra = wide, narrow - wide

    def picture(self):
        """The residual stream with its sub-layers, their parameters, and the shape on each edge of the stream."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

        parts, shape = self.parameters, f"({self.batch}, {self.n}, {self.d_model})"
        norms = [name for name in parts if name.startswith("norm")]
        names = [name for name in parts if name not in norms]
        figure = Figure(figsize=(7.2, 0.8 + 1.2 * len(names)))
        ax = figure.subplots()
        ax.set(xlim=(-0.3, 7), ylim=(-len(names) - 0.3, 0.5))
        ax.axis("off")

        def arrow(start, end, **how):
            ax.annotate("", xy=end, xytext=start, arrowprops=dict(arrowstyle="->", shrinkA=0, shrinkB=0, **how))

        arrow((0, 0.45), (0, -len(names) - 0.3), lw=3, color="#0a6ed1")
        ax.text(0.1, 0.36, f"x {shape}", fontsize=8)
        for i, (norm, name) in enumerate(zip(norms, names)):
            out, back = -i - 0.1, -i - 0.65
            arrow((0, out), (0.7, out), color="0.3")
            arrow((2.4, out), (3, out), color="0.3")
            ax.plot([5, 5.4, 5.4], [out, out, back], color="0.3", lw=1)
            arrow((5.4, back), (0.12, back), color="0.3")
            for x, width, part in ((0.7, 1.7, norm), (3, 2, name)):
                ax.add_patch(Rectangle((x, out - 0.22), width, 0.44, facecolor="white", edgecolor="0.3"))
                ax.text(x + width / 2, out, f"{part}\n{parts[part]:,} parameters", fontsize=8, ha="center", va="center")
            ax.text(
                0,
                back,
                "+",
                ha="center",
                va="center",
                fontsize=12,
                bbox=dict(boxstyle="circle", facecolor="white", edgecolor="#0a6ed1"),
            )
            ax.text(0.2, back - 0.2, f"x {shape}", fontsize=8)
            if name == "cross_attention":
                memory = f"memory ({self.batch}, {self.n_memory}, {self.d_model})"
                ax.text(5.6, out + 0.1, memory, fontsize=8)
                arrow((6.9, out + 0.06), (5, out + 0.06), color="0.3")
        ax.set_title(f"{self.kind} block, {sum(parts.values()):,} parameters", fontsize=10)
        return figure
