"""Fixtures for tests of the sandbox."""

import shutil

import pytest

from autograder.sandbox import bubblewrap, fork_client


@pytest.fixture
def altered(tmp_path, monkeypatch):
    """`altered(old, new)`: sandboxes get a copy of `inside` in whose fork server one line is another."""

    def alter(old: str, new: str) -> None:
        server = tmp_path / "inside" / "fork_server.py"
        shutil.copytree(bubblewrap.INSIDE, server.parent)
        source = server.read_text("utf-8")
        assert source.count(old) == 1
        server.write_text(source.replace(old, new))
        monkeypatch.setattr(bubblewrap, "INSIDE", server.parent)
        fork_client.give_up()  # a server that an earlier test started has the whole copy

    return alter
