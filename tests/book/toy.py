"""A course of one small chapter, built with the real machinery, for tests of the book."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import write_files

ROOT = Path(__file__).resolve().parents[2]
STRICT = ("-W", "-n", "--keep-going")

CHAPTER = '''\
---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {name: python3, display_name: Python 3}
---

(toy)=
# Toy: adding one

What is one more than $x$? It is $x + 1$.

```{code-cell}
from attnlab import check
from toy_widgets import Counter
```

## Exercise: add one

```{code-cell}
:tags: [exercise]
def add_one(x):
    """One more than x."""
    raise NotImplementedError
```

```{code-cell}
check(add_one)
```

:::{dropdown} Hint 1
Think of the number after it.
:::

```{code-cell}
print("one more than 41 is", add_one(41))
```

## Two views of one counter

```{code-cell}
counter = Counter()
counter
```

```{code-cell}
counter
```

:::{quiz} What is one more than $2$?
- [ ] two :: That is the number itself.
- [x] $3$ :: Yes, `2 + 1`.
- [ ] four :: That is two more.
:::

+++ {"tags": ["written"]}

## Written question

Why is there no largest number?

+++

The end.
'''

SOLUTION = '''\
"""Reference answers."""


def add_one(x):
    """One more than x."""
    successor_of_x = x + 1  # the next number
    return successor_of_x
'''

EXERCISES = '''\
"""Exercises of the toy chapter."""

from course.kit.exercise import Exercise, Written
from solutions import toy as solutions

add_one = Exercise(solutions.add_one, section="Toy: adding one", minutes=3, difficulty=1)


@add_one.property("adds one", points=1, hint="Add one.")
def adds(rng):
    yield dict(x=int(rng.integers(1234, 98765)))


@add_one.misconception("Two were added.")
def adds_two(x):
    return x + 2


written = Written(points=1, rubric="Any reason.")
'''

WIDGET = '''\
"""A counter: a button, a number, and bytes that the page must decode."""

import anywidget
import traitlets

CODE = """
export default {
  initialize({ model }) { document.documentElement.dataset.initialized = model.get("count"); },
  render({ model, el }) {
    const button = document.createElement("button");
    const bytes = model.get("raw");
    const shown = [0, 1, 2].map((i) => bytes.getUint8(i));
    const draw = () => (button.textContent = `count ${model.get("count")}, bytes ${shown}`);
    button.dataset.widget = "counter";
    button.addEventListener("click", () => { model.set("count", model.get("count") + 1); model.save_changes(); });
    model.on("change:count", draw);
    draw();
    el.append(button);
  },
};
"""


class Counter(anywidget.AnyWidget):
    _esm = CODE
    _css = "[data-widget=counter] { outline-style: solid; }"
    count = traitlets.Int(7).tag(sync=True)
    min_height = traitlets.Int(240).tag(sync=True)
    raw = traitlets.Bytes(bytes([1, 2, 250])).tag(sync=True)
'''


TOC = """\
format: jb-book
root: index
parts:
  - caption: Chapters
    numbered: 1
    chapters:
      - file: chapters/toy
"""


def make(folder: Path, **texts: str) -> Path:
    """Write the toy course into `folder`: this checkout's machinery, and texts that may be replaced by name."""
    unused = shutil.ignore_patterns("__pycache__", "samples", "checks", "seven_tokens.npz", "gradebook.db")
    for package in ("course", "attnlab", "book"):
        shutil.copytree(ROOT / package, folder / package, ignore=unused)
    for stray in (folder / "course" / "exercises").glob("[!_]*.py"):
        stray.unlink()
    for name in ("_config.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / "references.bib").write_text("", "utf-8")
    files = {
        "index.md": "# A toy book\n\nNo mathematics here.\n\n1. {doc}`chapters/toy`\n\n"
        'Or take <a href="notebooks/attention-course.zip" download>all of it</a>.\n',
        "_toc.yml": TOC,
        "chapters/toy.md": CHAPTER,
        "solutions/__init__.py": "",
        "solutions/toy.py": SOLUTION,
        "course/exercises/toy.py": EXERCISES,
        "toy_widgets.py": WIDGET,
        "guides/students.md": "# For students\n\nUnpack, and begin.\n",
        "guides/assistants.md": "# For an assistant\n\nAsk.\n",
    }
    return write_files(folder, {**files, **texts})


def before(folder: Path) -> dict[str, str]:
    """An environment in which that folder's packages come before all others."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


def build(folder: Path, *options: str, edition: str = "", works: bool = True) -> str:
    """Run `jupyter-book build` there, with that folder's packages before this checkout's, and return what it says."""
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", ".", *options]
    said = dict(text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    done = subprocess.run(command, cwd=folder, timeout=1800, env={**before(folder), "EDITION": edition}, **said)
    assert (done.returncode == 0) == works, done.stdout[-6000:]
    return done.stdout
