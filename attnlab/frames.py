"""Packed values over a pipe: eight bytes of length, then the value."""

from __future__ import annotations

from attnlab import codec


def write(stream, value) -> None:
    data = codec.pack(value, compressed=False)  # it goes no further than this machine
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def read(stream):
    """The next value, or None at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    return codec.unpack(stream.read(int.from_bytes(head, "little")))
