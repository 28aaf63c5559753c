"""Folded cells are named for what is in them."""

import pytest
from docutils import nodes, utils
from myst_nb.sphinx_ import HideCodeCellNode, HideInputCells

from book.chapter_pages import folded_cells

TABLE = "tokens   updates   share kept\n     7         6      0.94148\n   100        99      0.36973\n"


def part(*children, **attributes):
    return nodes.container("", *children, **attributes)


OUTPUTS = {
    "figure": part(nodes.image(uri="a.svg")),
    "figures": part(nodes.image(uri="a.svg"), nodes.image(uri="b.svg")),
    "widget": part(
        part(nodes.raw("", '<script type="application/vnd.jupyter.widget-view+json">'), nodes.image(uri="a"))
    ),
    "error": part(nodes.literal_block("", "ValueError: no", classes=["output", "traceback"])),
    "table": part(nodes.literal_block("", TABLE)),
    "numbers": part(nodes.literal_block("", "length of a = 5.0\n")),
    "": None,
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_an_output_is_what_it_shows(kind):
    assert folded_cells.contents(OUTPUTS[kind]) == kind


def test_a_table_as_html_is_a_table_and_a_print_after_a_question_is_its_answer():
    assert folded_cells.contents(part(part(nodes.raw("", "<table><tr></tr></table>")))) == "table"
    assert folded_cells.contents(OUTPUTS["numbers"], asked=True) == "answer"
    assert folded_cells.contents(OUTPUTS["table"], asked=True) == "table"


@pytest.mark.parametrize(
    "source, made, name",
    [
        ("plt.show()", "figure", "Code for this figure"),
        ("plt.show()", "figures", "Code for these figures"),
        ("print(1)", "numbers", "Code for these numbers"),
        ("def one():\n    pass\n\n\nclass Two:\n    pass", "", "Code of one and Two"),
        ("x = 1", "", "Code"),
        ("%timeit 1", "", "Code"),
    ],
)
def test_code_is_named_for_what_it_makes_or_defines(source, made, name):
    assert folded_cells.names_of_code(source, made) == name


@pytest.mark.parametrize(
    "before, made, this",
    [("And now?", "answer", "this answer"), ("And so.", "numbers", "these numbers")],
)
def test_both_folded_parts_of_a_cell_have_names(before, made, this):
    document = utils.new_document("chapters/toy.md")
    prompts = dict(prompt_show="Show code cell {type}", prompt_hide="Hide code cell {type}")
    cell = part(nb_element="cell_code", hide_mode="input+output", **prompts)
    cell += part(nodes.literal_block("", "print(1)"), nb_element="cell_code_source")
    cell += part(nodes.literal_block("", "1"), nb_element="cell_code_output")
    document += [nodes.paragraph("", before), cell]
    for transform in (HideInputCells, folded_cells.NameFoldedCells):
        transform(document).run()
    code, output = document.findall(HideCodeCellNode)
    assert [output["prompt_show"], output["prompt_hide"]] == [f"Reveal the {made}", f"Hide the {made}"]
    assert code["prompt_show"] == code["prompt_hide"] == f"Code for {this}"
