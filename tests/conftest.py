"""Fixtures shared by all tests: a headless Chromium that can reach this machine and nothing else."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import functools
import json
import os
import re
import signal
import site
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path
from urllib.parse import urlsplit

# Several tests run at once, and each starts kernels of its own: threads that wait for each other would take the cores
# from all of them. Set before NumPy and PyTorch are loaded, and inherited by every process.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# An environment may be set not to keep compiled modules, as images of containers often are. Here hundreds of processes
# import the same ones.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that runs the tests in the background has interrupts ignored, in all that they start too. Some tests send one.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What `autograder` does without is left out here too, and in every process that is started: Jupyter, nbgrader, kernels.
WITHOUT = str(Path(__file__).resolve().parent / "without")
sys.path.insert(0, WITHOUT)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [WITHOUT, os.environ.get("PYTHONPATH")]))

import pytest  # noqa: E402

from scripts.browsers import Quiet, chromium_path, start_server  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
LOOPBACK = {"127.0.0.1", "localhost"}


# Seconds that the tests of each file took together, on an idle machine: `make test RECORD=1` writes them.
DURATIONS = Path(__file__).with_name("durations.json")
_seconds: collections.Counter[str] = collections.Counter()


LONG = {"smollm2_file", "gemma_file", "fresh_clone"}  # fixtures of what `make test-long` runs: real models, a clone
# Fixtures that no `bare` test has, and the folders and files whose tests do more where there is more than Python.
BEYOND_PYTHON = {"browser", "needs_jail", "jail_if_there_is_one", "smollm2_file", "gemma_file"}
MORE_THAN_PYTHON = (
    "appendices/test_languages.py", "book/", "guides/", "live/", "red_team/", "test_jupyterlab.py", "test_project.py",
    "test_recordings.py", "autograder/batch/", "autograder/demo/", "autograder/gradebook/", "autograder/gradescope/",
    "autograder/grading/", "autograder/nbgrader_plugins/", "autograder/sandbox/", "autograder/test_",
)  # fmt: skip
WHOLE = {"site", "published", "released"}  # fixtures that build the book or release the course
HIDDEN_SEED = 8191  # stands for any
DRAWN_IN_CI = ("softmax", "kv_cache", "language_model", "delta_rule")  # functions, classes, random numbers, tuples
SLOW = 8.0  # seconds from which `make test-quick` leaves a file out


def pytest_collection_modifyitems(items):
    """Mark what needs a browser and what is slow, and put the longest first: all would wait for one begun last."""
    known, units = json.loads(DURATIONS.read_text("utf-8")), collections.defaultdict(set)
    median = statistics.median(known.values())
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker("browser")
        if LONG & set(item.fixturenames):
            item.add_marker("long")
        if item.get_closest_marker("bare") and BEYOND_PYTHON & set(item.fixturenames):
            raise pytest.UsageError(f"{item.nodeid} is marked bare, but asks for more than Python")
        needs_more = item.nodeid.removeprefix("tests/").startswith(MORE_THAN_PYTHON)
        if not needs_more and not (BEYOND_PYTHON & set(item.fixturenames)):
            item.add_marker("bare")
        if WHOLE & set(item.fixturenames) or known.get(_file(item.nodeid), 0) >= SLOW:
            item.add_marker("slow")
        units[_file(item.nodeid)].add(_unit(item.nodeid))
    items.sort(key=lambda item: -known.get(_file(item.nodeid), median) / len(units[_file(item.nodeid)]))


def each_chapter(*always: str) -> list:
    """Parameters of a test of exercises that takes seconds for each chapter that has some.

    `make test` runs those named, `make test-long` the others.
    """
    from course import catalog

    stems = filter(catalog.exercises_of, catalog.chapters())
    return _marked(pytest.mark.long, stems, always)


def the_others_weekly(values, *but) -> list:
    """Parameters of a test that shows the same for each: CI runs it with those named, and every week with all."""
    return _marked(pytest.mark.weekly, values, but)


def _marked(mark, values, but) -> list:
    return [value if value in but else pytest.param(value, marks=mark) for value in values]


def each_seed(names) -> list:
    """Parameters of a test on the public and on hidden inputs: pairs of an exercise and a seed.

    CI draws hidden inputs for a chapter of each part and for every kind of answer; all are drawn every week.
    """
    from course import catalog
    from course.kit.exercise import PUBLIC_SEED

    def hidden(name):
        weekly = catalog.chapter_of(name) not in DRAWN_IN_CI
        return pytest.param(name, HIDDEN_SEED, marks=[pytest.mark.long, *[pytest.mark.weekly] * weekly])

    return [pair for name in names for pair in (pytest.param(name, PUBLIC_SEED), hidden(name))]


def write_files(folder: Path, contents: dict[str, str | bytes]) -> Path:
    """Write files into a folder, by their paths in it; returns the folder."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def without_the_course(folder: Path) -> Path:
    """A Python that has everything but the course's own package: in a folder, with links to this one's packages.

    So pip sees what a wheel requires and needs no network.
    """
    venv.create(folder, symlinks=True)
    (own,) = folder.glob("lib/python*/site-packages")
    for entry in Path(site.getsitepackages()[0]).iterdir():
        if "attnlab" not in entry.name and not (own / entry.name).exists():
            (own / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def pytest_runtest_logreport(report):
    _seconds[_file(report.nodeid)] += report.duration


def pytest_sessionfinish(session):
    if os.environ.get("RECORD") == "1" and not hasattr(session.config, "workerinput"):
        known = json.loads(DURATIONS.read_text("utf-8")) | {name: round(took, 1) for name, took in _seconds.items()}
        kept = {name: took for name, took in sorted(known.items()) if (ROOT / name).is_file()}
        DURATIONS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def pytest_terminal_summary(terminalreporter):
    """Print the skipped tests, one line per reason."""
    reasons = collections.Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, many in reasons.most_common():
        terminalreporter.write_line(f"{many} {reason[0].lower()}{reason[1:]}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Deal out the units."""
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return _unit(nodeid)

    return ByUnit(config, log)


def _unit(nodeid: str) -> str:
    """Return the unit that one process runs, to make fixtures once: a file, or the tests on one page of the book."""
    page = re.search(r"\[(\S+-(http|file)-(laptop|phone))\]$", nodeid)
    return f"{_file(nodeid)} {page[1]}" if page else _file(nodeid)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.fixture(scope="session", autouse=True)
def own_course(tmp_path_factory):
    """No test writes into the course or the gradebook of whoever runs it."""
    os.environ.pop("GRADEBOOK_URL", None)
    os.environ["COURSE_DIR"] = str(tmp_path_factory.mktemp("own") / "course")


def skip(reason: str, required: str) -> None:
    """Skip a test for want of something, except where the environment requires that: then it fails."""
    if os.environ.get(required) == "1":
        pytest.fail(f"{required}=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser():
    path = chromium_path()
    if path is None:
        skip("no Chromium is on the PATH (Debian: apt-get install chromium-headless-shell)", "REQUIRE_BROWSER")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path,
            args=[
                *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
                *("--disable-background-networking", "--disable-component-update"),
                # What a page asks of another host is noted by `Watched`, and goes nowhere.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
            ],
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """`shared(name, make)`: a file or folder that `make(path)` writes once, whichever processes the tests run in.

    Tests only read it; one that writes takes a copy.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)

    def get(name: str, make) -> Path:
        path, draft = folder / name, folder / f"{name}.draft"
        with open(folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                make(draft)
                draft.rename(path)
        return path

    return get


@pytest.fixture(scope="session")
def material(shared):
    """`material(name, seed)`: what an answer to an exercise is judged by. On the public seed it is what ships.

    On the hidden one, what the mistakes give on these inputs takes most of the time: `explained=False` leaves it out.
    """
    from attnlab.check import material_of
    from attnlab.checking import codec
    from course import catalog
    from course.kit.exercise import PUBLIC_SEED

    @functools.cache
    def get(name: str, seed: int, explained: bool = True) -> dict:
        if seed == PUBLIC_SEED:
            return material_of(name)
        assert seed == HIDDEN_SEED
        made = catalog.exercise(name).material
        if not explained:
            return codec.unpack(codec.pack(made(seed, misconceptions=False)))
        path = shared(f"{name}.gz", lambda path: path.write_bytes(codec.pack(made(seed))))
        return codec.unpack(path.read_bytes())

    return get


@pytest.fixture(scope="session")
def published(shared):
    """The students' half of the course, as `make publish-tree` writes it."""
    from book import publish

    return shared("published", publish.write)


@pytest.fixture(scope="session")
def released(shared):
    """A course folder with every chapter released, and the students' bundle in its `dist`, like `make release`."""
    from course import release

    def make(course):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COURSE_DIR", str(course))
            release.bundle(course / "dist")

    return shared("released", make)


@pytest.fixture(scope="session")
def smollm2_file():
    """The model file. Tests that need it are skipped where it is not, except where REQUIRE_MODEL=1."""
    from attnlab import smollm2

    path = smollm2.find()
    if path is None:
        skip("SmolLM2-135M is not there: make model", "REQUIRE_MODEL")
    return path


@pytest.fixture(scope="session")
def gemma_file():
    """The file of Gemma 3 270M. Tests that need it are skipped where it is not, in CI too: terms apply to it."""
    from attnlab import gemma

    path = gemma.find()
    if path is None:
        pytest.skip("Gemma 3 270M is not there: make gemma")
    return path


class Watched:
    """A page together with what went wrong on it: console errors, uncaught exceptions, requests to other hosts."""

    def __init__(self, page):
        self.page = page
        self.errors: list[str] = []
        self.outside: list[str] = []
        self._listeners = {
            "console": lambda message: message.type == "error" and self.errors.append(message.text),
            "pageerror": lambda error: self.errors.append(str(error)),
            "request": self._note,
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)

    def _note(self, request):
        parts = urlsplit(request.url)
        if parts.scheme not in {"file", "data", "blob", "about"} and parts.hostname not in LOOPBACK:
            self.outside.append(request.url)

    def assert_clean(self):
        assert self.outside == []
        assert self.errors == []

    def forget(self):
        self.errors.clear()
        self.outside.clear()

    def release(self):
        """Leave an empty page behind, as it was before it was watched."""
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self.page.goto("about:blank")


def new_page(browser, **options):
    context = browser.new_context(**options)
    context.set_default_timeout(60_000)  # milliseconds: on a busy machine much takes seconds
    return context.new_page()


@pytest.fixture(scope="session")
def _pages(browser):
    """Empty pages to be used again, by the options of their contexts: to make one takes longer than most tests."""
    pages: dict[str, list] = {}
    yield pages
    for page in (page for kept in pages.values() for page in kept):
        page.context.close()


@pytest.fixture
def watched(browser, _pages):
    """`watched(**context)` opens a page that records errors and requests to other hosts.

    reuse: take a page that a former test has left, for what is written into an empty page and keeps nothing
    """
    in_use = []

    def open_page(reuse: bool = False, **options) -> Watched:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        key = repr(sorted(options.items())) if reuse else ""
        if reuse and _pages.get(key):
            page = _pages[key].pop()
        else:
            page = new_page(browser, **options)
        in_use.append((key, Watched(page)))
        return in_use[-1][1]

    yield open_page
    for key, seen in in_use:
        if key and len(seen.page.context.pages) == 1:
            seen.release()
            _pages.setdefault(key, []).append(seen.page)
        else:
            seen.page.context.close()


@pytest.fixture(scope="session")
def serve():
    """`serve(folder)` serves a folder on loopback and returns its address."""
    return functools.partial(start_server, Quiet)


@pytest.fixture(scope="session")
def jupyter():
    """Return `jupyter(app, folder, page, *options, **environment)`, which starts a Jupyter app on loopback.

    It waits until `page` answers, and returns the address.
    """
    servers = []

    def start(app: str, folder: Path, page: str, *options: str, **environment: str) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ours = [f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token=", "--allow-root"]
        command = [sys.executable, "-m", "jupyter", app, "--no-browser", "--ServerApp.password=", *ours, *options]
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        servers.append(subprocess.Popen(command, cwd=folder, env={**os.environ, **environment}, **quiet))
        address = f"http://127.0.0.1:{port}"
        for _ in range(240):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/{page}", timeout=5).read()
                return address
            time.sleep(0.5)
        pytest.fail(f"jupyter {app} did not answer within two minutes")

    yield start
    for server in servers:
        server.terminate()
        server.wait(20)


@pytest.fixture
def jail_if_there_is_one(monkeypatch):
    """Lets a test's own answers run outside of the jail on a machine that has none."""
    from autograder.sandbox import bubblewrap

    if bubblewrap.problem():
        monkeypatch.setenv(bubblewrap.NO_JAIL, "1")


@pytest.fixture(scope="session")
def needs_jail():
    """Skips tests that need the jail where there is none, except where REQUIRE_JAIL=1."""
    from autograder.sandbox import bubblewrap

    if bubblewrap.problem():
        skip(f"no jail: {bubblewrap.problem()}", "REQUIRE_JAIL")


@pytest.fixture(scope="module")
def grader():
    """A process that grades, one for all tests of a module: what happens in one must not reach the next."""
    from autograder.grading import worker

    made = worker.Grader()
    yield made
    made.close()


@pytest.fixture
def rng(request):
    """NumPy's generator, seeded with the SEED of the test's module."""
    import numpy as np

    return np.random.default_rng(request.module.SEED)


@pytest.fixture
def draw(request):
    """`draw(*shape)`: normal numbers in float64, by a generator seeded with the SEED of the test's module."""
    import torch

    generator = torch.Generator().manual_seed(request.module.SEED)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
