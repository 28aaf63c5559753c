"""Pack the built book into one file, to read without a network.

`python -m book.archive` writes dist/attention-book.zip. Unpack it anywhere and open `index.html`. The same site gives
the same bytes.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from book.site import answers, live_model, search
from course.files import add_to_zip, replacing
from course.folder import ROOT

NAME = "attention-book"
LEFT_OUT = {".buildinfo", "objects.inv", "404.html", "answers.html"}  # for servers and for other builds
# After the reports: an index, a model and Python, which pages may only fetch over http.
FOLDERS_LEFT_OUT = ("reports/", f"{search.FOLDER}/", f"{live_model.FOLDER}/", f"{answers.FOLDER}/")


def write(site: Path, target: Path) -> Path:
    """Pack a built site, in one top folder. Raises FileNotFoundError if no book is there."""
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"there is no book in {site}: run make book first")
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file, zipfile.ZipFile(file, "w") as archive:
        for path in sorted(site.rglob("*")):
            name = path.relative_to(site).as_posix()
            if path.is_file() and name not in LEFT_OUT and not name.startswith(FOLDERS_LEFT_OUT):
                add_to_zip(archive, f"{target.stem}/{name}", path.read_bytes())
    return target


def main(arguments: list[str]) -> int:
    if len(arguments) > 1:
        print("usage: python -m book.archive [FOLDER OF THE BUILT SITE]", file=sys.stderr)
        return 2
    site = Path(arguments[0]) if arguments else ROOT / "_build" / "html"
    name = f"{NAME}-self-study" if "self-study" in site.parts else NAME
    try:
        path = write(site, ROOT / "dist" / f"{name}.zip")
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB; unpack it and open {name}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
