"""The engine in Node: `node(code, folder)` runs JavaScript beside it; `pieces` is the model's folder."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
IMPORTS = f"""\
import {{ readFileSync }} from "node:fs";
import * as engine from {json.dumps((HERE / "node.js").as_uri())};
"""


@pytest.fixture(scope="session")
def node():
    """`node(code, **given)` runs JavaScript that finds the engine's names and `given`, and returns what it prints."""
    if shutil.which("node") is None:
        if os.environ.get("REQUIRE_COMPILERS") == "1":
            pytest.fail("REQUIRE_COMPILERS=1, but node is not on the PATH")
        pytest.skip("node is not on the PATH: tests of the engine are skipped (Debian: apt-get install nodejs)")

    def run(code: str, **given):
        program = f"{IMPORTS}const given = JSON.parse({json.dumps(json.dumps(given))});\n{code}"
        command = ["node", "--input-type=module"]
        done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def model_tools():
    """Tests that need the packages of `make model`, to read the model's file and to assemble the kernel."""
    if all(importlib.util.find_spec(name) for name in ("gguf", "wasmtime")):
        return
    if os.environ.get("REQUIRE_MODEL") == "1":
        pytest.fail("REQUIRE_MODEL=1, but gguf and wasmtime are not installed: make model")
    pytest.skip("gguf and wasmtime are not installed: tests of the kernel are skipped (make model)")


@pytest.fixture(scope="session")
def pieces(shared, smollm2_file):
    """The folder of SmolLM2-135M's pieces, as `make live` writes them."""
    from live import shards

    return shared("pieces", shards.write)
