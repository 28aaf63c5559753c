"""The programs of the appendix: compiled and run as they stand, and compared with PyTorch on the same inputs."""

from __future__ import annotations

from autograder.course.folder import ROOT

import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F


PAGE = ROOT / "appendices" / "languages.md"
FOLDER = ROOT / "appendices" / "languages"
BUGS = sorted((FOLDER / "bugs").iterdir())
INPUTS = sorted((FOLDER / "inputs").glob("*.txt"))
LARGEST = 76  # characters of a line: a phone shows them whole

STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-O2"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# No module, no download of a module or of another toolchain.
GO = {"GO111MODULE": "off", "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": ""}


@dataclass(frozen=True)
class Language:
    """How a program is built into `program`, or into the folder it is in, and how it is run."""

    file: str
    tools: tuple[str, ...]
    build: tuple[str, ...] = ()
    run: tuple[str, ...] = ("{folder}/program",)
    careful: tuple[str, ...] = ()  # flags for the build that all inputs go through


LANGUAGES = {
    "Python": Language("attention.py", (sys.executable,), run=(sys.executable, "{file}")),
    "JavaScript": Language("attention.js", ("node",), run=("node", "{file}")),
    "C": Language("attention.c", ("gcc",), ("gcc", "-std=c11", *STRICT, "{file}", "-lm", "-o", "{folder}/program"),
                  careful=tuple(SANITIZED)),
    "C++": Language("attention.cpp", ("g++",), ("g++", "-std=c++17", *STRICT, "{file}", "-o", "{folder}/program"),
                    careful=tuple(SANITIZED)),
    "Java": Language("Attention.java", ("javac", "java"),
                     ("javac", "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-d", "{folder}", "{file}"),
                     ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "{folder}", "Attention")),
    "Go": Language("attention.go", ("go",), ("go", "build", "-o", "{folder}/program", "{file}")),
}
BY_SUFFIX = {Path(language.file).suffix: name for name, language in LANGUAGES.items()}


def needs(name: str) -> None:
    """Skips where a language's tools are not there, except where REQUIRE_COMPILERS=1."""
    missing = [tool for tool in LANGUAGES[name].tools if shutil.which(tool) is None]
    if missing and os.environ.get("REQUIRE_COMPILERS") == "1":
        pytest.fail(f"REQUIRE_COMPILERS=1, but {' and '.join(missing)} is not on the PATH")
    if missing:
        pytest.skip(f"no {' and '.join(missing)} on the PATH: the program in {name} is not run")


def start(command, **options) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120,
                          env={**os.environ, **GO}, **options)


def built(name: str, source: Path, folder: Path, careful: bool = False) -> list[str]:
    """The command that runs `source`, compiled into `folder` if the language is a compiled one."""
    language = LANGUAGES[name]
    fill = functools.partial(str.format, file=source, folder=folder)
    command = [fill(part) for part in language.build]
    if command:
        # Where the compiler brings no sanitizer, the program is built without one.
        tries = [[*command, *language.careful]] * careful + [command]
        done = next((made for made in map(start, tries) if made.returncode == 0), None)
        assert done, start(command).stderr
        assert done.stdout + done.stderr == ""
    return [fill(part) for part in language.run]


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """`program(name)`: the command that runs the program in that language, built once."""
    @functools.cache
    def get(name: str) -> list[str]:
        needs(name)
        return built(name, FOLDER / LANGUAGES[name].file, tmp_path_factory.mktemp("program"), careful=True)
    return get


def text_of(Q, K, V, mask) -> str:
    (n_q, d_k), (n_k, d_v) = Q.shape, V.shape
    numbers = (" ".join(map(repr, np.ravel(part).tolist())) for part in (Q, K, V, mask.astype(int)))
    return "\n".join([f"{n_q} {n_k} {d_k} {d_v}", *numbers]) + "\n"


def problems_in(text: str):
    """The problems of an input, one after another, as arrays Q, K, V and mask."""
    numbers = np.array(text.split(), dtype=float)
    while len(numbers):
        n_q, n_k, d_k, d_v = numbers[:4].astype(int)
        shapes = [(n_q, d_k), (n_k, d_k), (n_k, d_v), (n_q, n_k)]
        ends = 4 + np.cumsum([rows * columns for rows, columns in shapes])
        *parts, numbers = np.split(numbers, ends)
        Q, K, V, mask = (part.reshape(shape) for part, shape in zip([parts[0][4:], *parts[1:]], shapes))
        yield Q, K, V, mask == 1


def expected(Q, K, V, mask):
    """Output and weights by PyTorch's fused operation, in float64; zeros where a query may attend to nothing."""
    Q, K, V, mask = map(torch.tensor, (Q, K, V, mask))

    def attended(values):
        found = F.scaled_dot_product_attention(Q[None], K[None], values[None], attn_mask=mask[None])[0]
        return torch.where(mask.any(dim=1, keepdim=True), found, 0.0).numpy()

    return attended(V), attended(torch.eye(len(K), dtype=torch.float64))


def results_in(text: str, problems):
    """What a program printed, as pairs of output and weights."""
    lines = iter(text.splitlines())
    for Q, K, V, _ in problems:
        pair = []
        for title, shape in (("output", (len(Q), V.shape[1])), ("weights", (len(Q), len(K)))):
            assert next(lines) == title
            pair.append(np.array([next(lines).split(" ") for _ in range(shape[0])], dtype=float))
            assert pair[-1].shape == shape
        yield pair
    assert list(lines) == []


def drawn():
    """Problems of all kinds: sizes that all differ, one key, empty rows, no rows but empty ones, large scores."""
    rng = np.random.default_rng(2017)

    def problem(n_q, n_k, d_k, d_v, size=1.0, allowed=0.7):
        return (rng.normal(size=(n_q, d_k)) * size, rng.normal(size=(n_k, d_k)), rng.normal(size=(n_k, d_v)),
                rng.random((n_q, n_k)) < allowed)

    yield problem(5, 7, 3, 2)
    yield problem(2, 3, 16, 11, allowed=1.0)
    yield problem(4, 1, 5, 3)
    yield problem(1, 1, 1, 1, allowed=1.0)
    yield problem(3, 6, 4, 5, allowed=0.0)
    yield problem(6, 9, 8, 4, size=3000.0)
    Q, K, V, mask = problem(6, 4, 9, 2, size=500.0)
    mask[2] = False
    yield Q, K, V, mask
    Q, K, V, mask = problem(5, 5, 2, 3, allowed=0.5)
    K[3], mask[:, 3] = 1e6, False  # hidden from all, and far above all others
    yield Q, K, V, mask
    yield Q * 1e-200, K, V * 1e-310, mask  # as small as numbers get


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_program_computes_what_pytorch_computes(program, name):
    text = "".join([*map(text_of, *zip(*drawn())), *(path.read_text() for path in INPUTS)])
    problems = list(problems_in(text))
    assert len(problems) == 9 + len(INPUTS)
    done = start(program(name), input=text)
    assert (done.returncode, done.stderr) == (0, "")
    for problem, got in zip(problems, results_in(done.stdout, problems), strict=True):
        for array, reference in zip(got, expected(*problem), strict=True):
            np.testing.assert_allclose(array, reference, rtol=0, atol=1e-11)
        assert (got[1][~problem[3]] == 0).all()  # exactly
        assert (got[0][~problem[3].any(axis=1)] == 0).all()


WELL_FORMED = "1 2 1 1  3  4 5  6 7  1 1"
MALFORMED = [
    ("", "n_q: the input ends too soon"), ("1 2 1", "d_v: the input ends too soon"),
    (WELL_FORMED[:-2], "mask: the input ends too soon"), (WELL_FORMED + " 9", "n_k: the input ends too soon"),
    ("0 2 1 1", "n_q: '0'"), ("1 2 1.5 1", "d_k: '1.5'"), ("1 2 1 99999999999", "d_v: '99999999999'"),
    ("1 2 1 1  3  4 5,0", "K: '5,0'"), ("1 2 1 1  3  4 5  nan", "V: 'nan'"), ("1 2 1 1  -1e999", "Q: '-1e999'"),
    ("1 2 1 1  3  4 5  6 7  1 2", "mask: '2'"),
]


@pytest.mark.parametrize("name", LANGUAGES)
def test_what_cannot_be_read_is_named_and_ends_the_program(program, name):
    running = [subprocess.Popen(program(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True) for _ in MALFORMED]
    for process, (text, words) in zip(running, MALFORMED, strict=True):
        out, told = process.communicate(text, timeout=120)
        assert process.returncode == 1, text
        assert told.startswith(f"attention: {words}") and told.count("\n") == 1, text
        solved = text.startswith(WELL_FORMED)  # what came before the mistake
        assert bool(out) == solved, text


def spoiled(program: str, bug: str) -> str:
    """A program with the lines of a bug in place of its own: from the bug's first line to its last."""
    lines, wrong = program.splitlines(), bug.rstrip("\n").splitlines()
    assert (lines.count(wrong[0]), lines.count(wrong[-1])) == (1, 1)
    return "\n".join([*lines[:lines.index(wrong[0])], *wrong, *lines[lines.index(wrong[-1]) + 1:]]) + "\n"


FAILS_ON = {"unscaled_maximum": ["thousands", "below_zero"], "no_maximum": ["thousands", "below_zero"],
            "smallest_number": ["below_zero"], "hidden_maximum": ["hidden"]}


@pytest.mark.parametrize("bug", BUGS, ids=lambda path: path.name)
def test_a_bug_of_the_page_fails_on_the_inputs_shown_and_on_no_other(program, tmp_path, bug):
    name = BY_SUFFIX[bug.suffix]
    needs(name)
    source = tmp_path / LANGUAGES[name].file
    right = (FOLDER / source.name).read_text()
    source.write_text(spoiled(right, bug.read_text()))
    assert source.read_text() != right
    command = built(name, source, tmp_path)
    fails = [path for path in INPUTS if path.stem in FAILS_ON[bug.stem]]
    works = [path for path in INPUTS if path not in fails]
    problems = [problem for path in [*works, *fails] for problem in problems_in(path.read_text())]
    done = start(command, input="".join(map(text_of, *zip(*problems))))
    if done.returncode:  # Python stops; the others print what is not a number, and go on
        assert "ZeroDivisionError" in done.stderr
        problems = problems[:len(works)]
    for i, (problem, (output, _)) in enumerate(zip(problems, results_in(done.stdout, problems), strict=True)):
        if i < len(works):
            np.testing.assert_allclose(output, expected(*problem)[0], rtol=0, atol=1e-11)
        else:
            assert np.isnan(output).any()


def test_a_compiler_that_is_missing_is_named_and_a_failure_where_it_is_required(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("REQUIRE_COMPILERS", "0")
    with pytest.raises(pytest.skip.Exception, match="no javac and java on the PATH"):
        needs("Java")
    monkeypatch.setenv("REQUIRE_COMPILERS", "1")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE_COMPILERS=1, but go is not"):
        needs("Go")


def test_the_page_shows_every_file_and_copies_none():
    page = PAGE.read_text("utf-8")
    shown = re.findall(r"\{literalinclude\} languages/(\S+)", page)
    there = [path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()]
    assert sorted(shown) == sorted(path for path in there if "__pycache__" not in path)


@pytest.mark.parametrize("path", [path for path in FOLDER.rglob("*.*") if path.is_file() and path.suffix != ".pyc"],
                         ids=lambda path: path.name)
def test_a_phone_shows_every_line_whole(path):
    assert max(len(line.expandtabs(4)) for line in path.read_text("utf-8").splitlines()) <= LARGEST


def test_the_program_in_go_is_formatted_and_found_clean():
    needs("Go")
    assert start(["go", "vet", str(FOLDER / "attention.go")]).stderr == ""
    assert start(["gofmt", "-l", str(FOLDER / "attention.go")]).stdout == ""
