"""Files of published models: read as the package gguf reads them, and printed as they come."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from attnlab import model_files

needs_gguf = pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="gguf is not installed: make model")
SETTINGS = {"add_uint32": 7, "add_float32": 0.1, "add_bool": True, "add_string": "naïve", "add_uint64": 2**40}
LISTS = {"tokens": ["a", "▁b", ""], "scores": [-0.0, -1.5, -2.25], "kinds": [1, 4, 6]}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A small file with every kind of tensor that the two models have, and its numbers before they were quantized."""
    import gguf

    path, rng = tmp_path_factory.mktemp("models") / "small.gguf", np.random.default_rng(3)
    writer = gguf.GGUFWriter(path, "toy")
    for add, value in SETTINGS.items():
        getattr(writer, add)(f"toy.{add}", value)
    for name, values in LISTS.items():
        writer.add_array(f"toy.{name}", values)
    for name, shape, kind in (
        ("norm", (256,), "F32"),
        ("matrix", (5, 256), "F32"),
        ("rounded", (3, 64), "Q8_0"),
        ("rounder", (4, 96), "Q4_1"),
        ("roundest", (7, 32), "Q5_0"),
    ):
        numbers, kind = rng.normal(size=shape).astype(np.float32), gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, gguf.quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@needs_gguf
def test_settings_are_those_of_the_package_s_own_reader(written):
    import gguf

    ours, theirs = model_files.GGUF(written), gguf.GGUFReader(written)
    names = [name for name in theirs.fields if not name.startswith("GGUF.")]
    assert list(ours.settings) == names and len(names) > len(SETTINGS) + len(LISTS)
    for name in names:
        assert ours.get_field(name).contents() == theirs.get_field(name).contents(), name
    assert ours.get_field("toy.of_another_model") is None


@needs_gguf
def test_tensors_are_those_of_the_package_s_own_reader(written):
    import gguf

    ours, theirs = model_files.GGUF(written).tensors, gguf.GGUFReader(written).tensors
    assert [tensor.name for tensor in ours] == [tensor.name for tensor in theirs]
    for one, other in zip(ours, theirs):
        assert one.tensor_type == other.tensor_type and one.shape.tolist() == other.shape.tolist()
        assert one.data.dtype == other.data.dtype and np.array_equal(one.data, other.data), one.name
        assert np.array_equal(one.numbers(), gguf.dequantize(other.data, other.tensor_type)), one.name
        assert one.numbers().shape == tuple(reversed(other.shape.tolist()))


@needs_gguf
def test_a_tensor_that_is_dequantized_in_pieces_has_the_same_numbers(written, monkeypatch):
    tensors = model_files.GGUF(written).tensors
    whole = [tensor.numbers() for tensor in tensors]
    monkeypatch.setattr(model_files, "AT_ONCE", 100)
    assert all(np.array_equal(tensor.numbers(), numbers) for tensor, numbers in zip(tensors, whole))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\3\4" + bytes(40), b"GGUF\1\0\0\0" + bytes(40)])
def test_a_file_of_another_format_is_refused(tmp_path, content):
    (tmp_path / "other.gguf").write_bytes(content)
    with pytest.raises(ValueError, match="is not a GGUF file"):
        model_files.GGUF(tmp_path / "other.gguf")


def test_half_of_a_character_is_printed_when_it_is_whole(capsys):
    spelled = "a🦄b".encode()
    typed = model_files.Typewriter("> ", lambda ids: spelled[: len(ids)].decode("utf-8", "replace"))
    printed = []
    for n in range(1, len(spelled) + 1):
        typed.show(list(range(n)))
        printed.append(capsys.readouterr().out)
    assert printed == ["> a", "", "", "", "🦄", "b"]
    typed.show([0, 1], finished=True)  # the end of it is missing, and will stay so
    assert capsys.readouterr().out == "\na\ufffd\n"
