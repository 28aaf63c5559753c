"""The probe of whether narrow numbers are computed with in a wider dtype."""

from __future__ import annotations

from attnlab.checking.probes.base import Part, Probe
from attnlab.checking.probes.class_as_function import ProbeError

# The error of a result that is rounded once is spread evenly over half a step to both sides: 0.29 steps on average
# (root mean square). Two roundings give 0.41, a computation in bfloat16 itself 0.6 and more.
MOST_STEPS = 0.5


class Widened(Probe):
    """The result for narrow inputs, and whether it is as exact as the answer's own one in float32, rounded at the end.

    Inputs have at least a hundred numbers, so that the average error tells.
    """

    name = "widened"
    parts = {
        "exact": Part(
            "The result is less exact than if all was computed in float32 and rounded at the end: something on the way "
            "is computed in the narrow dtype",
            verdict=True,
        )
    }

    def ask(self, **inputs):
        import torch

        def widened(value):
            return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        return [inputs, {name: widened(value) for name, value in inputs.items()}]

    def conclude(self, raw, used, **case):
        import torch

        narrow, wide = (seen["result"] for seen in raw)
        if not all(isinstance(result, torch.Tensor) and result.is_floating_point() for result in (narrow, wide)):
            raise ProbeError("the result should be one tensor of floats")
        if narrow.shape != wide.shape:
            return {"result": narrow, "exact": False}
        _, exponent = torch.frexp(wide)
        step = torch.finfo(narrow.dtype).eps * torch.ldexp(torch.ones_like(wide), exponent - 1)
        errors = ((narrow.to(wide.dtype) - wide) / step).nan_to_num(nan=1e3, posinf=1e3, neginf=1e3)
        exact = narrow.dtype == wide.dtype or bool(errors.square().mean().sqrt() < MOST_STEPS)
        return {"result": narrow, "exact": exact}
