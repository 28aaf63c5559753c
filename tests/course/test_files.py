"""Files that are written whole, archives that are equal, hashes of files."""

import io
import os
import stat
import zipfile

import pytest

from course.files import add_to_zip, draft_folder, hash_of, replacing, replacing_folder, write_whole


def test_a_file_is_replaced_at_once_with_its_mode(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path, 0o600) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o600
    write_whole(path, b"newer")
    assert path.read_text() == "newer" and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("before", [None, "old"])
def test_after_an_exception_all_is_as_before(tmp_path, before):
    path = tmp_path / "a.txt"
    if before:
        path.write_text(before)
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert [entry.read_text() for entry in tmp_path.iterdir()] == ([before] if before else [])


@pytest.mark.parametrize("before", [None, "folder", "link"])
def test_a_folder_is_replaced_and_what_was_there_is_kept_aside(tmp_path, before):
    place, given = tmp_path / "there" / "a", tmp_path / "b.txt"
    given.write_text("b")
    place.parent.mkdir()
    if before == "folder":
        place.mkdir()
    elif before == "link":
        place.symlink_to(tmp_path / "nowhere")
    with replacing_folder(place, draft_folder(tmp_path, {"a.txt": b"a", "b.txt": given}), tmp_path / "old"):
        assert not os.path.lexists(place)
    assert {path.name: path.read_text() for path in place.iterdir()} == {"a.txt": "a", "b.txt": "b"}
    assert os.path.lexists(tmp_path / "old") == bool(before) and stat.S_IMODE(place.stat().st_mode) == 0o755


def test_equal_contents_are_equal_archives():
    def packed():
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            add_to_zip(archive, "a/b.txt", b"text" * 100)
            add_to_zip(archive, "run", b"#!", 0o755)
        return buffer.getvalue()

    with zipfile.ZipFile(io.BytesIO(packed())) as archive:
        assert archive.read("a/b.txt") == b"text" * 100
        assert archive.getinfo("run").external_attr >> 16 == 0o755
        assert archive.getinfo("a/b.txt").compress_size < 100
    assert packed() == packed()


def test_a_hash_is_of_contents_and_relative_paths(tmp_path):
    hashes = set()
    for root, name, text in (("1", "a", "x"), ("2", "a", "x"), ("3", "b", "x"), ("4", "a", "y")):
        path = tmp_path / root / name
        path.parent.mkdir()
        path.write_text(text)
        hashes.add(hash_of(path.parent, [path, path.parent, path.parent / "missing"]))
    assert len(hashes) == 3
