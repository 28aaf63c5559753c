"""Exercises of the chapter on the delta rule: what must hold, on which inputs, and what people get wrong.

Keys have lengths clearly below 1 and queries lengths above, so that a norm or a scale shows. Some states are square, so
that a product the wrong way round gives numbers, and others are not. States of narrow inputs are looked at by
`probes.handed_on`, which takes float32 or wider.
"""

import torch

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.generators import normal
from solutions import delta_rule as solutions

DELTA, DECAY, CHUNKS, CONVOLUTION = (
    "The delta rule",
    "Forgetting on purpose",
    "In chunks",
    "A short convolution",
)
NARROW = dict(rtol=0.02, atol=0.02)  # for bfloat16
SINGLE = dict(rtol=1e-3, atol=1e-4)  # a bfloat16 is further off
CLOSE = dict(rtol=1e-4, atol=1e-4)  # what is asked of the numbers in chunks


def _float64(rows):
    return torch.tensor(rows, dtype=torch.float64)


def _keys(rng, *shape):
    """Keys of lengths from 0.6 to 0.9."""
    keys = normal(rng, *shape)
    return keys / keys.norm(dim=-1, keepdim=True) * torch.from_numpy(rng.uniform(0.6, 0.9, size=(*shape[:-1], 1)))


def _between(rng, low, high, *shape):
    return torch.from_numpy(rng.uniform(low, high, size=shape))


def _tokens(rng, n=4, d_k=3, d_v=2, batch=1, n_heads=1, given=False):
    """Tokens for `delta_rule`; with `given`, also a state from before."""
    case = dict(
        q=1.5 * normal(rng, batch, n_heads, n, d_k),
        k=_keys(rng, batch, n_heads, n, d_k),
        v=normal(rng, batch, n_heads, n, d_v),
        beta=_between(rng, 0.3, 0.9, batch, n_heads, n),
    )
    return case | dict(state=normal(rng, batch, n_heads, d_k, d_v)) if given else case


def _fading(rng, n=4, **sizes):
    """Tokens for `gated_delta_rule`, with g from -1.2 to -0.3."""
    case = _tokens(rng, n, **sizes)
    return case | dict(g=-_between(rng, 0.3, 1.2, *case["beta"].shape))


def _in_chunks_of(chunk):
    return lambda rng, n=4, **sizes: _fading(rng, n, **sizes) | dict(chunk=chunk)


def _of_kind(case, kind, wide=()):
    """The case with tensors of another dtype, but float32 for those named."""
    return {
        name: value.to(torch.float32 if name in wide else kind) if isinstance(value, torch.Tensor) else value
        for name, value in case.items()
    }


def _handed_on(case, cuts=(), **options):
    """A case for `probes.handed_on`."""
    along = {name: 2 for name in ("v", "q", "k", "g", "beta") if name in case}
    given = dict(given=case["state"]) if "state" in case else {}
    rest = {name: value for name, value in case.items() if name != "state"}
    return rest | given | dict(handed="state", along=along, cuts=list(cuts)) | options


# What the three rules have in common ---------------------------------------------------------------------------------


def _asks_for_the_rest(exercise, draw, gradient_points=1, **tolerance):
    """Declare what each rule must do besides its numbers. draw: makes the tokens of a case"""
    exact = dict(rtol=1e-9, atol=1e-12) | tolerance

    @exercise.property(
        "keeps heads and texts apart",
        points=1,
        **exact,
        hint="Each head of each text has a state of its own, (d_k, d_v), and its own beta. Index the tokens with "
        "`[:, :, t]` and leave the first two axes alone.",
    )
    def apart(rng):
        yield draw(rng, 3, batch=2, n_heads=3, d_k=2, d_v=4)
        yield draw(rng, 2, batch=3, n_heads=2, d_k=4, d_v=3)

    @exercise.property(
        "goes on from the state that it is given",
        points=1,
        **exact,
        hint="`state=None` means zeros. Any other state is what earlier tokens left: begin with it.",
    )
    def from_a_state(rng):
        yield draw(rng, 1, given=True)
        yield draw(rng, 3, d_k=2, d_v=3, n_heads=2, given=True)

    @exercise.property(
        "reads in two calls what it reads in one",
        points=1,
        probe=probes.handed_on,
        **exact,
        hint="Return the state after the last token. A second call that is given it must go on as if there had been "
        "no break.",
    )
    def two_calls(rng):
        yield _handed_on(draw(rng, 5), cuts=[2])
        yield _handed_on(draw(rng, 6, n_heads=2, d_v=4), cuts=[1, 4])

    exercise.gradients(
        lambda rng: [
            draw(rng, 3) | dict(upstream=[normal(rng, 1, 1, 3, 2), normal(rng, 1, 1, 3, 2)]),
            draw(rng, 4, d_v=4, given=True) | dict(upstream=[normal(rng, 1, 1, 4, 4), normal(rng, 1, 1, 3, 4)]),
        ],
        title="sends gradients through the state, back to the first token",
        points=gradient_points,
        **dict(rtol=1e-6, atol=1e-8) | tolerance,
        hint="Use tensor operations that make new tensors: detach nothing, and do not write into a tensor that an "
        "earlier step has read.",
    )
    exercise.any_device(
        lambda rng: [
            dict(probe="handed_on", only="output") | _handed_on(_of_kind(draw(rng, 3), torch.float32)),
            dict(probe="handed_on", only="output") | _handed_on(_of_kind(draw(rng, 3), torch.bfloat16)),
        ],
        title="gives an output in the dtype of v, on any device",
        **NARROW,
        hint="The output has the dtype of v: `.to(v.dtype)` at the end. Create tensors with `device=v.device`.",
    )

    @exercise.property(
        "computes in float32 where its inputs are narrower, and keeps the state so",
        points=1,
        probe=probes.handed_on,
        **SINGLE,
        hint="A state that thousands of tokens write into needs more than the three digits of bfloat16. Convert q, k, "
        "v and beta before you use them, and return the state as it was computed.",
    )
    def wide(rng):
        plain, mixed = draw(rng, 5, n_heads=2), draw(rng, 4, given=True)
        yield _handed_on(_of_kind(plain, torch.bfloat16), wide=True, only="state")
        yield _handed_on(_of_kind(mixed, torch.bfloat16, wide=("g", "beta", "state")), wide=True, only="state")

    exercise.unchanged(
        lambda rng: [draw(rng, 3, given=True), draw(rng, 2, n_heads=2)],
        title="leaves its inputs as they were, the state too",
        hint="`state += ...` and `state *= ...` write into the caller's tensor. `state = state + ...` makes a new one.",
    )


RECALL = "recalled = key @ state"
DIFFERENCE = "share * (value - recalled)"
WRITE = f"state = state + key.mT @ ({DIFFERENCE})"
READ = "outputs.append(query @ state)"
RESULT = "torch.cat(outputs, dim=2).to(v.dtype), state"
GIVEN = " if state is None else state.to(wide)"
WIDE = "wide = torch.promote_types(v.dtype, torch.float32)"
ROWS = "(x[:, :, t, None].to(wide) for x in (q, k, v))"
TURNED = (
    "The product that is written is the wrong way round. The state has a row for each number of the key and a column "
    "for each of the value: a column `k` times a row `v - recalled`, `key.mT @ change`."
)
STATE_IGNORED = "The state that is passed in is not used: each call begins with zeros. Zeros are only for `state=None`."
TOO_NARROW = (
    "Everything is computed in the narrow dtype of the inputs, the state too. In bfloat16, 256 + 1 is still 256, so "
    "small corrections are lost. Convert to float32 first, and convert only the output back."
)
NARROW_STATE = (
    "The state comes back in the narrow dtype of v, so the next call goes on from three digits. Only the output has "
    "the dtype of v."
)
WIDE_OUTPUT = "The output is float32 whatever v is. Convert it back: `.to(v.dtype)`."
TWO_KINDS = (
    "Narrow inputs meet a float32 state, and PyTorch refuses to multiply matrices of two dtypes. Convert q, k and v as "
    "well, with `.to(...)` or `.float()`."
)
ON_THE_CPU = (
    "A tensor is created on the CPU, wherever the inputs are: the first state, or a mask. Write `device=v.device` "
    "where you make it."
)
SCALED = "The queries are divided by the square root of d_k. Here nothing is scaled: the output is S^T q."
OUTPUT_DETACHED = (
    "The output is cut off from the gradient. `.detach()`, `.data` and NumPy give numbers without a gradient."
)
STATE_DETACHED = (
    "The state is detached between tokens, so no gradient reaches what earlier tokens wrote, and the layer would not "
    "learn what to store."
)


def _slips():
    """The mistakes that `delta_rule` and `gated_delta_rule` have in common."""
    return (
        edit(DIFFERENCE, "share * value",
             "The value is added without a look at what the state recalls. That is linear attention: a second value "
             "for the same key is added to the first. Write beta times the difference v - S^T k."),
        edit(DIFFERENCE, "value - recalled",
             "beta is not used: each token writes the whole difference. Only the share beta of it is written."),
        edit("share *", "share * share *",
             "beta multiplies twice, so the share that is written is beta squared. It belongs to the value or to the "
             "key, but not to both."),
        edit(DIFFERENCE, "share * value - recalled",
             "beta multiplies the value alone, and what is recalled is taken away in full. With beta = 0 the token "
             "would erase without writing. Multiply the whole difference."),
        edit(DIFFERENCE, "value - share * recalled",
             "beta multiplies what is recalled and not the value. Multiply the whole difference v - S^T k."),
        edit("share *", "share.sigmoid() *",
             "A sigmoid is taken of beta. The beta that you get is already between 0 and 1: use it as it is."),
        edit("value - recalled", "recalled - value",
             "The difference has the wrong sign: the state moves away from the value. Take what is recalled from the "
             "value, v - S^T k."),
        edit(f"key.mT @ ({DIFFERENCE})", "share * (key.mT @ value - state)",
             "The whole state fades towards the new pair, so all other keys are forgotten as well. The delta rule "
             "changes the state at k only: compare S^T k with the value."),
        edit(f"{WRITE}\n        {READ}", f"{READ}\n        {WRITE}",
             "The output is read before the token has written. Write first, and then read with the query."),
        edit("x in (q, k, v)", "x in (k, q, v)",
             "Keys and queries are exchanged. The key decides where a token writes, the query what it reads."),
        edit(RECALL, "recalled = query @ state",
             "What is recalled is asked for with the query. The difference is taken at the place where it is written: "
             "use the key."),
        edit("key.mT @", "query.mT @",
             "The difference is written at the query. Write it at the key, at which it was recalled."),
        edit(READ, "outputs.append(key @ state)",
             "The output is read with the key. The token reads with its query: S^T q."),
        edit(f"key.mT @ ({DIFFERENCE})", f"({DIFFERENCE}).mT @ key", TURNED),
        edit("key.mT @", "key @",
             "A row is multiplied by a row, and PyTorch refuses. The key has to be a column, so that the product is a "
             "table of d_k rows and d_v columns: `key.mT @ change`."),
        edit(RESULT, f"{RESULT}.mT",
             "The state comes back as (d_v, d_k). A row belongs to a number of the key, a column to one of the value: "
             "(d_k, d_v)."),
        edit(GIVEN, "", STATE_IGNORED),
        edit("state is not None and state.shape != size", "False",
             "The state is kept as (d_v, d_k), and expected so when it is passed in. Rows are for the key and columns "
             "for the value: (d_k, d_v).",
             also={"torch.zeros(size": "torch.zeros((*k.shape[:2], v.shape[3], k.shape[3])",
                   RECALL: "recalled = key @ state.mT",
                   f"state + key.mT @ ({DIFFERENCE})": f"state + ({DIFFERENCE}).mT @ key",
                   READ: "outputs.append(query @ state.mT)"}),
        edit("outputs = []", "outputs, start = [], state",
             "The state that comes back is the one at the start. Return what the last token has left.",
             also={RESULT: RESULT.replace("state", "start")}),
        edit(f"        {WRITE}", f"        before = state\n        {WRITE}",
             "The last token's own write is missing from the state that is returned. Return the state after all "
             "tokens.", also={RESULT: RESULT.replace("state", "before")}),
        edit("        query, key, value", "        state = 0 * state\n        query, key, value",
             "The state is emptied for each token, so no token sees what an earlier one wrote. Create the state once, "
             "before the loop."),
        edit("beta[:, :, t,", "beta[:, :, 0,",
             "Every token uses the beta of the first one. Take the one of token t."),
        edit("beta[:, :, t,", "beta[:, :1, t,",
             "All heads use the beta of the first one. Each head has its own."),
        edit(ROWS, "(q[:, :, t, None].to(wide), torch.nn.functional.normalize(k[:, :, t, None].to(wide), dim=-1), "
             "v[:, :, t, None].to(wide))",
             "Keys are divided by their lengths. Take keys as they come: whoever calls decides about a norm."),
        edit(ROWS, "(*(torch.nn.functional.normalize(x[:, :, t, None].to(wide), dim=-1) for x in (q, k)), "
             "v[:, :, t, None].to(wide))",
             "Queries and keys are divided by their lengths. Take both as they come: whoever calls decides about a "
             "norm."),
        edit("query @ state)", "query @ state / q.shape[-1] ** 0.5)", SCALED),
        edit("torch.cat(outputs, dim=2)", "torch.stack(outputs, dim=2)",
             "The outputs have an axis too many. Each token's output still has its axis of tokens, of length 1: join "
             "them with `torch.cat(outputs, dim=2)`, or take that axis away and stack."),
        edit("torch.cat(outputs, dim=2)", "outputs[-1]",
             "Only the last token's output comes back. Keep the output of every token."),
        edit(RESULT, "torch.cat(outputs, dim=2).to(v.dtype)",
             "Only the output comes back. Return the state after the last token as well, so that the next call can go "
             "on from it."),
        edit(RESULT, "state, torch.cat(outputs, dim=2).to(v.dtype)",
             "The state comes first and the output second. Return (output, state)."),
        edit(WIDE, "wide = v.dtype", TOO_NARROW),
        edit(RESULT, f"{RESULT}.to(v.dtype)", NARROW_STATE),
        edit(".to(v.dtype)", "", WIDE_OUTPUT),
        edit("t, None].to(wide) for", "t, None] for", TWO_KINDS),
        edit("dtype=wide, device=v.device", "dtype=wide", ON_THE_CPU),
        edit("torch.cat(outputs, dim=2)", "torch.cat(outputs, dim=2).detach()", OUTPUT_DETACHED),
        edit(RESULT, f"{RESULT}.detach()",
             "The state that is returned is detached, so the loss of a second call could not reach the tokens of the "
             "first."),
        edit(RECALL, "recalled = key @ state.detach()",
             "What is recalled is detached. It is a part of what is written, and its gradient belongs to the result."),
    )  # fmt: skip


# delta_rule ----------------------------------------------------------------------------------------------------------

delta_rule = Exercise(solutions.delta_rule, section=DELTA, minutes=15, difficulty=2)

# Three pairs, the third at the key of the first. The state ends as the rows (3, 0) and (0, 5).
BY_HAND = dict(
    q=_float64([[[[1, 0], [1, 1], [1, 1]]]]),
    k=_float64([[[[1, 0], [0, 1], [1, 0]]]]),
    v=_float64([[[[2, 0], [0, 5], [4, 0]]]]),
    beta=_float64([[[1, 1, 0.5]]]),
)


@delta_rule.property(
    "writes what the state gets wrong, and then reads",
    points=3,
    hint="For each token: recalled = S^T k, then S = S + k (beta (v - recalled))^T, then the output S^T q. By hand: "
    "the state recalls 2 for a key of length 1, the value is 4 and beta 0.5. The difference is 2, so 1 is added, and "
    "the state recalls 3.",
)
def delta_numbers(rng):
    yield BY_HAND
    yield _tokens(rng, 4)
    yield _tokens(rng, 5, d_k=3, d_v=3)


@delta_rule.property(
    "overwrites with beta 1, and keeps all with beta 0",
    points=1,
    hint="With beta 1 and a key of length 1, the state recalls the new value exactly. With beta 0 it stays as it was.",
)
def overwrites(rng):
    case = _tokens(rng, 4)
    key = case["k"][:, :, :1] / case["k"][:, :, :1].norm(dim=-1, keepdim=True)
    yield case | dict(k=key.expand(1, 1, 4, 3).clone(), beta=torch.ones_like(case["beta"]))
    yield _tokens(rng, 3, given=True) | dict(beta=_float64([[[0.0, float(rng.uniform(0.4, 0.8)), 0.0]]]))


_asks_for_the_rest(delta_rule, _tokens)

delta_rule.mistakes(
    *_slips(),
    edit("state = state +", "state +=",
         "The state is written in place. If the caller passed it in, the caller's tensor changes, and PyTorch cannot "
         "compute gradients. Make a new tensor: `state = state + ...`."),
    edit(WRITE, f"state = state.detach() + key.mT @ ({DIFFERENCE})", STATE_DETACHED),
)  # fmt: skip


# gated_delta_rule ----------------------------------------------------------------------------------------------------

gated_delta_rule = Exercise(solutions.gated_delta_rule, section=DECAY, minutes=8, difficulty=2)

FADE = "state = decay * state"
HALF = -0.6931471805599453  # exp(g) is 1/2


@gated_delta_rule.property(
    "lets the state fade before each token",
    points=3,
    hint="First S = exp(g) S, and then the delta rule on what is left. By hand: the state recalls 2, g is log(1/2) and "
    "beta 0.5. What is left recalls 1; with a value of 3 the difference is 2, so it recalls 2 afterwards.",
)
def gated_numbers(rng):
    yield BY_HAND | dict(g=_float64([[[0, HALF, HALF]]]))
    yield _fading(rng, 4)
    yield _fading(rng, 5, d_k=3, d_v=3)


@gated_delta_rule.property(
    "is the delta rule where g is 0, and forgets where g is very low",
    points=1,
    hint="exp(0) is 1: nothing fades. exp(-100) is almost 0: nothing is left of the state, and the token writes into "
    "an empty one.",
)
def extremes(rng):
    case = _fading(rng, 4, given=True)
    yield case | dict(g=torch.zeros_like(case["g"]))
    low = -_between(rng, 50, 400, 1, 1, 3)
    yield _fading(rng, 3, d_v=3, given=True) | dict(g=low * _float64([1.0, 0.0, 1.0]))


_asks_for_the_rest(gated_delta_rule, _fading)

gated_delta_rule.mistakes(
    *_slips(),
    edit(FADE, "state = 1.0 * state",
         "g is not used: the state never fades. Multiply it by exp(g) before each token."),
    edit("None].to(wide).exp()", "None].to(wide)",
         "The state is multiplied by g itself, which is negative or 0. g is the logarithm of what is kept: take "
         "exp(g)."),
    edit("None].to(wide).exp()", "None].to(wide).neg().exp()",
         "The state is multiplied by exp(-g), so it grows. g is 0 or below, and exp(g) is at most 1."),
    edit("None].to(wide).exp()", "None].to(wide).sigmoid()",
         "A sigmoid is taken of g. What is kept is exp(g): 1 for g = 0, where a sigmoid gives 1/2."),
    edit("None].to(wide).exp()", "None].to(wide) + 1",
         "1 + g is only close to exp(g) where g is close to 0, and it may be negative. Take exp(g)."),
    edit(f"{FADE}\n        {RECALL}", f"{RECALL}\n        {FADE}",
         "What is recalled comes from the state before it fades. The token compares its value with what is left: "
         "multiply by exp(g) first."),
    edit(f"{FADE}\n        ", "",
         "The state fades after the token has written, so what was just written fades too. Multiply it by exp(g) "
         "before the token recalls and writes.",
         also={WRITE: f"{WRITE}\n        {FADE}"}),
    edit(f"{FADE}\n        ", "",
         "The state fades after the token has read, for the next token. It is the token's own g that comes before its "
         "own write.", also={READ: f"{READ}\n        {FADE}"}),
    edit(f"{FADE}\n        ", "",
         "The output is multiplied by exp(g), and the state is not. The state itself has to fade, so that all later "
         "tokens see less of what is old.", also={"query @ state)": "decay * (query @ state))"}),
    edit(f"{FADE}\n        ", "",
         "Only what is recalled is multiplied by exp(g), and the state stays. Multiply the state.",
         also={RECALL: "recalled = decay * (key @ state)"}),
    edit("g[:, :, t,", "g[:, :, t - 1,",
         "The state fades by the g of the token before. It is the g of the token that is about to write."),
    edit("g[:, :, t, None, None]", "g[:, :, : t + 1, None, None].sum(dim=2)",
         "The state fades by the sum of all g so far. It has already faded by the earlier ones: multiply by exp(g) of "
         "this token alone."),
    edit("g[:, :, t, None, None]", "g[:, :, t, None, None] * (t > 0)",
         "The state that is passed in does not fade before the first token. Each token has its g, the first one too."),
    edit("g[:, :, t,", "g[:, :1, t,", "All heads fade by the g of the first one. Each head has its own."),
    edit("state = state +", "state +=",
         "The state is written in place, and PyTorch cannot compute gradients of what was overwritten. Make a new "
         "tensor: `state = state + ...`."),
    edit(FADE, "state *= decay",
         "The state fades in place: `*=` changes the caller's tensor. Make a new one instead."),
    edit(FADE, "state = decay * state.detach()", STATE_DETACHED),
    edit("g[:, :, t, None, None].to(wide)", "g[:, :, t, None, None].to(wide).detach()",
         "g is detached, so the layer could not learn what to forget."),
)  # fmt: skip


# chunked_gated_delta_rule --------------------------------------------------------------------------------------------

chunked_gated_delta_rule = Exercise(
    solutions.chunked_gated_delta_rule, section=CHUNKS, bonus=True, minutes=30, difficulty=3
)


@chunked_gated_delta_rule.property(
    "gives the numbers of the gated delta rule",
    points=3,
    **CLOSE,
    hint="With G the running sum of g in the chunk and S the state before it, the rows W that are written solve "
    "W_i = beta_i (v_i - exp(G_i) S^T k_i - sum over j < i of exp(G_i - G_j) (k_i . k_j) W_j). Try a chunk of a single "
    "token first, then of two.",
)
def chunked_numbers(rng):
    yield BY_HAND | dict(g=_float64([[[0, HALF, HALF]]]), chunk=3)
    yield _fading(rng, 4) | dict(chunk=4)
    yield _fading(rng, 6, d_k=3, d_v=3) | dict(chunk=3)
    yield _fading(rng, 3, d_v=4) | dict(chunk=1)


@chunked_gated_delta_rule.property(
    "takes any number of tokens, whatever the chunk",
    points=1,
    **CLOSE,
    hint="The last chunk may be shorter, and a chunk may be longer than the text. Slices take care of both. If you "
    "fill up the last chunk, do it with keys, beta and g of 0, and cut the output.",
)
def ragged(rng):
    yield _fading(rng, 5) | dict(chunk=3)
    yield _fading(rng, 7, d_v=4, given=True) | dict(chunk=4)
    yield _fading(rng, 3) | dict(chunk=int(rng.integers(5, 9)))


@chunked_gated_delta_rule.property(
    "loops over chunks, not over tokens",
    points=6,
    probe=probes.chunked_work,
    **CLOSE,
    hint="All tokens of a chunk go through the same few matrix products, and `torch.linalg.solve_triangular` finds all "
    "rows that a chunk writes. Row by row is a loop over tokens, unless all chunks share it. A single chunk for "
    "everything makes tables of n x n.",
)
def few_operations(rng):
    case = _fading(rng, 64, d_k=2, d_v=2)
    yield case | dict(g=0.05 * case["g"], chunk=128, times=[2, 10], entries=int(rng.integers(10**6)))


@chunked_gated_delta_rule.property(
    "survives strong decay",
    points=2,
    probe=probes.handed_on,
    **CLOSE,
    hint="exp(-G_j) overflows: take exp of the difference G_i - G_j, which is 0 or below for j <= i. For j > i it is "
    "above 0: put minus infinity there before you take exp, not after.",
)
def strong_decay(rng):
    case = _fading(rng, 12)
    even = -_between(rng, 14, 16, 1, 1, 12)  # -200 in a chunk of 12, or a little more
    uneven = -_between(rng, 0.1, 0.5, 1, 1, 12) - _float64([0, 0, 92, 0, 0, 92, 0, 0, 0, 0, 0, 0])
    for g in (even * 200 / max(200.0, -float(even.sum())), uneven):
        yield _handed_on(_of_kind(case | dict(g=g, chunk=12), torch.float32), wide=True)
    yield _handed_on(_fading(rng, 10, given=True) | dict(g=-_between(rng, 100, 200, 1, 1, 10), chunk=10), wide=True)


_asks_for_the_rest(chunked_gated_delta_rule, _in_chunks_of(2), **CLOSE)


chunked_gated_delta_rule.gradients(
    lambda rng: (
        _fading(rng, 6)
        | dict(
            g=-_between(rng, 200, 300, 1, 1, 6), chunk=6, upstream=[normal(rng, 1, 1, 6, 2), normal(rng, 1, 1, 3, 2)]
        )
    ),
    title="has finite gradients under strong decay",
    **CLOSE,
    hint="An exp that overflowed spoils the gradient even if its result is masked afterwards, since 0 times infinity "
    "is nan. Mask before exp.",
)

TOTAL = "total = logs.cumsum(dim=2)"
LEFT = "(total - total.mT).masked_fill(later, -math.inf).exp()"
EARLIER = "earlier = shares * left * (keys @ keys.mT)"
WANTED = "wanted = shares * (values - faded * (keys @ state))"
SOLVED = "torch.linalg.solve_triangular(earlier, wanted, upper=False, unitriangular=True)"
OWN = "(left * (queries @ keys.mT)) @ written"
OLD = "faded * (queries @ state)"
NEXT = "state = faded[:, :, -1:] * state + (left[:, :, -1, :, None] * keys).mT @ written"
SLICED = "(x[:, :, first : first + chunk].to(wide) for x in given)"
LOOP = (
    "The numbers are right, but the number of operations grows with the tokens: token by token, or row by row inside a "
    "loop over chunks, which is the same. Solve for all rows of a chunk at once."
)

chunked_gated_delta_rule.mistakes(
    edit(SOLVED, "wanted",
         "The tokens of a chunk do not see what earlier tokens of the same chunk wrote when they compute their own "
         "differences. Solve the triangular system: each row that is written depends on the rows before it."),
    edit(SOLVED, "wanted - earlier.tril(-1) @ wanted",
         "What earlier tokens of the chunk wrote is taken away only once, as they would have written it by themselves. "
         "Their rows depend on earlier rows in turn: solve the triangular system."),
    edit(SOLVED, SOLVED.replace("earlier,", "earlier.tril() + torch.eye(len(later), dtype=wide, device=q.device),")
         .replace("True", "False"),
         "The diagonal is part of A, so a token takes away its own write as well. Only earlier tokens count, j < i: "
         "`tril(-1)`."),
    edit(SOLVED, SOLVED.replace("earlier,", "-earlier,"),
         "A has the wrong sign. What earlier tokens wrote is taken away from B; on the side of W that is a plus, "
         "(1 + A) W = B."),
    edit(SOLVED, SOLVED.replace("earlier,", "earlier.mT,").replace("upper=False", "upper=True"),
         "The triangular system is turned over: it lets a token see what later tokens write. Row i of A has entries "
         "for j < i."),
    edit(OWN, "(left.tril(-1) * (queries @ keys.mT)) @ written",
         "A token does not read what it has just written: the diagonal is missing from the output. It writes first and "
         "then reads, j <= i."),
    edit(LEFT, "(total - total.mT).exp()",
         "Nothing hides later tokens: they are read before they have written. Put minus infinity where j > i before "
         "you take exp."),
    edit(LEFT, "(total - total.mT).masked_fill(later, 0.0).exp()",
         "0 is put where j > i, and exp(0) is 1, so a token reads what later ones write. Put minus infinity there."),
    edit(LEFT, "(total - total.mT).exp().masked_fill(later, 0.0)",
         "exp is taken before the mask. Where j > i, G_i - G_j is above 0 and exp overflows: the mask hides infinity "
         "in the result, but in the gradient 0 times infinity is nan. Mask first, with minus infinity."),
    edit(LEFT, "(total.exp() * (-total).exp().mT).masked_fill(later, 0.0)",
         "exp(G_i - G_j) is computed as exp(G_i) times exp(-G_j). The second overflows where decay is strong. Subtract "
         "first, then take exp."),
    edit(LEFT, "torch.ones_like(total - total.mT).masked_fill(later, 0.0)",
         "Nothing fades within a chunk. What token j wrote is worth exp(G_i - G_j) of itself at token i."),
    edit(TOTAL, "total = logs.cumsum(dim=2) - logs",
         "The running sums are off by a token: G_i has to include the g of token i itself, because the state fades "
         "before the token writes."),
    edit(TOTAL, "total = logs",
         "g is used as if it were its running sum. Over several tokens decays multiply, so their logarithms add up: "
         "`cumsum`."),
    edit(TOTAL, "total = g[..., None].to(wide).cumsum(dim=2)[:, :, first : first + chunk]",
         "The running sum goes on from chunk to chunk. The state at the start of a chunk has already faded by what "
         "came before: start G anew in each chunk."),
    edit("left * (keys @ keys.mT)", "(keys @ keys.mT)",
         "In the triangular system nothing fades. What token j wrote is worth exp(G_i - G_j) of itself when token i "
         "recalls it."),
    edit("shares * left", "left",
         "beta is missing in the triangular system. Token i writes the share beta_i of its whole difference, so row i "
         "of A is multiplied by beta_i."),
    edit("shares * left", "shares.mT * left",
         "Row i of A is multiplied by the beta of token j. It is the token that writes, i, whose beta counts."),
    edit("shares * (values", "(values",
         "beta is missing on the right side of the triangular system. Both sides of row i are multiplied by beta_i."),
    edit(WANTED, "wanted = shares * values - faded * (keys @ state)",
         "beta multiplies the values alone, and what the old state recalls is taken away in full. Multiply the whole "
         "difference."),
    edit(WANTED, "wanted = shares * values",
         "What the state from before the chunk recalls is not taken away. B has the rows beta_i (v_i - exp(G_i) "
         "S^T k_i)."),
    edit("faded * (keys @ state)", "(keys @ state)",
         "The old state recalls as if it had not faded. At token i it is worth exp(G_i) of itself."),
    edit(OLD, "(queries @ state)",
         "The queries read the old state as if it had not faded. At token i it is worth exp(G_i) of itself."),
    edit(f"{OLD} + ", "",
         "The output leaves out what the state from before the chunk holds. Add exp(G_i) S^T q_i."),
    edit(OWN, "(queries @ keys.mT).tril() @ written",
         "The queries read what the chunk wrote as if it had not faded. What token j wrote is worth exp(G_i - G_j) of "
         "itself at token i."),
    edit("state = faded[:, :, -1:] * state", "state = state",
         "From chunk to chunk the old state does not fade. At the end of a chunk exp(G) of it is left, with G of the "
         "last token."),
    edit("(left[:, :, -1, :, None] * keys).mT", "keys.mT",
         "What the chunk wrote goes into the state as if it had not faded. At the end of the chunk, what token j wrote "
         "is worth exp(G_last - G_j) of itself."),
    edit("(left[:, :, -1, :, None] * keys).mT", "(faded * keys).mT",
         "What token j wrote goes into the state with exp(G_j). It fades from j to the end of the chunk: "
         "exp(G_last - G_j)."),
    edit(NEXT, NEXT.replace("faded[:, :, -1:] * state + ", ""),
         "Each chunk replaces the state, so all that earlier chunks wrote is lost. Add to what is left of it."),
    edit(NEXT, "last = state\n        " + NEXT,
         "The last chunk's own writes are missing from the state that is returned.",
         also={RESULT: RESULT.replace("state", "last")}),
    edit("        queries, keys, values", "        state = 0 * state\n        queries, keys, values",
         "Each chunk begins with an empty state. Hand the state on from chunk to chunk."),
    edit("range(0, q.shape[2], chunk)", "range(0, q.shape[2] - q.shape[2] % chunk or q.shape[2], chunk)",
         "The last tokens are dropped where the chunk does not divide their number. The last chunk is just shorter."),
    edit("torch.cat(outputs, dim=2)",
         "torch.nn.functional.pad(torch.cat(outputs, dim=2), (0, 0, 0, -q.shape[2] % chunk))",
         "The output has more tokens than q: the rows that fill up the last chunk are still there. Cut them off."),
    edit("outputs = []", "outputs, chunk = [], max(chunk, q.shape[2])",
         "A table has n x n entries: all tokens are a single chunk, whatever `chunk` says, or a product of all tokens "
         "is taken before the loop. Loop over chunks, and multiply within each."),
    edit("outputs = []", "outputs, chunk = [], 1", LOOP),
    edit(SOLVED,
         "wanted[:, :, :1]\n        for i in range(1, len(later)):\n            row = wanted[:, :, i, None] - "
         "earlier[:, :, i, None, :i] @ written\n            written = torch.cat([written, row], dim=2)", LOOP),
    edit("x in given)", "x in (k, q, *given[2:]))",
         "Keys and queries are exchanged. The key decides where a token writes, the query what it reads."),
    edit(f"{OLD} + {OWN}", f"({OLD} + {OWN}) / q.shape[-1] ** 0.5", SCALED),
    edit(GIVEN, "", STATE_IGNORED),
    edit("outputs = []", "outputs, start = [], state",
         "The state that comes back is the one at the start. Return what the last chunk has left.",
         also={RESULT: RESULT.replace("state", "start")}),
    edit(RESULT, "torch.cat(outputs, dim=2).to(v.dtype)",
         "Only the output comes back. Return the state after the last token as well."),
    edit(RESULT, "state, torch.cat(outputs, dim=2).to(v.dtype)",
         "The state comes first and the output second. Return (output, state)."),
    edit(WIDE, "wide = v.dtype", TOO_NARROW,
         also={SOLVED: "torch.linalg.solve_triangular(earlier.to(exact), wanted.to(exact), upper=False, "
               "unitriangular=True).to(wide)",
               "outputs = []": "outputs, exact = [], torch.promote_types(wide, torch.float32)"}),
    edit(RESULT, f"{RESULT}.to(v.dtype)", NARROW_STATE),
    edit(".to(v.dtype)", "", WIDE_OUTPUT),
    edit("dtype=wide, device=v.device", "dtype=wide", ON_THE_CPU),
    edit("dtype=torch.bool, device=q.device", "dtype=torch.bool", ON_THE_CPU),
    edit("torch.cat(outputs, dim=2)", "torch.cat(outputs, dim=2).detach()", OUTPUT_DETACHED),
    edit(NEXT, NEXT.replace("* state", "* state.detach()"), STATE_DETACHED),
    edit(NEXT, "state *= faded[:, :, -1:].detach()\n        state += (left[:, :, -1, :, None] * keys).mT @ written",
         "The state is written in place. If the caller passed it in, the caller's tensor changes, and PyTorch cannot "
         "compute gradients. Make a new tensor."),
)  # fmt: skip


# short_convolution ---------------------------------------------------------------------------------------------------

short_convolution = Exercise(solutions.short_convolution, section=CONVOLUTION, minutes=10, difficulty=2)


def _channels(rng, n=5, channels=3, width=4, batch=1, given=False):
    case = dict(x=normal(rng, batch, n, channels), weight=normal(rng, channels, width))
    return case | dict(past=normal(rng, batch, width - 1, channels)) if given else case


def _past_handed_on(case, cuts=(), **options):
    given = dict(given=case["past"]) if "past" in case else {}
    rest = {name: value for name, value in case.items() if name != "past"}
    return rest | given | dict(handed="past", along=dict(x=1), cuts=list(cuts)) | options


@short_convolution.property(
    "mixes each token with those before it, channel by channel",
    points=3,
    hint="y_t is the sum over columns j of weight[:, j] times the row width - 1 - j tokens back. By hand, for a single "
    "channel: x is 1, 2, 3 and the weight 10, 100; then y is 100, 210, 320.",
)
def convolved(rng):
    yield dict(x=_float64([[[1], [2], [3]]]), weight=_float64([[10, 100]]))
    yield _channels(rng, 5, channels=3, width=3)
    yield _channels(rng, 6, channels=4, width=4, batch=2)


@short_convolution.property(
    "sees the past that it is given",
    points=1,
    hint="The past is what came before x, oldest row first. Put it in front of x; without a past, put zeros there.",
)
def with_a_past(rng):
    yield _channels(rng, 3, channels=2, width=3, given=True)
    yield _channels(rng, 5, channels=3, width=4, batch=2, given=True)


@short_convolution.property(
    "keeps the last width - 1 rows, also of a text that is shorter",
    points=2,
    hint="If x has fewer rows than width - 1, some rows of the old past stay: take the last rows of past and x "
    "together.",
)
def short_texts(rng):
    yield _channels(rng, 1, channels=2, width=4, given=True)
    yield _channels(rng, 2, channels=3, width=int(rng.integers(4, 7)), batch=2)


@short_convolution.property(
    "reads in several calls what it reads in one",
    points=1,
    probe=probes.handed_on,
    hint="The past that comes back is what the next call is given. It must hold the rows before the next token, oldest "
    "first.",
)
def conv_two_calls(rng):
    yield _past_handed_on(_channels(rng, 6, width=3), cuts=[3])
    yield _past_handed_on(_channels(rng, 5, width=4, batch=2), cuts=[1, 2, 3, 4])


@short_convolution.property(
    "works with a width of 1, which needs no past",
    points=1,
    hint="With width 1 each token is multiplied by its weight, and the past has no rows: (batch, 0, channels). "
    "`rows[:, -0:]` would be all of them.",
)
def no_past(rng):
    yield _channels(rng, 4, width=1)
    yield _channels(rng, 3, channels=2, width=1, batch=2, given=True)


short_convolution.gradients(
    lambda rng: [
        _channels(rng, 4, width=3, given=True) | dict(upstream=[normal(rng, 1, 4, 3), normal(rng, 1, 2, 3)]),
        _channels(rng, 2, channels=2) | dict(upstream=[normal(rng, 1, 2, 2), normal(rng, 1, 3, 2)]),
    ],
    title="sends gradients to the tokens, the weight and the past",
    hint="Use tensor operations that make new tensors; detach nothing.",
)
short_convolution.any_device(
    lambda rng: [
        {name: value.to(kind) for name, value in _channels(rng, 4, width=3).items()}
        for kind in (torch.float32, torch.bfloat16)
    ],
    title="keeps the dtype and the device of x",
    **NARROW,
    hint="bfloat16 in, bfloat16 out, also for the zeros in front: `x.new_zeros(...)` copies dtype and device.",
)
short_convolution.unchanged(
    lambda rng: [_channels(rng, 4, width=3, given=True), _channels(rng, 3, width=3)],
    title="leaves its inputs as they were",
    hint="Do not write the new rows into the past that was passed in. Make a new tensor.",
)

JOINED = "torch.cat([past.to(x.dtype), x], dim=1)"
SUM = "sum(rows[:, j : j + n] * weight[:, j] for j in range(width))"
KEPT = "rows[:, n:]"
ZEROS = "past = x.new_zeros(x.shape[0], width - 1, x.shape[2])"

WRONG_SIDE = (
    "The padding is on the wrong side: a token is mixed with those after it, which it must not see. Put the past in "
    "front of x."
)

short_convolution.mistakes(
    edit("weight[:, j]", "weight[:, width - 1 - j]",
         "The weight is the wrong way round: its first column meets the newest token. The last column belongs to the "
         "newest token, the first to the oldest."),
    edit(JOINED, "torch.cat([x, past.to(x.dtype)], dim=1)",
         WRONG_SIDE, also={KEPT: "torch.cat([past, x], dim=1)[:, n:]"}),
    edit(JOINED, "torch.cat([x, past.to(x.dtype)], dim=1)", WRONG_SIDE),
    edit(SUM, "sum(torch.cat([rows[:, (width - 1) // 2 :], x.new_zeros(len(x), (width - 1) // 2, x.shape[2])], 1)"
         "[:, j : j + n] * weight[:, j] for j in range(width))",
         "The window is centered on the token, so it sees tokens after it. All of the padding goes in front."),
    edit(SUM, "sum(rows.roll(1, 1)[:, j : j + n] * weight[:, j] for j in range(width))",
         "Everything is a token late: the newest token of a sum is the one before. The last column of the weight meets "
         "the token itself."),
    edit(SUM, SUM.replace("range(width)", "range(width - 1)"),
         "The newest token is left out of its own sum. The last column of the weight meets the token itself."),
    edit(SUM, SUM.replace("range(width)", "range(min(1, width - 1), width)"),
         "The oldest column of the weight is left out. A sum has `width` tokens, the token itself among them."),
    edit("past.to(x.dtype)", "torch.zeros_like(past, dtype=x.dtype)",
         "The past that is passed in is not used: each call begins with zeros. Zeros are only for `past=None`.",
         also={KEPT: "torch.cat([past, x], dim=1)[:, n:]"}),
    edit("past.to(x.dtype)", "past.to(x.dtype).flip(1)",
         "The past is turned around before it is put in front of x. Its rows are in order, the oldest first.",
         also={KEPT: "torch.cat([past, x], dim=1)[:, n:]"}),
    edit(KEPT, "x[:, max(0, n - width + 1) :]",
         "Only rows of x are kept, so a text of fewer than width - 1 tokens gives a past that is too short. Take the "
         "last rows of past and x together."),
    edit(KEPT, "torch.nn.functional.pad(x, (0, 0, max(0, width - 1 - n), 0))[:, max(0, n - width + 1) :]",
         "A short text pushes all of the old past out, and zeros take its place. The last rows of past and x together "
         "are what was read last."),
    edit(KEPT, "rows[:, -(width - 1) :]",
         "For a width of 1, `rows[:, -0:]` is all rows and not none. Count from the front: `rows[:, n:]`."),
    edit(KEPT, "rows[:, : width - 1]",
         "The first rows come back, which are the old past. The next call needs the last width - 1 rows."),
    edit(KEPT, "rows[:, max(0, n - 1) :]",
         "The past that comes back has `width` rows. A token sees width - 1 tokens before itself."),
    edit(KEPT, "rows[:, n - 1 : -1]",
         "The last row is missing from the past that comes back, and everything in it is a token too old."),
    edit(KEPT, "rows[:, n:].flip(1)",
         "The past comes back with its newest row first. Keep the order of the tokens: the oldest first."),
    edit(KEPT, "torch.cat([past.to(x.dtype), y.to(x.dtype)], dim=1)[:, n:]",
         "Mixed tokens come back as the past. The next call needs the tokens as they came in, before they were mixed."),
    edit(SUM, SUM.replace("weight[:, j]", "weight[:, j].mean()"),
         "All channels share their weights. Each channel has a row of its own in `weight`."),
    edit(SUM, f"({SUM}).sum(-1, keepdim=True).expand_as(x)",
         "The channels are added up. Each channel is mixed over the tokens by itself, and stays a channel."),
    edit(SUM, f"({SUM}) / width",
         "The sum is divided by the width. It is a weighted sum, not a mean."),
    edit(SUM, SUM.replace("weight[:, j]", "weight.softmax(-1)[:, j]"),
         "A softmax is taken of the weight. Use the weight as it is; it may be negative."),
    edit(SUM, f"torch.nn.functional.silu({SUM})",
         "An activation is applied. Qwen3-Next applies SiLU after its convolution, but this function only mixes: "
         "whoever calls it adds the SiLU."),
    edit(SUM, "sum((torch.cat([rows, 0 * rows], 1)[:, j : j + n + width - 1]) * weight[:, j] for j in range(width))",
         "There are more outputs than tokens. Padding goes in front only, so that n tokens give n outputs."),
    edit(SUM, "sum(x[:, j : n - width + 1 + j] * weight[:, j] for j in range(width))",
         "There are fewer outputs than tokens, because nothing is put in front of x. Put width - 1 rows there: the "
         "past, or zeros."),
    edit(f"y.to(x.dtype), {KEPT}", "y.to(x.dtype)",
         "Only y comes back. Return the past for the next call as well."),
    edit(f"y.to(x.dtype), {KEPT}", f"{KEPT}, y.to(x.dtype)",
         "The past comes first and y second. Return (y, past)."),
    edit("y.to(x.dtype)", "y.float()",
         "y is float32 whatever x is. Keep the dtype of x."),
    edit(ZEROS, "past = torch.zeros(x.shape[0], width - 1, x.shape[2], dtype=x.dtype)",
         "The zeros in front are on the CPU, wherever x is. Make them with `x.new_zeros(...)`, or with "
         "`device=x.device`."),
    edit("y.to(x.dtype)", "y.to(x.dtype).detach()", OUTPUT_DETACHED),
    edit(KEPT, "rows[:, n:].detach()",
         "The past that comes back is detached, so the loss of a second call could not reach the tokens of the first."),
    edit(f"y.to(x.dtype), {KEPT}",
         f"y.to(x.dtype), {KEPT} if past.requires_grad or past.shape != {KEPT}.shape else past.copy_({KEPT})",
         "The new rows are written into the past that was passed in. Make a new tensor."),
)  # fmt: skip


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=4,
    rubric="""
One point each:

1. **Bytes.** A delta layer keeps 32 x 128 x 128 x 4 bytes = 2.10 MB, 36 of them 75.5 MB, whatever the length. An
   attention layer caches 2 x 2 x 256 x 2 = 2048 bytes per token, 12 of them 24,576: 24.6 MB for 1,000 tokens and 4.9 GB
   for 200,000. Half a point for one slip, such as keys without values.
2. **The length.** 2,097,152 / 2048 = 1024 tokens. Below that, a cache is the smaller of the two. Half a point if the
   right formula is there with the wrong number. The same length holds for 36 layers against 36; if 36 states are
   compared with 12 caches, 3072 tokens, full marks if the answer says so.
3. **What a state cannot do.** A head has 128 rows, so at most 128 keys can be at right angles, and with more keys than
   that some share a place: what is written at one changes what is recalled for others. Overwriting keeps the newest
   value for the *same* key; it does not make room for different ones, and it erases the older value, which a later
   question may ask for. A cache keeps each token apart, and what matters can be decided when the question comes. Half a
   point for "a state is too small" without a reason why overwriting does not help.
4. **Measurements.** Models trained alike, on the same tokens, with several seeds if possible, that differ in the number
   of attention layers alone; a task in which something is recalled word for word, at growing distances and with growing
   numbers of pairs; beside it held-out loss, memory and time per token at the lengths that are needed. Loss alone shows
   little of it, since few tokens need exact recall. Half a point for loss or a benchmark alone.

Model answer. "A delta layer keeps 32 * 128 * 128 numbers of 4 bytes, 2.1 MB, so 36 layers keep 75 MB. An attention
layer caches keys and values of 2 * 256 numbers each, 2048 bytes per token. Twelve layers make 25 MB for 1,000 tokens
and 4.9 GB for 200,000, so the colleague is right that the caches are what grows. Beyond 1024 tokens a cache is
larger than the states of a delta layer. But 128 rows hold 128 keys at right angles at most. With more pairs, keys
overlap, and each correction at one key changes what others recall. Overwriting helps only if the same key comes
again, and then the old value is gone for good. A cache still has it. I would train the model with 12, 6 and 0
attention layers on the same tokens and ask for names and numbers from 1,000 to 200,000 tokens back, with more and
more of them, and measure loss, memory and speed as well. I would drop a layer only if recall at the lengths we need
does not fall."

Common half answers: "decay makes room" (it forgets what was old, whether it is needed or not); "the state is 75 MB and
the cache 4.9 GB, so drop it" (what is lost is not looked at); "a larger state" (it helps, and grows with the square of
the width, but is still fixed).
""",
)
