"""The leak scan: an answer is found in whatever form it would be published."""

import gzip
import io
import json
import zipfile

import numpy as np
import pytest
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from attnlab.checking import codec
from book import leaks
from tests.conftest import write_files

SOLUTION = '''\
"""Reference answers."""


def double(x, factor=2):
    """Twice x, which this docstring may say."""
    # a comment that says how
    doubled_value = x * factor  # by multiplying
    if doubled_value < 0 and factor > 0:
        raise ValueError("negative")
    return max(
        doubled_value,
        -1.0)
'''
LINE = "doubled_value = x * factor"
EXERCISES = """\
@double.property("doubles", points=1)
def doubles(rng):
    yield dict(x=rng.integers(3, 17))

def few(rng):
    return dict(x=rng.integers(5, 19))

double.unchanged(few)
double.any_device(
    lambda rng: dict(
        x=rng.integers(7, 23),
    ),
    points=2,
)

@double.misconception("Halved.")
def halves(x, factor=2):
    return x / factor / 1.0
"""


@pytest.fixture
def course(tmp_path):
    for folder in ("chapters", "site"):
        (tmp_path / folder).mkdir()
    return write_files(tmp_path, {"solutions/double.py": SOLUTION, "course/exercises/double.py": EXERCISES})


def findings(course, name, content):
    path = course / "site" / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [line.rpartition(": leaks ")[2] for line in leaks.scan([course / "site"], leaks.answers(course))]


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def highlighted(line):
    page = highlight(line, PythonLexer(), HtmlFormatter())
    assert line not in page
    return page


NOTEBOOK = json.dumps({"cells": [{"source": "x = 1\n\tdoubled_value \\\n = x*factor\n"}]}).replace("\\\\", "")
IN_JSON = json.dumps({"code": 'raise ValueError("negative")'})
CONDITION = "if doubled_value < 0 and factor > 0:"
ESCAPED = CONDITION.replace("<", "\\u003c").replace(">", "\\u003e")
TWO_LINES = "solutions/double.py:10 solutions/double.py:11"
PACKED = codec.pack({"misconceptions": [{"text": f"Write `{LINE}`.", "outcomes": [np.zeros(9)]}]})


@pytest.mark.parametrize(
    "name, content, found",
    [
        ("highlighted.html", highlighted(LINE), "solutions/double.py:7"),
        ("entities.html", highlighted(CONDITION), "solutions/double.py:8"),
        ("notebook.ipynb", NOTEBOOK, "solutions/double.py:7"),
        ("json.js", f"const state = {json.dumps(IN_JSON)};", "solutions/double.py:9"),
        ("escapes.json", f'"{ESCAPED}"', "solutions/double.py:8"),
        ("archives.zip", zipped("inner.whl", zipped("a.py", f"def f():\n    {LINE}\n")), "solutions/double.py:7"),
        ("checks.gz", PACKED, "solutions/double.py:7"),
        ("pretends.gz", LINE, "solutions/double.py:7"),
        ("one_line.err.log", "return max(doubled_value, -1.0)", TWO_LINES),
        ("hidden_test.html", "yield dict(x=rng.integers(3, 17))", "course/exercises/double.py:3"),
        ("hidden_case.html", "return dict(x=rng.integers(5, 19))", "course/exercises/double.py:6"),
        ("hidden_lambda.html", "x=rng.integers(7, 23),", "course/exercises/double.py:11"),
    ],
)
def test_a_line_of_an_answer_is_found_in_every_form(course, name, content, found):
    assert findings(course, name, content) == found.split()


def test_a_file_that_cannot_be_unpacked_is_read_as_it_is(course):
    assert LINE.encode() not in PACKED
    whole = gzip.compress(LINE.encode())
    assert findings(course, "double.gz", whole[:-8]) == []  # it has no end


@pytest.mark.parametrize(
    "public",
    [
        "def double(x, factor=2):",
        "Twice x, which this docstring may say.",
        "a comment that says how",
        "return x / factor / 1.0",
        "raise NotImplementedError",
    ],
)
def test_public_text_is_not_a_leak(course, public):
    assert findings(course, "page.html", public) == []


def test_an_argument_passed_on_under_its_own_name_is_not_a_leak(course):
    triple = "def triple(factor):\n    return double(\n        factor=factor,\n        x=factor + 41,\n    )\n"
    (course / "solutions/double.py").write_text(f"{SOLUTION}\n\n{triple}")
    assert findings(course, "page.html", "plot(factor=factor,)") == []
    assert findings(course, "page.html", "plot(x=factor + 41,)") == ["solutions/double.py:18"]


def test_the_calls_of_a_training_loop_are_not_a_leak_but_the_line_between_them_is(course):
    calls = ["optimizer.zero_grad()", "loss.backward()", "optimizer.step()"]
    body = "\n    ".join([*calls, "loss = triple(optimizer)"])
    (course / "solutions/double.py").write_text(f"{SOLUTION}\n\ndef fit(optimizer):\n    {body}\n")
    assert findings(course, "page.html", "\n".join(calls)) == []
    assert findings(course, "page.html", "loss = triple(optimizer)") == ["solutions/double.py:19"]


def test_a_finding_names_the_file_and_not_the_answer(course):
    (course / "site" / "x.html").write_text(LINE)
    (line,) = leaks.scan([course / "site"], leaks.answers(course))
    assert line == f"{course}/site/x.html: leaks solutions/double.py:7"


def test_the_command_fails_on_a_leak_and_on_a_missing_folder(course, monkeypatch, capsys):
    monkeypatch.setattr(leaks, "answers", lambda: {"secretofthecourse": "solutions/x.py:1"})
    (course / "site" / "x.html").write_text("all is well")
    assert leaks.main([str(course / "site")]) == 0
    (course / "site" / "x.html").write_text("secret of the course")
    assert leaks.main([str(course / "site")]) == 1
    assert "leaks solutions/x.py:1" in capsys.readouterr().out
    assert leaks.main([str(course / "nowhere")]) == 2
    assert leaks.main([]) == 2


def test_the_courses_own_sources_hold_no_answer():
    folders = [leaks.ROOT / name for name in leaks.PUBLISHED_SOURCES]
    assert list(leaks.scan(folders, leaks.answers())) == []


HEAD = "---\nkernelspec:\n  name: python3\n---\n\n"
STUB = """\
```{code-cell}
:tags: [exercise]
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(
            width, 4 * width)

    def forward(self, x):
        raise NotImplementedError
```
"""
NET = """\
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, 4 * width)

    def forward(self, x):
        return self.first(x) + x
"""


def test_what_a_stub_gives_is_not_an_answer_and_the_rest_of_its_class_is(course):
    (course / "chapters/net.md").write_text(HEAD + STUB)
    (course / "solutions/net.py").write_text(NET)
    assert findings(course, "page.html", STUB) == []
    assert findings(course, "page.html", "return self.first(x) + x") == ["solutions/net.py:7"]
    (course / "solutions/other.py").write_text(NET)
    assert findings(course, "page.html", STUB) == ["solutions/other.py:4"]


GIVEN = """\
```{code-cell}
class Scale(nn.Module):
    def forward(self, x):
        return double(x, self.factor_of_this_layer)
```

```{code-cell}
:tags: [exercise]
def double(x, factor=2):
    raise NotImplementedError
```

```{code-cell}
def double(x, factor=2):
    return "a naive one, shown before the exercise"
```
"""


def test_a_definition_of_the_chapter_itself_is_not_an_answer_but_an_exercise_always_is(course):
    (course / "chapters/double.md").write_text(HEAD + GIVEN)
    scale = "class Scale(nn.Module):\n    def forward(self, x):\n        return double(x, self.factor_of_this_layer)\n"
    (course / "solutions/double.py").write_text(f"{SOLUTION}\n\n{scale}")
    assert findings(course, "page.html", "return double(x, self.factor_of_this_layer)") == []
    assert findings(course, "page.html", LINE) == ["solutions/double.py:7"]
