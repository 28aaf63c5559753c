"""Heads that form: what is recorded, the model in JavaScript against PyTorch, and training in a worker."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab import data, widgets
from attnlab.widgets import HeadForming
from scripts import record_chants as script
from solutions.language_model import LanguageModel
from tests.attnlab.widget_page import state_of

FIXTURES = [state_of(HeadForming(at=at)) for at in (0, 9, 24)]
STOPS = ["at", "play", "train", "seed"]
EXAMPLES = [(HeadForming(), dict(at=8), dict(at=24), dict(seed=12345678))]
PLAYS = [(HeadForming(at=20), dict(at=24))]
GLIDES = [(HeadForming(), dict(at=24), {".hf-at": "x1"})]
SET = [dict(at=3), dict(seed=1)]
MISTYPED = {"seed": ["-1", "x", "5000000000"]}
REFUSED = [(dict(at=25), "at must be from 0 to 24; got 25"), (dict(at=-1), "at"), (dict(seed=-1), "seed")]

MODEL = Path(widgets.__file__).with_name("chant_model.js").read_text("utf-8")
MAKE = f"() => {{ {MODEL} window.chantModel = chantModel; }}"


def reference(state):
    looks, layers, heads = state["shape"]
    n, period, at = len(state["text"]), state["period"], state["at"]
    row = np.frombuffer(state["data"], np.uint8).reshape(looks, -1)[at] / 255
    below = np.tril_indices(n)
    maps = np.zeros((layers * heads, n, n))
    maps[:, below[0], below[1]] = row[: -(n - 1)].reshape(layers * heads, -1)
    losses = np.frombuffer(state["losses"], "<f2").astype(float)
    last = min(at * state["every"], len(losses) - 1)
    return {
        "step": at * state["every"],
        "loss": losses[max(0, last - 9) : last + 1].mean(),
        "maps": maps.reshape(layers * heads, -1),
        "chances": row[-(n - 1) :],
        "back": maps.diagonal(-1, 1, 2).mean(1),
        "next": maps.diagonal(-period + 1, 1, 2)[:, 1:].mean(1),
    }


def test_before_training_all_is_fog_and_at_the_end_two_kinds_of_heads_have_formed(shown):
    view = shown(HeadForming())
    first, last = (view.compute(FIXTURES[i]) for i in (0, 2))
    assert max(first["back"] + first["next"]) < 0.25
    assert max(last["back"][:2]) > 0.6 and min(last["next"][2:]) > 0.8
    assert np.mean(first["chances"]) < 0.06 and np.mean(last["chances"][10:]) > 0.9


@pytest.fixture
def pair(shown):
    """(view with the same numbers in JavaScript, PyTorch's model, texts)."""
    torch.manual_seed(3)
    model = LanguageModel(26, 32, 2, 2, 1, 64, base=100.0).double()
    with torch.no_grad():
        model.embedding.weight.mul_(0.3)
        for name, one in model.named_parameters():
            if "norm" in name:
                one.add_(0.2 * torch.randn_like(one))
    view = shown(HeadForming())
    view.evaluate(MAKE)
    flat = torch.cat([one.detach().flatten() for one in model.parameters()]).tolist()
    view.evaluate("(flat) => { window.small = chantModel(); small.parameters.set(flat); }", flat)
    return view, model, script.chants(3, np.random.default_rng(2))


def test_loss_and_all_gradients_are_those_of_pytorch(pair):
    view, model, texts = pair
    loss = script.nats_per_letter(model, texts).mean()
    loss.backward()
    expected = torch.cat([one.grad.flatten() for one in model.parameters()]).numpy()
    got, gradient = view.evaluate("(texts) => [small.learn(texts), Array.from(small.gradient)]", texts.tolist())
    assert len(gradient) == 19_424 and np.abs(expected).max() > 0.01
    assert got == pytest.approx(loss.item(), abs=1e-6)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-7)


def test_steps_of_training_are_those_of_pytorch_s_adam(pair):
    view, model, texts = pair
    adam = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(3):
        adam.zero_grad()
        script.nats_per_letter(model, texts).mean().backward()
        adam.step()
    got = view.evaluate(
        "(texts) => { for (let i = 0; i < 3; i++) { small.learn(texts); small.step(0.005); }"
        " return Array.from(small.parameters); }",
        texts.tolist(),
    )
    expected = torch.cat([one.detach().flatten() for one in model.parameters()]).numpy()
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_maps_are_those_of_the_model(pair):
    view, model, texts = pair
    got = view.evaluate("(ids) => { small.read(ids); return small.maps.map((one) => [...one]); }", texts[0].tolist())
    expected = script.maps_of(model, texts[:1])[:, 0].detach().numpy()
    np.testing.assert_allclose(np.reshape(got, expected.shape), expected, atol=1e-6)


def test_a_new_model_is_as_unsure_as_a_guess(pair):
    view, _, texts = pair
    loss, spread = view.evaluate(
        "(texts) => { small.begin(Math.random); return [small.learn(texts),"
        " Math.hypot(...small.parameters.subarray(0, 832)) / Math.sqrt(832)]; }",
        texts.tolist(),
    )
    assert loss == pytest.approx(math.log(26), abs=0.05) and spread == pytest.approx(0.02, rel=0.15)


def trained(view, seed, step):
    """Train from this seed up to a step at least, and stop."""
    view.field("seed").fill(str(seed))
    view.press("train")
    assert view.part("go", "train").inner_text() == "Stop"
    view.page.wait_for_function(
        "(step) => Number(/: ([0-9]+) of/.exec(document.querySelector('[data-value=note]').textContent)?.[1]) >= step",
        arg=step,
    )
    view.press("train")
    assert view.part("go", "train").inner_text() == "Train one here"
    return view.locator(".hf-curve path:not(.hf-behind)").get_attribute("d")


def test_a_model_is_trained_from_the_reader_s_seed_and_can_be_stopped_and_left(shown):
    view = shown(HeadForming(at=24))
    recorded = view.text("now")
    assert view.page.workers == []
    curves = {}
    for seed in (3, 4, 3):
        curve = trained(view, seed, 10)
        shorter = min(len(curve), len(curves.setdefault(seed, curve)))
        assert curve[:shorter] == curves[seed][:shorter]
    assert curves[3][:60] != curves[4][:60]
    step, nats = re.match(r"Step (\d+): ([\d.]+) ", view.text("now")).groups()  # the last look that is kept
    assert int(step) % 25 == 0 and int(step) < 600 and float(nats) < math.log(26) + 0.1
    assert view.said().startswith(f"Trained here, step {step}: ")
    view.press("recorded")
    assert view.text("now") == recorded and view.part("go", "recorded").is_disabled()
    assert view.get("at") == 24


def test_a_browser_without_workers_says_so(shown):
    view = shown(HeadForming())
    view.evaluate("() => { window.Worker = class { constructor() { throw new Error('no'); } }; }")
    view.press("train")
    assert "does not start a worker" in view.text("note")
    assert view.part("go", "train").inner_text() == "Train one here"


SLIDERS = [(HeadForming(), "at", range(25))]
CONTROLS = {
    "the slider and the curve move the maps": (
        HeadForming(),
        ("slider=at: End", {"at": 24, "=now~": "Step 600: ", ".hf-at@x1": "392"}),
        (f"drag .hf-curve at {(36 + 356 / 2) / 400},0.5", dict(at=12)),
    ),
}


def test_the_recording_is_the_course_s():
    assert HeadForming().recording.text == data.chant_training().text
