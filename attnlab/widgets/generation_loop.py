"""Generation as a loop: ids, model, logits, a choice, and the chosen token at the end of the text."""

from __future__ import annotations

import traitlets

from attnlab import data as recorded
from attnlab.widgets._base import CourseWidget, module, style

PHASES = ("ids", "model", "logits", "choice")


class GenerationLoop(CourseWidget):
    """A model writes a text token by token, in four moves per token. All numbers are recorded.

    What to try, and what it shows:

    - *Next*: the ids of the text go into the model; logits come out, here as probabilities; one token is taken; it
      moves to the end of the text, and the loop begins again;
    - *greedy* and *drawn*: the same model and prompt, another way to choose, another text.

    recording: a `data.Writing`; by default SmolLM2-135M after "Once upon a time", `data.writing()`.
    run: which of its texts. step: from 0; a token takes four steps.
    A setting out of range raises `TraitError`.
    """

    _esm = module("generation_loop", "player")
    _css = style("generation_loop")

    tokens = traitlets.List(traitlets.Unicode(), help="of the prompt").tag(sync=True)
    ids = traitlets.List(traitlets.Int(), help="of the prompt").tag(sync=True)
    runs = traitlets.List(help="name, and per token: tokens, ids, shares, taken").tag(sync=True)
    run = traitlets.Int(0, min=0, help="which text is written").tag(sync=True)
    step = traitlets.Int(2, min=0, help="four per token").tag(sync=True)
    min_height = traitlets.Int(344).tag(sync=True)
    narrow_extra = traitlets.Int(203).tag(sync=True)

    def __init__(self, recording=None, run=0, step=2, **kwargs):
        recording = recorded.writing() if recording is None else recording
        super().__init__(
            tokens=recording.tokens,
            ids=recording.ids.tolist(),
            runs=[
                {
                    "name": one.name,
                    "tokens": one.tokens,
                    "ids": one.ids.tolist(),
                    "shares": [[round(share, 4) for share in row] for row in one.shares.tolist()],
                    "taken": one.taken.tolist(),
                }
                for one in recording.runs
            ],
            run=run,
            step=step,
            **kwargs,
        )

    @traitlets.validate("run", "step")
    def _exists(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        if self.runs:
            most = len(self.runs) - 1 if name == "run" else len(PHASES) * len(self.runs[0]["taken"])
            if not 0 <= value <= most:
                raise traitlets.TraitError(f"{name} must be from 0 to {most}; got {value}")
        return value

    def picture(self):
        """The text so far, and the likely next tokens of this step as bars."""
        from matplotlib.figure import Figure

        run = self.runs[self.run]
        at = min(self.step // len(PHASES), len(run["taken"]) - 1)
        text = "".join(self.tokens) + "".join(row[i] for row, i in zip(run["tokens"][:at], run["taken"]))
        figure = Figure(figsize=(6.0, 2.6), layout="constrained")
        axes = figure.add_subplot()
        names = [token.replace("\n", "⏎").strip() or "␣" for token in run["tokens"][at]]
        colors = ["#1f2328" if i == run["taken"][at] else "#c9ced4" for i in range(len(names))]
        axes.barh(range(len(names)), run["shares"][at], color=colors)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlabel="probability", title=f"{text.strip()} ...")
        return figure
