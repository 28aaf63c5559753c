"""404.html: whole at any depth of the address, with the way to all chapters and to the search."""


def test_an_unknown_address_shows_a_whole_page_with_ways_on(toy_site, serve_packed, watched):
    address, sent = serve_packed(toy_site)
    seen = watched()
    answer = seen.page.goto(f"{address}/chapters/old/deep/page.html?x=1")
    seen.errors.clear()  # the console tells of the answer 404 itself
    assert answer.status == 404
    assert seen.page.get_by_role("heading", name="There is no such page").is_visible()
    assert {path for path in sent if path.startswith("/chapters")} == {"/chapters/old/deep/page.html"}
    assert "/_static/book.css" in sent and all((toy_site / path[1:]).is_file() for path in sent if "_static" in path)
    seen.page.locator("article a", has_text="Toy: adding one").click()
    assert seen.page.url == f"{address}/chapters/toy.html"
    seen.page.goto(f"{address}/nowhere")
    seen.errors.clear()
    seen.page.get_by_role("searchbox", name="Search the book").fill("add_one")
    seen.page.get_by_role("searchbox", name="Search the book").press("Enter")
    seen.page.locator("#search-results a[href*='chapters/toy.html']").first.wait_for()
    seen.assert_clean()
