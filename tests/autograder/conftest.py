"""Fixtures of all tests of the grader."""

import functools
import os
import shutil
import sys

import nbgrader.api
import pytest

from autograder.sandbox import other_user


@pytest.fixture(scope="session", autouse=True)
def tables_of_one_version():
    """For each new gradebook nbgrader starts a program that says which version its tables have: two seconds each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nbgrader.api, "get_alembic_version", functools.cache(nbgrader.api.get_alembic_version))
        yield


@pytest.fixture(scope="module", autouse=True)
def graders_end_with_their_module():
    """nbgrader's converter keeps the process that grades for the next submission; the next module counts processes."""
    yield
    if plugin := sys.modules.get("autograder.nbgrader_plugins.autograde"):
        plugin.TrustedAutograde.pool.default_value.close()


@pytest.fixture
def course(template, tmp_path):
    """A copy, for one test, of the course that its module has made."""
    return shutil.copytree(template, tmp_path / "course")


@pytest.fixture
def not_root(monkeypatch):
    """This process seems not to be root's, so no program can be run as another user."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    other_user.problem.cache_clear()
    yield
    other_user.problem.cache_clear()
