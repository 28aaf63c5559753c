"""Values to bytes and back: nothing is lost, and nothing hostile gets through in either direction."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tracemalloc

import numpy as np
import pytest

from attnlab.checking import codec
from attnlab.checking.codec import CodecError, copied, frame, pack, read, unframe, unpack, write


def equal(a, b) -> bool:
    """Same type, dtype, shape and bits, all the way down."""
    if isinstance(a, (np.ndarray, np.generic)):
        return (
            type(a) is type(b)
            and a.dtype == b.dtype
            and np.shape(a) == np.shape(b)
            and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b or a != a and b != b


def random_value(rng, depth=0):
    kind = rng.integers(0, 12 if depth < 4 else 9)
    if kind == 0:
        return [None, True, False, "", "naïve \N{SNOWMAN}", "\ud800", "a\0b"][rng.integers(7)]
    if kind == 1:
        return int(rng.integers(-(2**62), 2**62)) ** int(rng.integers(1, 5))
    if kind == 2:
        return float(rng.choice([0.0, -0.0, 1e-320, np.inf, -np.inf, np.nan, rng.normal()]))
    if kind == 3:
        return complex(rng.normal(), rng.normal())
    if kind < 9:
        dtype = rng.choice(["?", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
        shape = tuple(rng.integers(0, 4, size=rng.integers(0, 4)))
        array = np.array(rng.integers(0, 100, size=shape)).astype(dtype)
        if kind == 4:
            return np.asfortranarray(array) if array.ndim else array[()]
        return array[::-1] if array.ndim else array
    items = [random_value(rng, depth + 1) for _ in range(rng.integers(0, 4))]
    return [items, tuple(items), {f"k{i}": item for i, item in enumerate(items)}][kind - 9]


@pytest.fixture(
    params=[lambda value: unpack(pack(value)), lambda value: unframe(frame(value)), copied],
    ids=["packed", "framed", "copied"],
)
def through(request):
    """All ways from a value to a fresh one: they give the same."""
    return request.param


@pytest.mark.parametrize("seed", range(4))
def test_what_goes_in_comes_out(through, seed):
    rng = np.random.default_rng(seed)
    for _ in range(80):
        value = random_value(rng)
        assert equal(through(value), value), repr(value)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(()),
        np.zeros((0, 3)),
        np.zeros((3, 0, 2), np.int8),
        np.arange(10)[::3],
        np.arange(24.0).reshape(2, 3, 4).T,
        np.broadcast_to(np.float32(2), (3, 2)),
        np.ones((1,) * 30),
        np.longdouble([1.5]),
        np.float16([1 / 3]),
    ],
    ids=lambda array: str(array.shape),
)
def test_an_array_of_any_layout_comes_back_writable(through, array):
    back = through(array)
    assert equal(back, np.array(array)) and back.flags.writeable


def test_foreign_byte_order_comes_back_in_the_machines_own(through):
    for value in (np.array([1.5, -2.0], ">f8"), np.array(7, ">i4"), np.arange(3, dtype="<f4")):
        back = through(value)
        assert back.dtype.isnative and back.dtype == value.dtype.newbyteorder("=") and np.array_equal(back, value)


def test_a_nan_stays_a_nan_bit_for_bit(through):
    odd = np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000002], np.uint64).view(np.float64)
    assert through(odd).tobytes() == odd.tobytes()


def test_tensors_keep_their_dtype(through):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool):
        tensor = torch.tensor([[1, 0, 3]]).to(dtype)
        back = through(tensor)
        assert back.dtype == dtype and torch.equal(back, tensor)
    assert not through(torch.ones(2, requires_grad=True)).requires_grad


class _Liar:
    """Overrides whatever might be asked of it."""

    def _lie(self, *args):
        raise AssertionError("a method of the student's was called")

    __eq__ = __ne__ = __iter__ = __len__ = __bool__ = __getitem__ = __str__ = __repr__ = __int__ = __float__ = _lie
    __array__ = __reduce__ = __reduce_ex__ = __index__ = items = keys = values = encode = tobytes = astype = _lie
    __hash__ = object.__hash__


def test_subclasses_are_read_without_their_own_methods(through):
    def make(base, *args):
        return type("Sub", (_Liar, base), {})(*args)

    assert equal(through(make(str, "text")), "text")
    assert equal(through(make(int, 7)), 7)
    assert equal(through(make(float, 2.5)), 2.5)
    assert equal(through(make(list, [1, 2])), [1, 2])
    assert equal(through(make(tuple, (1, 2))), (1, 2))
    assert equal(through(make(dict, {"a": 1})), {"a": 1})


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_subclasses_of_arrays_come_back_as_plain_arrays(through):
    class Sub(np.ndarray):
        dtype = property(lambda self: 1 / 0)
        shape = property(lambda self: 1 / 0)
        nbytes = property(lambda self: -(10**9))
        __eq__ = __array__ = tobytes = astype = view = lambda self, *args: 1 / 0

    assert equal(through(np.arange(3.0).view(Sub)), np.arange(3.0))
    assert equal(through(np.matrix([[1.0, 2.0]])), np.array([[1.0, 2.0]]))
    assert equal(through(np.ma.masked_array([1.0, 2.0], [True, False])), np.array([1.0, 2.0]))


def test_a_memory_map_comes_back_as_a_plain_array(through, tmp_path):
    mapped = np.memmap(tmp_path / "numbers", dtype="f8", mode="w+", shape=3)
    mapped[:] = [1, 2, 3]
    assert equal(through(mapped), np.array([1.0, 2.0, 3.0]))


class _Pretender:
    __class__ = np.ndarray


class _Endless(dict):
    def items(self):
        while True:
            yield "k", 1


_itself: list = []
_itself.append(_itself)
_deep: list = []
for _ in range(100_000):
    _deep = [_deep]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        _Pretender(),
        {1, 2},
        {1: 2},
        (x for x in "ab"),
        range(3),
        b"bytes",
        lambda: 0,
        type,
        print,
        np,
        ...,
        np.array([[1], [1, 2]], dtype=object),
        np.array(["a"]),
        np.array([(1, 2.0)], dtype="i4,f8"),
        np.array(["2020-01-01"], "M8[D]"),
        np.datetime64("2020-01-01"),
        10**400,
        _itself,
        _deep,
        [0] * 200_000,
        "x" * (70 << 20),
        [np.zeros(1)] * 20_000,
        np.broadcast_to(0.0, (10**9,)),
        {"a": {"b": object()}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_not_plain_data_is_refused_in_words(through, value):
    with pytest.raises(CodecError) as refusal:
        through(value)
    assert len(str(refusal.value)) < 120 and "0x" not in str(refusal.value)


def test_an_endless_subclass_of_dict_ends(through):
    assert through(_Endless()) == {}


def test_a_generator_is_called_a_generator(through):
    with pytest.raises(CodecError, match="^a generator cannot be taken"):
        through({"result": (x for x in [1.0])})


def test_ragged_rows_are_suspected_in_an_array_of_objects(through):
    with pytest.raises(CodecError, match="rows of different lengths"):
        through(np.array([[1], [1, 2]], dtype=object))


# Forged bytes -----------------------------------------------------------------------------------------------------


def forged_frame(tree='["array","a0"]', headers='[["<f8",[2],false]]', body=bytes(16)) -> bytes:
    text = f"[{tree},{headers}]".encode()
    return (4 + len(text) + len(body)).to_bytes(8, "little") + len(text).to_bytes(4, "little") + text + body


def test_the_forgery_helper_can_make_good_frames():
    assert np.array_equal(unframe(forged_frame()), [0.0, 0.0])
    assert unframe(forged_frame('["array","a0"]', '[["<f8",[2,1],true]]')).flags.f_contiguous


@pytest.mark.parametrize(
    "tree",
    [
        "",
        "nonsense",
        "null",
        "3",
        "[]",
        '["unknown"]',
        '["array"]',
        '["array", 3]',
        '["array", "missing"]',
        '["array","a1"]',
        '["array","a-1"]',
        '["int", "x"]',
        '["int", "' + "9" * 400 + '"]',
        '["float", "x"]',
        '["bool", 1]',
        '["str", 1]',
        '["list", {}]',
        '["dict", [[1, ["none"]]]]',
        '["dict", [["a"]]]',
        '["dict", ["ab"]]',
        '["dict", [[["none"], ["none"]]]]',
        '["tensor", "a0", "load"]',
        '["tensor", "a0", "nn"]',
        '["scalar", "|O", "00"]',
        '["scalar", "<f8", "00"]',
        '["scalar", "<f8", "zz"]',
        '["scalar", "f8,f8", "' + "00" * 16 + '"]',
        '["list", [' * 13 + '["none"]' + "]]" * 13,
        "[" * 100_000,
        '["list", [["array","a0"], ["array","a0"]]]',
        '["list", [' + '["none"],' * 150_000 + '["none"]]]',
    ],
    ids=lambda tree: tree[:30],
)
def test_a_forged_tree_is_refused(tree):
    with pytest.raises(CodecError):
        unframe(forged_frame(tree))


def npz(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


GOOD = pack({"x": np.arange(3.0)})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        frame(1),
        bz2.compress(frame(1)),
        lzma.compress(frame(1)),
        gzip.compress(b"", mtime=0),
        gzip.compress(b"nonsense", mtime=0),
        gzip.compress(frame(1) + b"x", mtime=0),
        gzip.compress(gzip.compress(frame(1), mtime=0), mtime=0),
        pickle.dumps([1]),
        gzip.compress(pickle.dumps([1]), mtime=0),
        npz(tree=np.array([object()], dtype=object)),
        npz(a=np.zeros(2)),
        GOOD[:-1],
        GOOD[:-8],
        GOOD + b"x",
        GOOD + GOOD,
        GOOD[:-4] + (1).to_bytes(4, "little"),  # the length that gzip keeps
        GOOD[:-8] + bytes(4) + GOOD[-4:],  # its check sum
    ],
    ids=lambda data: repr(data[:12]),
)
def test_what_was_not_packed_is_refused(data):
    with pytest.raises(CodecError):
        unpack(data)


def peak_of(refused) -> int:
    """The memory that it takes to refuse something."""
    tracemalloc.start()
    try:
        with pytest.raises(CodecError):
            refused()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [bytes(40_000_000), frame(np.zeros(5_000_000))])
def test_a_bomb_is_unpacked_no_further_than_a_frame_may_be_long(monkeypatch, content):
    bomb = gzip.compress(content, mtime=0)
    assert len(bomb) < 100_000
    monkeypatch.setattr(codec, "MAX_FRAME", 1_000_000)
    assert peak_of(lambda: unpack(bomb)) < 5_000_000


def test_a_million_archives_in_a_row_are_refused_at_the_second():
    assert peak_of(lambda: unpack(GOOD * 10_000)) < 10_000_000


def test_more_bytes_than_allowed_are_refused_unread():
    with pytest.raises(CodecError, match="larger"):
        unframe(bytes(codec.MAX_TREE + 1013), 1000)


def test_more_bytes_than_allowed_are_not_framed():
    assert unframe(frame(np.zeros(125), 1000), 1000).size == 125
    with pytest.raises(CodecError):
        frame(np.zeros(126), 1000)


def test_frames_follow_one_another_through_a_pipe():
    pipe = io.BytesIO()
    values = [{"a": np.arange(3.0)}, [], {"b": "x"}]
    write(pipe, values[0])
    write(pipe, frame(values[1]))
    write(pipe, values[2])
    pipe.seek(0)
    assert equal([read(pipe) for _ in values], values) and read(pipe) is None


@pytest.mark.parametrize("cut", [9, 12, 20, -1])
def test_a_pipe_that_ends_within_a_frame_holds_no_value(cut):
    with pytest.raises(CodecError):
        read(io.BytesIO(frame({"a": np.arange(3.0)})[:cut]))


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"abc",
        bytes(4),
        bytes(8),
        bytes(12),
        b"\xff" * 8,
        b"\xff" * 12,
        b"\x04" + bytes(11),
        b"\x04" + bytes(7) + b"\xff" * 4,
        forged_frame()[:-1],
        forged_frame() + b"x",
        forged_frame()[:8] + b"\xff" * 4 + forged_frame()[12:],
        b"\x07" + forged_frame()[1:],
        pickle.dumps([1]),
        forged_frame(body=bytes(17)),
        forged_frame(body=b""),
        *(
            forged_frame(headers=headers)
            for headers in (
                "[]",
                "3",
                "{}",
                '"ab"',
                "[[]]",
                '[["<f8",[2]]]',
                '[["<f8",2,false]]',
                '[["<f8",[2.0],false]]',
                '[["<f8",[true,2],false]]',
                '[["<f8",[-2],false]]',
                '[["<f8",[-1,-2],false]]',
                '[["|O",[2],false]]',
                '[["<U4",[1],false]]',
                '[["<M8[D]",[2],false]]',
                '[["f8,f8",[1],false]]',
                '[["<f99",[2],false]]',
                '[["<f0",[2],false]]',
                '[["<f8",[[2]],false]]',
                "[[\"__import__('os').abort()\",[2],false]]",
                '[["<f8",[2],false],["<f8",[-2],false]]',
                '[[["a","<f8"],[2],false]]',
                '[["<f8",[0,99999999999],false]]',
                '[["<f8",[' + "1," * 64 + "2],false]]",
                '[["<f8",[' + "9" * 400 + "],false]]",
                '[["<f8",["2"],false]]',
                '[["<f8",[1],false],["<f8",[2],false]]',
            )
        ),
        forged_frame('["none"]', "[" + '["|b1",[0],false],' * 20_000 + '["|b1",[0],false]]', b""),
    ],
    ids=lambda bad: repr(bad[12:60]),
)
def test_a_forged_frame_is_refused(bad):
    with pytest.raises(CodecError):
        unframe(bad)


@pytest.mark.parametrize("shape", ["[60000000]", "[60000000,60000000]"])
def test_a_frame_with_false_array_sizes_takes_little_memory(shape):
    assert peak_of(lambda: unframe(forged_frame(headers=f'[["<f8",{shape},false]]'))) < 1_000_000


@pytest.mark.parametrize("there, back", [(pack, unpack), (frame, unframe)])
def test_bits_flipped_at_random_give_a_value_or_a_refusal(there, back):
    rng = np.random.default_rng(5)
    good = there({"result": [np.arange(6.0).reshape(2, 3), 1.5, "x", (True, None, 3)], "moved": np.ones(3, bool)})
    for _ in range(1500):
        bad = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        if rng.random() < 0.2:
            del bad[rng.integers(len(bad)) :]
        try:
            back(bytes(bad))
        except CodecError:
            pass


def test_the_tree_holds_no_array_data():
    data = frame({"x": np.zeros(10_000)})
    assert json.loads(data[12 : 12 + int.from_bytes(data[8:12], "little")])[0] == ["dict", [["x", ["array", "a0"]]]]


def test_equal_values_are_packed_as_equal_bytes():
    assert pack({"x": np.zeros(9)}) == pack({"x": np.zeros(9)})
