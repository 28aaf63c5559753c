"""Search published files for answers and hidden tests, which must not be in them.

    python -m book.leaks FOLDER ...

searches every file below the folders for every line of the bodies in `solutions/` and of the case generators in
`course/exercises/`: pages (as text, without tags), sources, notebooks, reports, JSON, scripts, archives. White
space does not count. Each finding is a line `file: leaks solutions/softmax.py:12`; the exit status is then 1.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import hashlib
import html
import io
import json
import re
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from course.chapter import is_exercise, parse
from course.folder import ROOT

BITS = 22  # of the hashes that say where to look
SHORTEST = 12  # characters without white space; shorter lines give nothing away
# What stands in many programs: a stub's body, a base class's constructor, one argument on a line of its own, and the
# calls of every training loop, which the chapters make themselves.
_SAYS_NOTHING = re.compile(
    r"raiseNotImplementedError|super\(\)\.__init__\(|\w+=\w+,?$|(loss\.backward|optimizer\.(zero_grad|step))\(\)$"
)
PUBLISHED_SOURCES = ("chapters", "appendices", "attnlab")
PICTURES = {".png", ".jpg", ".jpeg", ".gif", ".ico", ".webp", ".woff", ".woff2", ".ttf", ".eot", ".pyc"}
ZIPPED = {".zip", ".whl", ".npz"}
THIRD_PARTY = ROOT / "live" / "python" / "package.json"  # its own keys pin files of Python and NumPy, by their SHA-256
USUAL_PROPERTIES = ("unchanged", "gradients", "any_device", "refuses")  # of `course.kit.exercise.Exercise`
MARKERS = {"###BEGINSOLUTION": "a solution's marker", "###BEGINHIDDENTESTS": "a hidden test's marker"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "", "f": ""}


def answers(root: Path = ROOT) -> dict[str, str]:
    """Collect the texts that must not appear, without white space -> their places, as `solutions/softmax.py:12`."""
    found, shown = dict(MARKERS), _shown(root)
    for path in sorted((root / "solutions").glob("*.py")):
        if path.relative_to(root).as_posix() in shown:
            continue
        chapter, lines, here = root / "chapters" / f"{path.stem}.md", _without_comments(path), {}
        given, in_stubs = _given_away(chapter), _given_in_stubs(chapter)
        for definition in _definitions(ast.parse(path.read_text("utf-8")).body):
            if definition.name not in given:
                _collect(definition, lines, path.relative_to(root).as_posix(), here)
        for text, origin in here.items():
            if text not in in_stubs:
                found.setdefault(text, origin)
    for path in sorted((root / "course" / "exercises").glob("*.py")):
        if path.relative_to(root).as_posix() in shown:
            continue
        lines, origin = _without_comments(path), path.relative_to(root).as_posix()
        for maker in _case_makers(ast.parse(path.read_text("utf-8")).body):
            if isinstance(maker, ast.Lambda):
                body = maker.body
                begin = len(lines[body.lineno - 1].encode()[: body.col_offset].decode())  # after `lambda rng:`
                for number in range(body.lineno, body.end_lineno + 1):
                    text = lines[number - 1][begin if number == body.lineno else 0 :]
                    _add(text, f"{origin}:{number}", found)
            else:
                _collect(maker, lines, origin, found)
    return found


def _case_makers(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.ClassDef | ast.Lambda]:
    """Yield the functions that draw the cases of properties: decorated ones, and arguments of usual properties."""
    given = []
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in USUAL_PROPERTIES:
                given += call.args
    named = {maker.id for maker in given if isinstance(maker, ast.Name)}
    yield from (maker for maker in given if isinstance(maker, ast.Lambda))
    for definition in _definitions(body):
        if definition.name in named or any(".property(" in ast.unparse(mark) for mark in definition.decorator_list):
            yield definition


def _shown(root: Path) -> set[str]:
    """List the files that the authors' guide shows in full: its example, whose answers are not secret."""
    guide = root / "guides" / "authors.md"
    return set(re.findall(r"^:caption: (\S+)$", guide.read_text("utf-8"), re.MULTILINE)) if guide.is_file() else set()


def _given_away(chapter: Path) -> set[str]:
    """Collect the names that a chapter defines outside of exercise cells. They are not answers, even in a reference."""
    if not chapter.is_file():
        return set()
    marked = [
        (exercise, name)
        for exercise, cell in _cells(chapter)
        for name in re.findall(r"^(?:def|class) (\w+)", cell, re.MULTILINE)
    ]
    return {name for exercise, name in marked if not exercise} - {name for exercise, name in marked if exercise}


def _given_in_stubs(chapter: Path) -> set[str]:
    """Collect the lines and statements that a chapter's stubs give, such as a whole `__init__`."""
    given = {}
    for exercise, cell in _cells(chapter) if chapter.is_file() else []:
        if exercise:
            for definition in _definitions(ast.parse(cell).body):
                _collect(definition, cell.splitlines(), "", given)
    return set(given)


def _cells(chapter: Path) -> list[tuple[bool, str]]:
    """List the code cells of a chapter: whether each is an exercise's stub, and its source."""
    notebook = parse(chapter.read_text("utf-8"), f"chapters/{chapter.name}")
    return [(is_exercise(cell), cell.source) for cell in notebook.cells if cell.cell_type == "code"]


def scan(folders: list[Path], wanted: dict[str, str]) -> Iterator[str]:
    """Yield findings in all files below the folders, as `file: leaks solutions/softmax.py:12`."""
    search = _Search(wanted)
    for folder in folders:
        paths = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.is_file())
        for path in paths:
            if "__pycache__" not in path.parts:
                yield from search.file(str(path), path.suffix.lower(), path.read_bytes())


def scan_site(site: Path, wanted: dict[str, str]) -> Iterator[str]:
    """Yield findings in a built site. EDITION decides whether its pages of solutions may hold answers."""
    from book import edition

    if edition.current() == edition.STUDENT:
        yield from scan([site], wanted)
    else:
        tests = {text: origin for text, origin in wanted.items() if not origin.startswith("solutions/")}
        for path in sorted(site.iterdir()):
            yield from scan([path], tests if path.name == edition.FOLDER else wanted)


def third_party() -> set[str]:
    """The SHA-256 of each file of another project that the site may serve."""
    if not THIRD_PARTY.is_file():
        return set()
    pinned = json.loads(THIRD_PARTY.read_text("utf-8"))
    return {entry["sha256"] for entry in [*pinned["pyodide"].values(), *pinned["wheels"]]}


class _Search:
    """Look for all wanted lines in one pass over a text."""

    def __init__(self, wanted: dict[str, str]):
        self._begin: dict[str, list[tuple[str, str]]] = {}
        for text, origin in wanted.items():
            self._begin.setdefault(text[:SHORTEST], []).append((text, origin))
        self._marked = np.zeros(1 << BITS, dtype=bool)  # true at the hash of each wanted beginning
        for beginning in self._begin:
            self._marked[_hashes(beginning)] = True
        self._clean: set[bytes] = set()  # hashes of files without findings; several archives may hold the same file
        self._theirs = third_party()

    def file(self, name: str, suffix: str, content: bytes) -> Iterator[str]:
        if suffix in ZIPPED and hashlib.sha256(content).hexdigest() in self._theirs:
            return  # the lines of other projects, some of which are as short as an answer's
        known = hashlib.sha256(suffix.encode() + b"\0" + content).digest()
        if suffix in PICTURES or known in self._clean:
            return
        leaks = False
        for finding in self._findings(name, suffix, content):
            leaks = True
            yield finding
        if not leaks:
            self._clean.add(known)

    def _findings(self, name: str, suffix: str, content: bytes) -> Iterator[str]:
        if suffix == ".gz":
            with contextlib.suppress(OSError, EOFError, zlib.error):
                content = gzip.decompress(content)
        if suffix in ZIPPED and zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for member in archive.namelist():
                    yield from self.file(f"{name}!{member}", Path(member).suffix.lower(), archive.read(member))
            return
        text = content.decode("utf-8", errors="replace")
        for origin in dict.fromkeys(origin for view in _views(text) for origin in self._leaks(view)):
            yield f"{name}: leaks {origin}"

    def _leaks(self, view: str) -> Iterator[str]:
        for place in np.flatnonzero(self._marked[_hashes(view)]).tolist():
            for text, origin in self._begin.get(view[place : place + SHORTEST], ()):
                if view.startswith(text, place):
                    yield origin


def _hashes(view: str) -> np.ndarray:
    """Hash the SHORTEST characters that begin at each place."""
    codes = np.frombuffer(view.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    found = np.zeros(max(0, len(codes) - SHORTEST + 1), dtype=np.uint64)
    for place in range(SHORTEST if len(found) else 0):
        found *= np.uint64(0x9E3779B97F4A7C15)  # overflow is intended
        found += codes[place : place + len(found)]
    return found >> np.uint64(64 - BITS)


def _views(text: str) -> Iterator[str]:
    """Yield the text in each way it may be read, without white space: plain, without tags and entities, unescaped."""
    seen = set()
    readable = html.unescape(re.sub(r"<[^<>]*>", "", text)) if "<" in text or "&" in text else text
    for form in (text, readable):
        for _ in range(3):  # JSON within JSON has its escapes escaped again
            bare = squeeze(form)
            if bare not in seen:
                seen.add(bare)
                yield bare
            if "\\" not in form:
                break
            form = _ESCAPE.sub(_unescape, form)


def _unescape(match: re.Match) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _SIMPLE.get(match[3], match[3])


def squeeze(text: str) -> str:
    return "".join(text.replace("\0", " ").split())


def _definitions(body) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    return (node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef)))


def _collect(definition, lines: list[str], origin: str, found: dict[str, str]) -> None:
    """Add each line and each statement of a definition's body; not its signature, docstrings and comments."""
    for statement in _statements(definition):
        last = statement.body[0].lineno - 1 if hasattr(statement, "body") else statement.end_lineno
        span = range(statement.lineno, max(last, statement.lineno) + 1)
        for number in span:
            _add(lines[number - 1], f"{origin}:{number}", found)
        _add("".join(lines[number - 1] for number in span), f"{origin}:{statement.lineno}", found)


def _statements(definition) -> Iterator[ast.stmt]:
    """Yield every statement inside a definition, at any depth, without docstrings and signatures.

    A statement on the same line as its `if` counts with that line.
    """
    for node in ast.walk(definition):
        for block in ("body", "orelse", "finalbody"):
            for statement in getattr(node, block, []) if isinstance(getattr(node, block, []), list) else []:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    continue
                if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and isinstance(node, ast.ClassDef):
                    continue  # a method's signature is in the stub; its body is visited on its own
                yield statement


def _add(text: str, origin: str, found: dict[str, str]) -> None:
    bare = squeeze(text)
    if len(bare) >= SHORTEST and not _SAYS_NOTHING.match(bare):
        found.setdefault(bare, origin)


def _without_comments(path: Path) -> list[str]:
    lines = path.read_text("utf-8").splitlines()
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    return lines


def check_site(app, exception) -> None:
    """Fail the build if an answer is in the built site or in the published sources.

    In the self-study edition its pages of solutions may hold these, and nothing else may.
    """
    if exception:
        return
    out, wanted = Path(app.outdir), answers()
    folders = [out.parent / "jupyter_execute", *(ROOT / name for name in PUBLISHED_SOURCES)]
    found = [*scan_site(out, wanted), *scan([f for f in folders if f.exists()], wanted)]
    findings = [line.replace(f"{ROOT}/", "") for line in found]
    if findings:
        raise SystemExit("an answer would be published:\n" + "\n".join(findings))


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: python -m book.leaks FOLDER ...", file=sys.stderr)
        return 2
    folders = [Path(argument) for argument in arguments]
    missing = [str(folder) for folder in folders if not folder.exists()]
    if missing:
        print(f"no such folder: {missing[0]}", file=sys.stderr)
        return 2
    wanted = answers()
    findings = [line for f in folders for line in (scan_site(f, wanted) if f.is_dir() else scan([f], wanted))]
    print(*findings, sep="\n", end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
