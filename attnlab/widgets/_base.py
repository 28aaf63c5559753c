"""The base of all widgets of the course: where the code of a widget comes from, and how it prints.

A widget is an anywidget class (so an ipywidget). Its computation and drawing are an ES module of the same stem
beside it. `common.js`, and the shared files that it names, go in front of that module as plain text, so that each
widget stays one module without imports: the same text runs in Jupyter, on a static page and from `file://`.
"""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import anywidget
import numpy as np
import traitlets

HERE = Path(__file__).parent
COMMENT = re.compile(r"^ *//.*\n", re.MULTILINE)


def module(stem: str, *shared: str) -> str:
    """The ES module of a widget: common.js, the `shared` files it needs and its own, without lines of comments."""
    texts = [(HERE / f"{name}.js").read_text("utf-8") for name in ("common", *shared, stem)]
    return COMMENT.sub("", "\n".join(texts))


STYLE = (HERE / "widgets.css").read_text("utf-8")


def style(stem: str) -> str:
    """The style sheet of a widget: the shared one followed by `<stem>.css`."""
    return STYLE + "\n" + (HERE / f"{stem}.css").read_text("utf-8")


class Numbers(traitlets.TraitType):
    """A trait that holds a short list of finite numbers and takes a list, a tuple or a 1-D NumPy array.

    `shortest` and `longest` bound how many there are, `largest` bounds their size. The value is a list of floats;
    assign a new list to change it, since an entry set in place is not seen.
    """

    def __init__(self, default, *, shortest, longest, largest, **kwargs):
        super().__init__(**kwargs)
        self.numbers, self.shortest, self.longest, self.largest = list(default), shortest, longest, largest

    def default(self, obj=None):
        return list(self.numbers)

    def validate(self, obj, value):
        many = str(self.shortest) if self.shortest == self.longest else f"{self.shortest} to {self.longest}"
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise traitlets.TraitError(f"{self.name} must be a list of {many} numbers, got {value!r}") from None
        if array.ndim != 1:
            raise traitlets.TraitError(
                f"{self.name} must be a list of {many} numbers, got an array of shape {array.shape}"
            )
        if not self.shortest <= len(array) <= self.longest:
            raise traitlets.TraitError(f"{self.name} must hold {many} numbers, got {len(array)}")
        if not np.all(np.abs(array) <= self.largest):
            raise traitlets.TraitError(
                f"{self.name} must hold finite numbers of size at most {self.largest:g}, got {array.tolist()}"
            )
        return array.tolist()


class CourseWidget(anywidget.AnyWidget):
    """Base of the course's widgets.

    `min_height` (CSS pixels) is reserved on a page before the widget is drawn, so that text does not jump.
    `narrow_extra` pixels more are reserved below 600 px, where what stands side by side stands one above the other.
    `predictions` are questions to guess at before anything is moved; they are shown above the controls, one at a time.
    A question may be a pair (question, answer): once there is a guess, the reader can compare the two. What a widget
    marks as the answer to a question (`data-held` in its script) is hidden until the reader guesses or asks for it.
    `picture()` draws the present state with matplotlib for print and for places without JavaScript.
    """

    _css = STYLE
    min_height = traitlets.Int(320).tag(sync=True)
    narrow_extra = traitlets.Int(400).tag(sync=True)
    predictions = traitlets.List(
        traitlets.Union([traitlets.Unicode(), traitlets.Tuple(traitlets.Unicode(), traitlets.Unicode())]),
        help="what to guess first: questions, or pairs (question, answer)",
    ).tag(sync=True)

    def picture(self):
        """A matplotlib figure of the present state, made without pyplot, which would show it a second time."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        buffer = io.BytesIO()
        self.picture().savefig(buffer, format="png", dpi=110, bbox_inches="tight")
        return {**(data or {}), "image/png": base64.b64encode(buffer.getvalue()).decode("ascii")}, metadata or {}
