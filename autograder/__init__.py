"""Everything that grades: exercises, assembling, hidden tests, and the nbgrader set-up. Never shipped to students."""

import os
import sys
from pathlib import Path

# nbgrader starts `alembic` by name. It is in the same folder as this Python, which need not be on the PATH.
_bin = str(Path(sys.executable).parent)
if _bin not in os.environ.get("PATH", "").split(os.pathsep):
    os.environ["PATH"] = os.pathsep.join(filter(None, [_bin, os.environ.get("PATH")]))

# nbformat brings in jsonschema, which makes the grammars of this package to check addresses in other scripts. They take
# two seconds in every process, and no notebook holds such an address: without it jsonschema does not check them.
sys.modules.setdefault("rfc3987_syntax", None)
