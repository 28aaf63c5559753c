"""Probes of functions that use a language model: they write text with it, or alter what happens inside."""

from __future__ import annotations

from attnlab.checking import codec
from attnlab.checking.probes.base import Part, Probe, bitwise_equal, shape_of
from attnlab.checking.probes.class_as_function import ProbeError


class Generation(Probe):
    """The tokens that `f(model, ids, ...)` generates with a known model in two calls.

    Besides: the tokens and caches that the model was given in the second call.

    use_cache: None leaves it to the default of `f`, which should be to use one
    The model is `attnlab.checking.fakes.ScriptedModel`. The second call must not depend on anything left over from the
    first, in the function or on the model. With a seed, it is also called with a different one, with and without a
    cache, and for a single token, since the tokens drawn depend on PyTorch's random streams.
    """

    name = "written"
    parts = {
        "again": Part(
            "Called again, it generated other tokens: it draws at random (is `temperature` passed on?), or something "
            "is left over from the first call"
        ),
        "fed": Part(
            "With a cache it fed {got} tokens to the model; {expected} are enough, each fed once",
            "With a cache, it fed more tokens than necessary",
        ),
        "caches": Part("Each call of the model should get one cache for each block, the same ones from call to call"),
        "generator_repeats": Part("Equal seeds of `generator` gave different results"),
        "generator_varies": Part("A different seed of `generator` gave the same result"),
        "goes on": Part(
            "After many tokens, `generator` was where it {got}: it must move on with every token, so draw from it "
            "directly, and do not seed it, set it back or copy it",
            "After many tokens, `generator` had not moved on with every token",
        ),
        "agrees": Part("With a cache it generated other tokens than without one, from the same random numbers"),
    }

    def call(self, f, ids, max_new_tokens, use_cache=None, temperature=0.0, *, vocab_size, n_blocks, seed=None):
        import torch

        from attnlab.checking.fakes import ScriptedModel, fakes_allowed

        with fakes_allowed():
            model = ScriptedModel(vocab_size, n_blocks)
        chosen = {} if use_cache is None else {"use_cache": use_cache}
        results, generator = [], None
        for _ in ("first", "second"):
            model.fed, model.given = [], []
            if seed is not None:
                generator = torch.Generator().manual_seed(seed)
                chosen |= {"temperature": temperature, "generator": generator}
            results.append(codec.copied(f(model=model, ids=ids.clone(), max_new_tokens=max_new_tokens, **chosen)))
        state = None if generator is None else generator.get_state()
        return {"results": results, "fed": model.fed, "given": model.given, "state": state}

    def ask(self, max_new_tokens, use_cache=None, *, seed=None, **inputs):
        inputs |= {"max_new_tokens": max_new_tokens}
        inputs |= {} if use_cache is None else {"use_cache": use_cache}
        if seed is None:
            return [inputs]
        other = {**inputs, "use_cache": use_cache is False}
        return [
            {**inputs, "seed": seed},
            {**inputs, "seed": seed + 1},
            {**other, "seed": seed},
            {**inputs, "seed": seed, "max_new_tokens": 1},
        ]

    def conclude(self, raw, used, ids, use_cache=None, temperature=0.0, *, n_blocks, seed=None, **case):
        import torch

        for result in (result for seen in raw for result in seen["results"]):
            if not isinstance(result, torch.Tensor) or result.ndim != 2:
                raise ProbeError(f"the result should be ids in one tensor (batch, n), not {shape_of(result)}")
        first, result = raw[0]["results"]
        fed, caches = raw[0]["fed"], raw[0]["given"]
        with_cache = use_cache is not False
        seen = {
            "fed": sum(fed) if with_cache else None,
            "caches": not with_cache
            or bool(caches)
            and all(len(set(given)) == n_blocks and given == caches[0] for given in caches),
        }
        if len(raw) == 1:
            return {"again": bitwise_equal(first, result), "result": result, **seen}
        return {
            "generator_repeats": bitwise_equal(first, result),
            "generator_varies": not bitwise_equal(result, raw[1]["results"][1]),
            # Near temperature 0 no luck is in a draw, so nothing need be drawn.
            "goes on": MOVED_ON if temperature < 0.01 else _moved(seed, raw[0]["state"], raw[3]["state"]),
            "agrees": bitwise_equal(result, raw[2]["results"][1]),
            "prompt": result[:, : ids.shape[1]],
            "length": result.shape[1],
            **seen,
        }


MOVED_ON = "should be"


def _moved(seed: int | None, after_many, after_one) -> str:
    """Where a generator with this seed was after many tokens, given its states after many and after one."""
    import torch

    if bitwise_equal(after_many, torch.Generator().manual_seed(seed or 0).get_state()):
        return "was at the start"
    return "is after a single token" if bitwise_equal(after_many, after_one) else MOVED_ON


class Patching(Probe):
    """The result of `f(model, ids, ...)`, and the state of the model afterwards.

    That is the model's own logits for `ids`, whether it has the hooks that it had from the beginning and no others, and
    whether its parameters can still be trained.
    See `attnlab.checking.fakes.TinyModel`.

    unknown_id_in: the name of a text that gets an id outside the vocabulary, so that the model cannot read it. What is
        raised then does not matter
    """

    name = "patched"
    parts = {
        "afterwards": Part("After the call, the model itself gave other logits than before"),
        "hooks": Part("Hooks that were on the model before the call were gone afterwards"),
        "own hooks": Part("A hook of yours was still on the model after the call"),
        "trainable": Part("After the call, parameters of the model could no longer be trained (`requires_grad`)"),
        "after an error": Part(
            "When the model could not read a text and raised an error, what you had put on the model stayed on it. "
            "Remove it in a `finally`, or put it on in a `with`"
        ),
    }

    def call(self, f, model, ids, *, unknown_id_in=None, **inputs):
        import torch

        copies = {name: codec.copied(value) for name, value in {"ids": ids, **inputs}.items()}
        if unknown_id_in is not None:
            copies[unknown_id_in][:, -1] = model.embedding.num_embeddings
        hooks, result = _count_hooks(model), None
        try:
            result = codec.copied(f(model=model, **copies))
        except (NotImplementedError, ProbeError):
            raise
        except Exception:
            if unknown_id_in is None:
                raise
        model.called = [0] * len(model.called)
        with torch.no_grad():
            afterwards = model(ids)
        more = _count_hooks(model) > hooks
        trainable = all(parameter.requires_grad for parameter in model.parameters())
        state = {"called": model.called, "more": more, "trainable": trainable}
        return {"result": result, "afterwards": afterwards, **state}

    def conclude(self, raw, used, *, unknown_id_in=None, **case):
        (seen,) = raw
        hooks = {"hooks": set(seen["called"]) == {1}, "trainable": seen["trainable"]}
        if unknown_id_in is not None:
            return {**hooks, "after an error": "hooks" if seen["more"] else "", "afterwards": seen["afterwards"]}
        return {"result": seen["result"], "afterwards": seen["afterwards"], **hooks, "own hooks": not seen["more"]}


def _count_hooks(model) -> int:
    return sum(len(part._forward_pre_hooks) + len(part._forward_hooks) for part in model.modules())
