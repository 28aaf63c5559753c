"""Probes on caches, on modules that read with one, on functions that draw tokens, and on functions that write text."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from attnlab.check import examine
from attnlab.checking.compare import difference
from attnlab.checking.fakes import Oracle, Room, lent
from attnlab.checking.formatting import table
from attnlab.checking.observe import outcome_of
from attnlab.checking.probes import steps
from course.kit.exercise import Exercise


def seen(probe, target, **inputs):
    """What a probe saw, or the whole outcome where it saw nothing."""
    outcome = outcome_of(target, probe, inputs)
    return outcome.get("value", outcome)


@pytest.fixture(autouse=True)
def stand_ins_are_lent():
    """To the answers of this file; `test_fakes.py` tests that they are to none else."""
    with lent():
        yield


# steps: an object and its methods


class Tally:
    """Adds tensors up. It gives away its own sum, and alters it in the next step."""

    def __init__(self, width):
        self.total, self.many = torch.zeros(width), 0

    def __len__(self):
        return self.many

    def add(self, x):
        if x.shape != self.total.shape:
            raise ValueError("width")
        self.many += 1
        self.total += x
        return self.total

    def view(self, shape):
        return self.total.view(*shape)  # PyTorch's own error is a RuntimeError

    def spoil(self, x, y):
        y.zero_()

    def later(self):
        raise NotImplementedError


ONES = torch.ones(2)


def tally(*steps):
    return seen("steps", Tally, init={"width": 2}, steps=list(steps))


def test_each_step_has_its_result():
    got = tally({"do": "len"}, {"do": "add", "x": ONES}, {"do": "len"})
    assert list(got) == ["step 1, len", "step 2, add", "step 3, len", "changed"]
    assert (got["step 1, len"], got["step 2, add"].tolist(), got["step 3, len"]) == (0, [1, 1], 1)


def test_a_result_is_taken_down_before_the_next_step_alters_it():
    got = tally({"do": "add", "x": ONES}, {"do": "add", "x": ONES})
    assert [got["step 1, add"].tolist(), got["step 2, add"].tolist()] == [[1, 1], [2, 2]]


def test_a_value_error_is_a_result_and_the_next_step_follows():
    got = tally({"do": "add", "x": torch.ones(3)}, {"do": "add", "x": ONES})
    assert (got["step 1, add"], got["step 2, add"].tolist()) == ("ValueError", [1, 1])


def test_an_error_of_pytorchs_own_counts_as_a_value_error():
    assert tally({"do": "view", "shape": [3]})["step 1, view"] == "ValueError"


@pytest.mark.parametrize(
    "before, step, words",
    [
        ([], {"do": "append", "x": ONES}, {"type": "AttributeError"}),  # the student's error, for nothing was done
        ([{"do": "len"}], {"do": "reset"}, "AttributeError"),  # a result
        ([{"do": "len"}], {"do": "later"}, {"type": "NotImplementedError"}),
    ],
)
def test_a_method_that_is_missing_is_an_error_at_first_and_a_result_later(before, step, words):
    got = tally(*before, step)
    if isinstance(words, dict):
        assert got["error"].items() >= words.items()
    else:
        assert got[f"step {len(before) + 1}, {step['do']}"] == words


@pytest.mark.parametrize(
    "step, altered", [({"do": "spoil", "x": ONES, "y": torch.ones(2)}, "y"), ({"do": "add", "x": ONES}, "")]
)
def test_an_argument_that_a_step_alters_is_named(step, altered):
    assert tally(step)["changed"] == altered


def told(*steps, expected):
    """What a student reads whose first differing step should have given `expected`, in the last step."""
    got = tally(*steps)
    last = [key for key in got if key != "changed"][-1]
    return difference({**got, last: expected}, got).words


@pytest.mark.parametrize(
    "steps, expected, words",
    [
        ([{"do": "add", "x": ONES}, {"do": "len"}], 3, "In step 2 (len): the result is 1 where 3 was expected"),
        (
            [{"do": "add", "x": torch.ones(3)}],
            ONES,
            "In step 1 (add): it raised ValueError or RuntimeError on input that it should accept",
        ),
        (
            [{"do": "add", "x": ONES}],
            "ValueError",
            "In step 1 (add): it should have raised ValueError, but it returned something",
        ),
        (
            [{"do": "len"}, {"do": "reset"}],
            "ValueError",
            "In step 2 (reset): it raised AttributeError where it should raise ValueError",
        ),
    ],
)
def test_what_differs_is_told_with_its_step(steps, expected, words):
    assert told(*steps, expected=expected) == words


def test_one_of_several_values_is_told_with_its_step():
    first, other = ({"step 1, append": (torch.ones(2), torch.ones(n)), "changed": ""} for n in (2, 3))
    assert difference(first, other).words == ("In step 1 (append): value 2 of 2 has shape (3,) where (2,) was expected")


def test_a_step_that_fails_and_should_not_is_told_with_all_steps():
    exercise = Exercise(Tally, section="Steps")

    @exercise.property("adds up", points=1, hint="Add.", probe=steps)
    def adds_up(rng):
        yield dict(init={"width": 2}, steps=[{"do": "len"}, {"do": "add", "x": ONES}])

    class Refuses(Tally):
        def add(self, x):
            raise ValueError

    assert examine(Refuses, exercise.material(1)).findings[0].detail.splitlines()[:4] == [
        "In step 2 (add): it raised ValueError or RuntimeError on input that it should accept.",
        "made with = width: 2",
        "steps     = 1. len",
        "            2. add x of shape (2,)",
    ]


def test_steps_are_shown_one_a_line_with_the_shapes_of_what_they_are_given():
    assert table(
        {
            "steps": [
                {"do": "append", "k": torch.ones(2, 3), "v": torch.ones(2, 1)},
                {"do": "len"},
                {"do": "view", "shape": [3]},
            ]
        }
    ) == ["steps = 1. append k of shape (2, 3), v of shape (2, 1)", "        2. len", "        3. view shape = [3]"]


# in_chunks: a module and its cache


class Past(nn.Module):
    """The sum of all rows so far times W, the earlier ones out of the cache."""

    def __init__(self, width, factor=1.0):
        super().__init__()
        self.W, self.factor = nn.Linear(width, width, bias=False), factor

    def forward(self, x, cache=None, *, scale=None):
        kept = x if cache is None else cache.append(x[:, None], -x[:, None])[0][:, 0]
        sums = self.W(kept).cumsum(1)[:, kept.shape[1] - x.shape[1] :]
        return sums if scale is None else sums * scale


class Forgets(Past):
    """It does not ask the cache."""

    def forward(self, x, cache=None):
        return super().forward(x)


class KeepsToItself(Past):
    """What it read before is kept in the module, where it belongs to whoever calls."""

    def forward(self, x, cache=None):
        before = getattr(self, "before", torch.zeros_like(x[:, :1]))[: x.shape[0]]
        sums = self.W(x).cumsum(1) + before
        self.before = sums[:, -1:].detach()
        return sums


class FeedsTwice(Past):
    """It puts its rows into the cache two times."""

    def forward(self, x, cache=None):
        cache.append(x[:, None], x[:, None])
        return super().forward(x, cache)


class Stack(nn.Module):
    """Several blocks, each with a cache of its own."""

    def __init__(self, width, many):
        super().__init__()
        self.blocks = nn.ModuleList(Past(width) for _ in range(many))

    def forward(self, x, caches=None):
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks)):
            x = block(x, cache)
        return x


class TwoResults(Past):
    def forward(self, x, cache=None):
        return super().forward(x, cache), cache


WIDTH = 3
WEIGHT = {"W.weight": torch.tensor([[1.0, 2, 0], [0, 1, -1], [2, 0, 1]], dtype=torch.float64)}
X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
OTHER = torch.randn(1, 7, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def whole(x):
    """What `Past` gives for all of x at once."""
    return (x @ WEIGHT["W.weight"].T).cumsum(1)


def in_chunks(cls, cuts, **inputs):
    return seen("in_chunks", cls, init={"width": WIDTH}, weights=WEIGHT, cuts=cuts, x=X, **inputs)


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 6]])
def test_chunks_are_put_together_to_what_one_pass_gives(cuts):
    torch.testing.assert_close(in_chunks(Past, cuts)["result"], whole(X))


def test_a_module_that_does_not_ask_its_cache_shows():
    got = in_chunks(Forgets, [3])["result"]
    torch.testing.assert_close(got[:, :3], whole(X)[:, :3])
    assert not torch.allclose(got[:, 3:], whole(X)[:, 3:])


def test_tokens_that_are_fed_twice_show_in_the_numbers():
    assert not torch.allclose(in_chunks(FeedsTwice, [3])["result"], whole(X))


def test_all_that_a_cache_holds_is_given_out_where_it_is_asked_for():
    keys, values = in_chunks(Past, [3], kept=True)["kept"]
    torch.testing.assert_close(keys, X[:, None])
    torch.testing.assert_close(values, -X[:, None])
    assert in_chunks(Forgets, [3], kept=True)["kept"] == []
    assert in_chunks(FeedsTwice, [3], kept=True)["kept"][0].shape == (2, 1, 14, WIDTH)


def test_a_second_text_read_in_between_has_a_cache_of_its_own():
    got = in_chunks(Past, [2, 5], beside=OTHER)["result"]
    for result, x in zip(got, (X, OTHER), strict=True):
        torch.testing.assert_close(result, whole(x))


def test_what_is_kept_in_the_module_shows_beside_a_second_text():
    torch.testing.assert_close(in_chunks(KeepsToItself, [3])["result"], whole(X))
    assert not torch.allclose(in_chunks(KeepsToItself, [3], beside=X.flip(0))["result"][0], whole(X))


def test_another_input_is_given_to_each_chunk_as_it_is():
    got = in_chunks(Past, [3], scale=torch.tensor(2.0, dtype=torch.float64))["result"]
    torch.testing.assert_close(got, 2 * whole(X))


def test_a_module_of_several_blocks_gets_a_cache_for_each():
    weights = {f"blocks.{i}.W.weight": WEIGHT["W.weight"] for i in range(2)}
    got = seen("in_chunks", Stack, init={"width": WIDTH, "many": 2}, weights=weights, cuts=[1, 4], x=X)["result"]
    torch.testing.assert_close(got, whole(whole(X)))


def test_arguments_for_making_it_reach_the_module():
    made = {"width": WIDTH, "factor": 2.0}
    assert "result" in seen("in_chunks", Past, init=made, weights=WEIGHT, cuts=[3], x=X)


def test_a_parameter_that_is_missing_is_told():
    got = seen("in_chunks", Past, init={"width": WIDTH}, weights={"V.weight": WEIGHT["W.weight"]}, cuts=[3], x=X)
    assert "has no parameter `V.weight`" in got["refused"]


def test_a_result_that_is_no_tensor_is_told_in_a_sentence():
    assert "should be one tensor" in in_chunks(TwoResults, [3])["refused"]


# frequencies and generator_seeded: drawing tokens

LOGITS = torch.tensor([[0.0, 1.0, -math.inf, 2.0], [3.0, -math.inf, 0.5, 3.0]], dtype=torch.float64)


def draw(logits, generator, warmth=1.0):
    """One token for each row, with the probabilities of the softmax."""
    shares = (logits / warmth).softmax(-1)
    drawn = torch.multinomial(shares.reshape(-1, shares.shape[-1]), 1, generator=generator)
    return drawn.reshape(logits.shape[:-1])


def draws(f, **inputs):
    return seen("frequencies", f, **{"seed": 5, "draws": 20_000, "logits": LOGITS, **inputs})


def test_frequencies_come_near_the_probabilities():
    torch.testing.assert_close(draws(draw)["frequencies"], LOGITS.softmax(-1), rtol=0, atol=0.02)


def test_what_else_the_function_takes_is_passed_on():
    torch.testing.assert_close(draws(draw, warmth=0.5)["frequencies"], (2 * LOGITS).softmax(-1), rtol=0, atol=0.02)


def test_tokens_that_can_not_be_drawn_are_told_apart():
    assert torch.equal(draws(draw)["possible"], LOGITS > -math.inf)


def test_frequencies_of_one_row_have_one_dimension():
    assert draws(draw, logits=LOGITS[0])["frequencies"].shape == (4,)


def test_frequencies_repeat():
    assert torch.equal(draws(draw)["frequencies"], draws(draw)["frequencies"])


def test_a_function_that_always_takes_the_largest_shows():
    got = draws(lambda logits, generator: logits.argmax(-1))
    assert got["possible"].sum(-1).tolist() == [1, 1]


def test_logits_of_the_case_stay_when_the_function_alters_its_own():
    logits = LOGITS.clone()

    def spoil(logits, generator):
        ids = draw(logits, generator)
        logits.zero_()
        return ids

    draws(spoil, logits=logits)
    assert torch.equal(logits, LOGITS)


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda ids: ids.double(), "torch.float64"),
        (lambda ids: ids[..., None], "(20000, 2, 1)"),
        (lambda ids: ids.tolist(), "list"),
        (lambda ids: ids + 1, "from 1 to 4"),
        (lambda ids: ids - 1, "from -1 to 2"),
    ],
    ids=["floats", "shape", "list", "too large", "negative"],
)
def test_what_are_no_tokens_is_refused_in_a_sentence(wrong, words):
    refused = draws(lambda logits, generator: wrong(draw(logits, generator)))["refused"]
    assert words in refused


def seeded(f):
    return seen("generator_seeded", f, seed=7, logits=LOGITS.repeat(20, 1))


def seeds_the_global_state(logits, generator):
    torch.manual_seed(0)
    return draw(logits, generator)


@pytest.mark.parametrize(
    "f, repeats, varies, untouched",
    [
        (draw, True, True, True),
        (lambda logits, generator: draw(logits, None), False, True, False),
        (lambda logits, generator: draw(logits, torch.Generator().manual_seed(0)), True, False, True),
        (seeds_the_global_state, True, True, False),
    ],
    ids=["its generator alone", "the global state", "a seed of its own", "seeds the global state"],
)
def test_where_a_function_draws_from_shows(f, repeats, varies, untouched):
    expected = {"generator_repeats": repeats, "generator_varies": varies, "torch_untouched": untouched, "changed": ""}
    assert seeded(f) == expected


def test_altered_logits_are_named():
    def spoil(logits, generator):
        logits[logits < 0.7] = -math.inf
        return draw(logits, generator)

    assert seeded(spoil)["changed"] == "logits"


@pytest.mark.parametrize("f", [draw, lambda logits, generator: draw(logits, None)])
def test_the_global_state_is_as_it_was_after_the_probe(f):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    seeded(f)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_state_is_as_it_was_after_an_error():
    def fails(logits, generator):
        torch.rand(1)
        raise ValueError("no")

    before = torch.get_rng_state()
    assert seeded(fails)["error"]["type"] == "ValueError"
    assert torch.equal(torch.get_rng_state(), before)


# written: a function that writes text with a model

IDS = torch.tensor([[4, 8, 1], [2, 2, 7]])


def pick(logits, temperature, generator):
    return draw(logits.double(), generator, temperature) if temperature else logits.argmax(-1)


def writes(model, ids, max_new_tokens, temperature=0.0, generator=None, use_cache=True, *, rooms=None, again=False):
    """Token after token. `rooms(model)` makes the caches; `again` feeds the whole text with them."""
    room = 10 * (ids.shape[1] + max_new_tokens)
    caches = ([Room(room) for _ in model.blocks] if rooms is None else rooms(model)) if use_cache else None
    new = ids
    for _ in range(max_new_tokens):
        logits = model(ids if again or not use_cache else new, caches)
        new = pick(logits[:, -1], temperature, generator)[:, None]
        ids = torch.hstack([ids, new])
    return ids


def variant(**how):
    """A function as `writes`, in another way."""
    return lambda **inputs: writes(**inputs, **how)


def written(f, **inputs):
    return seen(
        "written", f, **{"vocab_size": 12, "n_blocks": 2, "ids": IDS, "max_new_tokens": 6, "use_cache": True, **inputs}
    )


GREEDY = {"again": True, "fed": 8, "caches": True}  # 3 of the prompt, and 5 of 6 new ones


@pytest.mark.parametrize("use_cache", [True, False])
def test_text_is_the_prompt_and_what_the_model_finds_most_likely(use_cache):
    got = written(writes, use_cache=use_cache)
    text = IDS
    for _ in range(6):
        text = torch.cat([text, Oracle(12, 2)(text)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(got.pop("result"), text)
    assert got == GREEDY | ({} if use_cache else {"fed": None})


def test_the_text_is_not_the_same_token_over_and_over():
    assert all(len(set(row[3:].tolist())) > 2 for row in written(writes)["result"])


def test_feeding_the_whole_text_to_the_caches_shows():
    got = written(variant(again=True))
    assert got["fed"] == 3 + 4 + 5 + 6 + 7 + 8
    assert not torch.equal(got["result"], written(writes)["result"])


def test_a_last_token_that_is_read_shows():
    def reads_on(model, **inputs):
        text = writes(model=model, **inputs)
        model(text[:, -1:], [Room(9) for _ in model.blocks])
        return text

    assert written(reads_on)["fed"] == 9


def test_no_caches_by_default_shows():
    def plain(use_cache=False, **inputs):
        return writes(use_cache=use_cache, **inputs)

    assert written(plain, use_cache=None)["caches"] is False


def test_caches_that_are_left_on_the_model_show():
    def rooms(model):
        if not hasattr(model, "kept"):
            model.kept = [Room(100) for _ in model.blocks]
        return model.kept

    assert written(variant(rooms=rooms))["again"] is False


def test_caches_that_are_left_from_the_call_before_show():
    kept = []

    def rooms(model):
        if not kept:
            kept.extend(Room(100) for _ in model.blocks)
        return kept

    assert written(variant(rooms=rooms))["again"] is False


@pytest.mark.parametrize(
    "f",
    [
        lambda use_cache, **inputs: writes(use_cache=False, **inputs),
        variant(rooms=lambda model: [Room(100) for _ in range(3)]),
    ],
    ids=["none", "one too many"],
)
def test_no_cache_where_there_should_be_some_and_one_too_many_show(f):
    assert written(f)["caches"] is False


def test_new_caches_in_each_call_show():
    def forgetful(model, ids, max_new_tokens, use_cache):
        for _ in range(max_new_tokens):
            logits = model(ids, [Room(50) for _ in model.blocks])
            ids = torch.hstack([ids, logits[:, -1:].argmax(-1)])
        return ids

    got = written(forgetful)
    assert torch.equal(got["result"], written(writes)["result"])
    assert (got["caches"], got["fed"]) == (False, 3 + 4 + 5 + 6 + 7 + 8)


def test_a_prompt_that_is_altered_does_not_alter_the_case():
    ids = IDS.clone()

    def spoil(ids, **inputs):
        text = writes(ids=ids, **inputs)
        ids.zero_()
        return text

    written(spoil, ids=ids)
    assert torch.equal(ids, IDS)


def test_text_that_is_drawn_agrees_with_and_without_a_cache():
    got = written(writes, temperature=1.5, seed=3)
    assert torch.equal(got.pop("prompt"), IDS)
    assert got == {
        "generator_repeats": True,
        "generator_varies": True,
        "agrees": True,
        "length": 9,
        "fed": 8,
        "caches": True,
    }


@pytest.mark.parametrize(
    "f, wrong",
    [
        (variant(again=True), ["agrees"]),
        (lambda temperature, **inputs: writes(temperature=0.0, **inputs), ["generator_varies"]),
        (lambda generator, **inputs: writes(generator=None, **inputs), ["generator_repeats", "agrees"]),
    ],
    ids=["a stale cache", "no temperature", "no generator"],
)
def test_what_is_wrong_with_drawn_text_shows(f, wrong):
    got = written(f, temperature=1.5, seed=3)
    assert [got[key] for key in wrong] == [False] * len(wrong)


def test_a_text_without_its_prompt_shows():
    got = written(lambda ids, **inputs: writes(ids=ids, **inputs)[:, ids.shape[1] :], temperature=1.5, seed=3)
    assert got["length"] == 6
    assert not torch.equal(got["prompt"], IDS)


# routed: which rows the modules of a list were called with


class Sorted(nn.Module):
    """Rows whose first number is negative go to the first map, the others to the second."""

    def __init__(self, width, how):
        super().__init__()
        self.maps, self.how = nn.ModuleList(nn.Linear(width, width) for _ in range(2)), how

    def forward(self, x):
        out = torch.zeros_like(x)
        for each, mine in zip(self.maps, (x[..., 0] < 0, x[..., 0] >= 0)):
            if self.how == "all":
                out = out + each(x) * mine[..., None]
            elif self.how == "by name":
                out[mine] = each(input=x[mine])
            elif self.how == "vectors":
                out[mine] = torch.stack([each(row) for row in x[mine]])
            else:
                out[mine] = each(x[mine])
        return out


def routed(how, inner="maps"):
    weights = {"maps.0.weight": WEIGHT["W.weight"]}
    return seen("routed", Sorted, init={"width": WIDTH, "how": how}, weights=weights, inner=inner, x=X)


@pytest.mark.parametrize("how", ["rows", "by name", "vectors"])
def test_numbers_are_counted_for_each_module_however_it_is_called(how):
    first = int((X[..., 0] < 0).sum())
    assert routed(how)["given"].tolist() == [WIDTH * first, WIDTH * (14 - first)]


def test_rows_that_are_not_its_own_are_counted_too():
    assert routed("all")["given"].tolist() == [WIDTH * 14] * 2
    torch.testing.assert_close(routed("all")["result"], routed("rows")["result"])


def test_a_module_without_such_a_list_is_told():
    assert "`experts`, an nn.ModuleList" in str(routed("rows", inner="experts"))


# patched: what becomes of a model that is lent

HEADS = {
    "embedding.weight": torch.randn(5, 4, generator=torch.Generator().manual_seed(1)),
    "blocks.0.attention.W_v.weight": torch.randn(4, 4, generator=torch.Generator().manual_seed(2)),
    "blocks.0.attention.W_o.weight": torch.randn(4, 4, generator=torch.Generator().manual_seed(3)),
}


def patched(what):
    """The observations on an answer that does something to the model before it calls it."""

    def answer(model, ids):
        what(model.blocks[0].attention.W_o)
        return model(ids)

    return outcome_of(answer, "patched", {"model": HEADS, "ids": torch.tensor([[1, 4, 2]])})["value"]


def test_a_model_that_is_left_alone_gives_its_logits_twice():
    seen = patched(lambda mixing: None)
    assert torch.equal(seen["result"], seen["afterwards"]) and seen["hooks"] is True


def test_a_hook_that_stays_shows_in_the_logits_afterwards_and_one_that_is_gone_in_the_count():
    whole = patched(lambda mixing: None)["afterwards"]
    stays = patched(lambda mixing: mixing.register_forward_pre_hook(lambda _, inputs: inputs[0] * 0))
    assert not torch.equal(stays["afterwards"], whole) and stays["hooks"] is True
    gone = patched(lambda mixing: mixing._forward_pre_hooks.clear())
    assert torch.equal(gone["afterwards"], whole) and gone["hooks"] is False


# repeated: a module that leaves nothing to chance


class Drops(nn.Module):
    """A map, and a dropout that is written in one of several ways."""

    def __init__(self, width, how):
        super().__init__()
        self.W, self.how, self.calls = nn.Linear(width, width, bias=False), how, 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        y = scale * self.W(x)
        if self.how == "counts":
            return y * self.calls
        if self.how == "in place":
            x.zero_()
        return nn.functional.dropout(y, 0.5, self.how == "always" or self.how == "in training" and self.training)


def again(how, **inputs):
    torch.manual_seed(4)
    return seen("repeated", Drops, init={"width": WIDTH, "how": how}, weights=WEIGHT, x=X, **inputs)


@pytest.mark.parametrize(
    "how, steady",
    [
        ("never", [True] * 6),
        ("in training", [True] * 3 + [False] * 3),
        ("always", [False] * 6),
        ("counts", [False] * 6),
    ],
)
def test_dropout_shows_in_training_or_wherever_it_is_on(how, steady):
    assert again(how)["steady"].tolist() == steady


@pytest.mark.parametrize("how", ["never", "in training", "in place"])
def test_the_result_of_a_repeated_call_is_that_of_evaluation(how):
    torch.testing.assert_close(again(how)["result"], X @ WEIGHT["W.weight"].T)


def test_other_inputs_of_a_repeated_call_are_passed_on():
    torch.testing.assert_close(again("never", scale=2.0)["result"], 2 * X @ WEIGHT["W.weight"].T)


def test_a_repeated_call_on_a_module_that_lacks_a_parameter_is_told():
    got = seen("repeated", Drops, init={"width": WIDTH, "how": "never"}, weights={"V.weight": X}, x=X)
    assert "has no parameter `V.weight`" in got["refused"]
