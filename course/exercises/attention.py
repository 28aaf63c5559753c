"""Exercises of the attention chapter: what must hold, on which inputs, and what people get wrong.

Every size differs from every other wherever it can, so that a swapped axis or a wrong scale shows. Square cases are
there for mistakes that cannot run on anything else, such as a transposed weight matrix.
"""

import numpy as np

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from solutions import attention as solutions

THREE = dict(Q=np.array([[1, 0], [0, 1], [1, 1]]), K=np.array([[1, 0], [0, 1], [1, 1]]))
THREE_VALUES = np.array([[2, 0], [0, 3], [1, 1]])
CAT_SAT = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
NEARLY = 1e-4  # lets a small number in a denominator pass, so that it costs one property and not all of them
LOWER = np.tril(np.ones((4, 4), dtype=bool))


def _softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _t(a):
    return np.swapaxes(a, -1, -2)


def _scores(Q, K):
    return Q @ _t(K) / np.sqrt(Q.shape[-1])


# project_qkv ---------------------------------------------------------------------------------------------------------

project_qkv = Exercise(solutions.project_qkv, section="Three roles: query, key, value", minutes=10, difficulty=1)


@project_qkv.property(
    "gives queries, keys and values, in this order",
    points=3,
    hint="Three products of the same x, each with its own matrix: Q, then K, then V.",
)
def three_products(rng):
    yield dict(x=CAT_SAT, W_q=np.eye(4)[:, :2], W_k=np.eye(4)[:, 1:3], W_v=2 * np.eye(4))
    yield dict(
        x=rng.normal(size=(3, 4)), W_q=rng.normal(size=(4, 2)), W_k=rng.normal(size=(4, 2)), W_v=rng.normal(size=(4, 5))
    )
    yield dict(
        x=rng.normal(size=(4, 4)), W_q=rng.normal(size=(4, 4)), W_k=rng.normal(size=(4, 4)), W_v=rng.normal(size=(4, 4))
    )
    whole = rng.integers(-3, 4, size=(4, 4, 4))  # integers and floats, mixed
    yield dict(x=whole[0], W_q=rng.normal(size=(4, 4)), W_k=whole[1], W_v=rng.normal(size=(4, 4)))
    yield dict(x=rng.normal(size=(4, 4)), W_q=whole[1], W_k=rng.normal(size=(4, 4)), W_v=whole[2])


@project_qkv.property(
    "takes any number of leading dimensions",
    points=1,
    hint="`@` multiplies the last two axes and carries all others along. No reshape is needed.",
)
def leading(rng):
    W = dict(W_q=rng.normal(size=(4, 3)), W_k=rng.normal(size=(4, 3)), W_v=rng.normal(size=(4, 5)))
    yield dict(x=rng.normal(size=(2, 6, 4)), **W)
    yield dict(x=rng.normal(size=(2, 1, 6, 4)), **W)


@project_qkv.property(
    "leaves its inputs as they were", points=1, probe=probes.unchanged, hint="Write each product into a new array."
)
def projections_are_new(rng):
    yield dict(
        x=rng.normal(size=(4, 4)), W_q=rng.normal(size=(4, 4)), W_k=rng.normal(size=(4, 4)), W_v=rng.normal(size=(4, 4))
    )


@project_qkv.misconception(
    "You multiply by the transpose of each matrix. Here a token is a row and x is on the left; texts that write W x "
    "store each matrix transposed."
)
def transposed(x, W_q, W_k, W_v):
    return x @ W_q.T, x @ W_k.T, x @ W_v.T


@project_qkv.misconception(
    "All three results use one matrix. With a single projection every token would look for exactly what it offers; "
    "the three roles need three matrices."
)
def one_matrix(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_q, x @ W_q


@project_qkv.misconception(
    "W_k makes the keys and the values. A key is used for comparing, a value is passed on: V comes from x and W_v."
)
def values_from_the_keys(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x @ W_k


@project_qkv.misconception(
    "W_q makes the queries and the keys. A token can look for something other than it offers: K comes from x and W_k."
)
def keys_from_the_queries(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_q, x @ W_v


@project_qkv.misconception(
    "Queries and keys are right, but the values are x itself. They are projected as well: V comes from x and W_v."
)
def values_are_x(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_k, x


@project_qkv.misconception(
    "The three results are right, their order is not: return queries, then keys, then values. You returned the keys "
    "first."
)
def keys_first(x, W_q, W_k, W_v):
    return x @ W_k, x @ W_q, x @ W_v


@project_qkv.misconception(
    "The three results are right, their order is not: return queries, then keys, then values. You returned the "
    "values second."
)
def values_second(x, W_q, W_k, W_v):
    return x @ W_q, x @ W_v, x @ W_k


@project_qkv.misconception(
    "The three results are right, their order is not: return queries, then keys, then values. You returned the "
    "values first."
)
def values_first(x, W_q, W_k, W_v):
    return x @ W_v, x @ W_k, x @ W_q


@project_qkv.misconception(
    "The projections are chained: keys are made from queries, values from keys. All three start from the same x, "
    "side by side."
)
def chained(x, W_q, W_k, W_v):
    Q = x @ W_q
    K = Q @ W_k
    return Q, K, K @ W_v


@project_qkv.misconception(
    "`*` multiplies entry by entry. A projection mixes the entries of a token, so it needs the matrix product `@`."
)
def entrywise(x, W_q, W_k, W_v):
    return x * W_q, x * W_k, x * W_v


@project_qkv.misconception(
    "The leading dimensions are flattened away and never put back. `@` keeps them: drop the reshape."
)
def flattened(x, W_q, W_k, W_v):
    rows = x.reshape(-1, x.shape[-1])
    return rows @ W_q, rows @ W_k, rows @ W_v


# attention_weights ---------------------------------------------------------------------------------------------------

attention_weights = Exercise(
    solutions.attention_weights, section="The equation, symbol by symbol", minutes=15, difficulty=2
)


@attention_weights.property(
    "is the softmax of the scaled scores, one row per query",
    points=3,
    rtol=1e-11,
    atol=1e-14,
    hint="Scores of every query with every key, divided by the square root of the width, then a softmax along the "
    "keys, which are the last axis.",
)
def rows(rng):
    yield dict(**THREE)
    yield dict(Q=rng.normal(size=(2, 7)), K=rng.normal(size=(5, 7)))
    for _ in range(2):  # of one shape: nothing may be left over from the first
        yield dict(Q=rng.normal(size=(3, 5)), K=rng.normal(size=(4, 5)))


@attention_weights.property(
    "takes leading dimensions and broadcasts them",
    points=2,
    rtol=NEARLY,
    hint="Swap only the last two axes of K; `.T` reverses all of them. Sum along the last axis with keepdims=True.",
)
def weights_leading(rng):
    yield dict(Q=rng.normal(size=(3, 2, 3)), K=rng.normal(size=(3, 3, 3)))
    yield dict(Q=rng.normal(size=(6, 3, 2)), K=rng.normal(size=(6, 4, 2)))
    yield dict(Q=rng.normal(size=(6, 3, 7)), K=rng.normal(size=(2, 1, 4, 7)))


@attention_weights.property(
    "survives scores of a thousand and more",
    points=1,
    rtol=NEARLY,
    hint="Subtract each row's own maximum before you take exponentials, as in the softmax chapter.",
)
def huge(rng):
    yield dict(Q=np.array([[4000.0, 3999.0], [-4000.0, -4001.0]]), K=np.eye(2))
    yield dict(Q=np.array([[1e6, 0.0], [1.0, 2.0], [-1e6, 1.0]]), K=rng.normal(size=(4, 2)))


attention_weights.unchanged(
    lambda rng: dict(Q=rng.normal(size=(3, 4)), K=rng.normal(size=(5, 4))),
    rtol=NEARLY,
    hint="Operators such as `/=` write into the caller's array. Make a new one.",
)


WHY_ROOT = "Why divide by the square root of the width?"
AXES = "Any number of leading dimensions"


SCORES = "Q @ np.swapaxes(K, -1, -2) / np.sqrt(d_k)"
ROW_MAXIMUM = "scores.max(axis=-1, keepdims=True)"
ROW_TOTAL = "exponentials.sum(axis=-1, keepdims=True)"
EPSILONS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)

attention_weights.mistakes(
    edit(" / np.sqrt(d_k)", "",
         "The scores are not scaled. Dot products grow with the width of the vectors; divide them by the square root "
         "of d_k before the softmax.", see=WHY_ROOT),
    edit("/ np.sqrt(d_k)", "/ d_k",
         "The scores are divided by d_k itself. Their standard deviation is the square root of d_k; dividing by more "
         "flattens the weights toward a plain average.", see=WHY_ROOT),
    edit("/ np.sqrt(d_k)", "* np.sqrt(d_k)",
         "The scores are multiplied by the square root of d_k. They grow with the width already, so divide.",
         see=WHY_ROOT),
    edit("np.sqrt(d_k)", "np.sqrt(K.shape[-2])",
         "The scale uses the number of keys. What makes a dot product large is how many products it sums, and that "
         "is the width d_k: the last axis, not the one before.", see=WHY_ROOT),
    edit("np.sqrt(d_k)", "np.sqrt(Q.shape[-2])",
         "The scale uses the number of queries. What makes a dot product large is how many products it sums, and "
         "that is the width d_k: the last axis, not the one before.", see=WHY_ROOT),
    edit(f"/ {ROW_TOTAL}", f"/ {ROW_TOTAL} / np.sqrt(d_k)",
         "The scale comes after the softmax, so the rows no longer sum to one. Scale the scores, then turn them into "
         "weights.", see=WHY_ROOT, also={" / np.sqrt(d_k)": ""}),
    edit(ROW_TOTAL, "exponentials.sum(axis=-2, keepdims=True)",
         "The softmax runs over the queries: your columns sum to one. Each query shares out its own weight, so the "
         "rows must: sum along the last axis.", also={ROW_MAXIMUM: "scores.max(axis=-2, keepdims=True)"}),
    edit(ROW_TOTAL, "exponentials.sum()",
         "The softmax runs over the whole array, so all queries together share a weight of one. Each query has a "
         "weight of one to share: sum along the last axis, with keepdims=True.", also={ROW_MAXIMUM: "scores.max()"}),
    edit(f"return exponentials / {ROW_TOTAL}", "return scores",
         "These are the scaled scores. A softmax along the last axis is still missing."),
    edit(f" - {ROW_MAXIMUM}", "",
         "No maximum is subtracted, so a score of a thousand overflows to infinity and the weights are nan. Subtract "
         "each row's maximum first: the weights stay the same."),
    edit(ROW_MAXIMUM, "scores.max()",
         "One maximum is subtracted for the whole array. Each row needs its own, or rows far below it become 0/0."),
    edit("Q @ np.swapaxes(K, -1, -2)", "K @ np.swapaxes(Q, -1, -2)",
         "The operands are swapped: your rows belong to the keys. Row i must hold the weights of query i, so Q is on "
         "the left."),
    edit("np.swapaxes(K, -1, -2)", "np.swapaxes(Q, -1, -2)",
         "The queries are compared with each other; K is never used. A score is one query with one key."),
    edit("Q @ np.swap", "K @ np.swap",
         "The keys are compared with each other; Q is never used. A score is one query with one key."),
    edit("np.swapaxes(K, -1, -2)", "K.T",
         "`.T` reverses all axes, the leading ones too. That works for two axes only; swap just the last two.",
         see=AXES),
    edit("np.sqrt(d_k)", "np.sqrt(Q.shape[1])",
         "The width is read from Q.shape[1]. That is d_k only while there are two axes; with a batch in front it is "
         "the number of queries. The width is always Q.shape[-1].", see=AXES),
    edit(ROW_TOTAL, "exponentials.sum(axis=1, keepdims=True)",
         "The softmax runs along axis 1. That is the last axis only while there are two; with a batch in front it is "
         "the queries. Use axis=-1.", see=AXES, also={ROW_MAXIMUM: "scores.max(axis=1, keepdims=True)"}),
    edit(SCORES,
         "(Q / np.linalg.norm(Q, axis=-1, keepdims=True)) "
        "@ np.swapaxes(K / np.linalg.norm(K, axis=-1, keepdims=True), -1, -2) / np.sqrt(d_k)",
         "Every vector is divided by its length, so these are cosines. Attention keeps the lengths: a long key can "
         "get larger scores than a short one."),
    edit("np.sqrt(d_k)", "np.sqrt(K.shape[1])",
         "The width is read from K.shape[1]. That is d_k only while there are two axes; with a batch in front it is "
         "the number of keys. The width is always K.shape[-1].", see=AXES),
    edit(ROW_TOTAL, f"({ROW_TOTAL} + {{}})",
         "Something small is added to the total, so the rows do not quite sum to one. After the maximum is "
         "subtracted the total is at least one: nothing needs protection.", each=EPSILONS),
    edit(SCORES, "np.divide(Q, np.sqrt(d_k), out=Q) @ np.swapaxes(K, -1, -2)",
         "Your code scales the caller's queries in place. Write the scaled values into a new array; in place it also "
         "fails for whole numbers."),
    edit(SCORES, "np.divide(Q, np.sqrt(d_k), out=Q) @ np.swapaxes(K, -1, -2)",
         "Your code scales the caller's queries in place. Write the scaled values into a new array.",
         also={"d_k = Q.shape[-1]": "Q = np.asarray(Q, dtype=float)\n    d_k = Q.shape[-1]"}),
)  # fmt: skip


# scaled_dot_product_attention ----------------------------------------------------------------------------------------

scaled_dot_product_attention = Exercise(
    solutions.scaled_dot_product_attention, section="The equation, symbol by symbol", minutes=20, difficulty=2
)
MASKS = "A mask says what each query may read"


@scaled_dot_product_attention.property(
    "returns the output, then the weights",
    points=3,
    rtol=1e-11,
    atol=1e-13,
    hint="The output is the weights times V. Return both, the output first.",
)
def output_and_weights(rng):
    yield dict(**THREE, V=THREE_VALUES)
    yield dict(Q=rng.normal(size=(3, 4)), K=rng.normal(size=(5, 4)), V=rng.normal(size=(5, 2)))
    yield dict(Q=rng.normal(size=(4, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(4, 3)))


@scaled_dot_product_attention.property(
    "takes leading dimensions and broadcasts them",
    points=1,
    rtol=NEARLY,
    hint="Swap only the last two axes of K, and let `@` carry the others.",
)
def attention_leading(rng):
    yield dict(Q=rng.normal(size=(3, 2, 3)), K=rng.normal(size=(3, 3, 3)), V=rng.normal(size=(3, 3, 4)))
    yield dict(Q=rng.normal(size=(6, 3, 7)), K=rng.normal(size=(2, 1, 4, 7)), V=rng.normal(size=(4, 5)))
    yield dict(Q=rng.normal(size=(3, 2, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(3, 4, 2)))


@scaled_dot_product_attention.property(
    "gives a hidden key no weight and shares all of it among the others",
    points=2,
    rtol=NEARLY,
    hint="Where the mask is False the score becomes minus infinity, before the softmax.",
)
def hidden_keys(rng):
    yield dict(
        Q=rng.normal(size=(3, 4)),
        K=rng.normal(size=(5, 4)),
        V=rng.normal(size=(5, 2)),
        mask=np.array([[1, 1, 0, 0, 1], [0, 1, 0, 0, 0], [1, 1, 1, 1, 0]], dtype=bool),
    )
    yield dict(Q=rng.normal(size=(4, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(4, 2)), mask=LOWER)


@scaled_dot_product_attention.property(
    "broadcasts the mask over leading dimensions",
    points=1,
    rtol=NEARLY,
    hint="np.where broadcasts the mask against the scores; indexing with it does not.",
)
def broadcast_mask(rng):
    Q, K, V = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 5, 6))
    yield dict(Q=Q, K=K, V=V, mask=np.array([[1, 1, 1, 0, 1], [1, 0, 1, 0, 0], [0, 0, 1, 1, 1]], dtype=bool))
    yield dict(Q=Q, K=K, V=V, mask=np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], dtype=bool).reshape(2, 1, 5))


@scaled_dot_product_attention.property(
    "gives a query with no key allowed zeros, in weights and output",
    points=1,
    rtol=NEARLY,
    hint="A row of minus infinities has no maximum to subtract and a total of 0. Treat both, so that its weights "
    "are 0 and nothing is nan.",
)
def empty_row(rng):
    mask = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]], dtype=bool)
    # Whole numbers survive the rounding of a big finite bias, so that mistake gives the same numbers every time.
    Q, K = rng.integers(-2, 3, size=(3, 4)).astype(float), rng.integers(-2, 3, size=(5, 4)).astype(float)
    yield dict(Q=Q, K=K + np.arange(5.0)[:, None], V=rng.normal(size=(5, 2)), mask=mask)


@scaled_dot_product_attention.property(
    "keeps hidden keys hidden, whatever the scores",
    points=1,
    rtol=0.01,
    atol=0.01,
    hint="Minus infinity is below every score; a big finite number is not. And each row needs the largest of its own "
    "visible scores subtracted: not a hidden one, and not that of another row.",
)
def hidden_for_good(rng):
    # At scores of -4e12 even a right answer may round at 5e-4, hence the wide tolerance.
    V = rng.normal(size=(3, 3))
    # -1e140 is below every fill but the very lowest.
    for keys in (
        [[-4e12], [-4e12 - 1.0], [7.0]],
        [[2.0], [1.0], [5e3]],
        [[4e3], [4e3 - 1.0], [7.0]],
        [[-1e140], [-2e140], [7.0]],
    ):
        yield dict(Q=np.array([[1.0]]), K=np.array(keys), V=V, mask=np.array([[True, True, False]]))
    two = np.array([[True, True, False]] * 2)
    yield dict(Q=np.array([[1.0], [-1.0]]), K=np.array([[4e3], [4e3 - 1.0], [7.0]]), V=V, mask=two)


@scaled_dot_product_attention.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    rtol=NEARLY,
    hint="Work on new arrays: no `/=`, no `~` in place, no writing into a view of Q.",
)
def attention_is_new(rng):
    yield dict(Q=rng.normal(size=(4, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(4, 2)), mask=LOWER)


def _attend(scores, V, mask=None):
    """Right from the scores on; for misconceptions that go wrong before."""
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total > 0, total, 1.0)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "The scores are not scaled. Divide them by the square root of d_k, the width of queries and keys.", section=WHY_ROOT
)
def attention_unscaled(Q, K, V, mask=None):
    return _attend(Q @ _t(K), V, mask)


@scaled_dot_product_attention.misconception(
    "The scale uses the width of the values. A score is a dot product of a query and a key: their width d_k decides.",
    section=WHY_ROOT,
)
def root_of_value_width(Q, K, V, mask=None):
    return _attend(Q @ _t(K) / np.sqrt(V.shape[-1]), V, mask)


@scaled_dot_product_attention.misconception(
    "The scale uses the number of keys. A dot product grows with the number of products it sums, the width d_k.",
    section=WHY_ROOT,
)
def root_of_number_of_keys(Q, K, V, mask=None):
    return _attend(Q @ _t(K) / np.sqrt(K.shape[-2]), V, mask)


@scaled_dot_product_attention.misconception(
    "The scores are divided by d_k itself. Use its square root: that is their standard deviation.", section=WHY_ROOT
)
def attention_divided_by_width(Q, K, V, mask=None):
    return _attend(Q @ _t(K) / Q.shape[-1], V, mask)


@scaled_dot_product_attention.misconception(
    "The scores are multiplied by the square root of d_k. Divide.", section=WHY_ROOT
)
def attention_multiplied_by_root(Q, K, V, mask=None):
    return _attend(Q @ _t(K) * np.sqrt(Q.shape[-1]), V, mask)


@scaled_dot_product_attention.misconception(
    "The weights are scaled after the softmax and no longer sum to one. The scale belongs to the scores.",
    section=WHY_ROOT,
)
def attention_scaled_too_late(Q, K, V, mask=None):
    weights = _attend(Q @ _t(K), V, mask)[1] / np.sqrt(Q.shape[-1])
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "Both results are right, but they are in the wrong order: return the output first, then the weights."
)
def weights_first(Q, K, V, mask=None):
    return _attend(_scores(Q, K), V, mask)[::-1]


@scaled_dot_product_attention.misconception(
    "Only the output is returned. Return the weights too: output first, then weights."
)
def output_only(Q, K, V, mask=None):
    return _attend(_scores(Q, K), V, mask)[0]


@scaled_dot_product_attention.misconception(
    "The weights are applied to the keys. Keys only help decide the shares; what is averaged are the values V.",
    section="Three roles: query, key, value",
)
def mixes_keys(Q, K, V, mask=None):
    weights = _attend(_scores(Q, K), V, mask)[1]
    return weights @ K, weights


@scaled_dot_product_attention.misconception(
    "The output is transposed. Its rows belong to the queries: weights on the left, V on the right, and no transpose "
    "afterward."
)
def output_transposed(Q, K, V, mask=None):
    output, weights = _attend(_scores(Q, K), V, mask)
    return _t(output), weights


@scaled_dot_product_attention.misconception(
    "The weights are transposed before they meet V, so each key collects from the queries. Row i of the weights "
    "mixes the values for query i."
)
def weights_transposed(Q, K, V, mask=None):
    weights = _attend(_scores(Q, K), V, mask)[1]
    return _t(weights) @ V, weights


@scaled_dot_product_attention.misconception(
    "The softmax runs over the queries: your columns sum to one. Each query shares out its own weight: use the last "
    "axis."
)
def attention_over_queries(Q, K, V, mask=None):
    scores = _scores(Q, K)
    weights = _softmax(scores if mask is None else np.where(mask, scores, -np.inf), axis=-2)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "`.T` reverses all axes, the leading ones too. Swap just the last two.", section=AXES
)
def attention_reversed_axes(Q, K, V, mask=None):
    return _attend(Q @ K.T / np.sqrt(Q.shape[-1]), V, mask)


@scaled_dot_product_attention.misconception(
    "The width is read from Q.shape[1]. That is d_k only while there are two axes; with a batch in front it is "
    "another axis. The width is always Q.shape[-1].",
    section=AXES,
)
def attention_second_axis(Q, K, V, mask=None):
    return _attend(Q @ _t(K) / np.sqrt(Q.shape[1]), V, mask)


_TOTAL_EPSILON = (
    "Something small is added to every total, to save the empty row from 0/0. It also makes every other row sum to "
    "slightly less than one. Treat only the total that is 0."
)


def _attention_with_epsilon(size):
    def attention_with_epsilon(Q, K, V, mask=None):
        scores = _scores(Q, K) if mask is None else np.where(mask, _scores(Q, K), -np.inf)
        top = scores.max(axis=-1, keepdims=True)
        e = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
        weights = e / (e.sum(axis=-1, keepdims=True) + size)
        return weights @ V, weights

    return attention_with_epsilon


for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
    scaled_dot_product_attention.misconception(_TOTAL_EPSILON, section=MASKS)(_attention_with_epsilon(_size))


@scaled_dot_product_attention.misconception(
    "No maximum is subtracted before the exponentials, so large scores overflow and very low ones all become 0. "
    "Subtract each row's own maximum."
)
def attention_no_maximum(Q, K, V, mask=None):
    scores = _scores(Q, K)
    e = np.exp(scores if mask is None else np.where(mask, scores, -np.inf))
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total > 0, total, 1.0)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "One maximum is subtracted for the whole array. A row far below it underflows: all its weights are 0. Subtract "
    "each row's own maximum, along the last axis with keepdims=True."
)
def attention_global_maximum(Q, K, V, mask=None):
    scores = _scores(Q, K)
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    e = np.exp(scores - scores.max())
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total > 0, total, 1.0)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "The mask is inverted: you hide what should be visible. Here True means that the query may attend to the key.",
    section="What goes wrong",
)
def polarity(Q, K, V, mask=None):
    return _attend(_scores(Q, K), V, None if mask is None else ~mask)


@scaled_dot_product_attention.misconception(
    "No maximum is subtracted before the exponentials, so large scores overflow, and a hidden one that overflows is "
    "infinity times 0. Hide the scores first, then subtract each row's own maximum."
)
def attention_no_maximum_masked_late(Q, K, V, mask=None):
    e = np.exp(_scores(Q, K)) * (1 if mask is None else mask)
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total > 0, total, 1.0)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "No maximum is subtracted, so large scores overflow, and a query with no key allowed is 0/0. Subtract each row's "
    "own maximum, and treat the empty row separately."
)
def attention_plain_formula(Q, K, V, mask=None):
    scores = _scores(Q, K)
    e = np.exp(scores if mask is None else np.where(mask, scores, -np.inf))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "A hidden score becomes a big finite number, and its weight is set to 0 afterward. Where a visible score is lower "
    "still, the hidden key takes all the weight first. Use minus infinity.",
    section=MASKS,
)
def finite_fill_then_zero(Q, K, V, mask=None):
    scores = _scores(Q, K)
    weights = _softmax(scores if mask is None else np.where(mask, scores, -1e9)) * (1 if mask is None else mask)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "The mask is inverted, and what it hides gets a finite number. True means that the query may attend to the key, "
    "and a hidden score must be minus infinity.",
    section="What goes wrong",
)
def polarity_and_finite_fill(Q, K, V, mask=None):
    scores = _scores(Q, K)
    weights = _softmax(scores if mask is None else np.where(mask, -1e9, scores))
    return weights @ V, weights


@scaled_dot_product_attention.misconception("The mask has no effect: every key is visible.", section=MASKS)
def mask_ignored(Q, K, V, mask=None):
    return _attend(_scores(Q, K), V)


@scaled_dot_product_attention.misconception(
    "The mask is applied after the softmax, so the hidden share is lost and rows sum to less than one. Hide the "
    "scores, then take the softmax.",
    section=MASKS,
)
def after_softmax(Q, K, V, mask=None):
    weights = _attend(_scores(Q, K), V)[1] * (1 if mask is None else mask)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "Hidden scores are removed only after the exponentials, so a hidden key with a huge score still sets the "
    "maximum and the visible ones vanish to 0. Hide first, then subtract the maximum.",
    section=MASKS,
)
def hidden_maximum(Q, K, V, mask=None):
    scores = _scores(Q, K)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True)) * (1 if mask is None else mask)
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total > 0, total, 1.0)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "The weights are masked after the softmax and normalized again. On paper that is the same; but a hidden key with "
    "a huge score takes all the weight first, and an empty row is 0/0.",
    section=MASKS,
)
def renormalized(Q, K, V, mask=None):
    weights = _attend(_scores(Q, K), V)[1]
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "A hidden score becomes a big finite number. A visible score can be lower still, and a query with no key "
    "allowed then reads all keys equally. Use minus infinity.",
    section=MASKS,
)
def finite_fill(Q, K, V, mask=None):
    scores = _scores(Q, K)
    weights = _softmax(scores if mask is None else np.where(mask, scores, -1e9))
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "A finite number is added to hidden scores (and shrinks, if it is added before the division). The differences "
    "between them remain, so a query with no key allowed attends as if there were no mask. Use minus infinity.",
    section=MASKS,
)
def finite_bias(Q, K, V, mask=None):
    weights = _softmax(_scores(Q, K) + (0.0 if mask is None else np.where(mask, 0.0, -1e4)))
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "A query with no key allowed reads all keys equally, as it does where hidden scores get a finite number, however "
    "low. Its weights must be 0. Use minus infinity, and treat the empty row.",
    section=MASKS,
)
def lowest_number(Q, K, V, mask=None):
    scores = _scores(Q, K)
    weights = _softmax(scores if mask is None else np.where(mask, scores, np.finfo(float).min))
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "A query with no key allowed gives nan: minus infinity minus itself is not a number, nor is 0/0. Its weights and "
    "output must be 0.",
    section=MASKS,
)
def nan_row(Q, K, V, mask=None):
    scores = _scores(Q, K)
    weights = _softmax(scores if mask is None else np.where(mask, scores, -np.inf))
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "The output of the empty row is repaired, but its weights are still nan. Repair the weights; the output follows.",
    section=MASKS,
)
def nan_weights(Q, K, V, mask=None):
    scores = _scores(Q, K)
    weights = _softmax(scores if mask is None else np.where(mask, scores, -np.inf))
    return np.nan_to_num(weights @ V), weights


@scaled_dot_product_attention.misconception(
    "The mask is a number times minus infinity. For visible keys that is 0 times infinity, which is nan. Choose with "
    "np.where.",
    section=MASKS,
)
def zero_times_infinity(Q, K, V, mask=None):
    weights = _softmax(_scores(Q, K) + (0.0 if mask is None else (1 - mask) * -np.inf))
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "Hidden scores are multiplied by 0. A score of 0 is an ordinary score and gets weight; hidden means minus "
    "infinity.",
    section=MASKS,
)
def zero_score(Q, K, V, mask=None):
    weights = _softmax(_scores(Q, K) * (1 if mask is None else mask))
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "The mask is added to the scores as it is, so a visible key gains 1 and nothing is hidden. A hidden score must "
    "become minus infinity.",
    section=MASKS,
)
def mask_added(Q, K, V, mask=None):
    weights = _softmax(_scores(Q, K) + (0 if mask is None else mask))
    return weights @ V, weights


@scaled_dot_product_attention.misconception(
    "The mask is transposed. Its rows are queries and its columns are keys, as in the scores.", section=MASKS
)
def mask_transposed(Q, K, V, mask=None):
    return _attend(_scores(Q, K), V, None if mask is None else _t(mask))


@scaled_dot_product_attention.misconception(
    "You index the scores with the mask. An index must have the full shape; np.where broadcasts.", section=AXES
)
def mask_as_index(Q, K, V, mask=None):
    scores = _scores(Q, K)
    if mask is not None:
        scores[~mask] = -np.inf
    return _attend(scores, V)


@scaled_dot_product_attention.misconception(
    "Every query is treated as causal. Only the mask says what is hidden; without one, each query sees every key.",
    section=MASKS,
)
def always_causal(Q, K, V, mask=None):
    scores = _scores(Q, K)
    causal = np.tril(np.ones(scores.shape[-2:], dtype=bool))
    return _attend(scores, V, causal if mask is None else causal & mask)


@scaled_dot_product_attention.misconception(
    "Your code scales the caller's queries in place. Write the scaled values into a new array; in place it also "
    "fails for whole numbers."
)
def attention_scales_in_place(Q, K, V, mask=None):
    Q /= np.sqrt(Q.shape[-1])
    return _attend(Q @ _t(K), V, mask)


@scaled_dot_product_attention.misconception(
    "Your code scales the caller's queries in place. Write the scaled values into a new array."
)
def attention_scales_floats_in_place(Q, K, V, mask=None):
    return attention_scales_in_place(np.asarray(Q, dtype=float), K, V, mask)


# self_attention ------------------------------------------------------------------------------------------------------

self_attention = Exercise(solutions.self_attention, section="A sequence attends to itself", minutes=10, difficulty=2)


@self_attention.property(
    "projects x three ways and attends",
    points=3,
    rtol=1e-11,
    atol=1e-13,
    hint="Project first, then attend with the three results. You have written both functions.",
)
def projects_and_attends(rng):
    yield dict(x=CAT_SAT, W_q=np.eye(4), W_k=np.eye(4), W_v=np.eye(4))
    yield dict(
        x=rng.normal(size=(3, 6)), W_q=rng.normal(size=(6, 2)), W_k=rng.normal(size=(6, 2)), W_v=rng.normal(size=(6, 5))
    )
    yield dict(
        x=rng.normal(size=(3, 4)), W_q=rng.normal(size=(4, 4)), W_k=rng.normal(size=(4, 4)), W_v=rng.normal(size=(4, 4))
    )


@self_attention.property(
    "passes the mask on", points=1, rtol=NEARLY, hint="Pass the mask on to your attention function, which applies it."
)
def passes_the_mask(rng):
    W = dict(W_q=rng.normal(size=(3, 2)), W_k=rng.normal(size=(3, 2)), W_v=rng.normal(size=(3, 5)))
    yield dict(x=rng.normal(size=(4, 3)), mask=LOWER, **W)
    yield dict(x=rng.normal(size=(4, 3)), mask=np.array([True, True, False, True]), **W)


@self_attention.property(
    "gives a token that may read nothing zeros",
    points=1,
    rtol=NEARLY,
    hint="If your scaled dot-product attention treats the empty row, you need no extra code here.",
)
def self_empty_row(rng):
    while True:  # small whole numbers may give scores that are right with queries and keys exchanged
        x, (A, B) = rng.integers(-2, 3, size=(4, 3)), rng.integers(-1, 2, size=(2, 3, 4))
        W_v = rng.normal(size=(3, 5))
        weights, exchanged = (solutions.self_attention(x, *W, W_v, mask=~LOWER)[1] for W in ((A, B), (B, A)))
        if not np.allclose(weights, exchanged, atol=0.01):
            break
    yield dict(x=x, mask=~LOWER, W_q=A, W_k=B, W_v=W_v)


@self_attention.property(
    "takes any number of leading dimensions",
    points=1,
    rtol=NEARLY,
    hint="You need no extra code here: if projections and attention take them, so does this.",
)
def self_leading(rng):
    W = dict(W_q=rng.normal(size=(6, 2)), W_k=rng.normal(size=(6, 2)), W_v=rng.normal(size=(6, 5)))
    yield dict(x=rng.normal(size=(2, 3, 6)), **W)
    one_hidden = rng.permuted(np.array([[True, False, True]] * 2), axis=1).reshape(2, 1, 1, 3)
    yield dict(x=rng.normal(size=(2, 7, 3, 6)), mask=one_hidden, **W)
    each = rng.permuted(np.array([[[True, False, True]] * 3, [[True, False, False]] * 3]), axis=2)
    yield dict(x=rng.normal(size=(2, 3, 6)), mask=each, **W)


@self_attention.property(
    "leaves its inputs as they were", points=1, probe=probes.unchanged, rtol=NEARLY, hint="Work on new arrays."
)
def self_is_new(rng):
    yield dict(
        x=rng.normal(size=(4, 4)),
        W_q=rng.normal(size=(4, 4)),
        W_k=rng.normal(size=(4, 4)),
        W_v=rng.normal(size=(4, 4)),
        mask=LOWER,
    )


@self_attention.misconception(
    "The values are x itself. Tokens pass on x @ W_v, not x.",
    section="Three roles: query, key, value",
)
def self_values_are_x(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x @ W_q, x @ W_k), x, mask)


@self_attention.misconception(
    "x is used unprojected for all three roles. Queries, keys and values are x times W_q, W_k and W_v.",
    section="Three roles: query, key, value",
)
def nothing_projected(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x, x), x, mask)


@self_attention.misconception(
    "One matrix makes queries, keys and values alike. Each role has its own.", section="Three roles: query, key, value"
)
def self_one_matrix(x, W_q, W_k, W_v, mask=None):
    Q = x @ W_q
    return _attend(_scores(Q, Q), Q, mask)


@self_attention.misconception(
    "Each matrix is used transposed. Tokens are rows, so x is on the left and the matrix is used as it is.",
    section="Three roles: query, key, value",
)
def self_transposed(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x @ W_q.T, x @ W_k.T), x @ W_v.T, mask)


@self_attention.misconception(
    "Queries and keys have changed places: queries come from x @ W_q, keys from x @ W_k. Your scores are transposed.",
    section="Three roles: query, key, value",
)
def queries_and_keys_swapped(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x @ W_k, x @ W_q), x @ W_v, mask)


@self_attention.misconception(
    "The keys are built with W_v and the values with W_k. Check the order in which your projections are returned.",
    section="Three roles: query, key, value",
)
def keys_and_values_swapped(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x @ W_q, x @ W_v), x @ W_k, mask)


@self_attention.misconception(
    "The scale uses the width of x. What matters is the width of queries and keys, after the projection.",
    section=WHY_ROOT,
)
def root_of_model_width(x, W_q, W_k, W_v, mask=None):
    return _attend(x @ W_q @ _t(x @ W_k) / np.sqrt(x.shape[-1]), x @ W_v, mask)


@self_attention.misconception(
    "The scores are not scaled. Divide by the square root of the width of queries and keys.", section=WHY_ROOT
)
def self_unscaled(x, W_q, W_k, W_v, mask=None):
    return _attend(x @ W_q @ _t(x @ W_k), x @ W_v, mask)


@self_attention.misconception("The mask is accepted and never passed on.", section=MASKS)
def mask_dropped(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x @ W_q, x @ W_k), x @ W_v)


@self_attention.misconception(
    "The mask is inverted. True means that the query may attend to the key.", section="What goes wrong"
)
def self_polarity(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x @ W_q, x @ W_k), x @ W_v, None if mask is None else ~mask)


@self_attention.misconception(
    "Every token sees only itself and what came before, although no mask says so. Leave that to the mask.",
    section=MASKS,
)
def self_always_causal(x, W_q, W_k, W_v, mask=None):
    causal = np.tril(np.ones((x.shape[-2], x.shape[-2]), dtype=bool))
    return _attend(_scores(x @ W_q, x @ W_k), x @ W_v, causal if mask is None else causal & mask)


@self_attention.misconception(
    "A token that may read nothing gives nan. Its weights and output must be 0; treat that row as in scaled "
    "dot-product attention.",
    section=MASKS,
)
def self_nan_row(x, W_q, W_k, W_v, mask=None):
    scores = _scores(x @ W_q, x @ W_k)
    weights = _softmax(scores if mask is None else np.where(mask, scores, -np.inf))
    return weights @ (x @ W_v), weights


@self_attention.misconception(
    "A token that may read nothing reads everything equally, because hidden scores are finite. Use minus infinity, "
    "and give that row zeros.",
    section=MASKS,
)
def self_finite_fill(x, W_q, W_k, W_v, mask=None):
    scores = _scores(x @ W_q, x @ W_k)
    weights = _softmax(scores if mask is None else np.where(mask, scores, -1e9))
    return weights @ (x @ W_v), weights


@self_attention.misconception(
    "The softmax runs over the queries: your columns sum to one. Each token shares out its own weight: use the last "
    "axis.",
    section="The equation, symbol by symbol",
)
def self_over_queries(x, W_q, W_k, W_v, mask=None):
    return attention_over_queries(x @ W_q, x @ W_k, x @ W_v, mask)


@self_attention.misconception(
    "The mask is applied after the softmax, so the hidden share is lost and rows sum to less than one. Hide the "
    "scores, then take the softmax.",
    section=MASKS,
)
def self_after_softmax(x, W_q, W_k, W_v, mask=None):
    return after_softmax(x @ W_q, x @ W_k, x @ W_v, mask)


@self_attention.misconception(
    "A finite number is added to hidden scores. The differences between them remain, so a token that may read nothing "
    "attends as if there were no mask. Use minus infinity, and give that row zeros.",
    section=MASKS,
)
def self_finite_bias(x, W_q, W_k, W_v, mask=None):
    return finite_bias(x @ W_q, x @ W_k, x @ W_v, mask)


def _self_with_epsilon(size):
    def self_with_epsilon(x, W_q, W_k, W_v, mask=None):
        return _attention_with_epsilon(size)(x @ W_q, x @ W_k, x @ W_v, mask)

    return self_with_epsilon


for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
    self_attention.misconception(_TOTAL_EPSILON, section=MASKS)(_self_with_epsilon(_size))


@self_attention.misconception("Both results are right, in the wrong order: output first, then weights.")
def self_weights_first(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x @ W_q, x @ W_k), x @ W_v, mask)[::-1]


@self_attention.misconception("Only the output is returned. Return the weights too: output first, then weights.")
def self_output_only(x, W_q, W_k, W_v, mask=None):
    return _attend(_scores(x @ W_q, x @ W_k), x @ W_v, mask)[0]


@self_attention.misconception(
    "x is added to the output. That is the residual connection; it belongs to the block around attention in the "
    "chapter on the transformer block."
)
def with_residual(x, W_q, W_k, W_v, mask=None):
    output, weights = _attend(_scores(x @ W_q, x @ W_k), x @ W_v, mask)
    return x + output, weights


# attention_backward --------------------------------------------------------------------------------------------------

attention_backward = Exercise(
    solutions.attention_backward, section="Going backwards", bonus=True, minutes=40, difficulty=3
)


@attention_backward.property(
    "gives the gradient of the values",
    points=1,
    hint="If all queries are zero, every weight is 1/n_k. Value j reaches output i through weight (i, j).",
)
def values_only(rng):
    yield dict(Q=np.zeros((3, 4)), K=np.zeros((5, 4)), V=rng.normal(size=(5, 2)), d_output=rng.normal(size=(3, 2)))
    yield dict(Q=np.zeros((4, 3)), K=np.zeros((4, 3)), V=rng.normal(size=(4, 2)), d_output=rng.normal(size=(4, 2)))


@attention_backward.property(
    "gives all three gradients",
    points=2,
    hint="Go back one step at a time: output, weights, softmax, scale, product. Check each shape.",
)
def all_gradients(rng):
    yield dict(
        Q=rng.normal(size=(3, 4)),
        K=rng.normal(size=(5, 4)),
        V=rng.normal(size=(5, 2)),
        d_output=rng.normal(size=(3, 2)),
    )
    yield dict(
        Q=rng.normal(size=(4, 3)),
        K=rng.normal(size=(4, 3)),
        V=rng.normal(size=(4, 2)),
        d_output=rng.normal(size=(4, 2)),
    )
    Q, K, V = (rng.integers(-2, 3, size=shape) for shape in ((3, 4), (5, 4), (5, 2)))  # gradients are fractions
    yield dict(Q=Q, K=K, V=V, d_output=rng.normal(size=(3, 2)))


@attention_backward.property("takes leading dimensions", points=1, hint="Transpose the last two axes only.")
def backward_leading(rng):
    yield dict(
        Q=rng.normal(size=(2, 1, 3, 4)),
        K=rng.normal(size=(2, 1, 5, 4)),
        V=rng.normal(size=(2, 1, 5, 6)),
        d_output=rng.normal(size=(2, 1, 3, 6)),
    )


@attention_backward.property(
    "sums over the dimensions along which an input was broadcast",
    points=2,
    hint="An input that was used several times gets the sum of what comes back, in its own shape.",
)
def broadcast_gradients(rng):
    yield dict(
        Q=rng.normal(size=(6, 3, 4)),
        K=rng.normal(size=(5, 4)),
        V=rng.normal(size=(5, 2)),
        d_output=rng.normal(size=(6, 3, 2)),
    )
    yield dict(
        Q=rng.normal(size=(2, 1, 3, 4)),
        K=rng.normal(size=(7, 5, 4)),
        V=rng.normal(size=(1, 7, 5, 6)),
        d_output=rng.normal(size=(2, 7, 3, 6)),
    )
    yield dict(
        Q=rng.normal(size=(3, 4)),
        K=rng.normal(size=(5, 4)),
        V=rng.normal(size=(2, 5, 2)),
        d_output=rng.normal(size=(2, 3, 2)),
    )


@attention_backward.property(
    "stays right where the softmax is saturated",
    points=1,
    hint="Use the weights of your stable softmax; where one weight is 1 the gradients are 0.",
)
def saturated(rng):
    yield dict(
        Q=np.array([[2000.0, 0.0], [1.0, 0.5]]),
        K=np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]),
        V=rng.normal(size=(3, 2)),
        d_output=rng.normal(size=(2, 2)),
    )


@attention_backward.property(
    "leaves its inputs as they were", points=1, probe=probes.unchanged, hint="Work on new arrays."
)
def backward_is_new(rng):
    yield dict(
        Q=rng.normal(size=(3, 4)),
        K=rng.normal(size=(5, 4)),
        V=rng.normal(size=(5, 2)),
        d_output=rng.normal(size=(3, 2)),
    )


def _summed(gradient, like):
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - like.ndim)))
    axes = tuple(i for i, size in enumerate(like.shape) if size < gradient.shape[i])
    return gradient.sum(axis=axes, keepdims=True)


def _backward(Q, K, V, d_output, jacobian=None, scale=None, dQ=None, dK=None, dV=None):
    """The right gradients with one step replaced."""
    A = _softmax(_scores(Q, K))
    dA = d_output @ _t(V)
    dS = (jacobian or (lambda A, dA: A * (dA - (A * dA).sum(axis=-1, keepdims=True))))(A, dA)
    dS = dS * (Q.shape[-1] ** -0.5 if scale is None else scale(Q.shape[-1]))
    return (
        _summed((dQ or (lambda: dS @ K))(), Q),
        _summed(dS.swapaxes(-1, -2) @ Q if dK is None else dK(dS), K),
        _summed(_t(A) @ d_output if dV is None else dV(A), V),
    )


@attention_backward.misconception(
    "The weights are treated as constants, so nothing flows to Q and K. They depend on both: go back through the "
    "softmax too."
)
def constant_weights(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, jacobian=lambda A, dA: 0 * A)


@attention_backward.misconception(
    "The softmax is skipped on the way back: the gradient of the weights is used as the gradient of the scores."
)
def softmax_skipped(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, jacobian=lambda A, dA: dA)


@attention_backward.misconception(
    "The row sum is missing in the softmax step. Raising one weight lowers the others; subtract each row's sum of "
    "weight times gradient."
)
def row_sum_missing(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, jacobian=lambda A, dA: A * dA)


@attention_backward.misconception(
    "Only the diagonal of the softmax Jacobian is used, a (1 - a), as for a sigmoid. Each score moves all weights "
    "of its row."
)
def diagonal_only(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, jacobian=lambda A, dA: A * (1 - A) * dA)


@attention_backward.misconception(
    "The sum in the softmax step runs over the queries. Each query has its own softmax: sum along the last axis."
)
def column_sum(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, jacobian=lambda A, dA: A * (dA - (A * dA).sum(axis=-2, keepdims=True)))


@attention_backward.misconception(
    "No maximum is subtracted in the softmax, so a score of a thousand gives nan in every gradient. Use the weights "
    "of your stable softmax."
)
def backward_no_maximum(Q, K, V, d_output):
    e = np.exp(_scores(Q, K))
    A = e / e.sum(axis=-1, keepdims=True)
    dA = d_output @ _t(V)
    dS = A * (dA - (A * dA).sum(axis=-1, keepdims=True)) / np.sqrt(Q.shape[-1])
    return _summed(dS @ K, Q), _summed(_t(dS) @ Q, K), _summed(_t(A) @ d_output, V)


@attention_backward.misconception(
    "All signs are reversed: this is the step that makes the loss smaller. The gradient points to where it grows."
)
def downhill(Q, K, V, d_output):
    return tuple(-gradient for gradient in _backward(Q, K, V, d_output))


@attention_backward.misconception(
    "The scale is forgotten on the way back. Scores were divided by the square root of d_k, so dQ and dK are too."
)
def scale_forgotten(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, scale=lambda d: 1.0)


@attention_backward.misconception(
    "The scale is inverted on the way back. The derivative of s / c is 1 / c: divide again."
)
def scale_inverted(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, scale=lambda d: d**0.5)


@attention_backward.misconception("The scale is used twice: dQ and dK are divided by d_k, not by its square root.")
def scale_twice(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, scale=lambda d: 1.0 / d)


@attention_backward.misconception(
    "The weights in dV are not transposed. Value j collects from every query i, over column j of the weights."
)
def values_not_transposed(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, dV=lambda A: A @ d_output)


@attention_backward.misconception(
    "dV is d_output itself. Value j went into output i with weight (i, j); that weight comes back with the gradient."
)
def values_unweighted(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, dV=lambda A: d_output + 0 * V)


@attention_backward.misconception("dK is transposed. It has the shape of K: one row per key.")
def keys_transposed(Q, K, V, d_output):
    dQ, dK, dV = _backward(Q, K, V, d_output)
    return dQ, _t(dK), dV


@attention_backward.misconception(
    "dK multiplies by the gradient of the scores without transposing it. Key j collects from column j."
)
def key_scores_not_transposed(Q, K, V, d_output):
    return _backward(Q, K, V, d_output, dK=lambda dS: dS @ Q)


@attention_backward.misconception("The three gradients are right, their order is not: return dQ, dK, dV.")
def values_gradient_first(Q, K, V, d_output):
    return _backward(Q, K, V, d_output)[::-1]


@attention_backward.misconception(
    "dQ and dK have changed places. A query's gradient is a mixture of keys, a key's is a mixture of queries."
)
def gradients_swapped(Q, K, V, d_output):
    dQ, dK, dV = _backward(Q, K, V, d_output)
    return dK, dQ, dV


@attention_backward.misconception(
    "The gradients keep the broadcast shape. An input that was used many times gets one gradient: the sum, in its "
    "own shape."
)
def not_summed(Q, K, V, d_output):
    A = _softmax(_scores(Q, K))
    dA = d_output @ _t(V)
    dS = A * (dA - (A * dA).sum(axis=-1, keepdims=True)) / np.sqrt(Q.shape[-1])
    return dS @ K, _t(dS) @ Q, _t(A) @ d_output


@attention_backward.misconception("Gradients of a broadcast input are averaged. Each use adds its share: sum them.")
def averaged(Q, K, V, d_output):
    return tuple(
        g * (like.size / full.size)
        for g, like, full in zip(_backward(Q, K, V, d_output), (Q, K, V), not_summed(Q, K, V, d_output))
    )


# The question graded by hand -----------------------------------------------------------------------------------------

written = Written(
    points=3,
    rubric="""
One point each:

1. **What a weight is.** The share of a token's *value vector* in one output of one head in one layer. Rows sum to
   one, so a weight is relative to the other keys of the same row. It is not importance for the model's answer.
2. **Why a large weight on the first token need not mean much.** Any one of: the softmax must put its weight
   somewhere, and under a causal mask the first token is the only one that every query can see (attention sink); the
   value vector there may be short, so that a large share of it moves the output little; other heads, layers and the
   path around attention carry information too.
3. **An experiment that could prove the claim wrong.** It changes something and looks at the output. For example: set
   that one weight to 0, normalize the rest again, and compare the model's next-token probabilities; replace the first
   word by a different one and see whether the weight stays (if it does, it follows the position and not the word);
   compare weight times length of value. An experiment that only looks at more attention pictures earns half a point.

Model answer. "0.8 says that 80% of what this head writes for `announced` is the value vector of `The`. It does not
say that the word matters: weights in a row must sum to one, and if this head has nothing to look for, the first token
is where the leftover goes, and its value vector may be nearly zero. I would replace `The` by `A` and by `Our`. If the
weight stays near 0.8, it follows the position, not the word. Then I would zero this weight, normalize the rest again,
and see whether the probabilities of the next word change at all."
""",
)
