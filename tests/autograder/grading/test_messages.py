"""Records and files as bytes: what goes in comes out, and nothing else is taken for one."""

import numpy as np
import pytest

from attnlab.checking import codec
from autograder.grading import messages


@pytest.mark.parametrize(
    "record, files",
    [
        ({}, {}),
        ({"a": [1, 2.5, None, True, "ü\ud800"]}, {"x": b""}),
        ({"n": {"m": []}}, {"a/b.ipynb": b"\0\xff" * 9, "é": b"PK"}),
    ],
)
def test_what_was_wrapped_comes_out(record, files):
    assert messages.unwrap(messages.wrap(record, files)) == (record, files)


WHOLE = messages.wrap({"a": 1}, {"x": b"12345", "y": b"678"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        WHOLE[:-1],
        WHOLE + b"\0",
        WHOLE[:20],
        b"\xff" * 8 + WHOLE[8:],
        WHOLE[1:],
        codec.frame({}),
        codec.frame([]),
        codec.frame({"record": 1, "files": {}}),
        codec.frame({"record": np.frombuffer(b"[", np.uint8), "files": {}}),
        codec.frame({"record": np.frombuffer(b"[]", np.uint8), "files": {"x": 1}}),
    ],
)
def test_anything_else_is_refused(data):
    with pytest.raises(ValueError, match="not a message"):
        messages.unwrap(data)
