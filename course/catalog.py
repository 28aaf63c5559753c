"""All chapters and exercises, found by name. Only `_toc.yml` holds their order."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path

import yaml

from attnlab.mine import FORMER
from course.errors import CourseError
from course.folder import ROOT
from course.kit.exercise import Exercise, Written


@functools.cache
def chapters() -> tuple[str, ...]:
    """The stems of all chapters, in the order of the book."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    entries = [c for part in toc.get("parts", [toc]) for c in part.get("chapters", [])]
    return tuple(Path(e["file"]).name for e in entries if str(e.get("file", "")).startswith("chapters/"))


# Chapters that were divided, and the chapters that have parts of them now. Their released notebooks stay gradable.
DIVIDED = {
    old: tuple(stem for stem, former in FORMER.items() if former == old) for old in dict.fromkeys(FORMER.values())
}


def chapters_in(notebook: str) -> tuple[str, ...]:
    """The chapters whose exercises a released notebook may hold, by its name; none for an instructor's own."""
    return (*([notebook] if notebook in chapters() else []), *DIVIDED.get(notebook, ()))


def exercises_in(notebook: str) -> dict[str, Exercise]:
    """The exercises that a released notebook of that name may hold, by name; none for an instructor's own."""
    return {name: ex for stem in chapters_in(notebook) for name, ex in exercises_of(stem).items()}


def chapter_path(stem: str) -> Path:
    return ROOT / "chapters" / f"{stem}.md"


@functools.cache
def exercises_of(stem: str) -> dict[str, Exercise]:
    """The exercises of one chapter, by name, as its module in `course/exercises/` declares them."""
    module = _module(stem)
    found = {name: value for name, value in vars(module).items() if isinstance(value, Exercise)}
    for name, exercise in found.items():
        if name != exercise.name:
            raise CourseError(f"course/exercises/{stem}.py: the exercise {exercise.name} is declared as {name}")
    return found


def written_of(stem: str) -> Written:
    """The written question of one chapter."""
    written = getattr(_module(stem), "written", None)
    if not isinstance(written, Written):
        raise CourseError(f"course/exercises/{stem}.py declares no `written = Written(points=..., rubric=...)`")
    return written


def chapter_of(name: str) -> str:
    """The chapter that an exercise belongs to. Raises CourseError for an unknown name."""
    for stem in chapters():
        if name in _defined(stem) and name in exercises_of(stem):  # to load a chapter may be to load PyTorch
            return stem
    raise CourseError(f"unknown exercise {name!r}; there are: {', '.join(all_exercises())}")


def exercise(name: str) -> Exercise:
    """The exercise of that name."""
    return exercises_of(chapter_of(name))[name]


def all_exercises() -> dict[str, Exercise]:
    """Every exercise of the course, in order."""
    return {name: ex for stem in chapters() for name, ex in exercises_of(stem).items()}


@functools.cache
def _defined(stem: str) -> frozenset[str]:
    """The names that the solutions of a chapter define, read without running them."""
    path = ROOT / "solutions" / f"{stem}.py"
    return frozenset(
        re.findall(r"^(?:def|class) (\w+)", path.read_text("utf-8") if path.is_file() else "", re.MULTILINE)
    )


def _module(stem: str):
    for folder in ("solutions", "course/exercises"):
        if not (ROOT / folder / f"{stem}.py").is_file():
            raise CourseError(f"the chapter {stem} has no {folder}/{stem}.py")
    try:
        return importlib.import_module(f"course.exercises.{stem}")
    except SyntaxError as error:
        raise CourseError(
            f"{(error.filename or stem).removeprefix(f'{ROOT}/')}, line {error.lineno}: {error.msg}"
        ) from None
