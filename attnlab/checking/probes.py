"""Probes: each calls the student's object on given inputs and returns what can be seen, as plain data.

A probe contains no answer. The same probe runs on the student's object and on the reference, and the two outcomes
are compared leaf by leaf. So a property such as "leaves its input as it was" needs no test code.

It runs in the student's process, so it concludes nothing: it returns raw results, and the inputs as they are after
the call. Conclusions are drawn in `attnlab.checking.probe_verdicts`, which the student's code cannot reach.

A case of an exercise on a class has an input `init`; then every probe gets the class as a function, see `Built`.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import inspect
import re
import threading
import time

import numpy as np

from attnlab.checking import codec

# What a student reads when one of these observations is not as it should be. {got} and {expected} are filled in.
PHRASES = {
    "changed": "It altered its input: {got}",
    "after": "It altered its input",
    "raises": "It raised {got} where it should raise {expected}",
    "moved": "When one input is replaced, the wrong entries of the result change",
    "moved clearly": "When one input is replaced, the wrong entries of the result change",
    "second call": "Called a second time on the same input, it gave a different result",
    "form": "It is {got} where {expected} was asked for",
    "kind": "It is {got} where {expected} was asked for",
    "in_time": "It took too long on large arrays",
    "sample": "It gave the wrong numbers on large arrays",
    "repeats": "Equal seeds of `rng` gave different results",
    "varies": "A different seed of `rng` gave the same result",
    "global_untouched": "It drew from NumPy's global random state, not from `rng`",
    "generator_repeats": "Equal seeds of `generator` gave different results",
    "generator_varies": "A different seed of `generator` gave the same result",
    "torch_untouched": "It drew from PyTorch's global random state, not from `generator`",
    "drawn": "It drew fewer numbers from `rng` than so many queries and keys need",
    "spread": "From seed to seed, the result does not vary as it would for that many independent pairs",
    "possible": "The set of tokens that can be drawn is not right",
    "frequencies": "The tokens are drawn with the wrong probabilities",
    "agrees": "With a cache it generated other tokens than without one, from the same random numbers",
    "again": "Called again, it generated other tokens: something is left over from the first call",
    "fed": "With a cache it fed {got} tokens to the model; {expected} are enough, each fed once",
    "device": "Its inputs were on a device other than the CPU (`{expected}`), but its result was not",
    "kept heads": "The cache was given nothing, or the wrong number of key/value heads",
    "kept": "The cache was given other tensors than it should keep",
    "given": "The modules in its list were called with other rows than those that are theirs",
    "caches": "Each call of the model should get one cache for each block, the same ones from call to call",
}
# Observations that tell a right answer from a wrong one but not one mistake from another: what a mistake leaves in them
# is arbitrary, or rounding decides it, and so the processor. Of a known mistake it is kept only whether they are right.
NO_SYMPTOM = {"after", "moved"}


def phrase(part: str, expected, got, words: str = "") -> str | None:
    """The words on a part of an outcome that is not as it should be; None where its name says all there is.

    words: those on the first difference within the part
    """
    if part.startswith("step "):
        return _step_phrase(part, expected, got, words)
    if part == "raises" and expected == "nothing":
        return f"It raised {_refusal(got)} on input that it should accept"
    if part == "raises" and got == "nothing":
        return f"It raised nothing where it should raise {str(expected)[:60]}"
    if part == "parameters":
        return _parameters_phrase(str(expected), str(got))
    words = PHRASES.get(part)
    return words and words.format(got=str(got)[:60], expected=str(expected)[:60])


def _parameters_phrase(expected: str, got: str) -> str:
    """The words on parameters that are not those asked for; where there are many, on those that differ alone."""
    if len(got) <= 200:
        return f"Its parameters are {got or 'none at all'}; the exercise asks for {expected}"
    asked, there = (re.findall(r"\S+ \([^)]*\)", text) for text in (expected, got))
    missing = [name for name in asked if name not in there]
    strange = [name for name in there if name not in asked]
    return "Its parameters are not those asked for: " + "; ".join(
        f"{words} {', '.join(names)[:200]}" for words, names in (("missing", missing), ("extra", strange)) if names
    )


def _refusal(got) -> str:
    """The name of an exception. PyTorch's RuntimeError counts as ValueError: which it was is not known."""
    return "ValueError or RuntimeError" if got == "ValueError" else str(got)[:60]


def _step_phrase(part, expected, got, words):
    """The words on one call of several, see `steps`. Errors are results there, written as the name of their type."""
    number, method = part.split(", ")
    if isinstance(expected, str):
        words = (
            f"it raised {got} where it should raise {expected}"
            if _is_error(got)
            else (f"it should have raised {expected}, but it returned something")
        )
    elif _is_error(got):
        words = f"it raised {_refusal(got)} on input that it should accept"
    return f"In {number} ({method}): {words}"


def _is_error(got) -> bool:
    return isinstance(got, str) and got.endswith("Error")


def discreet_phrase(part: str) -> str | None:
    """The same without anything that came from a student's process or from hidden inputs."""
    if part.startswith("step "):
        return "One of several calls in a row did not do what it should"
    words = {
        "fed": "With a cache, it fed more tokens than necessary",
        "changed": "It altered its input",
        "about": "It is too far from what it should be",
        "raises": "It accepted what it should refuse, or refused what it should accept",
        "parameters": "Its parameters are not those that are asked for",
        "form": "It is not made of plain lists",
        "kind": "It is not a whole number",
        "device": "Its inputs were on a device other than the CPU, but its result was not",
        "still": "The parameters stayed as they were",
        "returned": "The loss did not come as a plain number",
        "forward passes": "It did not call the model once per step",
        "mode": "It switched the model from training to evaluation mode",
    }
    return words.get(part) or ("A gradient is not right" if part.startswith("gradient") else PHRASES.get(part))


def call(f, **inputs):
    """The result of `f(**inputs)`."""
    return {"result": f(**inputs)}


def unchanged(f, **inputs):
    """The inputs as `f` left them, its result, and that of a second call.

    The result is included because doing nothing earns nothing, and the second one, on the same input,
    because something may be left over from the first.
    """
    again = copy.deepcopy(inputs)
    if isinstance(f, Built):  # both calls go to one object
        made, _ = f.make(inputs["init"], inputs.get("weights", {}))
        f = lambda init, weights=None, **given: made(**given)  # noqa: E731
    result = codec.copied(f(**inputs))
    return {"after": inputs, "result": result, "second call": f(**again)}


def whole(f, **inputs):
    """The result, which must be a whole number, or a tuple with some: 7.0 equals 7, but it cannot be an index."""
    return {"result": f(**inputs)}


def plain(f, **inputs):
    """The result, which must be a list of rows and not something that only compares equal to one."""
    return {"result": f(**inputs)}


def error_of(f, **inputs):
    """The type of the exception that `f(**inputs)` raises, or "nothing" and the result.

    PyTorch's own shape checks raise RuntimeError where NumPy raises ValueError, so the two count as the same; endless
    recursion does not. Refusing everything earns nothing: see `attnlab.checking.judge`.
    """
    try:
        result = f(**inputs)
    except (NotImplementedError, RecursionError, Unfit):
        raise
    except (ValueError, RuntimeError):
        return {"raises": "ValueError", "result": None}
    except Exception as error:
        return {"raises": type(error).__name__, "result": None}
    return {"raises": "nothing", "result": result}


def moved(f, **inputs):
    """The result on copies of the inputs. Called twice: the second time, one input is replaced."""
    return {"result": f(**copy.deepcopy(inputs))}


def seeded(f, *, seed, global_seed, **inputs):
    """The result with an `rng` of that seed, its state after the call, and the state of NumPy's global generator,
    which is also seeded. Called three times."""
    kept, rng = np.random.get_state(), np.random.default_rng(seed)
    try:
        np.random.seed(global_seed)
        result = codec.copied(f(**inputs, rng=rng))
        state = np.random.get_state()
    finally:
        np.random.set_state(kept)
    return {"result": result, "global": [state[1], int(state[2])], "rng": rng.bit_generator.state}


def lands_in(f, *, seed, **inputs):
    """The number that `f` draws with an `rng` of that seed. Called with several seeds, since a formula is not a
    sample."""
    return {"result": f(**inputs, rng=np.random.default_rng(seed))}


def in_time(f, *, seconds, seed, shapes, **inputs):
    """The result on large standard normal arrays, and the seconds of processor time that it took.

    shapes: name -> shape of each array to draw. The call is stopped at the limit; then there is no result.
    """
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=tuple(shape)) for name, shape in shapes.items()}
    begin, result = time.process_time(), None
    with contextlib.suppress(OutOfTime), _time_limit(seconds):
        result = np.asarray(f(**inputs, **arrays))
    return {"result": result, "seconds": time.process_time() - begin}


class OutOfTime(BaseException):
    """Raised inside a call that takes too long; not an Exception, so that `except Exception` does not catch it."""


WALL = 6  # a call may last this many times its processor time: a busy machine is not the answer's fault


@contextlib.contextmanager
def _time_limit(seconds):
    """Raises OutOfTime in this thread after that much processor time, between two bytecodes: it ends Python loops, not
    C calls. A thread that does not compute is stopped after WALL times as long."""
    thread = ctypes.c_ulong(threading.get_ident())
    used, last = time.process_time() + seconds, time.monotonic() + WALL * seconds
    lock, done = threading.Lock(), threading.Event()

    def watch():
        while time.process_time() < used and time.monotonic() < last:
            if done.wait(0.05):
                return
        with lock:
            if not done.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(OutOfTime))

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        with lock:
            done.set()


PHRASES["about"] = "It came out at about {got}, where about {expected} was expected"


def gradients(f, *, upstream, **inputs):
    """Gradients of `sum((output * upstream).sum())` over the outputs of `f`, one part for each.

    upstream: one tensor for each output
    The derivatives are taken for the inputs that are floating-point tensors and, for a class, the parameters in
    `weights`. If nothing depends on one of them, its gradient is 0.
    """
    import torch

    leaves = {
        name: value.clone().requires_grad_()
        for name, value in inputs.items()
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    }
    called = {**inputs, **leaves}
    if isinstance(f, Built):
        made, named = f.make(called.pop("init"), called.pop("weights", {}))
        leaves, f = leaves | named, made
    outputs = f(**called)
    if not isinstance(outputs, (tuple, list)):
        outputs = (outputs,)
    if len(outputs) != len(upstream) or not all(isinstance(output, torch.Tensor) for output in outputs):
        came = ", ".join(type(output).__name__ for output in outputs)[:80]
        wanted = "one tensor" if len(upstream) == 1 else f"{len(upstream)} tensors"
        raise Unfit(f"the result should be {wanted} that can be differentiated, not {came}")
    for output, weight in zip(outputs, upstream):
        if any(1 not in (a, b) and a != b for a, b in zip(output.shape[::-1], weight.shape[::-1])):
            raise Unfit(f"the result has shape {tuple(output.shape)} where {tuple(weight.shape)} was expected")
    total = sum((output * weight).sum() for output, weight in zip(outputs, upstream))
    if total.requires_grad:
        total.backward()
    if "*" in leaves:
        leaves["the parameter"] = leaves.pop("*")
    return {
        f"gradient with respect to {name}": torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        for name, leaf in leaves.items()
    }


class Unfit(Exception):
    """The probe cannot be run on this object at all; the message is a sentence for its author."""


class Built:
    """A class as a function of the arguments for making an object and for calling it.

    Called as `f(init=, weights=, **inputs)`: makes an object with the arguments `init`, loads `weights`, and returns
    what the object returns for `inputs`; with no inputs, the names and shapes of its parameters.

    weights: parameter name (`W_q.weight`) -> tensor; "*" stands for the only parameter, whatever its name. The object
        is brought to the dtype of the weights. Parameters that are not named get fixed numbers other than 0 and 1, so
        that an extra parameter shows, and in the same way each time.
    """

    def __init__(self, cls):
        self.cls = cls

    def make(self, init: dict, weights: dict):
        """An object of the class with these weights, and the parameters that got them. Raises Unfit if none fit."""
        import torch

        made = self.cls(**init)
        if not isinstance(made, torch.nn.Module):
            raise Unfit("it should be a class that extends nn.Module")
        for dtype in dict.fromkeys(weight.dtype for weight in weights.values()):
            made = made.to(dtype)
        parameters = _parameters_of(made, weights)
        named = {key: parameters.get(key) for key in weights}
        if "*" in weights:
            if len(parameters) != 1:
                raise Unfit(f"it should have one parameter; it has {len(parameters)}")
            named = {"*": next(iter(parameters.values()))}
        for key, parameter in named.items():
            if parameter is None:
                there = f"it has {', '.join(parameters)}"[:160] if parameters else "it has none at all"
                raise Unfit(f"it has no parameter `{key}`; {there}")
            if parameter.shape != weights[key].shape:
                which = "its parameter" if key == "*" else f"its parameter `{key}`"
                raise Unfit(
                    f"{which} has shape {tuple(parameter.shape)} where {tuple(weights[key].shape)} was expected"
                )
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
            return {"parameters": ", ".join(sorted(f"{name} {tuple(p.shape)}" for name, p in named.items()))}
        made, _ = self.make(init, weights or {})
        return made(**inputs)


def _parameters_of(module, wanted) -> dict:
    """The parameters of a module, each once. One with several names (`W_1.weight` is also `layers.0.weight`) goes by
    the wanted name, or else by the least nested one."""
    names = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return {min(each, key=lambda name: (name not in wanted, name.count("."))): p for p, each in names.items()}


def steps(f, *, init, steps):
    """What an object does when its methods are called one after another; `f` is its class.

    steps: list of {"do": method's name, or "len", and the method's arguments by name}
    A ValueError (or PyTorch's RuntimeError) is a result like any other, and the next step follows. Each result is
    copied right away.
    """
    made = f.cls(**init)
    seen = {}
    for number, step in enumerate(steps, start=1):
        arguments = {name: value for name, value in step.items() if name != "do"}
        try:
            result = len(made) if step["do"] == "len" else getattr(made, step["do"])(**arguments)
        except (NotImplementedError, RecursionError):
            raise
        except (ValueError, RuntimeError):
            result = "ValueError"
        except (AttributeError, TypeError) as error:
            if number == 1:
                raise
            result = type(error).__name__
        seen[f"step {number}, {step['do']}"] = codec.copied(result)
    return {**seen, "after": steps}  # at the end, because the last step may alter what the first was given


def in_chunks(f, *, init, cuts, weights=None, beside=None, kept=False, **inputs):
    """The output of a module that reads its input in chunks with a cache, the chunks' outputs put together; and how
    many heads each cache was given, or, with `kept`, all numbers that it holds in the end.

    inputs: the one that is cut, (batch, n, ...), and others that stay as they are; the first one given is cut
    cuts: where along n a new chunk begins, ascending; none means one pass with an empty cache
    beside: another input like the first, possibly of another batch size, cut in the same way and read in between with
        its own cache: neither output may depend on the other
    A class whose forward takes `caches` gets one for each of its `blocks`.
    """
    import inspect

    import torch

    from attnlab.checking.fakes import Room, lent

    made, _ = f.make(init, weights or {})
    plural = "caches" in inspect.signature(made.forward).parameters
    name = next(iter(inputs))
    streams = [value for value in (inputs.pop(name), beside) if value is not None]

    def cache(tokens):
        with lent():
            return {"caches": [Room(tokens) for _ in made.blocks]} if plural else {"cache": Room(tokens)}

    # More room than needed: tokens that are fed twice should change the numbers, not raise an exception.
    caches = [cache(4 * stream.shape[1]) for stream in streams]
    outputs = [[] for _ in streams]
    for start, end in zip([0, *cuts], [*cuts, None]):
        for stream, held, output in zip(streams, caches, outputs):
            result = made(**{name: stream[:, start:end]}, **inputs, **held)
            if not isinstance(result, torch.Tensor):
                raise Unfit(f"the result should be one tensor, not {type(result).__name__}")
            output.append(result.detach().clone())
    joined = [torch.cat(output, dim=1) for output in outputs]
    given = [room for room in caches[0].values() for room in (room if plural else [room])]
    result = joined[0] if beside is None else joined
    if kept:
        return {"result": result, "kept": [row.clone() for room in given for row in room.all()]}
    return {"result": result, "kept heads": [room.heads for room in given]}


def routed(f, *, init, inner, weights=None, **inputs):
    """The result of a module, and how many numbers each module of its list `inner` was called with, over all calls.

    A list of vectors, given one by one, counts as much as their table.
    """
    import torch

    made, _ = f.make(init, weights or {})
    parts = getattr(made, inner, None)
    if not isinstance(parts, torch.nn.ModuleList):
        raise Unfit(f"it should have `{inner}`, an nn.ModuleList; that is {type(parts).__name__}")
    given = [0] * len(parts)

    def count(at, args, named):
        given[at] += sum(value.numel() for value in (*args, *named.values()) if isinstance(value, torch.Tensor))

    for at, part in enumerate(parts):
        part.register_forward_pre_hook(lambda _, args, named, at=at: count(at, args, named), with_kwargs=True)
    return {"result": made(**inputs), "given": np.array(given)}


def frequencies(f, *, seed, draws, logits, **inputs):
    """The tokens drawn from `logits` (..., vocab_size), `draws` of them for each row, to be counted.

    Compare with an `atol` several times `1 / sqrt(draws)`, and let no possible token be so rare that it might not come.
    """
    import torch

    rows = logits.expand(draws, *logits.shape).clone()
    return {"result": f(logits=rows, generator=torch.Generator().manual_seed(seed), **inputs)}


def generator_seeded(f, *, seed, global_seed, **inputs):
    """The result with a `generator` of that seed, the state of PyTorch's global one, which is also seeded, and the
    inputs as `f` left them. Called three times."""
    import torch

    kept = torch.get_rng_state()
    try:
        torch.manual_seed(global_seed)
        result = codec.copied(f(**inputs, generator=torch.Generator().manual_seed(seed)))
        state = torch.get_rng_state()
    finally:
        torch.set_rng_state(kept)
    return {"result": result, "global": state, "after": inputs}


def written(f, *, vocab_size, n_blocks, ids, max_new_tokens, use_cache=None, temperature=0.0, seed=None):
    """What `f(model, ids, ...)` generates with a known model, in two calls; what the model was fed in the second, and
    with which caches.

    use_cache: None leaves it to the default of `f`, which should be to use one
    The model is `attnlab.checking.fakes.Oracle`. The second call must not depend on anything left over from the
    first, in
    the function or on the model. With a seed, it is also called with a different one, and with and without a cache,
    since the tokens drawn depend on PyTorch's random streams.
    """
    import torch

    from attnlab.checking.fakes import Oracle, lent

    with lent():
        model = Oracle(vocab_size, n_blocks)
    chosen = {} if use_cache is None else {"use_cache": use_cache}
    results = []
    for _ in ("first", "second"):
        model.fed, model.given = [], []
        if seed is not None:
            chosen |= {"temperature": temperature, "generator": torch.Generator().manual_seed(seed)}
        results.append(codec.copied(f(model=model, ids=ids.clone(), max_new_tokens=max_new_tokens, **chosen)))
    return {"results": results, "fed": model.fed, "given": model.given}


PHRASES["steady"] = "Called again on the same input, it gave a different result"


def repeated(f, *, init, training, weights=None, **inputs):
    """The results of two calls of one module, in training mode or in evaluation mode. Called twice for each."""
    made, _ = f.make(init, weights or {})
    made.train(training)
    return {"results": [codec.copied(made(**copy.deepcopy(inputs))) for _ in range(2)]}


PHRASES |= {
    "hoarded": "It kept all blocks instead of only what it needs from them",
    "memory in step": "For twice as many tokens it held far more than twice as many numbers at once",
    "work in step": "For twice as many tokens it computed far more than twice as many numbers",
}


def streamed(f, *, blocks=None, seed=None, count=0, size=0, every=1, **inputs):
    """The result of `f` on blocks that come one after the other and only once, and how many numbers it held at once.

    blocks: many, of one size; or, drawn as they come, `count` standard normal ones, each a view of `size` numbers
        that shows one in `every`: keeping a block takes much memory, and going through its numbers takes little time
    """
    import torch

    from attnlab.checking.meter import Meter, Others

    if blocks is not None:
        with Meter() as meter:
            result = f((block.clone() for block in blocks), **inputs)
        return {"result": result, "numbers": meter.numbers}
    rng = np.random.default_rng(seed)
    with Others() as peak:
        result = f((torch.from_numpy(rng.normal(size=size)[::every]) for _ in range(count)), **inputs)
    return {"result": result, "numbers": peak.numbers}


def growth(f, *, seed, n, shapes, counted, **inputs):
    """The result of `f` for n tokens, and how many numbers it held and computed. Called for n, 2n and a large number.

    shapes: name -> shape of each standard normal array to draw, with 0 for the number of tokens
    counted: whether to count what PyTorch holds and computes, which takes time, or what everything else holds
    """
    import torch

    from attnlab.checking.meter import Meter, Others

    rng = np.random.default_rng(seed)
    arrays = {name: torch.from_numpy(rng.normal(size=[size or n for size in shape])) for name, shape in shapes.items()}
    with Meter() if counted else Others() as seen:
        result = f(**arrays, **inputs)
    if not isinstance(result, torch.Tensor):
        raise Unfit(f"the result should be one tensor, not {type(result).__name__}")
    return {"result": result, "numbers": seen.numbers, "work": seen.work if counted else 0}


def with_stand_in(f, inputs: dict):
    """`f` and its inputs, with the feature map or the model that they describe: a case is plain data, and these are
    not."""
    import functools

    from attnlab.checking.fakes import FEATURE_MAPS, Heads, lent

    inputs = dict(inputs)
    if "feature_map" in inputs:
        f = functools.partial(f, feature_map=FEATURE_MAPS[inputs.pop("feature_map")])
    if "model" in inputs:
        with lent():
            inputs["model"] = Heads(inputs["model"])
    return f, inputs


PHRASES |= {
    "afterwards": "After the call, the model itself gave other logits than before",
    "hooks": "Hooks that were on the model before the call were gone afterwards",
}


def patched(f, *, model, **inputs):
    """The result of `f(model=model, ...)`; and after it the model's own logits for `ids`, and how often each hook was
    called that the model had from the beginning. See `attnlab.checking.fakes.Heads`."""
    import torch

    result = codec.copied(f(model=model, **{name: codec.copied(value) for name, value in inputs.items()}))
    model.called = [0] * len(model.called)
    with torch.no_grad():
        afterwards = model(inputs["ids"])
    return {"result": result, "afterwards": afterwards, "called": model.called}


PHRASES |= {
    "still": "The parameters stayed as they were: {got}",
    "returned": "The loss came as {got} where {expected} was asked for",
    "forward passes": "It called the model {got} times in one step; once is enough",
    "mode": "The model was in {got} mode during the step or after it, and it was given in {expected} mode",
}


def trained(f, *, layers, loss, optimizer, batches, frozen=0, left=None):
    """What `f(model, loss_fn, optimizer, x, y)` returns for each batch in turn, and what it does to the model.

    layers, loss: of `attnlab.checking.fakes`: see `Learner`, and a name in LOSSES
    optimizer: {"kind": a name in OPTIMIZERS, and its settings}
    batches: {"x", "y"} for each call
    frozen: so many layers, from the first one on, are not to be trained
    left: what is in the gradients before the first call, like `layers`; then nothing else clears them. With None they
        are cleared before each call.
    """
    import torch

    from attnlab.checking.fakes import LOSSES, OPTIMIZERS, Learner, lent

    with lent():
        model = Learner(layers)
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


def elsewhere(f, *, probe="call", **inputs):
    """What another probe sees of `f` if all inputs, and a module's parameters, are on a device other than the CPU
    whenever it is called; and the devices that its results were on. See `attnlab.checking.fake_device`."""
    import functools

    import torch
    from torch.utils._pytree import tree_iter

    from attnlab.checking.fake_device import Elsewhere, back, moved

    devices = set()

    def there(run):
        @functools.wraps(run)
        def called(*args, **given):
            with torch.no_grad(), Elsewhere():
                result = run(*moved(args), **moved(given))
                devices.update(leaf.device.type for leaf in tree_iter(result) if isinstance(leaf, torch.Tensor))
                return back(result)

        return called

    class There:
        """An object whose methods are called on the other device."""

        def __init__(self, made):
            self._made = moved(made) if isinstance(made, torch.nn.Module) else made

        def __getattr__(self, name):
            value = getattr(self._made, name)
            return there(value) if inspect.ismethod(value) else value

        def __call__(self, **given):
            return there(self._made)(**given)

        def __len__(self):
            return len(self._made)

    class BuiltThere(Built):
        def make(self, init, weights):
            made, named = super().make(init, weights)
            return There(made), named

    if not isinstance(f, Built):
        asked = there(f)
    elif probe == "steps":
        asked = Built(lambda **init: There(f.cls(**init)))
    else:
        asked = BuiltThere(f.cls)
    seen = globals()[probe](asked, **inputs)
    return {**seen, "device": sorted(devices)}
