"""The site's fonts hold what the pages show, and little else."""

import io

import pytest
from fontTools.ttLib import TTFont

from book.site import fonts

PAGE = (
    "<p>Not this: ∫</p><math><mi>x</mi><mo>≤</mo><msqrt><mi>h</mi></msqrt><mi>α</mi></math>"
    "<math><mn>&#x221E;</mn></math>"
)


@pytest.fixture(scope="module")
def font():
    return fonts.mathematics(set(fonts.letters(PAGE)))


def test_the_letters_of_formulas_are_kept_upright_and_slanted(font):
    kept = set(map(chr, font.getBestCmap()))
    assert set("x𝑥≤hℎα𝛼∞√0123456789") <= kept
    assert not set("∫Q") & kept


def test_root_signs_of_all_heights_are_there_and_as_wide_as_the_smallest(font):
    base, variants = font.getBestCmap()[fonts.RADICAL], font["MATH"].table.MathVariants
    tall = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(base)]
    names = [record.VariantGlyph for record in tall.MathGlyphVariantRecord]
    names += [part.glyph for part in tall.GlyphAssembly.PartRecords]
    assert len(names) > 4 and {font["hmtx"][name][0] for name in names} == {font["hmtx"][base][0]}


def test_the_same_letters_give_the_same_bytes(font, tmp_path):
    fonts.write(font, tmp_path / "a.woff2")
    fonts.write(fonts.mathematics(set(fonts.letters(PAGE))), tmp_path / "b.woff2")
    content = (tmp_path / "a.woff2").read_bytes()
    assert content == (tmp_path / "b.woff2").read_bytes()
    assert len(content) < 60_000


def test_icons_that_neither_page_nor_style_shows_are_dropped_from_both(tmp_path):
    (tmp_path / "styles").mkdir()
    (tmp_path / "vendor/fontawesome/webfonts").mkdir(parents=True)
    (tmp_path / "vendor/fontawesome/webfonts/fa-brands-400.ttf").write_bytes(b"")
    fonts.keep_icons(tmp_path, set())
    (kept,) = (tmp_path / "vendor/fontawesome/webfonts").iterdir()
    by_style = set(TTFont(io.BytesIO(kept.read_bytes())).getBestCmap())
    fonts.keep_icons(tmp_path, {"bars", "moon"})
    (kept,) = (tmp_path / "vendor/fontawesome/webfonts").iterdir()
    assert kept.stat().st_size < 4_000
    font = TTFont(io.BytesIO(kept.read_bytes())).getBestCmap()
    assert 0xF05A in by_style and 0xF135 not in font  # that of a note; no rocket
    assert set(font) - by_style == {0xF0C9, 0xF186}
    style = (tmp_path / fonts.THEME).read_text("utf-8")
    assert ".fa-moon:before" in style and ".fa-rocket:before" not in style
    assert style.count("@font-face") == 1 and f"{fonts.ICONS}.woff2)" in style


def test_the_text_has_ascii_and_what_the_pages_show_under_a_name_of_its_own_and_is_light():
    for file in fonts.TEXT.values():
        face = fonts.text(file, set("é−“”∞"))
        assert set(map(ord, "Az09~é−“”")) <= set(face.getBestCmap()) and ord("ж") not in face.getBestCmap()
        assert {str(record) for record in face["name"].names if record.nameID == 1} == {fonts.NAME}
        held = io.BytesIO()
        face.flavor = "woff2"
        face.save(held)
        assert len(held.getvalue()) < 30_000
