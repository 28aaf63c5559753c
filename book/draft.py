"""Build one chapter as a page while it is written: `make draft CHAPTER=softmax`.

The whole book runs every chapter again after any change to what chapters import. This runs one. Its links to other
chapters are dead, so warnings do not stop the build; an answer on the page does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from course import catalog
from course.folder import ROOT

VARIABLE = "BOOK_DRAFT"
FOLDER = ROOT / "build" / "draft"


def chapters() -> tuple[str, ...]:
    """Return the stems of the chapters in this build: the one that is drafted, or all."""
    return (os.environ[VARIABLE],) if os.environ.get(VARIABLE) else catalog.chapters()


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in catalog.chapters():
        print(
            f"which chapter, as in `make draft CHAPTER=softmax`? There are: {', '.join(catalog.chapters())}",
            file=sys.stderr,
        )
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "_toc.yml").write_text(f"format: jb-book\nroot: chapters/{arguments[0]}\n", "utf-8")
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", ".", "--toc", "build/draft/_toc.yml"]
    environment = {**os.environ, VARIABLE: arguments[0]}
    done = subprocess.run([*command, "--path-output", "build/draft"], cwd=ROOT, env=environment)
    if done.returncode == 0:
        print(f"Open build/draft/_build/html/chapters/{arguments[0]}.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
