"""Show wrong code beside what the check says to it.

    ```{check-at-work} softmax
    def softmax(x, axis=-1):
        e = np.exp(x)
        return e / e.sum()
    ```

The code runs when the page is built, and the check's own sentence is shown. Code whose mistake has no name stops the
build.
"""

from __future__ import annotations

from html import escape

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from attnlab.check import CHECKS, report_on
from attnlab.checking.report import code_in, headline
from book import exercise_nodes


def sentence(name: str, code: str) -> tuple[str, str]:
    """Return how many properties hold, and the sentence on the mistake. Raises ValueError if the mistake has none."""
    import numpy as np

    names = {"np": np}
    exec(code, names)
    report, _ = report_on(names[name])
    for finding in report.findings:
        if finding.misconception:
            return headline(report), finding.misconception
    raise ValueError(f"the check has no name for the mistake in this {name}")


class CheckAtWork(SphinxDirective):
    """Show the code as a block, and the sentence beside it."""

    required_arguments = 1
    has_content = True

    def run(self):
        name, code = self.arguments[0], "\n".join(self.content)
        try:
            passed, said = sentence(name, code)
        except ValueError as error:
            raise self.error(str(error)) from None
        self.env.note_dependency(str(CHECKS / f"{name}.gz"))
        block = nodes.literal_block(code, code, language="python")
        answer = (
            f'<div class="at-work-said"><p class="at-work-head"><code>check({name})</code> {escape(passed)}</p>'
            f"<blockquote><p>{code_in(escape(said, quote=False))}</p></blockquote></div>"
        )
        box = nodes.container("", block, classes=["at-work"])
        box += exercise_nodes.raw(answer)
        return [box]


def setup(app) -> None:
    app.add_directive("check-at-work", CheckAtWork)
