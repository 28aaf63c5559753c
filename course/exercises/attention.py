"""Exercises of the attention chapter: what must hold, on which inputs, and what people get wrong.

Every size differs from every other wherever it can, so that a swapped axis or a wrong scale shows. Square cases are
there for mistakes that cannot run on anything else, such as a transposed weight matrix.
"""

import numpy as np

from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from solutions import attention as solutions

THREE = dict(Q=np.array([[1, 0], [0, 1], [1, 1]]), K=np.array([[1, 0], [0, 1], [1, 1]]))
THREE_VALUES = np.array([[2, 0], [0, 3], [1, 1]])
CAT_SAT = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
NEARLY = 1e-4  # lets a small number in a denominator pass, so that it costs one property and not all of them
LOWER = np.tril(np.ones((4, 4), dtype=bool))

ROLES = "Three roles: query, key, value"
EQUATION = "The equation, symbol by symbol"
WHY_ROOT = "Why divide by the square root of the width?"
AXES = "Any number of leading dimensions"
MASKS = "A mask says what each query may read"
POLARITY = "What goes wrong"
WHOLE_DIVISION = "`//` divides and rounds down to a whole number. Scores are fractions: divide by `/`."
COLUMN_MAXIMUM = (
    "The maximum is taken over the queries, along axis -2, while the softmax runs along axis -1. Subtract each row's "
    "own maximum, or rows far below it vanish."
)
HALF = (
    "The scores are divided by half of d_k, or by twice d_k, as `d_k ** 1 / 2` does: the power comes before the "
    "division. Write `d_k ** 0.5` or `np.sqrt(d_k)`."
)


def draw(rng, **shapes):
    """Draw an array of standard normal numbers for each name, of the shape given for it."""
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


# project_qkv ---------------------------------------------------------------------------------------------------------

project_qkv = Exercise(solutions.project_qkv, section=ROLES, minutes=10, difficulty=1)


def square_projections(rng):
    return draw(rng, x=(4, 4), W_q=(4, 4), W_k=(4, 4), W_v=(4, 4))


@project_qkv.property(
    "gives queries, keys and values, in this order",
    points=3,
    hint="Three products of the same x, each with its own matrix: Q, then K, then V.",
)
def three_products(rng):
    yield dict(x=CAT_SAT, W_q=np.eye(4)[:, :2], W_k=np.eye(4)[:, 1:3], W_v=2 * np.eye(4))
    yield draw(rng, x=(3, 4), W_q=(4, 2), W_k=(4, 2), W_v=(4, 5))
    yield square_projections(rng)
    whole = rng.integers(-3, 4, size=(4, 4, 4))  # integers and floats, mixed
    yield dict(x=whole[0], W_q=rng.normal(size=(4, 4)), W_k=whole[1], W_v=rng.normal(size=(4, 4)))
    yield dict(x=rng.normal(size=(4, 4)), W_q=whole[1], W_k=rng.normal(size=(4, 4)), W_v=whole[2])


@project_qkv.property(
    "takes any number of leading dimensions",
    points=1,
    hint="`@` multiplies the last two axes and carries all others along. No reshape is needed.",
)
def leading(rng):
    W = draw(rng, W_q=(4, 3), W_k=(4, 3), W_v=(4, 5))
    yield dict(**draw(rng, x=(2, 6, 4)), **W)
    yield dict(**draw(rng, x=(2, 1, 6, 4)), **W)


project_qkv.unchanged(
    lambda rng: [square_projections(rng), dict(square_projections(rng), x=rng.normal(size=(2, 3, 4)))],
    hint="Write each product into a new array, and do not assign to `x.shape`.",
)

PROJECTED = "x @ W_q, x @ W_k, x @ W_v"

project_qkv.mistakes(
    edit(PROJECTED, "x @ W_q.T, x @ W_k.T, x @ W_v.T",
         "You multiply by the transpose of each matrix. Here a token is a row and x is on the left; texts that write "
         "W x store each matrix transposed."),
    edit(PROJECTED, "x @ W_q, x @ W_q, x @ W_q",
         "All three results use one matrix. With a single projection every token would look for exactly what it "
         "offers; the three roles need three matrices."),
    edit("x @ W_v", "x @ W_k",
         "W_k makes the keys and the values. A key is used for comparing, a value is passed on: V comes from x and "
         "W_v."),
    edit("x @ W_k", "x @ W_q",
         "W_q makes the queries and the keys. A token can look for something other than it offers: K comes from x "
         "and W_k."),
    edit("x @ W_v", "x",
         "Queries and keys are right, but the values are x itself. They are projected as well: V comes from x and "
         "W_v."),
    edit(PROJECTED, "x @ W_k, x @ W_q, x @ W_v",
         "The three results are right, their order is not: return queries, then keys, then values. You returned the "
         "keys first."),
    edit(PROJECTED, "x @ W_q, x @ W_v, x @ W_k",
         "The three results are right, their order is not: return queries, then keys, then values. You returned the "
         "values second."),
    edit(PROJECTED, "x @ W_v, x @ W_k, x @ W_q",
         "The three results are right, their order is not: return queries, then keys, then values. You returned the "
         "values first."),
    edit(PROJECTED, "x @ W_q, x @ W_q @ W_k, x @ W_q @ W_k @ W_v",
         "The projections are chained: keys are made from queries, values from keys. All three start from the same "
         "x, side by side."),
    edit(PROJECTED, "x * W_q, x * W_k, x * W_v",
         "`*` multiplies entry by entry. A projection mixes the entries of a token, so it needs the matrix product "
         "`@`."),
    edit("return ", "x = x.reshape(-1, x.shape[-1])\n    return ",
         "The leading dimensions are flattened away and never put back. `@` keeps them: drop the reshape."),
)  # fmt: skip

# attention_weights ---------------------------------------------------------------------------------------------------

attention_weights = Exercise(solutions.attention_weights, section=EQUATION, minutes=15, difficulty=2)


@attention_weights.property(
    "is the softmax of the scaled scores, one row per query",
    points=3,
    rtol=1e-11,
    atol=1e-14,
    hint="Scores of every query with every key, divided by the square root of the width, then a softmax along the "
    "keys, which are the last axis.",
)
def rows(rng):
    yield THREE
    yield draw(rng, Q=(2, 7), K=(5, 7))
    for _ in range(2):  # of one shape: nothing may be left over from the first
        yield draw(rng, Q=(3, 5), K=(4, 5))
    yield dict(THREE, **draw(rng, K=(4, 2)))  # whole numbers and fractions
    yield dict(THREE, **draw(rng, Q=(4, 2)))


@attention_weights.property(
    "takes leading dimensions and broadcasts them",
    points=2,
    rtol=NEARLY,
    hint="Swap only the last two axes of K; `.T` reverses all of them. Sum along the last axis with keepdims=True.",
)
def weights_leading(rng):
    yield draw(rng, Q=(3, 2, 3), K=(3, 3, 3))
    yield draw(rng, Q=(6, 3, 2), K=(6, 4, 2))
    yield draw(rng, Q=(6, 3, 7), K=(2, 1, 4, 7))


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
    lambda rng: draw(rng, Q=(3, 4), K=(5, 4)),
    rtol=NEARLY,
    hint="Operators such as `/=` write into the caller's array. Make a new one.",
)

SCORES = "Q @ np.swapaxes(K, -1, -2) / np.sqrt(d_k)"
ROW_MAXIMUM = "scores.max(axis=-1, keepdims=True)"
ROW_TOTAL = "exponentials.sum(axis=-1, keepdims=True)"
EPSILONS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)

attention_weights.mistakes(
    edit("scores - scores.max(axis=-1, keepdims=True)", "scores - scores.max(axis=-1, keepdims=True) * np.sqrt(d_k)",
         "The maximum is taken before the scores are divided by the square root of d_k. It must be the maximum of the "
         "numbers that go into the exponential, or they overflow or vanish all the same."),
    edit("np.swapaxes(K, -1, -2)", "K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2])",
         "K is reshaped where it should be transposed: the shape fits, but each column then mixes numbers of several "
         "keys. Exchange the axes, with np.swapaxes(K, -1, -2)."),
    edit(" / np.sqrt(d_k)", "",
         "The scores are not scaled. Dot products grow with the width of the vectors; divide them by the square root "
         "of d_k before the softmax.", see=WHY_ROOT),
    edit("/ np.sqrt(d_k)", "/ d_k",
         "The scores are divided by d_k itself. Their standard deviation is the square root of d_k; dividing by more "
         "flattens the weights toward a plain average.", see=WHY_ROOT),
    edit("np.sqrt(d_k)", "{}", HALF, see=WHY_ROOT, each=("(d_k ** 1 / 2)", "d_k ** 1 / 2")),
    edit("/ np.sqrt(d_k)", "* np.sqrt(d_k)",
         "The scores are multiplied by the square root of d_k. They grow with the width already, so divide.",
         see=WHY_ROOT),
    edit("/ np.sqrt(d_k)", "// np.sqrt(d_k)", WHOLE_DIVISION),
    edit("np.swapaxes(K, -1, -2)", "np.swapaxes(K.astype(Q.dtype), -1, -2)",
         "The keys are converted to the dtype of the queries. If that is whole numbers, the keys lose their "
         "fractions: convert nothing."),
    edit(ROW_MAXIMUM, "scores.max(axis=-2, keepdims=True)", COLUMN_MAXIMUM),
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
    solutions.scaled_dot_product_attention, section=EQUATION, minutes=20, difficulty=2
)


@scaled_dot_product_attention.property(
    "returns the output, then the weights",
    points=3,
    rtol=1e-11,
    atol=1e-13,
    hint="The output is the weights times V. Return both, the output first.",
)
def output_and_weights(rng):
    yield dict(**THREE, V=THREE_VALUES)
    yield draw(rng, Q=(3, 4), K=(5, 4), V=(5, 2))
    yield draw(rng, Q=(4, 3), K=(4, 3), V=(4, 3))
    yield dict(THREE, **draw(rng, V=(3, 2)))  # whole numbers and fractions
    yield dict(THREE, **draw(rng, K=(4, 2), V=(4, 3)))


@scaled_dot_product_attention.property(
    "takes leading dimensions and broadcasts them",
    points=1,
    rtol=NEARLY,
    hint="Swap only the last two axes of K, and let `@` carry the others.",
)
def attention_leading(rng):
    yield draw(rng, Q=(3, 2, 3), K=(3, 3, 3), V=(3, 3, 4))
    yield draw(rng, Q=(6, 3, 7), K=(2, 1, 4, 7), V=(4, 5))
    yield draw(rng, Q=(3, 2, 3), K=(4, 3), V=(3, 4, 2))


def square_and_masked(rng):
    return dict(**draw(rng, Q=(4, 3), K=(4, 3), V=(4, 2)), mask=LOWER)


@scaled_dot_product_attention.property(
    "gives a hidden key no weight and shares all of it among the others",
    points=2,
    rtol=NEARLY,
    hint="Where the mask is False the score becomes minus infinity, before the softmax.",
)
def hidden_keys(rng):
    mask = np.array([[1, 1, 0, 0, 1], [0, 1, 0, 0, 0], [1, 1, 1, 1, 0]], dtype=bool)
    yield dict(**draw(rng, Q=(3, 4), K=(5, 4), V=(5, 2)), mask=mask)
    yield square_and_masked(rng)
    yield dict(**THREE, V=THREE_VALUES, mask=LOWER[:3, :3])  # visible keys with a score of 0


@scaled_dot_product_attention.property(
    "broadcasts the mask over leading dimensions",
    points=1,
    rtol=NEARLY,
    hint="np.where broadcasts the mask against the scores; indexing with it does not.",
)
def broadcast_mask(rng):
    inputs = draw(rng, Q=(2, 3, 4), K=(2, 5, 4), V=(2, 5, 6))
    yield dict(**inputs, mask=np.array([[1, 1, 1, 0, 1], [1, 0, 1, 0, 0], [0, 0, 1, 1, 1]], dtype=bool))
    yield dict(**inputs, mask=np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], dtype=bool).reshape(2, 1, 5))
    yield dict(**inputs, mask=np.array([True, False, True, True, False]))


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
    # Nothing for any query, and a leading dimension that only the keys have.
    K = rng.integers(-2, 3, size=(2, 5, 4)) + np.arange(5.0)[:, None]
    yield dict(Q=Q, K=K, V=rng.normal(size=(5, 2)), mask=np.zeros((3, 5), dtype=bool))


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
        [[0.0], [1.0], [1e17]],  # next to 1e17, a difference of 1 is rounded away
    ):
        yield dict(Q=np.array([[1.0]]), K=np.array(keys), V=V, mask=np.array([[True, True, False]]))
    two = np.array([[True, True, False]] * 2)
    yield dict(Q=np.array([[1.0], [-1.0]]), K=np.array([[4e3], [4e3 - 1.0], [7.0]]), V=V, mask=two)


scaled_dot_product_attention.unchanged(
    lambda rng: [square_and_masked(rng), dict(square_and_masked(rng), mask=LOWER & (np.arange(4) != 2)[:, None])],
    hint="Work on new arrays: no `/=`, no `~` in place, no writing into the mask or a view of Q.",
    rtol=NEARLY,
)

MASKED = "np.where(mask, scores, -np.inf)"
SHIFT = "np.where(np.isfinite(top), top, 0.0)"
DIVISOR = "np.where(total == 0.0, 1.0, total)"
UNPROTECTED = {DIVISOR: "total"}  # an empty row is 0/0
APPLY_MASK = "if mask is not None:"
MASK_LATER = {f"{APPLY_MASK}\n        scores = {MASKED}": "if mask is None:\n        mask = 1"}
CAUSAL = f"scores = np.where(np.tri(*scores.shape[-2:]), scores, -np.inf)\n    {APPLY_MASK}"
RESULTS = "weights @ V, weights"
OVER_QUERIES = {"scores.max(axis=-1": "scores.max(axis=-2", **UNPROTECTED}
ZERO_TIMES_INFINITY = (
    "The mask is a number times minus infinity. For visible keys that is 0 times infinity, which is nan. Choose with "
    "np.where."
)
TOTAL_EPSILON = (
    "Something small is added to every total, to save the empty row from 0/0. It also makes every other row sum to "
    "slightly less than one. Treat only the total that is 0."
)

scaled_dot_product_attention.mistakes(
    edit("np.sqrt(d_k)", "1.0",  # and not gone: whole scores would have no -inf
         "The scores are not scaled. Divide them by the square root of d_k, the width of queries and keys.",
         see=WHY_ROOT),
    edit("np.sqrt(d_k)", "np.sqrt(V.shape[-1])",
         "The scale uses the width of the values. A score is a dot product of a query and a key: their width d_k "
         "decides.", see=WHY_ROOT),
    edit("np.sqrt(d_k)", "np.sqrt(K.shape[-2])",
         "The scale uses the number of keys. A dot product grows with the number of products it sums, the width d_k.",
         see=WHY_ROOT),
    edit("np.sqrt(d_k)", "d_k",
         "The scores are divided by d_k itself. Use its square root: that is their standard deviation.",
         see=WHY_ROOT),
    edit("np.sqrt(d_k)", "{}", HALF, see=WHY_ROOT, each=("(d_k ** 1 / 2)", "d_k ** 1 / 2")),
    edit("/ np.sqrt(d_k)", "* np.sqrt(d_k)",
         "The scores are multiplied by the square root of d_k. Divide.", see=WHY_ROOT),
    edit("/ np.sqrt(d_k)", "// np.sqrt(d_k)", WHOLE_DIVISION),
    edit("scores.max(axis=-1", "scores.max(axis=-2", COLUMN_MAXIMUM),
    edit(RESULTS, "weights @ V.astype(Q.dtype), weights",
         "The values are converted to the dtype of the queries. If that is whole numbers, the values lose their "
         "fractions: convert nothing."),
    edit("np.swapaxes(K, -1, -2)", "np.swapaxes(K.astype(Q.dtype), -1, -2)",
         "The keys are converted to the dtype of the queries. If that is whole numbers, the keys lose their "
         "fractions: convert nothing."),
    edit(APPLY_MASK, "if np.any(mask):",
         "A mask that is False everywhere is treated as if there were none. Ask `mask is not None`: where nothing is "
         "visible, every weight is 0.", see=MASKS),
    edit(APPLY_MASK, f"scores = scores - {{}}\n    {APPLY_MASK}",
         "A maximum is subtracted before the mask is applied. If a hidden score is huge, the visible ones lose their "
         "digits in that subtraction, and their differences with them. Hide first, then subtract.", see=MASKS,
         each=(ROW_MAXIMUM, "scores.max()")),
    edit(APPLY_MASK, f'if mask is not None and mask.ndim < 2:\n        raise ValueError("mask")\n    {APPLY_MASK}',
         "A mask of shape (n_k,) is refused. It says the same for every query: np.where broadcasts it.", see=MASKS),
    edit(DIVISOR, f"{DIVISOR} / np.sqrt(d_k)",
         "The weights are scaled after the softmax and no longer sum to one. The scale belongs to the scores.",
         see=WHY_ROOT, also={"/ np.sqrt(d_k)": "/ 1.0"}),
    edit(RESULTS, "weights, weights @ V",
         "Both results are right, but they are in the wrong order: return the output first, then the weights."),
    edit(RESULTS, "weights @ V",
         "Only the output is returned. Return the weights too: output first, then weights."),
    edit(RESULTS, "weights @ K, weights",
         "The weights are applied to the keys. Keys only help decide the shares; what is averaged are the values V.",
         see=ROLES),
    edit(RESULTS, "np.swapaxes(weights @ V, -1, -2), weights",
         "The output is transposed. Its rows belong to the queries: weights on the left, V on the right, and no "
         "transpose afterward."),
    edit(RESULTS, "np.swapaxes(weights, -1, -2) @ V, weights",
         "The weights are transposed before they meet V, so each key collects from the queries. Row i of the weights "
         "mixes the values for query i."),
    edit("exponentials.sum(axis=-1", "exponentials.sum(axis=-2",
         "The softmax runs over the queries: your columns sum to one. Each query shares out its own weight: use the "
         "last axis.", also=OVER_QUERIES),
    edit("np.swapaxes(K, -1, -2)", "K.T",
         "`.T` reverses all axes, the leading ones too. Swap just the last two.", see=AXES),
    edit("np.sqrt(d_k)", "np.sqrt(Q.shape[1])",
         "The width is read from Q.shape[1]. That is d_k only while there are two axes; with a batch in front it is "
         "another axis. The width is always Q.shape[-1].", see=AXES),
    edit(DIVISOR, "(total + {})", TOTAL_EPSILON, see=MASKS, each=EPSILONS),
    edit(f" - {SHIFT}", "",
         "No maximum is subtracted before the exponentials, so large scores overflow and very low ones all become 0. "
         "Subtract each row's own maximum."),
    edit(SHIFT, "scores.max()",
         "One maximum is subtracted for the whole array. A row far below it underflows: all its weights are 0. "
         "Subtract each row's own maximum, along the last axis with keepdims=True."),
    edit("np.where(mask", "np.where(~mask",
         "The mask is inverted: you hide what should be visible. Here True means that the query may attend to the "
         "key.", see=POLARITY),
    edit(f"np.exp(scores - {SHIFT})", "np.exp(scores) * mask",
         "No maximum is subtracted before the exponentials, so large scores overflow, and a hidden one that "
         "overflows is infinity times 0. Hide the scores first, then subtract each row's own maximum.",
         also={DIVISOR: "np.where(total > 0, total, 1.0)", **MASK_LATER}),
    edit(f" - {SHIFT}", "",
         "No maximum is subtracted, so large scores overflow, and a query with no key allowed is 0/0. Subtract each "
         "row's own maximum, and treat the empty row separately.", also=UNPROTECTED),
    edit("scores, -np.inf", "scores, -1e9",
         "A hidden score becomes a big finite number, and its weight is set to 0 afterward. Where a visible score is "
         "lower still, the hidden key takes all the weight first. Use minus infinity.", see=MASKS,
         also={"    return": "    weights = weights if mask is None else weights * mask\n    return"}),
    edit("mask, scores, -np.inf", "mask, -1e9, scores",
         "The mask is inverted, and what it hides gets a finite number. True means that the query may attend to the "
         "key, and a hidden score must be minus infinity.", see=POLARITY),
    edit(MASKED, "scores", "The mask has no effect: every key is visible.", see=MASKS),
    edit(DIVISOR, f"{DIVISOR} * mask",
         "The mask is applied after the softmax, so the hidden share is lost and rows sum to less than one. Hide the "
         "scores, then take the softmax.", see=MASKS, also=MASK_LATER),
    edit(f"np.exp(scores - {SHIFT})", "np.exp(scores - top) * mask",
         "The maximum is taken over hidden scores too, so a hidden key with a huge score makes the visible ones "
         "vanish to 0. Hide first, then subtract the maximum of what is visible.",
         see=MASKS, also=MASK_LATER),
    edit(DIVISOR, "total * mask\n    weights = weights / weights.sum(axis=-1, keepdims=True)",
         "The weights are masked after the softmax and normalized again. In algebra that is the same; but a hidden key "
         "with a huge score takes all the weight first, and an empty row is 0/0.", see=MASKS, also=MASK_LATER),
    edit("scores, -np.inf", "scores, -1e9",
         "A hidden score becomes a big finite number. A visible score can be lower still, and a query with no key "
         "allowed then reads all keys equally. Use minus infinity.", see=MASKS),
    edit(MASKED, "scores + np.where(mask, 0.0, -1e4)",
         "A finite number is added to hidden scores (and shrinks, if it is added before the division). The "
         "differences between them remain, so a query with no key allowed attends as if there were no mask. Use "
         "minus infinity.", see=MASKS),
    edit("scores, -np.inf", "scores, np.finfo(float).min",
         "A query with no key allowed reads all keys equally, as it does where hidden scores get a finite number, "
         "however low. Its weights must be 0. Use minus infinity, and treat the empty row.", see=MASKS),
    edit(DIVISOR, "total",
         "A query with no key allowed gives nan: minus infinity minus itself is not a number, nor is 0/0. Its "
         "weights and output must be 0.", see=MASKS),
    edit(RESULTS, "np.nan_to_num(weights @ V), weights",
         "The output of the empty row is repaired, but its weights are still nan. Repair the weights; the output "
         "follows.", see=MASKS, also=UNPROTECTED),
    edit(MASKED, "scores + (1 - mask) * -np.inf", ZERO_TIMES_INFINITY, see=MASKS, also=UNPROTECTED),
    edit(MASKED, "scores + (1 - mask) * -np.inf", ZERO_TIMES_INFINITY, see=MASKS),
    edit(MASKED, "scores * mask",
         "Hidden scores become 0. That is an ordinary score, which gets weight; hidden means minus infinity.",
         see=MASKS),
    edit(MASKED, "np.where(scores * mask == 0, -np.inf, scores)",
         "Every score of exactly 0 counts as hidden. A key at a right angle to the query has a score of 0 and still "
         "gets weight: let the mask choose, not the score.", see=MASKS),
    edit("np.where(mask", "np.where(mask | np.eye(*scores.shape[-2:], dtype=bool)",
         "Each query may always read the key at its own position. Only the mask says what is visible.", see=MASKS),
    edit(MASKED, "scores + mask",
         "The mask is added to the scores as it is, so a visible key gains 1 and nothing is hidden. A hidden score "
         "must become minus infinity.", see=MASKS),
    edit("np.where(mask", "np.where(np.swapaxes(mask, -1, -2)",
         "The mask is transposed. Its rows are queries and its columns are keys, as in the scores.", see=MASKS),
    edit(f"scores = {MASKED}", "scores[~mask] = -np.inf",
         "You index with the mask, or with what is made of it. An index must have the full shape; np.where "
         "broadcasts.", see=AXES),
    edit(APPLY_MASK, CAUSAL,
         "Every query is treated as causal. Only the mask says what is hidden; without one, each query sees every "
         "key.", see=MASKS),
    edit(SCORES, "np.divide(Q, np.sqrt(d_k), out=Q) @ np.swapaxes(K, -1, -2)",
         "Your code scales the caller's queries in place. Write the scaled values into a new array; in place it also "
         "fails for whole numbers."),
    edit(SCORES, "np.divide(Q, np.sqrt(d_k), out=Q) @ np.swapaxes(K, -1, -2)",
         "Your code scales the caller's queries in place. Write the scaled values into a new array.",
         also={"d_k = Q.shape[-1]": "Q = np.asarray(Q, dtype=float)\n    d_k = Q.shape[-1]"}),
)  # fmt: skip

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
    yield draw(rng, x=(3, 6), W_q=(6, 2), W_k=(6, 2), W_v=(6, 5))
    yield draw(rng, x=(3, 4), W_q=(4, 4), W_k=(4, 4), W_v=(4, 4))


@self_attention.property(
    "passes the mask on", points=1, rtol=NEARLY, hint="Pass the mask on to your attention function, which applies it."
)
def passes_the_mask(rng):
    W = draw(rng, W_q=(3, 2), W_k=(3, 2), W_v=(3, 5))
    yield dict(**draw(rng, x=(4, 3)), mask=LOWER, **W)
    yield dict(**draw(rng, x=(4, 3)), mask=np.array([True, True, False, True]), **W)


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
    yield dict(x=x, mask=np.zeros((4, 4), dtype=bool), W_q=A, W_k=B, W_v=W_v)


@self_attention.property(
    "takes any number of leading dimensions",
    points=1,
    rtol=NEARLY,
    hint="You need no extra code here: if projections and attention take them, so does this.",
)
def self_leading(rng):
    W = draw(rng, W_q=(6, 2), W_k=(6, 2), W_v=(6, 5))
    yield dict(**draw(rng, x=(2, 3, 6)), **W)
    one_hidden = rng.permuted(np.array([[True, False, True]] * 2), axis=1).reshape(2, 1, 1, 3)
    yield dict(**draw(rng, x=(2, 7, 3, 6)), mask=one_hidden, **W)
    each = rng.permuted(np.array([[[True, False, True]] * 3, [[True, False, False]] * 3]), axis=2)
    yield dict(**draw(rng, x=(2, 3, 6)), mask=each, **W)


self_attention.unchanged(
    lambda rng: dict(**square_projections(rng), mask=LOWER), hint="Work on new arrays.", rtol=NEARLY
)

ATTEND = "scaled_dot_product_attention(Q, K, V, mask)"

self_attention.mistakes(
    edit("Q, K, V, mask", "Q, K, x, mask",
         "The values are x itself. Tokens pass on x @ W_v, not x.", see=ROLES),
    edit("Q, K, V, mask", "x, x, x, mask",
         "x is used unprojected for all three roles. Queries, keys and values are x times W_q, W_k and W_v.",
         see=ROLES),
    edit("Q, K, V, mask", "Q, Q, Q, mask",
         "One matrix makes queries, keys and values alike. Each role has its own.", see=ROLES),
    edit(PROJECTED, "x @ W_q.T, x @ W_k.T, x @ W_v.T",
         "Each matrix is used transposed. Tokens are rows, so x is on the left and the matrix is used as it is.",
         see=ROLES),
    edit("Q, K, V, mask", "K, Q, V, mask",
         "Queries and keys have changed places: queries come from x @ W_q, keys from x @ W_k. Your scores are "
         "transposed.", see=ROLES),
    edit("Q, K, V, mask", "Q, V, K, mask",
         "The keys are built with W_v and the values with W_k. Check the order in which your projections are "
         "returned.", see=ROLES, also={"K.shape[-1] != d_k": "False"}),  # so that `@` raises, as in most answers
    edit("Q, K, V, mask", "Q * np.sqrt(Q.shape[-1] / x.shape[-1]), K, V, mask",
         "The scale uses the width of x. What matters is the width of queries and keys, after the projection.",
         see=WHY_ROOT),
    edit(" / np.sqrt(d_k)", "",
         "The scores are not scaled. Divide by the square root of the width of queries and keys.", see=WHY_ROOT),
    edit("Q, K, V, mask", "Q, K, V", "The mask is accepted and never passed on.", see=MASKS),
    edit("x @ W_v", "x @ W_v.astype(x.dtype)",
         "W_v is converted to the dtype of x. If that is whole numbers, the matrix loses its fractions: convert "
         "nothing.", see=ROLES),
    edit("Q, K, V, mask", "Q, K, V, mask if np.any(mask) else None",
         "A mask that is False everywhere is treated as if there were none. Pass it on as it is: where nothing is "
         "visible, every weight is 0.", see=MASKS),
    edit("np.where(mask", "np.where(~mask",
         "The mask is inverted. True means that the query may attend to the key.", see=POLARITY),
    edit("np.where(mask", "np.where({} if mask.ndim > 1 else mask",
         "The mask is transposed. Its rows are queries and its columns are keys, as in the scores.", see=MASKS,
         each=("np.swapaxes(mask, -1, -2)", "mask.T")),
    edit(" / np.sqrt(d_k)", "{}", HALF, see=WHY_ROOT, each=(" / (d_k ** 1 / 2)", " / d_k ** 1 / 2")),
    edit("np.where(mask", "np.where(mask | np.eye(*scores.shape[-2:], dtype=bool)",
         "Each token may always read itself. Only the mask says what is visible.", see=MASKS),
    edit(APPLY_MASK, CAUSAL,
         "Every token sees only itself and what came before, although no mask says so. Leave that to the mask.",
         see=MASKS),
    edit(DIVISOR, "total",
         "A token that may read nothing gives nan. Its weights and output must be 0; treat that row as in scaled "
         "dot-product attention.", see=MASKS),
    edit("scores, -np.inf", "scores, -1e9",
         "A token that may read nothing reads everything equally, because hidden scores are finite. Use minus "
         "infinity, and give that row zeros.", see=MASKS),
    edit("exponentials.sum(axis=-1", "exponentials.sum(axis=-2",
         "The softmax runs over the queries: your columns sum to one. Each token shares out its own weight: use the "
         "last axis.", see=EQUATION, also=OVER_QUERIES),
    edit(DIVISOR, f"{DIVISOR} * mask",
         "The mask is applied after the softmax, so the hidden share is lost and rows sum to less than one. Hide the "
         "scores, then take the softmax.", see=MASKS, also=MASK_LATER),
    edit(MASKED, "scores + np.where(mask, 0.0, -1e4)",
         "A finite number is added to hidden scores. The differences between them remain, so a token that may read "
         "nothing attends as if there were no mask. Use minus infinity, and give that row zeros.", see=MASKS),
    edit(DIVISOR, "(total + {})", TOTAL_EPSILON, see=MASKS, each=EPSILONS),
    edit(RESULTS, "weights, weights @ V",
         "Both results are right, in the wrong order: output first, then weights."),
    edit(RESULTS, "weights @ V",
         "Only the output is returned. Return the weights too: output first, then weights."),
    edit(f"return {ATTEND}", f"output, weights = {ATTEND}\n    return x + output, weights",
         "x is added to the output. That is the residual connection; it belongs to the block around attention in the "
         "chapter on the transformer block."),
)  # fmt: skip

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
    yield dict(Q=np.zeros((3, 4)), K=np.zeros((5, 4)), **draw(rng, V=(5, 2), d_output=(3, 2)))
    yield dict(Q=np.zeros((4, 3)), K=np.zeros((4, 3)), **draw(rng, V=(4, 2), d_output=(4, 2)))


def backward_case(rng):
    return draw(rng, Q=(3, 4), K=(5, 4), V=(5, 2), d_output=(3, 2))


@attention_backward.property(
    "gives all three gradients",
    points=2,
    hint="Go back one step at a time: output, weights, softmax, scale, product. Check each shape.",
)
def all_gradients(rng):
    yield backward_case(rng)
    yield draw(rng, Q=(4, 3), K=(4, 3), V=(4, 2), d_output=(4, 2))
    Q, K, V = (rng.integers(-2, 3, size=shape) for shape in ((3, 4), (5, 4), (5, 2)))  # gradients are fractions
    yield dict(Q=Q, K=K, V=V, d_output=rng.normal(size=(3, 2)))


@attention_backward.property("takes leading dimensions", points=1, hint="Transpose the last two axes only.")
def backward_leading(rng):
    yield draw(rng, Q=(2, 1, 3, 4), K=(2, 1, 5, 4), V=(2, 1, 5, 6), d_output=(2, 1, 3, 6))


@attention_backward.property(
    "sums over the dimensions along which an input was broadcast",
    points=2,
    hint="An input that was used several times gets the sum of what comes back, in its own shape.",
)
def broadcast_gradients(rng):
    yield draw(rng, Q=(6, 3, 4), K=(5, 4), V=(5, 2), d_output=(6, 3, 2))
    yield draw(rng, Q=(2, 1, 3, 4), K=(7, 5, 4), V=(1, 7, 5, 6), d_output=(2, 7, 3, 6))
    yield draw(rng, Q=(3, 4), K=(5, 4), V=(2, 5, 2), d_output=(2, 3, 2))
    yield draw(rng, Q=(2, 3), K=(2, 3, 4, 3), V=(3, 4, 1), d_output=(2, 3, 2, 1))
    yield draw(rng, Q=(2, 3), K=(1, 4, 3), V=(4, 2), d_output=(1, 2, 2))


@attention_backward.property(
    "stays right where the softmax is saturated",
    points=1,
    hint="Use the weights of your stable softmax; where one weight is 1 the gradients are 0.",
)
def saturated(rng):
    Q, K = np.array([[2000.0, 0.0], [1.0, 0.5]]), np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    yield dict(Q=Q, K=K, **draw(rng, V=(3, 2), d_output=(2, 2)))


attention_backward.unchanged(backward_case, hint="Work on new arrays.")

SOFTMAX_STEP = "weights * (d_weights - row_sums)"
ROW_SUM = "(d_weights * weights).sum(axis=-1, keepdims=True)"
SUM_MISSING = "gradient = gradient.sum(axis=tuple(range(gradient.ndim - array.ndim)))"
ROOT = " / np.sqrt(Q.shape[-1])"
IN_SHAPE = "in_shape_of(array, gradient)"
UNPACK = {"return tuple(": "dQ, dK, dV = ("}

attention_backward.mistakes(
    edit("attention_weights(Q, K)", "attention_weights(Q * np.sqrt(Q.shape[-1]), K)",
         "The weights of the forward pass are made from scores without a scale. Divide by the square root of d_k "
         "before the softmax, as well as on the way back."),
    edit(ROW_SUM, "d_weights.sum(axis=-1, keepdims=True)",
         "The plain sum of each row is subtracted. In the softmax step each gradient counts as much as its weight: "
         "subtract the sum of weight times gradient."),
    edit(ROW_SUM, "(d_weights * weights).mean(axis=-1, keepdims=True)",
         "The mean of weight times gradient is subtracted. The weights sum to one already, so it must be the sum."),
    edit(ROW_SUM, "(d_weights * weights).sum()",
         "One sum for all queries is subtracted in the softmax step. Each query has its own softmax: sum along the "
         "last axis, with keepdims=True."),
    edit(SOFTMAX_STEP, "(d_weights - row_sums)",
         "The factor of the weights is missing in the softmax step: a score moves its own weight by as much as that "
         "weight is. It is weight times (gradient minus row sum)."),
    edit(SOFTMAX_STEP, "weights * (d_weights + row_sums)",
         "The row sum is added in the softmax step. Raising one weight lowers the others: subtract it."),
    edit(SOFTMAX_STEP, "weights * d_weights - row_sums",
         "A bracket is missing in the softmax step: the row sum is subtracted after the weights are multiplied. It is "
         "weight times (gradient minus row sum)."),
    edit(ROW_SUM, "d_weights.mean(axis=-1, keepdims=True)",
         "The plain mean of each row is subtracted. The softmax asks for the mean weighted by the attention weights, "
         "the sum of weight times gradient."),
    edit(SOFTMAX_STEP, "0 * weights",
         "The weights are treated as constants, so nothing flows to Q and K. They depend on both: go back through "
         "the softmax too."),
    edit(SOFTMAX_STEP, "d_weights",
         "The softmax is skipped on the way back: the gradient of the weights is used as the gradient of the scores."),
    edit(SOFTMAX_STEP, "weights * d_weights",
         "The row sum is missing in the softmax step. Raising one weight lowers the others; subtract each row's sum "
         "of weight times gradient."),
    edit(SOFTMAX_STEP, "weights * (1 - weights) * d_weights",
         "Only the diagonal of the softmax Jacobian is used, a (1 - a), as for a sigmoid. Each score moves all "
         "weights of its row."),
    edit("sum(axis=-1", "sum(axis=-2",
         "The sum in the softmax step runs over the queries. Each query has its own softmax: sum along the last "
         "axis."),
    edit(f" - {ROW_MAXIMUM}", "",
         "No maximum is subtracted in the softmax, so a score of a thousand gives nan in every gradient. Use the "
         "weights of your stable softmax."),
    edit(f"tuple({IN_SHAPE}", f"tuple(-{IN_SHAPE}",
         "All signs are reversed: this is the step that makes the loss smaller. The gradient points to where it "
         "grows."),
    edit(ROOT, "",
         "The scale is forgotten on the way back. Scores were divided by the square root of d_k, so dQ and dK are "
         "too."),
    edit(ROOT, " * np.sqrt(Q.shape[-1])",
         "The scale is inverted on the way back. The derivative of s / c is 1 / c: divide again."),
    edit(ROOT, " / Q.shape[-1]",
         "The scale is used twice: dQ and dK are divided by d_k, not by its square root."),
    edit("np.swapaxes(weights, -1, -2)", "weights",
         "The weights in dV are not transposed. Value j collects from every query i, over column j of the weights."),
    edit("np.swapaxes(weights, -1, -2) @ d_output", "d_output + 0 * V",
         "dV is d_output itself. Value j went into output i with weight (i, j); that weight comes back with the "
         "gradient."),
    edit("gradients))", "gradients))\n    return dQ, np.swapaxes(dK, -1, -2), dV",
         "dK is transposed. It has the shape of K: one row per key.", also=UNPACK),
    edit("np.swapaxes(d_scores, -1, -2)", "d_scores",
         "dK multiplies by the gradient of the scores without transposing it. Key j collects from column j."),
    edit("gradients))", "gradients))[::-1]",
         "The three gradients are right, their order is not: return dQ, dK, dV."),
    edit("gradients))", "gradients))\n    return dK, dQ, dV",
         "dQ and dK have changed places. A query's gradient is a mixture of keys, a key's is a mixture of queries.",
         also=UNPACK),
    edit(f"tuple({IN_SHAPE}", "tuple(gradient",
         "The gradients keep the broadcast shape. An input that was used many times gets one gradient: the sum, in "
         "its own shape."),
    edit(SUM_MISSING, "if gradient.ndim > array.ndim:\n            gradient = gradient.sum(axis=0)",
         "Only one missing leading axis is summed. An input may lack several: sum until the gradient has as many axes "
         "as the input.", also={"range(array.ndim)": "range(min(array.ndim, gradient.ndim))"}),
    edit(SUM_MISSING, "if gradient.size == array.size:\n            return gradient\n        " + SUM_MISSING,
         "A gradient with as many entries as its input is returned as it is, with a leading axis of size one too many. "
         "Compare the shapes, not the sizes."),
    edit(SUM_MISSING, "return gradient.reshape(-1, *array.shape).sum(axis=0)",
         "The axes along which an input was broadcast are folded by a reshape. That is right only if they are all in "
         "front; elsewhere it mixes entries. Sum over the missing leading axes, then over those of size one."),
    edit(f"tuple({IN_SHAPE}", f"tuple({IN_SHAPE} * (array.size / gradient.size)",
         "Gradients of a broadcast input are averaged. Each use adds its share: sum them."),
)  # fmt: skip

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
