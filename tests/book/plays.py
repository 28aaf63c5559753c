"""Every control of every widget, used on a page of the built book as a reader would use it.

`PLAYS` has one function for each `data-widget` name. It gets the page, the widget's root and the state that was saved
in the page, uses each control, and checks what the widget then shows against NumPy and PyTorch.
"""

from __future__ import annotations

import base64

import numpy as np
import torch
from torch.nn import functional as F

STAGES = ["scores", "scaled", "exponentials", "weights", "output"]

# The saved widgets of a page, in the order of their views: what was saved, and what the embedded module computes of it.
SAVED = """async () => {
  const type = "application/vnd.jupyter.widget-";
  const all = {};
  for (const script of document.querySelectorAll(`script[type="${type}state+json"]`))
    Object.assign(all, JSON.parse(script.textContent).state);
  const found = [];
  for (const script of document.querySelectorAll(`script[type="${type}view+json"]`)) {
    const { state, buffers = [] } = structuredClone(all[JSON.parse(script.textContent).model_id]);
    const url = URL.createObjectURL(new Blob([state._esm], { type: "text/javascript" }));
    const { compute } = await import(url);
    const given = { ...state };
    for (const { path, data } of buffers) {
      given[path[0]] = new DataView(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer);
      state[path[0]] = data;
    }
    for (const name of Object.keys(state)) if (name.startsWith("_")) delete state[name];
    found.push({ state, computed: compute(given) });
  }
  return found;
}"""

# Controls are told apart by where they stand and by their data attributes, which stay while numbers change.
RECORD = """(root) => {
  const all = "button, select, input, [tabindex='0']";
  const name = (control) => [control.closest("[data-stage]")?.dataset.stage,
    ...Object.values(control.dataset).filter((text) => text !== ""),
    Object.keys(control.dataset).length ? "" : control.textContent].join(" ").trim();
  root.controls = [...root.querySelectorAll(all)].map(name);
  root.used = new Set();
  for (const event of ["click", "input", "change", "keydown", "pointerdown"])
    root.addEventListener(event, ({ target }) => {
      const control = target.closest(`${all}, [tabindex]`);
      if (control) root.used.add(name(control));
    }, true);
}"""
UNUSED = "(root) => root.controls.filter((name) => !root.used.has(name))"


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("<", "").replace("∞", "inf"))


def agrees(text: str, expected: float) -> bool:
    """Whether a shown number is the expected one, rounded to the decimals that are shown."""
    mantissa, _, exponent = text.replace("−", "-").partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(number(text) - float(expected)) <= 0.5001 * unit + 1e-6


def shown(texts, expected) -> None:
    texts = list(texts)
    expected = np.asarray(expected, dtype=float).ravel()
    assert len(texts) == len(expected), (texts, expected)
    assert all(map(agrees, texts, expected)), (texts, expected.tolist())


# What the module computes of the saved state

def reference_dot_product(state, computed):
    a, b = (torch.tensor(state[name], dtype=torch.float64) for name in "ab")
    expected = dict(dot=a @ b, lengthA=a.norm(), lengthB=b.norm(), products=a * b,
                    cosine=F.cosine_similarity(a, b, dim=0))
    return {name: (computed[name], value.numpy()) for name, value in expected.items()}


def reference_softmax(state, computed):
    logits = torch.tensor(state["scores"], dtype=torch.float64) / state["temperature"]
    entropy = torch.distributions.Categorical(logits=logits).entropy().item()
    return dict(weights=(computed["weights"], logits.softmax(0).numpy()), entropy=(computed["entropyNats"], entropy),
                bits=(computed["entropyBits"], entropy / np.log(2)), choices=(computed["choices"], np.exp(entropy)))


def attention(state):
    q, k, v = (torch.tensor(state[name], dtype=torch.float64) for name in "QKV")
    scores = q @ k.mT
    scaled = scores / q.shape[-1] ** 0.5
    powers = (scaled - scaled.amax(-1, keepdim=True)).exp()
    return dict(scores=scores, scaled=scaled, exponentials=powers, weights=scaled.softmax(-1),
                output=F.scaled_dot_product_attention(q, k, v))


def reference_attention_stepper(state, computed):
    return {name: (computed[name], value.numpy()) for name, value in attention(state).items()}


def maps(state):
    kind = "<f2" if state["dtype"] == "float16" else "<f4"
    return np.frombuffer(base64.b64decode(state["data"]), dtype=kind).reshape(state["shape"]).astype(float)


def reference_attention_heatmap(state, computed):
    weights = maps(state)[state["layer"], state["head"]]
    return dict(weights=(computed["weights"], weights), sums=(computed["sums"], weights.sum(-1)),
                row=(computed["row"], weights[state["query"]]))


# Every control

def play_dot_product(page, root, state):
    fields = [root.locator(f"[data-field={name}]") for name in ("a1", "a2", "b1", "b2")]
    press = lambda name: root.get_by_role("button", name=name, exact=True).press("Enter")  # noqa: E731

    def arrows():
        a1, a2, b1, b2 = (number(field.input_value()) for field in fields)
        a, b = np.array([a1, a2]), np.array([b1, b2])
        texts = [root.locator(f"[data-value={name}]").inner_text() for name in ("dot", "product-1", "product-2")]
        shown(texts, [a @ b, a1 * b1, a2 * b2])
        shown([root.locator("[data-value=headline]").inner_text().removeprefix("a·b = ")], [a @ b])
        shown([root.locator(f"[data-value=length-{name}]").inner_text() for name in "ab"],
              [np.linalg.norm(a), np.linalg.norm(b)])
        if a.any() and b.any():
            cosine = root.locator("[data-value=cosine]").inner_text().rpartition("= ")[2]
            shown([cosine], [a @ b / np.linalg.norm(a) / np.linalg.norm(b)])
        return [a1, a2, b1, b2]

    first = arrows()
    assert first == [*state["a"], *state["b"]]
    for i, (field, typed) in enumerate(zip(fields, (-1.5, 2.5, 0.25, 3))):
        field.fill(str(typed))
        assert arrows()[i] == typed
        field.press("ArrowUp")
        assert arrows()[i] == typed + 0.1
    for i, tip in [(0, "a"), (2, "b")]:
        handle = root.locator(f"[data-tip={tip}]")
        before = arrows()
        handle.press("ArrowLeft")
        assert np.isclose(arrows()[i], before[i] - 0.1)
        handle.press("Shift+ArrowDown")
        assert arrows()[i + 1] < before[i + 1]
        handle.scroll_into_view_if_needed()
        box = handle.locator(".dp-dot").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        before = arrows()
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 12, y - 30, steps=2)
        page.mouse.up()
        assert arrows()[i] > before[i] and arrows()[i + 1] > before[i + 1]
    fields[0].fill("2"), fields[1].fill("1")
    for name, b in [("Same direction", [1, 0.5]), ("Perpendicular", [-1, 2]), ("Opposite", [-2, -1]),
                    ("b twice as long", [-4, -2])]:
        press(name)
        assert arrows() == [2, 1, *b]
    press("Start again")
    assert arrows() == first


def play_softmax(page, root, state):
    press = lambda name: root.get_by_role("button", name=name, exact=True).press("Enter")  # noqa: E731
    text = lambda name: root.locator(f"[data-value={name}]").inner_text()  # noqa: E731
    field = lambda name: root.locator(f"[data-field={name}]")  # noqa: E731
    slider = lambda name: root.locator(f"[data-slider={name}]")  # noqa: E731

    def settings():
        count = root.locator(".sm-rows .sm-row").count()
        scores = [number(field(f"score-{i}").input_value()) for i in range(count)]
        temperature, shift = (number(field(name).input_value()) for name in ("temperature", "shift"))
        logits = torch.tensor(scores, dtype=torch.float64) / temperature
        nats = torch.distributions.Categorical(logits=logits).entropy().item()
        shown([text(f"weight-{i}") for i in range(count)], logits.softmax(0))
        shown([text("nats"), text("bits"), text("most-nats")], [nats, nats / np.log(2), np.log(count)])
        return scores, temperature, shift

    first = settings()
    assert first == (state["scores"], state["temperature"], state["shift"])
    n = len(first[0])
    for i in range(n):
        field(f"score-{i}").fill("-2.5")
        assert settings()[0][i] == -2.5
        slider(f"score-{i}").press("ArrowRight")
        assert settings()[0][i] == -2.4
        field(f"score-{i}").fill(str(3 * i))
    for i in range(n):
        press("Add a score")
        scores = settings()[0]
        assert len(scores) == n + 1
        root.locator(f"[data-remove='{i}']").press("Enter")
        assert settings()[0] == scores[:i] + scores[i + 1:]
    field("temperature").fill("0.5")
    assert settings()[1] == 0.5
    slider("temperature").press("End")
    assert settings()[1] > 19
    field("shift").fill("9")
    half = root.locator("[data-half=plain]").inner_text()
    slider("shift").press("End")
    assert settings()[2] == 20
    assert root.locator("[data-half=plain]").inner_text() != half
    press("Start again")
    assert settings() == first


def play_attention_stepper(page, root, state):
    state = {name: state[name] for name in ("Q", "K", "V", "query", "stage", "guess", "start")}
    go = lambda name: root.locator(f"[data-go='{name}']")  # noqa: E731
    row = lambda stage: root.locator(f"[data-stage={stage}]")  # noqa: E731

    def numbers(stage):
        return row(stage).locator(".st-cells .st-cell").all_inner_texts()

    def right(stages=STAGES):
        expected = attention(state)
        for stage in stages:
            shown(numbers(stage), expected[stage][state["query"]])

    # Guess first: each stage is covered until asked.
    if not go("guess").is_checked():
        go("guess").check()
    for i in reversed(range(len(state["Q"]))):
        root.locator(f"[data-query='{i}']").press("Enter")
        assert root.locator("[data-query][aria-pressed=true]").get_attribute("data-query") == str(i)
    state["query"] = 0
    root.locator("[data-stage-tab=scores]").click()
    for stage in STAGES:
        assert set(numbers(stage)) == {"?"}
        go(f"show-{stage}").press("Enter")
        right([stage])
        for cell in row(stage).locator(".st-cell").all():
            before = row(stage).locator(".st-why").inner_text()
            cell.click()
            assert cell.get_attribute("aria-expanded") == "true"
            assert row(stage).locator(".st-why").inner_text() != before
        go("next").press("Enter")
    go("back").press("Enter")
    assert set(numbers("output")) == {""}
    go("guess").uncheck()
    for stage in STAGES:
        root.locator(f"[data-stage-tab={stage}]").press("Enter")
        assert root.locator("[aria-current=step]").get_attribute("data-stage-tab") == stage
    # All five stages are open. Each entry moves what depends on it, and nothing else.
    for name, column in (("Q", "scores"), ("K", "scores"), ("V", "output")):
        for i, entries in enumerate(state[name]):
            for c in range(len(entries)):
                before = {stage: numbers(stage) for stage in STAGES}
                entries[c] = round(entries[c] + 0.75, 2)
                root.locator(f"[data-field={name}-{i}-{c}]").fill(str(entries[c]))
                right()
                same = before[column] == numbers(column)
                assert same == (name == "Q" and i != state["query"]) or name == "K"
    go("reset").press("Enter")
    assert root.locator("[aria-current=step]").get_attribute("data-stage-tab") == "scores"
    state.update(state["start"])
    right(["scores"])


def play_attention_heatmap(page, root, state):
    weights = maps(state)
    go = lambda name: root.locator(f"[data-go='{name}']")  # noqa: E731
    cell = lambda i, j: root.locator(f"[data-cell='{i}-{j}']")  # noqa: E731
    layers, heads, n_q, n_k = weights.shape

    def right(layer, head, query):
        table = weights[layer, head]
        texts = root.locator(".hm-cell").all_inner_texts()
        assert all(text == "<.01" and 0 < w < 0.005 or text != "<.01" and agrees(text, w)
                   for text, w in zip(texts, table.ravel(), strict=True))
        bars = root.locator(".hm-value").all_inner_texts()
        assert all(text == "<.001" and 0 < w < 0.0005 or text != "<.001" and agrees(text, w)
                   for text, w in zip(bars, table[query], strict=True))

    layer, head, query = state["layer"], state["head"], state["query"]
    right(layer, head, query)
    root.locator(".hm-cell[tabindex='0']").click()  # the one stop of the tab key stands in the selected row
    right(layer, head, query)
    for layer in {0, layers // 2, layers - 1}:
        go("layer").select_option(str(layer))
        right(layer, head, query)
    for head in {0, heads // 2, heads - 1}:
        go("head").select_option(str(head))
        right(layer, head, query)
    go("layer").press("Home"), go("head").press("Home")
    right(0, 0, query)
    for i, j in [(0, 0), (n_q - 1, 0), (n_q // 2, n_k // 2)]:
        cell(i, j).click()
        right(0, 0, i)
        assert cell(i, j).get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowUp")
    right(0, 0, n_q // 2 - 1)
    page.keyboard.press("Control+End")
    right(0, 0, n_q - 1)
    assert cell(n_q - 1, n_k - 1).get_attribute("tabindex") == "0"
    cell(0, 0).hover()
    right(0, 0, 0)
    root.locator(".hm-cell[tabindex='0']").press("Control+Home")
    right(0, 0, 0)


PLAYS = {name.removeprefix("play_"): play for name, play in list(globals().items()) if name.startswith("play_")}
REFERENCES = {name.removeprefix("reference_"): reference for name, reference in list(globals().items())
              if name.startswith("reference_")}
