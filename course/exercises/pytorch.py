"""The exercise of the primer on PyTorch: one step of training on one batch.

A model, a loss and an optimizer are not plain data, so a case names what they are made of:
`attnlab.checking.probes.trained`.
"""

import torch
import torch.nn.functional as F

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import pytorch as solutions

STEP = "A module and an optimizer"
CLEAR = "Gradients add up"
PAPER = "The same in PyTorch"
LOOP = "The step in a loop"

training_step = Exercise(solutions.training_step, section=STEP, minutes=10, difficulty=1)


def _layers(rng, *widths):
    """[weight, bias] of linear layers from each width to the next."""
    return [[normal(rng, n, m) / m**0.5, normal(rng, n)] for m, n in zip(widths, widths[1:])]


def _squared(rng, layers, rows):
    """A batch for the squared error. The targets are far away, so that the gradients are large."""
    (n_out, _), n_in = layers[-1][0].shape, layers[0][0].shape[1]
    return {"x": normal(rng, rows, n_in), "y": 10 + 3 * normal(rng, rows, n_out)}


def _classes(rng, layers, rows):
    (n_out, _), n_in = layers[-1][0].shape, layers[0][0].shape[1]
    return {"x": normal(rng, rows, n_in), "y": torch.from_numpy(rng.integers(n_out, size=rows))}


def _chances(rng, layers, rows):
    (n_out, _), n_in = layers[-1][0].shape, layers[0][0].shape[1]
    return {"x": normal(rng, rows, n_in), "y": torch.from_numpy(rng.uniform(0.1, 0.9, size=(rows, n_out)))}


def _case(layers, batches, *watched, loss="mse_loss", kind="SGD", lr=0.05, frozen=0, left=None, **settings):
    return dict(
        layers=layers,
        batches=batches,
        loss=loss,
        optimizer=dict(kind=kind, lr=lr, **settings),
        frozen=frozen,
        left=left,
        watched=list(watched),
    )


MOVED = ("still", "layers")


@training_step.property(
    "returns the loss of the batch before the step",
    points=2,
    probe=probes.trained,
    hint="Compute the loss once, as loss_fn(model(x), y), and return that number.",
)
def loss_before(rng):
    layers = _layers(rng, 3, 1)
    yield _case(layers, [_squared(rng, layers, 5)], "result")
    layers = _layers(rng, 3, 6, 4)
    yield _case(layers, [_classes(rng, layers, 7)], "result", loss="cross_entropy")


@training_step.property(
    "moves every parameter by one step against the gradient",
    points=2,
    probe=probes.trained,
    hint="Gradients first, with `backward` on the loss; then `optimizer.step()`, once.",
)
def one_step(rng):
    layers = _layers(rng, 3, 1)
    yield _case(layers, [_squared(rng, layers, 5)], *MOVED)
    layers = _layers(rng, 2, 5, 3)
    yield _case(layers, [_squared(rng, layers, 4)], *MOVED, lr=0.01)


@training_step.property(
    "starts from gradients of zero, whatever was left in them",
    points=2,
    probe=probes.trained,
    hint="`backward` adds to what is in `.grad`. Empty it before, at each call: `optimizer.zero_grad()`.",
)
def from_zero(rng):
    layers = _layers(rng, 3, 1)
    yield _case(layers, [_squared(rng, layers, 5)], *MOVED, left=_layers(rng, 3, 1))
    layers = _layers(rng, 2, 4, 3)
    batches = [_classes(rng, layers, rows) for rows in (5, 6, 4)]
    yield _case(layers, batches, *MOVED, loss="cross_entropy", left=_layers(rng, 2, 4, 3))


@training_step.property(
    "steps with the optimizer that it is given",
    points=2,
    probe=probes.trained,
    hint="The optimizer holds the learning rate and its averages over earlier steps. Only its own `step` uses both.",
)
def given_optimizer(rng):
    for settings in (dict(kind="Adam", lr=0.03), dict(momentum=0.9, lr=0.02), dict(kind="AdamW", weight_decay=0.3)):
        layers = _layers(rng, 2, 3)
        yield _case(layers, [_squared(rng, layers, 4) for _ in range(3)], *MOVED, **settings)


@training_step.property(
    "hands prediction and target to `loss_fn` in this order",
    points=1,
    probe=probes.trained,
    hint="A loss of PyTorch takes the model's prediction first and the target second, each as it is.",
)
def order_of_arguments(rng):
    layers = _layers(rng, 2, 3)
    yield _case(layers, [_chances(rng, layers, 4)], *MOVED, loss="binary_cross_entropy_with_logits", lr=0.5)
    layers = _layers(rng, 3, 4)
    yield _case(layers, [_classes(rng, layers, 5)], *MOVED, loss="cross_entropy", lr=0.5)


@training_step.property(
    "leaves a frozen layer as it is",
    points=1,
    probe=probes.trained,
    hint="What is frozen has no gradient, so its `.grad` stays None. Leave both to the optimizer.",
)
def frozen_layer(rng):
    layers = _layers(rng, 2, 4, 3)
    yield _case(layers, [_squared(rng, layers, 5)], *MOVED, frozen=1, lr=0.02, weight_decay=0.5)


@training_step.property(
    "calls the model once, in the mode in which it is given",
    points=1,
    probe=probes.trained,
    hint="One forward pass gives the loss that you differentiate and the number that you return. `model.eval()` is for "
    "testing a model.",
)
def one_pass(rng):
    layers = _layers(rng, 3, 2)
    yield _case(layers, [_squared(rng, layers, 4)], "forward passes", "mode")


@training_step.property(
    "returns a plain number",
    points=1,
    probe=probes.trained,
    hint="`loss.item()` takes the number out of a tensor, and leaves the graph behind.",
)
def plain_number(rng):
    layers = _layers(rng, 3, 2)
    yield _case(layers, [_squared(rng, layers, 6)], "result", "returned")


@training_step.misconception(
    "`zero_grad` is missing. `backward` adds to what is in `.grad` already, so the step also follows the gradients of "
    "all batches before it.",
    section=CLEAR,
)
def never_cleared(model, loss_fn, optimizer, x, y):
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


@training_step.misconception(
    "The gradients are cleared between `backward` and `step`, so the optimizer finds none, and nothing moves. Clear "
    "them before `backward`.",
    section=CLEAR,
)
def cleared_too_late(model, loss_fn, optimizer, x, y):
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


@training_step.misconception(
    "The gradients are cleared only after the step. Whatever was in `.grad` before your first call is still there when "
    "`backward` adds to it. Clear them first.",
    section=CLEAR,
)
def cleared_after_the_step(model, loss_fn, optimizer, x, y):
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@training_step.misconception(
    "`optimizer.step()` is missing. The gradients are there, but no parameter moves: `backward` computes, `step` moves."
)
def no_step(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    return loss.item()


@training_step.misconception(
    "No gradient reaches the parameters, so the step moves nothing. Either `backward` is missing, or it is called on a "
    "tensor that was not computed from them. Call it on the loss of this model.",
    section=PAPER,
)
def no_backward(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    optimizer.step()
    return loss.item()


@training_step.misconception(
    "The step comes before `backward`, when there are no gradients yet. First clear, then `backward`, then `step`."
)
def step_before_backward(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    optimizer.step()
    loss.backward()
    return loss.item()


@training_step.misconception("Two steps are made on one batch. A call should make one; the loop around it makes many.")
def twice(model, loss_fn, optimizer, x, y):
    solutions.training_step(model, loss_fn, optimizer, x, y)
    return solutions.training_step(model, loss_fn, optimizer, x, y)


@training_step.misconception(
    "`step` is called twice after one `backward`, so the parameters go twice as far. One call, one step."
)
def stepped_twice(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.step()
    return loss.item()


@training_step.misconception(
    "The loss is computed again after the step. That costs a second forward pass, and it is not the loss whose "
    "gradient was taken. Keep the first one."
)
def loss_after_the_step(model, loss_fn, optimizer, x, y):
    solutions.training_step(model, loss_fn, optimizer, x, y)
    return loss_fn(model(x), y).item()


@training_step.misconception(
    "The model is called twice, once for the number that is returned and once for the gradient. One forward pass gives "
    "both, at half the cost."
)
def a_second_forward_pass(model, loss_fn, optimizer, x, y):
    before = loss_fn(model(x), y).item()
    solutions.training_step(model, loss_fn, optimizer, x, y)
    return before


@training_step.misconception(
    "The loss is returned as a tensor that still holds its graph. Adding such losses up, or keeping them in a list, "
    "keeps every step's graph in memory. `loss.item()` is the number alone.",
    section=LOOP,
)
def with_its_graph(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@training_step.misconception(
    "The loss has lost its graph, but it is still a tensor. Return a plain number: `loss.item()`.",
    section=LOOP,
)
def a_tensor_without_graph(model, loss_fn, optimizer, x, y):
    return torch.tensor(solutions.training_step(model, loss_fn, optimizer, x, y))


@training_step.misconception(
    "`.item()` comes too early: a plain number has no graph and no `backward`. Call `backward` on the tensor, and take "
    "the number out at the end.",
    section=PAPER,
)
def item_too_early(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y).item()
    loss.backward()
    optimizer.step()
    return loss


@training_step.misconception(
    "The loss is cut off from the parameters before `backward`: by `detach`, by `.data`, or by a forward pass under "
    "`torch.no_grad()`. Without the graph, `backward` cannot get back to them.",
    section=PAPER,
)
def cut_off(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    with torch.no_grad():
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


@training_step.misconception(
    "The model is switched to evaluation mode, in which dropout does nothing. Leave the mode as the caller has set it.",
    section=LOOP,
)
def in_evaluation_mode(model, loss_fn, optimizer, x, y):
    model.eval()
    return solutions.training_step(model, loss_fn, optimizer, x, y)


@training_step.misconception(
    "Target and prediction are swapped. The squared error does not notice, most other losses do: the prediction comes "
    "first."
)
def swapped(model, loss_fn, optimizer, x, y):
    return solutions.training_step(model, lambda prediction, target: loss_fn(target, prediction), optimizer, x, y)


@training_step.misconception(
    "The squared error is computed, whatever `loss_fn` is. The caller decides which loss to use: call `loss_fn`."
)
def always_squared(model, loss_fn, optimizer, x, y):
    return solutions.training_step(model, F.mse_loss, optimizer, x, y)


@training_step.misconception(
    "A softmax is applied before the loss. Give `loss_fn` the model's output as it is: `cross_entropy` has a softmax "
    "inside, and other losses need none."
)
def softmax_between(model, loss_fn, optimizer, x, y):
    return solutions.training_step(
        model, lambda prediction, target: loss_fn(prediction.softmax(dim=-1), target), optimizer, x, y
    )


@training_step.misconception(
    "The prediction is squeezed. Shapes (n,) and (n, 1) broadcast to (n, n), so each prediction is compared with every "
    "target. Pass the prediction on as it is."
)
def squeezed(model, loss_fn, optimizer, x, y):
    return solutions.training_step(
        model, lambda prediction, target: loss_fn(prediction.squeeze(), target), optimizer, x, y
    )


@training_step.misconception(
    "The loss is divided by the number of rows. `loss_fn` has already taken the mean over the batch."
)
def mean_of_the_mean(model, loss_fn, optimizer, x, y):
    return solutions.training_step(
        model, lambda prediction, target: loss_fn(prediction, target) / len(x), optimizer, x, y
    )


@training_step.misconception(
    "The loss that is returned is multiplied by the number of rows. Return the value of `loss_fn` as it is."
)
def total_returned(model, loss_fn, optimizer, x, y):
    return solutions.training_step(model, loss_fn, optimizer, x, y) * len(x)


@training_step.misconception("The loss is rounded. Rounding is for printing; return the number as it is.")
def rounded(model, loss_fn, optimizer, x, y):
    return round(solutions.training_step(model, loss_fn, optimizer, x, y), 4)


@training_step.misconception(
    "The step goes uphill: it follows the gradient of minus the loss, so the loss grows. The minus sign is already in "
    "the optimizer's step."
)
def uphill(model, loss_fn, optimizer, x, y):
    return -solutions.training_step(model, lambda prediction, target: -loss_fn(prediction, target), optimizer, x, y)


@training_step.misconception(
    "The gradients are clipped before the step. Large models are often trained with clipping, but it changes where the "
    "step goes, and this exercise does not ask for it."
)
def clipped(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


@training_step.misconception(
    "A new optimizer is made in each call. It has another learning rate, and it loses the averages that the caller's "
    "optimizer keeps from step to step. Use the one that is given."
)
def an_optimizer_of_its_own(model, loss_fn, optimizer, x, y):
    return solutions.training_step(model, loss_fn, torch.optim.Adam(model.parameters()), x, y)


@training_step.misconception(
    "The parameters are moved by hand: learning rate times gradient. That is what plain SGD does. Adam, momentum and "
    "weight decay do more, so leave the step to `optimizer.step()`."
)
def by_hand(model, loss_fn, optimizer, x, y):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= optimizer.param_groups[0]["lr"] * parameter.grad
    return loss.item()


@training_step.misconception(
    "The parameters themselves are set to zero, so what they have learned is lost. Clear their gradients instead.",
    section=CLEAR,
)
def parameters_cleared(model, loss_fn, optimizer, x, y):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return solutions.training_step(model, loss_fn, optimizer, x, y)


@training_step.misconception(
    "`.grad` is None before the first `backward`, and always for a frozen parameter, so `.grad.zero_()` fails. "
    "`optimizer.zero_grad()` handles both.",
    section=CLEAR,
)
def cleared_in_place(model, loss_fn, optimizer, x, y):
    for parameter in model.parameters():
        parameter.grad.zero_()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


@training_step.misconception(
    "Zeros are written into the `.grad` of every parameter, frozen ones too. The optimizer takes them for gradients, "
    "and weight decay then moves what should stay. Use `optimizer.zero_grad()`.",
    section=CLEAR,
)
def zeros_for_all(model, loss_fn, optimizer, x, y):
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


@training_step.misconception(
    "`requires_grad` is switched on for every parameter, so layers that the caller has frozen are trained as well. "
    "Leave it as it is."
)
def everything_learns(model, loss_fn, optimizer, x, y):
    model.requires_grad_(True)
    return solutions.training_step(model, loss_fn, optimizer, x, y)


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **Which loops train.** A (clear, backward, step) and C (backward, step, clear) do; B (backward, clear, step) does
   not: the optimizer finds no gradients, so no parameter ever moves and the loss stays where it was, without any error.
2. **What tells A from C.** Nothing from the second step on. In the first step C also follows whatever was in `.grad`
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
