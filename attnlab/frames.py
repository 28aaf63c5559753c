"""Values over a pipe: eight bytes of length, then the frame (see `attnlab.codec`)."""

from __future__ import annotations

from attnlab import codec


def write(stream, value) -> None:
    send(stream, codec.frame(value))


def send(stream, data: bytes) -> None:
    """Write a frame that is made already."""
    stream.write(len(data).to_bytes(8, "little") + data)
    stream.flush()


def read(stream):
    """The next value, or None at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    return codec.unframe(stream.read(int.from_bytes(head, "little")))
