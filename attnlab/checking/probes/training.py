"""Probes of gradients, and of functions that train a model for a step."""

from __future__ import annotations

from typing import Any

from attnlab.checking import codec
from attnlab.checking.compare import several_words
from attnlab.checking.formatting import kind_of
from attnlab.checking.probes.base import Part, Probe, bitwise_equal
from attnlab.checking.probes.class_as_function import ClassAsFunction, ProbeError


class Gradients(Probe):
    """Gradients of `sum((output * upstream).sum())` over the outputs, one part for each.

    upstream: one tensor for each output
    The derivatives are taken for the inputs that are floating-point tensors and, for a class, the parameters in
    `weights`. If nothing depends on one of them, its gradient is 0.
    """

    name = "gradients"
    parts = {"gradient": Part("", "A gradient is not right", numbers=True, common=True)}
    not_shown = frozenset({"upstream"})

    def call(self, f, *, upstream, **inputs):
        import torch

        leaves: dict[str, Any] = {
            name: value.clone().requires_grad_()
            for name, value in inputs.items()
            if isinstance(value, torch.Tensor) and value.is_floating_point()
        }
        called = {**inputs, **leaves}
        if isinstance(f, ClassAsFunction):
            made, named = f.make(called.pop("init"), called.pop("weights", {}))
            leaves, f = leaves | named, made
        returned = f(**called)
        outputs = returned if isinstance(returned, (tuple, list)) else (returned,)
        if len(outputs) != len(upstream) or not all(isinstance(output, torch.Tensor) for output in outputs):
            came = ", ".join(type(output).__name__ for output in outputs)[:80]
            if len(upstream) == 1:
                raise ProbeError(f"the result should be one tensor that can be differentiated, not {came}")
            if len(outputs) != len(upstream):
                raise ProbeError(several_words(len(upstream), returned))
            raise ProbeError(f"the result should be {len(upstream)} tensors, not {came}")
        for output, weight in zip(outputs, upstream):
            if any(1 not in (a, b) and a != b for a, b in zip(output.shape[::-1], weight.shape[::-1])):
                raise ProbeError(f"the result has shape {tuple(output.shape)} where {tuple(weight.shape)} was expected")
        total: Any = sum((output * weight).sum() for output, weight in zip(outputs, upstream))
        if total.requires_grad:
            total.backward()
        if "*" in leaves:
            leaves["the parameter"] = leaves.pop("*")
        return {
            f"gradient with respect to {name}": torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            for name, leaf in leaves.items()
        }


class TrainingSteps(Probe):
    """The results of `f(model, loss_fn, optimizer, x, y)` for each batch in turn, and its effects on the model.

    layers, loss: of `attnlab.checking.fakes`: see `TrackedMLP`, and a name in LOSSES
    optimizer: {"kind": a name in OPTIMIZERS, and its settings}
    batches: {"x", "y"} for each call
    frozen: so many layers, from the first one on, are not to be trained
    left: the gradients before the first call, like `layers`; then nothing else clears them. With None they
        are cleared before each call.
    watched: which parts are in the outcome. "result" and "returned" are of the first batch, the others of all together
    """

    name = "trained"
    parts = {
        "still": Part("The parameters stayed as they were: {got}", "The parameters stayed as they were"),
        "returned": Part(
            "The loss came as {got} where {expected} was asked for", "The loss did not come as a plain number"
        ),
        "forward passes": Part(
            "It called the model {got} times in one step; once is enough", "It did not call the model once per step"
        ),
        "mode": Part(
            "The model was in {got} mode during the step or after it, and it was given in {expected} mode",
            "It switched the model from training to evaluation mode",
        ),
    }
    not_shown = frozenset({"layers", "left", "batches"})

    def call(self, f, *, layers, loss, optimizer, batches, frozen=0, left=None):
        import torch

        from attnlab.checking.fakes import LOSSES, OPTIMIZERS, TrackedMLP, fakes_allowed

        with fakes_allowed():
            model = TrackedMLP(layers)
        model.layers[:frozen].requires_grad_(False)
        settings = {name: value for name, value in optimizer.items() if name != "kind"}
        steps = OPTIMIZERS[optimizer["kind"]](model.parameters(), **settings)
        parameters = [[layer.weight, layer.bias] for layer in model.layers]
        of_all = sum(parameters, [])

        def stepped(*_):
            found = any(p.grad is not None and bool(p.grad.any()) for p in of_all)
            model.happened.append("step" if found else "step without gradients")

        steps.register_step_post_hook(stepped)
        for parameter, gradient in zip(of_all, sum(left or [], [])):
            parameter.grad = gradient.clone()
        results, graphs = [], []
        for batch in batches:
            if left is None:
                for parameter in of_all:
                    parameter.grad = None
            with torch.enable_grad():
                result = f(model, LOSSES[loss], steps, batch["x"], batch["y"])
            graphs.append(isinstance(result, torch.Tensor) and result.requires_grad)
            results.append(codec.copied(result))
        return {
            "results": results,
            "graphs": graphs,
            "layers": parameters,
            "happened": model.happened,
            "modes": [*model.modes, model.training],
        }

    def conclude(self, raw, used, *, layers, watched, **case):
        (seen,) = raw
        found = {
            "result": seen["results"][0],
            "returned": _form_of_loss(seen["results"][0], seen["graphs"][0]),
            "still": _why_still(layers, seen),
            "forward passes": seen["happened"].count("forward"),
            "mode": "training" if all(seen["modes"]) else "evaluation",
        }
        parts = {part: found[part] for part in watched if part != "layers"}
        if "layers" in watched:
            parts |= {
                f"{kind} of layer {number}": parameter
                for number, layer in enumerate(seen["layers"], start=1)
                for kind, parameter in zip(("weight", "bias"), layer, strict=True)
            }
        return parts


def _form_of_loss(result, graph: bool) -> str:
    if hasattr(result, "detach"):
        return "a tensor that holds its graph" if graph else "a tensor"
    return kind_of(result)


def _why_still(layers, seen) -> str:
    """Say why no parameter has moved, or "moved"."""
    if not bitwise_equal(layers, seen["layers"]):
        return "moved"
    order = [event.partition(" ")[0] for event in seen["happened"]]
    if "backward" not in order:
        return "no gradient reached them"
    if "step" not in order:
        return "the optimizer made no step"
    if order.index("step") < order.index("backward"):
        return "the step came before the gradients"
    return "the step changed nothing" if "step" in seen["happened"] else "at the step there were no gradients left"
