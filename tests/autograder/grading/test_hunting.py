"""Tests that students write are graded in the sandbox, on implementations that stay outside of it."""

from __future__ import annotations

import inspect
import textwrap

import pytest

from attnlab.checking.report import as_text
from autograder.grading import hunting
from autograder.grading.single_file import grade_source
from course import catalog
from tests.conftest import HIDDEN_SEED

HUNT = catalog.exercise("test_softmax")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("needs_jail")]


@pytest.fixture(autouse=True)
def short_verdicts(monkeypatch):
    monkeypatch.setattr(hunting, "VERDICT_SECONDS", 3.0)


def graded(source: str):
    return grade_source("import numpy as np\n" + textwrap.dedent(source), "answer.py", HUNT, HIDDEN_SEED)


def test_the_courses_own_test_earns_everything():
    report = graded(inspect.getsource(HUNT.reference))
    assert report.passed and report.points == HUNT.points, as_text(report)


def test_a_short_test_earns_its_share_and_is_told_what_got_away():
    report = graded(
        """
        def test_softmax(softmax):
            assert abs(softmax(np.array([[1.0, 2.0], [3.0, 5.0]]), axis=0).sum(axis=0) - 1).max() < 1e-9
        """
    )
    assert 0 < report.points < HUNT.points and "got away" in as_text(report)


def test_what_does_not_come_back_costs_its_own_verdict():
    report = graded(
        """
        def test_softmax(softmax):
            weights = softmax(np.array([3.0, 1.0]))
            assert abs(weights[0] - 0.8807970779778823) < 1e-9
            if weights.dtype != float:
                import os
                os._exit(0)
        """
    )
    assert report.points > 0


ATTACKS = {
    "does nothing": "pass",
    "returns False": "return False",
    "always raises": "raise AssertionError",
    "compares bits": """
        powers = np.exp(np.linspace(-3, 2, 7) - 2)
        assert (softmax(np.linspace(-3, 2, 7)) == powers / powers.sum()).all()
    """,
    "reads the source": "import inspect; assert 'max' in inspect.getsource(softmax)",
    "reads names": "assert 'mistake' not in softmax.__name__ + softmax.__code__.co_filename + repr(softmax)",
    "reads the closure": "assert not [c for c in softmax.__closure__ if 'mistake' in repr(c.cell_contents)]",
    "looks at frames": """
        import sys
        frame = sys._getframe()
        while frame:
            assert 'mistake' not in repr(frame.f_locals)
            frame = frame.f_back
    """,
    "looks at all objects": """
        import gc
        assert not [o for o in gc.get_objects() if type(o) is dict and 'mistake' in o]
    """,
    "looks for files": """
        import os
        for folder, folders, files in os.walk('/'):
            folders[:] = [name for name in folders if name not in ('proc', 'sys')]
            assert not ('solutions' in folder and 'softmax.py' in files)
    """,
    "decides by chance": "import os; assert os.urandom(1)[0] < 128",
    "decides by position": """
        import os
        place = '/tmp/count'
        count = len(open(place).read()) if os.path.exists(place) else 0
        open(place, 'a').write('x')
        assert count < 7
    """,
    "patches builtins": """
        import builtins
        builtins.isinstance = lambda *a: False
        builtins.AssertionError = KeyboardInterrupt
    """,
    "patches the course's modules": """
        import sys
        for name, module in list(sys.modules.items()):
            if name.startswith('attnlab.checking'):
                for key in ('verdict', 'opaque', 'frame', 'write'):
                    if hasattr(module, key):
                        setattr(module, key, lambda *a, **k: {'accepted': False, 'error': None})
    """,
    "forges its verdicts": """
        import os, stat
        from attnlab.checking import codec
        said = codec.frame({'verdict': {'accepted': False, 'error': {'type': 'E', 'message': '', 'line': None,
                                                                   'code': None}}})
        for descriptor in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    os.write(descriptor, said)
            except OSError:
                pass
    """,
    "asks for other objects": """
        ask = next(c.cell_contents for c in softmax.__closure__ if callable(c.cell_contents))
        for number in (0, -1, 10):
            reply = ask({'object': number, 'method': '__globals__', 'given': {}, 'generators': {}, 'state': None})
            assert 'refused' in reply
    """,
    "hangs": "while True: pass",
    "takes all memory": "x = []\nwhile True: x.append(bytearray(1 << 24))",
    "forks without end": "import os\nwhile True: os.fork()",
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_earns_nothing(name):
    body = textwrap.indent(textwrap.dedent(ATTACKS[name]).strip(), "    ")
    report = graded(f"def test_softmax(softmax):\n{body}\n")
    assert report.points == 0, as_text(report)
