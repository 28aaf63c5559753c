"""Add the `quiz` directive: one question, a few choices, a word of feedback for each.

    :::{quiz} What does softmax leave unchanged?
    - [ ] the sum of the scores :: Weights sum to one; scores need not.
    - [x] the order of the scores :: Yes: exp grows with its argument.
    :::

On the page this is a group of radio buttons. Choosing one shows its feedback, announced to screen readers. Without
JavaScript the answers stay readable behind a native disclosure.
"""

from __future__ import annotations

import hashlib

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from course.errors import CourseError
from course.quiz import quiz_choices


class quiz(nodes.General, nodes.Element):  # noqa: N801  (docutils names nodes in lower case)
    pass


class quiz_question(nodes.General, nodes.TextElement):  # noqa: N801
    pass


class quiz_choice(nodes.General, nodes.TextElement):  # noqa: N801
    pass


class quiz_answers(nodes.General, nodes.Element):  # noqa: N801
    pass


class quiz_feedback(nodes.General, nodes.TextElement):  # noqa: N801
    pass


class Quiz(SphinxDirective):
    """Parse a question and its choices; anything else in the body is an error that names the line."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self):
        try:
            parsed = quiz_choices(self.arguments[0], self.content)
        except CourseError as error:
            raise self.error(str(error)) from None
        # Its key comes from its words, so that stored answers stay valid when another quiz is put before it.
        group = f"quiz-{hashlib.sha256(self.arguments[0].encode()).hexdigest()[:8]}"
        asked = self.env.temp_data.setdefault("quizzes", set())
        if group in asked:
            raise self.error(f"this page asks the same twice: {self.arguments[0]}")
        asked.add(group)
        box, answers = quiz(group=group), quiz_answers()
        box += quiz_question("", "", *self.inline(self.arguments[0]))
        for number, (right, text, feedback) in enumerate(parsed):
            box += quiz_choice("", "", *self.inline(text), group=group, number=number, right=right)
            named = nodes.inline(
                "", "", nodes.strong("", "", *self.inline(text)), nodes.Text(": "), classes=["quiz-named"]
            )
            answers += quiz_feedback("", "", named, *self.inline(feedback), number=number, right=right)
        box += answers
        return [box]

    def inline(self, text: str) -> list[nodes.Node]:
        parsed, messages = self.state.inline_text(text.strip(), self.lineno)
        return [*parsed, *messages]


def visit_quiz(self, node):
    self.body.append(f'<fieldset class="quiz" id="{node["group"]}">\n')


def depart_quiz(self, node):
    self.body.append('<p class="quiz-result" role="status" aria-live="polite"></p>\n</fieldset>\n')


def visit_question(self, node):
    self.body.append("<legend>")


def depart_question(self, node):
    self.body.append("</legend>\n")


def visit_choice(self, node):
    self.body.append(
        f'<label class="quiz-choice"><input type="radio" name="{node["group"]}" value="{node["number"]}"'
        f' autocomplete="off"/> <span>'
    )


def depart_choice(self, node):
    self.body.append("</span></label>\n")


def visit_answers(self, node):
    self.body.append('<details class="quiz-answers"><summary>Show the answer</summary>\n')


def depart_answers(self, node):
    self.body.append("</details>\n")


def visit_feedback(self, node):
    word = "Right" if node["right"] else "Not this one"
    self.body.append(
        f'<p data-choice="{node["number"]}" data-right="{str(node["right"]).lower()}">'
        f'<span class="quiz-verdict">{word}.</span> '
    )


def depart_feedback(self, node):
    self.body.append("</p>\n")


def setup(app) -> None:
    for node, visit, depart in (
        (quiz, visit_quiz, depart_quiz),
        (quiz_question, visit_question, depart_question),
        (quiz_choice, visit_choice, depart_choice),
        (quiz_answers, visit_answers, depart_answers),
        (quiz_feedback, visit_feedback, depart_feedback),
    ):
        app.add_node(node, html=(visit, depart))
    app.add_directive("quiz", Quiz)
