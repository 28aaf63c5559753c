"""The folders and environments in which the guides are followed."""

from __future__ import annotations

import pytest

from course.folder import ROOT
from tests.guides import runner


@pytest.fixture
def fresh_clone(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this checkout is no git repository, so there is no clone of it to follow the guide in")
    return runner.clone(tmp_path / "attention")
