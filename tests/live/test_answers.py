"""In a browser, Python for answers says what `check` says natively, and no cell ends it for good."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import os
from pathlib import Path

import pytest

from attnlab.checking import code_slice
from course import catalog
from course.folder import ROOT
from course.kit.hunt import Hunt, without_hunts
from live import python_pieces
from tests.conftest import Watched, each_chapter, new_page

pytestmark = [pytest.mark.slow, pytest.mark.browser]

MISTAKES = 5  # of each exercise
ASK = """async (question) => {
  const { askPython, filled } = await import("/_static/python/answers.js");
  const given = [{ stem: question.stem, answers: question.answers ?? {} }, ...(question.others ?? [])];
  const notebooks = await Promise.all(given.map(async ({ stem, answers }) =>
    ({ stem, notebook: await filled(stem, answers) })));
  return askPython({ ...question, notebooks });
}"""


@pytest.fixture(scope="module")
def session():
    """`live/python/session.py` as a module, natively."""
    spec = importlib.util.spec_from_file_location("session", python_pieces.SOURCE / "session.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(browser, python_site, serve):
    """A page of a site with Python; Python is loaded once for all tests of this file that do not end it."""
    page = new_page(browser)
    seen = Watched(page)
    page.goto(serve(python_site))
    yield page
    seen.assert_clean()
    page.context.close()


@pytest.fixture
def ask(page):
    def go(source, stem="softmax", name="softmax", kind="check", **more):
        return page.evaluate(ASK, {"kind": kind, "stem": stem, "name": name, "source": source, **more})

    return go


@pytest.fixture
def natively(session, python_site, tmp_path, monkeypatch):
    monkeypatch.setattr(session, "FOLDER", tmp_path)
    monkeypatch.chdir(tmp_path)

    def go(source, stem, name):
        session.put(stem, (python_site / "notebooks" / f"{stem}.ipynb").read_text("utf-8"))
        return session.check(stem, name, source)

    here = os.getcwd()
    yield go
    os.chdir(here)


def excerpt(module: str, name: str) -> str:
    path = Path(inspect.getsourcefile(importlib.import_module(module)))
    return code_slice.excerpt(path.read_text("utf-8"), str(path), [name])


def right_answers(stem: str, name: str):
    yield excerpt(f"solutions.{stem}", name)
    for answer in importlib.import_module(f"tests.alternatives.{stem}").ALTERNATIVES.get(name, []):
        other = answer.__name__
        source = excerpt(answer.__module__, other)
        if not {"torch", "solutions"} & set(source.replace(".", " ").split()):
            yield f"{source}\n{name} = {other}\n{name}.__name__ = {name!r}\n"


def mistakes(stem: str, name: str):
    solutions = (ROOT / "solutions" / f"{stem}.py").read_text("utf-8")
    imports = [line for line in solutions.splitlines() if line.startswith(("import", "from"))]
    for mistake in catalog.exercise(name).misconceptions:
        lines = linecache.cache.get(mistake.wrong.__code__.co_filename)
        if lines and f"<{name}, mistake" in lines[3]:
            yield "\n".join(imports) + "\n" + "".join(lines[2])


COVERED = set(python_pieces.chapters(["numpy"]))


def covered(parameter) -> bool:
    return getattr(parameter, "values", (parameter,))[0] in COVERED


@pytest.mark.parametrize("stem", list(filter(covered, each_chapter("softmax"))))
def test_every_exercise_is_judged_as_natively(stem, ask, natively):
    for name, exercise in catalog.exercises_of(stem).items():
        needed = without_hunts(catalog.exercises_of(stem)) if isinstance(exercise, Hunt) else []
        answers = {other: excerpt(f"solutions.{stem}", other) for other in needed}
        for source in list(right_answers(stem, name))[:3]:
            got = ask(source, stem, name, answers=answers)
            assert got.get("passed"), f"{name}: {got}\n{source}"
            assert got["points"] == got["maxPoints"]
        for source in list(mistakes(stem, name))[:MISTAKES]:
            assert ask(source, stem, name)["html"] == natively(source, stem, name)["html"], f"{name}:\n{source}"


def test_a_cell_has_the_names_of_the_cells_above_and_shows_what_it_prints(ask):
    got = ask("print(np.round(np.exp(1.0), 3))\nnp.arange(3)", kind="run")
    assert (got["printed"], got["shown"], got["error"]) == ("2.718\n", "array([0, 1, 2])", "")


def test_an_answer_may_use_an_earlier_answer_of_the_reader(ask):
    earlier = excerpt("solutions.softmax", "softmax")
    source = "def log_softmax(x, axis=-1):\n    return np.log(softmax(x, axis))"
    assert "softmax" in ask(source, name="log_softmax", answers={"softmax": earlier})["html"]
    assert "not done" in ask(source, name="log_softmax")["html"]


ENDS = {
    "a cell that does not parse": ("def softmax(x:\n    return x", "Line 1"),
    "no such name": ("def softmax(x, axis=-1):\n    return x\nsoftmax(y)", "NameError"),
    "a module that is not here": ("import torch", "torch is not available on this page"),
    "exit": ("import sys\nsys.exit()", "called exit"),
    "input": ("input('?')", "nobody can be asked"),
    "recursion": ("def f(n):\n    return f(n + 1)\nf(0)", "calls itself"),
    "three gigabytes": ("np.ones(400_000_000)", "too big"),
    "two gigabytes": ("[np.ones(120_000_000) for _ in range(9)]", "MemoryError"),
    "another name": ("def soft(x):\n    return x", "defines no softmax"),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_ends_a_cell_is_said_in_words_and_the_next_check_works(ask, case):
    source, words = ENDS[case]
    got = ask(source)
    assert words in got["error"], got
    assert ask(excerpt("solutions.softmax", "softmax"))["passed"]


@pytest.mark.parametrize("source", ["print('x' * 10_000_000)", "for i in range(1_000_000):\n    print(i)"])
def test_a_flood_of_output_is_cut_and_says_so(ask, source):
    got = ask(source, kind="run")
    assert len(got["printed"]) < 30_000 and "more characters" in got["printed"]


def test_a_loop_without_end_is_ended_by_the_check_and_its_line_is_named(ask):
    got = ask("def softmax(x, axis=-1):\n    while True:\n        pass")
    assert "Still running after 10 seconds in line 3" in got["html"]
    assert "press Stop" in got["html"]


def stop(page):
    """Stop a loop without an end; returns what the question got for an answer."""
    return page.evaluate(
        """async () => {
          const { askPython, filled, stopPython } = await import("/_static/python/answers.js");
          const notebooks = [{ stem: "softmax", notebook: await filled("softmax", {}) }];
          const question = { kind: "run", stem: "softmax", name: "softmax", source: "while True: pass" };
          const asked = askPython({ ...question, notebooks });
          stopPython();
          return await asked;
        }"""
    )


def test_stop_ends_a_loop_and_the_next_check_starts_python_again(page, ask):
    assert stop(page)["stopped"]
    assert ask(excerpt("solutions.softmax", "softmax"))["passed"]


IS_KEPT = """async (least) => {
  const cache = await caches.open("attention-python"), [entry] = await cache.keys();
  return Boolean(entry) && (await (await cache.match(entry)).arrayBuffer()).byteLength > least;
}"""


@pytest.mark.parametrize("broken", [False, True])
def test_python_is_kept_once_it_was_started_and_what_is_broken_is_made_again(page, ask, broken):
    assert ask("print(1 + 1)", kind="run")["printed"] == "2\n"
    page.wait_for_function(IS_KEPT, arg=10_000_000)
    if broken:
        page.evaluate("""async () => {
            const cache = await caches.open("attention-python"), [entry] = await cache.keys();
            await cache.put(entry, new Response("no Python"));
        }""")
    stop(page)
    assert ask(excerpt("solutions.softmax", "softmax"))["passed"]
    page.wait_for_function(IS_KEPT, arg=10_000_000)
