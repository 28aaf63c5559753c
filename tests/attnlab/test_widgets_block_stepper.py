"""The block stepper: its shapes and parameters are those of the real blocks, and every control does what it says."""

from __future__ import annotations

import math

import pytest
import torch
import traitlets
from torch.overrides import TorchFunctionMode

from attnlab.widgets.block_stepper import STEPS, BlockStepper
from solutions.transformer_block import DecoderBlock, EncoderBlock, LlamaBlock
from tests.attnlab.widget_page import evaluate_compute, faint_texts, load_widget, said, scrolls_sideways, small_targets
from tests.conftest import Watched

KINDS = list(STEPS)
SMALL = dict(batch=2, n=3, n_memory=5, d_model=4, n_heads=2, n_kv_heads=1, d_ff=8)
SIZES = [
    SMALL,
    dict(batch=3, n=5, n_memory=7, d_model=24, n_heads=6, n_kv_heads=2, d_ff=11),
    dict(batch=1, n=1, n_memory=1, d_model=8, n_heads=4, n_kv_heads=4, d_ff=1),
]


def press(page, name):
    # Forced, since Playwright waits for what is aria-disabled; such a button keeps the focus and does nothing.
    page.get_by_role("button", name=name, exact=True).click(force=True)


def node(page, name):
    return page.locator(f"[data-node='{name}']")


def line(page, i):
    return page.locator(f"[data-line=line-{i}]")


def step(page):
    return page.evaluate("model.get('step')")


def shape(page, name):
    return page.locator(f"[data-shape='{name}']").text_content()


@pytest.fixture(scope="module")
def flow(browser):
    """`flow(kind, sizes)`: what the module computes, all on one page."""
    context = browser.new_context()
    seen = load_widget(lambda **_: Watched(context.new_page()), BlockStepper())
    yield lambda kind, sizes=SMALL, **more: evaluate_compute(seen, {"kind": kind, **sizes, **more})
    seen.assert_clean()
    context.close()


def real_block(kind, sizes):
    widths = sizes["d_model"], sizes["n_heads"]
    if kind == "llama":
        return LlamaBlock(*widths, sizes["n_kv_heads"], sizes["d_ff"])
    return (EncoderBlock if kind == "encoder" else DecoderBlock)(*widths, sizes["d_ff"])


class Recorded(TorchFunctionMode):
    """Shapes of what the softmaxes, and the products with their weights, give."""

    def __init__(self):
        super().__init__()
        self.weights, self.mixed = [], []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        if name == "softmax":
            self.weights.append(list(out.shape))
        if name in ("matmul", "__matmul__") and self.weights and list(args[0].shape) == self.weights[-1]:
            self.mixed.append(list(out.shape))
        return out


def watch(kind, sizes):
    """Shapes that the real block gives: module -> shape of its output, and of weights and mixed values."""
    block, shapes = real_block(kind, sizes), {}
    for name, part in block.named_modules():
        part.register_forward_hook(
            lambda _, __, out, name=name: shapes.update({name: list((out[0] if isinstance(out, tuple) else out).shape)})
        )
    inputs = [torch.ones(sizes["batch"], sizes["n"], sizes["d_model"])]
    if kind == "decoder":
        inputs.append(torch.ones(sizes["batch"], sizes["n_memory"], sizes["d_model"]))
    with Recorded() as seen:
        block(*inputs)
    return shapes, seen


# What it computes


@pytest.mark.browser
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_its_parameters_are_those_of_the_real_block(flow, kind, sizes):
    got = [(learned["name"], learned["shape"]) for one in flow(kind, sizes)["nodes"] for learned in one["learns"]]
    real = [(name, list(parameter.shape)) for name, parameter in real_block(kind, sizes).named_parameters()]
    assert sorted(got) == sorted(real)


@pytest.mark.browser
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_each_part_counts_what_its_module_learns(flow, kind, sizes):
    computed = flow(kind, sizes)
    real = {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in real_block(kind, sizes).named_children()
    }
    assert {part["name"]: part["parameters"] for part in computed["parts"]} == real
    assert computed["total"] == sum(real.values()) == sum(one["parameters"] for one in computed["nodes"])
    assert BlockStepper(kind, **sizes).parameters == real


@pytest.mark.browser
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_part_gives_has_the_shape_that_its_module_gives(flow, kind, sizes):
    computed = flow(kind, sizes)
    shapes, _ = watch(kind, sizes)
    for part in computed["parts"]:
        last = [one for one in computed["nodes"] if one["part"] == part["name"]][-1]
        assert [out["shape"] for out in last["out"]] == [shapes[part["name"]]], part["name"]
    assert computed["nodes"][-1]["out"][0]["shape"] == shapes[""]


@pytest.mark.browser
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_each_map_gives_as_many_numbers_as_its_module(flow, kind, sizes):
    """Heads are cut out of what a map gives, so the shapes differ there and the counts do not."""
    shapes, _ = watch(kind, sizes)
    for one in flow(kind, sizes)["nodes"]:
        outs = {name: out["shape"] for out in one["out"] for name in out["name"].split(", ")}
        maps = list(dict.fromkeys(learned["name"].rpartition(".")[0] for learned in one["learns"]))
        if maps:
            assert [math.prod(out) for out in outs.values()] == [math.prod(shapes[name]) for name in maps]


@pytest.mark.browser
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_what_they_mix_have_the_shapes_of_the_real_ones(flow, kind, sizes):
    _, seen = watch(kind, sizes)
    nodes = flow(kind, sizes)["nodes"]
    assert [one["out"][0]["shape"] for one in nodes if one["id"].endswith(".weights")] == seen.weights
    assert [one["out"][0]["shape"] for one in nodes if one["id"].endswith(".mix")] == seen.mixed


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_python_knows_how_many_steps_there_are(flow, kind):
    assert len(flow(kind)["nodes"]) == STEPS[kind] == BlockStepper(kind).last + 1


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_has_one_shape_and_only_additions_on_it(flow, kind):
    computed = flow(kind)
    stream = [one["id"] for one in computed["nodes"] if one["lane"] == "stream"]
    assert stream == ["x", *(f"add_{i + 1}" for i in range(len(stream) - 1))]
    for start, end in zip(stream, [*stream[1:], "out"]):
        assert {"from": start, "to": end, "name": "x", "shape": [2, 3, 4]} in computed["edges"]


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_each_addition_gets_the_stream_and_one_branch_of_its_shape(flow, kind):
    edges = flow(kind)["edges"]
    for to in {edge["to"] for edge in edges if edge["to"].startswith("add")}:
        arriving = [edge for edge in edges if edge["to"] == to]
        assert [edge["shape"] for edge in arriving] == [[2, 3, 4]] * 2
        assert [edge["name"] == "x" for edge in arriving] == [True, False]


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_each_branch_leaves_the_stream_into_a_norm_while_the_stream_goes_on(flow, kind):
    edges = flow(kind)["edges"]
    for i, start in enumerate(["x", "add_1", "add_2"][: 3 if kind == "decoder" else 2], start=1):
        assert [edge["to"] for edge in edges if edge["from"] == start] == [f"norm_{i}", f"add_{i}"]


@pytest.mark.browser
def test_the_memory_goes_into_cross_attention_and_nowhere_else(flow):
    edges = flow("decoder")["edges"]
    assert [edge["to"] for edge in edges if edge["from"] == "memory"] == ["cross_attention.qkv"]
    assert [edge["name"] for edge in edges if edge["to"] == "cross_attention.qkv"] == ["h", "memory"]


@pytest.mark.browser
def test_lines_of_ones_own_take_the_place_of_the_widgets(flow):
    lines = ["in", "h = n(x)", "", "scores", "", "", "x = x + a", "h", "f", "", "out"]
    computed = flow("encoder", code={"encoder": lines})
    assert computed["lines"] == [line for line in lines if line]
    assert [one["line"] for one in computed["nodes"]] == [0, 1, 1, 2, 2, 2, 3, 4, 5, 5, 6]
    assert flow("llama", code={"encoder": lines})["lines"][-1] == "x ← x + f"


@pytest.mark.browser
def test_compute_leaves_its_input_as_it_was(watched):
    seen = load_widget(watched, BlockStepper())
    assert seen.page.evaluate("""() => {
      const state = { kind: "decoder", batch: 2, n: 3, n_memory: 5, d_model: 4, n_heads: 2, n_kv_heads: 1, d_ff: 8,
        code: {}, step: 3 };
      const before = JSON.stringify(state);
      window.compute(state);
      return JSON.stringify(state) === before;
    }""")


# Stepping


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_step_goes_through_every_edge_to_the_end(shown, kind):
    page = shown(BlockStepper(kind))
    for at in range(STEPS[kind]):
        assert step(page) == at
        assert page.locator("[data-node][aria-current=step]").get_attribute("data-now") == "now"
        assert page.locator(".bs-edge[data-now=now]").count() >= 1
        press(page, "Step")
    assert step(page) == STEPS[kind] - 1
    assert page.get_by_role("button", name="Step", exact=True).get_attribute("aria-disabled") == "true"
    assert page.locator(".bs-edge[data-now=later]").count() == 0


@pytest.mark.browser
def test_back_goes_one_step_back(shown):
    page = shown(BlockStepper(step=4))
    press(page, "Back")
    assert page.evaluate("model.saved.step") == 3


@pytest.mark.browser
def test_start_and_end_go_all_the_way(shown):
    page = shown(BlockStepper(step=4))
    press(page, "End")
    assert step(page) == 10
    press(page, "Start")
    assert step(page) == 0
    assert page.get_by_role("button", name="Back", exact=True).get_attribute("aria-disabled") == "true"


@pytest.mark.browser
def test_a_box_is_gone_to_when_it_is_pressed(shown):
    page = shown(BlockStepper("decoder"))
    node(page, "memory").click()
    assert step(page) == 8
    assert page.locator(".bs-code-line[aria-current]").text_content() == "memory comes in"


@pytest.mark.browser
def test_a_line_of_code_is_gone_to_when_it_is_pressed(shown):
    page = shown(BlockStepper())
    line(page, 6).click()
    assert node(page, "add_1").get_attribute("aria-current") == "step"
    assert page.locator(".bs-line").text_content() == "x ← x + a"


@pytest.mark.browser
def test_a_line_for_several_steps_goes_to_the_first_and_stays_marked(shown):
    lines = ["in", "h = n(x)", "a = attention(h)", "", "", "", "x = x + a", "h", "f", "", "out"]
    page = shown(BlockStepper(code=lines))
    line(page, 2).click()
    assert step(page) == 2
    for _ in range(4):
        assert page.locator(".bs-code-line[aria-current]").text_content() == "a = attention(h)"
        press(page, "Step")
    assert page.locator(".bs-code-line[aria-current]").text_content() == "x = x + a"


@pytest.mark.browser
def test_another_block_starts_at_its_start(shown):
    page = shown(BlockStepper(step=5))
    press(page, "Llama")
    assert page.evaluate("[model.saved.kind, model.saved.step]") == ["llama", 0]
    assert page.locator("[data-node]").count() == STEPS["llama"]
    assert page.get_by_role("button", name="Llama", exact=True).get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.kind") == "llama"


@pytest.mark.browser
def test_what_python_sets_is_drawn(shown):
    page = shown(BlockStepper())
    page.evaluate("model.set('kind', 'decoder'); model.set('step', 9); model.set('n_memory', 7)")
    assert node(page, "cross_attention.qkv").get_attribute("data-now") == "now"
    assert shape(page, "cross_attention.qkv") == "q (2, 2, 3, 2) · k, v (2, 2, 7, 2)"


# What it shows


@pytest.mark.browser
@pytest.mark.parametrize(
    "kind, shapes",
    [
        ("encoder", {"attention.weights": "weights (2, 2, 3, 3)", "feed_forward.W_1": "u (2, 3, 8)"}),
        (
            "decoder",
            {"memory": "memory (2, 5, 4)", "cross_attention.weights": "weights (2, 2, 3, 5)", "add_3": "x (2, 3, 4)"},
        ),
        (
            "llama",
            {
                "attention.qkv": "q (2, 2, 3, 2) · k, v (2, 1, 3, 2)",
                "attention.repeat": "q, k, v (2, 2, 3, 2)",
                "feed_forward.W_gate": "gate, up (2, 3, 8)",
            },
        ),
    ],
)
def test_the_shape_stands_on_the_edge_and_is_said(shown, kind, shapes):
    page = shown(BlockStepper(kind))
    for name, words in shapes.items():
        assert shape(page, name) == words
        node(page, name).click()
        assert said(page).endswith(f"Out: {words}.")


@pytest.mark.browser
def test_the_axes_are_named(shown):
    page = shown(BlockStepper("decoder", step=9))
    assert page.locator("[data-value=shapes] > span").all_inner_texts() == [
        "q (batch, n_heads, n, d_head)",
        "k, v (batch, n_heads, n_memory, d_head)",
    ]


@pytest.mark.browser
@pytest.mark.parametrize(
    "kind, words",
    [
        (
            "encoder",
            {
                0: "Nothing is learned here.",
                1: "8 parameters: weight 4, bias 4.",
                2: "48 parameters: W_q 4 × 4, W_k 4 × 4, W_v 4 × 4.",
                8: "40 parameters: W_1 8 × 4, bias 8.",
            },
        ),
        (
            "llama",
            {
                1: "4 parameters: weight 4.",
                2: "32 parameters: W_q 4 × 4, W_k 2 × 4, W_v 2 × 4.",
                3: "Nothing is learned here.",
            },
        ),
    ],
)
def test_parameters_come_with_their_product(shown, kind, words):
    page = shown(BlockStepper(kind))
    for at, text in words.items():
        page.evaluate("(at) => model.set('step', at)", at)
        assert page.locator("[data-value=learns]").text_content() == text


@pytest.mark.browser
def test_large_counts_are_written_in_groups_of_three(shown):
    page = shown(BlockStepper("llama", d_model=4096, n_heads=32, n_kv_heads=8, d_ff=14336))
    assert page.locator("[data-value=total]").text_content() == "218,112,000"


@pytest.mark.browser
def test_an_addition_is_said_to_replace_nothing(shown):
    assert said(shown(BlockStepper(step=6))) == (
        "Step 7 of 11: The sub-layer's result is added. It replaces nothing: whatever was in the stream is still in "
        "the sum. Out: x (2, 3, 4)."
    )


@pytest.mark.browser
@pytest.mark.parametrize(
    "n_kv_heads, words",
    [(1, "serves 4 query heads, so there are 4 copies"), (2, "serves 2 query heads"), (4, "nothing is repeated")],
)
def test_it_says_how_many_query_heads_share_a_key_head(shown, n_kv_heads, words):
    assert words in said(shown(BlockStepper("llama", d_model=8, n_heads=4, n_kv_heads=n_kv_heads, step=4)))


@pytest.mark.browser
def test_the_part_looked_at_is_marked_in_the_diagram_and_among_the_parameters(shown):
    page = shown(BlockStepper("decoder", step=10))
    marked = page.locator(".bs-here").evaluate_all("all => all.map((one) => one.dataset.part)")
    assert marked == ["cross_attention"] * 3


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_edges_begin_and_end_at_their_boxes(shown, kind, width):
    page = shown(BlockStepper(kind), width=width)
    assert (
        page.evaluate("""() => {
      const at = (id) => document.querySelector(`[data-node='${id}']`).getBoundingClientRect();
      const inside = (x, y, box) => x >= box.left - 3 && x <= box.right + 3 && y >= box.top - 3 && y <= box.bottom + 3;
      const astray = [];
      for (const edge of document.querySelectorAll("[data-edge]")) {
        const [from, to] = edge.dataset.edge.split(" ");
        const path = edge.querySelector("path");
        const place = (length) => {
          const { x, y } = path.getPointAtLength(length).matrixTransform(path.getScreenCTM());
          return [x, y];
        };
        const branches = !to.startsWith("add") && to !== "out" && /^(x|add)/.test(from);
        if (!branches && !inside(...place(0), at(from))) astray.push(`${edge.dataset.edge}: begins elsewhere`);
        if (to !== "out" && !inside(...place(path.getTotalLength()), at(to)))
          astray.push(`${edge.dataset.edge}: ends elsewhere`);
      }
      return astray;
    }""")
        == []
    )


# For everyone


@pytest.mark.browser
def test_the_keyboard_walks_through_diagram_and_code(shown):
    page = shown(BlockStepper())
    node(page, "x").focus()
    for key, at in [("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", 10), ("ArrowDown", 10), ("Home", 0)]:
        page.keyboard.press(key)
        assert step(page) == at
        assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "step"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "h ← norm_1(x)"
    assert step(page) == 1


@pytest.mark.browser
def test_diagram_and_code_are_one_stop_each_for_the_tab_key(shown):
    page = shown(BlockStepper("decoder", step=3))
    for where in ("[data-node]", "[data-line]"):
        assert page.locator(f"{where}[tabindex='0']").count() == 1


@pytest.mark.browser
def test_a_box_can_be_heard(shown):
    page = shown(BlockStepper())
    assert page.get_by_role("button", name="W_1, GELU, step 9 of 11: u (2, 3, 8)").count() == 1


@pytest.mark.browser
def test_a_button_that_can_go_no_further_keeps_the_focus(shown):
    page = shown(BlockStepper(step=9))
    page.get_by_role("button", name="Step", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.go") == "step"


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "kind, at, sizes",
    [("encoder", 0, {}), ("decoder", 9, {}), ("llama", 4, dict(n=8192, d_model=16384, n_heads=256, d_ff=65536))],
)
def test_nothing_is_faint_small_or_too_wide(watched, theme, width, kind, at, sizes):
    seen = load_widget(watched, BlockStepper(kind, step=at, **sizes), theme=theme, width=width, reduced_motion="reduce")
    assert faint_texts(seen) == [] == small_targets(seen)
    assert not scrolls_sideways(seen)
    seen.assert_clean()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_the_reserved_height_is_the_height_it_takes(shown, kind, width):
    widget = BlockStepper(kind)
    page = shown(widget, width=width)
    reserved = widget.min_height + (widget.narrow_extra if width < 600 else 0)
    page.evaluate("document.querySelector('.aw').style.minHeight = 0")
    assert abs(page.locator(".aw").bounding_box()["height"] - reserved) <= 25


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_stepping_moves_nothing(shown, kind, width):
    page = shown(BlockStepper(kind), width=width)
    page.evaluate("document.querySelector('.aw').style.minHeight = 0")
    places = page.evaluate(
        """async (steps) => {
      const places = [];
      for (let at = 0; at < steps; at++) {
        model.set("step", at);
        await new Promise((resolve) => setTimeout(resolve, 140)); // the summary speaks once the state rests
        places.push([".aw", ".bs-diagram", ".bs-parameters"].map((where) => {
          const box = document.querySelector(where).getBoundingClientRect();
          return `${Math.round(box.top)} ${Math.round(box.height)}`;
        }).join());
      }
      return places;
    }""",
        STEPS[kind],
    )
    assert len(places) == STEPS[kind] and len(set(places)) == 1


@pytest.mark.browser
def test_with_reduced_motion_nothing_moves_by_itself(shown):
    page = shown(BlockStepper())
    assert page.evaluate("""() => [...document.querySelectorAll(".aw, .aw *")]
        .every((one) => ["0s", ""].includes(getComputedStyle(one).transitionDuration))""")


@pytest.mark.browser
def test_it_hears_nothing_after_it_is_gone(shown):
    page = shown(BlockStepper())
    page.evaluate("dispose()")
    assert page.evaluate("model.listening()") == 0


# Python


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(kind="gpt"), "kind must be one of encoder, decoder, llama; it is 'gpt'"),
        (dict(n=0), "n must be a whole number from 1 to 8192; it is 0"),
        (dict(n=2.5), "n must be a whole number from 1 to 8192; it is 2.5"),
        (dict(batch=True), "batch must be a whole number"),
        (dict(d_ff=10**6), "d_ff must be a whole number from 1 to 65536"),
        (dict(n_memory=0), "n_memory must be a whole number"),
        (dict(d_model=10, n_heads=4), "even width: 10 / 4"),
        (dict(d_model=6, n_heads=2), "even width: 6 / 2"),
        (dict(d_model=16, n_heads=4, n_kv_heads=3), "n_kv_heads must divide n_heads: 4 / 3"),
        (dict(code=["x"]), "each of the 11 steps of the encoder block .* it has 1"),
        (dict(code="x" * 11), "code must be a list of lines"),
        (dict(code=[1] * 11), "code must be a list of lines"),
        (dict(code=[""] * 11), "first line of code must not be empty"),
        (dict(code={"gpt": []}), "'gpt' is none of them"),
        (dict(step=11), "step must be 0 to 10 for the encoder block; it is 11"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(options, words):
    with pytest.raises(ValueError, match=words):
        BlockStepper(**options)


def test_a_size_set_later_must_fit_too():
    widget = BlockStepper()
    with pytest.raises(ValueError, match="even width: 4 / 3"):
        widget.n_heads = 3
    with pytest.raises(traitlets.TraitError):
        widget.step = -1
    widget.d_ff = 16
    assert widget.parameters["feed_forward"] == 4 * 16 + 16 + 16 * 4 + 4


def test_a_shorter_block_takes_the_step_back_to_its_last():
    widget = BlockStepper("decoder", step=17)
    widget.kind = "encoder"
    assert widget.step == widget.last == 10


def test_more_steps_reserve_more_room():
    widget = BlockStepper()
    before = widget.min_height
    widget.kind = "decoder"
    assert widget.min_height >= before + 38 * (STEPS["decoder"] - STEPS["encoder"])


def test_lines_that_are_given_are_left_as_they_were():
    lines = [f"line {i}" for i in range(11)]
    widget = BlockStepper(code=lines)
    widget.code["encoder"][0] = "changed"
    assert lines[0] == "line 0"


@pytest.mark.parametrize("kind", KINDS)
def test_print_gets_the_stream_its_sub_layers_and_their_parameters(kind):
    widget = BlockStepper(kind)
    texts = [text.get_text() for text in widget.picture().axes[0].texts]
    for name, count in widget.parameters.items():
        assert f"{name}\n{count} parameters" in texts
    assert texts.count("+") == (3 if kind == "decoder" else 2)
    assert ("memory (2, 5, 4)" in texts) == (kind == "decoder")
