"""Exercises of the masks chapter: what must hold, on which inputs, and what people get wrong.

Every size differs from every other wherever it can. Square cases are there for mistakes that cannot run on anything
else. The sizes of the masks themselves are drawn too, so that no table of answers can be memorized.
"""

import numpy as np

from attnlab.checking import probes
from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from course.kit.hunt import Hunt
from course.right_answers.masks import RIGHT
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
PACKED = "Many documents in one row"
CONVENTIONS = "What PyTorch calls a mask"
HUNT = "Hunt bugs ★"


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


KEPT_KEYS = (
    "The keys from before the first query are hidden, so the new tokens see only one another. Those keys are the past: "
    "with n_k - n_q more keys than queries, every query sees that many columns more."
)
CAUSAL = "np.tril(np.ones((n_q, n_k), dtype=bool), k=n_k - n_q)"

causal_mask.mistakes(
    edit("k=n_k - n_q", "k=n_k - n_q - 1",
         "The diagonal is missing: no token sees itself, and the first sees nothing at all. A token may read its own "
         "key.", see=MINUS_INFINITY),
    edit("k=n_k - n_q", "k=n_k - n_q + 1",
         "The diagonal is one too far to the right: each token sees the next one, which is exactly the token it has to "
         "predict.", see=MINUS_INFINITY),
    edit("np.tril", "np.triu",
         "The triangle is the wrong one: each token sees itself and what comes after. Rows are queries and columns are "
         "keys, so what came before is on the left.", see=MINUS_INFINITY),
    edit("np.tril", "~np.tril",
         "True and False are swapped: your mask is True where reading is forbidden. Here, as in "
         "scaled_dot_product_attention, True means that the query may attend to the key.", see=CONVENTIONS),
    edit(", k=n_k - n_q", "",
         "The mask is aligned to the top left: query 0 is treated as position 0. With more keys than queries, the "
         "queries are the last positions, and the last of them sees every key. Shift the diagonal by n_k - n_q."),
    edit(CAUSAL, "~np.tril(np.ones((n_q, n_k), dtype=bool))",
         "True and False are swapped, and the mask is aligned to the top left. True means may attend, and the last "
         "query sees every key.", see=CONVENTIONS),
    edit("k=n_k - n_q", "k=-1",
         "The diagonal is missing, and the mask is aligned to the top left. A token sees itself, and the last query "
         "sees every key."),
    edit("n_q if n_k is None else n_k", "n_q",
         "n_k is ignored: the mask is always n_q by n_q. It needs one column per key."),
    edit(CAUSAL, "np.tril(np.ones((n_k, n_q), dtype=bool), k=n_q - n_k)",
         "Rows and columns have changed places: the shape is (n_k, n_q). Queries are rows, keys are columns."),
    edit("n_k - n_q", "n_q - n_k",
         "The diagonal is shifted by n_q - n_k, the wrong way. With more keys than queries each query sees more, so "
         "the shift is n_k - n_q."),
    edit(CAUSAL, "np.tril(np.ones((n_q, n_k), dtype=bool), k={}) & (np.arange(n_k) >= n_k - n_q)", KEPT_KEYS,
         each=("n_k - n_q", "max(0, n_k - n_q)")),
    edit("n_k - n_q", "max(0, n_k - n_q)",
         "The shift stops at zero, so with more queries than keys the first query still sees the first key. Let n_k - "
         "n_q go below zero: those queries come before every key and see none."),
    edit("n_q if n_k is None else n_k", "n_k or n_q",
         "An n_k of 0 is treated like None: `n_k or n_q` gives n_q for both. Test `n_k is None`."),
    edit(f"return {CAUSAL}", f"mask = {CAUSAL}\n    mask[~mask.any(axis=1), 0] = True\n    return mask",
         "Queries without a key are allowed the first key, so that no row is empty. That lets them read a position "
         "that comes after them. An empty row is right here; the softmax has to handle it.", see=EMPTY),
    edit(CAUSAL, f"np.where({CAUSAL}, 0.0, -np.inf)",
         "This is what is added to scores: 0 where reading is allowed and minus infinity where it is not. The mask "
         "itself is made of truth values.", see=MINUS_INFINITY),
    edit(CAUSAL, f"~{CAUSAL} * -np.inf",
         "You multiply ones and zeros by minus infinity, but 0 times infinity is nan. Make a mask of truth values, "
         "without arithmetic.", see=MINUS_INFINITY),
    edit(", dtype=bool", "",
         "The pattern is right, but it is made of numbers 0 and 1. A mask holds truth values: with dtype=bool, `~` and "
         "np.where do what they should.", see=MINUS_INFINITY),
    edit(", dtype=bool), k=n_k - n_q", ")",
         "The pattern is made of numbers 0 and 1, and aligned to the top left. Use dtype=bool, and let the last query "
         "see every key."),
    edit(CAUSAL, "np.array([[j <= i + n_k - n_q for j in range(n_k)] for i in range(n_q)])",
         "With no key at all, n_k = 0, np.array is given empty lists and makes floats of them. Say dtype=bool, or "
         "compare two arrays of positions."),
    edit(CAUSAL, "np.ones((n_q, n_k), dtype=bool)",
         "Everything is allowed. The entries above the diagonal are the future and must be False.", see=MINUS_INFINITY),
    edit(CAUSAL, f"{CAUSAL}[None]",
         "An axis for the batch is in front. The mask is the same for every sentence: return (n_q, n_k), and "
         "broadcasting does the rest."),
)  # fmt: skip


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


def impossible_lengths(rng):
    yield dict(lengths=np.array([2, 6, 1]), max_len=5)
    yield dict(lengths=np.array([2, -1]), max_len=5)
    yield dict(lengths=[3, -1], max_len=4)
    yield dict(lengths=[258, 1], max_len=4)  # 2, in a number of one byte
    yield dict(lengths=[2, 1, int(rng.integers(6, 9))], max_len=5)
    yield dict(lengths=np.array([4, int(rng.integers(7, 20)), 0]), max_len=6)
    yield dict(lengths=np.array([-int(rng.integers(1, 9)), 3]), max_len=4)
    yield dict(lengths=rng.permutation([2, 0, 5, 3]), max_len=5)


padding_mask.refuses(
    impossible_lengths,
    title="refuses lengths below 0 or above max_len",
    hint="Raise ValueError if any length is negative or larger than max_len; those in between are fine.",
)
padding_mask.unchanged(
    lambda rng: dict(lengths=rng.permutation(np.array([1, 2, 3, 4, 5])), max_len=int(rng.integers(6, 9))),
    title="leaves the lengths as they were",
    hint="Make a new array; do not clip or sort the one you were given.",
)

REAL = "np.arange(max_len) < lengths[:, None, None]"

padding_mask.mistakes(
    edit("[:, None, None]", "[:, None]",
         "The axis for the queries is missing: the shape is (batch, max_len). Against scores of (batch, n_q, n_k) it "
         "would be read as (n_q, n_k), with sentences where the queries should be. Add an axis of size one in the "
         "middle."),
    edit("np.arange(max_len) <", "np.arange(max_len)[:, None] <",
         "The padding is on the query axis: the shape is (batch, max_len, 1). That hides the queries of padding. What "
         "must be hidden are its keys, and keys are the last axis."),
    edit(REAL, f"({REAL}) & (np.arange(max_len)[:, None] < lengths[:, None, None])",
         "Padding is hidden as key and as query: (batch, max_len, max_len). Only keys need hiding. The output of a "
         "padding query is never used, and one row with an axis of size one serves every query."),
    edit("np.arange(max_len) <", "np.tile(np.arange(max_len), (max_len, 1)) <",
         "The row of each sentence is repeated for every query. An axis of size one does the same by broadcasting, "
         "whatever the number of queries."),
    edit("[:, None, None]", "[:, None, None, None]",
         "The shape is (batch, 1, 1, max_len), meant for scores with an axis of heads. Here scores are (batch, n_q, "
         "n_k), so one axis of size one is enough."),
    edit("[:, None, None]", "[None, :, None]",
         "The shape is (1, batch, max_len): the axis of size one is in front of the batch. It stands for the queries, "
         "and they come between batch and keys."),
    edit(REAL, f"~({REAL})",
         "True and False are swapped: your mask marks the padding, as PyTorch's key_padding_mask does. Here True means "
         "may attend.", see=CONVENTIONS),
    edit(REAL, "np.arange(max_len) >= lengths[:, None]",
         "True and False are swapped, and the axis for the queries is missing. This is PyTorch's key_padding_mask; "
         "here True means may attend, and the shape is (batch, 1, max_len).", see=CONVENTIONS),
    edit("np.arange(max_len) <", "np.arange(max_len) <=",
         "One position too many: the position that equals the length is the first padding. Positions count from 0, so "
         "real ones are below the length."),
    edit("[:, None, None]", "[:, None, None] - 1",
         "One position too few: the last real token is hidden. A sentence of length 3 has positions 0, 1 and 2."),
    edit("np.arange(max_len)", "np.arange(max_len)[::-1]",
         "The real tokens are at the end of each row. Here the padding is on the right, so real tokens come first."),
    edit("lengths[:, None, None]", "np.full_like(lengths, lengths[0])[:, None, None]",
         "Every sentence gets the length of the first. Each row needs its own."),
    edit("lengths[:, None, None]", "np.full_like(lengths, lengths.max())[:, None, None]",
         "Every sentence gets the largest length, so shorter ones keep their padding. Each row needs its own."),
    edit("np.arange(max_len)", "np.arange(lengths.max())",
         "The mask is as wide as the longest sentence, whatever max_len is. The batch may be wider than that: there "
         "are max_len positions."),
    edit("lengths = np.asarray(lengths)", "lengths = np.sort(lengths)",
         "The lengths are sorted, so that each row belongs to another sentence. Keep their order."),
    edit(REAL, f"({REAL}).astype(float)",
         "The pattern is right, but it is made of numbers. A mask holds truth values.", see=MINUS_INFINITY),
    edit(REAL, f"np.where({REAL}, 0.0, -np.inf)",
         "This is what is added to scores, 0 and minus infinity. The mask itself is made of truth values.",
         see=MINUS_INFINITY),
    edit("np.any(lengths < 0) or np.any(lengths > max_len)", "False",
         "An impossible length among others raises no error. Below 0 it hides the whole sentence, above max_len it "
         "means that tokens have been lost: raise ValueError if any length is one of these."),
    edit(" or np.any(lengths > max_len)", "",
         "A length above max_len among others is accepted. It means that tokens have been lost: raise ValueError if "
         "any length is above max_len."),
    edit("np.any(lengths < 0) or ", "",
         "A negative length among others is accepted. No sentence has fewer than 0 tokens: raise ValueError if any "
         "length is below 0."),
    edit("return", 'if np.any(lengths == 0):\n        raise ValueError("empty")\n    return',
         "A length of 0 is refused. A batch may contain an empty sentence: its row allows nothing.", see=EMPTY),
    edit("return", 'if np.any(lengths == max_len):\n        raise ValueError("full")\n    return',
         "A length of max_len is refused. That is a sentence without padding, the longest of the batch."),
    edit('ValueError(f"lengths', 'AssertionError(f"lengths',
         "`assert` raises AssertionError, and python -O leaves it out. Raise ValueError for impossible lengths."),
    edit("lengths = np.asarray(lengths)", "given, lengths = lengths, np.asarray(lengths)",
         "A list of lengths fails: only arrays can be indexed with None. Begin with np.asarray.",
         also={"lengths[:, None, None]": "given[:, None, None]"}),
)  # fmt: skip


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


sliding_window_mask.refuses(
    lambda rng: [
        dict(n=5, window=0),
        dict(n=5, window=-int(rng.integers(1, 9))),
        dict(n=5, window=1),
        dict(n=int(rng.integers(5, 10)), window=int(rng.integers(2, 5))),
    ],
    title="refuses a window below one",
    hint="Raise ValueError for window < 1. A window of 1 is fine.",
)

BAND = "(steps_back >= 0) & (steps_back < window)"
BRACKETS = "`&` is computed before `<=` and `==`. Put each comparison in brackets of its own: `(a <= b) & (c < d)`."

sliding_window_mask.mistakes(
    edit("steps_back < window", "steps_back <= window",
         "The window does not count the token itself, so each row is one too wide. Window 1 means only the token."),
    edit("steps_back < window", "steps_back < window - 1",
         "One too few: the window counts the token itself and the window - 1 before it. With window 1 your token would "
         "see nothing."),
    edit("steps_back >= 0", "steps_back > 0",
         "The token itself is hidden. The window begins at the token, not before it."),
    edit(BAND, "(steps_back > 0) & (steps_back <= window)",
         "The token itself is hidden and the window reaches one further back instead. It begins at the token."),
    edit(BAND, "np.abs(steps_back) < window",
         "The window reaches to both sides, so tokens see the future. This one looks back only: 0 <= i - j.",
         see=MINUS_INFINITY),
    edit(BAND, "np.abs(steps_back) <= window // 2",
         "The window is centered on the token, half of it in the future. This one ends at the token.",
         see=MINUS_INFINITY),
    edit("np.arange(n)[:, None] - np.arange(n)", "np.arange(n) - np.arange(n)[:, None]",
         "The window is ahead of each token, in the future. Rows are queries: what came before is on the left.",
         see=MINUS_INFINITY),
    edit(BAND, "steps_back < window",
         "Tokens further back than the window are hidden, but the future is not. Both limits are needed.",
         see=MINUS_INFINITY),
    edit(BAND, "{}", BRACKETS, each=(
        "np.arange(n) <= np.arange(n)[:, None] & (steps_back < window)",
        "(steps_back < window) & np.arange(n) <= np.arange(n)[:, None]")),
    edit("&", "|",
         "Everything is allowed: each cell meets at least one of the two conditions. Both must hold, so join them with "
         "`&` and not with `|`.", see=MINUS_INFINITY),
    edit(f"return {BAND}",
         "mask = np.zeros((n, n), dtype=bool)\n"
         "    for i in range(n):\n        mask[i, i - window + 1 : i + 1] = True\n    return mask",
         "The first rows are empty. Their windows reach back beyond the first token: let them begin at 0, with max(0, "
         "i - window + 1). A slice that begins below 0 counts from the end."),
    edit(BAND, "steps_back >= 0",
         "The window has no effect: this is the plain causal mask. Steps of `window` or more must be hidden as well."),
    edit(BAND, f"~({BAND})",
         "True and False are swapped: your mask marks what is hidden. True means may attend.", see=CONVENTIONS),
    edit("steps_back < window", "np.arange(n)[:, None] // window == np.arange(n) // window",
         "The text is cut into blocks, and each token sees its own block only. A sliding window moves along with the "
         "token."),
    edit("steps_back < window", "np.arange(n)[:, None] // window - np.arange(n) // window <= 1",
         "The text is cut into blocks, and each token sees its own block and the one before. How far that reaches "
         "depends on where in its block a token is; a sliding window has the same reach for every token."),
    edit("(steps_back < window)", "((steps_back < window) | (np.arange(n) == 0))",
         "The first token stays visible to all. Some models do keep it, as an attention sink; a plain sliding window "
         "does not."),
    edit(BAND, f"({BAND}).astype(float)",
         "The pattern is right, but it is made of numbers. A mask holds truth values.", see=MINUS_INFINITY),
    edit(BAND, f"np.where({BAND}, 0.0, -np.inf)",
         "This is what is added to scores, 0 and minus infinity. The mask itself is made of truth values.",
         see=MINUS_INFINITY),
    edit("window < 1", "False",
         "A window below 1 is accepted, and then no token can read anything. Raise ValueError."),
    edit("window < 1", "window < 0",
         "A window of 0 is accepted. Even the token itself is outside it: raise ValueError below 1."),
    edit("return", 'if window == 1:\n        raise ValueError("too narrow")\n    return',
         "A window of 1 is refused. It is narrow but allowed: each token sees itself."),
    edit("return", 'if window > n:\n        raise ValueError("does not fit")\n    return',
         "A window wider than the text is refused. It hides nothing of the past, which is fine: early tokens always "
         "have less before them than the window."),
    edit('ValueError(f"window', 'AssertionError(f"window',
         "`assert` raises AssertionError, and python -O leaves it out. Raise ValueError for a window below 1."),
)  # fmt: skip


# document_mask -------------------------------------------------------------------------------------------------------

document_mask = Exercise(solutions.document_mask, section=PACKED, minutes=8, difficulty=2)


def _documents(rng, *lengths):
    """Numbers of documents of these lengths, one after another, no two of them equal."""
    return np.repeat(rng.choice(np.arange(1, 50), size=len(lengths), replace=False), lengths)


@document_mask.property(
    "shows each token its own document, up to itself",
    points=2,
    hint="A key is visible if it has the query's document number and does not come after it. Both must hold: `&`.",
)
def own_document(rng):
    yield dict(document_ids=np.array([7, 7, 7, 3, 3]))
    yield dict(document_ids=_documents(rng, 2, 1, 3))
    yield dict(document_ids=_documents(rng, 4))
    yield dict(document_ids=_documents(rng, 1, 1, 1, 2))


@document_mask.property(
    "goes by the numbers alone",
    points=2,
    hint="Any whole number is a document: 0 and -1 as well, and a number that comes back later is the same document.",
)
def any_number(rng):
    yield dict(document_ids=np.array([0, 0, 5, 5, 0]))
    yield dict(document_ids=np.array([-1, 4, 4, -1, 4]))
    yield dict(document_ids=rng.permutation(np.array([0, 0, -1, -1, 3, 3, 8])))
    yield dict(document_ids=np.array([1, -1, 255, -1, 1]))
    yield dict(document_ids=np.array([16777217, 16777216, 16777217]))


@document_mask.property(
    "takes a batch, with any number of leading axes",
    points=1,
    hint="Count the axes from the end: ids[..., :, None] is a column for each text, and ids[..., None, :] a row.",
)
def batches(rng):
    yield dict(document_ids=np.stack([_documents(rng, 2, 3), _documents(rng, 4, 1)]))
    yield dict(document_ids=rng.integers(1, 4, size=(2, 3, 4)))
    yield dict(document_ids=np.stack([_documents(rng, 1, 2), _documents(rng, 2, 1), _documents(rng, 3)]))


@document_mask.property(
    "takes a list as well",
    points=1,
    hint="np.asarray makes an array of a list and leaves an array as it is.",
)
def document_lists(rng):
    yield dict(document_ids=[1, 1, 2, 2])
    yield dict(document_ids=[[1, 1, 2], [3, 3, 3]])
    yield dict(document_ids=_documents(rng, 3, 2).tolist())


document_mask.unchanged(
    lambda rng: dict(document_ids=_documents(rng, 2, 3)),
    title="leaves the document numbers as they were",
    hint="Compare the numbers, and make a new array of truth values.",
)

SAME, EARLIER = "(ids[..., :, None] == ids[..., None, :])", "np.tri(ids.shape[-1], dtype=bool)"

document_mask.mistakes(
    edit(f"{SAME} & {EARLIER}", SAME,
         "The future is visible: a token also reads the tokens of its own document that come after it. Join the table "
         "with a causal mask.", see=LAST_QUERY),
    edit(f"{SAME} & {EARLIER}", f"np.broadcast_to({EARLIER}, (*ids.shape, ids.shape[-1]))",
         "The document numbers have no effect: each token reads everything before it, in other documents too. Compare "
         "the query's number with the key's."),
    edit("dtype=bool)", "k=-1, dtype=bool)",
         "The diagonal is missing: no token sees itself, and the first of each document sees nothing. A token may read "
         "its own key.", see=MINUS_INFINITY),
    edit("dtype=bool)", "k=1, dtype=bool)",
         "The diagonal is one too far to the right: each token also sees the next one of its document, which is the "
         "token it has to predict.", see=MINUS_INFINITY),
    edit(EARLIER, f"{EARLIER}.T",
         "The triangle is the wrong one: each token sees itself and what comes after it in its document. Rows are "
         "queries and columns are keys.", see=MINUS_INFINITY),
    edit(f"{SAME} & {EARLIER}", f"~({SAME} & {EARLIER})",
         "True and False are swapped: your mask is True where reading is forbidden. Here True means may attend.",
         see=CONVENTIONS),
    edit(f"{SAME} &", f"~{SAME} &",
         "The comparison is the wrong way around: each token reads the *other* documents before it. Equal numbers may "
         "see each other."),
    edit(f"{SAME} &", f"{SAME} |",
         "The two tables are joined by \"or\": a token reads everything before it, and the rest of its document as "
         "well. Both conditions must hold: `&`."),
    edit("ids = np.asarray(document_ids)",
         "ids = np.asarray(document_ids)\n"
         "    ids = np.cumsum(np.diff(ids, axis=-1, prepend=ids[..., :1]) != 0, axis=-1)",
         "Each change of the number starts a new document, so one that comes back later no longer sees its own "
         "beginning. Only the numbers count: compare them directly."),
    edit(SAME, f"{SAME} & (ids != 0)[..., None, :]",
         "The number 0 is treated as padding. Here every whole number is a document, 0 too."),
    edit(SAME, f"{SAME} & (ids != 0)[..., None, :] & (ids != 0)[..., :, None]",
         "The number 0 is treated as padding. Here every whole number is a document, 0 too."),
    edit(SAME, f"{SAME} & (ids >= 0)[..., None, :]",
         "Negative numbers are treated as padding. Here every whole number is a document, -1 too."),
    edit(SAME, f"{SAME} & (ids > 0)[..., None, :]",
         "Numbers below 1 are treated as padding. Here every whole number is a document, 0 and -1 too."),
    edit("ids[..., :, None] == ids[..., None, :]", "one_hot @ np.swapaxes(one_hot, -1, -2) > 0",
         "Document numbers are used as places in an array, where a negative one counts from the end: -1 becomes the "
         "same document as the largest number. Compare the numbers themselves.",
         also={"ids = np.asarray(document_ids)":
               "ids = np.asarray(document_ids)\n    one_hot = np.eye(ids.max() + 1)[ids]"}),
    edit("ids[..., :, None] == ids[..., None, :]", "ids[..., :, None] <= ids[..., None, :]",
         "Numbers are compared with <=. Document numbers have no order: a token sees the documents with a number equal "
         "to its own."),
    edit("ids[..., :, None] == ids[..., None, :]", "ids[..., :, None] >= ids[..., None, :]",
         "Numbers are compared with >=. Document numbers have no order: a token sees the documents with a number equal "
         "to its own."),
    edit(SAME, "(ids[..., :, None] == ids[..., :1, None])",
         "Every token is compared with the first one. Compare each query's number with each key's."),
    edit("ids[..., :, None] == ids[..., None, :]", "ids[:, None] == ids",
         "The axes are counted from the front, so a batch of texts fails or is compared text with text. Count them "
         "from the end: ids[..., :, None] and ids[..., None, :]."),
    edit(SAME, "(ids[:, None] == ids[None, :])",
         "The axes are counted from the front, so a batch of texts fails or is compared text with text. Count them "
         "from the end: ids[..., :, None] and ids[..., None, :]."),
    edit("np.tri(ids.shape[-1]", "np.tri(len(ids)",
         "The size of the triangle is len(ids). With a batch in front that is the number of texts: use ids.shape[-1]."),
    edit("np.asarray(document_ids)", "document_ids",
         "A list fails: only arrays can be indexed with None. Begin with np.asarray.",
         also={"ids.ndim": "np.ndim(ids)"}),
    edit(f"return {SAME}", f"return 1 * {SAME}",
         "The pattern is right, but it is made of numbers 0 and 1. A mask holds truth values.", see=MINUS_INFINITY),
    edit(f"{SAME} & {EARLIER}", f"np.where({SAME} & {EARLIER}, 0.0, -np.inf)",
         "This is what is added to scores, 0 and minus infinity. The mask itself is made of truth values.",
         see=MINUS_INFINITY),
    edit(f"{SAME} & {EARLIER}", f"{SAME[1:-1]} & {EARLIER}", BRACKETS),
    edit(SAME, "np.isclose(ids[..., :, None], ids[..., None, :])",
         "Large numbers that differ count as equal: they are compared with a tolerance, or in a dtype that rounds "
         "them. Compare whole numbers with `==`."),
    edit("np.asarray(document_ids)", "np.asarray(document_ids).astype({})",
         "The numbers are converted to a dtype that is too small for them, so that different ones become equal, such "
         "as -1 and 255. Keep the dtype they have.", each=("np.uint8", "np.int8")),
    edit("np.asarray(document_ids)", "np.abs(document_ids)",
         "The sign of the numbers is dropped. Here -1 and 1 are two documents."),
    edit(f"{SAME} & {EARLIER}", f"({SAME} & {EARLIER})[..., None, :, :]",
         "There is an axis too many. Return (..., n, n): one row per query and one column per key of each text."),
)  # fmt: skip


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
    # Nothing at all, in a mask with an axis that the scores lack.
    yield dict(scores=rng.integers(-3, 4, size=(3, 5)) + np.arange(5), mask=np.zeros((2, 3, 5), dtype=bool))


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
        ((0.0, 1.0), 1e17),  # next to 1e17, a difference of 1 is rounded away
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
    hint="An array of whole numbers can hold neither minus infinity nor the fractions that weights are. np.where makes "
    "a new array that can; np.zeros_like(scores) does not.",
)
def whole_numbers(rng):
    yield dict(scores=rng.integers(-3, 4, size=(3, 5)) + np.arange(5), mask=SOME)


masked_softmax.unchanged(
    lambda rng: [
        dict(scores=rng.normal(size=(3, 5)), mask=SOME),
        dict(scores=rng.normal(size=(4, 4)), mask=LOWER & (np.arange(4) != 2)[:, None]),
    ],
    rtol=NEARLY,
    hint="Writing minus infinity into `scores`, or True into `mask`, writes into the caller's array. Make a new one.",
)

VISIBLE = "np.where(mask, scores, -np.inf)"
UNMASKED = "1.0 * scores"  # floats, since `initial=-np.inf` is not a whole number
SAFE_TOP = "np.where(top == -np.inf, 0.0, top)"
SAFE_TOTAL = "np.where(total == 0.0, 1.0, total)"
MASKED_LATE = "powers = powers / powers.sum(axis=-1, keepdims=True) * mask\n    total = powers"
EPSILONS = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
EPSILON = (
    "Something small is added to every total, to save the empty row from 0/0. It also makes every other row sum to "
    "slightly less than one. Treat only the total that is 0."
)

TOP_FROM_0 = (
    "The maximum that is subtracted is never below 0. Where all visible scores are far below 0, each exponential "
    "vanishes, and the row becomes all zeros. Subtract the row's own maximum, and replace only that of an empty row."
)
COLUMN_MAXIMUM = (
    "The maximum is taken over the queries, along axis -2, while the softmax runs along axis -1. Subtract each row's "
    "own maximum, or rows far below it vanish."
)
MAXIMUM_TWICE = (
    "A maximum is subtracted before the mask is applied. If a hidden score is huge, the visible ones lose their digits "
    "in that subtraction, and their differences with them. Hide first, then subtract."
)
CLIPPED = (
    "The scores are clipped, so those beyond the limit all become equal. To keep exponentials from overflowing, "
    "subtract each row's maximum: it changes no weight."
)
WHOLE_WEIGHTS = (
    "Weights are written into an array with the dtype of the scores, such as np.zeros_like makes. Whole numbers then "
    "lose every fraction, and weights are fractions."
)

masked_softmax.mistakes(
    edit(VISIBLE, "np.where(mask, -np.inf, scores)",
         "The mask is inverted: you hide what should be visible. True means may attend.", see=CONVENTIONS),
    edit(VISIBLE, f"np.where(mask, scores, {UNMASKED})",
         "The mask has no effect: every key is visible."),
    edit(VISIBLE, UNMASKED,
         "The mask is applied after the softmax, so the hidden share is lost and rows sum to less than one. Hide the "
         "scores first, then take the softmax.", also={SAFE_TOTAL: "total * mask"}),
    edit(VISIBLE, UNMASKED,
         "The mask comes after the exponentials, and what is left is normalized again. In algebra that is the same, "
         "but a hidden key with a huge score takes all the weight first, and an empty row is 0/0.", see=FINITE,
         also={"total = powers": MASKED_LATE, SAFE_TOTAL: "total"}),
    edit(VISIBLE, UNMASKED,
         "A hidden score still counts before the mask removes it: in the maximum, or in the softmax. Where it is huge, "
         "the visible ones vanish. Hide first, then take the softmax with its maximum.", see=FINITE,
         also={"total = powers": MASKED_LATE}),
    edit(VISIBLE, "np.where(mask, scores, {})",
         "A hidden score becomes a big finite number. A visible score can be lower still, and a row with nothing "
         "allowed then reads all keys equally. Use minus infinity.", see=FINITE, each=(-1e9, -1e30)),
    edit(VISIBLE, "np.where(mask, scores, -1e4)",
         "A hidden score becomes a finite number that is not even low: visible scores reach it, and an empty row reads "
         "all keys equally. Use minus infinity.", see=FINITE),
    edit(VISIBLE, "np.where(mask, scores, {})",
         "A hidden score becomes a finite number, and its weight is set to 0 afterward. Where a visible score is lower "
         "still, the hidden key takes all the weight first. Use minus infinity.", see=FINITE,
         also={SAFE_TOTAL: "total * mask"}, each=(-1e4, -1e9, -1e30)),
    edit("powers = np.exp", "mask |= ~mask.any(axis=-1, keepdims=True)\n    powers = np.exp",
         "The caller's mask is changed. `|=` and `mask[...] =` write into their array: open empty rows in a new one."),
    edit(VISIBLE, "scores + np.where(mask, 0.0, -1e9)",
         "A finite number is added to hidden scores. The differences between them remain, so a row with nothing "
         "allowed attends as if there were no mask. Use minus infinity.", see=FINITE),
    edit(VISIBLE, "scores + np.where(mask, 0.0, -1e4)",
         "A small finite number is added to hidden scores, so the differences between them remain: an empty row "
         "attends as if there were no mask, and very low visible scores lose to hidden ones. Use minus infinity.",
         see=FINITE),
    edit(VISIBLE, "np.where(mask, scores, np.finfo(float).min)",
         "A row with nothing allowed reads all keys equally: either hidden scores are finite, however low, or its nan "
         "was replaced by equal shares. It must read nothing; its weights are 0.", see=EMPTY),
    edit(SAFE_TOP, "top",
         "A row with nothing allowed gives nan: from its maximum, since minus infinity minus itself is not a number, "
         "or from its total, since 0/0 is not either. Its weights must be 0: treat both.", see=EMPTY),
    edit(f" - {SAFE_TOP}", "",
         "No maximum is subtracted, so large scores overflow or vanish. And an empty row is 0/0, which is nan. Treat "
         "both.", see=EMPTY, also={SAFE_TOTAL: "total"}),
    edit(f" - {SAFE_TOP}", "",
         "No maximum is subtracted, so scores of a thousand overflow, and visible scores that are all very low vanish "
         "to 0. Subtract each row's own largest visible score."),
    edit(SAFE_TOP, "visible.max()",
         "One maximum is subtracted for the whole array. Each row needs its own, or rows far below it vanish."),
    edit(SAFE_TOP, "np.maximum(top, 0.0)", TOP_FROM_0),
    edit("powers = np.exp(visible - np.where(top == -np.inf, 0.0, top))",
         "powers = np.exp(visible - np.where(top == -np.inf, 0.0, top)).astype(scores.dtype)", WHOLE_WEIGHTS),
    edit(f"powers / {SAFE_TOTAL}", f"(powers / {SAFE_TOTAL}).astype(scores.dtype)", WHOLE_WEIGHTS),
    edit(VISIBLE, "scores + (1 - mask) * -np.inf",
         "A number times minus infinity is used to hide. For visible keys that is 0 times infinity, which is nan. "
         "Choose with np.where.", also={SAFE_TOP: "top"}),
    edit(VISIBLE, f"{UNMASKED} * mask",
         "Hidden scores become 0. That is an ordinary score, which gets weight; hidden means minus infinity."),
    edit("visible.max(axis=-1", "visible.max(axis=-2", COLUMN_MAXIMUM),
    edit(f"visible = {VISIBLE}",
         "scores = scores - scores.max(axis=-1, keepdims=True)\n    visible = np.where(mask, scores, -np.inf)",
         MAXIMUM_TWICE, see=FINITE),
    edit("mask, scores, -np.inf", "mask, np.clip(scores, {}), -np.inf", CLIPPED,
         each=("-500, 500", "-700, 700", "-1e3, 1e3", "-1e4, 1e4")),
    edit(VISIBLE, f"{UNMASKED} + mask",
         "The mask is added to the scores as it is, so a visible key gains 1 and nothing is hidden. A hidden score "
         "must become minus infinity."),
    edit(f"visible = {VISIBLE}", "visible = scores.copy()\n    visible[~mask] = -np.inf",
         "You write into the scores with the mask as an index. That needs a mask of the full shape, and scores that "
         "can hold minus infinity; np.where broadcasts and makes a new array."),
    edit("visible =",
         'if scores.dtype.kind == "f" and scores.shape == mask.shape:\n'
         '        scores[~mask] = -np.inf\n    visible =',
         "The caller's scores are written into: minus infinity, or what is left after a subtraction. Make a new array: "
         "np.where does."),
    edit("visible.max(axis=-1", "visible.max(axis=-2",
         "The softmax runs over the queries: your columns sum to one. Each query shares out its own weight of one: use "
         "the last axis.", also={"powers.sum(axis=-1": "powers.sum(axis=-2"}),
    edit("powers.sum(axis=-1, keepdims=True)", "powers.sum()",
         "The softmax runs over the whole array, so all queries together share a weight of one. Sum along the last "
         "axis, with keepdims=True.", also={SAFE_TOP: "visible.max()"}),
    edit("np.where(mask", "np.where(np.swapaxes(mask, -1, -2)",
         "The mask is transposed. Its rows are queries and its columns are keys, as in the scores."),
    edit(f"powers / {SAFE_TOTAL}", "visible",
         "These are the scores with minus infinity where the mask is False. The softmax is still missing."),
    edit(SAFE_TOTAL, "(total + {})", EPSILON, see=EMPTY, each=EPSILONS),
)  # fmt: skip


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
    Q, K = rng.integers(-2, 3, size=(2, 4, 3)), rng.integers(-2, 3, size=(2, 2, 3)) + np.array([[0.0], [1.0]])
    yield dict(Q=Q + np.array([0, 1, 0]), K=K, V=rng.normal(size=(2, 2, 3)))


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
        (0.0, 1.0, 1e17),
    ]:
        K = np.zeros((3, 4))
        K[:, 0] = scores  # scaled, with these queries
        yield dict(Q=np.array([[2.0, 0.0, 0.0, 0.0]] * 3), K=K, V=V)


@causal_attention.property(
    "accepts whole numbers, and fractions beside them",
    points=1,
    rtol=NEARLY,
    hint="Weights are fractions, so an array of whole numbers cannot hold them. Build the results from the values you "
    "computed, not with the inputs' dtype.",
)
def attention_whole_numbers(rng):
    yield dict(Q=CAT_SAT.astype(int), K=CAT_SAT.astype(int), V=CAT_SAT.astype(int))
    Q, K = rng.integers(-2, 3, size=(4, 3)), rng.integers(-2, 3, size=(4, 3))
    yield dict(Q=Q, K=K, V=rng.integers(-9, 10, size=(4, 2)))
    yield dict(Q=Q, K=K, V=rng.normal(size=(4, 2)))
    yield dict(Q=Q, K=rng.normal(size=(4, 3)), V=rng.normal(size=(4, 2)))


causal_attention.unchanged(
    lambda rng: dict(Q=rng.normal(size=(4, 3)), K=rng.normal(size=(4, 3)), V=rng.normal(size=(4, 2))),
    rtol=NEARLY,
    hint="Work on new arrays: no `/=`, no writing into Q, K or V.",
)

SCORES = "Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])"
INPUTS_KIND = (
    "Results are written into an array with the inputs' dtype, such as np.zeros_like makes. Whole numbers then lose "
    "every fraction, and weights are fractions."
)

causal_attention.mistakes(
    edit("np.sqrt(Q.shape[-1])", "np.sqrt(K.shape[-2])",
         "The scale is the root of the number of keys. It is the root of their width, d_k: `Q.shape[-1]`.",
         see=MINUS_INFINITY),
    edit("masked_softmax(scores, causal_mask(Q.shape[-2], K.shape[-2]))",
         "masked_softmax(Q @ np.swapaxes(K, -1, -2), causal_mask(Q.shape[-2], K.shape[-2])) / np.sqrt(Q.shape[-1])",
         "The weights are divided by the root of d_k, not the scores. Scale before the softmax, or the rows do not sum "
         "to one.", see=MINUS_INFINITY),
    edit("causal_mask(Q.shape[-2], K.shape[-2])", "causal_mask(K.shape[-2], Q.shape[-2]).T",
         "The mask is transposed: each query reads itself and what comes later. Rows are queries, columns are keys.",
         see=CONVENTIONS),
    edit(" / np.sqrt(Q.shape[-1])", "",
         "The scores are not scaled. Divide them by the square root of d_k, the width of queries and keys.",
         see=MINUS_INFINITY),
    edit("np.sqrt(Q.shape[-1])", "Q.shape[-1]",
         "The scores are divided by d_k itself. Use its square root.", see=MINUS_INFINITY),
    edit("/ np.sqrt(Q.shape[-1])", "// np.sqrt(Q.shape[-1])",
         "`//` divides and rounds down to a whole number. Scores are fractions: divide by `/`.", see=MINUS_INFINITY),
    edit("visible.max(axis=-1", "visible.max(axis=-2", COLUMN_MAXIMUM, see=MINUS_INFINITY),
    edit(f"scores = {SCORES}", f"scores = {SCORES}\n    scores = scores - {{}}", MAXIMUM_TWICE, see=FINITE,
         each=("scores.max(axis=-1, keepdims=True)", "scores.max()")),
    edit("mask, scores, -np.inf", "mask, np.clip(scores, {}), -np.inf", CLIPPED, see=FINITE,
         each=("-500, 500", "-700, 700", "-1e3, 1e3", "-1e4, 1e4")),
    edit("return weights @ V", "return weights @ V.astype(Q.dtype)",
         "The values are converted to the dtype of the queries. If that is whole numbers, the values lose their "
         "fractions: convert nothing."),
    edit("np.swapaxes(K, -1, -2)", "np.swapaxes(K.astype(Q.dtype), -1, -2)",
         "The keys are converted to the dtype of the queries. If that is whole numbers, the keys lose their fractions: "
         "convert nothing."),
    edit("np.sqrt(Q.shape[-1])", "np.sqrt(V.shape[-1])",
         "The scale uses the width of the values. A score is a dot product of a query and a key: their width d_k "
         "decides.", see=MINUS_INFINITY),
    edit(VISIBLE, "scores",
         "Nothing is masked: each query reads the future too.", see=MINUS_INFINITY),
    edit("causal_mask(Q", "~causal_mask(Q",
         "The mask is inverted: each query reads the future and nothing else. True means may attend.", see=CONVENTIONS),
    edit(", k=n_k - n_q", "",
         "The mask is aligned to the top left. With more keys than queries, the queries are the last positions: the "
         "last of them sees every key.", see=LAST_QUERY),
    edit("causal_mask(Q.shape[-2], K.shape[-2])", "causal_mask(Q.shape[-2])",
         "The mask is square, made from the number of queries alone, and does not fit when there are more keys. Give "
         "it both numbers.", see=LAST_QUERY),
    edit("causal_mask(Q.shape[-2], K.shape[-2])", "causal_mask(Q.shape[0], K.shape[0])",
         "The size of the mask is read from Q.shape[0]. That is the number of queries only while there are two axes; "
         "with a batch in front it is Q.shape[-2].", see=LAST_QUERY),
    edit("k=n_k - n_q", "k=n_k - n_q - 1",
         "No token reads itself: the diagonal is hidden too, and the first token has nothing.", see=MINUS_INFINITY),
    edit("k=n_k - n_q", "k=n_k - n_q + 1",
         "Each token also reads the next one, the one it has to predict. The diagonal is the last that may be seen.",
         see=MINUS_INFINITY),
    edit("n_k - n_q", "max(0, n_k - n_q)",
         "With more queries than keys, the first queries see a key that comes after them. They come before every key: "
         "zeros.", see=LAST_QUERY),
    edit("scores =",
         'if Q.shape[-2] > K.shape[-2]:\n        raise ValueError("more queries than keys")\n    scores =',
         "More queries than keys are refused. They are allowed: the first queries have nothing to read and get zeros.",
         see=EMPTY),
    edit(VISIBLE, "scores",
         "The mask is applied after the softmax, so the future's share is lost and rows sum to less than one. Hide the "
         "scores, then take the softmax.", see=MINUS_INFINITY, also={SAFE_TOTAL: "total * mask"}),
    edit(VISIBLE, "scores",
         "The weights are masked after the softmax and normalized again. In algebra that is the same; but a huge score "
         "in the future takes all the weight first, and a row with nothing to read is 0/0.", see=FINITE,
         also={"total = powers": MASKED_LATE, SAFE_TOTAL: "total"}),
    edit(VISIBLE, "scores",
         "A score in the future still counts before the mask removes it: in the maximum, or in the softmax. Where it "
         "is huge, the visible ones vanish. Hide first, then take the softmax with its maximum.",
         see=FINITE, also={"total = powers": MASKED_LATE}),
    edit(VISIBLE, "np.where(mask, scores, {})",
         "Future scores become a big finite number. A visible score can be lower still, and a query with nothing to "
         "read then reads all keys equally. Use minus infinity.", see=FINITE, each=(-1e9, -1e30)),
    edit(VISIBLE, "np.where(mask, scores, -1e4)",
         "Future scores become a finite number that is not even low: visible scores reach it, and a query with nothing "
         "to read reads all keys equally. Use minus infinity.", see=FINITE),
    edit(VISIBLE, "np.where(mask, scores, np.finfo(float).min)",
         "A query with nothing to read reads all keys equally: either future scores are finite, however low, or its "
         "nan was replaced by equal shares. It must read nothing; its weights are 0.", see=EMPTY),
    edit(VISIBLE, "np.where(mask, scores, {})",
         "Future scores become a finite number, and their weights are set to 0 afterward. Where a visible score is "
         "lower still, the future takes all the weight first. Use minus infinity.", see=FINITE,
         also={SAFE_TOTAL: "total * mask"}, each=(-1e4, -1e9, -1e30)),
    edit(VISIBLE, "scores + np.where(mask, 0.0, -1e9)",
         "A finite number is added to future scores. The differences between them remain, so a query with nothing to "
         "read attends as if there were no mask. Use minus infinity.", see=FINITE),
    edit(VISIBLE, "scores + np.where(mask, 0.0, -1e4)",
         "A small finite number is added to future scores. Low visible scores lose to hidden ones, and a query with "
         "nothing to read attends as if there were no mask. Use minus infinity.", see=FINITE),
    edit("Q @ np.swapaxes(K, -1, -2)",
         "(Q @ np.swapaxes(K, -1, -2) - 1e4 * ~causal_mask(Q.shape[-2], K.shape[-2]))",
         "A finite number is added to future scores before the division by the square root of d_k, which shrinks it. "
         "The differences between them remain, and low visible scores lose to hidden ones. Use minus infinity, after "
         "the scale.", see=FINITE, also={VISIBLE: "scores"}),
    edit(SAFE_TOP, "top",
         "A query with nothing to read gives nan: from its maximum, minus infinity, or from its total, 0. Its weights "
         "and output must be 0.",
         see=EMPTY),
    edit(SAFE_TOP, "np.maximum(top, 0.0)", TOP_FROM_0, see=MINUS_INFINITY),
    edit("return weights @ V", "return np.nan_to_num(weights @ V)",
         "The output of a query with nothing to read is repaired, but its weights are still nan. Repair the weights; "
         "the output follows.", see=EMPTY, also={SAFE_TOP: "top"}),
    edit(VISIBLE, "scores * mask",
         "Future scores are set to 0, as np.tril does. A score of 0 is an ordinary score and gets weight; hidden means "
         "minus infinity.", see=MINUS_INFINITY),
    edit("visible.max(axis=-1", "visible.max(axis=-2",
         "The softmax runs over the queries: your columns sum to one. Each query shares out its own weight of one: use "
         "the last axis.", see=MINUS_INFINITY, also={"powers.sum(axis=-1": "powers.sum(axis=-2"}),
    edit("return weights @ V, weights", "return weights, weights @ V",
         "Both results are right, in the wrong order: output first, then weights."),
    edit("return weights @ V, weights", "return weights @ V",
         "Only the output is returned. Return the weights too: output first, then weights."),
    edit("return weights @ V", "return np.swapaxes(weights, -1, -2) @ V",
         "The weights are transposed before they meet V, so each key collects from later queries. Row i of the weights "
         "mixes the values for query i."),
    edit("np.swapaxes(K, -1, -2)", "K.T",
         "`.T` reverses all axes, the leading ones too. Swap just the last two."),
    edit(SCORES, "np.divide(Q, np.sqrt(Q.shape[-1]), out=Q) @ np.swapaxes(K, -1, -2)",
         "Your code scales the caller's queries in place. Write the scaled values into a new array; in place it also "
         "fails for whole numbers."),
    edit(f"scores = {SCORES}",
         "Q = np.asarray(Q, dtype=float)\n"
         "    scores = np.divide(Q, np.sqrt(Q.shape[-1]), out=Q) @ np.swapaxes(K, -1, -2)",
         "Your code scales the caller's queries in place. Write the scaled values into a new array."),
    edit("K.shape[-2]))", "K.shape[-2])).astype(Q.dtype)", INPUTS_KIND),
    edit("return weights @ V", "return (weights @ V).astype(V.dtype)", INPUTS_KIND),
    edit(SAFE_TOTAL, "(total + {})", EPSILON, see=EMPTY, each=EPSILONS),
)  # fmt: skip


# test_causal_attention ---------------------------------------------------------------------------------------------

test_causal_attention = Hunt(
    solutions.test_causal_attention,
    section=HUNT,
    minutes=15,
    difficulty=2,
    of=causal_attention,
    right=RIGHT,
    worth=3,
)

# The written question ------------------------------------------------------------------------------------------------

written = Written(
    points=4,
    rubric="""One point each.

1. What is read wrongly: with a causal mask alone, a token of a later document reads the documents before it in the
   row. That is the past, not the future: the token it has to predict stays hidden, so the loss is not made too low by
   copying. The harm is another: unrelated text takes weight, and in use a document comes without it.
2. The advice: the document mask is right, dropping the causal mask is wrong. Within its own document a token would
   then read the next token, which is the one it has to predict, however short the document is. The two are joined
   with "and".
3. The test, from outside: change a token of the first document; no output of a later document may move by a bit.
   Change a token in the middle of a document; no earlier output may move, and later ones of the same document should.
   Half a point for "look at the weights": that shows one layer and one head at a time.
4. Padding: give it a document number of its own (or a padding mask as well). Then no real token reads it, and its
   own rows are not empty, since each token may read itself. That what it predicts must not count in the loss is a
   good remark and not required.

Model answer: "With a causal mask alone, the first token of the second document reads all of the first. It reads
nothing that it has to predict, so this is noise and not a leak: weight goes to text that has nothing to do with it,
and that will not be there when the model is used. So the colleague is right to ask for a document mask and wrong about
the causal one. Without it, a token sees the next token of its own document and can copy it. I would test the model from
outside: change one token in document 1 and compare all outputs of document 2, which must be equal bit for bit; then
change one in the middle of document 2, and everything before it must be equal. Padding at the end gets a number that no
document has. Real tokens then never read it, and its own rows still have one key, itself."

Common half answers: "the loss becomes too low" (no token sees its own target); "short documents need no causal mask"
(length has nothing to do with it).""",
)
