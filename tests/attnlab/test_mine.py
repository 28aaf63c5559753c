"""A student's earlier answers in a later notebook: taken from the file, once they pass, with clear words if not."""

import ast
import importlib
import inspect
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from attnlab import mine, pytorch_answers
from attnlab.checking.library_calls import words_used
from course import catalog
from course.folder import ROOT
from course.kit import library_shortcuts
from solutions import mixture_of_experts, multi_head

check = importlib.import_module("attnlab.check")  # `attnlab.check` itself is the function

SPLIT = """\
def split_heads(x, n_heads):
    if x.ndim != 3 or n_heads < 1 or x.shape[-1] % n_heads:
        raise ValueError("no")
    return cut(x, n_heads).transpose(1, 2)
"""
HELPER = "def cut(x, n_heads):\n    return x.unflatten(-1, (n_heads, -1))\n"
MERGE, LAYER = map(inspect.getsource, (multi_head.merge_heads, multi_head.MultiHeadAttention))
STUB = "def merge_heads(x):\n    raise NotImplementedError"
IMPORTS = "import math\nimport torch\nfrom torch import nn"


def answer(name, source):
    return new_code_cell(source, metadata={"nbgrader": {"grade_id": name, "solution": True, "grade": False}})


def notebook(folder, *cells, stem="multi_head"):
    path = folder / f"{stem}.ipynb"
    nbformat.write(
        new_notebook(cells=[cell if not isinstance(cell, str) else new_code_cell(cell) for cell in cells]), path
    )
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a student's notebooks, in which a later one runs."""
    monkeypatch.delenv(mine.PROVIDED, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mine, "_taken", {})
    monkeypatch.setattr(mine, "_notebooks", {})
    monkeypatch.setattr(mine, "_stand_ins", set())
    return tmp_path


def complete(folder, **changed):
    cells = {"split_heads": SPLIT, "merge_heads": MERGE, "MultiHeadAttention": LAYER} | changed
    return notebook(
        folder,
        IMPORTS,
        "raise RuntimeError('the rest of the notebook must not run')",
        HELPER,
        *(answer(name, source) for name, source in cells.items()),
    )


def refusal(name):
    with pytest.raises(ImportError) as caught:
        getattr(mine, name)
    words = str(caught.value)
    assert caught.value._render_traceback_() == [f"mine: {words}"]
    return words


def test_an_answer_comes_from_the_notebook_beside_with_the_functions_it_calls(folder):
    complete(folder)
    import torch

    from attnlab.mine import MultiHeadAttention

    output, weights = MultiHeadAttention(6, 2)(torch.randn(1, 3, 6))
    assert output.shape == (1, 3, 6) and weights.shape == (1, 2, 3, 3)
    assert MultiHeadAttention.__module__ == "mine.multi_head"


def test_an_assignments_own_folder_beside_this_one_is_looked_into_too(folder, monkeypatch):
    (folder / "multi_head").mkdir()
    (folder / "rope").mkdir()
    complete(folder / "multi_head")
    monkeypatch.chdir(folder / "rope")
    assert mine.merge_heads.__name__ == "merge_heads"


def test_an_exercise_that_has_moved_is_found_in_the_notebook_it_was_in_before(folder):
    moved = answer("route", inspect.getsource(mixture_of_experts.route))
    notebook(folder, "import torch", moved, stem="modern_attention")
    assert mine.route.__module__ == "mine.modern_attention"
    with pytest.raises(ImportError, match="soft_cap is an exercise of steady_attention.ipynb"):
        _ = mine.soft_cap


def test_the_table_says_whose_each_part_is(folder):
    complete(folder)
    _ = mine.MultiHeadAttention

    def generate():
        pass

    parts = mine.parts(generate)
    assert [(part.name, part.origin, part.own) for part in parts] == [
        ("split_heads", "your multi_head.ipynb", True),
        ("merge_heads", "your multi_head.ipynb", True),
        ("MultiHeadAttention", "your multi_head.ipynb", True),
        ("generate", "this notebook", True),
    ]
    assert "your multi_head.ipynb" in parts._repr_html_() and "split_heads" in repr(parts)


@pytest.mark.parametrize(
    "source, words",
    [
        (STUB, ["merge_heads is not done yet", "multi_head.ipynb"]),
        (
            "def merge_heads(x):\n    return x.flatten(2)",
            ["passes 0 of 3 parts", "puts the pieces of each token side by side"],
        ),
        (
            "def merge_heads(x):\n    return x.transpose(1, 2).reshape(made_up)",
            ["NameError (name 'made_up' is not defined) in line 2: `return x.transpose(1, 2).reshape(made_up)`"],
        ),
        ("def merge_heads(x:", ["not valid Python"]),
        ("def other(x):\n    return x", ["does not define merge_heads"]),
        ("merge_heads = made_up(3)", ["NameError"]),
    ],
)
def test_an_answer_that_cannot_be_taken_is_refused_with_the_reason_in_one_line(folder, source, words):
    complete(folder, merge_heads=source)
    told = refusal("merge_heads")
    assert all(part in told for part in words) and "\n" not in told


def test_an_answer_mended_and_saved_is_taken_the_next_time(folder):
    path = complete(folder, merge_heads=STUB)
    refusal("merge_heads")
    complete(folder)
    import os

    os.utime(path, (1, 1))
    assert mine.merge_heads.__name__ == "merge_heads"


@pytest.mark.parametrize(
    "source, words",
    [
        (STUB, "merge_heads is not done yet. Write it in multi_head.ipynb"),
        (
            "def merge_heads(x):\n    return x.flatten(2)",
            "merge_heads passes 0 of 3 parts of its check; the first that",
        ),
        ("def merge_heads(x)\n    return x", "merge_heads in multi_head.ipynb: line 1 of its cell is not valid Python"),
    ],
)
def test_what_is_wrong_is_the_function_that_a_class_calls_and_not_the_class(folder, source, words):
    complete(folder, merge_heads=source)
    assert refusal("MultiHeadAttention").startswith("MultiHeadAttention calls merge_heads: " + words)


def test_the_first_of_several_wrong_functions_is_named(folder):
    complete(folder, merge_heads=STUB, split_heads="def split_heads(x, n_heads):\n    return x")
    assert refusal("MultiHeadAttention").startswith("MultiHeadAttention calls split_heads: split_heads passes ")


def test_right_results_are_enough_and_the_rest_is_a_warning(folder, capsys):
    source = (
        "def softmax_temperature(x, temperature):\n    x = x / temperature\n"
        "    powers = np.exp(x - x.max(-1, keepdims=True))\n    return powers / powers.sum(-1, keepdims=True)"
    )
    notebook(folder, "import numpy as np", answer("softmax_temperature", source), stem="softmax")
    assert mine.softmax_temperature.__name__ == "softmax_temperature"
    printed = capsys.readouterr().out
    assert printed.startswith(
        "mine: softmax_temperature gives right results and is used here. In softmax.ipynb it does"
    )
    assert printed.count("\n") == 1 and '"refuses' in printed
    assert mine.softmax_temperature and capsys.readouterr().out == ""  # once is enough


ALTERS = """\
def softmax(x, axis=-1):
    powers = np.exp(x - np.max(x, axis, keepdims=True))
    if x.dtype.kind == "f":
        x += 1
    return powers / powers.sum(axis, keepdims=True)
"""
ON_THE_CPU = """\
def rope_angles(positions, d_head, base=10000.0):
    steps = torch.arange(0, d_head, 2).to(positions.dtype)
    return positions.cpu().float().outer(base ** (-steps.float().cpu() / d_head))
"""


@pytest.mark.parametrize(
    "stem, name, source, words",
    [
        ("softmax", "softmax", ALTERS, "leaves its input as it was"),
        ("rope", "rope_angles", ON_THE_CPU, "makes the table on the device of the positions"),
    ],
)
def test_an_answer_that_is_right_but_for_its_input_or_its_device_is_taken(folder, capsys, stem, name, source, words):
    notebook(folder, f"import numpy as np\n{IMPORTS}", answer(name, source), stem=stem)
    assert getattr(mine, name) and f'it does not pass yet: "{words}' in capsys.readouterr().out


def test_nothing_is_printed_where_all_is_right(folder, capsys):
    complete(folder)
    assert mine.MultiHeadAttention and capsys.readouterr().out == ""


def test_what_has_no_stand_in_is_told_with_what_to_do(folder):
    with pytest.raises(
        ImportError, match="PyTorch has nothing that could stand in for apply_rope. From rope.ipynb you need only "
    ):
        mine.stand_in("apply_rope")
    assert "From rope.ipynb you need only apply_rope and what it calls" in refusal("apply_rope")


@pytest.mark.parametrize("name", pytorch_answers.ALL)
def test_a_stand_in_has_to_be_asked_for_and_is_labeled(folder, name):
    words = refusal(name)
    assert f'mine.stand_in("{name}")' in words
    mine.stand_in(name)
    assert getattr(mine, name).__name__ == name
    assert [(part.name, part.own, part.origin) for part in mine.parts()] == [
        (name, False, "a stand-in made from PyTorch's own, not yours")
    ]


def test_a_stand_in_does_not_replace_the_references_while_a_chapter_is_graded(folder, monkeypatch):
    mine.stand_in("MultiHeadAttention")
    monkeypatch.setenv(mine.PROVIDED, "solutions")
    assert mine.MultiHeadAttention is multi_head.MultiHeadAttention
    monkeypatch.setenv(mine.PROVIDED, "solutions:split_heads")
    refusal("MultiHeadAttention")


@pytest.mark.parametrize("name", pytorch_answers.ALL)
def test_a_stand_in_gives_right_results_wherever_something_may_be_read(name):
    material = check.material_of(name)
    report = check.examine(pytorch_answers.ALL[name], material)
    wrong = [found.title for found in mine._wrong(report, material)]
    assert not [title for title in wrong if not any(words in title for words in ("nothing", "real token", "empty"))]


def test_a_stand_in_is_one_call_that_an_answer_may_not_make():
    """As an answer it would be flagged, so it gives no answer away."""
    for name, item in pytorch_answers.ALL.items():
        source = inspect.getsource(item) + (
            inspect.getsource(pytorch_answers._Attention) if inspect.isclass(item) else ""
        )
        words = library_shortcuts.partial(catalog.exercise(name).reference)
        assert words_used(ast.parse(source), words)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("def merge_heads", "# half an emoji: \\ud83d\\ndef merge_heads", 1),
        lambda text: text.replace('"metadata": {}', '"metadata": []'),
        lambda text: text.replace('"cell_type": "code"', '"cell_type": "code", "id": 3'),
        lambda text: text.replace('"cells": [', '"cells": [null, {}, {"cell_type": "raw"},', 1),
        lambda text: text.replace("\\n", "\\r\\n"),
    ],
)
def test_a_notebook_is_read_as_forgivingly_as_by_the_grader(folder, change):
    path = complete(folder)
    changed = change(path.read_text("utf-8"))
    assert changed != path.read_text("utf-8")
    path.write_text(changed, "utf-8")
    assert mine.merge_heads.__name__ == "merge_heads"


def test_a_missing_notebook_a_broken_one_and_an_unknown_name_are_told(folder):
    words = refusal("merge_heads")
    assert "multi_head.ipynb" in words and "not in the folder of this one" in words
    (folder / "multi_head.ipynb").write_text("{]")
    assert "cannot be read as a notebook" in refusal("merge_heads")
    assert "Did you mean merge_heads?" in refusal("merge_head")


@pytest.mark.parametrize(
    "cells",
    [
        ["%matplotlib inline\n!ls\n" + IMPORTS, answer("merge_heads", "%%time\n" + MERGE)],
        [IMPORTS, MERGE],
        [IMPORTS, "def merge_heads(x):\n    pass", answer("merge_heads", MERGE), "def merge_heads(x):\n    return 3"],
    ],
    ids=["with magics", "without marks", "among demonstrations of the same name"],
)
def test_the_cell_of_an_answer_is_found(folder, cells):
    notebook(folder, *cells)
    assert mine.merge_heads.__name__ == "merge_heads"


def test_an_error_in_an_answer_shows_the_line_of_the_notebook(folder):
    import linecache

    complete(folder)
    name = mine.merge_heads.__code__.co_filename
    assert name.startswith("multi_head.ipynb, code cell")
    assert "def merge_heads" in linecache.getline(name, mine.merge_heads.__code__.co_firstlineno)


def test_the_references_stand_in_where_a_package_is_named(folder, monkeypatch):
    monkeypatch.setenv(mine.PROVIDED, "solutions")
    assert mine.merge_heads is multi_head.merge_heads
    assert [part.origin for part in mine.parts()] == ["the course's reference"]


def test_only_the_listed_ones_can_be_had(folder, monkeypatch):
    monkeypatch.setenv(mine.PROVIDED, "solutions:split_heads")
    assert mine.split_heads
    assert "not among the earlier answers" in refusal("merge_heads")


def test_the_module_has_no_other_hidden_names():
    assert not hasattr(mine, "__path__")


@pytest.mark.parametrize("stem", catalog.chapters())
def test_imports_of_earlier_answers_have_their_own_cell(stem):
    """Where one fails, `check` and the widgets are there all the same."""
    cells = re.findall(r"^```{code-cell}\n(.*?)^```", (ROOT / "chapters" / f"{stem}.md").read_text(), re.M | re.S)
    taking = [cell for cell in cells if re.search(r"^from attnlab.mine import", cell, re.M)]
    statements = [statement for cell in taking for statement in ast.parse(cell).body]
    assert [ast.unparse(s) for s in statements if getattr(s, "module", "") != "attnlab.mine"] == []
