"""An exercise on its page: a card with the contract, everything else folded, and no check that passes unasked."""

import nbformat
import pytest

from book.chapter_pages import exercise_cards
from course import catalog, chapter

LAYER = '''\
class FeedForward(nn.Module):
    """Two maps with a switch in between,
    for each token alone.

    d_model: width of a token
    """

    def __init__(self, d_model: int, d_ff: int = 4):
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Do it."""
        raise NotImplementedError
'''


def test_the_contract_of_a_class_has_the_signatures_of_its_methods_and_the_first_sentence():
    assert exercise_cards.contract(LAYER) == (
        [
            "class FeedForward(nn.Module)",
            "__init__(d_model: int, d_ff: int=4)",
            "forward(x: torch.Tensor) -> torch.Tensor",
        ],
        "Two maps with a switch in between, for each token alone.",
    )


def test_every_exercise_of_the_course_has_a_contract():
    for stem in catalog.chapters():
        read = chapter.read(stem)
        for found in read.exercises:
            signatures, sentence = exercise_cards.contract(read.notebook.cells[found.stub].source)
            assert found.name in signatures[0] and len(sentence.split()) > 2


@pytest.mark.slow
def test_a_card_has_contract_minutes_and_notebook_and_no_result_of_a_check(toy_site):
    page = (toy_site / "chapters/toy.html").read_text("utf-8")
    card = page[page.index('id="exercise-add_one"') : page.index("I have done")]
    for said in ("<code>add_one(x)</code>", "<p>One more than x.</p>", "Estimate: 3 minutes", "../notebooks/toy.ipynb"):
        assert said in card[: card.index("<details>")]
    assert "<summary>The cell to fill in, and a hint</summary>" in card
    assert card.index("<summary>") < card.index("NotImplementedError") < card.index("Think of the number after it.")
    assert 'class="attn-check"' not in page and "1 of 1 passed" not in page
    notebook = nbformat.read(toy_site / "notebooks/toy.ipynb", as_version=4)
    assert "check(add_one)" in [cell.source for cell in notebook.cells]


def test_a_link_to_an_exercise_opens_its_card_and_a_link_into_it_too(toy_site, toy_page):
    page = toy_page
    stub = page.get_by_text("raise NotImplementedError")
    assert not stub.is_visible() and page.get_by_text("One more than x.").first.is_visible()
    page.evaluate("location.hash = '#exercise-add_one'")
    stub.wait_for(state="visible")
    page.locator(".exercise-card > details > summary").press("Enter")  # by keyboard
    assert not stub.is_visible()
    page.goto(f"{toy_site.as_uri()}/index.html")
    page.goto(f"{toy_site.as_uri()}/chapters/toy.html#exercise-add_one")
    stub.wait_for(state="visible")
