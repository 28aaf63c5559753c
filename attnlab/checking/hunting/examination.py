"""Examine a test that a student has written: it is tried on right and wrong implementations.

`test_softmax(softmax)` accepts an implementation by returning and rejects it by raising. The public check makes its
implementations from the student's own right answer: variants that keep the contract, and wrong ones with one change in
the source or in the behavior. Only those count as wrong that fail the exercise's own public cases when they are called
as a test calls them (see `attnlab.checking.hunting.opaque`). Hidden tests use the course's right answers and mistakes.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import linecache
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnlab.checking import code_slice, diagnosis
from attnlab.checking.compare import difference
from attnlab.checking.hunting import mutants
from attnlab.checking.hunting.opaque import Host, opaque, verdict
from attnlab.checking.judge import Finding, Report, is_stubs_own, no_answer, smallest_first
from attnlab.checking.observe import describe_error, outcome_of, source_file
from attnlab.checking.schema import Contract, Material, Property
from attnlab.checking.time_limit import CASE_SECONDS, TimeLimit

ACCEPTS, FINDS = "accepts every right implementation", "rejects wrong implementations"
ENOUGH = 0.95  # a test that rejects this share of the wrong implementations has all points
MOST_WRONG = 30  # in a public check, so that it takes seconds
MOST_TOKENS = 4096  # of an implementation with a limited length
LIMITED_LENGTH, IDLE = "a length that is limited", "a method that does nothing"
SHARED = "something that two objects share"
SEARCH_SECONDS = 20.0  # of processor time, in which mutants are tried on the public cases


@dataclass(frozen=True)
class Implementation:
    """One implementation that a test is tried on.

    kind: the class of its mistake, a key of HINTS; empty if it is right
    words: how a right one differs from what a student would write
    make: returns it, fresh, so that nothing is kept from an earlier verdict
    """

    make: Callable[[], Callable]
    kind: str = ""
    words: str = ""


RETURNED = (
    "It returns False, but what a test returns does not count. A test rejects by raising: write assert in place of "
    "return."
)
HINTS = {
    "a number that is off by one": "Try the smallest sizes and lengths, and larger ones too; leave each optional "
    "argument out once, and compare with numbers on paper.",
    "an axis or a shape": "Try every number of axes that the contract allows, with sizes that all differ, and each "
    "argument that names an axis.",
    "a sign or an operator": "Compare with numbers that you have computed on paper, negative ones among them.",
    "a step that is left out": "List what the contract says step by step, and try an input for each step that gives "
    "another result without it: very large numbers, whole numbers, what is empty, what must be refused.",
    "two things exchanged": "Give arguments that could be confused different values, and different sizes.",
    "an argument that is ignored": "Call it twice with two values of each optional argument, and leave each out once.",
    "something kept between calls": "Call it twice with different inputs of the same shape, and with the first again.",
    SHARED: "Make a second object when the first has been used. It begins like the first, and gives back only its own.",
    "an input that is changed": "Keep a copy of each input, and compare after the call.",
    "the type of the result": "Look at the dtype and at the shape of the result, for each dtype that the contract "
    "allows.",
    IDLE: "Call each method, and look at what has changed after it.",
    LIMITED_LENGTH: "Try thousands of tokens, in several calls, and look at the first ones as well as the last.",
    "what is refused": "Try each input that the contract refuses, each argument separately, and look at what is left "
    "behind after a refusal.",
}
KINDS = {
    "constant": "a number that is off by one",
    "slice bound": "a number that is off by one",
    "bound": "a number that is off by one",
    "comparison": "a number that is off by one",
    "axis": "an axis or a shape",
    "transpose": "an axis or a shape",
    "operator": "a sign or an operator",
    "sign or not dropped": "a sign or an operator",
    "operands exchanged": "a sign or an operator",
    "mask inverted": "a sign or an operator",
    "condition": "a sign or an operator",
    "finite": "a sign or an operator",
    "statement dropped": "a step that is left out",
    "operand dropped": "a step that is left out",
    "call dropped": "a step that is left out",
    "argument dropped": "a step that is left out",
    "condition dropped": "a step that is left out",
    "branch": "a step that is left out",
    "items exchanged": "two things exchanged",
    "arguments exchanged": "two things exchanged",
    "name": "two things exchanged",
    "neighbor": "two things exchanged",
    "refusal": "what is refused",
}


# Verdicts and the report ----------------------------------------------------------------------------------------------


def report_of(
    material: Material,
    right: Sequence[tuple[str, dict[str, Any] | None]],
    wrong: Sequence[tuple[str, dict[str, Any] | None]],
    public: bool = False,
) -> Report:
    """The report on a test.

    right, wrong: the words of each right implementation, or the kind of each wrong one, and the verdict on it; None if
        there was none
    public: whether full marks need one of each class of wrong ones, since in a public check a class may have a single
        one, which is less than what `ENOUGH` forgives
    """
    properties = material["properties"]
    points = sum(prop["points"] for prop in properties)
    came = [each for _, each in [*right, *wrong] if each]
    if came and all(each["error"] and is_stubs_own(each["error"]) for each in came):
        return _not_done(material)
    accepted = [each for _, each in right if each and each["accepted"]]
    rejected = [(words, each) for words, each in right if not (each and each["accepted"])]
    found = sum(1 for _, each in wrong if each and not each["accepted"])
    share = min(1.0, found / max(1, len(wrong)) / ENOUGH)
    missed = [kind for kind, each in wrong if not each or each["accepted"]]
    unseen = {kind for kind, _ in wrong} - {kind for kind, each in wrong if each and not each["accepted"]}
    if public and unseen:
        share, missed = found / len(wrong), [kind for kind in missed if kind in unseen]
    first = Finding(ACCEPTS, not rejected, 0.0, 0.0, observed=True)
    if rejected:
        first.kind, (words, each) = "value", rejected[0]
        first.detail = f"It accepted {len(accepted)} of {len(right)} right ones. " + _rejection(words, each)
    earned = 0.0 if rejected else round(points * share, 1)
    second = Finding(FINDS, share == 1.0 and not rejected, earned, points, observed=True)
    if rejected:
        second.kind, second.detail = "value", "This counts once every right one is accepted."
    elif share < 1.0:
        second.kind = "value"
        second.detail = f"It rejected {found} of {len(wrong)} wrong ones. One that got away: {missed[0]}."
        second.hint = HINTS.get(missed[0], "")
    return Report(material["name"], points, material["bonus"], [first, second])


def _rejection(words: str, found: dict[str, Any] | None) -> str:
    """Sentences on a right implementation that was not accepted. An error of the test's own does not judge it."""
    one = words.removeprefix("is ") if words.startswith("is ") else f"one that {words}"
    cost = "A test that rejects what the contract allows earns nothing."
    if found is None:
        return f"It ran out of time on {one}. {cost}"
    error = found["error"]
    line = f" in line {error['line']}" if error["line"] else ""
    message = next((text for text in error["message"].split("\n") if text.strip()), "")
    said = f"{error['type']}{line}" + (f": {message.strip()[:200]}" if message else "")
    if error["type"] == "AssertionError":
        return f"It rejects {one} ({said}). {cost}"
    return f"On {one} the test itself stopped ({said})."


# The public check -----------------------------------------------------------------------------------------------------


def examine(test: Callable, material: Material, own: Callable | None, theirs: Material) -> Report:
    """The report on a live test, tried on variants and mutants of the student's own answer.

    own: that answer, or None if there is none; theirs: the material of its exercise
    """
    assert "hunt" in material
    contract = material["hunt"]
    name = contract["of"]
    describe = functools.partial(describe_error, own_file=source_file(test))
    returned: list[Any] = []
    with TimeLimit() as limit:

        def keeping_what_it_returns(implementation: Callable) -> None:
            returned.append(test(implementation))

        def verdict_on(implementation: Callable) -> dict[str, Any] | None:
            with limit.of(CASE_SECONDS):
                return verdict(keeping_what_it_returns, implementation, describe)

        first = verdict_on(lambda *args, **kwargs: None)
        if first and first["error"] and is_stubs_own(first["error"]):
            return _not_done(material)
        if own is None:
            return no_answer(
                material,
                f"write {name} first, or run its cell: the hunt makes its implementations from your own {name}, and "
                "there is none here",
            )
        lacks = [p for p, right in kept_properties(lambda: own, theirs, contract).items() if not right]
        if lacks:
            return no_answer(
                material,
                f"your {name} must be right first, since the hunt makes its implementations from it. It does not pass "
                f"“{theirs['properties'][lacks[0]]['title']}”: run the cells that it needs, and check({name})",
            )
        right, wrong = implementations(own, theirs, contract, limit)
        found: list[dict[str, Any] | None] = []
        calls = 0
        for each in (*right, *wrong):
            host = Host(each.make(), contract)
            found.append(verdict_on(opaque(contract, host.local)) if None not in found else None)
            calls += host.calls
    if not calls:
        return no_answer(material, f"your test does not call {name}")
    report = report_of(
        material,
        [(each.words, one) for each, one in zip(right, found)],
        [(each.kind, one) for each, one in zip(wrong, found[len(right) :])],
        public=True,
    )
    if not report.passed and any(isinstance(each, (bool, np.bool_)) and not each for each in returned):
        report.findings[-1].hint = RETURNED
    return report


def _not_done(material: Material) -> Report:
    return replace(no_answer(material, f"{material['name']} is not done yet"), not_done=True)


def implementations(own: Callable, theirs: Material, contract: Contract, limit: TimeLimit):
    """The right and the wrong implementations that a public check tries, from the student's own answer."""
    same = Implementation(lambda: own, words=f"is your own {contract['of']}")
    applies = {
        rounds_differently: contract["methods"] is None,  # what is only kept is not rounded
        draws_differently: contract["random"],
        refuses_as_torch_does: contract["errors"],
    }
    candidates = [
        Implementation(lambda vary=vary: vary(own), words=words)
        for words, vary in VARIANTS.items()
        if applies.get(vary, True)
    ]
    right = [same, *(each for each in candidates if all(kept_properties(each.make, theirs, contract).values()))]
    wrong: dict[str, list[Implementation]] = {}
    left, count = SEARCH_SECONDS, 0
    for each in _spread([*changed_behavior(own, theirs), *changed_source(own, contract)]):
        if count == MOST_WRONG or left < 0:
            break
        is_wrong = False
        with limit.of(1.0):
            is_wrong = is_mistaken(each.make, theirs, contract)
        left -= limit.used
        if is_wrong and not limit.told:
            wrong.setdefault(each.kind, []).append(each)
            count += 1
    return right, [each for group in wrong.values() for each in group]


def _spread(found: Iterable[Implementation]) -> Iterator[Implementation]:
    """One of each kind, then a second of each, and so on."""
    groups: dict[str, list[Implementation]] = {}
    for each in found:
        groups.setdefault(each.kind, []).append(each)
    while groups:
        for kind in [*groups]:
            yield groups[kind].pop(0)
            if not groups[kind]:
                del groups[kind]


def kept_properties(make: Callable, theirs: Material, contract: Contract) -> dict[int, bool]:
    """Which properties an implementation has when it is called as a test calls it, by number.

    Only those count that a test can ask for.
    """
    properties = {p: theirs["properties"][p] for p in testable(theirs, contract)}
    return {
        p: all(_is_right(make, prop, c, contract) for c in range(len(prop["cases"]))) for p, prop in properties.items()
    }


def is_mistaken(make: Callable, theirs: Material, contract: Contract) -> bool:
    """Whether an implementation is wrong on one case and right on another, so that it takes a test to find it."""
    seen = set()
    for p in testable(theirs, contract):
        prop = theirs["properties"][p]
        for c in smallest_first(prop["cases"]):
            seen.add(_is_right(make, prop, c, contract))
            if len(seen) == 2:
                return True
    return False


def _is_right(make: Callable, prop: Property, case: int, contract: Contract) -> bool:
    outcome = outcome_of(through_opaque(make, contract), prop["probe"], prop["cases"][case])
    expected = prop["expected"][case]["value"]
    return "value" in outcome and difference(expected, outcome["value"], prop["rtol"], prop["atol"]) is None


def through_opaque(make: Callable, contract: Contract) -> Callable:
    """A fresh implementation as a test sees it, in this process and without limits."""
    return opaque(contract, Host(make(), contract, bounded=False).local)


BEYOND = frozenset({"gradients", "elsewhere", "layout", "again", "in_time", "whole"})


def testable(theirs: Material, contract: Contract) -> list[int]:
    """The properties that a test can ask for, by number."""
    beyond = BEYOND if contract["errors"] else BEYOND | {"error_of"}
    return [p for p, prop in enumerate(theirs["properties"]) if prop["probe"] not in beyond]


# Right variants of an implementation. Each is used only if it keeps the contract by the exercise's own cases.


def rounds_differently(implementation: Callable) -> Callable:
    return _with(implementation, after=lambda result, given: _mapped(_neighbors, result))


def draws_differently(implementation: Callable) -> Callable:
    """The same shares by other random numbers: a number is drawn and not used."""

    def before(given):
        import torch

        torch.rand(1, generator=next((each for each in given if isinstance(each, torch.Generator)), None))

    return _with(implementation, before=before)


def refuses_as_torch_does(implementation: Callable) -> Callable:
    return _with(implementation, error=lambda error: RuntimeError(str(error)))


VARIANTS = {
    "rounds differently in the last digit": rounds_differently,
    "draws other numbers from the same seed": draws_differently,
    "refuses with RuntimeError, as PyTorch does": refuses_as_torch_does,
}


def _with(implementation: Callable, before=None, after=None, error=None) -> Callable:
    """The same implementation, with something done before or after each call, or to what it raises."""

    def wrapped(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args, **kwargs):
            given = [*args, *kwargs.values()]
            if before:
                before(given)
            try:
                result = function(*args, **kwargs)
            except ValueError as raised:
                if not error:
                    raise
                raise error(raised) from None
            return after(result, given) if after else result

        return call

    if not inspect.isclass(implementation):
        return wrapped(implementation)
    changed = {n: wrapped(f) for n, f in vars(implementation).items() if inspect.isfunction(f) and n != "__init__"}
    return type(implementation.__name__, (implementation,), changed)


def _mapped(change: Callable, result):
    if isinstance(result, (tuple, list)):
        return type(result)(_mapped(change, each) for each in result)
    return change(result)


def _neighbors(value: Any):
    """An array of floats, with every second number replaced by the next larger one."""
    if hasattr(value, "is_floating_point") and value.is_floating_point():
        flat = value.clone().reshape(-1)
        flat[::2] = flat[::2].nextafter(flat.new_tensor(float("inf")))
        return value.where(value == 0, flat.reshape(value.shape))
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        flat = value.copy().reshape(-1)
        flat[::2] = np.nextafter(flat[::2], np.inf, dtype=flat.dtype)
        return np.where(value == 0, value, flat.reshape(value.shape))
    return value


# Wrong ones -----------------------------------------------------------------------------------------------------------


def changed_behavior(own: Callable, theirs: Material) -> Iterator[Implementation]:
    """Mistakes that need no source: an optional argument ignored, a result kept, an input changed, and so on."""
    if inspect.isclass(own):
        yield from _changed_objects(own)
        return
    for name, parameter in inspect.signature(own).parameters.items():
        if parameter.default is not parameter.empty:
            yield Implementation(lambda name=name: _ignoring(own, name), "an argument that is ignored")
    yield Implementation(lambda: _keeping(own), "something kept between calls")
    yield Implementation(lambda: _with(own, after=_changing), "an input that is changed")


def _changed_objects(own: type) -> Iterator[Implementation]:
    """The same for a class whose objects are made without arguments."""
    yield Implementation(lambda: _same_object(own), SHARED)
    for name, method in vars(own).items():
        if inspect.isfunction(method) and not name.startswith("_") and len(inspect.signature(method).parameters) == 1:
            idle = {name: lambda self: None}
            yield Implementation(lambda idle=idle: type(own.__name__, (own,), dict(idle)), IDLE)
    yield Implementation(lambda: _with(own, after=lambda result, given: _mapped(_last_tokens, result)), LIMITED_LENGTH)
    for told in (True, False):
        yield Implementation(lambda told=told: _starting_over(own, told), "what is refused")


def _last_tokens(value: Any):
    return value[..., -MOST_TOKENS:, :] if getattr(value, "ndim", 0) > 1 else value


def _starting_over(own: type, told: bool) -> Callable:
    """A class whose objects become like new at a refusal, which the caller is told of or not."""

    def changed(method: Callable) -> Callable:
        def call(self, *args, **kwargs):
            try:
                return method(self, *args, **kwargs)
            except ValueError:
                self.__dict__ = own().__dict__
                if told:
                    raise
                return method(self, *args, **kwargs)

        return call

    methods = {n: changed(f) for n, f in vars(own).items() if inspect.isfunction(f) and not n.startswith("_")}
    return type(own.__name__, (own,), methods)


def _same_object(own: type) -> Callable:
    kept: list = []

    def make(*args, **kwargs):
        if not kept:
            kept.append(own(*args, **kwargs))
        return kept[0]

    return make


def _ignoring(own: Callable, name: str) -> Callable:
    signature = inspect.signature(own)

    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.arguments.pop(name, None)
        return own(*bound.args, **bound.kwargs)

    return call


def _keeping(own: Callable) -> Callable:
    """Return the first result that there was for arguments of the same shapes."""
    kept: dict[str, Any] = {}

    def call(*args, **kwargs):
        key = repr([getattr(each, "shape", each) for each in (*args, *kwargs.values())])
        if key not in kept:
            kept[key] = own(*args, **kwargs)
        return kept[key]

    return call


def _changing(result, given):
    array: Any = given[0] if given else None
    if isinstance(array, np.ndarray) or hasattr(array, "mul_"):
        with contextlib.suppress(Exception):  # whole numbers, or what broadcasts
            array *= 2
    return result


def changed_source(own: Callable, contract: Contract) -> Iterator[Implementation]:
    """Mutants of the student's own source, and of the functions of the same notebook that it calls."""
    parts = {each.__name__: _source(each) for each in (*diagnosis.called(own), own)}
    if not parts[own.__name__]:
        return
    sources = {name: source for name, source in parts.items() if source}
    space = diagnosis.functions_of(own)[0].__globals__
    for name in (own.__name__, *(each for each in sources if each != own.__name__)):
        for mutant in mutants.mutants(sources[name]):
            kind = KINDS.get(mutant.kind)
            if kind and (contract["errors"] or mutant.kind != "refusal"):
                changed = {**sources, name: mutant.source}
                yield Implementation(lambda changed=changed: _made(changed, own.__name__, space), kind)


def _made(sources: dict[str, str], name: str, space: dict[str, Any]) -> Callable:
    own = dict(space)
    for each, source in sources.items():
        file = f"<mutant of {each}>"
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        exec(compile(source, file, "exec", dont_inherit=True), own)
    return own[name]


def _source(item) -> str:
    """The definition of a function or class as its cell or file has it, or an empty string."""
    text = "".join(linecache.getlines(source_file(item) or ""))
    for statement in reversed(code_slice.of_cell(text)):
        if getattr(statement.node, "name", None) == item.__name__:
            return ast.unparse(statement.node)
    return ""
