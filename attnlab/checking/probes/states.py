"""The probe of a function that hands a state on from call to call."""

from __future__ import annotations

from attnlab.checking.probes.base import Part, Probe
from attnlab.checking.probes.class_as_function import ProbeError


class HandedOn(Probe):
    """The output of a function that reads its tokens in several calls, each with the state that the last one returned.

    The outputs are put together; besides, the state that the last call returned.

    handed: the name of the argument that takes the state
    given: the state of the first call; with None, it is called without
    along: name -> the axis of the tokens, for each input that is cut; the outputs have that of the first
    cuts: where along the tokens a new call begins, ascending; none means a single call
    wide: the state is float32 or wider; its numbers count, in whichever of the two
    only: "output" or "state", where the other of the two is not looked at
    """

    name = "handed_on"
    parts = {
        "width": Part(
            "The state came as {got} where {expected} was asked for", "The state is narrower than float32", verdict=True
        ),
    }

    not_shown = frozenset({"along", "handed"})

    def call(self, f, *, handed, along, cuts, given=None, **inputs):
        import torch

        outputs, last = [], {} if given is None else {handed: given}
        for start, end in zip([0, *cuts], [*cuts, None]):
            read = {
                name: value[(slice(None),) * along[name] + (slice(start, end),)] if name in along else value
                for name, value in inputs.items()
            }
            result = f(**read, **last)
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise ProbeError(f"the result should be two tensors, output and {handed}, not {_form(result)}")
            if not all(isinstance(each, torch.Tensor) for each in result):
                raise ProbeError(f"output and {handed} should be tensors, not {_form(result)}")
            outputs.append(result[0].detach().clone())
            last = {handed: result[1].detach()}
        axis = next(iter(along.values()))
        if any(output.ndim <= axis for output in outputs):
            raise ProbeError(f"the output has {outputs[0].ndim} axes")
        try:
            joined = torch.cat(outputs, dim=axis)
        except RuntimeError:
            shapes = " and ".join(str(tuple(output.shape)) for output in outputs[:2])
            raise ProbeError(f"the outputs of two calls in a row cannot be put together: {shapes}") from None
        return {"result": (joined, last[handed].clone())}

    def conclude(self, raw, used, *, wide=False, only=None, **case):
        import torch

        output, state = raw[0]["result"]
        if only == "output":
            return {"result": output}
        width = {}
        if wide:
            is_wide = state.dtype in (torch.float32, torch.float64)
            width = {"width": "float32 or wider" if is_wide else str(state.dtype).removeprefix("torch.")}
            state = state.double() if state.is_floating_point() else state
        return {**width, "result": state if only == "state" else (output, state)}

    def shown(self, case):
        named = {case["handed"] if name == "given" else name: value for name, value in case.items()}
        return super().shown(named)


def _form(result) -> str:
    if isinstance(result, (tuple, list)):
        kinds = ", ".join(type(each).__name__ for each in result[:4])
        return f"{len(result)} values ({kinds})"
    return type(result).__name__
