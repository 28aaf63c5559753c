"""What each probe asks and what is concluded from it, for a good and for a bad answer."""

from __future__ import annotations

import time

import numpy as np
import pytest

from attnlab.checking import probe_verdicts, probes
from attnlab.checking.observe import observe, outcome_of

X = np.array([1.0, 2.0])


def seen(probe, f, **case):
    """What is concluded of one case, or the whole outcome where it is nothing."""
    outcome = outcome_of(f, probe, case)
    return outcome.get("value", outcome)


def test_call_gives_the_result():
    assert probes.call(lambda x, k: x * k, x=3, k=2) == {"result": 6}


def test_unchanged_names_what_was_altered_and_shows_it():
    def spoil(x, rows, keep):
        x *= 2
        rows[0].append(1)
        return 0.0

    got = seen("unchanged", spoil, x=X.copy(), rows=[[], []], keep=X.copy())
    assert got["changed"] == "x, rows" and got["result"] == 0.0
    assert np.array_equal(got["after"]["x"], 2 * X) and np.array_equal(got["after"]["keep"], X)


def test_unchanged_calls_twice_with_the_same_input():
    def hoard(x, seen=[]):  # noqa: B006 (the mistake under test)
        seen.append(x.sum())
        x += 1
        return sum(seen)

    seen = probes.unchanged(hoard, x=X.copy())
    assert (seen["result"], seen["second call"]) == (3.0, 6.0)


@pytest.mark.parametrize(
    "result, kind",
    [
        (7, "a whole number"),
        (np.int32(7), "a whole number"),
        (np.array([7]), "a whole number"),
        (7.0, "a float"),
        (np.array([7.0]), "a float"),
        (True, "a truth value"),
        (10**30, "a whole number"),
        ((np.array([0.5]), np.array([7])), "a float and a whole number"),
        ((np.array([7], np.int8), np.array([7], np.int32)), "a whole number of one byte and a whole number"),
    ],
)
def test_whole_tells_the_kind_of_number(result, kind):
    assert seen("whole", lambda: result)["kind"] == kind


@pytest.mark.parametrize(
    "before, after",
    [
        (np.float32([1.0]), np.float64([1.0])),
        ([1], [1.0]),
        ((1,), [1]),
        (0.0, -0.0),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_same_is_strict(before, after):
    assert probe_verdicts.same(before, before) and not probe_verdicts.same(before, after)


def test_same_takes_a_nan_for_itself():
    assert probe_verdicts.same(np.array([np.nan]), np.array([np.nan]))


@pytest.mark.parametrize(
    "error, name",
    [
        (ValueError, "ValueError"),
        (RuntimeError, "ValueError"),
        (KeyError, "KeyError"),
        (np.linalg.LinAlgError, "ValueError"),
        (IndexError, "IndexError"),
    ],
)
def test_error_of_tells_the_type(error, name):
    def refuse():
        raise error("x")

    assert probes.error_of(refuse) == {"raises": name, "result": None}


def test_error_of_gives_the_result_where_nothing_is_raised():
    assert probes.error_of(lambda: 5) == {"raises": "nothing", "result": 5}


def test_endless_recursion_and_a_stub_are_no_refusals():
    def endless():
        return endless()

    def stub():
        raise NotImplementedError

    for f, name in ((endless, "RecursionError"), (stub, "NotImplementedError")):
        assert observe(f, "error_of", {})["error"]["type"] == name


def test_moved_marks_the_entries_that_differ():
    x = np.array([1.0, 2.0, 3.0])
    got = seen("moved", np.cumsum, name="a", replacement=np.array([1.0, 5.0, 3.0]), a=x)
    assert got["moved"].tolist() == [False, True, True]


def test_what_rounding_moves_is_not_moved_clearly():
    got = seen("moved", lambda x: 3 * x, name="x", replacement=X + [1e-12, 1e-3], x=X)
    assert got["moved"].tolist() == [True, True] and got["moved clearly"].tolist() == [False, True]
    whole = seen("moved", lambda x: x, name="x", replacement=np.array([1, 3]), x=np.array([1, 2]))
    assert whole["moved clearly"].tolist() == [False, True]


def test_moved_looks_at_the_first_of_several_outputs_and_at_shapes():
    assert not seen("moved", lambda x: (x * 0, x), name="x", replacement=2 * X, x=X)["moved"].any()
    assert "shape (2,) became (1,)" in seen("moved", lambda x: x, name="x", replacement=X[:1], x=X)["moved"]


def test_moved_gives_each_call_inputs_of_its_own():
    def spoil(x, y):
        y += 1
        return x + y

    assert not seen("moved", spoil, name="x", replacement=X.copy(), x=X, y=np.zeros(2))["moved"].any()


def test_a_result_of_a_shape_that_cannot_be_differentiated_is_said_to_have_it():
    torch = pytest.importorskip("torch")
    case = dict(x=torch.ones(2, 3), upstream=[torch.ones(2, 3)])
    outcome = outcome_of(lambda x: torch.cat([x, x]), "gradients", case)
    assert outcome["refused"] == "the result has shape (4, 3) where (2, 3) was expected"


def test_moved_takes_tensors_with_gradients():
    torch = pytest.importorskip("torch")
    weight = torch.ones(2, requires_grad=True)
    x = torch.tensor([1.0, 2.0])
    got = seen("moved", lambda x: x * weight, name="x", replacement=torch.tensor([1.0, 3.0]), x=x)
    assert got["moved"].tolist() == [False, True]


def test_seeded_tells_own_draws_from_global_ones():
    good = seen("seeded", lambda rng: rng.normal(), seed=1)
    assert good == {"repeats": True, "varies": True, "global_untouched": True}
    state = np.random.get_state()[1].copy()
    bad = seen("seeded", lambda rng: np.random.normal(), seed=1)
    assert bad == {"repeats": False, "varies": False, "global_untouched": False} or not bad["global_untouched"]
    assert np.array_equal(np.random.get_state()[1], state)
    assert seen("seeded", lambda rng: 0.0, seed=1) == {"repeats": True, "varies": False, "global_untouched": True}


def test_a_fast_answer_is_in_time():
    got = seen("in_time", lambda a, k: a * k, seconds=5, seed=1, entries=2, shapes={"a": (300, 4)}, k=2)
    a = np.random.default_rng(1).normal(size=(300, 4)).reshape(-1)
    assert got["in_time"] is True and len(got["sample"]) == 8 and set(got["sample"]) <= set(2 * a)


def test_an_endless_python_loop_is_broken_off():
    def slow(a):
        while True:
            pass

    start = time.monotonic()
    assert seen("in_time", slow, seconds=0.1, seed=1, shapes={"a": (2,)}) == {"in_time": False, "sample": None}
    assert time.monotonic() - start < 20


def test_waiting_is_not_computing_but_ends_too():
    def idle(a):
        for _ in range(10_000):
            time.sleep(0.01)

    assert seen("in_time", idle, seconds=0.1, seed=1, shapes={"a": (2,)})["in_time"] is False


# observe: whatever happens becomes plain data ----------------------------------------------------------------------


def test_an_exception_tells_its_line_in_the_students_own_file():
    def broken(x):
        return np.linalg.inv(x)

    error = observe(broken, "call", {"x": np.zeros((2, 2))})["error"]
    assert error["type"] == "LinAlgError" and error["code"] == "return np.linalg.inv(x)"
    assert error["line"] == broken.__code__.co_firstlineno + 1


def test_an_exception_in_a_class_tells_its_line():
    class Broken:
        def __init__(self):
            self.half()

        def half(self):
            raise KeyError("k")

    assert observe(Broken, "call", {})["error"]["code"] == 'raise KeyError("k")'


def test_an_exception_that_cannot_print_is_still_described():
    class Odd(Exception):
        def __str__(self):
            raise SystemExit

    def broken():
        raise Odd

    assert observe(broken, "call", {})["error"]["type"] == "Odd"


def test_exit_is_an_error_and_control_c_is_not_swallowed():
    def leave():
        raise SystemExit(3)

    def interrupt():
        raise KeyboardInterrupt

    assert observe(leave, "call", {})["error"]["type"] == "SystemExit"
    with pytest.raises(KeyboardInterrupt):
        observe(interrupt, "call", {})


def test_what_is_no_plain_data_is_refused():
    assert "generator" in observe(lambda: (x for x in "a"), "call", {})["refused"]


def test_warnings_and_overflows_are_silent(recwarn):
    assert np.isinf(observe(lambda x: np.exp(x), "call", {"x": 1e4})["value"]["result"])
    assert not recwarn.list


def test_the_outcome_keeps_no_hold_on_the_students_objects():
    mine = [1.0]
    outcome = observe(lambda: mine, "call", {})
    mine.append(2.0)
    assert outcome["value"]["result"] == [1.0]


def test_a_number_from_theory_is_no_sample():
    case = dict(seed=1, regions={"near three": [2.0, 4.0]})
    assert seen("lands_in", lambda rng: 3.0 + 0.1 * rng.random(), **case) == {"about": "near three"}
    assert seen("lands_in", lambda rng: 3.0, **case) == {"about": "the same number with every rng"}
    assert seen("lands_in", lambda rng: 9.0 + rng.random(), **case)["about"] > 9


def test_a_formula_with_noise_does_not_spread_as_a_sample_does():
    case = dict(seed=1, spread={"much": [0.5, 2.0]})
    assert seen("lands_in", lambda rng: 3.0 + rng.normal(), **case) == {"spread": "much"}
    assert seen("lands_in", lambda rng: 3.0 + 0.01 * rng.normal(), **case)["spread"] < 0.02


@pytest.mark.parametrize("dtype, enough", [(np.float64, True), (np.float32, True), (None, False)])
def test_the_state_of_the_generator_says_how_many_numbers_were_drawn(dtype, enough):
    def draws(rng):
        return float(rng.standard_normal(200 if dtype else 3, dtype=dtype or np.float64).sum())

    assert seen("seeded", draws, seed=5, least=100)["drawn"] is enough


def test_a_generator_made_up_has_drawn_nothing():
    raw = [dict(result=0.5, rng=np.random.default_rng(9).bit_generator.state, **{"global": []}) for _ in range(3)]
    outcomes = [{"value": value} for value in raw]
    assert probe_verdicts.conclusion("seeded", dict(seed=5, least=1), outcomes)["value"]["drawn"] is False


@pytest.mark.parametrize("probe", ["unchanged", "moved", "seeded", "lands_in", "in_time", "repeated", "written"])
@pytest.mark.parametrize("forged", [None, {}, {"result": True}, {"repeats": True, "in_time": True, "about": "d"}])
def test_no_conclusion_of_a_process_of_its_own_counts(probe, forged):
    """What is no raw result concludes to nothing right, and never to an exception."""
    case = dict(x=X, seed=1, seconds=1.0, entries=1, regions={"d": [0.0, 1.0]}, name="x", replacement=X, ids=X)
    outcome = probe_verdicts.conclusion(probe, case, [{"value": forged}] * 4)
    right = {"changed": "", "in_time": True, "about": "d", "repeats": True}
    assert (
        not right.items()
        & {key: v for key, v in outcome.get("value", {}).items() if isinstance(v, (str, bool))}.items()
    )


def test_handing_back_the_generator_is_no_draw():
    assert "Generator" in seen("seeded", lambda rng: rng, seed=1)["refused"]
