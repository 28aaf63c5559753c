"""The bytecode of a reference runs like the reference, and holds nothing that running does not need."""

import marshal
import types

import pytest

from autograder.grading.execution import Cell, evaluate
from course import catalog, prerequisites

SOURCE = '''"""Words of the module."""
def shifted(x, by=1):
    """Words of the function."""
    assert by, "a message"
    return [n + by for n in x]  # words of a comment


class Kept:
    """Words of the class."""

    def only_words(self):
        """And these."""
'''


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def test_the_code_runs_as_the_source_does():
    namespace = {}
    exec(marshal.loads(prerequisites.bytecode(SOURCE).tobytes()), namespace)
    assert namespace["shifted"]([1, 2]) == [2, 3] and namespace["Kept"]().only_words() is None
    with pytest.raises(AssertionError, match="a message"):
        namespace["shifted"]([], by=0)


def test_no_words_and_no_lines_are_in_it():
    data = prerequisites.bytecode(SOURCE).tobytes()
    assert b"ords of" not in data and b"And these" not in data
    for code in codes(marshal.loads(data)):
        assert code.co_filename == "<reference>"
        assert {line for *_, line in code.co_lines()} <= {1, None, 0}


@pytest.mark.parametrize("name", [name for stem in catalog.chapters() for name in catalog.exercises_of(stem)])
def test_no_reference_is_lent_with_its_docstrings(name):
    for code in codes(marshal.loads(prerequisites.bytecode(prerequisites.reference(name)).tobytes())):
        sentences = [c for c in code.co_consts if isinstance(c, str) and "\n" in c]
        assert sentences == []


LOOKS = """
import gc, inspect, linecache, types
from attnlab.mine import split_heads
found = [split_heads.__doc__, split_heads.__code__.co_filename, split_heads.__code__.co_firstlineno]
try:
    found.append(inspect.getsource(split_heads))
except OSError:
    found.append("no source")
texts = [t for thing in gc.get_objects() if isinstance(thing, dict) for t in thing.values() if isinstance(t, str)]
found.append(any("def split_" + "heads(" in text for text in texts))
print(found)
"""


@pytest.mark.usefixtures("needs_jail")
def test_a_notebook_finds_no_source_of_what_it_is_lent():
    references = prerequisites.references("efficient_attention") | {
        "setting": "solutions:split_heads",
        "sources": {"multi_head": prerequisites.reference("split_heads")},
    }
    done = evaluate([Cell(0, LOOKS)], {}, references=references)
    assert done.outputs[0][-1]["text"] == "[None, '<reference>', 1, 'no source', False]\n"
