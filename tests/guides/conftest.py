"""What the guides are followed in."""

from __future__ import annotations

import pytest

from tests.guides import runner


@pytest.fixture
def fresh_clone(tmp_path):
    return runner.clone(tmp_path / "attention")
