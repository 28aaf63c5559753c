"""The book as a zip: the same bytes for the same site, and everything works where it is unpacked."""

import zipfile

import pytest

from book import archive
from book.site import live_model, search
from tests.conftest import write_files


@pytest.fixture(scope="module")
def packed(toy_site, tmp_path_factory):
    return archive.write(toy_site, tmp_path_factory.mktemp("dist") / "attention-book.zip")


def test_it_holds_one_folder_and_the_same_site_gives_the_same_bytes(packed, toy_site, tmp_path):
    names = zipfile.ZipFile(packed).namelist()
    assert all(name.startswith("attention-book/") for name in names)
    assert {"attention-book/index.html", "attention-book/notebooks/toy.ipynb"} <= set(names)
    assert archive.write(toy_site, tmp_path / "attention-book.zip").read_bytes() == packed.read_bytes()


def test_without_a_book_it_says_what_to_do(tmp_path, capsys):
    assert archive.main([str(tmp_path)]) == 2
    assert f"there is no book in {tmp_path}: run make book first" in capsys.readouterr().err


def test_unpacked_in_another_folder_it_reads_moves_and_searches(packed, tmp_path, open_page):
    folder = tmp_path / "a folder of mine"
    zipfile.ZipFile(packed).extractall(folder)
    page = open_page((folder / "attention-book" / "index.html").as_uri())
    page.locator("article a.reference", has_text="Toy").click()
    page.locator("[data-widget=counter]").first.click()
    assert page.locator("[data-widget=counter]").first.inner_text().startswith("count 8")
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('16px \"Book Mathematics\"', '𝑥'))")
    link = page.locator(".chapter-download a").first.evaluate("(link) => link.href")
    assert (folder / "attention-book/notebooks/toy.ipynb").as_uri() == link
    for word in ("add_one", "largest"):
        page.goto((folder / "attention-book" / "search.html").as_uri() + f"?q={word}")
        page.locator("#search-results a[href*='chapters/toy.html']").first.wait_for()


def test_what_pages_may_only_fetch_over_http_is_left_out(tmp_path):
    names = ("index.html", f"{live_model.PIECES}/layer.bin", f"{search.FOLDER}/index")
    write_files(tmp_path / "site", dict.fromkeys(names, "x"))
    packed = archive.write(tmp_path / "site", tmp_path / "book.zip")
    assert zipfile.ZipFile(packed).namelist() == ["book/index.html"]
