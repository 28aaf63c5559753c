"""Write `sitemap.xml` and `robots.txt`, where the site has an address: both need absolute addresses."""

from __future__ import annotations

from html import escape
from pathlib import Path

from book.pages import metadata

NOT_LISTED = ("404", "genindex", "search")


def write(app, exception) -> None:
    """Write both files, with all pages that a reader may look for."""
    base = metadata.base_url(app.config) if not exception and app.builder.format == "html" else ""
    if not base:
        return
    out = Path(app.outdir)
    pages = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.html") if "_static" not in path.parts)
    listed = "".join(
        f"<url><loc>{escape(base + page)}</loc></url>\n"
        for page in pages
        if page.removesuffix(".html") not in NOT_LISTED
    )
    (out / "sitemap.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{listed}</urlset>\n',
        "utf-8",
    )
    (out / "robots.txt").write_text(f"User-agent: *\nAllow: /\nSitemap: {base}sitemap.xml\n", "utf-8")
