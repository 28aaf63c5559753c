"""Messages between the grader's own processes, on one machine or on several: an assignment, a submission, a result.

A message is one frame with a record that JSON can hold, and files. Nothing is executed to read it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np

from attnlab.checking import codec
from autograder.grading.reassembly import ReleasedCell
from autograder.sandbox.limits import Limits, Times

MAX_BYTES = 1 << 32  # an instructor's own files may be larger than any answer
Plan: TypeAlias = list[ReleasedCell]  # of one notebook of an assignment as it was released: all cells, in their order


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


@dataclass(frozen=True)
class Settings:
    """How to grade. Preprocessors are class names, called with `config`."""

    extra_cells: bool = True
    run_all: bool = False
    times: Times = Times()
    limits: Limits = Limits()
    preprocessors: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)


def pack_assignment(
    plans: dict[str, Plan],
    settings: Settings,
    given: dict[str, bytes],
    hidden: dict[str, bytes],
    fingerprint: str | None = None,
) -> bytes:
    """Pack what all submissions of an assignment have in common.

    given: the instructor's files in the notebooks' folder that code may read
    hidden: what answers are judged by, by exercise, as `hidden_tests.packed` gives it
    fingerprint: of the release, to be kept with each result
    """
    notebooks = {name: [asdict(cell) for cell in plan] for name, plan in plans.items()}
    files = {f"given/{name}": data for name, data in given.items()}
    files |= {f"hidden/{name}": data for name, data in hidden.items()}
    record = {"settings": asdict(settings), "notebooks": notebooks, "fingerprint": fingerprint}
    return wrap(record, files)


def pack_submission(
    assignment: str,
    student: str,
    notes: list[str],
    refused: dict[str, str],
    notebooks: dict[str, bytes],
    digest: str | None = None,
) -> bytes:
    """Pack one submission.

    notes: what a human should know about the folder
    notebooks: all that are in it, by file name without .ipynb; refused: why others could not be read, by such a name
    digest: of what is in the folder, to be kept with the result
    """
    record = {"assignment": assignment, "student": student, "notes": notes, "refused": refused, "digest": digest}
    return wrap(record, notebooks)
