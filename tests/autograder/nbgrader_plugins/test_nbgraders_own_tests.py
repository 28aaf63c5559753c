"""nbgrader's own tests, run with this course's configuration: they hold, except where the grader differs on purpose.

Those of `zip_collect` are not among them: that command collects as `autograder collect` does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from course.folder import ROOT
from tests.conftest import the_others_weekly

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("needs_jail")]

STUB = "the text of a released answer is this course's, so nbgrader's own is an answer that a human sees"
WHOLE = "a submission is graded as a whole: --notebook is refused"
OVERWRITE = "what a student may overwrite is not configured: exclude_overwriting is refused"
CHECKSUMS = "a graded notebook keeps the checksums of the released one, by which untouched answers are known"
BROKEN = "a notebook that cannot be read counts as zero with a reason, and the command goes on"
GRADEBOOK = "release_feedback reads the gradebook, and the test gives --db to the other commands alone"

# module: how many of its tests hold, and those that do not, with the reason
TABLE = {
    "autograde": (
        24,
        {
            "test_grade": STUB,
            "test_showtraceback_exploit": STUB,
            "test_grade_empty_timestamp": "a time that cannot be read is a note to the grader, and stops no class",
            "test_filter_notebook": WHOLE,
            "test_force_single_notebook": WHOLE,
            "test_update_newer_single_notebook": WHOLE,
            "test_grade_overwrite_files": OVERWRITE,
            "test_grade_overwrite_files_subdirs": OVERWRITE,
            "test_side_effects": "files that a student's code writes stay in the jail",
            "test_hidden_tests_single_notebook": CHECKSUMS,
            "test_hidden_tests_autotest": CHECKSUMS,
            "test_handle_failure": BROKEN,
            "test_handle_failure_single_notebook": BROKEN,
            "test_missing_source_kernelspec": "a notebook that names no language is graded as Python",
            "test_no_execute": "points that nothing has checked are refused",
            "test_missing_files": "a submission without a notebook gets zero with a reason, not nothing",
        },
    ),
    "generate_feedback": (14, {"test_filter_notebook": "a page that shows the grade that counts is not removed"}),
    "validate": (20, {}),
    "collect": (11, {}),
    "releasefeedback": (
        3,
        dict.fromkeys(
            "test_single_file test_single_student test_student_id_exclude test_permissions".split(), GRADEBOOK
        ),
    ),
}


@pytest.mark.parametrize("module", the_others_weekly(TABLE, "validate"))
def test_nbgraders_own_tests_hold_except_where_this_grader_differs_on_purpose(module, tmp_path):
    config = ROOT / "autograder" / "nbgrader_config.py"
    (tmp_path / "nbgrader_config.py").write_text(f"load_subconfig({str(config)!r})\n")
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # alembic
    environment = {**os.environ, "PATH": paths, "JUPYTER_CONFIG_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    options = ["-q", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, "--pyargs", f"nbgrader.tests.apps.test_nbgrader_{module}"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    found = {kind: set(re.findall(rf"^{kind} \S*::(\w+)", done.stdout, re.MULTILINE)) for kind in ("FAILED", "ERROR")}
    held, different = TABLE[module]
    assert found == {"FAILED": set(different), "ERROR": set()}, done.stdout[-3000:]
    assert len(re.findall(r"^PASSED ", done.stdout, re.MULTILINE)) == held
