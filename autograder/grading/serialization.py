"""Messages between the grader's own processes, on one machine or on several.

A message is one frame with a record that JSON can hold, and files. Nothing is executed to read it.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from attnlab.checking import codec

MAX_BYTES = 1 << 32  # an instructor's own files may be larger than any answer


def wrap(record: Mapping[str, Any], files: dict[str, bytes]) -> bytes:
    """The frame of a record, which JSON can hold, and of files by name."""
    text = json.dumps(record).encode("ascii")
    contents = {name: np.frombuffer(data, np.uint8) for name, data in files.items()}
    return codec.frame({"record": np.frombuffer(text, np.uint8), "files": contents}, MAX_BYTES)


def unwrap(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the record and files that `wrap` packed. Raises ValueError for anything that it did not make."""
    try:
        parts = codec.unframe(data, MAX_BYTES)
        return json.loads(parts["record"].tobytes()), {name: file.tobytes() for name, file in parts["files"].items()}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a message: {error}") from None
