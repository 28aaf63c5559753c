"""The living picture: the numbers of its stages against NumPy and the references, its motion, and its tour."""

import numpy as np
import pytest
import torch

from attnlab.widgets import LivingPicture
from attnlab.widgets.living_picture import STAGES, last_moment
from course import catalog
from solutions.attention import scaled_dot_product_attention as attention
from solutions.delta_rule import delta_rule
from solutions.efficient_attention import online_softmax
from solutions.mixture_of_experts import route
from solutions.next_token import next_token_loss
from solutions.steady_attention import softmax_with_sink
from tests.attnlab.widget_page import WAY, frame_clock, sets, sines, state_of

X = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
CAUSAL = np.tril(np.ones((3, 3))) > 0
FIXTURES = [state_of(LivingPicture(stage)) for stage in STAGES]
EXAMPLES = [
    (LivingPicture(), *(dict(stage=stage) for stage in STAGES[1:])),
    (LivingPicture("masks", tour=True), *(dict(stage=stage) for stage in STAGES)),
]
SET = [dict(at=0.5), dict(stage="rope", at=0), dict(at=None)]
REFUSED = [
    ("nothing", {}, "stage"),
    (dict(links={"nothing": "page.html"}), "links"),
    (dict(at=1.5), "at"),
]
REFUSED_LATER = [("tour", True, "read-only"), ("stage", "hero", "stage")]
STOPS = ["play"]


def attend(q, k, v, mask=None):
    output, weights = attention(q, k, v, mask)
    return {"weights": weights, "outputs": output}


def named(prefix, numbers):
    return {f"{prefix}.{name}": value for name, value in numbers.items()}


def softmax(scores):
    powers = np.exp(scores)
    return powers / powers.sum(axis=-1, keepdims=True)


def rotated(start):
    """Pairs as complex numbers, turned by 1 and by 1/100 radian per position."""
    angles = np.outer(np.arange(start, start + 3), [1, 0.01])
    pairs = (X[:, 0::2] + 1j * X[:, 1::2]) * np.exp(1j * angles)
    turned = np.stack([pairs.real, pairs.imag], axis=-1).reshape(3, 4)
    return {"tokens": turned, **attend(turned, turned, X)}


def reference(state):
    stage = state["stage"]
    if stage in ("dot_products", "softmax"):
        scores = X @ X.T
        found = dict(scores=scores, powers=np.exp(scores), weights=softmax(scores))
        return found | ({"products": X[2] * X[0]} if stage == "dot_products" else {})
    if stage == "attention":
        return {"scores": X @ X.T / 2, **attend(X, X, X)}
    if stage == "pytorch":
        keys, found = torch.from_numpy(X.copy()), {}
        for step in range(3):
            key = keys[1].clone().requires_grad_()
            weights = (torch.from_numpy(X) @ torch.stack([keys[0], key, keys[2]]).T / 2).softmax(-1)
            loss = -weights[2, 1].log()
            loss.backward()
            found |= named(f"steps.{step}", dict(loss=loss.item(), gradient=key.grad, weights=weights.detach()))
            keys[1] = key.detach() - key.grad
        return found
    if stage == "masks":
        return {**named("before", attend(X, X, X)), **attend(X, X, X, CAUSAL)}
    if stage == "multi_head":
        heads = [attend(half, half, half) for half in (X[:, :2], X[:, 2:])]
        together = np.hstack([head["outputs"] for head in heads])
        return {**named("heads.0", heads[0]), **named("heads.1", heads[1]), "outputs": together}
    if stage == "cross_attention":
        return attend(np.array([[2.0, 0, 1, 0], [0, 1, 0, 2]]), X, X)
    if stage == "positions":
        ordered, shuffled = X + sines([0, 1, 2], 4), X + sines([1, 2, 0], 4)
        found = {**named("without", attend(X, X, X)), **named("ordered", attend(ordered, ordered, ordered))}
        return found | named("shuffled", attend(shuffled, shuffled, shuffled)) | {"shuffled.tokens": shuffled}
    if stage == "rope":
        return {**named("first", rotated(0)), **named("later", rotated(7))}
    if stage == "kv_cache":
        return attend(X, X, X, CAUSAL)
    if stage == "transformer_block":
        between = X + attention(X, X, X)[0]
        forward = np.maximum(0, between - 1)
        return {"between": between, "forward": forward, "after": between + forward}
    if stage == "language_model":
        table, found = np.array([*X, [0, 0, 1, 1], [0, 1, 1, 0]]), {}
        for at, row in enumerate(np.array([[0, -1, 1, 2], [1, 0, 2, -1], [-1, 1, 2, 0]])):
            logits = table @ (row / np.sqrt(np.mean(row**2) + 1e-5))
            found |= named(f"rounds.{at}", dict(logits=logits, probabilities=softmax(logits), next=logits.argmax()))
        window = table[[3, 0, 4]]
        return found | {"weights.3": attention(window, window, window, CAUSAL)[1]}
    if stage == "steady_attention":
        scores, sink = torch.from_numpy(X @ X.T / 2)[None, None], torch.ones(1).double()
        weights = softmax_with_sink(scores, sink)[0, 0].numpy()
        return {"weights": weights, "outputs": weights @ X, "sink": 1 - weights.sum(axis=-1)}
    if stage == "next_token":
        found = attend(X, X, X, CAUSAL)
        logits = found["outputs"] @ X.T
        return found | {"probabilities": softmax(logits), "loss": next_token_loss(logits[None], np.array([[0, 1, 2]]))}
    if stage == "long_context":
        latents = (X[:, :2] + X[:, 2:]) / 2
        made = np.hstack([latents, latents])
        return {"latents": latents, "made": made, **attend(X, made, made)}
    if stage == "mixture_of_experts":
        logits = torch.from_numpy(X @ np.array([[2, 0, 0, 0], [0, 1, 0, 2], [1, 2, 0, 0]]).T)
        chosen, experts = route(logits, 2)
        weights = torch.zeros_like(logits).scatter(1, experts, chosen).numpy()
        made = [X, X[:, ::-1], 2 * X]
        return {"logits": logits, "weights": weights, "outputs": sum(w[:, None] * m for w, m in zip(weights.T, made))}
    if stage == "delta_rule":
        keys, values = (torch.from_numpy(rows)[None, None] for rows in (X / 2**0.5, X))
        states = [
            delta_rule(keys[:, :, :n], keys[:, :, :n], values[:, :, :n], torch.ones(1, 1, n))[1] for n in (1, 2, 3)
        ]
        left = torch.cat([torch.zeros_like(states[0]), *states], dim=1)[0]
        change = (keys[0, 0, :, None] @ (left[1:] - left[:-1]))[:, 0]
        return {"keys": keys[0, 0], "outputs": change, "recalled": values[0, 0] - change}
    return {"outputs": attention(X, X, X)[0], "steps.3": attention(X, X, X)[0]}


def test_moving_the_text_along_changes_no_weight_and_shuffling_it_with_positions_does(shown):
    view = shown(LivingPicture())
    rope, moved = (view.compute(state_of(LivingPicture(stage))) for stage in ("rope", "positions"))
    np.testing.assert_allclose(rope["first"]["weights"], rope["later"]["weights"], atol=1e-12)
    assert not np.allclose(rope["first"]["tokens"], rope["later"]["tokens"])
    assert np.abs(np.subtract(moved["ordered"]["outputs"], moved["shuffled"]["outputs"])).max(axis=1).min() > 0.05


def test_each_tile_adds_what_online_softmax_adds(shown):
    steps = shown(LivingPicture()).compute(state_of(LivingPicture("efficient_attention")))["steps"]
    scores = X @ X.T / 2
    for at, i, seen in (0, 0, 2), (0, 1, 2), (1, 0, 3), (2, 2, 2), (3, 2, 3):
        maximum, total = online_softmax([torch.from_numpy(scores[i, :seen])])
        weights = np.exp(scores[i, :seen] - float(maximum)) / float(total)
        np.testing.assert_allclose(steps[at][i], weights @ X[:seen], atol=1e-12)


@pytest.mark.parametrize("stage", STAGES)
def test_the_printed_picture_has_the_last_moment_of_the_stage(stage):
    shown, expected = last_moment(stage), reference(dict(stage=stage))
    if stage in ("attention", "cross_attention", "multi_head", *STAGES[-4:]):
        np.testing.assert_allclose(shown["right"], expected["outputs"])
    if stage == "transformer_block":
        np.testing.assert_allclose(shown["right"], expected["after"])
    if stage == "pytorch":
        np.testing.assert_allclose(shown["maps"][0], expected["steps.2.weights"])
    if stage == "rope":
        np.testing.assert_allclose(shown["left"], expected["first.tokens"])
    assert len(LivingPicture(stage).picture().axes) > 9


# The parts that are visible, whether all numbers drawn are numbers, and what reaches out of the drawing.
DRAWN = """() => {
  const svg = document.querySelector(".lp-body svg"), room = svg.getBoundingClientRect();
  const parts = [...svg.querySelectorAll("[data-part]")].filter((one) => one.checkVisibility());
  const outside = [...svg.querySelectorAll("text, rect, circle")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && Number(one.closest("[data-part]").getAttribute("opacity")) > 0.9
      && (box.left < room.left - 0.5 || box.right > room.right + 0.5 || box.top < room.top - 0.5
        || box.bottom > room.bottom + 0.5);
  });
  const look = svg.innerHTML;
  return [parts.length, !/NaN|undefined|Infinity/.test(look), outside.map((one) => one.outerHTML), look];
}"""


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_draws_at_every_moment(stage, shown):
    view = shown(LivingPicture(stage, at=0))
    looks = set()
    for moment in np.linspace(0, 1, 11):
        view.set(at=float(moment))
        visible, numbers, outside, look = view.evaluate(DRAWN)
        assert visible > 9 and numbers, moment
        looks.add(look)
    assert outside == []
    assert len(looks) >= 8  # something changes all the time, up to a pause


def test_the_stack_of_weighted_values_is_as_high_as_the_output(shown):
    flows = "[data-part='flow-6'], [data-part='flow-7'], [data-part='flow-8']"
    heights = shown(LivingPicture("attention")).each(
        flows, "[...one.querySelectorAll('rect')].map((part) => part.height.baseVal.value)"
    )
    np.testing.assert_allclose(np.sum(heights, axis=0) / 14, attention(X, X, X)[0][2], atol=0.01)


CELLS = "[data-part^=cell] text => one.checkVisibility() ? one.textContent : ''"
MOMENT = "Number(document.querySelector('.aw').dataset.moment)"
AT = f"=> {MOMENT}"
SAID = "The scores of sat, 1, 1, 2, become weights, 0.21, 0.21, 0.58: together 1."
ENDS = {
    "dot_products": ["2", "0", "1", "0", "2", "1", "1", "1", "2"],
    "softmax": ["0.67", "0.09", "0.24", "0.09", "0.67", "0.24", "0.21", "0.21", "0.58"],
    "masks": ["1.00", "", "", "0.27", "0.73", "", "0.27", "0.27", "0.45"],
    "kv_cache": ["", "", "", "", "", "", "0.27", "0.27", "0.45"],
    "efficient_attention": [""] * 9,
    "steady_attention": ["0.34", "0.12", "0.20", "0.12", "0.34", "0.20", "0.19", "0.19", "0.31"],
    "delta_rule": ["", "", "", "0.00", "", "", "0.50", "0.50", ""],
}
CONTROLS = {
    "its stages are the chapters in their order, but for the last, which has a picture of its own": (
        LivingPicture(tour=True),
        (
            {"[data-stop] => one.dataset.stop": list(STAGES)},
            {"[data-stop] => one.dataset.stop": [*catalog.chapters()[:-1]]},
        ),
        {"[data-stop]": 18, ".lp-title a": 0},
    ),
    "the map shows the numbers of its stage in the end": (
        LivingPicture(),
        *((sets(stage=stage), {CELLS: texts}) for stage, texts in ENDS.items()),
    ),
    "the words say what is seen": (
        LivingPicture("softmax"),
        {".lp-caption": "Each row of scores bends into weights, which share one unit."},
        {"said": SAID, "svg@aria-label": SAID},
    ),
    "a press jumps to a chapter and its name is a link": (
        LivingPicture(tour=True, links={stage: f"#{stage}" for stage in STAGES}),
        ("stop=rope", {"stage": "rope", ".lp-title": "10. RoPE", ".lp-title a@href": "#rope"}),
        ("stop=masks: Enter", {".lp-title a@href": "#masks"}),
    ),
    "where motion is unwanted it stays at its end and goes step by step": (
        LivingPicture("attention"),
        ("wait", {AT: 1, "go=play": "Step"}),
        *(("play", {AT: moment}) for moment in (0, 0.2, 0.4, 0.6, 0.8, 1, 0)),
        (sets(stage="masks"), {AT: 1}),
    ),
    "where motion is unwanted the tour waits for the reader": (
        LivingPicture(tour=True),
        ("wait", {"stage": "dot_products", AT: 1}),
        ("play", {"stage": "softmax", AT: 1, "go=play": "Next"}),
    ),
}


def test_one_tile_at_most_is_there_at_any_moment(shown):
    view = shown(LivingPicture("efficient_attention", at=0))
    there = []
    for moment in np.linspace(0, 1, 41):
        view.set(at=float(moment))
        there.append(sum(text != "" for text in view.look(CELLS, None)))
    assert max(there) == 4


MOVING = dict(reduced_motion="no-preference", before=frame_clock(60))  # a stage lasts seconds


def stays(view):
    """The moment that is drawn, which is drawn still after some frames."""
    held = view.evaluate(MOMENT)
    view.frames(10)
    assert view.evaluate(MOMENT) == held
    return held


def test_it_moves_once_when_it_is_seen_and_again_when_asked(shown):
    view = shown(LivingPicture("masks"), **MOVING)
    button = view.part("go", "play")
    pause = "document.querySelector('[data-go=play]')"
    view.page.wait_for_function(f"{MOMENT} > 0.05 && {pause}.textContent === 'Pause' && ({pause}.click(), true)")
    held = stays(view)
    assert 0.05 < held < 0.9 and button.inner_text() == "Play"
    button.press("Enter")
    view.page.wait_for_function(f"{MOMENT} > {held}")
    view.get_by_role("button", name="Replay").wait_for()
    assert view.evaluate(MOMENT) == 1
    view.press("play")
    view.page.wait_for_function(f"{MOMENT} < 0.5")


def test_from_stage_to_stage_the_same_bars_pass_through_places_between(shown):
    view = shown(LivingPicture("dot_products"), reduced_motion="no-preference", before=frame_clock())
    view.page.wait_for_function(f"0 < {MOMENT} && {MOMENT} < 1")
    widths, kept = view.evaluate(WAY, [dict(stage="multi_head", at=None), {"[data-part='cell-0'] rect": "width"}, 300])
    assert kept and widths[-1] == "27"
    assert any(27 < float(width) < 56 for width in widths)


def test_out_of_sight_it_waits(shown):
    view = shown(LivingPicture("masks"), **MOVING)
    away = "(document.body.style.height = '4000px', scrollTo(0, 3000), true)"
    view.page.wait_for_function(f"{MOMENT} > 0.05 && {away}")
    view.frames(3)  # until the page has noticed
    held = stays(view)
    assert held < 1
    view.evaluate("scrollTo(0, 0)")
    view.page.wait_for_function(f"{MOMENT} > {held}")


def test_the_tour_goes_on_by_itself_and_stops_when_asked(shown):
    view = shown(LivingPicture("kv_cache", tour=True), **MOVING)
    stop = "(document.querySelector('[data-go=play]').click(), true)"
    view.page.wait_for_function(f"model.get('stage') === 'transformer_block' && {stop}")
    assert view.part("go", "play").inner_text() == "Play"
    assert view.texts(".lp-title") == ["12. The transformer block"]
    assert view.locator("[aria-current=step]").get_attribute("data-stop") == "transformer_block"
    stays(view)
