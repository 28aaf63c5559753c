"""Files that are not the pinned ones are refused, and chapters whose exercises import more are not offered."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import pytest

from course import catalog
from live import python_pieces
from live.python_pieces import CannotFetch, chapters, checks_of, imported_by, manifest, package, verified
from tests.conftest import write_files

FIRST_PART = ["dot_products", "softmax", "attention", "masks"]


@pytest.fixture
def lock(tmp_path):
    """`lock(name, content)` writes a lock file of Pyodide's that pins this content."""

    def write(name: str, content: bytes):
        path = tmp_path / "pyodide-lock.json"
        entry = {"file_name": name, "sha256": hashlib.sha256(content).hexdigest()}
        path.write_text(json.dumps({"packages": {"numpy": entry}}), "utf-8")
        return path

    return write


def test_the_first_part_needs_nothing_but_numpy():
    assert set(FIRST_PART) <= set(chapters(["numpy"]))


def test_without_numpy_no_chapter_of_the_first_part_is_offered():
    assert not set(FIRST_PART) & set(chapters([]))


def test_with_pytorch_in_the_manifest_all_chapters_are_offered():
    assert chapters(["numpy", "torch"]) == [stem for stem in catalog.chapters() if catalog.exercises_of(stem)]


def test_what_a_chapter_takes_from_an_earlier_one_counts(monkeypatch, tmp_path):
    write_files(
        tmp_path, {"solutions/later.py": "from solutions import earlier", "solutions/earlier.py": "import torch"}
    )
    monkeypatch.setattr(python_pieces, "ROOT", tmp_path)
    assert imported_by("later") == {"solutions", "torch"}


def test_checks_come_by_chapter_and_the_package_has_no_widget():
    with zipfile.ZipFile(io.BytesIO(checks_of("softmax"))) as archive:
        checks = {name.rpartition("/")[2] for name in archive.namelist()}
    assert checks == {f"{name}.gz" for name in catalog.exercises_of("softmax")}
    with zipfile.ZipFile(io.BytesIO(package())) as archive:
        names = archive.namelist()
    assert "attnlab/check.py" in names
    assert not [name for name in names if "/widgets/" in name or "/data/" in name or "/checks/" in name]


def test_the_package_is_the_same_bytes_twice():
    assert (package(), checks_of("softmax")) == (package(), checks_of("softmax"))


def test_a_wheel_is_taken_if_the_manifest_and_the_lock_file_agree(lock):
    content = b"a wheel"
    entry = {"file": "numpy.whl", "sha256": hashlib.sha256(content).hexdigest()}
    assert verified(content, entry, lock("numpy.whl", content)) == content


def test_another_wheel_than_the_pinned_one_is_refused(lock):
    entry = {"file": "numpy.whl", "sha256": hashlib.sha256(b"a wheel").hexdigest()}
    with pytest.raises(CannotFetch, match=r"numpy\.whl is not the file that the manifest names"):
        verified(b"another", entry, lock("numpy.whl", b"a wheel"))


@pytest.mark.parametrize("locked", ["numpy.whl", "scipy.whl"])
def test_a_wheel_that_pyodide_does_not_know_is_refused(lock, locked):
    content = b"a wheel"
    entry = {"file": "numpy.whl", "sha256": hashlib.sha256(content).hexdigest()}
    with pytest.raises(CannotFetch, match="Pyodide's lock file names"):
        verified(content, entry, lock(locked, b"another"))


def test_a_wheel_comes_from_a_package_where_its_address_does_not_answer(monkeypatch, tmp_path):
    def download(*command):
        folder = command[command.index("--dest") + 1]
        with zipfile.ZipFile(f"{folder}/other.whl", "w") as archive:
            archive.writestr("inside/numpy.whl", b"a wheel")

    monkeypatch.setattr(python_pieces, "run", download)
    entry = {"address": "http://127.0.0.1:9/", "file": "numpy.whl", "package": "other==1", "member": "inside/"}
    assert python_pieces.fetched(entry) == b"a wheel"


def test_everything_from_elsewhere_is_pinned_by_version_hash_and_size():
    pinned = manifest()
    assert all(version[0].isdigit() for version in pinned["dependencies"].values())
    for entry in [*pinned["pyodide"].values(), *pinned["wheels"]]:
        assert len(entry["sha256"]) == 64 and entry["bytes"] > 0
    locked = json.loads((python_pieces.SOURCE / "package-lock.json").read_text("utf-8"))["packages"]
    assert all("integrity" in entry for name, entry in locked.items() if name)
    assert not any("resolved" in entry for entry in locked.values())


def test_what_is_served_has_the_pinned_bytes(python_site):
    folder = python_site / "_static" / "python"
    pinned = manifest()
    for name, entry in {**pinned["pyodide"], **{one["file"]: one for one in pinned["wheels"]}}.items():
        content = (folder / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (entry["bytes"], entry["sha256"])


def test_the_licenses_name_all_that_others_have_written(python_site):
    text = (python_site / "_static" / "python" / "licenses.txt").read_text("utf-8")
    for name in ("pyodide 0.27.7: MPL-2.0", "@codemirror/view ", "@lezer/python ", "style-mod ", "NumPy Developers"):
        assert name in text
    assert text.count("Permission is hereby granted") > 10 and "esbuild" not in text
