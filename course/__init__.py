"""The course and how it is made: its chapters, exercises, notebooks and check data. Never shipped to students."""

import os
import sys
from pathlib import Path

# nbgrader starts `alembic` by name. It is in the same folder as this Python, which may not be on the PATH.
_bin = str(Path(sys.executable).parent)
if _bin not in os.environ.get("PATH", "").split(os.pathsep):
    os.environ["PATH"] = os.pathsep.join(filter(None, [_bin, os.environ.get("PATH")]))

# nbformat imports jsonschema, which builds the grammars of this package to check addresses in other scripts. That takes
# two seconds in every process, and no notebook contains such an address: without it jsonschema does not check them.
sys.modules.setdefault("rfc3987_syntax", None)
