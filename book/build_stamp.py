"""Note what a built book was made from, so that the tests look at it rather than build it once more.

    python -m book.build_stamp _build/html

writes a hash of its sources beside the folder of a built site.
"""

from __future__ import annotations

import sys
from pathlib import Path

from course.files import hash_of
from course.folder import ROOT

FILES = ("_config.yml", "_toc.yml", "references.bib", "requirements.txt", "index.md", "bibliography.md")
BUILT = ("build/python/pieces.json", "build/live/manifest.json")  # what the site has beyond the book, if it was made
FOLDERS = ("chapters", "play", "appendices", "guides", "solutions", "attnlab", "course", "book")


def made_from() -> str:
    """Hash the files of this checkout that the book is made from."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    built = [path for path in map(ROOT.joinpath, BUILT) if path.is_file()]
    return hash_of(ROOT, [*map(ROOT.joinpath, FILES), *files, *built])


def path(html: Path) -> Path:
    """Return where the stamp of the site in this folder is."""
    return html.with_name(f"{html.name}.sha256")


def is_current(html: Path) -> bool:
    """Tell whether the site in this folder was made from what the checkout holds now."""
    stamp = path(html)
    return (html / "index.html").is_file() and stamp.is_file() and stamp.read_text("ascii") == made_from()


if __name__ == "__main__":
    path(Path(sys.argv[1])).write_text(made_from(), "ascii")
