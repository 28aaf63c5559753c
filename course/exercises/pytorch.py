"""The exercise of the primer on PyTorch: one step of training on one batch.

A model, a loss and an optimizer are not plain data, so a case names what they are made of:
`attnlab.checking.probes.trained`.
"""

import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import pytorch as solutions

STEP = "A module and an optimizer"
CLEAR = "Gradients add up"
PAPER = "The same in PyTorch"
LOOP = "The step in a loop"

training_step = Exercise(solutions.training_step, section=STEP, minutes=10, difficulty=1)

# Loss -> targets for it, of n rows and m columns. Those of the squared error are far away: the gradients are large.
TARGETS = {
    "mse_loss": lambda rng, n, m: 10 + 3 * normal(rng, n, m),
    "cross_entropy": lambda rng, n, m: torch.from_numpy(rng.integers(m, size=n)),
    "binary_cross_entropy_with_logits": lambda rng, n, m: torch.from_numpy(rng.uniform(0.1, 0.9, size=(n, m))),
}


def _layers(rng, widths):
    """[weight, bias] of linear layers from each width to the next."""
    return [[normal(rng, n, m) / m**0.5, normal(rng, n)] for m, n in zip(widths, widths[1:])]


def _case(
    rng, widths, rows, watched, *, loss="mse_loss", kind="SGD", lr=0.05, frozen=0, gradients_left=False, **settings
):
    """A model of linear layers of these widths, and a batch for each number of rows."""
    return dict(
        layers=_layers(rng, widths),
        batches=[dict(x=normal(rng, n, widths[0]), y=TARGETS[loss](rng, n, widths[-1])) for n in rows],
        loss=loss,
        optimizer=dict(kind=kind, lr=lr, **settings),
        frozen=frozen,
        left=_layers(rng, widths) if gradients_left else None,
        watched=watched,
    )


MOVED = ["still", "layers"]


@training_step.property(
    "returns the loss of the batch before the step",
    points=2,
    probe=probes.trained,
    hint="Compute the loss once, as loss_fn(model(x), y), and return that number.",
)
def loss_before(rng):
    yield _case(rng, (3, 1), [5], ["result"])
    yield _case(rng, (3, 6, 4), [7], ["result"], loss="cross_entropy")


@training_step.property(
    "moves every parameter by one step against the gradient",
    points=2,
    probe=probes.trained,
    hint="Gradients first, with `backward` on the loss; then `optimizer.step()`, once.",
)
def one_step(rng):
    yield _case(rng, (3, 1), [5], MOVED)
    yield _case(rng, (2, 5, 3), [4], MOVED, lr=0.01)


@training_step.property(
    "starts from gradients of zero, whatever was left in them",
    points=2,
    probe=probes.trained,
    hint="`backward` adds to what is in `.grad`. Empty it before, at each call: `optimizer.zero_grad()`.",
)
def from_zero(rng):
    yield _case(rng, (3, 1), [5], MOVED, gradients_left=True)
    yield _case(rng, (2, 4, 3), [5, 6, 4], MOVED, loss="cross_entropy", gradients_left=True)


@training_step.property(
    "steps with the optimizer that it is given",
    points=2,
    probe=probes.trained,
    hint="The optimizer holds the learning rate and its averages over earlier steps. Only its own `step` uses both.",
)
def given_optimizer(rng):
    for settings in (dict(kind="Adam", lr=0.03), dict(momentum=0.9, lr=0.02), dict(kind="AdamW", weight_decay=0.3)):
        yield _case(rng, (2, 3), [4, 4, 4], MOVED, **settings)


@training_step.property(
    "hands prediction and target to `loss_fn` in this order",
    points=1,
    probe=probes.trained,
    hint="A loss of PyTorch takes the model's prediction first and the target second, each as it is.",
)
def order_of_arguments(rng):
    yield _case(rng, (2, 3), [4], MOVED, loss="binary_cross_entropy_with_logits", lr=0.5)
    yield _case(rng, (3, 4), [5], MOVED, loss="cross_entropy", lr=0.5)


@training_step.property(
    "leaves a frozen layer as it is",
    points=1,
    probe=probes.trained,
    hint="What is frozen has no gradient, so its `.grad` stays None. Leave both to the optimizer.",
)
def frozen_layer(rng):
    yield _case(rng, (2, 4, 3), [5], MOVED, frozen=1, lr=0.02, weight_decay=0.5)


@training_step.property(
    "calls the model once, in the mode in which it is given",
    points=1,
    probe=probes.trained,
    hint="One forward pass gives the loss that you differentiate and the number that you return. `model.eval()` is for "
    "testing a model.",
)
def one_pass(rng):
    yield _case(rng, (3, 2), [4], ["forward passes", "mode"])


@training_step.property(
    "returns a plain number",
    points=1,
    probe=probes.trained,
    hint="`loss.item()` takes the number out of a tensor, and leaves the graph behind.",
)
def plain_number(rng):
    yield _case(rng, (3, 2), [6], ["result", "returned"])


ZERO_GRAD, LOSS = "optimizer.zero_grad()", "loss_fn(model(x), y)"

training_step.mistakes(
    edit(ZERO_GRAD, "pass",
         "The gradients are not cleared: `optimizer.zero_grad()` is missing, or its parentheses are. `backward` adds "
         "to what is in `.grad` already, so the step also follows the gradients of all batches before it.", see=CLEAR),
    edit("optimizer.step()", "optimizer.zero_grad(); optimizer.step()",
         "The gradients are cleared between `backward` and `step`, so the optimizer finds none, and nothing moves. "
         "Clear them before `backward`.", see=CLEAR, also={ZERO_GRAD: "pass"}),
    edit("optimizer.step()", "optimizer.step(); optimizer.zero_grad()",
         "The gradients are cleared only after the step. Whatever was in `.grad` before your first call is still there "
         "when `backward` adds to it. Clear them first.", see=CLEAR, also={ZERO_GRAD: "pass"}),
    edit("optimizer.step()", "pass",
         "`optimizer.step()` is missing, or its parentheses are. The gradients are there, but no parameter moves: "
         "`backward` computes, `step` moves."),
    edit("loss.backward()", "pass",
         "No gradient reaches the parameters, so the step moves nothing. Either `backward()` or its parentheses are "
         "missing, or it is called on a tensor that was not computed from them. Call it on the loss of this model.",
         see=PAPER),
    edit("loss.backward()", "optimizer.step()",
         "The step comes before `backward`, when there are no gradients yet. First clear, then `backward`, then "
         "`step`.",
         also={"optimizer.step()": "loss.backward()"}),
    edit(ZERO_GRAD, f"solutions.training_step(model, loss_fn, optimizer, x, y); {ZERO_GRAD}",
         "Two steps are made on one batch. A call should make one; the loop around it makes many."),
    edit(ZERO_GRAD,
         "steps = [solutions.training_step(model, loss_fn, optimizer, *row) for row in zip(x.split(1), y.split(1))]\n"
         "    return {}\n"
         f"    {ZERO_GRAD}",
         "Each row of the batch makes a step of its own, so the model moves as many times as there are rows. Give the "
         "whole batch to the model at once: one loss, one `backward`, one `step`.",
         each=("sum(steps) / len(steps)", "sum(steps)", "steps[-1]")),
    edit("optimizer.step()", "optimizer.step(); optimizer.step()",
         "`step` is called twice after one `backward`, so the parameters go twice as far. One call, one step."),
    edit("loss.item()", f"{LOSS}.item()",
         "The loss is computed again after the step. That costs a second forward pass, and it is not the loss whose "
         "gradient was taken. Keep the first one."),
    edit("loss = ", f"before = {LOSS}; loss = ",
         "The model is called twice, once for the number that is returned and once for the gradient. One forward pass "
         "gives both, at half the cost.", also={"loss.item()": "before.item()"}),
    edit("loss.item()", "loss",
         "The loss is returned as a tensor that still holds its graph. Adding such losses up, or keeping them in a "
         "list, keeps every step's graph in memory. `loss.item()` is the number alone.", see=LOOP),
    edit("loss.item()", "torch.tensor(loss.item())",
         "The loss has lost its graph, but it is still a tensor. Return a plain number: `loss.item()`.", see=LOOP),
    edit(LOSS, f"{LOSS}.item()",
         "`.item()` comes too early: a plain number has no graph and no `backward`. Call `backward` on the tensor, and "
         "take the number out at the end.", see=PAPER, also={"return loss.item()": "return loss"}),
    edit("loss = ", "with torch.no_grad(): loss = ",
         "The loss is cut off from the parameters before `backward`: by `detach`, by `.data`, or by a forward pass "
         "under `torch.no_grad()`. Without the graph, `backward` cannot get back to them.", see=PAPER),
    edit(ZERO_GRAD, f"model.eval(); {ZERO_GRAD}",
         "The model is switched to evaluation mode, in which dropout does nothing. Leave the mode as the caller has "
         "set it.", see=LOOP),
    edit(LOSS, "loss_fn(y, model(x))",
         "Target and prediction are swapped. The squared error does not notice, most other losses do: the prediction "
         "comes first."),
    edit(LOSS, "nn.functional.mse_loss(model(x), y)",
         "The squared error is computed, whatever `loss_fn` is. The caller decides which loss to use: call `loss_fn`."),
    edit("model(x)", "model(x).softmax(dim=-1)",
         "A softmax is applied before the loss. Give `loss_fn` the model's output as it is: `cross_entropy` has a "
         "softmax inside, and other losses need none."),
    edit("model(x)", "model(x).squeeze()",
         "The prediction is squeezed. Shapes (n,) and (n, 1) broadcast to (n, n), so each prediction is compared with "
         "every target. Pass the prediction on as it is."),
    edit(LOSS, f"{LOSS} / len(x)",
         "The loss is divided by the number of rows. `loss_fn` has already taken the mean over the batch."),
    edit("loss.item()", "loss.item() * len(x)",
         "The loss that is returned is multiplied by the number of rows. Return the value of `loss_fn` as it is."),
    edit("loss.item()", "round(loss.item(), 4)",
         "The loss is rounded. Rounding is for printing; return the number as it is."),
    edit("loss.backward()", "(-loss).backward()",
         "The step goes uphill: it follows the gradient of minus the loss, so the loss grows. The minus sign is "
         "already in the optimizer's step."),
    edit("optimizer.step()", "nn.utils.clip_grad_norm_(model.parameters(), 1.0); optimizer.step()",
         "The gradients are clipped before the step. Large models are often trained with clipping, but it changes "
         "where the step goes, and this exercise does not ask for it."),
    edit(ZERO_GRAD, f"optimizer = torch.optim.Adam(model.parameters()); {ZERO_GRAD}",
         "A new optimizer is made in each call. It has another learning rate, and it loses the averages that the "
         "caller's optimizer keeps from step to step. Use the one that is given."),
    edit("optimizer.step()",
         "for parameter in model.parameters():\n"
         "        if parameter.grad is not None:\n"
         '            parameter.data -= optimizer.param_groups[0]["lr"] * parameter.grad',
         "The step is that of plain SGD, learning rate times gradient, by hand or by a new optimizer. Adam, momentum "
         "and weight decay do more, so leave the step to the optimizer that is given: `optimizer.step()`."),
    edit(ZERO_GRAD, f"for parameter in model.parameters(): parameter.data.zero_()\n    {ZERO_GRAD}",
         "The parameters themselves are set to zero, so what they have learned is lost. Clear their gradients instead.",
         see=CLEAR),
    edit(ZERO_GRAD, "for parameter in model.parameters(): parameter.grad.zero_()",
         "`.grad` is None before the first `backward`, and always for a frozen parameter, so `.grad.zero_()` fails. "
         "`optimizer.zero_grad()` handles both.", see=CLEAR),
    edit(ZERO_GRAD, "for parameter in model.parameters(): parameter.grad = torch.zeros_like(parameter)",
         "Zeros are written into the `.grad` of every parameter, frozen ones too. The optimizer takes them for "
         "gradients, and weight decay then moves what should stay. Use `optimizer.zero_grad()`.", see=CLEAR),
    edit(ZERO_GRAD, f"model.requires_grad_(True); {ZERO_GRAD}",
         "`requires_grad` is switched on for every parameter, so layers that the caller has frozen are trained as "
         "well. Leave it as it is."),
)  # fmt: skip


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **Which loops train.** A (clear, backward, step) and C (backward, step, clear) do; B (backward, clear, step) does
   not: the optimizer finds no gradients, so no parameter ever moves and the loss stays where it was, without any error.
2. **What tells A from C.** Nothing after the first step. In the first step C also follows whatever was in `.grad`
   before: nothing in a new model, but a wrong direction if `backward` was called on it before, in a test or in an
   earlier loop. Half a point for "they are the same" with a reason that holds for a new model.
3. **The memory.** Each loss is a tensor that holds the graph it was computed with, so a list of losses keeps all these
   graphs. Remedy: `loss.item()` (or `float(loss)`, or `loss.detach()`), and why: it leaves the number alone.

Model answer. "A and C train. B clears the gradients right before the optimizer reads them, so it moves nothing, and
the loss of each batch stays where it was. A and C differ in the first step alone: C relies on `.grad` being empty when
the loop begins. If a colleague has called `backward` before, A is right and C's first step goes astray. The memory
grows because `losses.append(loss)` keeps a tensor, and with it the graph back to the parameters, once per step.
`losses.append(loss.item())` keeps a number."
""",
)
