"""Every control of every widget, used on a page of the built book as a reader would use it.

`PLAYS` has one function for each `data-widget` name. It gets the page, the widget's root and the state that was saved
in the page, uses each control, and checks what the widget then shows against NumPy and PyTorch.
"""

from __future__ import annotations

import base64

import numpy as np
import torch
from torch.nn import functional as F

from solutions.efficient_attention import online_softmax, tiled_attention
from solutions.transformer_block import DecoderBlock, EncoderBlock, LlamaBlock

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

# Controls are identified by their position and their data attributes, which stay while numbers change.
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
    expected = dict(
        dot=a @ b, lengthA=a.norm(), lengthB=b.norm(), products=a * b, cosine=F.cosine_similarity(a, b, dim=0)
    )
    return {name: (computed[name], value.numpy()) for name, value in expected.items()}


def reference_softmax(state, computed):
    logits = torch.tensor(state["scores"], dtype=torch.float64) / state["temperature"]
    entropy = torch.distributions.Categorical(logits=logits).entropy().item()
    return dict(
        weights=(computed["weights"], logits.softmax(0).numpy()),
        entropy=(computed["entropyNats"], entropy),
        bits=(computed["entropyBits"], entropy / np.log(2)),
        choices=(computed["choices"], np.exp(entropy)),
    )


def attention(state):
    q, k, v = (torch.tensor(state[name], dtype=torch.float64) for name in "QKV")
    scores = q @ k.mT
    scaled = scores / q.shape[-1] ** 0.5
    powers = (scaled - scaled.amax(-1, keepdim=True)).exp()
    return dict(
        scores=scores,
        scaled=scaled,
        exponentials=powers,
        weights=scaled.softmax(-1),
        output=F.scaled_dot_product_attention(q, k, v),
    )


def reference_attention_stepper(state, computed):
    return {name: (computed[name], value.numpy()) for name, value in attention(state).items()}


def maps(state):
    kind = "<f2" if state["dtype"] == "float16" else "<f4"
    return np.frombuffer(base64.b64decode(state["data"]), dtype=kind).reshape(state["shape"]).astype(float)


def reference_attention_heatmap(state, computed):
    weights = maps(state)[state["layer"], state["head"]]
    return dict(
        weights=(computed["weights"], weights),
        sums=(computed["sums"], weights.sum(-1)),
        row=(computed["row"], weights[state["query"]]),
    )


def reference_head_viewer(state, computed):
    weights = maps(state)[state["head"]]
    n, query = len(weights), state["query"]
    lines = sorted(weights[(weights > 0) & (weights >= state["threshold"])])
    expected = dict(weights=weights, sums=weights.sum(-1), row=weights[query] if query >= 0 else [])
    if n > 1:
        later = np.arange(1, n)
        habits = [weights[later, 0], weights[later, later - 1], weights[later, later]]
        computed["means"] = [computed["habits"][name] for name in ("first", "previous", "self")]
        expected["means"] = np.mean(habits, axis=1)
    computed["drawn"], expected["drawn"] = [weight for *_, weight in computed["lines"]], lines
    return {name: (computed[name], value) for name, value in expected.items()}


def alignment(state):
    settings, weights, values = (
        torch.tensor(state[name], dtype=torch.float64) for name in ("settings", "weights", "values")
    )
    shares, recorded = F.normalize(settings, p=1, dim=-1), F.normalize(weights, p=1, dim=-1)
    return dict(shares=shares, context=shares[state["query"]] @ values, recorded=recorded[state["query"]] @ values)


def reference_alignment_viewer(state, computed):
    return {name: (computed[name], value.numpy()) for name, value in alignment(state).items()}


def masked_weights(state):
    """Softmax over the allowed keys; a masked score becomes the fill, and a row of minus infinities weights of 0."""
    mask = torch.tensor(state["mask"])
    scores = torch.tensor(state["scores"], dtype=torch.float64).masked_fill(~mask, float(state["fill"]))
    return scores.softmax(-1).nan_to_num(0.0).numpy()


def reference_mask_painter(state, computed):
    weights, mask = masked_weights(state), np.array(state["mask"])
    return dict(
        weights=(computed["weights"], weights),
        sums=(computed["sums"], weights.sum(-1)),
        count=(computed["count"], mask.sum()),
        future=(computed["leak"]["cells"], np.triu(mask, 1).sum()),
        largest=(computed["leak"]["largest"], np.triu(weights, 1).max()),
    )


def sinusoids(state, positions):
    """The encoding of these positions: sine in even columns, cosine in odd ones."""
    column = np.arange(state["d_model"])
    angles = np.asarray(positions)[:, None] / 10000 ** ((column - column % 2) / state["d_model"])
    return np.where(column % 2, np.cos(angles), np.sin(angles))


def reference_sinusoid_explorer(state, computed):
    offsets = np.arange(-state["max_len"], state["max_len"] + 1)
    here, there = sinusoids(state, [state["position"], state["position"] + state["offset"]])
    return dict(
        encoding=(computed["encoding"], sinusoids(state, range(state["max_len"]))),
        curve=(computed["curve"], sinusoids(state, state["position"] + offsets) @ here),
        dot=(computed["dot"], here @ there),
    )


def turned(state, position):
    """Ones and then zeros, the pairs (i, i + d_head / 2) taken as complex numbers and turned by the position."""
    speeds = state["base"] ** (-torch.arange(0, state["d_head"], 2, dtype=torch.float64) / state["d_head"])
    pairs = torch.polar(torch.ones_like(speeds), position * speeds)
    return torch.cat([pairs.real, pairs.imag])


def reference_rotation_explorer(state, computed):
    q, k = (turned(state, state[name]) for name in ("query", "key"))
    curve = [turned(state, state["key"] + offset) @ k for offset in computed["offsets"]]
    return dict(
        query=(computed["rotated"]["query"], q.numpy()),
        key=(computed["rotated"]["key"], k.numpy()),
        score=(computed["score"], (q @ k).item()),
        moved=(computed["further"]["score"], (q @ k).item()),
        shares=(computed["shares"], (q * k).reshape(2, -1).sum(0).numpy()),
        curve=(computed["curve"], curve),
    )


def transformer_block(state):
    """The real block of this kind and size, and what it gives for its inputs, in shape."""
    widths = state["d_model"], state["n_heads"]
    with torch.device("meta"):  # shapes without numbers, however large
        block = (
            LlamaBlock(*widths, state["n_kv_heads"], state["d_ff"])
            if state["kind"] == "llama"
            else {"encoder": EncoderBlock, "decoder": DecoderBlock}[state["kind"]](*widths, state["d_ff"])
        )
    tokens = [state["n"], state["n_memory"]] if state["kind"] == "decoder" else [state["n"]]
    with torch.no_grad():
        out = block(*(torch.empty(state["batch"], n, state["d_model"], device="meta") for n in tokens))
    return block, out.shape


def reference_block_stepper(state, computed):
    block, out = transformer_block(state)
    counts = [sum(parameter.numel() for parameter in part.parameters()) for part in block.children()]
    return dict(
        parameters=([part["parameters"] for part in computed["parts"]], counts),
        total=(computed["total"], sum(counts)),
        out=(computed["nodes"][-1]["out"][0]["shape"], out),
    )


def sampled(state):
    """(before, kept), the most likely token first: the temperature, the k largest, as many of them as reach p."""
    logits = torch.tensor(np.frombuffer(base64.b64decode(state["data"]), dtype="<f4").astype(float))
    if state["temperature"] == 0:
        return (F.one_hot(logits.argmax(), len(logits)).double(),) * 2
    before = (logits / state["temperature"]).softmax(0)
    k = min(state["top_k"] or len(logits), len(logits))
    left = before[:k] / before[:k].sum()
    size = k if state["top_p"] == 1 else min(k, 1 + int((left.cumsum(0) < state["top_p"]).sum()))
    kept = torch.where(torch.arange(len(logits)) < size, before, 0.0)
    return before, kept / kept.sum()


def reference_sampling_explorer(state, computed):
    before, kept = sampled(state)
    count = computed["count"]
    nats = torch.special.entr(kept).sum().item()
    return dict(
        before=(computed["before"], before.numpy()),
        kept=(computed["kept"], kept[:count].numpy()),
        rest=(0.0, kept[count:].sum().item()),
        mass=(computed["mass"], before[:count].sum().item()),
        entropy=(computed["entropy"], nats),
    )


def decoding(state):
    """Each pass with a cache and without, by writing the continuation: tokens read, keys, multiply-adds; bytes held."""
    width, layers = state["d_model"], state["n_layers"]
    heads = dict(mha=state["n_heads"], gqa=state["n_kv_heads"], mqa=1).get(state["scheme"])
    p, written = len(state["prompt"]), len(state["continuation"])
    sides = {}
    for side in ("cached", "full"):
        keys = p + np.arange(written)
        tokens = np.where(np.arange(written), 1, p) if side == "cached" else keys
        # Each projection as the matrix it is: W_q and W_o, W_k and W_v.
        entries = (
            sum(np.zeros((width, columns * state["d_head"])).size for columns in [state["n_heads"]] * 2 + [heads] * 2)
            if heads
            else np.nan
        )
        projections, scores = tokens * entries, 2 * tokens * keys * width * (1 if heads else np.nan)
        sides[side] = dict(
            tokens=tokens,
            rows_so_far=tokens.cumsum(),
            projections=projections,
            attention=scores,
            total=layers * (projections + scores),
            so_far=(layers * (projections + scores)).cumsum(),
        )
    kept = dict(
        mha=2 * width,
        gqa=2 * width * state["n_kv_heads"] // state["n_heads"],
        mqa=2 * state["d_head"],
        mla=state["latent"] + state["rope"],
    )
    held = {name: numbers * layers * state["bytes_per_element"] * (p + state["step"]) for name, numbers in kept.items()}
    return sides, held


def reference_decode_stepper(state, computed):
    sides, held = decoding(state)
    pairs = {f"held by {name}": (computed["held_bytes"][name], value) for name, value in held.items()}
    for side, counts in sides.items():
        for name, values in counts.items():
            got = np.array([one[side][name] for one in computed["passes"]], dtype=float)
            pairs[f"{side}: {name}"] = (got, values)
    return pairs


def caches(state):
    """Bytes of the cache of each model, and of one with keys and values for every head and token."""
    settings = state["batch"] * state["bytes_per_element"]
    own, plain = [], []
    for model in state["presets"]:
        row = model["latent"] + model["rope"] or 2 * model["n_kv_heads"] * model["d_head"]
        tokens = min(state["context"], model["window"] or np.inf)
        own.append(settings * model["n_layers"] * row * tokens)
        plain.append(settings * model["n_layers"] * 2 * model["n_heads"] * model["d_head"] * state["context"])
    return np.array(own, dtype=float), np.array(plain, dtype=float)


def reference_cache_calculator(state, computed):
    own, plain = caches(state)
    models = computed["models"]
    return dict(
        own=([one["bytes"] for one in models], own),
        plain=([one["mha"]["bytes"] for one in models], plain),
        gb=([one["gb"] for one in models], own / 1e9),
        gib=([one["gib"] for one in models], own / 2**30),
        chosen=(models[computed["chosen"]]["name"] == state["preset"], True),
    )


# Every control


def tiled(state):
    """The output of each query of a tile stepper."""
    scores = torch.tensor(state["scores"], dtype=torch.float64)
    n_k = scores.shape[1]
    # Keys that are the identity: the scaled scores are the numbers in the queries, and scores count powers of two.
    return tiled_attention(
        scores * np.log(2) * n_k**0.5,
        torch.eye(n_k, dtype=torch.float64),
        torch.tensor(state["values"], dtype=torch.float64),
        state["block_size"],
        state["causal"],
    )


def reference_tile_stepper(state, computed):
    return {"outputs": (computed["outputs"], tiled(state))}


def play_dot_product(page, root, state):
    fields = [root.locator(f"[data-field={name}]") for name in ("a1", "a2", "b1", "b2")]
    press = lambda name: root.get_by_role("button", name=name, exact=True).press("Enter")  # noqa: E731

    def arrows():
        a1, a2, b1, b2 = (number(field.input_value()) for field in fields)
        a, b = np.array([a1, a2]), np.array([b1, b2])
        texts = [root.locator(f"[data-value={name}]").inner_text() for name in ("dot", "product-1", "product-2")]
        shown(texts, [a @ b, a1 * b1, a2 * b2])
        shown([root.locator("[data-value=headline]").inner_text().removeprefix("a·b = ")], [a @ b])
        shown(
            [root.locator(f"[data-value=length-{name}]").inner_text() for name in "ab"],
            [np.linalg.norm(a), np.linalg.norm(b)],
        )
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
    for name, b in [
        ("Same direction", [1, 0.5]),
        ("Perpendicular", [-1, 2]),
        ("Opposite", [-2, -1]),
        ("b twice as long", [-4, -2]),
    ]:
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
        assert settings()[0] == scores[:i] + scores[i + 1 :]
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
        assert all(
            text == "<.01" and 0 < w < 0.005 or text != "<.01" and agrees(text, w)
            for text, w in zip(texts, table.ravel(), strict=True)
        )
        bars = root.locator(".hm-value").all_inner_texts()
        assert all(
            text == "<.001" and 0 < w < 0.0005 or text != "<.001" and agrees(text, w)
            for text, w in zip(bars, table[query], strict=True)
        )

    layer, head, query = state["layer"], state["head"], state["query"]
    right(layer, head, query)
    root.locator(".hm-cell[tabindex='0']").click()  # the only tab stop is in the selected row
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


def play_head_viewer(page, root, state):
    weights = maps(state)
    heads, n, _ = weights.shape

    def right(head, query):
        """Lines, numbers and map are those of this head and, unless it is -1, of this query."""
        table, least = weights[head], max(state["threshold"], 1e-12)
        row = table[query] if query >= 0 else np.zeros(n)
        texts = root.locator(".hv-number").all_inner_texts()
        assert all(
            text == "" if w == 0 else 0 < w < 0.005 if text == "<.01" else agrees(text, w)
            for text, w in zip(texts, row, strict=True)
        ), (texts, row)
        assert root.locator(".hv-mine").count() == ((row if query >= 0 else table) >= least).sum()
        assert root.locator(".hv-line").count() == (table >= least).sum()
        texts = root.locator(".hv-cell").all_inner_texts()
        assert all(w < 0.005 if text == "" else agrees(text, w) for text, w in zip(texts, table.ravel(), strict=True))

    token = lambda i: root.locator(f"[data-query='query-{i}']")  # noqa: E731
    head, query = state["head"], state["query"]
    right(head, query)
    for m in range(heads) if heads > 1 else ():
        root.locator(f"[data-head='head-{m}']").check()
        right(m, query)
        head = m
    if heads > 1:
        root.locator(f"[data-head='head-{heads - 1}']").press("ArrowRight")
        head = 0
        right(head, query)
    for i in range(n):
        before = token(i).get_attribute("aria-pressed") == "true"
        token(i).click()
        right(head, i)  # pressed or let go, the pointer is still on it
        assert token(i).get_attribute("aria-pressed") == str(not before).lower()
    token(n - 1).press("Home")
    right(head, 0)
    if token(0).get_attribute("aria-pressed") == "false":
        page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    right(head, min(1, n - 1))  # looked at, while the first stays pinned
    root.locator(f"[data-cell='{n - 1}-0']").hover()
    assert str(root.locator(".hv-read").inner_text()).strip()
    right(head, n - 1)
    page.mouse.move(0, 0)
    everything = root.locator("[data-go=all]")
    everything.press("Enter")
    right(head, -1)
    assert everything.get_attribute("aria-pressed") == "true"


def play_alignment_viewer(page, root, state):
    state = {name: state[name] for name in ("weights", "values", "settings", "query", "source", "target")}
    press = lambda name: root.locator(f"[data-go={name}]").press("Enter")  # noqa: E731

    def right():
        expected, query = alignment(state), state["query"]
        shares = expected["shares"].numpy()
        texts = root.locator(".al-share").all_inner_texts()
        assert all(
            0 < w < 0.005 if text == "<.01" else agrees(text, w) for text, w in zip(texts, shares[query], strict=True)
        ), (texts, shares[query])
        texts = root.locator(".al-cell").all_inner_texts()
        assert all(w < 0.005 if text == "" else agrees(text, w) for text, w in zip(texts, shares.ravel(), strict=True))
        for name in ("recorded", "context"):
            shown(root.locator(f"[data-value^={name}]").all_inner_texts(), expected[name])
        shown(root.locator("[data-value^=change]").all_inner_texts(), expected["context"] - expected["recorded"])

    def put(row):
        state["settings"] = [row if i == state["query"] else list(one) for i, one in enumerate(state["settings"])]
        right()

    n = len(state["source"])
    right()
    for i in range(len(state["target"])):
        root.locator(f"[data-target='target-{i}']").check()
        state["query"] = i
        right()
    largest = int(np.argmax(state["settings"][-1]))
    press("hard")
    put([float(j == largest) for j in range(n)])
    press("even")
    put([1 / n] * n)
    for j in range(n):
        root.locator(f"[data-slider='slider-{j}']").fill("0.4")
        put([0.4] * (j + 1) + [1 / n] * (n - j - 1))
    root.locator(f"[data-slider='slider-{n - 1}']").press("ArrowLeft")
    put([0.4] * (n - 1) + [0.39])
    for j in range(n):
        root.locator(f"[data-slider='slider-{j}']").press("Home")
        put([0.0] * (j + 1) + state["settings"][-1][j + 1 :])
    assert "nothing to share out" in root.inner_text()
    press("reset")
    put(list(state["weights"][-1]))


def play_mask_painter(page, root, state):
    state = {name: state[name] for name in ("tokens", "scores", "mask", "preset", "length", "window", "fill")}
    first = dict(state, mask=[list(row) for row in state["mask"]])
    n = len(state["tokens"])
    back = np.arange(n)[:, None] - np.arange(n)
    text = lambda name: root.locator(f"[data-value={name}]").inner_text()  # noqa: E731
    go = lambda name: root.locator(f"[data-go={name}]")  # noqa: E731
    slider = lambda name: root.locator(f"[data-slider={name}]")  # noqa: E731
    cell = lambda i, j: root.locator(f"[data-cell='{i}-{j}']")  # noqa: E731

    def right():
        mask, weights = np.array(state["mask"]), masked_weights(state)
        assert text("count") == f"{mask.sum()} of {n * n} cells allowed"
        for (i, j), weight in np.ndenumerate(weights):
            seen = cell(i, j).text_content()
            assert seen == "" and weight == 0 or seen == ">0" and 0 < weight < 0.005 or agrees(seen, weight)
        assert root.locator("[data-sum]").all_inner_texts() == [str(int(total)) for total in weights.sum(1).round()]
        assert text("leak-cells") == f"{np.triu(mask, 1).sum()} of {n * (n - 1) // 2}"
        assert np.isclose(number(text("leak-largest")), np.triu(weights, 1).max(), rtol=0.06, atol=0.0051)
        notes = root.locator("[data-note]").all_inner_texts()
        assert [bool(note) for note in notes] == (weights.sum(1) == 0).tolist()

    right()
    for name, mask in [
        ("causal", back >= 0),
        ("full", back == back),
        ("window", (back >= 0) & (back < state["window"])),
        ("padding", np.arange(n) + 0 * back < state["length"]),
    ]:
        go(name).press("Enter")
        state["mask"] = mask.tolist()
        right()
        assert go(name).get_attribute("aria-pressed") == "true"
    slider("length").press("Home")
    state["mask"] = np.zeros((n, n), dtype=bool).tolist()
    for fill in ("-10", "-1e9", "-inf"):
        go("fill").select_option(fill)
        state["fill"] = fill
        right()
    slider("window").press("Home")
    state["mask"] = np.eye(n, dtype=bool).tolist()
    right()
    go("flip").press("Enter")
    state["mask"] = (~np.eye(n, dtype=bool)).tolist()
    right()
    go("clear").press("Enter")
    state["mask"] = np.zeros((n, n), dtype=bool).tolist()
    right()
    # By hand: a click, a drag, the keyboard.
    cell(1, 1).click()
    state["mask"][1][1] = True
    right()
    (x0, y), (x1, _) = (
        [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        for box in (cell(0, 0).bounding_box(), cell(0, n - 1).bounding_box())
    )
    page.mouse.move(x0, y)
    page.mouse.down()
    page.mouse.move(x1, y, steps=3)
    page.mouse.up()
    state["mask"][0] = [True] * n
    right()
    root.locator(".mp-cell[tabindex='0']").press("Control+End")
    page.keyboard.press("Space")
    page.keyboard.press("Shift+ArrowUp")
    state["mask"][n - 1][n - 1] = state["mask"][n - 2][n - 1] = True
    right()
    go("reset").press("Enter")
    state.update(first)
    right()


def play_sinusoid_explorer(page, root, state):
    state = {name: state[name] for name in ("max_len", "d_model", "position", "pair", "offset")}
    first = dict(state)
    text = lambda name: root.locator(f"[data-value={name}]").inner_text()  # noqa: E731
    field = lambda name: root.locator(f"[data-field={name}]")  # noqa: E731
    slider = lambda name: root.locator(f"[data-slider={name}]")  # noqa: E731
    width = root.locator("[data-go=d_model]")

    def right(**changes):
        state.update(changes)
        places = [state["position"], state["position"] + state["offset"]]
        here, there = sinusoids(state, places)
        label, _, dot = text("dot").rpartition(" = ")
        assert label.replace("−", "-") == f"PE[{places[0]}] · PE[{places[1]}]"
        shown([dot], [here @ there])
        columns = slice(2 * state["pair"], 2 * state["pair"] + 2)
        for hand, row in (("hand", here), ("other", there)):
            shown([text(f"{hand}-sine"), text(f"{hand}-cosine")], row[columns])
        frequency = 10000 ** (-2 * state["pair"] / state["d_model"])
        shown([text("hand-angle"), text("wavelength").split()[0]], [places[0] * frequency, 2 * np.pi / frequency])
        for name in ("position", "pair", "offset"):
            assert number(field(name).input_value()) == number(slider(name).input_value()) == state[name]

    right()
    field("position").fill("3")
    right(position=3)
    slider("position").press("End")
    right(position=state["max_len"] - 1)
    field("pair").fill("0")
    right(pair=0)
    slider("pair").press("End")
    right(pair=state["d_model"] // 2 - 1)
    for k in (0, -5, 7):
        field("offset").fill(str(k))
        dot = text("dot").rpartition(" = ")[2]
        right(offset=k)
        slider("position").press("Home")
        right(position=0)
        assert text("dot").rpartition(" = ")[2] == dot  # it depends on the offset alone
        slider("position").press("End")
        right(position=state["max_len"] - 1)
    slider("offset").press("Home")
    right(offset=-state["max_len"])
    width.select_option("4")
    right(d_model=4, pair=1)
    canvas = root.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + 2)
    right(position=0, pair=0)
    root.locator("[data-go=reset]").press("Enter")
    right(**first)


def play_rotation_explorer(page, root, state):
    state = {name: state[name] for name in ("d_head", "base", "query", "key", "pair", "trained")}
    first, last, half = dict(state), 2 * state["trained"] - 1, state["d_head"] // 2
    text = lambda name: root.locator(f"[data-value={name}]").inner_text()  # noqa: E731
    field = lambda name: root.locator(f"[data-field={name}]")  # noqa: E731
    slider = lambda name: root.locator(f"[data-slider={name}]")  # noqa: E731

    def right(**changes):
        state.update(changes)
        q, k = turned(state, state["query"]), turned(state, state["key"])
        score, offset = text("score").removeprefix("score = ").split(" at offset ")
        shown([score, offset, text("sum")], [q @ k, state["query"] - state["key"], q @ k])
        pair = state["pair"]
        speed = state["base"] ** (-2 * pair / state["d_head"])
        assert text("numbers") == f"x[{pair}] and x[{pair + half}]"
        shown(
            [text(f"{name}-{pair}") for name in ("query", "key", "between", "share")],
            [
                *(speed * n for n in (state["query"], state["key"], state["query"] - state["key"])),
                q[pair] * k[pair] + q[pair + half] * k[pair + half],
            ],
        )
        shown([text(f"wavelength-{pair}")], [2 * np.pi / speed])
        for name in ("query", "key", "pair"):
            assert number(field(name).input_value()) == number(slider(name).input_value()) == state[name]
        earlier = min(state["query"], state["key"])
        assert number(field("both").input_value()) == number(slider("both").input_value()) == earlier

    right()
    field("query").fill("4")
    right(query=4)
    field("key").fill("1")
    right(key=1)
    # Both together: from one end to the other the score stays.
    score = text("score")
    slider("both").press("End")
    right(query=last, key=last - 3)
    field("both").fill("2")
    right(query=5, key=2)
    assert text("score") == score
    slider("query").press("Home")  # now the key comes later
    right(query=0)
    slider("both").press("ArrowRight")
    right(query=1, key=3)
    slider("key").press("Home")
    right(key=0)
    slider("query").press("End")
    right(query=last)
    for pair in range(half):
        field("pair").fill(str(pair))
        right(pair=pair)
    slider("pair").press("Home")
    right(pair=0)
    field("base").fill("500000")
    right(base=500000)
    slider("base").press("Home")
    right(base=2)
    slider("pair").press("End")
    right(pair=half - 1)
    root.locator("[data-go=reset]").press("Enter")
    right(**first)


def play_block_stepper(page, root, state):
    go = lambda name: root.locator(f"[data-go={name}]")  # noqa: E731
    nodes, lines = root.locator("[data-node]"), root.locator("[data-line]")

    def at(step):
        """This step is shown: in the diagram, among the code, and in the words above."""
        when, text, marked = root.evaluate("""(root) => {
          const all = (where, f) => [...root.querySelectorAll(where)].map(f);
          return [all("[data-node]", (node) => node.dataset.now), root.querySelector(".bs-line").textContent,
            all("[data-line][aria-current]", (line) => line.textContent)];
        }""")
        assert when == ["done"] * step + ["now"] + ["later"] * (len(when) - step - 1)
        assert [text] == marked

    at(state["step"])
    for kind in sorted(("encoder", "decoder", "llama"), key=lambda kind: kind == state["kind"]):
        root.locator(f"[data-kind={kind}]").press("Enter")
        block, out = transformer_block({**state, "kind": kind})
        last = nodes.count() - 1
        at(0)
        for name, part in block.named_children():
            count = root.locator(f"[data-value='parameters-{name}']").inner_text().replace(",", "")
            assert int(count) == sum(parameter.numel() for parameter in part.parameters())
        for step in range(1, last + 1):
            go("step").press("Enter")
            at(step)
        assert root.locator("[data-shape]").last.text_content() == f"x {tuple(out)}"
        go("back").press("Enter")
        at(last - 1)
        go("start").press("Enter")
        at(0)
        go("end").press("Enter")
        at(last)
    # The block that the page began with.
    for i in range(lines.count()):
        lines.nth(i).click()
        assert lines.nth(i).get_attribute("aria-current") == "step"
    for step in range(nodes.count()):
        nodes.nth(step).click()
        at(step)
    page.keyboard.press("Home")
    at(0)
    page.keyboard.press("ArrowDown")
    at(1)


def play_sampling_explorer(page, root, state):
    state = {name: state[name] for name in ("data", "temperature", "top_k", "top_p", "seed", "drawn")}
    first = dict(state, drawn=0)
    text = lambda name: root.locator(f"[data-value={name}]").inner_text()  # noqa: E731
    field = lambda name: root.locator(f"[data-field={name}]")  # noqa: E731
    slider = lambda name: root.locator(f"[data-slider={name}]")  # noqa: E731
    press = lambda name: root.locator(f"[data-go={name}]").press("Enter")  # noqa: E731
    whole = lambda seen: int(seen.replace(",", ""))  # noqa: E731

    def right(**changes):
        """Rows, sums and tally are those of the state; a change of a setting clears the tally."""
        state.update({"drawn": 0, **changes})
        before, kept = sampled(state)
        cells = root.locator(".sa-table tbody td.aw-numbers").all_inner_texts()
        rows = [cells[at : at + 3] for at in range(0, len(cells), 3)]
        single = min(len(before), 12)
        parts = [slice(i, i + 1) for i in range(single)] + [slice(single, None)][: len(rows) - single]
        for (softmax, left, _), part in zip(rows, parts, strict=True):
            for seen, p in ((softmax, before[part].sum()), (left, kept[part].sum())):
                cut = seen in ("greedy", "top-k", "top-p")
                assert p == 0 if cut else p < 0.0005 if seen == "<.001" else agrees(seen, p), (rows, before, kept)
        count = int((kept > 0).sum())
        assert whole(text("tokens-after")) == count
        nats = [torch.special.entr(shares).sum() for shares in (before, kept)]
        shown([text("mass-after"), text("nats-before"), text("nats-after")], [before[:count].sum(), *nats])
        drawn = [whole(tally) if tally else 0 for *_, tally in rows]
        assert sum(drawn) == state["drawn"]
        if state["drawn"] >= 1000:  # five standard deviations
            expected = np.array([float(kept[part].sum()) for part in parts])
            error = np.abs(np.array(drawn) / state["drawn"] - expected)
            assert (error <= 5 * np.sqrt(expected * (1 - expected) / state["drawn"]) + 1e-9).all()
        if state["top_k"] is not None:
            assert whole(field("top_k").input_value()) == min(state["top_k"], len(before))

    right(drawn=state["drawn"])
    press("reset")
    right(**first)
    field("temperature").fill("0.7")
    right(temperature=0.7)
    slider("temperature").press("Home")
    right(temperature=0)
    press("one")
    assert text("text").endswith(root.locator(".sa-text mark").inner_text())
    right(drawn=1)
    slider("temperature").press("End")
    right(temperature=5)
    field("top_k").fill("4")
    right(top_k=4)
    slider("top_k").press("ArrowLeft")
    right(top_k=3)
    field("top_p").fill("0.55")
    right(top_p=0.55)
    slider("top_p").press("End")
    right(top_p=1)
    slider("top_k").press("End")
    right(top_k=None)
    field("temperature").fill("1")
    right(temperature=1)
    for _ in range(10):
        press("hundred")
    right(drawn=1000)
    tally = root.locator(".sa-table").inner_text()
    field("seed").fill("77")
    right(seed=77)
    field("seed").fill(str(first["seed"]))
    for _ in range(10):
        press("hundred")
    right(seed=first["seed"], drawn=1000)
    assert root.locator(".sa-table").inner_text() == tally
    press("clear")
    right()
    press("reset")
    right(**first)


def play_decode_stepper(page, root, state):
    first = {name: state[name] for name in ("scheme", "step")}
    text = lambda name: root.locator(f"[data-value='{name}']").inner_text()  # noqa: E731
    press = lambda name: root.locator(f"[data-go={name}]").press("Enter")  # noqa: E731
    scales = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
    p, last = len(state["prompt"]), len(state["continuation"]) - 1

    def counted(shown_text, expected):
        figure, _, unit = shown_text.replace(",", "").partition(" ")
        assert agrees(figure, expected / scales.get(unit, 1)), (shown_text, expected)

    def right(**changes):
        state.update(changes)
        sides, held = decoding(state)
        step = state["step"]
        assert text("title").startswith(f"Pass {step + 1} of {last + 1} reads")
        for side, counts in sides.items():
            words = root.locator(f"[data-side={side}] [data-word]").all_inner_texts()
            old = {"cached": "read", "full": "again"}[side]
            known = ["new"] * p if step == 0 else [old] * (p + step - 1) + ["new"]
            assert words == [*known, "next", *[""] * (last - step)]
            assert text(f"note-{side}").replace("tokens", "token") == (
                f"{counts['tokens'][step]} token processed, {counts['rows_so_far'][step]} so far"
            )
            for name in ("projections", "attention", "total", "so_far"):
                if state["scheme"] == "mla":
                    assert text(f"{name}-{side}") == "not counted"
                else:
                    counted(text(f"{name}-{side}"), counts[name][step])
                    ratio = sides["full"][name][step] / sides["cached"][name][step]
                    shown([text(f"{name}-ratio")], [ratio])
        assert text("held-cached") == f"{held[state['scheme']]:,} bytes held"
        assert [text(f"held-{name}") for name in held] == [f"{size:,} bytes" for size in held.values()]

    right()
    for scheme in ("mha", "gqa", "mqa", "mla", "gqa"):
        root.locator(f"[data-scheme={scheme}]").press("Enter")
        right(scheme=scheme)
        assert root.locator("[data-scheme][aria-pressed=true]").get_attribute("data-scheme") == scheme
    for step in range(state["step"] + 1, last + 1):
        press("next")
        right(step=step)
    press("next")  # there is no pass after the last
    right()
    for step in reversed(range(last)):
        press("back")
        right(step=step)
    press("reset")
    right(**first)


def play_cache_calculator(page, root, state):
    first = {name: state[name] for name in ("preset", "context", "batch", "bytes_per_element")}
    text = lambda name: root.locator(f"[data-value='{name}']").inner_text()  # noqa: E731
    field = lambda name: root.locator(f"[data-field={name}]")  # noqa: E731
    slider = lambda name: root.locator(f"[data-slider={name}]")  # noqa: E731
    three = lambda got, expected: np.isclose(number(got.replace(",", "")), expected, rtol=0.0051)  # noqa: E731

    def right(**changes):
        state.update(changes)
        own, plain = caches(state)
        at = [model["name"] for model in state["presets"]].index(state["preset"])
        sizes = root.locator("[data-size]").all_inner_texts()
        assert len(sizes) == len(own) and all(map(three, [size.removesuffix(" GB") for size in sizes], own / 1e9))
        assert text("headline").startswith(state["preset"] + ": ")
        assert text("formula").endswith(f"= {int(own[at]):,} bytes")
        for name, unit in (("gb", 1e9), ("gib", 2**30)):
            assert three(text(f"{name}-own"), own[at] / unit) and three(text(f"{name}-mha"), plain[at] / unit)
            shown([text(f"{name}-ratio")], [plain[at] / own[at]])
        assert root.locator("[data-model][aria-pressed=true]").get_attribute("data-model") == state["preset"]
        for name in ("context", "batch"):
            assert number(field(name).input_value()) == state[name]

    right()
    for model in state["presets"]:
        root.locator(f"[data-model='{model['name']}']").press("Enter")
        right(preset=model["name"])
    for width in (1, 4, 2):
        root.locator(f"[data-bytes='{width}']").press("Enter")
        right(bytes_per_element=width)
    for name, most in (("context", 2**19), ("batch", 512)):
        field(name).fill("96")
        right(**{name: 96})
        slider(name).press("End")
        right(**{name: most})
        slider(name).press("ArrowLeft")
        right(**{name: most // 2})
        field(name).press("ArrowDown")
        right(**{name: most // 2 - 1})
    root.locator("[data-go=reset]").press("Enter")
    right(**first)


def play_tile_stepper(page, root, state):
    state = {name: state[name] for name in ("scores", "values", "block_size", "causal", "step")}
    first, n_k = dict(state), len(state["scores"][0])
    press = lambda name: root.locator(f"[data-go={name}]").press("Enter")  # noqa: E731
    text = lambda name: root.locator(f"[data-value={name}]").inner_text()  # noqa: E731
    count = lambda: int(text("title").split(" of ")[1].split(".")[0])  # noqa: E731

    def after(number, steps):
        """Running maxima and totals of the block that is shown are those of the stream so far."""
        assert text("title").startswith(f"Step {number} of {steps}.")
        queries = [int(card.get_attribute("data-query")) for card in root.locator("[data-query]").all()]
        here = root.locator("[data-when=here], [data-when=hidden]").all()
        for query in queries if here else []:
            last = max(int(cell.get_attribute("data-cell").split("-")[1]) for cell in here)
            row = np.array(state["scores"][query][: last + 1])
            if state["causal"]:
                row = row[: query + n_k - len(state["scores"]) + 1]
            maximum, total = online_softmax([torch.tensor(row * np.log(2))])
            shown(
                [text(f"maximum-{query}").split("→")[-1].split()[0], text(f"total-{query}").split("=")[-1]],
                [maximum / np.log(2), total],
            )

    def through():
        steps = count()
        for number in range(1, steps + 1):
            after(number, steps)
            press("next")
        for query, output in enumerate(tiled(state)):
            shown(text(f"output-{query}").strip("()").split(","), output)

    through()
    for size in [int(choose.get_attribute("data-size")) for choose in root.locator("[data-size]").all()]:
        root.locator(f"[data-size='{size}']").press("Enter")
        state["block_size"] = size
        through()
    root.locator("[data-causal]").press("Enter")
    state["causal"] = not state["causal"]
    through()
    press("back")
    assert text("title").startswith(f"Step {count() - 1} of")
    press("play")
    assert root.locator("[data-go=play]").inner_text() == "Pause"
    press("play")
    press("reset")
    state.update(first)
    after(first["step"] + 1, count())


PLAYS = {name.removeprefix("play_"): play for name, play in list(globals().items()) if name.startswith("play_")}
REFERENCES = {
    name.removeprefix("reference_"): reference
    for name, reference in list(globals().items())
    if name.startswith("reference_")
}
