"""Label the bibliography as the text cites it ("Su et al., 2024"), and set the formulas in its titles."""

from __future__ import annotations

import collections
import re
import string

from docutils import nodes
from pybtex.plugin import register_plugin
from pybtex.style.formatting.alpha import Style as Alpha
from pybtex.style.labels import BaseLabelStyle
from sphinx.transforms.post_transforms import SphinxPostTransform

from course import plain_markdown

STYLE = "author_year"


class AuthorYearLabels(BaseLabelStyle):
    """Label entries by authors and year, with a letter after the year where two labels would be the same."""

    def format_labels(self, sorted_entries):
        cited = [plain_markdown.bibliography()[entry.key].cited for entry in sorted_entries]
        count, met = collections.Counter(cited), collections.Counter()
        for words in cited:
            yield words + (string.ascii_lowercase[met[words]] if count[words] > 1 else "")
            met[words] += 1


class AuthorYear(Alpha):
    default_label_style = AuthorYearLabels


class FormulasOfTitles(SphinxPostTransform):
    """Set text between dollar signs in an entry as a formula. BibTeX passes it through unchanged."""

    default_priority = 6  # just after the entries are made
    formats = ("html",)

    def run(self, **kwargs) -> None:
        for citation in list(self.document.findall(nodes.citation)):
            for text in [text for text in citation.findall(nodes.Text) if "$" in text]:
                parts = re.split(r"\$([^$]+)\$", text)
                new = [nodes.math("", part) if i % 2 else nodes.Text(part) for i, part in enumerate(parts) if part]
                text.parent.replace(text, new)


def plain_titles(app, doctree, docname) -> None:
    """Drop the dollar signs from the title that a citation shows under a pointer: it can hold no formula."""
    for link in doctree.findall(nodes.reference):
        if "$" in link.get("reftitle", ""):
            link["reftitle"] = re.sub(r"\$([^$]+)\$", r"\1", link["reftitle"])


def setup(app) -> None:
    register_plugin("pybtex.style.formatting", STYLE, AuthorYear)
    app.add_post_transform(FormulasOfTitles)
