"""Unpacking what students put into archives: ordinary files arrive, everything else is left out and told of."""

import io
import logging
import stat
import zipfile

import pytest

from autograder.nbgrader_plugins import zipcollect


def zipped(*members, **named) -> bytes:
    """A zip file; members are (name or ZipInfo, content)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in [*members, *named.items()]:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def unpack(tmp_path, caplog):
    """`unpack(**archives)`: what stands in the extracted folder afterwards (name -> bytes), and what was warned of."""

    def run(**archives):
        (tmp_path / "archive").mkdir()
        for name, data in archives.items():
            (tmp_path / "archive" / name.replace("_zip", ".zip").replace("_ipynb", ".ipynb")).write_bytes(data)
        with caplog.at_level(logging.WARNING):
            extractor = zipcollect.SafeExtractor()
            extractor.log = logging.getLogger("collect")
            extractor.extract(str(tmp_path / "archive"), str(tmp_path / "out"))
        out = tmp_path / "out"
        assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")} == {"archive", "out"}
        return {
            path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()
        }, caplog.text

    return run


def test_ordinary_members_arrive_and_a_file_that_is_no_archive_is_copied(unpack):
    found, warned = unpack(
        class_zip=zipped(("ada_1_softmax.ipynb", "a"), ("sub/boris_2_softmax.ipynb", "b")), plain_ipynb=b"{}"
    )
    assert found == {"class/ada_1_softmax.ipynb": b"a", "class/sub/boris_2_softmax.ipynb": b"b", "plain.ipynb": b"{}"}
    assert warned == ""


def test_an_archive_for_each_student_within_one_for_the_class(unpack):
    found, _ = unpack(class_zip=zipped(("ada.zip", zipped(("softmax.ipynb", "a")))))
    assert found == {"class/ada/softmax.ipynb": b"a"}


def link(name, target):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target


@pytest.mark.parametrize(
    "member, words",
    [
        (("../outside.ipynb", "x"), "somewhere else"),
        (("/etc/cron.d/x", "x"), "somewhere else"),
        (("a/../../b", "x"), "somewhere else"),
        (("..\\b", "x"), "somewhere else"),
        (("c:/b", "x"), "somewhere else"),
        (link("softmax.ipynb", "/etc/passwd"), "link"),
        (("a\nb", "x"), "a name"),
        (("n" * 300, "x"), "a name"),
        (("/".join("abcdefghijkl"), "x"), "a name"),
    ],
)
def test_a_member_that_is_no_submission_is_left_out_and_the_others_arrive(unpack, member, words):
    found, warned = unpack(class_zip=zipped(member, ("ada_1_softmax.ipynb", "a")))
    assert found == {"class/ada_1_softmax.ipynb": b"a"}
    assert warned.count("Left out") == 1 and words in warned


def test_two_files_of_one_name_and_a_file_in_the_way_of_a_folder(unpack):
    with pytest.warns(UserWarning, match="Duplicate"):
        data = zipped(("a", "first"), ("a", "second"), ("a/b", "below"))
    found, warned = unpack(class_zip=data)
    assert found == {"class/a": b"first"} and warned.count("Left out") == 2


def test_a_bomb_is_left_out(unpack, monkeypatch):
    monkeypatch.setattr(zipcollect, "MAX_BYTES", 1 << 20)
    bomb = zipped(("bomb", b"\0" * (2 << 20)), ("ada_1_softmax.ipynb", "a"))
    assert len(bomb) < 10_000
    found, warned = unpack(class_zip=bomb)
    assert found == {"class/ada_1_softmax.ipynb": b"a"} and "more than a class hands in" in warned


def test_archives_within_archives_share_what_there_may_be(unpack, monkeypatch):
    monkeypatch.setattr(zipcollect, "MAX_MEMBERS", 3)
    inner = zipped(("1", "a"), ("2", "b"), ("3", "c"))
    found, warned = unpack(class_zip=zipped(("x.zip", inner), ("y.zip", inner)))
    assert len(found) == 2 and "more than a class hands in" in warned


def test_sizes_that_lie_are_seen(unpack):
    data = bytearray(zipped(("a", b"x" * 1000)))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):  # the uncompressed size, where it stands twice
        place = data.index(mark) + offset
        data[place : place + 4] = (10).to_bytes(4, "little")
    found, warned = unpack(class_zip=bytes(data))
    assert all(len(content) <= 11 for content in found.values()) and (found == {} or len(found) == 1)


def test_no_zip_at_all_is_a_line(unpack):
    found, warned = unpack(class_zip=b"not a zip", other_zip=zipped(("a", "b")))
    assert found == {"other/a": b"b"} and "class.zip is no zip file" in warned
