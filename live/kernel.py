"""The matrix product's bytes from its source: `python -m live.kernel` writes engine/kernel.wasm from engine/kernel.wat.

The bytes are committed, so that neither the book nor a reader needs the tool; a test compares them with the source.
"""

from pathlib import Path

SOURCE = Path(__file__).with_name("engine") / "kernel.wat"
BYTES = SOURCE.with_suffix(".wasm")


def assembled() -> bytes:
    """Assemble the source into WebAssembly's binary form."""
    from wasmtime import wat2wasm

    return bytes(wat2wasm(SOURCE.read_text("utf-8")))


if __name__ == "__main__":
    BYTES.write_bytes(assembled())
