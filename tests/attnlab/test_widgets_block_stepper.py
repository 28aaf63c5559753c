"""The block stepper: its shapes and parameters are those of the real blocks, and every control does what it says."""

import math

import pytest
import torch
from torch.overrides import TorchFunctionMode

from attnlab.widgets.block_stepper import ROW, STEPS, BlockStepper
from solutions.transformer_block import DecoderBlock, EncoderBlock, LlamaBlock
from tests.attnlab.widget_page import sets

KINDS = list(STEPS)
SMALL = dict(batch=2, n=3, n_memory=5, d_model=4, n_heads=2, n_kv_heads=1, d_ff=8)
SIZES = [
    SMALL,
    dict(batch=3, n=5, n_memory=7, d_model=24, n_heads=6, n_kv_heads=2, d_ff=11),
    dict(batch=1, n=1, n_memory=1, d_model=8, n_heads=4, n_kv_heads=4, d_ff=1),
]


FIXTURES = [dict(kind=kind, **SMALL) for kind in KINDS]
STOPS = [*KINDS, "start", "back", "step", "end", "x", "line-0"]
EXAMPLES = [(BlockStepper(kind), *(dict(step=at) for at in range(1, STEPS[kind]))) for kind in KINDS]
HUGE = dict(n=8192, d_model=16384, n_heads=256, d_ff=65536)
SET = [dict(kind="decoder", step=9, n_memory=7)]
REFUSED = [
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
    (dict(code={"gpt": []}), "'gpt' is not one of them"),
    (dict(step=11), "step must be 0 to 10 for the encoder block; it is 11"),
]
REFUSED_LATER = [("n_heads", 3, "even width: 4 / 3"), ("step", -1, "step")]
STILL = [".bs-diagram", ".bs-parameters"]
ROOM = (-6, 5)
EXTREMES = [(BlockStepper("decoder", step=9),), (BlockStepper("llama", step=4, **HUGE),)]


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
    with Recorded() as recorded:
        block(*inputs)
    return shapes, recorded


def reference(state):
    """Sizes of the real block, which is made without numbers, however large."""
    with torch.device("meta"):
        shapes, _ = watch(state["kind"], state)
        counts = [sum(one.numel() for one in part.parameters()) for part in real_block(state["kind"], state).children()]
    return {"parts.*.parameters": counts, "total": sum(counts), "nodes.-1.out.0.shape": shapes[""]}


def flow(view, kind, sizes=SMALL, **more):
    return view.compute({"kind": kind, **sizes, **more})


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_part_has_the_parameters_and_the_shapes_of_its_module(shown, kind, sizes):
    computed, block = flow(shown(BlockStepper()), kind, sizes), real_block(kind, sizes)
    nodes, (shapes, recorded) = computed["nodes"], watch(kind, sizes)
    got = [(learned["name"], learned["shape"]) for one in nodes for learned in one["learns"]]
    assert sorted(got) == sorted((name, list(parameter.shape)) for name, parameter in block.named_parameters())
    counts = {name: sum(one.numel() for one in part.parameters()) for name, part in block.named_children()}
    assert {part["name"]: part["parameters"] for part in computed["parts"]} == counts
    assert sum(one["parameters"] for one in nodes) == sum(counts.values())
    assert BlockStepper(kind, **sizes).parameters == counts
    for part in computed["parts"]:
        last = [one for one in nodes if one["part"] == part["name"]][-1]
        assert [out["shape"] for out in last["out"]] == [shapes[part["name"]]], part["name"]
    for one in nodes:  # heads are cut out of what a map gives, so the shapes differ there and the counts do not
        outs = {name: out["shape"] for out in one["out"] for name in out["name"].split(", ")}
        if maps := list(dict.fromkeys(learned["name"].rpartition(".")[0] for learned in one["learns"])):
            assert [math.prod(out) for out in outs.values()] == [math.prod(shapes[name]) for name in maps]
    assert [one["out"][0]["shape"] for one in nodes if one["id"].endswith(".weights")] == recorded.weights
    assert [one["out"][0]["shape"] for one in nodes if one["id"].endswith(".mix")] == recorded.mixed


@pytest.mark.parametrize("kind", KINDS)
def test_the_stream_has_one_shape_and_each_branch_leaves_it_into_a_norm_and_is_added(shown, kind):
    computed = flow(shown(BlockStepper()), kind)
    edges = computed["edges"]
    assert len(computed["nodes"]) == STEPS[kind] == BlockStepper(kind).last + 1
    stream = [one["id"] for one in computed["nodes"] if one["lane"] == "stream"]
    assert stream == ["x", *(f"add_{i}" for i in range(1, 4 if kind == "decoder" else 3))]
    for i, (start, end) in enumerate(zip(stream, [*stream[1:], "out"]), start=1):
        assert {"from": start, "to": end, "name": "x", "shape": [2, 3, 4]} in edges
        leaving = [edge["to"] for edge in edges if edge["from"] == start]
        assert leaving == ([f"norm_{i}", end] if end != "out" else ["out"])
    for to in stream[1:]:
        arriving = [edge for edge in edges if edge["to"] == to]
        assert [edge["shape"] for edge in arriving] == [[2, 3, 4]] * 2
        assert [edge["name"] == "x" for edge in arriving] == [True, False]
    if kind == "decoder":  # the memory goes into cross-attention and nowhere else
        assert [edge["to"] for edge in edges if edge["from"] == "memory"] == ["cross_attention.qkv"]
        assert [edge["name"] for edge in edges if edge["to"] == "cross_attention.qkv"] == ["h", "memory"]


def test_given_lines_take_the_place_of_the_widgets_own(shown):
    view = shown(BlockStepper())
    lines = ["in", "h = n(x)", "", "scores", "", "", "x = x + a", "h", "f", "", "out"]
    computed = flow(view, "encoder", code={"encoder": lines})
    assert computed["lines"] == [line for line in lines if line]
    assert [one["line"] for one in computed["nodes"]] == [0, 1, 1, 2, 2, 2, 3, 4, 5, 5, 6]
    assert flow(view, "llama", code={"encoder": lines})["lines"][-1] == "x ← x + f"


SHAPES = {
    "encoder": {"attention.weights": "weights (2, 2, 3, 3)", "feed_forward.W_1": "u (2, 3, 8)"},
    "decoder": {
        "memory": "memory (2, 5, 4)",
        "cross_attention.weights": "weights (2, 2, 3, 5)",
        "add_3": "x (2, 3, 4)",
    },
    "llama": {
        "attention.qkv": "q (2, 2, 3, 2) · k, v (2, 1, 3, 2)",
        "attention.repeat": "q, k, v (2, 2, 3, 2)",
        "feed_forward.W_gate": "gate, up (2, 3, 8)",
    },
}
LEARNED = {
    "encoder": {
        0: "Nothing is learned here.",
        1: "8 parameters: weight 4, bias 4.",
        2: "48 parameters: W_q 4 × 4, W_k 4 × 4, W_v 4 × 4.",
        8: "40 parameters: W_1 8 × 4, bias 8.",
    },
    "llama": {
        1: "4 parameters: weight 4.",
        2: "32 parameters: W_q 4 × 4, W_k 2 × 4, W_v 2 × 4.",
        3: "Nothing is learned here.",
    },
}
NOW = "=> document.querySelectorAll('.bs-edge[data-now=now]').length >= 1"
LINE = ".bs-code-line[aria-current]"
CONTROLS = {
    **{
        f"step goes through every edge to the end: {kind}": (
            BlockStepper(kind),
            *(
                ({"step": at, "[data-node][aria-current=step]@data-now": "now", NOW: True}, "Step")
                for at in range(STEPS[kind])
            ),
            {"step": STEPS[kind] - 1, "go=step@aria-disabled": "true", ".bs-edge[data-now=later]": 0},
        )
        for kind in KINDS
    },
    "the axes are named, the part looked at is marked, and buttons, boxes and lines go where they say": (
        BlockStepper("decoder", step=9),
        {"[data-value=shapes] > span": ["q (batch, n_heads, n, d_head)", "k, v (batch, n_heads, n_memory, d_head)"]},
        (sets(step=10), {".bs-here": 3, ".bs-here[data-part=cross_attention]": 3}),
        ("Back", dict(step=9)),
        ("End", dict(step=17)),
        ("Start", {"step": 0, "go=back@aria-disabled": "true"}),
        ("node=memory", {"step": 8, LINE: "memory comes in"}),
        ("Encoder | line=line-6", {"node=add_1@aria-current": "step", ".bs-line": "x ← x + a"}),
        # Another block starts at its start.
        ("Llama", {"kind": "llama", "step": 0, "[data-node]": STEPS["llama"]}),
        {"pressed kind": ["llama"], "focus": "llama"},
    ),
    "a line for several steps goes to the first and stays marked": (
        BlockStepper(code=["in", "h = n(x)", "a = attention(h)", "", "", "", "x = x + a", "h", "f", "", "out"]),
        ("line=line-2", dict(step=2)),
        *[({LINE: "a = attention(h)"}, "Step")] * 4,
        {LINE: "x = x + a"},
    ),
    "the shape is on the edge and is said": (
        BlockStepper(),
        *(
            (
                f"kind={kind}",
                *((f"node={name}", {f"shape={name}": words, "said~": f"Out: {words}."}) for name, words in own.items()),
            )
            for kind, own in SHAPES.items()
        ),
    ),
    "parameters come with their product": (
        BlockStepper(),
        *(
            (f"kind={kind}", *((sets(step=at), {"=learns": text}) for at, text in words.items()))
            for kind, words in LEARNED.items()
        ),
    ),
    "large counts are written in groups of three": (
        BlockStepper("llama", d_model=4096, n_heads=32, n_kv_heads=8, d_ff=14336),
        {"=total": "218,112,000"},
    ),
    "it says how many query heads share a key head": (
        BlockStepper("llama", d_model=8, n_heads=4, n_kv_heads=1, step=4),
        {"said~": "serves 4 query heads, so there are 4 copies"},
        (sets(n_kv_heads=2), {"said~": "serves 2 query heads"}),
        (sets(n_kv_heads=4), {"said~": "nothing is repeated"}),
    ),
    "the keyboard walks through diagram and code": (
        BlockStepper(),
        ("node=x: ArrowDown", {"step": 1, ":focus@aria-current": "step"}),
        ("keys: ArrowDown", dict(step=2)),
        ("keys: ArrowUp", dict(step=1)),
        ("keys: End ArrowDown", {"step": 10, ":focus@aria-current": "step"}),
        ("keys: Home", dict(step=0)),
        ("keys: Tab ArrowDown", {"step": 1, ":focus": "h ← norm_1(x)"}),
    ),
    "an addition is said to replace nothing, a box can be heard, and a button keeps the focus at the end": (
        BlockStepper(step=6),
        {
            "said": "Step 7 of 11: The sub-layer's result is added. It replaces nothing: what was in the stream is "
            "still in the sum. Out: x (2, 3, 4)."
        },
        sets(step=9),
        {"[aria-label='W_1, GELU, step 9 of 11: u (2, 3, 8)']": 1},
        ("go=step: Enter Enter", {"step": 10, "focus": "step"}),
        {"[data-node][tabindex='0']": 1, "[data-line][tabindex='0']": 1},
    ),
}


ASTRAY = """() => {
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
}"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_edges_begin_and_end_at_their_boxes(shown, kind, width):
    view = shown(BlockStepper(kind), width=width)
    assert view.evaluate(ASTRAY) == []


def test_a_shorter_block_takes_less_room_and_fewer_steps():
    widget = BlockStepper("decoder", step=17)
    before = widget.min_height
    widget.kind = "encoder"
    assert widget.step == widget.last == 10
    assert widget.min_height <= before - ROW * (STEPS["decoder"] - STEPS["encoder"])


LINES = [f"line {i}" for i in range(11)]
TRAITS = {
    "sizes follow": (
        dict(),
        sets(d_ff=16),
        dict(parameters=dict(norm_1=8, attention=4 * 16, norm_2=8, feed_forward=4 * 16 + 16 + 16 * 4 + 4)),
    ),
    "lines that are given are left as they were": (
        dict(code=LINES),
        lambda widget: widget.code["encoder"].__setitem__(0, "changed"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_print_gets_the_stream_its_sub_layers_and_their_parameters(kind):
    widget = BlockStepper(kind)
    texts = [text.get_text() for text in widget.picture().axes[0].texts]
    for name, count in widget.parameters.items():
        assert f"{name}\n{count} parameters" in texts
    assert texts.count("+") == (3 if kind == "decoder" else 2)
    assert ("memory (2, 5, 4)" in texts) == (kind == "decoder")
