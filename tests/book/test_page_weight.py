"""A page's weight: everything that its first load requests is counted, and nothing else; excess is reported."""

import logging
import random
from types import SimpleNamespace

import pytest

from book.site import page_weight
from tests.conftest import write_files


@pytest.fixture
def site(tmp_path):
    files = {
        "chapters/a.html": '<link rel="stylesheet" href="../s/a.css?v=1"><link rel="next" href="b.html">'
        '<script src="../s/a.js"></script><img src="../s/now.png"><img src="../s/later.png" '
        'loading="lazy"><noscript><img src="../s/never.png"></noscript><a href="../s/big.zip"></a>'
        '<p style="background: url(../s/back.svg)"></p><img src="data:image/png;base64,AA">',
        "s/a.css": '@import "b.css"; @import url(c.css); @font-face { src: url("f.woff") }',
        "s/b.css": "b {}",
        "s/c.css": "i { background: url(../s/icon.svg#x) }",
        "s/a.js": "import('./no.js')",
        "s/icon.svg": "<svg/>",
        "s/back.svg": "<svg/>",
        "s/now.png": "p" * 900,
        "s/f.woff": "f" * 700,
        "s/later.png": "",
        "s/never.png": "",
    }
    return write_files(tmp_path, files)


def names(site):
    return {path.name for path in page_weight.first_load(site / "chapters/a.html")}


def test_all_that_the_first_load_asks_for_is_counted_and_nothing_else(site):
    assert names(site) == {"a.html", "a.css", "b.css", "c.css", "a.js", "icon.svg", "back.svg", "now.png", "f.woff"}


def test_text_is_counted_as_it_is_packed_and_fonts_and_pictures_as_they_are(site):
    (site / "s/a.js").write_text("x" * 10_000)
    weights = {path.name: size for path, size in page_weight.first_load(site / "chapters/a.html").items()}
    assert weights["a.js"] < 200 and weights["now.png"] == 900 and weights["f.woff"] == 700


def check(site, caplog):
    with caplog.at_level(logging.WARNING):
        page_weight.check(SimpleNamespace(outdir=site, builder=SimpleNamespace(format="html")), None)
    # Where Sphinx has run in this process, its handlers put the level before each message.
    return [record.getMessage().removeprefix("WARNING: ") for record in caplog.records]


def test_a_page_within_the_budget_gives_no_warning(site, caplog):
    assert check(site, caplog) == []


def test_a_page_above_the_budget_is_a_warning_that_names_the_heaviest_files(site, caplog):
    (site / "s/now.png").write_bytes(random.Random(5).randbytes(page_weight.BUDGET))
    (warning,) = check(site, caplog)
    assert warning.startswith("chapters/a.html transfers 25") and "at most 250,000" in warning
    assert "heaviest files: s/now.png 250,000, s/f.woff 700, " in warning


def test_a_file_that_is_not_there_is_a_warning(site, caplog):
    (site / "s/f.woff").unlink()
    assert check(site, caplog) == ["chapters/a.html asks for f.woff, which is not there"]
