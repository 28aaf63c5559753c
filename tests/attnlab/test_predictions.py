"""A reader guesses, sees, and compares; what would tell the answer waits for the guess."""

import pytest
import traitlets

from attnlab.widgets import HeadWall, SoftmaxExplorer

PAIR = ("Which weight grows?", "None of them.")


def test_a_guess_is_compared_with_the_answer(shown):
    view = shown(SoftmaxExplorer(scores=[3.0, 1.0], predictions=[PAIR, "And then?"]))
    compare = view.get_by_role("button", name="Compare")
    assert compare.is_disabled()
    view.page.get_by_label("Your guess").fill("the first")
    compare.click()
    assert view.locator(".aw-verdict").inner_text() == "You said “the first”. None of them."
    view.get_by_role("button", name="Next question").click()
    assert view.locator(".aw-verdict").inner_text() == "" and not compare.is_visible()


@pytest.mark.parametrize("how", ["guess", "look"])
def test_the_answer_on_a_widget_waits_for_a_guess_or_the_wish_to_see(shown, how):
    view = shown(HeadWall(predictions=[("How many?", "{matters} of {all}.")]))
    answer = view.locator("[data-show=matters] b")
    assert not answer.is_visible() and view.locator(".aw-summary").text_content() == ""
    if how == "look":
        view.get_by_role("button", name="Just show me").click()
    else:
        view.page.get_by_label("Your guess").fill("20")
        view.page.get_by_label("Your guess").press("Enter")
        assert view.locator(".aw-verdict").inner_text() == f"You said “20”. {answer.inner_text()} of 270."
    assert answer.is_visible() and "Head" in view.locator(".aw-summary").text_content()
    assert not view.get_by_role("button", name="Just show me").is_visible()


def test_without_questions_nothing_is_held_back(shown):
    view = shown(HeadWall())
    assert view.locator("[data-show=matters] b").is_visible()


def test_a_question_is_a_text_or_a_pair_of_texts():
    with pytest.raises(traitlets.TraitError):
        SoftmaxExplorer(predictions=[("one", "two", "three")])
