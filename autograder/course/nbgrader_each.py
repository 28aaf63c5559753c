"""`python -m autograder.course.nbgrader_each METHOD ASSIGNMENT...`: a method of nbgrader's API, for each assignment.

One process for all of them, since nbgrader takes longer to start than to make an assignment or a page; and a process of
its own, since the configuration changes the environment of the one that reads it.
"""

import sys

from nbgrader.apps import NbGraderAPI
from traitlets.config import PyFileConfigLoader

from autograder.course.folder import ROOT

if __name__ == "__main__":
    api = NbGraderAPI(config=PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config())
    method, *assignments = sys.argv[1:]
    for assignment in assignments:
        done = getattr(api, method)(assignment, force=True)
        if not done["success"]:
            sys.exit(done.get("error") or done["log"])
