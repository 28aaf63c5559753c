"""The instructors' guide, followed to the letter, from a fresh clone to a student who is forgotten."""

import pytest

from scripts import postgres
from tests.guides import runner

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.weekly]


def test_the_guide_works_to_the_letter(fresh_clone, tmp_path, needs_jail):
    with postgres.server() as gradebook:  # without one, that part runs on SQLite
        session = runner.Session(fresh_clone, tmp_path / "scratch", OWN_GRADEBOOK_URL=gradebook or "")
        session.follow(runner.blocks("instructors"))
    left = [path.relative_to(fresh_clone) for path in (fresh_clone / "build/course").rglob("*") if "esra" in path.name]
    assert left == []
    left = (fresh_clone / "build/course/gradebook.db").read_bytes()
    assert b"Lovelace" in left and b"Yildiz" not in left
    assert runner.altered_checks(fresh_clone) == set()
