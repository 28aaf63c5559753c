"""References and other right answers work where their inputs are, in the dtype of their inputs."""

import importlib
import inspect

import pytest
import torch

from attnlab import probes
from autograder.course import catalog
from autograder.exercise import PUBLIC_SEED

STEMS = ("multi_head", "cross_attention")
EXERCISES = {
    name: exercise
    for stem in STEMS
    for name, exercise in catalog.exercises_of(stem).items()
    if "Tensor" in inspect.getsource(exercise.reference)
}
ANSWERS = [
    pytest.param(name, answer, id=f"{name}-{answer.__name__}")
    for name, exercise in EXERCISES.items()
    for answer in (
        exercise.reference,
        *importlib.import_module(f"tests.alternatives.{catalog.chapter_of(name)}").ALTERNATIVES[name],
    )
]


def kind_of(result) -> str:
    dtype = torch.bfloat16 if result.is_floating_point() else result.dtype
    return f"{dtype} {tuple(result.shape)}".removeprefix("torch.")


@pytest.mark.parametrize("name, answer", ANSWERS)
def test_a_right_answer_works_in_bfloat16_and_on_another_device(material, name, answer):
    """On another device than the CPU, that is, which PyTorch's `meta` stands for."""
    for prop in material(name, PUBLIC_SEED)["properties"]:
        for case in prop["cases"]:
            if prop["probe"] in {"call", "placed"} and any(isinstance(x, torch.Tensor) for x in case.values()):
                asked = probes.Built(answer) if "init" in case else answer
                seen = probes.placed(asked, **case)
                results = seen["result"] if isinstance(seen["result"], (tuple, list)) else [seen["result"]]
                assert seen["elsewhere"] == ", ".join(map(kind_of, results))
