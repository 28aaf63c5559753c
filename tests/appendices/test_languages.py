"""The programs of the appendix: compiled and run as they stand, and compared with the course's references."""

from __future__ import annotations

import functools
import hashlib
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

from course.folder import ROOT
from solutions.masks import causal_attention
from solutions.multi_head import MultiHeadAttention
from solutions.positions import sinusoidal_encoding
from solutions.transformer_block import EncoderBlock
from tests.conftest import skip

PAGE = ROOT / "appendices" / "languages.md"
FOLDER = ROOT / "appendices" / "languages"
PROGRAMS = ["attention", "multi_head", "sinusoidal_encoding", "encoder_block", "causal_mask"]
INPUTS = {program: sorted((FOLDER / "inputs" / program).glob("*.txt")) for program in PROGRAMS}
LARGEST = 76  # characters of a line: a phone shows them whole

STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-O1"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
ENVIRONMENT = {
    # No module, no download of a module or of another toolchain.
    "GO111MODULE": "off",
    "GOTOOLCHAIN": "local",
    "GOPROXY": "off",
    "GOFLAGS": "",
    "MALLOC_PERTURB_": "191",  # memory that was not set is not zero; the sanitizer does the same
}


@dataclass(frozen=True)
class Language:
    """How a folder of sources is built into another folder, and how it is run."""

    suffix: str
    tools: tuple[str, ...]
    run: tuple[str, ...]
    compile: tuple[str, ...] = ()  # each source into an object, to be linked
    build: tuple[str, ...] = ()  # all sources, or all objects


LANGUAGES = {
    "python": Language(".py", (sys.executable,), (sys.executable, "{sources}/main.py")),
    "javascript": Language(".js", ("node",), ("node", "{sources}/main.js")),
    "c": Language(".c", ("gcc",), ("{folder}/program",), ("gcc", "-std=c11"), ("gcc", "-lm")),
    "cpp": Language(".cpp", ("g++",), ("{folder}/program",), ("g++", "-std=c++17"), ("g++",)),
    "java": Language(
        ".java",
        ("javac", "java"),
        ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", "{folder}", "Main"),
        build=("javac", "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-proc:none", "-d", "{folder}"),
    ),
    "go": Language(".go", ("go",), ("{folder}/program",), build=("go", "build", "-o", "{folder}/program")),
}
BUGS = sorted(path for program in PROGRAMS for path in (FOLDER / "bugs" / program).iterdir())
BY_SUFFIX = {language.suffix: name for name, language in LANGUAGES.items()}


def needs(name: str) -> None:
    """Skips where a language's tools are not there, except where REQUIRE_COMPILERS=1."""
    missing = [tool for tool in LANGUAGES[name].tools if shutil.which(tool) is None]
    if missing:
        skip(f"{' and '.join(missing)} is not on the PATH", "REQUIRE_COMPILERS")


def start(command, **options) -> subprocess.CompletedProcess:
    options |= dict(capture_output=True, text=True, errors="replace", timeout=300)
    return subprocess.run(list(map(str, command)), env={**os.environ, **ENVIRONMENT}, **options)


def quiet(command) -> None:
    """Runs a compiler, which has nothing to say."""
    done = start(command)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """`build(name, sources)`: the command that runs the programs in this folder of sources."""
    objects = tmp_path_factory.mktemp("objects")

    @functools.cache
    def flags(compiler: str) -> list[str]:
        """Where the compiler brings no sanitizer, the programs are built without one."""
        (objects / "empty.c").write_text("int main(void) { return 0; }\n")
        tried = start([compiler, *SANITIZED, objects / "empty.c", "-o", objects / "empty"])
        return SANITIZED if tried.returncode == 0 else []

    def compiled(language: Language, source: Path) -> Path:
        """The object of a source; one that was compiled before is not compiled again."""
        made = objects / f"{hashlib.sha256(source.read_bytes()).hexdigest()}.o"
        if not made.exists():
            careful = flags(language.compile[0])
            quiet([*language.compile, *STRICT, *careful, "-I", source.parent, "-c", source, "-o", made])
        return made

    def build(name: str, sources: Path) -> list[str]:
        needs(name)
        language, folder = LANGUAGES[name], tmp_path_factory.mktemp(name)
        files = sorted(sources.glob(f"*{language.suffix}"))
        fill = functools.partial(str.format, sources=sources, folder=folder)
        if language.compile:
            tool, *libraries = language.build
            linked = [compiled(language, source) for source in files]
            quiet([tool, *flags(tool), *linked, *libraries, "-o", folder / "program"])
        elif language.build:
            quiet([*map(fill, language.build), *files])
        return [fill(part) for part in language.run]

    return build


@pytest.fixture(scope="module")
def command(build):
    """`command(name)`: the command that runs the programs in that language, which are built once."""
    return functools.cache(lambda name: build(name, FOLDER / name))


# Problems


def shapes(program: str, sizes: list[int]) -> dict[str, tuple[int, int]]:
    """Return the shapes of the arrays that follow the sizes in the input, in order."""
    if program == "sinusoidal_encoding":
        return {}
    if program in ("attention", "causal_mask"):
        n_q, n_k, d_k, d_v = sizes
        mask = {"mask": (n_q, n_k)} if program == "attention" else {}
        return {"Q": (n_q, d_k), "K": (n_k, d_k), "V": (n_k, d_v), **mask}
    n, d = sizes[:2]
    heads = dict.fromkeys(["W_q", "W_k", "W_v", "W_o"], (d, d))
    if program == "multi_head":
        return {"x": (n, d), **heads, "mask": (n, n)}
    d_ff = sizes[3]
    network = {"W_1": (d, d_ff), "b_1": (1, d_ff), "W_2": (d_ff, d), "b_2": (1, d)}
    return {"x": (n, d), "norm_1": (2, d), **heads, "norm_2": (2, d), **network, "mask": (n, n)}


N_SIZES = {"attention": 4, "multi_head": 3, "sinusoidal_encoding": 2, "encoder_block": 4, "causal_mask": 4}


def text_of(sizes, parts) -> str:
    numbers = (" ".join(map(repr, np.ravel(part).astype(float).tolist())) for part in parts.values())
    return "\n".join([" ".join(map(str, sizes)), *numbers]) + "\n"


def problem_in(program: str, text: str):
    """The sizes of a problem and its parts by name."""
    numbers = np.array(text.split(), dtype=float)
    sizes, rest = numbers[: N_SIZES[program]].astype(int).tolist(), numbers[N_SIZES[program] :]
    wanted = shapes(program, sizes)
    pieces = np.split(rest, np.cumsum([rows * columns for rows, columns in wanted.values()]))
    assert pieces.pop().size == 0
    parts = {name: piece.reshape(shape) for (name, shape), piece in zip(wanted.items(), pieces)}
    if "mask" in parts:
        parts["mask"] = parts["mask"] == 1
    return sizes, parts


def heads_of(attention: MultiHeadAttention, parts) -> None:
    """Sets a module's weights, which PyTorch stores transposed."""
    for name in ("W_q", "W_k", "W_v", "W_o"):
        getattr(attention, name).weight = torch.nn.Parameter(torch.tensor(parts[name]).T)


def expected(program: str, sizes, parts) -> list[tuple[str, np.ndarray]]:
    """Return the output that a program must print: titles and matrices."""
    if program == "sinusoidal_encoding":
        return [("encoding", sinusoidal_encoding(*sizes))]
    if program == "causal_mask":
        return list(zip(("output", "weights"), causal_attention(**parts)))
    tensors = {name: torch.tensor(part) for name, part in parts.items()}
    mask = tensors["mask"]
    if program == "attention":

        def attended(values):
            Q, K = tensors["Q"], tensors["K"]
            found = F.scaled_dot_product_attention(Q[None], K[None], values[None], attn_mask=mask[None])[0]
            return torch.where(mask.any(dim=1, keepdim=True), found, 0.0).numpy()

        one_hot = torch.eye(len(tensors["K"]), dtype=torch.float64)
        return [("output", attended(tensors["V"])), ("weights", attended(one_hot))]
    x = tensors["x"][None]
    if program == "multi_head":
        module = MultiHeadAttention(sizes[1], sizes[2]).double()
        heads_of(module, parts)
        output, weights = module(x, mask)
        return [("output", output[0].detach().numpy()), *(("weights", map_.detach().numpy()) for map_ in weights[0])]
    block = EncoderBlock(sizes[1], sizes[2], sizes[3]).double()
    heads_of(block.attention, parts)
    for norm in ("norm_1", "norm_2"):
        weight, bias = tensors[norm]
        getattr(block, norm).load_state_dict({"weight": weight, "bias": bias})
    for i in (1, 2):
        network = {"weight": tensors[f"W_{i}"].T, "bias": tensors[f"b_{i}"][0]}
        getattr(block.feed_forward, f"W_{i}").load_state_dict(network)
    return [("output", block(x, mask)[0].detach().numpy())]


def drawn(program: str):
    """Problems of all kinds: sizes that all differ, one of everything, empty rows, large scores."""
    rng = np.random.default_rng(2017)

    def problem(*sizes, size=1.0, allowed=0.7):
        parts = {name: rng.normal(size=shape) for name, shape in shapes(program, sizes).items()}
        for first in {"Q", "W_q"} & set(parts):
            parts[first] *= size
        if "mask" in parts:
            parts["mask"] = rng.random(parts["mask"].shape) < allowed
        return list(sizes), parts

    if program == "sinusoidal_encoding":
        yield from [problem(1, 2), problem(7, 6), problem(600, 10)]
    elif program == "multi_head":
        yield from [problem(5, 6, 3), problem(1, 1, 1), problem(4, 8, 8, allowed=0.3), problem(3, 6, 2, size=1000.0)]
    elif program == "encoder_block":
        yield from [problem(5, 6, 3, 7), problem(1, 2, 1, 1), problem(3, 4, 4, 9, allowed=0.3)]
        sizes, parts = problem(4, 6, 2, 5)
        parts["x"][2] = 3.0  # no variance
        parts["b_1"] *= 4.0  # far into both ends of GELU
        yield sizes, parts
    elif program == "causal_mask":
        yield from [problem(5, 5, 3, 2), problem(2, 6, 4, 3), problem(7, 3, 2, 5), problem(1, 1, 1, 1)]
        yield problem(6, 6, 8, 4, size=3000.0)
    else:
        yield from [problem(5, 7, 3, 2), problem(2, 3, 16, 11, allowed=1.0), problem(4, 1, 5, 3), problem(1, 1, 1, 1)]
        yield from [problem(3, 6, 4, 5, allowed=0.0), problem(6, 9, 8, 4, size=3000.0)]
        sizes, parts = problem(5, 5, 2, 3, allowed=0.5)
        parts["K"][3], parts["mask"][:, 3] = 1e6, False  # hidden from all, and far above all others
        yield sizes, parts
        yield sizes, parts | {"Q": parts["Q"] * 1e-200, "V": parts["V"] * 1e-310}  # as small as numbers get


def printed(text: str) -> list[tuple[str, np.ndarray]]:
    """The titles and matrices that a program printed."""
    blocks: list[tuple[str, list]] = []
    for line in text.splitlines():
        if re.fullmatch("output|weights|encoding", line):
            blocks.append((line, []))
        else:
            blocks[-1][1].append(line.split(" "))
    return [(title, np.array(rows, dtype=float)) for title, rows in blocks]


# Tests


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", LANGUAGES)
def test_a_program_computes_what_its_reference_computes(command, name, program):
    problems = [*drawn(program), *(problem_in(program, path.read_text()) for path in INPUTS[program])]
    done = start([*command(name), program], input="".join(text_of(*problem) for problem in problems))
    assert (done.returncode, done.stderr) == (0, "")
    wanted = [block for problem in problems for block in expected(program, *problem)]
    for (title, got), (name_of, reference) in zip(printed(done.stdout), wanted, strict=True):
        assert title == name_of
        np.testing.assert_allclose(got, reference, rtol=1e-12, atol=1e-11)
        if title == "weights":
            assert (got[reference == 0.0] == 0.0).all()  # hidden keys, exactly


ATTENTION, HEADS = "1 2 1 1  3  4 5  6 7", "1 2 1  1 1 " + "1 0 0 1 " * 4
MALFORMED = [
    ("attention", "", "n_q: the input ends too soon"),
    ("attention", ATTENTION + " 1", "mask: the input ends too soon"),
    ("attention", "0 2 1 1", "n_q: '0' is not a whole number"),
    ("attention", "1 2 1.5 1", "d_k: '1.5' is not a whole number"),
    ("attention", ATTENTION.replace("5", "5,0"), "K: '5,0' is not a number"),
    ("attention", ATTENTION.replace("6", "nan"), "V: 'nan' is not a number"),
    ("attention", ATTENTION.replace("3", "-1e999"), "Q: '-1e999' is not a number"),
    ("causal_mask", ATTENTION + " 9", "n_k: the input ends too soon"),
    ("multi_head", "1 4 3  1 1 1 1", "n_heads: 3 does not divide 4"),
    ("multi_head", HEADS + "2", "mask: '2' is not a whole number"),
    ("sinusoidal_encoding", "4 3", "d_model: 3 is odd"),
    ("encoder_block", "1 2 1 3  1 1  1 1", "norm_1: the input ends too soon"),
    ("decoder_block", "1 2", "'decoder_block' is not the name of a program"),
]


@pytest.mark.parametrize("name", LANGUAGES)
def test_what_cannot_be_read_is_named_and_ends_the_program(command, name):
    for program, text, words in MALFORMED:
        done = start([*command(name), program], input=text)
        assert done.returncode == 1, text
        assert done.stderr.startswith(words) and done.stderr.count("\n") == 1, text
        solved = program == "causal_mask"  # the problem before the mistake
        assert bool(done.stdout) == solved, text


def spoiled(program: str, bug: str) -> str | None:
    """A source with the lines of a bug in place of its own, from the bug's first line to its last; None if it lacks
    these two."""
    lines, wrong = program.splitlines(), bug.rstrip("\n").splitlines()
    if wrong[0] not in lines or wrong[-1] not in lines:
        return None
    first = lines.index(wrong[0])
    last = lines.index(wrong[-1], first)
    return "\n".join([*lines[:first], *wrong, *lines[last + 1 :]]) + "\n"


# The inputs on which each bug shows; on the others of its program it does not.
FAILS_ON = {
    "unscaled_maximum": ["thousands", "below_zero", "spread"],
    "no_maximum": ["thousands", "below_zero", "spread"],
    "smallest_number": ["below_zero"],
    "hidden_maximum": ["hidden"],
    "sorted_as_text": ["spread"],
    "row_length": ["cat_sat"],
    "not_cleared": ["cat_sat", "one_head"],
    "append_after_zeros": ["cat_sat", "one_head"],
    "integer_division": ["by_hand"],
    "negative_size": ["by_hand"],
    "shared_rows": ["cat_sat"],
    "copied_number": ["cat_sat"],
    "eps_outside": ["cat_sat"],
    "one_row": ["cat_sat", "more_queries"],
    "below_zero": ["more_queries"],
}


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_bug_of_the_page_shows_on_these_inputs_and_on_no_other(build, tmp_path, bug):
    name, program = BY_SUFFIX[bug.suffix], bug.parent.name
    needs(name)
    shutil.copytree(FOLDER / name, tmp_path / name)
    changed = 0
    for source in sorted((tmp_path / name).glob(f"*{bug.suffix}")):
        wrong = spoiled(source.read_text(), bug.read_text())
        if wrong is not None:
            source.write_text(wrong)
            changed += 1
    assert changed == 1
    command = [*build(name, tmp_path / name), program]
    for path in INPUTS[program]:
        done = start(command, input=path.read_text())
        if path.stem in FAILS_ON[bug.stem] and done.returncode:  # Python stops; the others print a wrong number
            assert "ZeroDivisionError" in done.stderr
            continue
        assert (done.returncode, done.stderr) == (0, "")
        wanted = expected(program, *problem_in(program, path.read_text()))
        pairs = zip(printed(done.stdout), wanted, strict=True)
        right = all(np.allclose(got[1], reference[1], rtol=0, atol=1e-9) for got, reference in pairs)
        assert right == (path.stem not in FAILS_ON[bug.stem]), path.name


def test_a_compiler_that_is_missing_is_named_and_a_failure_where_it_is_required(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("REQUIRE_COMPILERS", "0")
    with pytest.raises(pytest.skip.Exception, match="^javac and java is not on the PATH"):
        needs("java")
    monkeypatch.setenv("REQUIRE_COMPILERS", "1")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE_COMPILERS=1, but go is not"):
        needs("go")


FILES = [path for path in FOLDER.rglob("*.*") if path.is_file() and path.suffix != ".pyc"]


def test_the_page_shows_every_file_once_and_a_phone_every_line_whole():
    shown = re.findall(r"\{literalinclude\} languages/(\S+)", PAGE.read_text("utf-8"))
    assert sorted(shown) == sorted(path.relative_to(FOLDER).as_posix() for path in FILES)
    for path in FILES:
        assert max(len(line.expandtabs(4)) for line in path.read_text("utf-8").splitlines()) <= LARGEST, path


def test_the_programs_in_go_are_formatted_and_found_clean():
    needs("go")
    assert start(["go", "vet", *sorted((FOLDER / "go").glob("*.go"))]).stderr == ""
    assert start(["gofmt", "-l", FOLDER / "go"]).stdout == ""
