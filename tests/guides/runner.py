"""Follows a guide to the letter: its blocks are run in order, in a clone of this checkout, as a reader would.

    ```sh                      is run, in one session: what it exports and where it goes holds for the blocks below
    ```python                  is run as a notebook's cells would be, after the Python blocks above it
    ```text                    must be in the output of the block above it, word for word; `...` stands for anything
    ```{code-block} with a :caption: that names a file   is written there; a `diff` is applied

A line before a block may say what is different: `% until: words` (it serves until Ctrl+C, which is sent when the words
have come), `% fails` (its status is not 0), `% own: NAME` (the variable is set to what the test has for it, OWN_NAME in
its environment), `% not run: reason`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from course.folder import ROOT
from tests.conftest import WITHOUT

GUIDES = ROOT / "guides"
PATIENCE = 400.0
# Beginnings of variables that a reader's shell has not.
NOT_A_READERS = tuple("ATTNLAB_ AUTOGRADER_ COURSE_ GRADEBOOK_URL JUPYTER_ MAKE PYTEST_ VIRTUAL_ENV".split())
_FENCE = re.compile(
    r"^(?P<mark>(?:% [^\n]*\n)?)(?P<ticks>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=ticks)$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Block:
    """One fenced block of a guide, and where it stands."""

    kind: str  # sh, python, text, file
    text: str
    where: str
    file: str = ""
    language: str = ""
    mark: str = ""
    words: str = ""  # that come with the mark


def blocks(name: str) -> list[Block]:
    """The blocks of a guide, in order. Fails where one is neither run nor marked."""
    text, found = (GUIDES / f"{name}.md").read_text("utf-8"), []
    for match in _FENCE.finditer(text):
        where = f"guides/{name}.md:{text[: match.start()].count(chr(10)) + 1 + bool(match['mark'])}"
        directive, _, language = match["info"].strip().rpartition(" ")
        caption = re.match(r"(?:^:\w+:.*\n)*?^:caption: (\S+)\n", match["body"], re.MULTILINE)
        body = re.sub(r"\A(?:^:\w+:.*\n)+\n?", "", match["body"], flags=re.MULTILINE) if directive else match["body"]
        kind = "file" if caption else language
        assert kind in ("sh", "python", "text", "file"), f"{where}: what is to be done with {match['info']!r}?"
        mark, _, words = match["mark"].removeprefix("% ").strip().partition(": ")
        assert mark in ("", "until", "fails", "own", "not run"), f"{where}: no mark is called {mark!r}"
        assert mark in ("", "fails") or words, f"{where}: {mark} is to be followed by words"
        if kind == "text":
            assert found and found[-1].kind in ("sh", "python"), f"{where}: whose output is this?"
        found.append(Block(kind, body, where, caption[1].replace("\\_", "_") if caption else "", language, mark, words))
    return found


def clone(folder: Path) -> Path:
    """This checkout as a clone would have it, what is not committed yet included; .venv is the running environment."""
    listing = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.check_output(listing, cwd=ROOT, text=True).split("\0")):
        source, place = ROOT / name, folder / name
        if source.is_file() and not source.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)
    # The running environment stands in for the one that `make` would take minutes to make, as if it were up to date.
    assert (Path(sys.prefix) / ".ready").exists(), "the environment is none that `make` has made: run `make test`"
    (folder / ".venv").symlink_to(sys.prefix)
    for name in ("requirements.txt", "pyproject.toml"):
        os.utime(folder / name, (0, 0))
    return folder


def altered_checks(folder: Path) -> set[str]:
    """Names of the check files that differ from those of this checkout: those that a clone has made again."""
    here, there = (
        {(path.name, path.read_bytes()) for path in (root / "attnlab" / "checks").glob("*")} for root in (ROOT, folder)
    )
    return {name for name, _ in here ^ there}


class Session:
    """A shell that a guide is followed in."""

    def __init__(self, place: Path, scratch: Path, **environment: str):
        self.scratch, self.output = scratch, ""
        self._cells, self._printed = "", ""
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / "installed").mkdir()  # in editable form, as `make` does: this one's own is another checkout's
        (scratch / "installed" / "attnlab").symlink_to(place / "attnlab")
        settings = scratch / "jupyter"  # what a test needs that a reader does not
        settings.mkdir()
        (settings / "jupyter_server_config.py").write_text(
            "c.ServerApp.allow_root = True\nc.ServerApp.open_browser = False\nc.ServerApp.port_retries = 50\n"
        )
        plain = {name: value for name, value in os.environ.items() if not name.startswith(NOT_A_READERS)}
        self.environment = {
            **plain,
            "HOME": str(scratch),
            "JUPYTER_CONFIG_DIR": str(settings),
            "PYTHONUNBUFFERED": "1",
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), plain.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join([str(scratch / "installed"), WITHOUT]),
            **environment,
        }
        self._state = scratch / "state"
        self._state.write_text(f"cd '{place}'\n")
        self._groups: list[int] = []

    def follow(self, guide: list[Block]) -> None:
        """Run all blocks. Fails at the first that does something else than the guide says."""
        try:
            for block in guide:
                self._block(block)
        finally:
            self.end()

    def run(self, commands: str) -> str:
        """Return what further commands print, at this point of the guide."""
        try:
            return self._run(commands, Block("sh", commands, "the test"))
        finally:
            self.end()

    def end(self) -> None:
        """End what blocks have left in the background."""
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _block(self, block: Block) -> None:
        if block.mark == "not run":
            return
        if block.mark == "own":
            block = replace(block, text=f'export {block.words}="$OWN_{block.words}"')
        if block.kind == "text":
            said = f"{block.where}: not in the output of the block above it:\n{self.output}"
            assert shows(block.text, self.output), said
        elif block.kind == "file":
            self._write(block)
        elif block.kind == "python":
            self._cells += "\n" + block.text
            printed = self._run(f"python - <<'CELLS'\n{self._cells}\nCELLS", block)
            self.output, self._printed = printed.removeprefix(self._printed), printed
        else:
            self.output = self._run(block.text, block)

    def _run(self, commands: str, block: Block) -> str:
        script, out = self.scratch / "block.sh", self.scratch / "output"
        script.write_text(
            f"set -eo pipefail\n. '{self._state}'\n"
            f'trap \'{{ export -p; echo "cd \\"$PWD\\""; }} > {self._state}\' EXIT\n{commands}'
        )
        with out.open("wb") as file:
            streams = dict(stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
            process = subprocess.Popen(["bash", script], env=self.environment, start_new_session=True, **streams)
        try:
            if block.mark == "until":
                self._interrupt(process, out, block)
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{block.where}: did not end:\n{read(out)}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 0)  # a process is left in the background
                self._groups.append(process.pid)
        if block.mark != "until":
            assert (status != 0) == (block.mark == "fails"), f"{block.where}: ended with {status}:\n{read(out)}"
        return read(out)

    def _interrupt(self, process: subprocess.Popen, out: Path, block: Block) -> None:
        """Wait for the words, then press Ctrl+C, as often as it takes; what hangs all the same is ended."""
        patience = time.monotonic() + PATIENCE
        while block.words not in read(out):
            waiting = process.poll() is None and time.monotonic() < patience
            assert waiting, f"{block.where}: {block.words!r} did not come:\n{read(out)}"
            time.sleep(0.1)
        for _ in range(20):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
                return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def _write(self, block: Block) -> None:
        here = Path(re.findall(r"^cd \"?'?(.*?)'?\"?$", self._state.read_text(), re.MULTILINE)[-1])
        path = here / block.file
        if block.language != "diff":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
            return
        lines = block.text.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if not line.startswith("+"))
        new = "".join(line[1:] for line in lines if not line.startswith("-"))
        text = path.read_text("utf-8")
        assert text.count(old) == 1, f"{block.where}: {block.file} has this {text.count(old)} times:\n{old}"
        path.write_text(text.replace(old, new), "utf-8")


def read(path: Path) -> str:
    """Return the text on a terminal, without colors; of a line that was written over, the last version."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", path.read_text("utf-8", errors="replace"))
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))


def shows(wanted: str, output: str) -> bool:
    """Whether the output has the lines; `...` stands for anything."""
    lines = "\n".join(line.rstrip() for line in wanted.strip("\n").split("\n"))
    pattern = re.escape(lines).replace(re.escape("..."), r"[\s\S]*?")
    return re.search(rf"^{pattern}$", output, re.MULTILINE) is not None
