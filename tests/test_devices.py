"""Answers with full marks work where their inputs are, so the cells for a GPU run on any of them.

The other device is that of `attnlab.checking.fake_device`, which every machine has.
"""

from __future__ import annotations

import importlib

import pytest
import torch

from attnlab.checking import probes
from attnlab.checking.fake_device import FakeDevice, to_cpu, to_fake_device
from course import catalog
from course.kit.hunt import without_hunts

# Exercises of a chapter that take no tensor, or give none back: there is no device to be wrong.
WITHOUT_TENSORS = {
    "multi_head": {"split_heads", "merge_heads", "attention_parameters"},  # the first two only move numbers
    "cross_attention": {"attention_multiply_adds", "hard_alignment"},
    "positions": {"sinusoidal_encoding", "shift_matrix", "alibi_bias"},
    "rope": {"rope_frequencies"},
    "kv_cache": {"repeat_kv", "kv_cache_bytes"},  # repeat_kv only copies
    "transformer_block": set(),
    "language_model": {"generate", "patch_head"},  # tested below, with a model
    "efficient_attention": {"online_softmax"},
}
ASKED = [
    name
    for name in without_hunts(catalog.all_exercises())
    if name not in WITHOUT_TENSORS.get(catalog.chapter_of(name), {name})
]
PROBES = {probes.elsewhere}


@pytest.mark.parametrize("name", ASKED)
def test_full_marks_say_that_an_answer_works_on_another_device(name):
    assert [prop.title for prop in catalog.exercise(name).properties if prop.probe in PROBES] != []


MODEL = dict(vocab_size=11, d_model=12, n_layers=2, n_heads=6, n_kv_heads=2, d_ff=10)


def answers_to(name: str) -> list:
    module = importlib.import_module(f"tests.alternatives.{catalog.chapter_of(name)}")
    return [catalog.exercise(name).reference, *module.ALTERNATIVES[name]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", answers_to("LanguageModel"))
@pytest.mark.parametrize("write", answers_to("generate"))
def test_decoding_runs_there_and_writes_what_it_writes_here(make, write, dtype, monkeypatch):
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # its tensors cannot be wrapped
    torch.manual_seed(0)
    model, ids = make(**MODEL).to(dtype).requires_grad_(False), torch.tensor([[3, 1, 4, 1]])
    here = [write(model, ids, 5, use_cache=use_cache) for use_cache in (True, False)]
    with FakeDevice():
        gone = to_fake_device(model)
        there = [write(gone, to_fake_device(ids), 5, use_cache=use_cache) for use_cache in (True, False)]
    assert all(text.device.type == "meta" for text in there)
    assert all(torch.equal(to_cpu(text), text_here) for text, text_here in zip(there, here))


@pytest.mark.parametrize("patch", answers_to("patch_head"))
def test_a_head_is_patched_there_as_here(patch, monkeypatch):
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # its tensors cannot be wrapped
    torch.manual_seed(0)
    model = answers_to("LanguageModel")[0](**MODEL).requires_grad_(False)
    ids, donor_ids = torch.tensor([[3, 1, 4, 1], [2, 7, 1, 8]])[:, None]
    here = patch(model, ids, donor_ids, 1, 4, 6)
    with FakeDevice():
        there = patch(to_fake_device(model), to_fake_device(ids), to_fake_device(donor_ids), 1, 4, 6)
    assert there.device.type == "meta"
    torch.testing.assert_close(to_cpu(there), here)


@pytest.mark.parametrize("attend", answers_to("tiled_attention"))
def test_tiles_run_there_in_bfloat16(attend):
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(1, 9, 4, generator=generator).to(torch.bfloat16) for _ in range(3)]
    with FakeDevice():
        result = attend(*to_fake_device(given), 4, causal=True)
    assert (result.device.type, result.dtype) == ("meta", torch.bfloat16)
    torch.testing.assert_close(to_cpu(result), attend(*given, 4, causal=True))
