"""One token's numbers on their way through all blocks of a real model, and what it would say after each."""

from __future__ import annotations

import numpy as np
import traitlets

from attnlab import data
from attnlab.widgets._base import CourseWidget, module, style


class StreamStepper(CourseWidget):
    """The residual stream of SmolLM2 at the last token of a text: 576 numbers, what each block adds, and the next word.

    What you learn by moving what:

    - Step from block to block: the numbers of the stream hardly change, and its norm grows, since a block
      only adds to them.
    - Look at the strips of attention and network: what is added is small beside the stream, in most blocks.
    - Look at the words below: read out too early, the stream says anything but the answer, which comes in few blocks.
    - Change the text: an answer that is copied and one that is known come in at different depths.

    text: which recorded text, from 0: "The capital of France is" or the one whose next word is copied.
    block: from 0. All numbers are recorded ones; see `data.stream()`.
    Raises ValueError for a text or a block that does not exist.
    """

    _esm = module("stream_stepper", "weights", "player")
    _css = style("stream_stepper")

    stream = traitlets.Bytes(help="per text and state the numbers / rms, in `step`s, int8").tag(sync=True)
    shape = traitlets.List(traitlets.Int(), help="[texts, states, width]").tag(sync=True)
    step = traitlets.Float(1 / 16, help="grid of the numbers").tag(sync=True)
    rms = traitlets.List(help="per text and state the root mean square").tag(sync=True)
    added = traitlets.List(help="per text the norm of what each sum added").tag(sync=True)
    prompts = traitlets.List(traitlets.Unicode(), help="the texts").tag(sync=True)
    answers = traitlets.List(traitlets.Unicode(), help="the word each text is about").tag(sync=True)
    words = traitlets.List(help="per text and depth the most probable next words").tag(sync=True)
    probabilities = traitlets.List(help="their probabilities").tag(sync=True)
    answered = traitlets.List(help="per text and depth the answer's probability").tag(sync=True)
    text = traitlets.Int(0, help="the text shown, from 0").tag(sync=True)
    block = traitlets.Int(0, help="the block shown, from 0").tag(sync=True)
    min_height = traitlets.Int(557).tag(sync=True)
    narrow_extra = traitlets.Int(82).tag(sync=True)

    def __init__(self, text=0, block=0, **kwargs):
        recorded = data.stream()
        super().__init__(
            stream=np.round(recorded.stream * 16).astype(np.int8).tobytes(),
            shape=list(recorded.stream.shape),
            rms=np.round(recorded.rms, 4).tolist(),
            added=np.round(recorded.added, 3).tolist(),
            prompts=recorded.prompts,
            answers=recorded.answers,
            words=recorded.words,
            probabilities=np.round(recorded.probabilities, 4).tolist(),
            answered=np.round(recorded.answer_probabilities, 4).tolist(),
            text=text,
            block=block,
            **kwargs,
        )

    @traitlets.validate("text", "block")
    def _exists(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        if not self.shape:
            return value  # while it is being made
        size = self.shape[0] if name == "text" else self.shape[1] // 2
        if not 0 <= value < size:
            raise ValueError(f"{name} must be 0 to {size - 1}; it is {value}")
        return value

    def picture(self):
        """The stream after the block shown, and the answer's probability with the first word at each depth."""
        from matplotlib.figure import Figure

        width, at = self.shape[2], 2 * self.block + 2
        numbers = np.frombuffer(self.stream, np.int8).reshape(self.shape)[self.text, at] * self.step
        figure = Figure(figsize=(9, 4), layout="constrained")
        strip, line = figure.subplots(2, 1)
        strip.vlines(np.arange(width), 0, numbers, linewidth=0.8, color="0.3")
        norm = self.rms[self.text][at] * width**0.5
        strip.set(ylim=(-5, 5), xticks=[], title=f"stream after block {self.block}, in units of its root mean square")
        strip.set_ylabel(f"norm {norm:.0f}")
        answered = self.answered[self.text]
        line.bar(range(len(answered)), answered, color="0.75")
        line.axvline(self.block + 1, color="0.3")
        line.set_xticks(range(len(answered)), [row[0] for row in self.words[self.text]], rotation=90, fontsize=7)
        line.set(ylabel=f"probability of {self.answers[self.text]}", ylim=(0, 1))
        figure.suptitle(f"{self.prompts[self.text]} …", fontsize=10)
        return figure
