"""Mistakes of an author: the book says in one line which file is wrong and why, and shows nothing of its own code."""

import subprocess
import sys

import pytest
import toy

pytestmark = pytest.mark.slow
READ = "from book import chapter_reader as r\ntry: r.read_chapter('', 'toy')\nexcept r.ChapterError as e: print(e)"


@pytest.mark.parametrize(
    "name, text, said",
    [
        (
            "solutions/toy.py",
            toy.SOLUTION.replace("add_one(x)", "add_one(x, by=1)"),
            "chapters/toy.md: the stub add_one(x) and its solution add_one(x, by=1) differ in signature",
        ),
        (
            "chapters/toy.md",
            toy.CHAPTER.replace("---\njupytext", "jupytext", 1),
            "chapters/toy.md has no front matter (a block between two lines of ---)",
        ),
        (
            "chapters/toy.md",
            toy.CHAPTER.replace("kernelspec: {", "kernelspec: {{"),
            "chapters/toy.md: cannot be read as a text notebook:",
        ),
        (
            "chapters/toy.md",
            toy.CHAPTER.replace("check(add_one)", "add_one(1)"),
            "chapters/toy.md: the next code cell after the exercise add_one must be `check(add_one)`",
        ),
        (
            "chapters/toy.md",
            toy.CHAPTER.replace('+++ {"tags": ["written"]}', "+++"),
            "chapters/toy.md must have exactly one cell tagged `written`",
        ),
        ("solutions/toy.py", None, "the chapter toy has no solutions/toy.py"),
        ("autograder/exercises/toy.py", None, "the chapter toy has no autograder/exercises/toy.py"),
        ("chapters/toy.md", None, "chapters/toy.md is missing, though _toc.yml names it"),
    ],
    ids=[
        "signature",
        "no front matter",
        "broken front matter",
        "no check",
        "no written question",
        "no solution",
        "no exercises",
        "no chapter",
    ],
)
def test_a_broken_chapter_is_named_in_one_line(tmp_path, name, text, said):
    root = toy.make(tmp_path, **({name: text} if text else {}))
    if text is None:
        (root / name).unlink()
    done = subprocess.run([sys.executable, "-c", READ], cwd=root, text=True, capture_output=True, env=toy.before(root))
    assert done.stdout.startswith(said), done.stdout + done.stderr
    assert done.stdout.count("\n") == 1 and done.stderr == ""


def test_such_a_chapter_stops_the_build_without_a_traceback(tmp_path):
    root = toy.make(tmp_path, **{"solutions/toy.py": toy.SOLUTION.replace("add_one(x)", "add_one(x, by=1)")})
    done = toy.build(root)
    log = done.stdout + done.stderr
    assert done.returncode != 0
    assert "chapters/toy.md: the stub add_one(x) and its solution add_one(x, by=1) differ in signature" in log
    assert "Traceback" not in log and "book/chapter_reader.py" not in log


def test_warnings_name_the_page_and_stop_the_build(tmp_path):
    root = toy.make(
        tmp_path,
        **{
            "chapters/toy.md": toy.CHAPTER.replace(
                "The end.",
                "\n".join(
                    [
                        "See {ref}`there <nowhere>` and {cite:p}`nobody1999`, where $\\attention{x}$.",
                        "",
                        ":::{curtain}",
                        "Closed.",
                        ":::",
                        "",
                        *2 * [":::{quiz} Is it shut?", "- [x] yes :: It is.", "- [ ] no :: Look.", ":::", ""],
                    ]
                ),
            )
        },
    )
    done = toy.build(root, "-W", "-n", "--keep-going")
    log = done.stdout + done.stderr
    assert done.returncode != 0
    for said in ("'curtain'", "nowhere", "nobody1999", "attention' is not known", "asks the same twice: Is it shut?"):
        assert any("chapters/toy.md:" in line and said in line for line in log.splitlines()), log[-3000:]
