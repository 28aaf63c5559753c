"""Old addresses of a chapter that was divided, and of sections that are on another page now."""

import pytest

from course import catalog

LED_ON = {
    "modern_attention.html#modern-attention-latent": "long_context.html#long-context-latent",
    "modern_attention.html#exercise-the-choice-of-experts": "mixture_of_experts.html#exercise-the-choice-of-experts",
    "modern_attention.html#six-models": "todays_models.html#six-models",
    "masks.html#the-loss-of-a-language-model": "next_token.html#the-loss-of-a-language-model",
}


@pytest.mark.parametrize("old", LED_ON)
def test_the_address_of_a_section_that_has_moved_leads_to_it(site, open_page, old):
    page = open_page((site / "chapters" / "softmax.html").as_uri())
    page.goto((site / "chapters").as_uri() + f"/{old}", wait_until="commit")
    page.wait_for_url(f"**/{LED_ON[old]}")
    assert page.locator(f"#{LED_ON[old].partition('#')[2]}").count() == 1


def test_a_section_that_has_stayed_is_where_it_was(site, open_page):
    page = open_page((site / "chapters" / "masks.html").as_uri() + "#a-window-that-slides-along")
    assert page.url.endswith("masks.html#a-window-that-slides-along")


@pytest.mark.parametrize("old", sorted(set(catalog.DIVIDED) - set(catalog.chapters())))
def test_a_chapter_that_is_gone_names_those_that_have_its_sections(site, open_page, old):
    page = open_page((site / "chapters" / f"{old}.html").as_uri())
    links = page.locator("article li a").evaluate_all("(links) => links.map((link) => link.getAttribute('href'))")
    assert links == [f"{stem}.html" for stem in catalog.DIVIDED[old]]
