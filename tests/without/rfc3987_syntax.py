"""An empty replacement of a package by which jsonschema checks addresses in other scripts, if it is installed.

No notebook has such an address, and the package's grammars take two seconds to make, in every process that reads a
notebook. `tests/conftest.py` puts this in its place.
"""

raise ImportError("left out while the tests run")
