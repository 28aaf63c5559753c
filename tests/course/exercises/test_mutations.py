"""Every exercise of the course: mistakes fail and are named, right answers in other words pass, idleness earns nothing.

The same holds on the public cases and on hidden ones, here drawn from a seed that stands for any.
"""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest
import torch
from torch import nn

from attnlab.check import examine
from attnlab.checking.judge import judge
from course import catalog
from course.kit.exercise import PUBLIC_SEED
from course.kit.hunt import without_hunts
from tests.conftest import HIDDEN_SEED, each_seed

EXERCISES = without_hunts(catalog.all_exercises())


def alternatives(name: str) -> list:
    module = importlib.import_module(f"tests.alternatives.{catalog.chapter_of(name)}")
    return module.ALTERNATIVES.get(name, [])


def pytorchs_own(name: str) -> list:
    """Right answers in which PyTorch does the whole work, so that `check` gives them no points."""
    module = importlib.import_module(f"tests.alternatives.{catalog.chapter_of(name)}")
    return getattr(module, "PYTORCHS_OWN", {}).get(name, [])


def failures(report) -> str:
    return "\n".join(f"{f.title}: {f.misconception or f.detail}" for f in report.findings if not f.passed)


@pytest.fixture(params=EXERCISES, scope="module")
def name(request):
    return request.param


@pytest.mark.parametrize("name, seed", each_seed(EXERCISES), scope="module")
def test_every_mistake_fails_and_is_named_first(material, name, seed):
    made, wrong = material(name, seed), {}
    for i, mistake in enumerate(EXERCISES[name].misconceptions):
        if seed == PUBLIC_SEED and i == 0:
            report = examine(mistake.wrong, made)
        else:  # it has run on these inputs already, to make the material
            report = judge(made, made["misconceptions"][i]["outcomes"], show_cases=seed == PUBLIC_SEED)
        named = {finding.misconception for finding in report.findings if not finding.passed} - {None}
        if named != {mistake.text}:
            wrong[f"{i}, {mistake.text[:60]}"] = failures(report) or "this mistake passes"
    assert wrong == {}


def test_it_has_at_least_four_misconceptions_each_with_a_sentence(name):
    mistakes = EXERCISES[name].misconceptions
    assert len({m.text for m in mistakes}) >= 4
    for m in mistakes:
        assert len(m.text) >= 30 and m.text.rstrip().endswith((".", "?", "!")), m.text


def test_every_property_has_a_hint_and_a_title_of_its_own(name):
    properties = EXERCISES[name].properties
    assert [p.title for p in properties if not p.hint] == []
    assert len({p.title for p in properties}) == len(properties)


@pytest.mark.parametrize("name, seed", each_seed(EXERCISES), scope="module")
def test_the_reference_gets_full_marks(material, name, seed):
    report = examine(EXERCISES[name].reference, material(name, seed))
    assert report.passed, failures(report)
    assert report.points == EXERCISES[name].points > 0


def test_there_are_two_other_right_answers(name):
    assert len(alternatives(name)) >= 2


@pytest.mark.parametrize("name, seed", each_seed(EXERCISES), scope="module")
def test_right_answers_in_other_words_get_full_marks(material, name, seed):
    for answer in [*alternatives(name), *pytorchs_own(name)]:
        report = examine(answer, material(name, seed))
        assert report.passed, f"{answer.__name__}:\n{failures(report)}"


def raising(error):
    def answer(*args, **kwargs):
        raise error

    return answer


def recurses(*args, **kwargs):
    return recurses(*args, **kwargs)


IDLE_FUNCTIONS = {
    "returns None": lambda *args, **kwargs: None,
    "refuses": raising(ValueError),
    "refuses as PyTorch does": raising(RuntimeError),
    "unfinished": raising(NotImplementedError),
    "returns zero": lambda *args, **kwargs: 0.0,
    "returns an empty list": lambda *args, **kwargs: [],
    "returns its first argument": lambda *args, **kwargs: args[0] if args else next(iter(kwargs.values()), None),
    "returns all arguments": lambda *args, **kwargs: (*args, *kwargs.values()),
    "recurses": recurses,
}
IDLE_CLASSES = {name: IDLE_FUNCTIONS[name] for name in ("returns None", "refuses", "unfinished", "recurses")}
IDLE_CLASSES["an empty module"] = lambda *args, **kwargs: nn.Module()


def idle_answers(name: str) -> dict:
    """Answers with the right parameters that do nothing worth a point."""
    return IDLE_CLASSES if inspect.isclass(EXERCISES[name].reference) else IDLE_FUNCTIONS


def idle_modules(name: str) -> dict:
    """Subclasses of a reference that are made as it is and then do nothing of use when they are called."""
    reference = EXERCISES[name].reference
    methods = [method for method in vars(reference) if not method.startswith("__")] or ["forward"]

    def with_forward(forward):
        return type(
            reference.__name__,
            (reference,),
            dict.fromkeys(methods, lambda self, *args, **kwargs: forward([*args, *kwargs.values()])),
        )

    return {
        "returns nothing": with_forward(lambda given: None),
        "returns its first input": with_forward(lambda given: given[0] if given else None),
        "returns its inputs": with_forward(tuple),
        "returns zeros": with_forward(lambda given: torch.zeros_like(given[0]) if given else 0),
        "returns zeros twice": with_forward(lambda given: tuple(torch.zeros_like(row) for row in given[:1] * 2)),
        "refuses": with_forward(raising(ValueError)),
    }


@pytest.mark.parametrize("name", [name for name, ex in EXERCISES.items() if inspect.isclass(ex.reference)])
def test_a_class_that_is_only_made_earns_nothing_by_being_called(material, name):
    hidden = material(name, HIDDEN_SEED, explained=False)
    made = {
        prop["title"]
        for prop in hidden["properties"]
        if all(set(case) <= {"init", "weights"} for case in prop["cases"])
    }
    earned = {}
    for kind, answer in idle_modules(name).items():
        report = examine(answer, hidden)
        titles = [finding.title for finding in report.findings if finding.passed and finding.title not in made]
        if titles:
            earned[kind] = titles
    assert earned == {}


def test_an_idle_answer_earns_nothing(material, name):
    hidden, earned = material(name, HIDDEN_SEED, explained=False), {}
    for kind, answer in idle_answers(name).items():
        report = examine(answer, hidden)
        if report.points:
            earned[kind] = [finding.title for finding in report.findings if finding.passed]
    assert earned == {}


def test_a_number_slightly_off_is_not_given_a_name(material, name):
    """No mistake of the list makes results 1.3% too large: naming one would be a guess."""
    reference = EXERCISES[name].reference

    def scaled(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(scaled, value))
        is_float = (
            isinstance(value, float)
            or isinstance(value, torch.Tensor)
            and value.is_floating_point()
            or isinstance(value, (np.ndarray, np.generic))
            and value.dtype.kind == "f"
        )
        return value * 1.013 if is_float else value

    def slightly_off(*args, **kwargs):
        return scaled(reference(*args, **kwargs))

    if inspect.isclass(reference):
        slightly_off = type(
            name,
            (reference,),
            {"forward": lambda self, *args, **kwargs: scaled(reference.forward(self, *args, **kwargs))},
        )

    report = examine(slightly_off, material(name, PUBLIC_SEED))
    named = {finding.misconception for finding in report.findings if finding.misconception}
    assert named == set()


def test_hidden_inputs_differ_from_public_ones(material, name):
    """Not each case must be drawn, but an exercise without any drawn input could be answered by heart."""
    from attnlab.checking.compare import within_tolerance

    public, hidden = (material(name, seed, explained=False)["properties"] for seed in (PUBLIC_SEED, HIDDEN_SEED))
    assert any(
        not within_tolerance(
            {str(i): c for i, c in enumerate(p["cases"])}, {str(i): c for i, c in enumerate(h["cases"])}
        )
        for p, h in zip(public, hidden)
    )
