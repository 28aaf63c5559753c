"""Write the site's fonts for text, mathematics and the theme's icons, with the glyphs that the book's pages show.

Source Sans comes with the package `font-source-sans-pro`, STIX Two Math with `ziamath`, the icons (Font Awesome) with
the theme. All are under the SIL Open Font License, which lets them be cut down and shipped; what is cut down from
Source Sans may not keep its name.
"""

from __future__ import annotations

import html
import importlib.metadata
import logging
import re
from pathlib import Path

import pydata_sphinx_theme
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

TEXT = {
    "fonts/text.woff2": "SourceSansPro-Regular.ttf",
    "fonts/text-italic.woff2": "SourceSansPro-It.ttf",
    "fonts/text-bold.woff2": "SourceSansPro-Semibold.ttf",
}
NAME = "Book Text"  # of the family in the style sheet, and in the files
MATHEMATICS = "fonts/mathematics.woff2"
ICONS = "vendor/fontawesome/webfonts/fa-solid-900"
THEME = "styles/pydata-sphinx-theme.css"
ICON = re.compile(r"\bfa-([a-z0-9-]+)")
ICON_RULE = re.compile(r"((?:\.fa-[a-z0-9-]+:before,?)+)\{content:\"\\([0-9a-f]+)\"\}")
FONT_FACE = re.compile(r"@font-face\{[^}]*\}")
DRAWN_BY_STYLE = re.compile(r"[\ue000-\uf8ff]|\\([ef][0-9a-f]{3})\b")  # icons are in Unicode's private area
RADICAL = 0x221A
IN_FORMULAS = ("ssty", "dtls", "flac")  # OpenType features of formulas: forms for indices, dotless and flat accents
IN_TEXT = ("kern", "mark", "ccmp", "tnum", "lnum")  # OpenType features of text: spacing, accents, figures of one width


def write_fonts(app, exception) -> None:
    """Look at every page, and write the fonts and the theme's style sheet for what they show."""
    if exception or app.builder.format != "html":
        return
    logging.getLogger("fontTools").setLevel("WARNING")  # below that it logs every table
    out = Path(app.outdir)
    pages = [page.read_text("utf-8") for page in [*out.rglob("*.html"), *(out / "_static" / "widgets").glob("*.js")]]
    for name, file in TEXT.items():
        write(text(file, set("".join(map(html.unescape, pages)))), out / "_static" / name)
    shown = set("".join(letters(page) for page in pages))
    if shown:
        write(mathematics(shown), out / "_static" / MATHEMATICS)
    scripts = [script.read_text("utf-8") for script in (out / "_static" / "scripts").glob("*.js")]
    keep_icons(out / "_static", {name for text in pages + scripts for name in ICON.findall(text)})


def letters(page: str) -> str:
    """Return the characters of a page's formulas, and the slanted letters with which variables are drawn."""
    text = html.unescape(re.sub(r"<[^>]*>", "", "".join(re.findall(r"<math.*?</math>", page, re.DOTALL))))
    return text + "".join(map(slanted, text))


def slanted(letter: str) -> str:
    """Return the mathematical italic form that a browser draws for `<mi>x</mi>`."""
    for first, last, start in (("A", "Z", 0x1D434), ("a", "z", 0x1D44E), ("Α", "Ω", 0x1D6E2), ("α", "ω", 0x1D6FC)):
        if first <= letter <= last:
            return "ℎ" if letter == "h" else chr(start + ord(letter) - ord(first))
    return {"∂": "𝜕", "ϵ": "𝜖", "ϑ": "𝜗", "ϕ": "𝜙", "ϱ": "𝜚", "ϖ": "𝜛", "ı": "𝚤", "ȷ": "𝚥"}.get(letter, "")


def shipped(package: str, name: str) -> TTFont:
    """Open a font file of an installed package."""
    return TTFont(next(file for file in importlib.metadata.files(package) if file.name == name).locate())


def text(file: str, letters: set[str]) -> TTFont:
    """Cut a face of Source Sans down to ASCII and these characters."""
    font = subset(shipped("font-source-sans-pro", file), {*map(ord, letters), *range(0x20, 0x7F)}, IN_TEXT)
    for record in font["name"].names:
        if record.nameID == 1:
            record.string = NAME
    return font


def mathematics(letters: set[str]) -> TTFont:
    """Cut STIX Two Math down to these characters, in all sizes that it has."""
    font = subset(shipped("ziamath", "STIXTwoMath-Regular.ttf"), {*map(ord, letters), RADICAL, *range(0x30, 0x3A)})
    narrow_radicals(font)
    return font


def subset(font: TTFont, characters: set[int], features: tuple[str, ...] = IN_FORMULAS) -> TTFont:
    options = Options(hinting=False, layout_features=[*features], name_IDs=[0, 1, 2, 5, 13, 14], notdef_outline=True)
    work = Subsetter(options)
    work.populate(unicodes=characters)
    work.subset(font)
    return font


def narrow_radicals(font: TTFont) -> None:
    """Make tall root signs as wide as the smallest. Chromium keeps room for the widest, and a gap would follow √2."""
    base, variants = font.getBestCmap()[RADICAL], font["MATH"].table.MathVariants
    tall = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(base)]
    names = {record.VariantGlyph for record in tall.MathGlyphVariantRecord}
    names |= {part.glyph for part in tall.GlyphAssembly.PartRecords}
    width = font["hmtx"][base][0]
    for name in names - {base}:
        advance, bearing = font["hmtx"][name]
        glyph = font["glyf"][name]
        glyph.coordinates.scale((width / advance, 1))
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (width, round(bearing * width / advance))


def keep_icons(static: Path, names: set[str]) -> None:
    """Keep only the named icons in the theme's font and style sheet, and drop the fonts that are left without any.

    Both are read from the installed theme, because a build in which nothing changed does not copy them again.
    """
    theme = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / "static"
    style = (theme / THEME).read_text("utf-8")
    kept: set[int] = set()

    def rule(match: re.Match) -> str:
        own = [selector for selector in match[1].split(",") if ICON.search(selector)[1] in names]
        kept.update([int(match[2], 16)] if own else [])
        return f'{",".join(own)}{{content:"\\{match[2]}"}}' if own else ""

    def face(match: re.Match) -> str:
        if ICONS not in match[0]:
            return ""
        return re.sub(r"src:[^}]*", f'src:url(../{ICONS}.woff2) format("woff2")', match[0])

    style = FONT_FACE.sub(face, ICON_RULE.sub(rule, style))
    # The icons of boxes and links are not in any page: style sheets draw them.
    for text in [style, *(sheet.read_text("utf-8") for sheet in static.rglob("*.css") if sheet != static / THEME)]:
        kept.update(int(found[1], 16) if found[1] else ord(found[0]) for found in DRAWN_BY_STYLE.finditer(text))
    (static / THEME).write_text(style, "utf-8")
    for font in (static / ICONS).parent.iterdir():
        font.unlink()
    write(subset(TTFont(theme / f"{ICONS}.woff2"), kept), static / f"{ICONS}.woff2")


def write(font: TTFont, path: Path) -> None:
    """Write the font as WOFF2. The same glyphs give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    font.flavor, font.recalcTimestamp = "woff2", False
    font.save(path)
