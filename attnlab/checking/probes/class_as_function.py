"""A class as a function, so that probes call it as they call a function."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


KEEP = "In `__init__`, keep the names and sizes that the exercise gives"


class ProbeError(Exception):
    """A probe cannot be run on this object at all; the message is a sentence for its author."""


class ClassAsFunction:
    """A class as a function of the arguments for making an object and for calling it.

    Called as `f(init=, weights=, **inputs)`: makes an object with the arguments `init`, loads `weights`, and returns
    what the object returns for `inputs`; with no inputs, the names and shapes of its parameters.

    weights: parameter name (`W_q.weight`) -> tensor; "*" stands for the only parameter, under any name. The object
        is brought to the dtype of the weights. Parameters that are not named get fixed numbers other than 0 and 1, so
        that an extra parameter shows, and in the same way each time.
    """

    def __init__(self, cls):
        self.cls = cls

    def make(self, init: dict[str, Any], weights: dict[str, torch.Tensor]) -> tuple[Any, dict[str, torch.nn.Parameter]]:
        """An object of the class with these weights, and the parameters that got them.

        Raises ProbeError if none fit.
        """
        import torch

        made = self.cls(**init)
        if not isinstance(made, torch.nn.Module):
            raise ProbeError("it should be a class that extends nn.Module")
        for dtype in dict.fromkeys(weight.dtype for weight in weights.values()):
            made = made.to(dtype)
        parameters = _parameters_of(made, weights)
        if "*" in weights:
            if len(parameters) != 1:
                raise ProbeError(f"it should have one parameter; it has {len(parameters)}")
            wanted = {"*": next(iter(parameters.values()))}
        else:
            wanted = {key: parameters.get(key) for key in weights}
        named: dict[str, torch.nn.Parameter] = {}
        for key, parameter in wanted.items():
            if parameter is None:
                if key in (shared := _shared(made, weights)):
                    raise ProbeError(f"its `{key}` is the same parameter as `{shared[key]}`: each needs one of its own")
                there = f"it has {', '.join(parameters)}"[:160] if parameters else "it has none at all"
                raise ProbeError(f"it has no parameter `{key}`; {there}. {KEEP}")
            if parameter.shape != weights[key].shape:
                which = "its parameter" if key == "*" else f"its parameter `{key}`"
                raise ProbeError(
                    f"{which} has shape {tuple(parameter.shape)} where {tuple(weights[key].shape)} was expected. {KEEP}"
                )
            named[key] = parameter
        with torch.no_grad():
            for parameter in parameters.values():
                numbers = torch.linspace(-0.7, 0.9, parameter.numel(), dtype=torch.float64)
                parameter.copy_(numbers.reshape(parameter.shape))
            for key, parameter in named.items():
                parameter.copy_(weights[key])
        return made, named

    def __call__(self, *, init, weights=None, **inputs):
        if not inputs:
            made, _ = self.make(init, {})
            named = _parameters_of(made, weights or {})
            found = [f"{name} {tuple(p.shape)}" for name, p in named.items()]
            found += [f"{name} is {other}" for name, other in _shared(made, weights or {}).items()]
            return {"parameters": ", ".join(sorted(found))}
        made, _ = self.make(init, weights or {})
        return made(**inputs)


def _parameters_of(module: torch.nn.Module, wanted: Collection[str]) -> dict[str, torch.nn.Parameter]:
    """The parameters of a module, each once.

    One with several names (`W_1.weight` is also `layers.0.weight`) goes by the wanted name, or else by the least nested
    one.
    """
    names = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return {min(each, key=lambda name: (name not in wanted, name.count("."))): p for p, each in names.items()}


def _shared(module: torch.nn.Module, wanted: Collection[str]) -> dict[str, str]:
    """Wanted names of parameters that are another wanted parameter, and which."""
    first, shared = {}, {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if name in wanted and first.setdefault(parameter, name) != name:
            shared[name] = first[parameter]
    return shared


def parameters_phrase(found) -> str:
    """The words on parameters that are not those asked for; where there are many, on those that differ alone."""
    expected, got = str(found.expected), str(found.got)
    if len(got) <= 200:
        return f"Its parameters are {got or 'none at all'}; the exercise asks for {expected}"
    asked, there = (re.findall(r"\S+ \([^)]*\)", text) for text in (expected, got))
    missing = [name for name in asked if name not in there]
    strange = [name for name in there if name not in asked]
    return "Its parameters are not those asked for: " + "; ".join(
        f"{words} {', '.join(names)[:200]}" for words, names in (("missing", missing), ("extra", strange)) if names
    )
