"""The engine in Node: `node(code, folder)` runs JavaScript beside it; `pieces` is the model's folder."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from course import release
from tests.conftest import skip

HERE = Path(__file__).parent
IMPORTS = f"""\
import {{ readFileSync }} from "node:fs";
import * as engine from {json.dumps((HERE / "node.js").as_uri())};
"""


@pytest.fixture(scope="session")
def node():
    """`node(code, **given)` runs JavaScript that finds the engine's names and `given`, and returns what it prints."""
    if shutil.which("node") is None:
        skip("node is not on the PATH (Debian: apt-get install nodejs)", "REQUIRE_COMPILERS")

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
    if not all(importlib.util.find_spec(name) for name in ("gguf", "wasmtime")):
        skip("gguf and wasmtime are not installed: make model", "REQUIRE_MODEL")


@pytest.fixture(scope="session")
def pieces(shared, smollm2_file):
    """The folder of SmolLM2-135M's pieces, as `make live` writes them."""
    from live import shards

    return shared("pieces", shards.write)


@pytest.fixture(scope="session")
def python_site(shared):
    """A folder that is served as a site: Python for answers, as `make python` writes it, and notebooks to answer in."""
    if shutil.which("npm") is None:
        skip("npm is not on the PATH (Debian: apt-get install npm)", "REQUIRE_COMPILERS")
    from live import python_pieces

    def make(folder: Path) -> None:
        python_pieces.write(folder / "_static" / "python")
        (folder / "index.html").write_text("<!doctype html><title>Answers</title>", "utf-8")
        (folder / "notebooks").mkdir()
        for stem in json.loads((folder / "_static" / "python" / "pieces.json").read_text("utf-8"))["chapters"]:
            notebook = nbformat.writes(release.student_notebook(stem))
            (folder / "notebooks" / f"{stem}.ipynb").write_text(notebook + "\n", "utf-8")

    return shared("python_site", make)
