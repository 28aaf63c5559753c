"""A record and some files as one string of bytes: what the grader's own processes hand to each other, on one machine
or on several. It holds text, numbers and bytes, and never an object: nothing is executed to read it.
"""

from __future__ import annotations

import json


def wrap(record: dict, files: dict[str, bytes] | None = None) -> bytes:
    """The bytes of a record, which JSON can hold, and of files by name."""
    files = files or {}
    head = json.dumps({"record": record, "files": [[name, len(data)] for name, data in files.items()]}).encode("ascii")
    return b"".join([len(head).to_bytes(8, "little"), head, *files.values()])


def unwrap(data: bytes) -> tuple[dict, dict[str, bytes]]:
    """What `wrap` was given. Raises ValueError for anything that it did not make."""
    try:
        start = 8 + int.from_bytes(data[:8], "little")
        head = json.loads(data[8:start].decode("ascii"))
        files = {}
        for name, length in head["files"]:
            if length < 0:
                raise ValueError(length)
            files[name] = data[start : start + length]
            start += length
        if start != len(data):
            raise ValueError(f"{len(data)} bytes, where there should be {start}")
        return head["record"], files
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a parcel: {error}") from None


def as_text(record: dict) -> bytes:
    """A record as a file that people read, too."""
    return json.dumps(record, indent=1).encode("ascii")
