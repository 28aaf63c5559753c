"""`python -m course.nbgrader_each METHOD ASSIGNMENT...`: a method of nbgrader's API, for each assignment.

One process for all of them, since nbgrader takes longer to start than to make an assignment or a page; and a separate
process, since the configuration changes the environment of the process that reads it.
"""

import re
import sys
from typing import Any

from nbgrader.apps import NbGraderAPI
from traitlets.config.loader import PyFileConfigLoader

from course.folder import ROOT


def _why(done: dict[str, Any]) -> str:
    """Say on one line what went wrong: nbgrader's own message only points to a traceback in its log."""
    lines = [line.strip() for line in f"{done.get('error', '')}\n{done.get('log', '')}".splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line) and "NbGrader" not in line]
    return (errors or lines or ["it failed"])[-1]


_ERROR = re.compile(r"[\w.]*(Error|Exception|Entry)\b.*: ")


if __name__ == "__main__":
    api = NbGraderAPI(config=PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config())
    method, *assignments = sys.argv[1:]
    for assignment in assignments:
        done = getattr(api, method)(assignment, force=True)
        if not done["success"]:
            sys.exit(f"{assignment}: {_why(done)}")
