"""The command line says in one line what was wrong, and exits with something else than zero."""

import os
import re
import subprocess
import sys

import pytest
from nbgrader.api import Gradebook

from course.folder import COURSE_DIR, ROOT


def run(program, *arguments, **options):
    command = [sys.executable, "-m", program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["try", "sofmax", "x.py"], r"unknown exercise 'sofmax'; there are: .*\bsoftmax\b"),
        (["assemble", "no_chapter"], "unknown chapter 'no_chapter'"),
    ],
)
def test_unknown_names_are_one_line_and_not_zero(arguments, words):
    done = run("autograder", *arguments)
    assert done.returncode != 0 and done.stdout == ""
    assert re.search(words, done.stderr) and len(done.stderr.strip().splitlines()) == 1


def test_help_lists_the_commands():
    done = run("autograder", "--help")
    assert done.returncode == 0
    for command in ("assemble", "release", "grade", "report", "try", "doctor"):
        assert command in done.stdout


def test_nbgraders_own_commands_find_the_course_from_the_root_of_the_checkout(tmp_path):
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}", "attention") as gradebook:
        gradebook.add_student("ada")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER_")}
    done = run("nbgrader", "db", "student", "list", env={**environment, COURSE_DIR: str(tmp_path)})
    assert "There are 1 students" in done.stdout and "ada" in done.stdout, done.stderr
