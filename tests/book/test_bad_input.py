"""Mistakes of an author: the book says in one line which file is wrong and why, and shows nothing of its own code."""

import subprocess
import sys

import pytest
import toy

pytestmark = pytest.mark.slow
READ = """\
from book.chapter_pages.chapter_reader import ChapterError, read_chapter
try: read_chapter('', 'toy')
except ChapterError as error: print(error)
"""


BROKEN = {  # mistake -> file, text in it, text that replaces it (nothing: no file), message
    "signature": ("solutions/toy.py", "add_one(x)", "add_one(x, by=1)", "its solution add_one(x, by=1) differ"),
    "front matter": ("chapters/toy.md", "---\njupytext", "jupytext", " has no front matter (a block between two lines"),
    "metadata": ("chapters/toy.md", "kernelspec: {", "kernelspec: {{", ": cannot be read as a text notebook:"),
    "check": ("chapters/toy.md", "check(add_one)", "add_one(1)", "after the exercise add_one must be `check(add_one)`"),
    "question": ("chapters/toy.md", '+++ {"tags": ["written"]}', "+++", "exactly one cell tagged `written`"),
    "solution": ("solutions/toy.py", "", None, "the chapter toy has no solutions/toy.py"),
    "exercises": ("course/exercises/toy.py", "", None, "the chapter toy has no course/exercises/toy.py"),
    "chapter": ("chapters/toy.md", "", None, "chapters/toy.md is missing, though _toc.yml names it"),
}


@pytest.mark.parametrize("name, before, after, said", BROKEN.values(), ids=BROKEN)
def test_a_broken_chapter_is_named_in_one_line(tmp_path, name, before, after, said):
    root = toy.make(tmp_path)
    text = (root / name).read_text("utf-8")
    assert before in text
    (root / name).unlink()
    if after is not None:
        (root / name).write_text(text.replace(before, after, 1), "utf-8")
    done = subprocess.run([sys.executable, "-c", READ], cwd=root, text=True, capture_output=True, env=toy.before(root))
    assert said in done.stdout, done.stdout + done.stderr
    assert done.stdout.startswith(("chapters/toy.md", "the chapter toy"))
    assert done.stdout.count("\n") == 1 and done.stderr == ""


@pytest.mark.parametrize(
    "solution, said",
    [
        (toy.SOLUTION.replace("add_one(x)", "add_one(x, by=1)"), "add_one(x, by=1) differ in signature"),
        (toy.SOLUTION.replace("add_one", "add_two"), "add_one"),
    ],
)
def test_such_a_chapter_stops_the_build_without_a_traceback(tmp_path, solution, said):
    log = toy.build(toy.make(tmp_path, **{"solutions/toy.py": solution}), works=False)
    assert said in log
    assert "Traceback" not in log and "book/chapter_reader.py" not in log


TROUBLE = """\
See {ref}`there <nowhere>`, where $\\attention{x}$.

:::{curtain}
Closed.
:::
"""
TWICE = """
:::{quiz} Is it shut?
- [x] yes :: It is.
- [ ] no :: Look.
:::
"""


def test_warnings_name_the_page_and_stop_the_build(again):
    (again / "chapters/toy.md").write_text(toy.CHAPTER.replace("The end.", TROUBLE + 2 * TWICE))
    log = toy.build(again, *toy.STRICT, works=False)
    for said in ("'curtain'", "nowhere", "attention' is not known", "asks the same twice: Is it shut?"):
        assert any("chapters/toy.md:" in line and said in line for line in log.splitlines()), log[-3000:]


@pytest.mark.long
def test_a_citation_without_an_entry_names_the_page_and_stops_the_build(again):
    (again / "chapters/toy.md").write_text(toy.CHAPTER.replace("The end.", "See {cite:p}`nobody1999`."))
    log = toy.build(again, *toy.STRICT, works=False)
    assert "Traceback" not in log
    assert "chapters/toy.md: references.bib has no entry 'nobody1999'" in log, log[-3000:]
