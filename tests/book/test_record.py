"""The page that verifies signed records: right, changed, by another key, and no record at all."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from autograder.reports import signed_record

CHAPTERS = [{"chapter": "softmax", "points": 26.5, "of": 28}]


@pytest.fixture(scope="module")
def record():
    return signed_record.signed(CHAPTERS, Ed25519PrivateKey.generate(), "Ada Łovelace")


@pytest.fixture
def says(visit, tmp_path):
    """`says(content, keys="")`: what the page says to a file with that content, and its table."""
    page = visit("appendices/record")

    def ask(content, keys=""):
        (tmp_path / "record.json").write_text(content, "utf-8")
        box, said = page.locator(".verify-record"), page.locator(".verify-record [role=status]")
        box.evaluate("(box, keys) => { box.dataset.keys = keys; }", keys)
        said.evaluate("said => { said.textContent = ''; }")
        page.locator(".verify-record input").set_input_files([])
        page.locator(".verify-record input").set_input_files(tmp_path / "record.json")
        page.wait_for_function("said => said.textContent", arg=said.element_handle())
        table = page.locator(".verify-record table")
        return said.inner_text(), table.inner_text().split() if table.is_visible() else None

    return ask


def test_a_signed_record_is_shown_with_whose_key_it_is(says, record):
    said, table = says(json.dumps(record), f"other {record['key']}")
    assert said.startswith("The signature is right. attention, Ada Łovelace, 2")
    assert said.endswith("Signed by a course of this site.")
    assert table == ["chapter", "points", "softmax", "26.5", "of", "28"]
    assert record["key"] in says(json.dumps(record))[0]  # this site does not know it


def test_what_was_changed_or_is_something_else_is_said(says, record):
    changed = {**record, "record": record["record"].replace("26.5", "28")}
    other = {**record, "key": signed_record.public_text(Ed25519PrivateKey.generate())}
    for file in (changed, other, {**record, "signature": "AAAA"}, {**record, "key": "short"}):
        said, table = says(json.dumps(file))
        assert said.startswith("The signature is wrong") and table is None
    for content in ("not JSON", "[]", "{}", json.dumps({**record, "record": "{}"})):
        assert says(content) == ("This is not a record of this course.", None)
