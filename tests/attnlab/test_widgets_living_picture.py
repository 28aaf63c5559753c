"""The living picture: the numbers of its stages against NumPy and the references, its motion, and its tour."""

import numpy as np
import pytest
import torch

from attnlab.widgets import LivingPicture
from attnlab.widgets.living_picture import STAGES, last_moment
from course import catalog
from solutions.attention import scaled_dot_product_attention as attention
from solutions.efficient_attention import online_softmax
from solutions.modern_attention import softmax_with_sink
from tests.attnlab.widget_page import state_of

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


def positions(p):
    p = np.asarray(p, float)
    return np.stack([np.sin(p), np.cos(p), np.sin(p / 100), np.cos(p / 100)], axis=-1)


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
        ordered, shuffled = X + positions([0, 1, 2]), X + positions([1, 2, 0])
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
    if stage == "modern_attention":
        scores, sink = torch.from_numpy(X @ X.T / 2)[None, None], torch.ones(1).double()
        weights = softmax_with_sink(scores, sink)[0, 0].numpy()
        return {"weights": weights, "outputs": weights @ X, "sink": 1 - weights.sum(axis=-1)}
    return {"outputs": attention(X, X, X)[0], "steps.3": attention(X, X, X)[0]}


def test_its_stages_are_the_chapters_in_their_order(shown):
    view = shown(LivingPicture(tour=True))
    stops = view.each("[data-stop]", "one.dataset.stop")
    assert list(STAGES) == stops == list(catalog.chapters())


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
    if stage in ("attention", "cross_attention", "multi_head", "modern_attention"):
        np.testing.assert_allclose(shown["right"], expected["outputs"])
    if stage == "transformer_block":
        np.testing.assert_allclose(shown["right"], expected["after"])
    if stage == "pytorch":
        np.testing.assert_allclose(shown["maps"][0], expected["steps.2.weights"])
    if stage == "rope":
        np.testing.assert_allclose(shown["left"], expected["first.tokens"])
    assert len(LivingPicture(stage).picture().axes) > 9


VISIBLE = """() =>
  [...document.querySelectorAll(".lp-body [data-part]")].filter((one) => one.checkVisibility()).length"""
# What reaches out of the drawing, though it is seen.
OUTSIDE = """() => {
  const svg = document.querySelector(".lp-body svg"), room = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text, rect, circle")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && Number(one.closest("[data-part]").getAttribute("opacity")) > 0.9
      && (box.left < room.left - 0.5 || box.right > room.right + 0.5 || box.top < room.top - 0.5
        || box.bottom > room.bottom + 0.5);
  }).map((one) => one.closest("[data-part]").dataset.part);
}"""
NUMBERS_DRAWN = """() => [...document.querySelectorAll(".lp-body [data-part] rect, .lp-body text")]
    .every((one) => !/NaN|undefined|Infinity/.test(one.outerHTML))"""


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_draws_at_every_moment(stage, shown):
    view = shown(LivingPicture(stage, at=0))
    looks = set()
    for moment in np.linspace(0, 1, 11):
        view.set(at=float(moment))
        assert view.evaluate(VISIBLE) > 9 and view.evaluate(NUMBERS_DRAWN), moment
        looks.add(view.evaluate("document.querySelector('.lp-body svg').innerHTML"))
    assert view.evaluate(OUTSIDE) == []
    assert len(looks) >= 8  # something changes all the time, up to a pause


def cells(view):
    texts = view.each("[data-part^=cell] text", "one.checkVisibility() ? one.textContent : ''")
    return np.reshape(texts, (3, 3)).tolist()


@pytest.mark.parametrize(
    "stage, expected",
    [
        ("dot_products", [["2", "0", "1"], ["0", "2", "1"], ["1", "1", "2"]]),
        ("softmax", [["0.67", "0.09", "0.24"], ["0.09", "0.67", "0.24"], ["0.21", "0.21", "0.58"]]),
        ("masks", [["1.00", "", ""], ["0.27", "0.73", ""], ["0.27", "0.27", "0.45"]]),
        ("kv_cache", [["", "", ""], ["", "", ""], ["0.27", "0.27", "0.45"]]),
        ("efficient_attention", [["", "", ""]] * 3),
        ("modern_attention", [["0.34", "0.12", "0.20"], ["0.12", "0.34", "0.20"], ["0.19", "0.19", "0.31"]]),
    ],
)
def test_what_the_map_shows_in_the_end(stage, expected, shown):
    assert cells(shown(LivingPicture(stage))) == expected


def test_the_stack_of_weighted_values_is_as_high_as_the_output(shown):
    view = shown(LivingPicture("attention"))
    flows = view.locator("[data-part='flow-6'], [data-part='flow-7'], [data-part='flow-8']")
    heights = flows.evaluate_all(
        "all => all.map((g) => [...g.querySelectorAll('rect')].map((one) => Number(one.getAttribute('height'))))"
    )
    np.testing.assert_allclose(np.sum(heights, axis=0) / 14, attention(X, X, X)[0][2], atol=0.01)


def test_one_tile_at_most_is_there_at_any_moment(shown):
    view = shown(LivingPicture("efficient_attention", at=0))
    most = 0
    for moment in np.linspace(0, 1, 41):
        view.set(at=float(moment))
        there = sum(text != "" for row in cells(view) for text in row)
        most = max(most, there)
        assert there <= 4, moment
    assert most == 4


def test_the_words_say_what_is_seen(shown):
    view = shown(LivingPicture("softmax"))
    assert view.texts(".lp-caption") == ["Each row of scores bends into weights, which share one unit."]
    said = "The scores of sat, 1, 1, 2, become weights, 0.21, 0.21, 0.58: together 1."
    assert view.said() == said == view.locator("svg").get_attribute("aria-label")


MOMENT = "Number(document.querySelector('.aw').dataset.moment)"

# A stage lasts seconds. Where a test waits for its end, the clock of the page is four times as fast.
FASTER = """() => {
  const [now, frame] = [performance.now.bind(performance), window.requestAnimationFrame];
  performance.now = () => 4 * now();
  window.requestAnimationFrame = (f) => frame((time) => f(4 * time));
}"""


def test_it_moves_once_when_it_is_seen_and_again_when_asked(shown):
    view = shown(LivingPicture("masks"), reduced_motion="no-preference", before=FASTER)
    button = view.part("go", "play")
    view.page.wait_for_function(f"{MOMENT} > 0.05 && {MOMENT} < 0.9")
    assert button.inner_text() == "Pause"
    view.press("play")
    held = view.evaluate(MOMENT)
    view.page.wait_for_timeout(150)
    assert view.evaluate(MOMENT) == held and button.inner_text() == "Play"
    button.press("Enter")
    view.page.wait_for_function(f"{MOMENT} > {held}")
    view.get_by_role("button", name="Replay").wait_for()
    assert view.evaluate(MOMENT) == 1
    view.press("play")
    view.page.wait_for_function(f"{MOMENT} < 0.5")


def test_from_stage_to_stage_the_same_bars_pass_through_places_between(shown):
    view = shown(LivingPicture("dot_products"), reduced_motion="no-preference")
    view.evaluate("""() => {
      window.widths = [];
      const cell = document.querySelector("[data-part='cell-0'] rect");
      new MutationObserver(() => widths.push(Number(cell.getAttribute("width")))).observe(cell, { attributes: true });
    }""")
    view.set(stage="multi_head", at=None)
    view.page.wait_for_function("widths.length > 2 && widths.at(-1) === 27")
    assert any(27 < width < 56 for width in view.evaluate("widths"))


def test_where_motion_is_unwanted_it_stays_at_its_end_and_goes_step_by_step(shown):
    view = shown(LivingPicture("attention"))
    view.page.wait_for_timeout(150)
    assert view.evaluate(MOMENT) == 1 and view.part("go", "play").inner_text() == "Step"
    seen = [view.press("play") or view.evaluate(MOMENT) for _ in range(7)]
    assert seen == [0, 0.2, 0.4, 0.6, 0.8, 1, 0]
    view.set(stage="masks")
    assert view.evaluate(MOMENT) == 1


def test_out_of_sight_it_waits(shown):
    view = shown(LivingPicture("masks"), reduced_motion="no-preference")
    view.page.wait_for_function(f"{MOMENT} > 0.05 && {MOMENT} < 0.9")
    view.evaluate("document.body.style.height = '4000px'; scrollTo(0, 3000)")
    view.page.wait_for_timeout(200)
    held = view.evaluate(MOMENT)
    view.page.wait_for_timeout(150)
    assert view.evaluate(MOMENT) == held < 1
    view.evaluate("scrollTo(0, 0)")
    view.page.wait_for_function(f"{MOMENT} > {held}")


def test_the_tour_goes_on_by_itself_and_stops_when_asked(shown):
    view = shown(LivingPicture("kv_cache", tour=True), reduced_motion="no-preference", before=FASTER)
    view.page.wait_for_function("model.get('stage') === 'transformer_block'")
    view.press("play")
    assert view.part("go", "play").inner_text() == "Play"
    assert view.texts(".lp-title") == ["11. The transformer block"]
    assert view.locator("[aria-current=step]").get_attribute("data-stop") == "transformer_block"
    held = view.evaluate(MOMENT)
    view.page.wait_for_timeout(150)
    assert view.evaluate(MOMENT) == held


def test_a_press_jumps_to_a_chapter_and_its_name_is_a_link(shown):
    links = {stage: f"#{stage}" for stage in STAGES}
    view = shown(LivingPicture(tour=True, links=links))
    view.part("stop", "rope").click()
    assert view.saved("stage") == "rope" and view.texts(".lp-title") == ["9. RoPE"]
    assert view.locator(".lp-title a").get_attribute("href") == "#rope"
    assert view.locator("[data-stop]").count() == 14
    view.part("stop", "masks").press("Enter")
    assert view.locator(".lp-title a").get_attribute("href") == "#masks"
    assert not shown(LivingPicture(tour=True)).locator(".lp-title a").count()


def test_where_motion_is_unwanted_the_tour_waits_for_the_reader(shown):
    view = shown(LivingPicture(tour=True))
    view.page.wait_for_timeout(300)
    assert view.get("stage") == "dot_products" and view.evaluate(MOMENT) == 1
    view.press("play")
    assert view.saved("stage") == "softmax" and view.evaluate(MOMENT) == 1
    assert view.part("go", "play").inner_text() == "Next"
