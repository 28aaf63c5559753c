"""Exercises of the masks chapter: what must hold, on which inputs, and what people get wrong.

Every size differs from every other wherever it can. Square cases are there for mistakes that cannot run on anything
else. The sizes of the masks themselves are drawn too, so that no table of answers can be memorized.
"""

import numpy as np

from attnlab.checking import probes
from course.kit.exercise import Exercise, Written
from solutions import masks as solutions

CAT_SAT = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
EXACT = 1e-11
NEARLY = 1e-4  # lets a small number in a denominator pass, so that it costs one property and not all of them

# Headings of the chapter.
MINUS_INFINITY = "Minus infinity, before the softmax"
LAST_QUERY = "The last query sees every key"
PADDING = "Sentences of different lengths"
EMPTY = "A row with nothing to read"
FINITE = "A big finite number is not minus infinity"
WINDOW = "A window that slides along"
LOSS = "The loss of a language model"
ALL_AT_ONCE = "All positions in one pass"
CONVENTIONS = "What PyTorch calls a mask"


def _softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _t(a):
    return np.swapaxes(a, -1, -2)


def _steps_back(n_q, n_k):
    """How many keys before the query's own position each key is, aligned to the bottom right."""
    return np.arange(n_q)[:, None] + n_k - n_q - np.arange(n_k)


def _penalty(mask):
    return np.where(mask, 0.0, -np.inf)


# causal_mask ---------------------------------------------------------------------------------------------------------

causal_mask = Exercise(solutions.causal_mask, section=LAST_QUERY, minutes=5, difficulty=1)


@causal_mask.property(
    "shows each token itself and what came before",
    points=2,
    hint="Row i may read columns 0 to i, its own included. True means: may read.",
)
def square(rng):
    yield dict(n_q=3)
    yield dict(n_q=1)
    yield dict(n_q=int(rng.integers(5, 13)))
    n = int(rng.integers(2, 11))
    yield dict(n_q=n, n_k=n)


@causal_mask.property(
    "lets the last query see every key when there are more keys",
    points=2,
    hint="The queries are the last ones of a longer text. Row 0 belongs to position n_k - n_q, so it may read "
    "n_k - n_q more columns than in a square.",
)
def more_keys(rng):
    yield dict(n_q=2, n_k=5)
    yield dict(n_q=1, n_k=4)
    for _ in range(2):
        n_q = int(rng.integers(3, 8))
        yield dict(n_q=n_q, n_k=n_q + int(rng.integers(2, 9)))


@causal_mask.property(
    "allows the first queries nothing when there are more queries",
    points=1,
    hint="The same rule, with n_k - n_q below zero: the last query sees every key, each one before it one fewer, "
    "until none is left.",
)
def more_queries(rng):
    yield dict(n_q=5, n_k=2)
    yield dict(n_q=3, n_k=0)
    for _ in range(2):
        n_k = int(rng.integers(2, 8))
        yield dict(n_q=n_k + int(rng.integers(2, 8)), n_k=n_k)


@causal_mask.misconception(
    "The diagonal is missing: no token sees itself, and the first sees nothing at all. A token may read its own row.",
    section=MINUS_INFINITY,
)
def strictly_before(n_q, n_k=None):
    return _steps_back(n_q, n_q if n_k is None else n_k) > 0


@causal_mask.misconception(
    "The diagonal is one too far to the right: each token sees the next one, which is exactly the token it has to "
    "predict.",
    section=MINUS_INFINITY,
)
def one_ahead(n_q, n_k=None):
    return _steps_back(n_q, n_q if n_k is None else n_k) >= -1


@causal_mask.misconception(
    "The triangle is the wrong one: each token sees itself and what comes after. Rows are queries and columns are "
    "keys, so what came before is on the left.",
    section=MINUS_INFINITY,
)
def upper_triangle(n_q, n_k=None):
    return _steps_back(n_q, n_q if n_k is None else n_k) <= 0


@causal_mask.misconception(
    "True and False are swapped: your mask is True where reading is forbidden. Here, as in "
    "scaled_dot_product_attention, True means that the query may attend to the key.",
    section=CONVENTIONS,
)
def polarity(n_q, n_k=None):
    return _steps_back(n_q, n_q if n_k is None else n_k) < 0


@causal_mask.misconception(
    "The mask is aligned to the top left: query 0 is treated as position 0. With more keys than queries, the queries "
    "are the last positions, and the last of them sees every key. Shift the diagonal by n_k - n_q."
)
def top_left(n_q, n_k=None):
    return np.tril(np.ones((n_q, n_q if n_k is None else n_k), dtype=bool))


@causal_mask.misconception(
    "True and False are swapped, and the mask is aligned to the top left. True means may attend, and the last query "
    "sees every key.",
    section=CONVENTIONS,
)
def polarity_top_left(n_q, n_k=None):
    return np.triu(np.ones((n_q, n_q if n_k is None else n_k), dtype=bool), k=1)


@causal_mask.misconception(
    "The diagonal is missing, and the mask is aligned to the top left. A token sees itself, and the last query sees "
    "every key."
)
def strict_top_left(n_q, n_k=None):
    return np.tril(np.ones((n_q, n_q if n_k is None else n_k), dtype=bool), k=-1)


@causal_mask.misconception("n_k is ignored: the mask is always n_q by n_q. It needs one column per key.")
def ignores_n_k(n_q, n_k=None):
    return np.tril(np.ones((n_q, n_q), dtype=bool))


@causal_mask.misconception(
    "Rows and columns have changed places: the shape is (n_k, n_q). Queries are rows, keys are columns."
)
def keys_as_rows(n_q, n_k=None):
    n_k = n_q if n_k is None else n_k
    return np.tril(np.ones((n_k, n_q), dtype=bool), k=n_q - n_k)


@causal_mask.misconception(
    "The diagonal is shifted by n_q - n_k, the wrong way. With more keys than queries each query sees more, so the "
    "shift is n_k - n_q."
)
def shifted_the_wrong_way(n_q, n_k=None):
    n_k = n_q if n_k is None else n_k
    return np.tril(np.ones((n_q, n_k), dtype=bool), k=n_q - n_k)


_KEPT_KEYS = (
    "The keys from before the first query are hidden, so the new tokens see only one another. Those keys are "
    "the past: with n_k - n_q more keys than queries, every query sees that many columns more."
)


@causal_mask.misconception(_KEPT_KEYS)
def kept_keys_hidden(n_q, n_k=None):
    n_k = n_q if n_k is None else n_k
    return (_steps_back(n_q, n_k) >= 0) & (np.arange(n_k) >= n_k - n_q)


@causal_mask.misconception(_KEPT_KEYS)
def square_beside_nothing(n_q, n_k=None):
    n_k = n_q if n_k is None else n_k
    square = np.tril(np.ones((n_q, n_q), dtype=bool))[:, :n_k]
    return np.concatenate([np.zeros((n_q, max(0, n_k - n_q)), dtype=bool), square], axis=1)


@causal_mask.misconception(
    "The shift stops at zero, so with more queries than keys the first query still sees the first key. Let "
    "n_k - n_q go below zero: those queries come before every key and see none."
)
def shift_not_below_zero(n_q, n_k=None):
    n_k = n_q if n_k is None else n_k
    return np.tril(np.ones((n_q, n_k), dtype=bool), k=max(0, n_k - n_q))


@causal_mask.misconception("An n_k of 0 is treated like None: `n_k or n_q` gives n_q for both. Test `n_k is None`.")
def zero_taken_for_none(n_q, n_k=None):
    n_k = n_k or n_q
    return np.tril(np.ones((n_q, n_k), dtype=bool), k=n_k - n_q)


@causal_mask.misconception(
    "Queries without a key are allowed the first key, so that no row is empty. That lets them read a position that "
    "comes after them. An empty row is right here; the softmax has to handle it.",
    section=EMPTY,
)
def no_row_empty(n_q, n_k=None):
    mask = _steps_back(n_q, n_q if n_k is None else n_k) >= 0
    mask[~mask.any(axis=1), 0] = True
    return mask


@causal_mask.misconception(
    "This is what is added to scores: 0 where reading is allowed and minus infinity where it is not. The mask "
    "itself is made of truth values.",
    section=MINUS_INFINITY,
)
def additive(n_q, n_k=None):
    return _penalty(_steps_back(n_q, n_q if n_k is None else n_k) >= 0)


@causal_mask.misconception(
    "You multiply ones and zeros by minus infinity, but 0 times infinity is nan. Make a mask of truth values, without "
    "arithmetic.",
    section=MINUS_INFINITY,
)
def zero_times_infinity(n_q, n_k=None):
    return (_steps_back(n_q, n_q if n_k is None else n_k) < 0) * -np.inf


@causal_mask.misconception(
    "The pattern is right, but it is made of numbers 0 and 1. A mask holds truth values: with dtype=bool, `~` and "
    "np.where do what they should.",
    section=MINUS_INFINITY,
)
def numbers(n_q, n_k=None):
    return (_steps_back(n_q, n_q if n_k is None else n_k) >= 0).astype(float)


@causal_mask.misconception(
    "The pattern is made of numbers 0 and 1, and aligned to the top left. Use dtype=bool, and let the last query see "
    "every key."
)
def numbers_top_left(n_q, n_k=None):
    return np.tril(np.ones((n_q, n_q if n_k is None else n_k)))


@causal_mask.misconception(
    "Everything is allowed. The entries above the diagonal are the future and must be False.", section=MINUS_INFINITY
)
def all_allowed(n_q, n_k=None):
    return np.ones((n_q, n_q if n_k is None else n_k), dtype=bool)


@causal_mask.misconception(
    "An axis for the batch is in front. The mask is the same for every sentence: return (n_q, n_k), and broadcasting "
    "does the rest."
)
def with_a_batch(n_q, n_k=None):
    return (_steps_back(n_q, n_q if n_k is None else n_k) >= 0)[None]


# padding_mask --------------------------------------------------------------------------------------------------------

padding_mask = Exercise(solutions.padding_mask, section=PADDING, minutes=10, difficulty=2)


@padding_mask.property(
    "allows the first `length` positions of each sentence",
    points=2,
    hint="Compare the positions 0 to max_len - 1 with each length. Real tokens have positions below it.",
)
def real_tokens(rng):
    yield dict(lengths=np.array([2, 4, 1]), max_len=5)
    yield dict(lengths=rng.permutation(np.array([1, 3, 4, 6])), max_len=7)
    yield dict(lengths=rng.permutation(np.array([1, 2, 3])), max_len=3)


@padding_mask.property(
    "takes a list of lengths as well",
    points=1,
    hint="np.asarray makes an array of a list and leaves an array as it is.",
)
def lists(rng):
    yield dict(lengths=[3, 1], max_len=4)
    yield dict(lengths=[int(rng.integers(2, 6))], max_len=6)
    yield dict(lengths=rng.permutation([1, 2, 4, 5]).tolist(), max_len=int(rng.integers(6, 10)))


@padding_mask.property(
    "allows nothing of an empty sentence and everything of a full one",
    points=1,
    hint="A length of 0 and a length of max_len are both fine. The same comparison covers them.",
)
def empty_and_full(rng):
    yield dict(lengths=np.array([0, 4, 2]), max_len=4)
    yield dict(lengths=rng.permutation(np.array([0, 5, 2, 3])), max_len=5)


@padding_mask.property(
    "refuses lengths below 0 or above max_len",
    points=1,
    probe=probes.error_of,
    hint="Raise ValueError if any length is negative or larger than max_len; those in between are fine.",
)
def impossible_lengths(rng):
    yield dict(lengths=np.array([2, 6, 1]), max_len=5)
    yield dict(lengths=np.array([2, -1]), max_len=5)
    yield dict(lengths=np.array([4, int(rng.integers(7, 20)), 0]), max_len=6)
    yield dict(lengths=np.array([-int(rng.integers(1, 9)), 3]), max_len=4)
    yield dict(lengths=rng.permutation([2, 0, 5, 3]), max_len=5)


@padding_mask.property(
    "leaves the lengths as they were",
    points=1,
    probe=probes.unchanged,
    hint="Make a new array; do not clip or sort the one you were given.",
)
def lengths_stay(rng):
    yield dict(lengths=rng.permutation(np.array([1, 2, 3, 4, 5])), max_len=int(rng.integers(6, 9)))


def _checked(lengths, max_len):
    lengths = np.asarray(lengths)
    if np.any(lengths < 0) or np.any(lengths > max_len):
        raise ValueError("impossible lengths")
    return lengths


def _padding(lengths, max_len):
    return np.arange(max_len) < _checked(lengths, max_len)[:, None, None]


@padding_mask.misconception(
    "The axis for the queries is missing: the shape is (batch, max_len). Against scores of (batch, n_q, n_k) it would "
    "be read as (n_q, n_k), with sentences where the queries should be. Add an axis of size one in the middle."
)
def no_query_axis(lengths, max_len):
    return _padding(lengths, max_len)[:, 0]


@padding_mask.misconception(
    "The padding is on the query axis: the shape is (batch, max_len, 1). That hides the queries of padding. What must "
    "be hidden are its keys, and keys are the last axis."
)
def on_the_query_axis(lengths, max_len):
    return _t(_padding(lengths, max_len))


@padding_mask.misconception(
    "Padding is hidden as key and as query: (batch, max_len, max_len). Only keys need hiding. The output of a padding "
    "query is never used, and one row with an axis of size one serves every query."
)
def both_axes(lengths, max_len):
    mask = _padding(lengths, max_len)
    return mask & _t(mask)


@padding_mask.misconception(
    "The row of each sentence is repeated for every query. An axis of size one does the same by broadcasting, whatever "
    "the number of queries."
)
def repeated(lengths, max_len):
    return np.repeat(_padding(lengths, max_len), max_len, axis=1)


@padding_mask.misconception(
    "The shape is (batch, 1, 1, max_len), meant for scores with an axis of heads. Here scores are (batch, n_q, n_k), "
    "so one axis of size one is enough."
)
def with_an_axis_for_heads(lengths, max_len):
    return _padding(lengths, max_len)[:, None]


@padding_mask.misconception(
    "The shape is (1, batch, max_len): the axis of size one is in front of the batch. It stands for the queries, and "
    "they come between batch and keys."
)
def axis_in_front(lengths, max_len):
    return np.swapaxes(_padding(lengths, max_len), 0, 1)


@padding_mask.misconception(
    "True and False are swapped: your mask marks the padding, as PyTorch's key_padding_mask does. Here True means may "
    "attend.",
    section=CONVENTIONS,
)
def marks_padding(lengths, max_len):
    return ~_padding(lengths, max_len)


@padding_mask.misconception(
    "True and False are swapped, and the axis for the queries is missing. This is PyTorch's key_padding_mask; here "
    "True means may attend, and the shape is (batch, 1, max_len).",
    section=CONVENTIONS,
)
def key_padding_mask(lengths, max_len):
    return ~_padding(lengths, max_len)[:, 0]


@padding_mask.misconception(
    "One position too many: the position that equals the length is the first padding. Positions count from 0, so real "
    "ones are below the length."
)
def one_too_many(lengths, max_len):
    return np.arange(max_len) <= _checked(lengths, max_len)[:, None, None]


@padding_mask.misconception(
    "One position too few: the last real token is hidden. A sentence of length 3 has positions 0, 1 and 2."
)
def one_too_few(lengths, max_len):
    return np.arange(max_len) < _checked(lengths, max_len)[:, None, None] - 1


@padding_mask.misconception(
    "The real tokens are at the end of each row. Here the padding is on the right, so real tokens come first."
)
def filled_on_the_left(lengths, max_len):
    return _padding(lengths, max_len)[..., ::-1]


@padding_mask.misconception("Every sentence gets the length of the first. Each row needs its own.")
def first_length_for_all(lengths, max_len):
    lengths = _checked(lengths, max_len)
    return _padding(np.full(len(lengths), lengths[0]), max_len)


@padding_mask.misconception(
    "Every sentence gets the largest length, so shorter ones keep their padding. Each row needs its own."
)
def largest_length_for_all(lengths, max_len):
    lengths = _checked(lengths, max_len)
    return _padding(np.full(len(lengths), lengths.max()), max_len)


@padding_mask.misconception(
    "max_len is not used: the mask is as wide as the longest sentence. The batch may be wider than that."
)
def as_wide_as_the_longest(lengths, max_len):
    lengths = _checked(lengths, max_len)
    return _padding(lengths, int(lengths.max()))


@padding_mask.misconception(
    "The pattern is right, but it is made of numbers. A mask holds truth values.", section=MINUS_INFINITY
)
def padding_in_numbers(lengths, max_len):
    return _padding(lengths, max_len).astype(float)


@padding_mask.misconception(
    "This is what is added to scores, 0 and minus infinity. The mask itself is made of truth values.",
    section=MINUS_INFINITY,
)
def padding_additive(lengths, max_len):
    return _penalty(_padding(lengths, max_len))


@padding_mask.misconception(
    "Impossible lengths raise no error. A length below 0 hides the whole sentence, one above max_len means that "
    "tokens have been lost: raise ValueError for both."
)
def nothing_checked(lengths, max_len):
    return np.arange(max_len) < np.asarray(lengths)[:, None, None]


@padding_mask.misconception(
    "Lengths above max_len are accepted. They mean that tokens have been lost: raise ValueError."
)
def upper_end_unchecked(lengths, max_len):
    if np.min(lengths) < 0:
        raise ValueError("negative")
    return nothing_checked(lengths, max_len)


@padding_mask.misconception("Negative lengths are accepted. No sentence has fewer than 0 tokens: raise ValueError.")
def lower_end_unchecked(lengths, max_len):
    if np.max(lengths) > max_len:
        raise ValueError("too long")
    return nothing_checked(lengths, max_len)


@padding_mask.misconception(
    "A length of 0 is refused. A batch may contain an empty sentence: its row allows nothing.", section=EMPTY
)
def refuses_empty(lengths, max_len):
    if np.min(lengths) < 1:
        raise ValueError("empty")
    return _padding(lengths, max_len)


@padding_mask.misconception(
    "A length of max_len is refused. That is a sentence without padding, the longest of the batch."
)
def refuses_full(lengths, max_len):
    if np.max(lengths) >= max_len:
        raise ValueError("full")
    return _padding(lengths, max_len)


@padding_mask.misconception(
    "`assert` raises AssertionError, and python -O leaves it out. Raise ValueError for impossible lengths."
)
def asserts(lengths, max_len):
    lengths = np.asarray(lengths)
    assert np.all(lengths >= 0) and np.all(lengths <= max_len)
    return nothing_checked(lengths, max_len)


@padding_mask.misconception("A list of lengths fails: only arrays can be indexed with None. Begin with np.asarray.")
def arrays_only(lengths, max_len):
    if np.min(lengths) < 0 or np.max(lengths) > max_len:
        raise ValueError("impossible lengths")
    return np.arange(max_len) < lengths[:, None, None]


# sliding_window_mask -------------------------------------------------------------------------------------------------

sliding_window_mask = Exercise(solutions.sliding_window_mask, section=WINDOW, minutes=10, difficulty=2)


@sliding_window_mask.property(
    "shows each token itself and the window - 1 before it",
    points=2,
    hint="For row i and column j, how many steps back is i - j? Allowed are 0 to window - 1.",
)
def band(rng):
    yield dict(n=6, window=3)
    yield dict(n=7, window=2)
    for low in (4, 8):
        yield dict(n=low + int(rng.integers(6)), window=int(rng.integers(3, low)))


@sliding_window_mask.property(
    "takes windows of one, of n and of more",
    points=1,
    hint="With window 1 a token sees only itself; with window n or more, nothing before it is hidden.",
)
def narrow_and_wide(rng):
    yield dict(n=4, window=1)
    yield dict(n=4, window=4)
    yield dict(n=int(rng.integers(2, 5)), window=int(rng.integers(6, 20)))


@sliding_window_mask.property(
    "refuses a window below one",
    points=1,
    probe=probes.error_of,
    hint="Raise ValueError for window < 1. A window of 1 is fine.",
)
def no_window(rng):
    yield dict(n=5, window=0)
    yield dict(n=5, window=-int(rng.integers(1, 9)))
    yield dict(n=5, window=1)
    yield dict(n=int(rng.integers(5, 10)), window=int(rng.integers(2, 5)))


def _window(window):
    if window < 1:
        raise ValueError("window below 1")
    return window


@sliding_window_mask.misconception(
    "The window does not count the token itself, so each row is one too wide. Window 1 means only the token."
)
def without_self(n, window):
    steps = _steps_back(n, n)
    return (steps >= 0) & (steps <= _window(window))


@sliding_window_mask.misconception(
    "One too few: the window counts the token itself and the window - 1 before it. With window 1 your token would see "
    "nothing."
)
def one_short(n, window):
    steps = _steps_back(n, n)
    return (steps >= 0) & (steps < _window(window) - 1)


@sliding_window_mask.misconception("The token itself is hidden. The window begins at the token, not before it.")
def self_hidden(n, window):
    steps = _steps_back(n, n)
    return (steps > 0) & (steps < _window(window))


@sliding_window_mask.misconception(
    "The token itself is hidden and the window reaches one further back instead. It begins at the token."
)
def shifted_back(n, window):
    steps = _steps_back(n, n)
    return (steps > 0) & (steps <= _window(window))


@sliding_window_mask.misconception(
    "The window reaches to both sides, so tokens see the future. This one looks back only: 0 <= i - j.",
    section=MINUS_INFINITY,
)
def both_sides(n, window):
    return np.abs(_steps_back(n, n)) < _window(window)


@sliding_window_mask.misconception(
    "The window is centered on the token, half of it in the future. This one ends at the token.", section=MINUS_INFINITY
)
def centered(n, window):
    return np.abs(_steps_back(n, n)) <= _window(window) // 2


@sliding_window_mask.misconception(
    "The window is ahead of each token, in the future. Rows are queries: what came before is on the left.",
    section=MINUS_INFINITY,
)
def looks_ahead(n, window):
    steps = -_steps_back(n, n)
    return (steps >= 0) & (steps < _window(window))


@sliding_window_mask.misconception(
    "Tokens further back than the window are hidden, but the future is not. Both limits are needed.",
    section=MINUS_INFINITY,
)
def future_open(n, window):
    return _steps_back(n, n) < _window(window)


@sliding_window_mask.misconception(
    "Everything is allowed: each cell meets at least one of the two conditions. Both must hold, so join them with `&` "
    "and not with `|`.",
    section=MINUS_INFINITY,
)
def one_condition_is_enough(n, window):
    steps = _steps_back(n, n)
    return (steps >= 0) | (steps < _window(window))


@sliding_window_mask.misconception(
    "The first rows are empty. Their windows reach back beyond the first token: let them begin at 0, with max(0, i - "
    "window + 1). A slice that begins below 0 counts from the end."
)
def slice_begins_below_zero(n, window):
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        mask[i, i - _window(window) + 1 : i + 1] = True
    return mask


@sliding_window_mask.misconception(
    "The window has no effect: this is the plain causal mask. Steps of `window` or more must be hidden as well."
)
def no_limit(n, window):
    return (_steps_back(n, n) >= 0) & (_window(window) > 0)


@sliding_window_mask.misconception(
    "True and False are swapped: your mask marks what is hidden. True means may attend.", section=CONVENTIONS
)
def window_polarity(n, window):
    steps = _steps_back(n, n)
    return (steps < 0) | (steps >= _window(window))


@sliding_window_mask.misconception(
    "The text is cut into blocks, and each token sees its own block only. A sliding window moves along with the token."
)
def blocks(n, window):
    block = np.arange(n) // _window(window)
    return (_steps_back(n, n) >= 0) & (block[:, None] == block)


@sliding_window_mask.misconception(
    "The text is cut into blocks, and each token sees its own block and the one before. How far that reaches depends "
    "on where in its block a token is; a sliding window has the same reach for every token."
)
def two_blocks(n, window):
    block = np.arange(n) // _window(window)
    return (_steps_back(n, n) >= 0) & (block[:, None] - block <= 1)


@sliding_window_mask.misconception(
    "The first token stays visible to all. Some models do keep it, as an attention sink; a plain sliding window does "
    "not."
)
def first_token_kept(n, window):
    steps = _steps_back(n, n)
    return (steps >= 0) & ((steps < _window(window)) | (np.arange(n) == 0))


@sliding_window_mask.misconception(
    "The pattern is right, but it is made of numbers. A mask holds truth values.", section=MINUS_INFINITY
)
def window_in_numbers(n, window):
    steps = _steps_back(n, n)
    return ((steps >= 0) & (steps < _window(window))).astype(float)


@sliding_window_mask.misconception(
    "This is what is added to scores, 0 and minus infinity. The mask itself is made of truth values.",
    section=MINUS_INFINITY,
)
def window_additive(n, window):
    steps = _steps_back(n, n)
    return _penalty((steps >= 0) & (steps < _window(window)))


@sliding_window_mask.misconception(
    "A window below 1 is accepted, and then no token can read anything. Raise ValueError."
)
def window_unchecked(n, window):
    steps = _steps_back(n, n)
    return (steps >= 0) & (steps < window)


@sliding_window_mask.misconception(
    "A window of 0 is accepted. Even the token itself is outside it: raise ValueError below 1."
)
def zero_passes(n, window):
    if window < 0:
        raise ValueError("negative")
    return window_unchecked(n, window)


@sliding_window_mask.misconception("A window of 1 is refused. It is narrow but allowed: each token sees itself.")
def one_refused(n, window):
    if window <= 1:
        raise ValueError("too narrow")
    return window_unchecked(n, window)


@sliding_window_mask.misconception(
    "A window wider than the text is refused. It hides nothing of the past, which is fine: early tokens always have "
    "less before them than the window."
)
def wide_refused(n, window):
    if not 1 <= window <= n:
        raise ValueError("does not fit")
    return window_unchecked(n, window)


@sliding_window_mask.misconception(
    "`assert` raises AssertionError, and python -O leaves it out. Raise ValueError for a window below 1."
)
def window_asserted(n, window):
    assert window >= 1
    return window_unchecked(n, window)


# masked_softmax ------------------------------------------------------------------------------------------------------

masked_softmax = Exercise(solutions.masked_softmax, section=MINUS_INFINITY, minutes=15, difficulty=2)
SOME = np.array([[1, 1, 0, 0, 1], [0, 1, 0, 0, 0], [1, 1, 1, 1, 0]], dtype=bool)
LOWER = np.tril(np.ones((4, 4), dtype=bool))


@masked_softmax.property(
    "gives all the weight to the allowed keys",
    points=3,
    rtol=EXACT,
    atol=1e-14,
    hint="Where the mask is False, the score becomes minus infinity. Then take the softmax along the last axis.",
)
def allowed_only(rng):
    yield dict(scores=np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 1.0]]), mask=LOWER[:3, :3])
    yield dict(scores=rng.normal(size=(3, 5)), mask=SOME)
    yield dict(scores=rng.normal(size=(4, 4)), mask=LOWER)


@masked_softmax.property(
    "broadcasts scores and mask",
    points=1,
    rtol=NEARLY,
    hint="np.where broadcasts the mask against the scores; indexing with the mask does not.",
)
def broadcast(rng):
    yield dict(scores=rng.normal(size=(2, 3, 5)), mask=SOME)
    yield dict(scores=rng.normal(size=(2, 3, 5)), mask=SOME[:2, None])
    yield dict(scores=rng.normal(size=(3, 5)), mask=np.array([True, False, True, True, False]))
    yield dict(scores=rng.normal(size=(3, 5)), mask=np.stack([SOME, SOME[::-1]]))


@masked_softmax.property(
    "gives zeros where nothing is allowed",
    points=2,
    rtol=NEARLY,
    hint="In an empty row the maximum is minus infinity and the total is 0. Treat both, so that nothing is nan and "
    "the other rows stay as they were.",
)
def empty_rows(rng):
    # Whole numbers survive the rounding of a big finite bias, so that mistake gives the same numbers every time.
    scores = rng.permutation(np.arange(20.0)).reshape(4, 5) / 4
    yield dict(scores=scores, mask=np.concatenate([SOME, np.zeros((1, 5), dtype=bool)])[[0, 3, 1, 2]])
    yield dict(
        scores=rng.integers(-3, 4, size=(2, 3, 5)) + np.arange(5.0), mask=np.repeat([True, False], 15).reshape(2, 3, 5)
    )


@masked_softmax.property(
    "keeps hidden scores hidden, whatever they are",
    points=1,
    rtol=0.01,
    atol=0.01,
    hint="Minus infinity is below every score; a big finite number is not. And a hidden score must not decide which "
    "maximum is subtracted.",
)
def hidden_for_good(rng):
    # At scores of -4e12 even a right answer may round at 5e-4, hence the wide tolerance. -1e140 is below every fill but
    # the very lowest.
    for visible, hidden in (
        ((-4e12, -4e12 - 1.0), 7.0),
        ((2.0, 1.0), 5e3),
        ((-4e3, -4e3 - 1.0), 7.0),
        ((-1e5, -1e5 - 2.0), 3.0),
        ((-1e140, -2e140), 7.0),
    ):
        order, scores = rng.permutation(3), np.array([[*visible, hidden + rng.uniform()]])
        yield dict(scores=scores[:, order], mask=np.array([[True, True, False]])[:, order])


@masked_softmax.property(
    "survives scores of a thousand, row by row",
    points=1,
    rtol=NEARLY,
    hint="Subtract from each row its own largest visible score before you exponentiate.",
)
def huge(rng):
    yield dict(
        scores=np.array([[1000.0, 999.0, 3.0], [-1000.0, -1002.0, 3.0]]) + np.round(rng.normal(size=(2, 3)), 2),
        mask=np.array([[True, True, False], [True, True, False]]),
    )
    yield dict(scores=np.array([[3000.0, 1.0, 2.0], [2.0, 3.0, 1.0]]), mask=np.ones((2, 3), dtype=bool))


@masked_softmax.property(
    "accepts whole numbers as scores",
    points=1,
    rtol=NEARLY,
    hint="An array of whole numbers cannot hold minus infinity. np.where makes a new array that can.",
)
def whole_numbers(rng):
    yield dict(scores=rng.integers(-3, 4, size=(3, 5)) + np.arange(5), mask=SOME)


@masked_softmax.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    rtol=NEARLY,
    hint="Writing minus infinity into `scores` writes into the caller's array. Make a new one.",
)
def pure(rng):
    yield dict(scores=rng.normal(size=(3, 5)), mask=SOME)
    yield dict(scores=rng.normal(size=(4, 4)), mask=LOWER)


def _shares(scores):
    """Softmax that handles rows of minus infinity; for misconceptions that go wrong before."""
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1.0)


@masked_softmax.misconception(
    "The mask is inverted: you hide what should be visible. True means may attend.", section=CONVENTIONS
)
def hides_the_visible(scores, mask):
    return _shares(np.where(mask, -np.inf, scores))


@masked_softmax.misconception("The mask has no effect: every key is visible.")
def mask_ignored(scores, mask):
    return _softmax(np.where(mask, scores, scores))


@masked_softmax.misconception(
    "The mask is applied after the softmax, so the hidden share is lost and rows sum to less than one. Hide the scores "
    "first, then take the softmax."
)
def after_the_softmax(scores, mask):
    return _softmax(scores) * mask


@masked_softmax.misconception(
    "The mask comes after the exponentials, and what is left is normalized again. On paper that is the same; but a "
    "hidden key with a huge score takes all the weight first, and an empty row is 0/0.",
    section=FINITE,
)
def shared_out_again(scores, mask):
    weights = _softmax(scores) * mask
    return weights / weights.sum(axis=-1, keepdims=True)


@masked_softmax.misconception(
    "The mask comes after the exponentials, and what is left is normalized again, with care for the empty row. One "
    "difference from masking first remains: a hidden key with a huge score takes all the weight, and visible ones "
    "vanish.",
    section=FINITE,
)
def shared_out_again_with_care(scores, mask):
    weights = _softmax(scores) * mask
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1.0)


def _filled(number):
    def finite_fill(scores, mask):
        return _softmax(np.where(mask, scores, number))

    return finite_fill


for _number in (-1e9, -1e30):
    masked_softmax.misconception(
        "A hidden score becomes a big finite number. A visible score can be lower still, and a row with nothing "
        "allowed then reads all keys equally. Use minus infinity.",
        section=FINITE,
    )(_filled(_number))


@masked_softmax.misconception(
    "A hidden score becomes a finite number that is not even low: visible scores reach it, and an empty row reads all "
    "keys equally. Use minus infinity.",
    section=FINITE,
)
def small_finite_fill(scores, mask):
    return _softmax(np.where(mask, scores, -1e4))


def _filled_then_zero(number):
    def finite_fill_then_zero(scores, mask):
        return _softmax(np.where(mask, scores, number)) * mask

    return finite_fill_then_zero


for _number in (-1e4, -1e9, -1e30):
    masked_softmax.misconception(
        "A hidden score becomes a finite number, and its weight is set to 0 afterward. Where a visible score is lower "
        "still, the hidden key takes all the weight first. Use minus infinity.",
        section=FINITE,
    )(_filled_then_zero(_number))


@masked_softmax.misconception(
    "A finite number is added to hidden scores. The differences between them remain, so a row with nothing allowed "
    "attends as if there were no mask. Use minus infinity.",
    section=FINITE,
)
def finite_bias(scores, mask):
    return _softmax(scores + np.where(mask, 0.0, -1e9))


@masked_softmax.misconception(
    "A small finite number is added to hidden scores, so the differences between them remain: an empty row attends as "
    "if there were no mask, and very low visible scores lose to hidden ones. Use minus infinity.",
    section=FINITE,
)
def small_finite_bias(scores, mask):
    return _softmax(scores + np.where(mask, 0.0, -1e4))


@masked_softmax.misconception(
    "A row with nothing allowed reads all keys equally: either hidden scores are finite, however low, or its nan was "
    "replaced by equal shares. It must read nothing; its weights are 0.",
    section=EMPTY,
)
def lowest_number(scores, mask):
    return _softmax(np.where(mask, scores, np.finfo(float).min))


@masked_softmax.misconception(
    "A row with nothing allowed gives nan: its maximum is minus infinity, and minus infinity minus itself is not a "
    "number. Its weights must be 0.",
    section=EMPTY,
)
def nan_row(scores, mask):
    return _softmax(np.where(mask, scores, -np.inf))


@masked_softmax.misconception(
    "No maximum is subtracted, so large scores overflow or vanish. And an empty row is 0/0, which is nan. Treat both.",
    section=EMPTY,
)
def plain_formula(scores, mask):
    e = np.exp(np.where(mask, scores, -np.inf))
    return e / e.sum(axis=-1, keepdims=True)


@masked_softmax.misconception(
    "No maximum is subtracted, so scores of a thousand overflow, and visible scores that are all very low vanish to 0. "
    "Subtract each row's own largest visible score."
)
def no_maximum(scores, mask):
    e = np.exp(np.where(mask, scores, -np.inf))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1.0)


@masked_softmax.misconception(
    "One maximum is subtracted for the whole array. Each row needs its own, or rows far below it vanish."
)
def one_maximum(scores, mask):
    visible = np.where(mask, scores, -np.inf)
    e = np.exp(visible - visible.max())
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1.0)


@masked_softmax.misconception(
    "A number times minus infinity is used to hide. For visible keys that is 0 times infinity, which is nan. Choose "
    "with np.where."
)
def mask_times_infinity(scores, mask):
    return _softmax(scores + (1 - mask) * -np.inf)


@masked_softmax.misconception(
    "Hidden scores are multiplied by 0. A score of 0 is an ordinary score and gets weight; hidden means minus infinity."
)
def zero_score(scores, mask):
    return _softmax(scores * mask)


@masked_softmax.misconception(
    "The mask is added to the scores as it is, so a visible key gains 1 and nothing is hidden. A hidden score must "
    "become minus infinity."
)
def mask_added(scores, mask):
    return _softmax(scores + mask)


@masked_softmax.misconception(
    "You write into the scores with the mask as an index. That needs a mask of the full shape, and scores that can "
    "hold minus infinity; np.where broadcasts and makes a new array."
)
def mask_as_index(scores, mask):
    scores = scores.copy()
    scores[~mask] = -np.inf
    return _shares(scores)


@masked_softmax.misconception(
    "The caller's scores are written into: minus infinity, or what is left after a subtraction. Make a new array: "
    "np.where does."
)
def in_place(scores, mask):
    if scores.dtype.kind == "f" and scores.shape == mask.shape:
        scores[~mask] = -np.inf
    return _shares(np.where(mask, scores, -np.inf))


@masked_softmax.misconception(
    "The softmax runs over the queries: your columns sum to one. Each query shares out its own weight of one: use the "
    "last axis."
)
def over_queries(scores, mask):
    return _t(_shares(_t(np.where(mask, scores, -np.inf))))


@masked_softmax.misconception(
    "The softmax runs over the whole array, so all queries together share a weight of one. Sum along the last axis, "
    "with keepdims=True."
)
def over_everything(scores, mask):
    visible = np.where(mask, scores, -np.inf)
    e = np.exp(visible - visible.max())
    return e / e.sum()


@masked_softmax.misconception(
    "The mask is transposed. Its rows are queries and its columns are keys, as in the scores."
)
def mask_transposed(scores, mask):
    return _shares(np.where(_t(mask), scores, -np.inf))


@masked_softmax.misconception(
    "These are the scores with minus infinity where the mask is False. The softmax is still missing."
)
def no_softmax(scores, mask):
    return np.where(mask, scores, -np.inf)


def _with_epsilon(size):
    def with_epsilon(scores, mask):
        visible = np.where(mask, scores, -np.inf)
        top = visible.max(axis=-1, keepdims=True)
        e = np.exp(visible - np.where(np.isfinite(top), top, 0.0))
        return e / (e.sum(axis=-1, keepdims=True) + size)

    return with_epsilon


_EPSILON = (
    "Something small is added to every total, to save the empty row from 0/0. It also makes every other row sum to "
    "slightly less than one. Treat only the total that is 0."
)
for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
    masked_softmax.misconception(_EPSILON, section=EMPTY)(_with_epsilon(_size))


# causal_attention ----------------------------------------------------------------------------------------------------

causal_attention = Exercise(
    solutions.causal_attention, section="No later token moves an earlier output", minutes=10, difficulty=2
)


@causal_attention.property(
    "returns output and weights of what came before",
    points=3,
    rtol=EXACT,
    atol=1e-13,
    hint="Compute scaled scores, then your causal mask, your masked softmax, and the weights times V. Return the "
    "output first, then the weights.",
)
def before_only(rng):
    yield dict(Q=CAT_SAT, K=CAT_SAT, V=CAT_SAT)
    yield dict(Q=rng.normal(size=(4, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(4, 2)))
    yield dict(Q=rng.normal(size=(3, 3)), K=rng.normal(size=(3, 3)), V=rng.normal(size=(3, 3)))


@causal_attention.property(
    "lets no later key or value move an earlier output",
    points=1,
    probe=probes.moved,
    hint="Change a later token and compare the earlier outputs bit by bit. If one moves, the mask lets something "
    "through or is applied too late.",
)
def no_leak(rng):
    # Enough rows for a mistake that shows in the last bit of some numbers alone to show in one of them.
    Q, K, V = rng.normal(size=(8, 4)), rng.normal(size=(8, 4)), rng.normal(size=(8, 3))
    for name, array in [("K", K), ("V", V)]:
        changed = array.copy()
        changed[6:] = rng.normal(size=changed[6:].shape)
        yield dict(name=name, replacement=changed, Q=Q, K=K, V=V)


@causal_attention.property(
    "treats the queries as the last positions when there are more keys",
    points=1,
    rtol=NEARLY,
    hint="Give your mask both sizes: the number of queries and the number of keys.",
)
def attention_more_keys(rng):
    yield dict(Q=rng.normal(size=(2, 4)), K=rng.normal(size=(5, 4)), V=rng.normal(size=(5, 3)))
    yield dict(Q=rng.normal(size=(1, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(4, 2)))


@causal_attention.property(
    "gives queries before the first key zeros",
    points=1,
    rtol=NEARLY,
    hint="If your mask and your masked softmax treat them, you need no extra code here.",
)
def attention_more_queries(rng):
    # Whole numbers survive the rounding of a big finite bias.
    Q, K = rng.integers(-2, 3, size=(5, 4)).astype(float), rng.integers(-2, 3, size=(2, 4)) + np.array([[0.0], [1.0]])
    Q[0] = [1.0, 2.0, 0.0, 1.0]
    yield dict(Q=Q, K=K, V=rng.normal(size=(2, 3)))


@causal_attention.property(
    "takes leading dimensions and broadcasts them",
    points=1,
    rtol=NEARLY,
    hint="Swap only the last two axes of K, and read the numbers of queries and keys from axis -2.",
)
def attention_leading(rng):
    yield dict(Q=rng.normal(size=(3, 2, 3)), K=rng.normal(size=(3, 3, 3)), V=rng.normal(size=(3, 3, 4)))
    yield dict(Q=rng.normal(size=(6, 3, 7)), K=rng.normal(size=(2, 1, 4, 7)), V=rng.normal(size=(4, 5)))
    yield dict(Q=rng.normal(size=(3, 2, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(3, 4, 2)))


@causal_attention.property(
    "keeps the future hidden, whatever its scores",
    points=1,
    rtol=0.01,
    atol=0.01,
    hint="Minus infinity is below every score; a big finite number is not. And a hidden score must not decide which "
    "maximum is subtracted.",
)
def hidden_future(rng):
    V = rng.normal(size=(3, 2))
    for scores in [
        (-4e12, -4e12 - 1.0, 7.0),
        (1.0, 0.0, 5e3),
        (-8e3, -8001.0, 7.0),
        (-4e4, -40001.0, 7.0),
        (-1e140, -2e140, 7.0),
    ]:
        K = np.zeros((3, 4))
        K[:, 0] = scores  # scaled, with these queries
        yield dict(Q=np.array([[2.0, 0.0, 0.0, 0.0]] * 3), K=K, V=V)


@causal_attention.property(
    "accepts whole numbers",
    points=1,
    rtol=NEARLY,
    hint="Weights are fractions, so an array of whole numbers cannot hold them. Build the results from the values you "
    "computed, not with the inputs' dtype.",
)
def attention_whole_numbers(rng):
    yield dict(Q=CAT_SAT.astype(int), K=CAT_SAT.astype(int), V=CAT_SAT.astype(int))
    Q, K = rng.integers(-2, 3, size=(4, 3)), rng.integers(-2, 3, size=(4, 3))
    yield dict(Q=Q, K=K, V=rng.integers(-9, 10, size=(4, 2)))


@causal_attention.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    rtol=NEARLY,
    hint="Work on new arrays: no `/=`, no writing into Q, K or V.",
)
def attention_is_new(rng):
    yield dict(Q=rng.normal(size=(4, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(4, 2)))


def _scores(Q, K):
    return Q @ _t(K) / np.sqrt(Q.shape[-1])


def _before(scores):
    return _steps_back(*scores.shape[-2:]) >= 0


def _attend(scores, V, mask=None):
    """Right from the scores on, if no other mask is given."""
    weights = _shares(np.where(_before(scores) if mask is None else mask, scores, -np.inf))
    return weights @ V, weights


SCALE = "Minus infinity, before the softmax"


@causal_attention.misconception(
    "The scores are not scaled. Divide them by the square root of d_k, the width of queries and keys.", section=SCALE
)
def unscaled(Q, K, V):
    return _attend(Q @ _t(K), V)


@causal_attention.misconception("The scores are divided by d_k itself. Use its square root.", section=SCALE)
def divided_by_width(Q, K, V):
    return _attend(Q @ _t(K) / Q.shape[-1], V)


@causal_attention.misconception(
    "The scale uses the width of the values. A score is a dot product of a query and a key: their width d_k decides.",
    section=SCALE,
)
def root_of_value_width(Q, K, V):
    return _attend(Q @ _t(K) / np.sqrt(V.shape[-1]), V)


@causal_attention.misconception("Nothing is masked: each query reads the future too.", section=MINUS_INFINITY)
def no_mask(Q, K, V):
    weights = _softmax(_scores(Q, K))
    return weights @ V, weights


@causal_attention.misconception(
    "The mask is inverted: each query reads the future and nothing else. True means may attend.",
    section=CONVENTIONS,
)
def reads_the_future(Q, K, V):
    scores = _scores(Q, K)
    return _attend(scores, V, ~_before(scores))


@causal_attention.misconception(
    "The mask is aligned to the top left. With more keys than queries, the queries are the last positions: the last of "
    "them sees every key.",
    section=LAST_QUERY,
)
def attention_top_left(Q, K, V):
    scores = _scores(Q, K)
    return _attend(scores, V, np.tril(np.ones(scores.shape[-2:], dtype=bool)))


@causal_attention.misconception(
    "The mask is square, made from the number of queries alone, and does not fit when there are more keys. Give it "
    "both numbers.",
    section=LAST_QUERY,
)
def square_mask(Q, K, V):
    return _attend(_scores(Q, K), V, np.tril(np.ones((Q.shape[-2], Q.shape[-2]), dtype=bool)))


@causal_attention.misconception(
    "The size of the mask is read from Q.shape[0]. That is the number of queries only while there are two axes; with a "
    "batch in front it is Q.shape[-2].",
    section=LAST_QUERY,
)
def first_axis_for_queries(Q, K, V):
    return _attend(_scores(Q, K), V, _steps_back(Q.shape[0], K.shape[0]) >= 0)


@causal_attention.misconception(
    "No token reads itself: the diagonal is hidden too, and the first token has nothing.", section=MINUS_INFINITY
)
def diagonal_hidden(Q, K, V):
    scores = _scores(Q, K)
    return _attend(scores, V, _steps_back(*scores.shape[-2:]) > 0)


@causal_attention.misconception(
    "Each token also reads the next one, the one it has to predict. The diagonal is the last that may be seen.",
    section=MINUS_INFINITY,
)
def next_one_visible(Q, K, V):
    scores = _scores(Q, K)
    return _attend(scores, V, _steps_back(*scores.shape[-2:]) >= -1)


@causal_attention.misconception(
    "With more queries than keys, the first queries see a key that comes after them. They come before every "
    "key: zeros.",
    section=LAST_QUERY,
)
def early_queries_read(Q, K, V):
    scores = _scores(Q, K)
    n_q, n_k = scores.shape[-2:]
    return _attend(scores, V, np.tril(np.ones((n_q, n_k), dtype=bool), k=max(0, n_k - n_q)))


@causal_attention.misconception(
    "More queries than keys are refused. They are allowed: the first queries have nothing to read and get zeros.",
    section=EMPTY,
)
def more_queries_refused(Q, K, V):
    if Q.shape[-2] > K.shape[-2]:
        raise ValueError("more queries than keys")
    return _attend(_scores(Q, K), V)


@causal_attention.misconception(
    "The mask is applied after the softmax, so the future's share is lost and rows sum to less than one. Hide the "
    "scores, then take the softmax.",
    section=MINUS_INFINITY,
)
def masked_after_softmax(Q, K, V):
    weights = _softmax(_scores(Q, K))
    weights = weights * _before(weights)
    return weights @ V, weights


@causal_attention.misconception(
    "The weights are masked after the softmax and normalized again. On paper that is the same; but a huge score in "
    "the future takes all the weight first, and a row with nothing to read is 0/0.",
    section=FINITE,
)
def attention_shared_out_again(Q, K, V):
    weights = _softmax(_scores(Q, K))
    weights = weights * _before(weights)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ V, weights


@causal_attention.misconception(
    "The weights are masked after the softmax and normalized again, with care for the empty row. One difference from "
    "masking first remains: a huge score in the future takes all the weight, and the visible ones vanish.",
    section=FINITE,
)
def attention_shared_out_with_care(Q, K, V):
    scores = _scores(Q, K)
    weights = shared_out_again_with_care(scores, _before(scores))
    return weights @ V, weights


def _with_weights(weights_of):
    """Attention whose weights come from a masked softmax that is wrong."""

    def attention_finite_fill(Q, K, V):
        scores = _scores(Q, K)
        weights = weights_of(scores, _before(scores))
        return weights @ V, weights

    return attention_finite_fill


for _number in (-1e9, -1e30):
    causal_attention.misconception(
        "Future scores become a big finite number. A visible score can be lower still, and a query with nothing to "
        "read then reads all keys equally. Use minus infinity.",
        section=FINITE,
    )(_with_weights(_filled(_number)))

causal_attention.misconception(
    "Future scores become a finite number that is not even low: visible scores reach it, and a query with nothing to "
    "read reads all keys equally. Use minus infinity.",
    section=FINITE,
)(_with_weights(_filled(-1e4)))

causal_attention.misconception(
    "A query with nothing to read reads all keys equally: either future scores are finite, however low, or its nan "
    "was replaced by equal shares. It must read nothing; its weights are 0.",
    section=EMPTY,
)(_with_weights(_filled(np.finfo(float).min)))

for _number in (-1e4, -1e9, -1e30):
    causal_attention.misconception(
        "Future scores become a finite number, and their weights are set to 0 afterward. Where a visible score is "
        "lower still, the future takes all the weight first. Use minus infinity.",
        section=FINITE,
    )(_with_weights(_filled_then_zero(_number)))


@causal_attention.misconception(
    "A finite number is added to future scores. The differences between them remain, so a query with nothing to read "
    "attends as if there were no mask. Use minus infinity.",
    section=FINITE,
)
def attention_finite_bias(Q, K, V):
    scores = _scores(Q, K)
    weights = _softmax(scores + np.where(_before(scores), 0.0, -1e9))
    return weights @ V, weights


@causal_attention.misconception(
    "A small finite number is added to future scores. Low visible scores lose to hidden ones, and a query with nothing "
    "to read attends as if there were no mask. Use minus infinity.",
    section=FINITE,
)
def attention_small_finite_bias(Q, K, V):
    scores = _scores(Q, K)
    weights = _softmax(scores + np.where(_before(scores), 0.0, -1e4))
    return weights @ V, weights


@causal_attention.misconception(
    "A finite number is added to future scores before the division by the square root of d_k, which shrinks it. The "
    "differences between them remain, and low visible scores lose to hidden ones. Use minus infinity, after the "
    "scale.",
    section=FINITE,
)
def finite_bias_inside_the_scale(Q, K, V):
    scores = Q @ _t(K)
    weights = _softmax((scores + np.where(_before(scores), 0.0, -1e4)) / np.sqrt(Q.shape[-1]))
    return weights @ V, weights


@causal_attention.misconception(
    "A query with nothing to read gives nan: its maximum is minus infinity. Its weights and output must be 0.",
    section=EMPTY,
)
def attention_nan_row(Q, K, V):
    scores = _scores(Q, K)
    weights = _softmax(np.where(_before(scores), scores, -np.inf))
    return weights @ V, weights


@causal_attention.misconception(
    "The output of a query with nothing to read is repaired, but its weights are still nan. Repair the weights; the "
    "output follows.",
    section=EMPTY,
)
def attention_nan_weights(Q, K, V):
    scores = _scores(Q, K)
    weights = _softmax(np.where(_before(scores), scores, -np.inf))
    return np.nan_to_num(weights @ V), weights


@causal_attention.misconception(
    "Future scores are set to 0, as np.tril does. A score of 0 is an ordinary score and gets weight; hidden means "
    "minus infinity.",
    section=MINUS_INFINITY,
)
def future_scores_zero(Q, K, V):
    scores = _scores(Q, K)
    weights = _softmax(scores * _before(scores))
    return weights @ V, weights


@causal_attention.misconception(
    "The softmax runs over the queries: your columns sum to one. Each query shares out its own weight of one: use the "
    "last axis.",
    section=MINUS_INFINITY,
)
def attention_over_queries(Q, K, V):
    scores = _scores(Q, K)
    weights = _t(_shares(_t(np.where(_before(scores), scores, -np.inf))))
    return weights @ V, weights


@causal_attention.misconception("Both results are right, in the wrong order: output first, then weights.")
def weights_first(Q, K, V):
    return _attend(_scores(Q, K), V)[::-1]


@causal_attention.misconception("Only the output is returned. Return the weights too: output first, then weights.")
def output_only(Q, K, V):
    return _attend(_scores(Q, K), V)[0]


@causal_attention.misconception(
    "The weights are transposed before they meet V, so each key collects from later queries. Row i of the weights "
    "mixes the values for query i."
)
def weights_transposed(Q, K, V):
    weights = _attend(_scores(Q, K), V)[1]
    return _t(weights) @ V, weights


@causal_attention.misconception("`.T` reverses all axes, the leading ones too. Swap just the last two.")
def reversed_axes(Q, K, V):
    return _attend(Q @ K.T / np.sqrt(Q.shape[-1]), V)


@causal_attention.misconception(
    "Your code scales the caller's queries in place. Write the scaled values into a new array; in place it also "
    "fails for whole numbers."
)
def scales_in_place(Q, K, V):
    Q /= np.sqrt(Q.shape[-1])
    return _attend(Q @ _t(K), V)


@causal_attention.misconception(
    "Your code scales the caller's queries in place. Write the scaled values into a new array."
)
def scales_floats_in_place(Q, K, V):
    if Q.dtype.kind != "f":
        Q = Q.astype(float)
    Q /= np.sqrt(Q.shape[-1])
    return _attend(Q @ _t(K), V)


_INPUTS_KIND = (
    "Results are written into an array with the inputs' dtype, such as np.zeros_like makes. Whole numbers then lose "
    "every fraction, and weights are fractions."
)


@causal_attention.misconception(_INPUTS_KIND)
def weights_of_the_inputs_kind(Q, K, V):
    weights = _attend(_scores(Q, K), V)[1].astype(Q.dtype)
    return weights @ V, weights


@causal_attention.misconception(_INPUTS_KIND)
def output_of_the_values_kind(Q, K, V):
    output, weights = _attend(_scores(Q, K), V)
    return output.astype(V.dtype), weights


def _attention_with_epsilon(size):
    def attention_with_epsilon(Q, K, V):
        scores = _scores(Q, K)
        weights = _with_epsilon(size)(scores, _before(scores))
        return weights @ V, weights

    return attention_with_epsilon


for _size in (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
    causal_attention.misconception(_EPSILON, section=EMPTY)(_attention_with_epsilon(_size))


# next_token_loss -----------------------------------------------------------------------------------------------------

next_token_loss = Exercise(solutions.next_token_loss, section=LOSS, minutes=10, difficulty=2)


@next_token_loss.property(
    "averages the negative log probability of every next token",
    points=3,
    rtol=EXACT,
    atol=1e-14,
    hint="The logits at position t are a guess about token t + 1. Take the log softmax over the vocabulary, pick the "
    "token that came, change the sign, and average over all guesses.",
)
def every_next_token(rng):
    yield dict(logits=np.log([[[1.0, 2.0, 1.0], [1.0, 1.0, 6.0], [5.0, 1.0, 2.0]]]), tokens=np.array([[0, 1, 2]]))
    # No token is so unlikely that 1e-12 beside its probability would show.
    yield dict(logits=rng.uniform(-1, 1, size=(2, 4, 6)), tokens=_ids(rng, 2, 4, 6))
    yield dict(logits=rng.uniform(-1, 1, size=(3, 5, 4)), tokens=_ids(rng, 3, 5, 4))


def _ids(rng, batch, n, vocab):
    """Tokens of which no sentence equals another, none begins as it ends, and not all continue as the first does."""
    while True:
        ids = rng.integers(0, vocab, size=(batch, n))
        differ = batch == 1 or n == 1 or np.any(ids[1:, 1:] != ids[0, 1:])
        if differ and len({tuple(row) for row in ids}) == batch and np.all(ids[:, 0] != ids[:, -1]):
            return ids


@next_token_loss.property(
    "counts each prediction once, in short and long batches",
    points=1,
    rtol=NEARLY,
    hint="n tokens make n - 1 predictions, and a batch makes batch times as many. Divide by that number.",
)
def counts(rng):
    yield dict(logits=rng.normal(size=(1, 2, 5)), tokens=_ids(rng, 1, 2, 5))
    yield dict(logits=rng.normal(size=(4, 2, 3)), tokens=_ids(rng, 4, 2, 3))
    yield dict(logits=rng.normal(size=(3, 3, 3)), tokens=_ids(rng, 3, 3, 3))


@next_token_loss.property(
    "survives logits of a thousand",
    points=1,
    rtol=NEARLY,
    hint="A probability that rounds to 0 has no logarithm. Use the log softmax of the softmax chapter: subtract the "
    "maximum, then the logarithm of the sum of exponentials.",
)
def large(rng):
    yield dict(logits=np.array([[[1000.0, 0.0, -1000.0], [3.0, 1.0, 2.0]]]), tokens=np.array([[0, 2]]))
    yield dict(logits=np.array([[[-1000.0, -1003.0], [2.0, 1.0], [0.0, 1.0]]]), tokens=np.array([[1, 1, 0]]))
    yield dict(logits=np.array([[[999.0, 1001.0], [0.0, 1.0]]]), tokens=np.array([[1, 0]]))
    yield dict(logits=800.0 * rng.normal(size=(2, 3, 4)), tokens=_ids(rng, 2, 3, 4))


@next_token_loss.property(
    "refuses ids outside the vocabulary, and tokens that do not fit the logits",
    points=1,
    probe=probes.error_of,
    rtol=NEARLY,
    hint="Raise ValueError when there is nothing to predict, when logits and tokens differ in batch or length, and "
    "for an id below 0 or not below the size of the vocabulary. NumPy takes -1 for the last column without an error.",
)
def unfit_for_a_loss(rng):
    yield dict(logits=rng.normal(size=(2, 1, 5)), tokens=np.array([[3], [1]]))
    yield dict(logits=rng.normal(size=(2, 4, 5)), tokens=_ids(rng, 2, 3, 5))
    yield dict(logits=rng.normal(size=(3, 4, 5)), tokens=_ids(rng, 2, 4, 5))
    yield dict(logits=rng.normal(size=(1, 4, 5)), tokens=_ids(rng, 2, 4, 5))  # what NumPy would stretch
    yield dict(logits=rng.normal(size=(1, 3, 5)), tokens=np.array([[0, 5, 1]]))
    yield dict(logits=rng.normal(size=(2, 3, 4)), tokens=np.array([[0, 3, 1], [2, 1, -1]]))
    yield dict(logits=rng.normal(size=(1, 3, 4)), tokens=np.array([[1, -int(rng.integers(2, 9)), 2]]))
    yield dict(logits=rng.normal(size=(2, 3, 4)), tokens=_ids(rng, 2, 3, 4))


@next_token_loss.property(
    "leaves its inputs as they were",
    points=1,
    probe=probes.unchanged,
    rtol=NEARLY,
    hint="Work on new arrays: `logits -= ...` writes into the caller's.",
)
def loss_is_pure(rng):
    yield dict(logits=rng.normal(size=(2, 3, 4)), tokens=_ids(rng, 2, 3, 4))


def _checked_loss(logits, tokens):
    vocab = logits.shape[-1]
    if logits.shape[:-1] != tokens.shape or tokens.shape[1] < 2 or tokens.min() < 0 or tokens.max() >= vocab:
        raise ValueError("does not fit")


def _log_softmax(logits, axis=-1):
    gaps = logits - logits.max(axis=axis, keepdims=True)
    return gaps - np.log(np.exp(gaps).sum(axis=axis, keepdims=True))


def _pick(numbers, tokens):
    return np.take_along_axis(numbers, tokens[..., None], axis=-1)[..., 0]


def _losses(logits, tokens):
    """Of every prediction, (batch, n - 1)."""
    _checked_loss(logits, tokens)
    return -_pick(_log_softmax(logits[:, :-1]), tokens[:, 1:])


@next_token_loss.misconception(
    "The targets are not shifted: each position is graded on the token it has just read. Logits at t are a guess "
    "about token t + 1."
)
def not_shifted(logits, tokens):
    _checked_loss(logits, tokens)
    return float(-_pick(_log_softmax(logits), tokens).mean())


@next_token_loss.misconception(
    "The targets are not shifted: the last position is left out, but each other one is graded on the token it has "
    "just read. Cut the first token off the targets and the last position off the logits."
)
def both_cut_at_the_end(logits, tokens):
    _checked_loss(logits, tokens)
    return float(-_pick(_log_softmax(logits[:, :-1]), tokens[:, :-1]).mean())


@next_token_loss.misconception(
    "Both are cut at the front, so nothing is shifted: each position is graded on the token it has just read. Cut the "
    "first token off the targets and the last position off the logits."
)
def both_cut_at_the_front(logits, tokens):
    _checked_loss(logits, tokens)
    return float(-_pick(_log_softmax(logits[:, 1:]), tokens[:, 1:]).mean())


@next_token_loss.misconception(
    "The shift goes the wrong way: each position is graded on the token before it. Cut the last position off the "
    "logits and the first token off the targets."
)
def shifted_backwards(logits, tokens):
    _checked_loss(logits, tokens)
    return float(-_pick(_log_softmax(logits[:, 1:]), tokens[:, :-1]).mean())


@next_token_loss.misconception(
    "The targets are rolled, so the last position is graded on the first token. After the last token nothing is "
    "known: that prediction is left out."
)
def rolled(logits, tokens):
    _checked_loss(logits, tokens)
    return float(-_pick(_log_softmax(logits), np.roll(tokens, -1, axis=1)).mean())


@next_token_loss.misconception(
    "Only the last prediction counts. Every position but the last makes one, and all are averaged.", section=ALL_AT_ONCE
)
def last_only(logits, tokens):
    return float(_losses(logits, tokens)[:, -1].mean())


@next_token_loss.misconception(
    "The losses are summed. Take the mean, so that the number does not depend on how much text there was."
)
def summed(logits, tokens):
    return float(_losses(logits, tokens).sum())


@next_token_loss.misconception(
    "The losses are summed over positions and averaged over sentences only. Take the mean over all predictions."
)
def summed_per_sentence(logits, tokens):
    return float(_losses(logits, tokens).sum(axis=1).mean())


@next_token_loss.misconception(
    "The sum is divided by the number of tokens. n tokens make n - 1 predictions in each sentence: divide by those."
)
def divided_by_tokens(logits, tokens):
    return float(_losses(logits, tokens).sum() / tokens.size)


@next_token_loss.misconception(
    "The sum is divided by the length of one sentence and not by the number of sentences. Divide by the number of all "
    "predictions, batch * (n - 1)."
)
def divided_by_positions(logits, tokens):
    return float(_losses(logits, tokens).mean(axis=1).sum())


@next_token_loss.misconception(
    "The mean runs over the vocabulary too: all the zeros of a one-hot target are counted. Divide by the number of "
    "predictions."
)
def mean_over_the_vocabulary(logits, tokens):
    return float(_losses(logits, tokens).mean() / logits.shape[-1])


@next_token_loss.misconception("The sign is missing: a log probability is never above 0, and a loss is never below 0.")
def no_minus(logits, tokens):
    return float(-_losses(logits, tokens).mean())


@next_token_loss.misconception("The logarithm has base 2. The loss is measured in nats: np.log.")
def in_bits(logits, tokens):
    return float(_losses(logits, tokens).mean() / np.log(2))


@next_token_loss.misconception("The logarithm has base 10. The loss is measured in nats: np.log.")
def in_base_ten(logits, tokens):
    return float(_losses(logits, tokens).mean() / np.log(10))


def _loss_from(logits, tokens, top=None, total=None):
    """Right, with the maximum that is subtracted, or the logarithm of the total, replaced."""
    _checked_loss(logits, tokens)
    guesses = logits[:, :-1]
    guesses = guesses - (guesses.max(axis=-1, keepdims=True) if top is None else top(guesses))
    total = (lambda gaps: np.log(np.exp(gaps).sum(axis=-1, keepdims=True))) if total is None else total
    return float((total(guesses) - _pick(guesses, tokens[:, 1:])[..., None]).mean())


_MAXIMUM_ELSEWHERE = (
    "The maximum is not taken along the vocabulary, so the logits of one guess are shifted by different amounts, "
    "which changes the guess. Take it along the last axis."
)
_TOTAL_ELSEWHERE = (
    "The exponentials are not summed along the vocabulary. At each position, the probabilities of all tokens sum to "
    "one: sum along the last axis."
)
for _axis in (0, 1):
    next_token_loss.misconception(_MAXIMUM_ELSEWHERE)(
        lambda logits, tokens, axis=_axis: _loss_from(logits, tokens, top=lambda g: g.max(axis=axis, keepdims=True))
    )
    next_token_loss.misconception(_TOTAL_ELSEWHERE)(
        lambda logits, tokens, axis=_axis: _loss_from(
            logits, tokens, total=lambda g: np.log(np.exp(g).sum(axis=axis, keepdims=True))
        )
    )
next_token_loss.misconception(_TOTAL_ELSEWHERE)(
    lambda logits, tokens: _loss_from(logits, tokens, total=lambda g: np.log(np.exp(g).sum(keepdims=True)))
)


@next_token_loss.misconception(
    "The total is in base 2, and the logits are in base e. Take np.log of the sum of np.exp."
)
def total_in_base_two(logits, tokens):
    return _loss_from(logits, tokens, total=lambda g: np.log2(np.exp(g).sum(axis=-1, keepdims=True)))


@next_token_loss.misconception("The logarithm of the total is missing: the sum of exponentials itself is used.")
def total_without_logarithm(logits, tokens):
    return _loss_from(logits, tokens, total=lambda g: np.exp(g).sum(axis=-1, keepdims=True))


@next_token_loss.misconception("The exponentials are averaged where they should be summed.")
def total_averaged(logits, tokens):
    return _loss_from(logits, tokens, total=lambda g: np.log(np.exp(g).mean(axis=-1, keepdims=True)))


@next_token_loss.misconception("The loss is cut to a whole number. It is a mean, so return a float.")
def whole_loss(logits, tokens):
    return float(int(_losses(logits, tokens).mean()))


@next_token_loss.misconception("This is the exponential of the loss, the perplexity. Return the mean itself.")
def perplexity(logits, tokens):
    return float(np.exp(_losses(logits, tokens).mean()))


@next_token_loss.misconception(
    "The probabilities are averaged before the logarithm is taken. Average the losses: a confident mistake must cost "
    "more than the mean probability shows."
)
def log_of_the_mean(logits, tokens):
    return float(-np.log(np.exp(-_losses(logits, tokens)).mean()))


@next_token_loss.misconception(
    "The logarithm is missing: this is minus the mean probability. The cost of a guess is its negative log probability."
)
def minus_probability(logits, tokens):
    return float(-np.exp(-_losses(logits, tokens)).mean())


@next_token_loss.misconception(
    "The logarithm is missing: this is one minus the mean probability. The cost of a guess is its negative log "
    "probability."
)
def one_minus_probability(logits, tokens):
    return float(1 - np.exp(-_losses(logits, tokens)).mean())


@next_token_loss.misconception(
    "The softmax is missing: this is minus the mean logit of the right token. A logit counts only against the others "
    "of its row."
)
def minus_logit(logits, tokens):
    _checked_loss(logits, tokens)
    return float(-_pick(logits[:, :-1], tokens[:, 1:]).mean())


@next_token_loss.misconception(
    "Probabilities are taken first, then their logarithm. One that rounds to 0 gives an infinite loss. Use the log "
    "softmax of the softmax chapter."
)
def log_of_softmax(logits, tokens):
    _checked_loss(logits, tokens)
    return float(-np.log(_pick(_softmax(logits[:, :-1]), tokens[:, 1:])).mean())


@next_token_loss.misconception(
    "No maximum is subtracted, so logits of a thousand overflow. Subtract each row's largest logit first: the loss "
    "stays the same."
)
def no_maximum_in_the_loss(logits, tokens):
    _checked_loss(logits, tokens)
    logits = logits[:, :-1]
    return float((np.log(np.exp(logits).sum(axis=-1)) - _pick(logits, tokens[:, 1:])).mean())


@next_token_loss.misconception(
    "No maximum is subtracted, and the logarithm is taken of each probability: exponentials overflow, and "
    "probabilities that round to 0 have no logarithm. Use the log softmax of the softmax chapter."
)
def plain_formula_of_the_loss(logits, tokens):
    _checked_loss(logits, tokens)
    e = np.exp(logits[:, :-1])
    return float(-np.log(_pick(e / e.sum(axis=-1, keepdims=True), tokens[:, 1:])).mean())


@next_token_loss.misconception(
    "One maximum is subtracted for the whole batch. A row far below it underflows to log of 0. Each row needs its own."
)
def one_maximum_in_the_loss(logits, tokens):
    _checked_loss(logits, tokens)
    gaps = logits[:, :-1] - logits.max()
    return float((np.log(np.exp(gaps).sum(axis=-1)) - _pick(gaps, tokens[:, 1:])).mean())


@next_token_loss.misconception(
    "The softmax runs over the positions. Every position has its own distribution over the vocabulary, the last axis."
)
def over_positions(logits, tokens):
    _checked_loss(logits, tokens)
    return float(-_pick(_log_softmax(logits[:, :-1], axis=1), tokens[:, 1:]).mean())


@next_token_loss.misconception("Every sentence is graded by the tokens of the first. Each has its own targets.")
def targets_of_the_first(logits, tokens):
    _checked_loss(logits, tokens)
    targets = np.repeat(tokens[:1], len(tokens), axis=0)
    return float(-_pick(_log_softmax(logits[:, :-1]), targets[:, 1:]).mean())


@next_token_loss.misconception("One loss for each prediction is returned. Return their mean, a single number.")
def not_averaged(logits, tokens):
    return _losses(logits, tokens)


@next_token_loss.misconception(
    "One loss for each sentence is returned. Return the mean over all predictions, a single number."
)
def averaged_per_sentence(logits, tokens):
    return _losses(logits, tokens).mean(axis=1)


@next_token_loss.misconception(
    "Negative ids are accepted: NumPy counts them from the end of the vocabulary without an error. Raise ValueError."
)
def negative_ids_pass(logits, tokens):
    _checked_loss(logits, np.abs(tokens) * (np.abs(tokens) < logits.shape[-1]) if tokens.min() < 0 else tokens)
    positive = np.where(tokens < 0, tokens + logits.shape[-1], tokens)
    if positive.min() < 0:
        raise IndexError(f"index {tokens.min()} is out of bounds")
    return float(-_pick(_log_softmax(logits[:, :-1]), positive[:, 1:]).mean())


@next_token_loss.misconception(
    "Ids are not checked. One beyond the vocabulary raises IndexError, which is the wrong exception, and a negative "
    "one is accepted: NumPy counts it from the end. Raise ValueError for both."
)
def ids_unchecked(logits, tokens):
    _checked_loss(logits, np.zeros_like(tokens))
    return float(-_pick(_log_softmax(logits[:, :-1]), tokens[:, 1:]).mean())


@next_token_loss.misconception(
    "With one token there is nothing to predict, and the mean of nothing is nan. Raise ValueError below two tokens."
)
def one_token_passes(logits, tokens):
    if tokens.shape[1] < 2 and logits.shape[:-1] == tokens.shape:
        return float("nan")
    return float(_losses(logits, tokens).mean())


@next_token_loss.misconception(
    "`assert` raises AssertionError, and python -O leaves it out. Raise ValueError for what does not fit."
)
def loss_asserted(logits, tokens):
    assert logits.shape[:-1] == tokens.shape and tokens.shape[1] >= 2
    assert np.all(tokens >= 0) and np.all(tokens < logits.shape[-1])
    return float(_losses(logits, tokens).mean())


@next_token_loss.misconception(
    "The largest logit is subtracted from the caller's array, in place. Write the differences into a new array."
)
def loss_in_place(logits, tokens):
    _checked_loss(logits, tokens)
    logits -= logits.max(axis=-1, keepdims=True)
    return float(_losses(logits, tokens).mean())


_LOG_EPSILON = (
    "Something small keeps the logarithm away from 0. It moves every loss a little, and a token that "
    "seemed impossible costs far too little. Use the log softmax; it never meets log of 0."
)


def _loss_with_epsilon(keep):
    def loss_with_epsilon(logits, tokens):
        _checked_loss(logits, tokens)
        return float(-np.log(keep(_pick(_softmax(logits[:, :-1]), tokens[:, 1:]))).mean())

    return loss_with_epsilon


for _size in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15):
    next_token_loss.misconception(_LOG_EPSILON)(_loss_with_epsilon(lambda p, size=_size: p + size))
    next_token_loss.misconception(_LOG_EPSILON)(_loss_with_epsilon(lambda p, size=_size: np.maximum(p, size)))


# The written question ------------------------------------------------------------------------------------------------

written = Written(
    points=4,
    rubric="""One point each.

1. The symptom: the loss is far below what the text allows (near 0, or below the entropy of the language),
   while generated text is poor. A low loss with bad text is a sign that training could see what generation cannot.
2. The cause: somewhere a position can read the token it has to predict. At least one concrete candidate: the mask is
   missing, inverted, off by one on the diagonal, applied after the softmax, aligned to the wrong corner, made from
   finite numbers that leak; or the targets are not shifted, so that the model copies its input.
3. The test: run the model on a text and on the same text with a later token changed; the logits at all earlier
   positions must be equal bit for bit. Or: the loss on random tokens must not fall below log(vocabulary). "Look at the
   attention map" alone earns half a point: a leak through targets is not visible there.
4. Why training longer does not help: the model relies on the next token, which does not exist at generation. It has
   learned to copy and not to predict, and a loss near 0 gives it no reason to learn anything else.

Model answer: "A loss of 0.02 nats means that the right token gets 98% on average. No model of English can predict the
next word that well, so this one must see it. I would take one text, change its seventh token, and compare the logits at
positions 0 to 5 before and after: with a causal mask not one bit may differ. If some do, the mask is missing, inverted
or shifted by one. If none do, I would look at the targets: without the shift, a position has to give the token it has
just read, which needs no attention at all. When the model generates, the token it learned to copy is not there yet, so
its guesses are worthless, and training longer only makes it a better copier."

Common half answers: "overfitting" (a model that has memorized its training text also has a low loss, but then
it would write text from the training set well, and its loss on new text would be high; here that is low as well);
"too little data".""",
)
