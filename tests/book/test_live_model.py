"""The engine is part of the site only: nothing of it is loaded with a page, and a zip leaves it out."""

from __future__ import annotations

from book.site import live_model, page_weight
from course.folder import ROOT
from tests.book.pages import CHAPTERS


def test_the_engine_is_in_the_site_as_it_is_in_the_repository(site):
    folder, source = site / live_model.FOLDER, ROOT / "live" / "engine"
    served = {path.name for path in folder.iterdir() if path.is_file()}
    assert served == {path.name for path in source.iterdir() if path.suffix in (".js", ".wasm")}
    assert all((folder / name).read_bytes() == (source / name).read_bytes() for name in served)


def test_no_page_loads_it_by_itself(site):
    for page in CHAPTERS:
        loaded = page_weight.first_load(site / f"{page}.html")
        assert [path for path in loaded if live_model.FOLDER in path.as_posix()] == []
