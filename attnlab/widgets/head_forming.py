"""Two heads that form while a small model is trained: recorded, and trained again in the page."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab import data as recorded
from attnlab.widgets._base import CourseWidget, module, style

MOST_SEED = 2**31 - 1


class HeadForming(CourseWidget):
    """The attention maps of a two-block model while it is trained on chants, over the curve of its loss.

    What to try, and what it shows:

    - the slider over the curve: before the loss falls, all maps are fog. At the cliff, a head of block 0 begins to look
      one letter back, and the heads of block 1 at the letter that came next a round earlier;
    - the letters, colored by the probability that the model gives them: from the second round on they become certain;
    - *Train one here*: such a model is trained in the page, in a worker, from the seed beside the button. Its maps
      appear as they form. Nothing of it is sent to Python.

    recording: a `data.ChantTraining`; by default that of the course, `data.chant_training()`.
    at: which of its looks is shown, from 0. seed: whole number from 0 to 2**31 - 1, for *Train one here*.
    A setting out of range raises `TraitError`.

    The looks are sent as bytes, one per weight: about 50 KB.
    """

    _esm = module("head_forming", "pointer", "weights", "fields", "player", "random", "chant_model")
    _css = style("head_forming")

    data = traitlets.Bytes(help="per look: lower triangles of the maps, then the chances; 255 is 1").tag(sync=True)
    losses = traitlets.Bytes(help="of each step of training, float16, little-endian").tag(sync=True)
    floor = traitlets.Float(0.0, help="what no model can go below").tag(sync=True)
    text = traitlets.Unicode("", help="the chant that is looked at").tag(sync=True)
    period = traitlets.Int(1, help="letters of a round").tag(sync=True)
    shape = traitlets.List(traitlets.Int(), help="looks, layers, heads").tag(sync=True)
    every = traitlets.Int(1, help="steps between two looks").tag(sync=True)
    at = traitlets.Int(0, min=0, help="the look shown").tag(sync=True)
    seed = traitlets.Int(7, min=0, max=MOST_SEED, help="of the model that is trained in the page").tag(sync=True)
    min_height = traitlets.Int(544).tag(sync=True)
    narrow_extra = traitlets.Int(210).tag(sync=True)

    def __init__(self, recording=None, at=0, seed=7, **kwargs):
        recording = recorded.chant_training() if recording is None else recording
        looks, layers, heads, n, _ = recording.maps.shape
        below = np.tril_indices(n)
        maps = recording.maps[..., below[0], below[1]].reshape(looks, -1)
        rows = np.concatenate([maps, recording.chances], axis=1)
        super().__init__(
            data=np.rint(255 * rows).astype(np.uint8).tobytes(),
            losses=recording.losses.astype("<f2").tobytes(),
            floor=recording.floor,
            text=recording.text,
            period=recording.period,
            shape=[looks, layers, heads],
            every=int(recording.steps[1] - recording.steps[0]),
            at=at,
            seed=seed,
            **kwargs,
        )
        self.recording = recording

    @traitlets.validate("at")
    def _exists(self, proposal):
        if self.shape and not 0 <= proposal["value"] < self.shape[0]:
            raise traitlets.TraitError(f"at must be from 0 to {self.shape[0] - 1}; got {proposal['value']}")
        return proposal["value"]

    def picture(self):
        """The loss curve, and the maps at the beginning, in the middle, and at the end."""
        from matplotlib.figure import Figure

        looks, layers, heads = self.shape
        figure = Figure(figsize=(7.0, 6.4), layout="constrained")
        top, bottom = figure.subfigures(2, 1, height_ratios=(2, 5))
        axes = top.add_subplot()
        axes.plot(self.recording.losses, color="#1f2328", linewidth=0.8)
        axes.axhline(self.floor, color="#59636e", linewidth=0.8, linestyle="--")
        axes.set(xlabel="step", ylabel="nats per letter")
        shown = (0, looks // 2, looks - 1)
        panels = bottom.subplots(len(shown), layers * heads)
        for row, look in zip(panels, shown):
            for i, panel in enumerate(row):
                panel.imshow(self.recording.maps[look].reshape(layers * heads, *self.recording.maps.shape[-2:])[i],
                             cmap="Blues", vmin=0, vmax=1)  # fmt: skip
                panel.set_xticks([])
                panel.set_yticks([])
                if look == 0:
                    panel.set_title(f"block {i // heads}, head {i % heads}", fontsize=9)
            row[0].set_ylabel(f"step {self.recording.steps[look]}")
        return figure
