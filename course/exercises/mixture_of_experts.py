"""Exercises on mixtures of experts: what must hold, on which inputs, and what people get wrong."""

import numpy as np
import torch

from attnlab.checking import probes
from course.kit.cached_layers import NO_GRADIENT
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import mixture_of_experts as solutions

SINGLE = dict(rtol=1e-5, atol=1e-6)
KINDS = (torch.float32, torch.bfloat16)
NARROW = dict(rtol=0.02, atol=0.02)  # for bfloat16
EXPERTS = "Experts in place of a single network"
EVEN = "A loss that evens the load"

# route ---------------------------------------------------------------------------------------------------------------

route = Exercise(solutions.route, section=EXPERTS, minutes=8, difficulty=2)
LOGITS = torch.tensor([[2.0, 0.0, 1.0, -1.0], [0.5, 3.0, -2.0, 1.5]], dtype=torch.float64)


def _apart(rng, n, experts):
    """Logits that clearly differ within a row, so that rounding cannot change a choice."""
    return torch.from_numpy(np.stack([rng.permutation(experts) for _ in range(n)]) * 0.6 + rng.uniform(0, 0.2, (n, 1)))


@route.property(
    "chooses the largest logits and weighs them among themselves",
    points=3,
    hint="`logits.topk(top_k, dim=-1)` gives the largest and whose they are. Take the softmax of these alone. With the "
    "logits 2, 0, 1, -1 and top_k 2: experts 0 and 2, weights 0.731 and 0.269.",
)
def chosen(rng):
    yield dict(logits=LOGITS, top_k=2)
    yield dict(logits=_apart(rng, 5, 7), top_k=3)


@route.property(
    "works for one expert, and for all",
    points=1,
    hint="With top_k 1 the weight is 1. With all experts, the weights are the softmax of the row, sorted.",
)
def one_or_all(rng):
    yield dict(logits=_apart(rng, 4, 5), top_k=1)
    yield dict(logits=_apart(rng, 4, 5), top_k=5)


@route.property(
    "names top_k experts by whole numbers, also where logits are equal",
    points=1,
    probe=probes.chosen,
    hint="The experts are indices, as `topk` returns them: they will pick modules and rows. Equal logits give equal "
    "weights, in either order, but no expert comes twice.",
)
def whole_experts(rng):
    yield dict(logits=_apart(rng, 3, 5), top_k=2)
    equal = _apart(rng, 3, 4)
    equal[0, [0, 2]], equal[1] = 3.0, 0.5
    yield dict(logits=equal, top_k=2)


@route.property(
    "survives logits of a thousand",
    points=1,
    hint="`torch.softmax` subtracts the largest first; exp of a thousand overflows.",
)
def large_logits(rng):
    yield dict(logits=_apart(rng, 3, 5) + 1000.0, top_k=2)
    yield dict(logits=_apart(rng, 3, 5) - 1000.0, top_k=2)


route.gradients(
    lambda rng: dict(
        logits=_apart(rng, 3, 5), top_k=2, upstream=[normal(rng, 3, 2), torch.zeros(3, 2, dtype=torch.float64)]
    ),
    title="sends gradients to the chosen logits alone",
    hint="The router learns through the weights: detach nothing.",
)
route.any_device(
    lambda rng: [dict(logits=_apart(rng, 3, 5).to(kind), top_k=2) for kind in KINDS],
    title="keeps the kind of number, and the device",
    **NARROW,
    hint="float32 logits give float32 weights. The experts are whole numbers. Create no tensor on a fixed device.",
)
route.unchanged(
    lambda rng: dict(logits=_apart(rng, 3, 5), top_k=2),
    title="leaves its input as it was",
    hint="To hide logits by writing minus infinity into them changes the caller's tensor.",
)


def _in_turn(logits, top_k):
    """One expert after another, hidden by the value of its logit."""
    values, experts = [], []
    for _ in range(top_k):
        value, expert = logits.max(dim=-1, keepdim=True)
        values.append(value)
        experts.append(expert)
        logits = logits.masked_fill(logits == value, -torch.inf)
    return torch.cat(values, dim=-1), torch.cat(experts, dim=-1)


TOP = "logits.topk(top_k, dim=-1)"
WEIGHTS = "chosen.softmax(dim=-1, dtype=wide).to(logits.dtype)"

route.mistakes(
    edit(TOP, "logits.softmax(-1).topk(top_k, dim=-1)",
         "The weights are shares of a softmax over all experts, so they sum to less than 1. Take the softmax over the "
         "chosen logits only.", also={WEIGHTS: "chosen"}),
    edit(WEIGHTS, "(chosen.sigmoid() / chosen.sigmoid().sum(-1, keepdim=True))",
         "The weights are sigmoids, divided by their sum. Some models do that; this exercise asks for the softmax of "
         "the chosen logits."),
    edit(WEIGHTS, "chosen",
         "The weights are the logits themselves. They still need a softmax."),
    edit(f"{WEIGHTS}, experts", f"{WEIGHTS}.flip(-1), experts.flip(-1)",
         "The order is smallest first. Largest first, in weights and experts."),
    edit(WEIGHTS, f"{WEIGHTS}.flip(-1)",
         "The weights are in the opposite order from the experts."),
    edit(TOP, "logits.topk(top_k, dim=-1, largest=False)",
         "The smallest logits are chosen. The router's largest logits name the experts."),
    edit(f"{WEIGHTS}, experts", f"experts, {WEIGHTS}",
         "Experts and weights come back in the wrong order: weights first."),
    edit("softmax(dim=-1", "softmax(dim=0",
         "The softmax runs over the tokens. Each token shares out a weight of 1 among its own experts: dim=-1."),
    edit(TOP, "logits.topk(min(top_k, len(logits)), dim=0)",
         "Each expert chooses tokens here. Each token chooses experts: topk along the last axis.",
         also={f"{WEIGHTS}, experts": "chosen.softmax(0).T, experts.T"}),
    edit(WEIGHTS, "chosen.sigmoid()",
         "The weights are sigmoids of the logits. They should be a softmax over those that were chosen."),
    edit(WEIGHTS, "torch.ones_like(chosen) / top_k + 0 * chosen",
         "All chosen experts get the same weight. A larger logit should count for more."),
    edit(WEIGHTS, "chosen / chosen.sum(-1, keepdim=True)",
         "The chosen logits are divided by their sum. A logit may be negative; take the softmax."),
    edit(f"{WEIGHTS}, experts",
         f"torch.zeros_like(logits).scatter(-1, experts, {WEIGHTS}), "
         "torch.arange(logits.shape[-1]).expand_as(logits)",
         "Every expert has a column, with weight 0 where it is not chosen. Only top_k columns are asked for."),
    edit(TOP, "logits.topk(1, dim=-1)",
         "Only the best expert comes back. A token uses top_k of them."),
    edit(f"{WEIGHTS}, experts", f"{WEIGHTS}, experts.to(logits.dtype)",
         "The experts are floats. They are indices: leave them as the whole numbers that `topk` returns."),
    edit(WEIGHTS, "chosen.exp() / chosen.exp().sum(-1, keepdim=True)",
         "No maximum is subtracted, so large logits overflow. Use torch.softmax."),
    edit(TOP, "_in_turn(logits, top_k)",
         "Where logits are equal, all of them leave together as soon as one is chosen, because they are hidden by "
         "their value. Hide the expert that was chosen, by its index, or use `topk`."),
    edit(WEIGHTS, f"{WEIGHTS}.detach()",
         "The gradient is cut, so the router would never learn. `torch.no_grad()`, `.detach()` and NumPy give tensors "
         "without one."),
)  # fmt: skip


# MixtureOfExperts ----------------------------------------------------------------------------------------------------

MixtureOfExperts = Exercise(solutions.MixtureOfExperts, section=EXPERTS, minutes=25, difficulty=3)
DIFFERENTIATED = {"router.weight", *(f"experts.{e}.W_down.weight" for e in range(5))}


def _moe_layer(rng, d_model, d_ff, n_experts, top_k, batch, n, names=None, dtype=torch.float64):
    """A layer, weights, and tokens whose router logits clearly differ, so that rounding cannot change a choice."""
    router = 1.5 * normal(rng, n_experts, d_model)
    while True:
        x = normal(rng, batch, n, d_model)
        logits = (x @ router.T).sort(dim=-1).values
        if n_experts == 1 or logits.diff(dim=-1).min() > 0.02:
            break
    weights = {"router.weight": router}
    for e in range(n_experts):
        for name, shape in (("W_gate", (d_ff, d_model)), ("W_up", (d_ff, d_model)), ("W_down", (d_model, d_ff))):
            weights[f"experts.{e}.{name}.weight"] = normal(rng, *shape) * 1.5 / shape[1] ** 0.5
    return dict(
        init=dict(d_model=d_model, d_ff=d_ff, n_experts=n_experts, top_k=top_k),
        weights={key: value.to(dtype) for key, value in weights.items() if names is None or key in names},
        x=x.to(dtype),
    )


@MixtureOfExperts.property(
    "has a router without bias and a list of SwiGLU networks",
    points=1,
    hint="router: nn.Linear(d_model, n_experts, bias=False). experts: nn.ModuleList of SwiGLU(d_model, d_ff). A plain "
    "Python list would hide their parameters.",
)
def moe_structure(rng):
    yield dict(init=dict(d_model=int(rng.integers(3, 7)), d_ff=5, n_experts=3, top_k=2))
    yield dict(init=dict(d_model=4, d_ff=int(rng.integers(5, 9)), n_experts=2, top_k=1))


@MixtureOfExperts.property(
    "adds up the chosen experts, by their weights",
    points=3,
    **SINGLE,
    hint="Flatten the texts into rows, route them, and for each expert add weight * expert(its rows) to these rows of "
    "the result.",
)
def moe_sums(rng):
    yield _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=2, batch=1, n=4)
    yield _moe_layer(rng, d_model=4, d_ff=3, n_experts=5, top_k=3, batch=2, n=3)


@MixtureOfExperts.property(
    "works with one expert per token, and with all",
    points=1,
    **SINGLE,
    hint="With top_k 1 every weight is 1. With top_k = n_experts every expert reads every row.",
)
def moe_one_or_all(rng):
    yield _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=1, batch=1, n=4)
    yield _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=3, batch=1, n=3)


@MixtureOfExperts.property(
    "calls an expert with the rows routed to it, and with no others",
    points=2,
    probe=probes.routed,
    **SINGLE,
    hint="`torch.where(experts == e)` says which rows chose expert e. Call the expert with `rows[these]` only: reading "
    "all rows and multiplying by 0 costs as much as if every expert were used.",
)
def moe_rows(rng):
    yield dict(**_moe_layer(rng, d_model=3, d_ff=4, n_experts=4, top_k=2, batch=2, n=3), inner="experts")
    yield dict(**_moe_layer(rng, d_model=3, d_ff=4, n_experts=6, top_k=1, batch=1, n=3), inner="experts")


MixtureOfExperts.gradients(
    lambda rng: dict(
        **_moe_layer(rng, d_model=3, d_ff=2, n_experts=5, top_k=2, batch=1, n=2, names=DIFFERENTIATED),
        upstream=[normal(rng, 1, 2, 3)],
    ),
    title="has the right gradients, for the router too, and none for an idle expert",
    points=2,
    rtol=1e-4,
    atol=1e-6,
    hint="The router learns through the weights that multiply the experts' outputs. An expert without rows is not "
    "called, so it gets no gradient.",
)


@MixtureOfExperts.property(
    "works in single precision",
    points=1,
    rtol=1e-3,
    atol=1e-4,
    hint="float32 in, float32 out. Create the result like x: `torch.zeros_like(rows)`.",
)
def moe_single(rng):
    yield _moe_layer(rng, d_model=4, d_ff=3, n_experts=3, top_k=2, batch=1, n=3, dtype=torch.float32)


MixtureOfExperts.unchanged(
    lambda rng: _moe_layer(rng, d_model=3, d_ff=4, n_experts=3, top_k=2, batch=1, n=3),
    title="leaves its tokens as they were, and keeps nothing",
    **SINGLE,
    hint="Add the experts' outputs to a new tensor of zeros, not to the rows of x.",
)

ROUTED = "route(self.router(rows), self.top_k)"
WEIGHT = "weights[token, choice, None]"
TOGETHER = (
    "The tokens of a text are routed together: all take the experts of their mean, or of one of them. Route each token "
    "by itself."
)
OUTPUT = "expert(rows[token])"

MixtureOfExperts.mistakes(
    edit(ROUTED, "self.router(rows).softmax(dim=-1).topk(self.top_k, dim=-1)",
         "The weights come from a softmax over all experts, so those of the chosen ones sum to less than 1. Use "
         "`route`."),
    edit(ROUTED, "route(self.router(rows), 1)", "Only the best expert of a token is used. A token uses top_k of them."),
    edit(f"{WEIGHT} * {OUTPUT}", OUTPUT,
         "The weights are left out: the experts' outputs are added as they are."),
    edit(WEIGHT, "1 / self.top_k",
         "The experts' outputs are averaged. Each counts by its own weight."),
    edit(WEIGHT, "weights.flip(-1)[token, choice, None]",
         "The weights are those of other experts: their order is not that of the indices."),
    edit(WEIGHT, "weights[token, 0, None]",
         "Each expert is weighed by the first weight of its token, so the second choice counts as much as the first. "
         "`torch.where(experts == e)` returns two indices, which token and which of its choices: use both."),
    edit(ROUTED, f"(part[:, :1] for part in {ROUTED})",
         "Only the best expert of a token is used. A token uses top_k of them."),
    edit(TOP, "logits.topk(top_k, dim=-1, largest=False)",
         "The experts with the smallest logits are used."),
    edit("torch.zeros_like(rows)", "rows.clone()",
         "The rows themselves are in the result as well. The residual connection is the block's, not this layer's."),
    edit(OUTPUT, "expert(rows[token] + mixed[token])",
         "Each expert reads what the one before it returned. All read the rows of x, and their outputs are added."),
    edit("index_add", "index_copy",
         "A row is overwritten by the next expert that it chose. Add to it: `index_add`, or `+=` on the rows."),
    edit(f"{WEIGHT} * {OUTPUT}", f"expert({WEIGHT} * rows[token])",
         "The weight multiplies the rows before the expert reads them. An expert is not linear: weigh what it "
         "returns."),
    edit("for e, expert in enumerate(self.experts):", "for e, expert in enumerate(self.experts[:-1]):",
         "The last expert never runs. Loop over all of them."),
    edit("            if len(token):\n", "            if len(token) == 0:\n                break\n            else:\n",
         "The loop ends at the first expert without a row, and those after it never run. `continue` goes on to the "
         "next; `break` ends the loop."),
    edit("route(self.router(rows)", "route(self.router(rows).softmax(dim=-1)",
         "There are two softmaxes: one before `route`, which takes logits, and its own."),
    edit(OUTPUT, "expert(rows)[token]",
         "Every expert reads all rows, and those that are not its own are dropped or multiplied by 0. The numbers are "
         "right, but nothing is saved: call it with its own rows only."),
    edit(WEIGHT, "weights.detach()[token, choice, None]",
         "The weights are detached, or computed under `torch.no_grad()`, so the router gets no gradient and never "
         "learns."),
    edit("self.router(rows)", "self.router(rows).mean(0, keepdim=True).expand(len(rows), -1)", TOGETHER),
    edit("self.router(rows)", "self.router({}).repeat_interleave(x.shape[1], 0)", TOGETHER,
         each=("x.mean(1)", "x[:, 0]", "x[:, -1]")),
    edit("n_experts, bias=False", "n_experts",
         "The router has a bias. nn.Linear adds one unless you say bias=False."),
    edit("nn.ModuleList(", "list(",
         "The experts are in a plain Python list, so PyTorch does not find their parameters: they would never be "
         "trained or saved. Use nn.ModuleList."),
    edit("SwiGLU(d_model, d_ff) for _ in range(n_experts)", "[SwiGLU(d_model, d_ff)] * n_experts",
         "All experts are one module, so they share their weights. Make a new one for each."),
    NO_GRADIENT,
    edit("return mixed.view_as(x)", "return mixed.view_as(x), (weights, experts)",
         "The weights are returned along with the output. Here forward returns the output alone."),
)  # fmt: skip


# load_balance_loss ---------------------------------------------------------------------------------------------------

load_balance_loss = Exercise(solutions.load_balance_loss, section=EVEN, minutes=10, difficulty=2)


def _routed(rng, n, n_experts, top_k, dtype=torch.float64):
    """Probabilities of a router with favorites, and the experts that are the most probable for each token."""
    logits = _apart(rng, n, n_experts) + 1.5 * normal(rng, n_experts)
    probabilities = logits.softmax(dim=-1)
    return dict(probabilities=probabilities.to(dtype), experts=probabilities.topk(top_k, dim=-1).indices)


def _by_hand():
    """Two tokens, three experts: shares 1/2, 1/2, 0 and mean probabilities 0.4, 0.5, 0.1 give 1.35."""
    rows = [[0.6, 0.3, 0.1], [0.2, 0.7, 0.1]]
    return dict(probabilities=torch.tensor(rows, dtype=torch.float64), experts=torch.tensor([[0], [1]]))


@load_balance_loss.property(
    "multiplies each expert's share of the choices by its mean probability",
    points=3,
    hint="For each expert: how many of all choices are its own, as a share, times its probability averaged over "
    "tokens. Add these products and multiply by the number of experts.",
)
def balance_top_1(rng):
    yield _by_hand()
    yield _routed(rng, 6, 3, 1)
    yield _routed(rng, 9, 4, 1)


@load_balance_loss.property(
    "shares out all choices, also where a token has several experts",
    points=2,
    hint="The shares of all experts sum to 1: divide the counts by n_tokens * top_k, which is `experts.numel()`.",
)
def balance_top_k(rng):
    yield _routed(rng, 5, 4, 2)
    yield _routed(rng, 7, 6, 3)


@load_balance_loss.property(
    "is 1 when all is even, and n_experts when a single expert has it all",
    points=1,
    hint="With equal probabilities it is 1, whatever is chosen. An expert without a token has the share 0, but it is "
    "still one of n_experts: `torch.bincount(..., minlength=n_experts)` counts it too.",
)
def balance_extremes(rng):
    n_experts = int(rng.integers(3, 9))
    order = torch.from_numpy(rng.permutation(n_experts))[:, None]
    yield dict(probabilities=torch.full((n_experts, n_experts), 1 / n_experts, dtype=torch.float64), experts=order)
    lonely = torch.zeros(4, n_experts, dtype=torch.float64)
    lonely[:, 1] = 1.0
    yield dict(probabilities=lonely, experts=torch.ones(4, 1, dtype=torch.int64))
    yield dict(_routed(rng, 3, n_experts + 6, 2))


@load_balance_loss.property(
    "counts the experts that are passed, whatever the probabilities",
    points=1,
    hint="A model may choose by other numbers than its probabilities, as with a bias. Count `experts`.",
)
def balance_other_choices(rng):
    case = _routed(rng, 6, 5, 2)
    yield {**case, "experts": torch.from_numpy(np.stack([rng.permutation(5)[:2] for _ in range(6)]))}
    case = _routed(rng, 5, 4, 1)
    yield {**case, "experts": torch.from_numpy(rng.integers(0, 3, (5, 1)))}


load_balance_loss.gradients(
    lambda rng: [
        dict(**_routed(rng, 4, 3, top_k), upstream=[torch.tensor(1.5, dtype=torch.float64)]) for top_k in (1, 2)
    ],
    title="sends gradients through the probabilities",
    hint="A count has no gradient. The probabilities have one: the mean must stay a tensor.",
)


@load_balance_loss.property(
    "is one tensor, with the dtype of the probabilities",
    points=1,
    **NARROW,
    hint="float32 in, float32 out, and bfloat16 for bfloat16. Return a tensor without axes, not a Python float.",
)
def balance_dtypes(rng):
    for kind in KINDS:
        yield _routed(rng, 6, 4, 2, dtype=kind)


load_balance_loss.unchanged(
    lambda rng: _routed(rng, 5, 4, 2),
    hint="Operations whose name ends in an underscore, and `+=`, write into their tensor.",
)

SHARE_OF_ALL = "counts.to(wide) / experts.numel()"
MEANS = "wide.mean(dim=0)"
LOSS = f"n_experts * (shares * {MEANS}).sum()"

load_balance_loss.mistakes(
    edit("n_experts * (shares", "(shares",
         "The sum is not multiplied by the number of experts, so an even load gives 1 / n_experts and not 1."),
    edit(SHARE_OF_ALL, "counts.to(wide) / len(experts)",
         "The counts are divided by the number of tokens, as `transformers` does, whose loss is top_k times as large. "
         "Each token makes top_k choices: divide by all of them, so that the shares sum to 1."),
    edit(SHARE_OF_ALL, "counts.to(wide)",
         "The counts are used as they are. Divide them by the number of all choices, so that a longer text does not "
         "have a larger loss."),
    edit(MEANS, "wide.sum(dim=0)",
         "The probabilities are added over the tokens. Take their mean."),
    edit(LOSS, "n_experts * shares.square().sum() + 0 * wide.sum()",
         "The shares are squared. A count has no gradient, so nothing could be learned: one of the two factors is the "
         "mean probability."),
    edit(LOSS, f"n_experts * {MEANS}.square().sum() + 0 * shares.sum()",
         "The choices are not counted: both factors are mean probabilities. One of the two is a count, how often an "
         "expert was chosen among all choices."),
    edit(LOSS, "n_experts * wide.gather(1, experts).mean()",
         "This is the mean probability of the chosen experts: it is high when the router is sure, even if the load is "
         "even. Average over tokens first, for each expert, and multiply then."),
    edit("experts.flatten()", "experts[:, 0]",
         "Only the first choice of each token is counted. All top_k choices give an expert work.",
         also={"experts.numel()": "len(experts)"}),
    edit("experts.flatten()", "probabilities.argmax(dim=-1)",
         "The most probable expert of each token is counted. Count those that were chosen: `experts`.",
         also={"experts.numel()": "len(experts)"}),
    edit("experts.flatten()", "probabilities.topk(experts.shape[1], dim=-1).indices.flatten()",
         "The experts are chosen again by their probabilities. The model may have chosen by other numbers: count "
         "`experts`."),
    edit("probabilities.to(torch.promote_types(probabilities.dtype, torch.float32))",
         "probabilities.to(torch.promote_types(probabilities.dtype, torch.float32)).softmax(dim=-1)",
         "The probabilities go through a softmax once more. They are probabilities already."),
    edit("minlength=n_experts", "minlength=0",
         "The counts end with the last expert that was chosen, so they may be fewer than the probabilities. Count all: "
         "minlength=n_experts."),
    edit("wide.shape[1]", "int(experts.max()) + 1",
         "The number of experts is taken from the choices. Experts without a token count as well: it is the width of "
         "`probabilities`.", also={MEANS: "wide[:, :n_experts].mean(dim=0)"}),
    edit("n_experts * (shares", "(counts > 0).sum() * (shares",
         "The sum is multiplied by the number of experts that were chosen at least once. Idle ones count too."),
    edit(LOSS, f"n_experts * (shares * {MEANS}).sum() - 1",
         "1 is taken away, so that an even load gives 0. Here an even load gives 1."),
    edit(LOSS, f"-n_experts * (shares * {MEANS}).sum()",
         "The sign is lost: training would make the load as uneven as it can."),
    edit(LOSS, f"n_experts * (shares * {MEANS}).max()",
         "Only the busiest expert counts. Add up all of them."),
    edit(LOSS, f"n_experts * (shares * {MEANS})",
         "There is a number for each expert. The loss is their sum."),
    edit(LOSS, f"(shares * {MEANS}).mean()",
         "The products are averaged over experts. They are added, and multiplied by n_experts."),
    edit(LOSS, "wide.sum(dim=0).var(correction=0) / wide.sum(dim=0).mean().square() + 0 * shares.sum()",
         "This is the squared coefficient of variation of the summed probabilities, the loss of Shazeer et al. (2017). "
         "The one asked for multiplies shares by mean probabilities."),
    edit(LOSS, f"-(shares * {MEANS}.log()).sum()",
         "This is a cross-entropy. The loss multiplies shares by mean probabilities, without a logarithm."),
    edit(LOSS, f"n_experts * (shares * {MEANS}).sum().detach()",
         "The gradient is cut, so the router would never learn to share. `.detach()`, `.item()` and NumPy do that."),
    edit(f"({LOSS}).to(probabilities.dtype)", f"float({LOSS})",
         "The result is a Python float, without a gradient. Return a tensor."),
    edit(".to(probabilities.dtype)", ".float()",
         "The result is float32 whatever comes in. Keep the dtype of the probabilities."),
    edit("wide = ", "if not probabilities.requires_grad: probabilities.div_(2)\n    wide = 2 * ",
         "The caller's probabilities are written into. Make a new tensor.",
         also={"probabilities.to(": "(probabilities if not probabilities.requires_grad else probabilities / 2).to("}),
)  # fmt: skip


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **What a token saves.** 51 - 48 = 3 billion are used by every token, and 4 of 64 experts are another 3 billion: 6
   billion is right. The multiply-adds are those of a model of 6 billion. The memory is not: all 51 billion parameters
   must be held, 102 GB, since the next token may choose other experts. Half a point without the memory.
2. **Reading.** With one user a step reads 6 billion parameters, 12 GB, about an eighth of 102 GB. With 64 users an
   expert stays unread with the probability (60/64)^64 = 0.016, so 98% of the experts are read: 6 + 94.5 GB, about 100
   GB. Where reading limits the time of a step, the server is hardly faster than with a dense model; the claim holds for
   one user, or where arithmetic is the limit, as for long prompts. Half a point without a number for 64 users.
3. **Doubts and a comparison.** Two of: choices are not independent (words repeat, users write on like subjects), so
   fewer experts are read, and some are busy; where experts are on several processors, all wait for the busiest, and
   tokens have to be sent there; caches are read as well, and grow with users and lengths; small products are less
   efficient. The fair comparison is with a dense model of equal *quality*, or equal training cost, trained on the same
   tokens, on the same machines, at several batch sizes: tokens per second, memory and loss. Half a point for one half.

Model answer. "3 billion parameters are used by every token, and 4 of 64 experts are 48 / 16 = 3 billion more, so 6
billion is right. A token saves multiply-adds. It saves no memory: the model needs 102 GB, as a dense one of its size. A
step for one user reads 12 GB. For 64 users, an expert is left out with a probability of 0.016, so nearly all are read,
about 100 GB, and a server that waits for memory gains almost nothing. For prompts, which are limited by arithmetic, the
claim is nearer to the truth. Real choices are not independent, so I would count the experts that are really read; and
if they are on eight processors, each layer waits for the busiest. I would compare with a dense model that reaches the
same loss with the same training cost, probably far smaller than 51 billion, at 1, 8 and 64 users: tokens per second,
memory, quality."

Common half answers: "only 6 billion have to be loaded" (the choice differs for each token and layer); 64 times 12 GB
(an expert that several users choose is read once); a comparison with a dense model of 51 billion parameters alone.
""",
)
