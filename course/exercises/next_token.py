"""Exercises on the loss of a language model: what must hold, on which inputs, and what people get wrong."""

import numpy as np

from course.kit.edits import edit
from course.kit.exercise import Exercise, Written
from solutions import next_token as solutions

EXACT = 1e-11
NEARLY = 1e-4  # lets a small number beside a probability pass, so that it costs one property and not all of them

# Headings of the chapter.
LOSS = "The loss of a language model"
ALL_AT_ONCE = "All positions in one pass"
COUNTED = "Which tokens count"


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
        if differ and len({tuple(row) for row in ids}) == batch and (n == 1 or np.all(ids[:, 0] != ids[:, -1])):
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
    yield dict(logits=rng.normal(size=(1, 2, 150)), tokens=np.array([[3, int(rng.integers(130, 150))]]))


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


def unfit_for_a_loss(rng):
    yield dict(logits=rng.normal(size=(2, 1, 5)), tokens=np.array([[3], [1]]))
    yield dict(logits=rng.normal(size=(2, 4, 5)), tokens=_ids(rng, 2, 3, 5))
    yield dict(logits=rng.normal(size=(3, 4, 5)), tokens=_ids(rng, 2, 4, 5))
    yield dict(logits=rng.normal(size=(1, 4, 5)), tokens=_ids(rng, 2, 4, 5))  # what NumPy would stretch
    yield dict(logits=rng.normal(size=(2, 0, 5)), tokens=np.zeros((2, 0), dtype=int))
    yield dict(logits=rng.normal(size=(1, 3, 5)), tokens=np.array([[0, 5, 1]]))
    yield dict(logits=rng.normal(size=(2, 3, 4)), tokens=np.array([[0, 3, 1], [2, 1, -1]]))
    yield dict(logits=rng.normal(size=(1, 3, 4)), tokens=np.array([[1, -int(rng.integers(2, 9)), 2]]))
    yield dict(logits=rng.normal(size=(2, 3, 4)), tokens=np.array([[0, 3, 1], [2, 1, int(rng.integers(4, 9))]]))
    yield dict(logits=rng.normal(size=(2, 3, 4)), tokens=_ids(rng, 2, 3, 4))


next_token_loss.refuses(
    unfit_for_a_loss,
    title="refuses targets outside the vocabulary, and tokens that do not fit the logits",
    rtol=NEARLY,
    hint="Raise ValueError when there is nothing to predict, when logits and tokens differ in batch or length, and "
    "for a target below 0 or not below the size of the vocabulary. NumPy takes -1 for the last column, without an "
    "error.",
)
next_token_loss.unchanged(
    lambda rng: dict(logits=rng.normal(size=(2, 3, 4)), tokens=_ids(rng, 2, 3, 4)),
    rtol=NEARLY,
    hint="Work on new arrays: `logits -= ...` writes into the caller's.",
)

SHIFTED = "logits[..., :-1, :], tokens[..., 1:, None]"
MAXIMUM = "guesses.max(axis=-1, keepdims=True)"
TOTAL = "np.exp(guesses).sum(axis=-1, keepdims=True)"
LOSSES = "(log_total - np.take_along_axis(guesses, targets, axis=-1))"
PROBABILITIES = f"np.take_along_axis(np.exp(guesses), targets, axis=-1) / {TOTAL}"
ABOVE_ZERO = [
    probabilities
    for size in (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15)
    for probabilities in (f"{PROBABILITIES} + {size}", f"np.maximum({PROBABILITIES}, {size})")
]
MAXIMUM_ELSEWHERE = (
    "The maximum is not taken along the vocabulary, so the logits of one guess are shifted by different amounts, which "
    "changes the guess. Take it along the last axis."
)
TOTAL_ELSEWHERE = (
    "The exponentials are not summed along the vocabulary. At each position, the probabilities of all tokens sum to "
    "one: sum along the last axis."
)
LOG_EPSILON = (
    "Something small keeps the logarithm away from 0. It moves every loss a little, and a token that seemed impossible "
    "costs far too little. Use the log softmax; it never meets log of 0."
)

next_token_loss.mistakes(
    edit(SHIFTED, "logits, tokens[..., None]",
         "The targets are not shifted: each position is graded on the token it has just read. Logits at t are a guess "
         "about token t + 1."),
    edit(SHIFTED, "logits[..., :-1, :], tokens[..., :-1, None]",
         "The targets are not shifted: the last position is left out, but each other one is graded on the token it has "
         "just read. Cut the first token off the targets and the last position off the logits."),
    edit(SHIFTED, "logits[..., 1:, :], tokens[..., 1:, None]",
         "Both are cut at the front, so nothing is shifted: each position is graded on the token it has just read. Cut "
         "the first token off the targets and the last position off the logits."),
    edit(SHIFTED, "logits[..., 1:, :], tokens[..., :-1, None]",
         "The shift goes the wrong way: each position is graded on the token before it. Cut the last position off the "
         "logits and the first token off the targets."),
    edit(SHIFTED, "logits, np.roll(tokens, -1, axis=1)[..., None]",
         "The targets are rolled, so the last position is graded on the first token. After the last token nothing is "
         "known: that prediction is left out."),
    edit(SHIFTED, "logits.reshape(1, -1, vocab)[:, :-1], tokens.reshape(1, -1)[:, 1:, None]",
         "The sentences are joined into one long text: the last token of each is made to predict the first of the "
         "next. Shift within each sentence."),
    edit("logits.shape[:-1] != tokens.shape", "False",
         "Shapes are not compared: one text of logits and two of tokens are accepted, because NumPy stretches the one. "
         "Compare logits.shape[:2] with tokens.shape, and raise ValueError."),
    edit(".mean()", "[:, -1].mean()",
         "Only the last prediction counts. Every position but the last makes one, and all are averaged.",
         see=ALL_AT_ONCE),
    edit(".mean()", ".sum()",
         "The losses are summed. Take the mean, so that the number does not depend on how much text there was."),
    edit(".mean()", ".sum(axis=1).mean()",
         "The losses are summed over positions and averaged over sentences only. Take the mean over all predictions."),
    edit(".mean()", ".sum() / tokens.size",
         "The sum is divided by the number of tokens. n tokens make n - 1 predictions in each sentence: divide by "
         "those."),
    edit(".mean()", ".mean(axis=1).sum()",
         "The sum is divided by the length of one sentence and not by the number of sentences. Divide by the number of "
         "all predictions, batch * (n - 1)."),
    edit(".mean()", ".mean() / vocab",
         "The mean runs over the vocabulary too: all the zeros of a one-hot target are counted. Divide by the number "
         "of predictions."),
    edit(LOSSES, f"-{LOSSES}",
         "The sign is missing: a log probability is never above 0, and a loss is never below 0."),
    edit(".mean()", ".mean() / np.log(2)",
         "The logarithm has base 2. The loss is measured in nats: np.log."),
    edit(".mean()", ".mean() / np.log(10)",
         "The logarithm has base 10. The loss is measured in nats: np.log."),
    edit(MAXIMUM, "guesses.max(axis=0, keepdims=True)", MAXIMUM_ELSEWHERE),
    edit(TOTAL, "np.exp(guesses).sum(axis=0, keepdims=True)", TOTAL_ELSEWHERE),
    edit(MAXIMUM, "guesses.max(axis=1, keepdims=True)", MAXIMUM_ELSEWHERE),
    edit(TOTAL, "np.exp(guesses).sum(axis=1, keepdims=True)", TOTAL_ELSEWHERE),
    edit(TOTAL, "np.exp(guesses).sum(keepdims=True)", TOTAL_ELSEWHERE),
    edit("np.log(", "np.log2(",
         "The total is in base 2, and the logits are in base e. Take np.log of the sum of np.exp."),
    edit(f"np.log({TOTAL})", TOTAL,
         "The logarithm of the total is missing: the sum of exponentials itself is used."),
    edit(TOTAL, "np.exp(guesses).mean(axis=-1, keepdims=True)",
         "The exponentials are averaged where they should be summed."),
    edit(f"{LOSSES}.mean()", f"int({LOSSES}.mean())",
         "The loss is cut to a whole number. It is a mean, so return a float."),
    edit(f"{LOSSES}.mean()", f"np.exp({LOSSES}.mean())",
         "This is the exponential of the loss, the perplexity. Return the mean itself."),
    edit(f"{LOSSES}.mean()", f"-np.log(np.exp(-{LOSSES}).mean())",
         "The probabilities are averaged before the logarithm is taken. Average the losses: a confident mistake must "
         "cost more than the mean probability shows."),
    edit(LOSSES, f"-np.exp(-{LOSSES})",
         "The logarithm is missing: this is minus the mean probability. The cost of a guess is its negative log "
         "probability."),
    edit(LOSSES, f"(1 - np.exp(-{LOSSES}))",
         "The logarithm is missing: this is one minus the mean probability. The cost of a guess is its negative log "
         "probability."),
    edit(f" - {MAXIMUM}", "",
         "The softmax is missing: this is minus the mean logit of the right token. A logit counts only against the "
         "others of its row.", also={"(log_total - ": "(-"}),
    edit(LOSSES, f"-np.log({PROBABILITIES})",
         "Probabilities are taken first, then their logarithm. One that rounds to 0 gives an infinite loss. Use the "
         "log softmax of the softmax chapter."),
    edit(f" - {MAXIMUM}", "",
         "No maximum is subtracted, so logits of a thousand overflow. Subtract each row's largest logit first: the "
         "loss stays the same."),
    edit(f" - {MAXIMUM}", "",
         "No maximum is subtracted, and the logarithm is taken of each probability: exponentials overflow, and "
         "probabilities that round to 0 have no logarithm. Use the log softmax of the softmax chapter.",
         also={LOSSES: f"-np.log({PROBABILITIES})"}),
    edit(MAXIMUM, "logits.max()",
         "One maximum is subtracted for the whole batch. A row far below it underflows to log of 0. Each row needs its "
         "own."),
    edit(MAXIMUM, "guesses.max(axis=1, keepdims=True)",
         "The softmax runs over the positions. Every position has its own distribution over the vocabulary, the last "
         "axis.",
         also={TOTAL: "np.exp(guesses).sum(axis=1, keepdims=True)",
               LOSSES: "-np.take_along_axis(guesses - log_total, targets, axis=-1)"}),
    edit("tokens[..., 1:, None]", "np.repeat(tokens[:1], len(tokens), axis=0)[..., 1:, None]",
         "Every sentence is graded by the tokens of the first. Each has its own targets."),
    edit(LOSSES, "(log_total - guesses[..., targets[..., 0]])",
         "Indexing with `[..., targets]` takes every target of the batch for every row. Each row needs its own: "
         "np.take_along_axis."),
    edit(f"float({LOSSES}.mean())", f"{LOSSES}[..., 0]",
         "One loss for each prediction is returned. Return their mean, a single number."),
    edit(f"float({LOSSES}.mean())", f"{LOSSES}.mean(axis=(1, 2))",
         "One loss for each sentence is returned. Return the mean over all predictions, a single number."),
    edit("np.any(tokens < 0) or ", "",
         "Negative ids are accepted: NumPy counts them from the end of the vocabulary without an error. Raise "
         "ValueError."),
    edit("np.any(tokens < 0) or np.any(tokens >= vocab)", "False",
         "Ids are not checked. One beyond the vocabulary raises IndexError, which is the wrong exception, and a "
         "negative one is accepted: NumPy counts it from the end. Raise ValueError for both."),
    edit("tokens[..., 1:].size == 0", "False",
         "With one token there is nothing to predict, and the mean of nothing is nan. Raise ValueError below two "
         "tokens."),
    edit('ValueError(f"logits', 'AssertionError(f"logits',
         "`assert` raises AssertionError, and python -O leaves it out. Raise ValueError for what does not fit.",
         also={'ValueError(f"tokens': 'AssertionError(f"tokens',
               'ValueError(f"token ids': 'AssertionError(f"token ids'}),
    edit("guesses, targets =", "logits -= logits.max(axis=-1, keepdims=True)\n    guesses, targets =",
         "The largest logit is subtracted from the caller's array, in place. Write the differences into a new array."),
    edit(LOSSES, "-np.log({})", LOG_EPSILON, each=ABOVE_ZERO),
)  # fmt: skip


# masked_next_token_loss ----------------------------------------------------------------------------------------------

masked_next_token_loss = Exercise(solutions.masked_next_token_loss, section=COUNTED, minutes=12, difficulty=2)


def _batch(rng, batch, n, vocab, counted, scale=1.0):
    """Logits, tokens, and a mask in which that many tokens count, the first of a row aside."""
    mask = np.zeros(batch * (n - 1), dtype=bool)
    mask[:counted] = True
    rows = rng.permutation(mask).reshape(batch, n - 1)
    while batch > 1 and len(set(rows.sum(axis=1))) == 1 and 0 < counted < mask.size:  # rows of which one counts more
        rows = rng.permutation(mask).reshape(batch, n - 1)
    logits = scale * rng.uniform(-1, 1, size=(batch, n, vocab))
    return dict(logits=logits, tokens=_ids(rng, batch, n, vocab), loss_mask=np.insert(rows, 0, False, axis=1))


@masked_next_token_loss.property(
    "averages over the tokens that count",
    points=3,
    rtol=EXACT,
    atol=1e-14,
    hint="loss_mask[b, t] speaks of token t, whose guess is the row of logits before it. Pick these losses, add them "
    "up, and divide by how many there are.",
)
def counted(rng):
    yield dict(
        logits=np.log([[[1.0, 2.0, 1.0], [1.0, 1.0, 6.0], [5.0, 1.0, 2.0]]]),
        tokens=np.array([[0, 1, 2]]),
        loss_mask=np.array([[False, False, True]]),
    )
    yield _batch(rng, 2, 5, 6, 3)
    yield _batch(rng, 3, 4, 7, 5)
    yield _batch(rng, 1, 7, 3, 4)


@masked_next_token_loss.property(
    "never counts the first token of a row, and all others if it is told to",
    points=1,
    rtol=NEARLY,
    hint="Nothing comes before the first token, so no row of logits is a guess about it, whatever the mask says.",
)
def first_tokens(rng):
    case = _batch(rng, 2, 4, 5, 3)
    case["loss_mask"][:, 0] = True
    yield case
    yield dict(_batch(rng, 3, 4, 5, 9), loss_mask=np.ones((3, 4), dtype=bool))


@masked_next_token_loss.property(
    "gives 0 if no token counts",
    points=1,
    rtol=NEARLY,
    hint="The mean of nothing is nan. Test whether anything counts before you divide.",
)
def none_counts(rng):
    yield _batch(rng, 2, 4, 5, 0)
    yield dict(_batch(rng, 2, 1, 5, 0))
    yield dict(_batch(rng, 3, 1, 4, 0), loss_mask=np.ones((3, 1), dtype=bool))
    case = _batch(rng, 2, 4, 5, 0)
    case["loss_mask"][1, 0] = True
    yield case


@masked_next_token_loss.property(
    "survives logits of a thousand, also where nothing counts",
    points=1,
    rtol=NEARLY,
    hint="Use the log softmax, and *pick* the losses that count. Multiplying a loss of infinity by 0 gives nan.",
)
def large_logits(rng):
    yield dict(
        logits=np.array([[[1000.0, 0.0, -1000.0], [3.0, 1.0, 2.0], [0.0, 0.0, 0.0]]]),
        tokens=np.array([[0, 2, 1]]),
        loss_mask=np.array([[True, True, False]]),
    )
    yield dict(
        logits=np.array([[[-1000.0, -1003.0], [2.0, 1.0], [0.0, 1.0]]]),
        tokens=np.array([[1, 1, 0]]),
        loss_mask=np.array([[False, True, False]]),
    )
    yield _batch(rng, 2, 4, 5, 3, scale=2000.0)
    yield _batch(rng, 3, 3, 4, 2, scale=1000.0)


masked_next_token_loss.unchanged(
    lambda rng: dict(_batch(rng, 1, 4, 3, 3), loss_mask=np.array([[True, False, True, True]])),
    rtol=NEARLY,
    hint="Work on new arrays: `loss_mask[:, 0] = False` writes into the caller's.",
)

PICKED = "losses[counted].mean()"
ZEROED = (
    "The logits of guesses that do not count are set to 0. Such a guess still has a loss, log of the vocabulary, and "
    "it is still in the sum. Leave the logits, and pick the losses that count before you add them up."
)
CUT = "logits[..., :-1, :], tokens[..., 1:, None], loss_mask[..., 1:]"

masked_next_token_loss.mistakes(
    edit("losses[counted].mean()", "losses[~counted].mean()",
         "The mask is inverted: the tokens that do not count are averaged. True means that a token counts."),
    edit("guesses.max(axis=-1, keepdims=True)", "guesses.max()",
         "One maximum is subtracted for the whole batch. A row far below it underflows to log of 0. Each row needs its "
         "own."),
    edit(CUT, "logits[..., :-1, :], tokens[..., 1:, None], loss_mask[..., :-1]",
         "The mask is not shifted with the targets: loss_mask[b, t] is used for the guess that is made *at* t, "
         "about token t + 1. Cut the first column off, as for the tokens."),
    edit(CUT, "logits[..., 1:, :], tokens[..., 1:, None], loss_mask[..., 1:]",
         "The targets are not shifted: each token is predicted by the logits of its own position, which has just read "
         "it. Cut the last position off the logits.", see=LOSS),
    edit(CUT, "logits[..., :-1, :], tokens[..., :-1, None], loss_mask[..., 1:]",
         "The targets are not shifted: each position is graded on the token it has just read. Cut the first token off "
         "the targets.", see=LOSS),
    edit(CUT, "logits[..., :-1, :], tokens[..., :-1, None], loss_mask[..., :-1]",
         "Nothing is shifted: each position is graded on the token it has just read. Cut the first column off tokens "
         "and mask, and the last position off the logits.", see=LOSS),
    edit(CUT, "logits[..., 1:, :], tokens[..., :-1, None], loss_mask[..., :-1]",
         "The shift goes the wrong way: each position is graded on the token before it. Cut the last position off the "
         "logits, and the first column off tokens and mask.", see=LOSS),
    edit(CUT, "logits, tokens[..., None], loss_mask",
         "The targets are not shifted: each position is graded on the token it has just read, the first one too. "
         "Logits at t are a guess about token t + 1.", see=LOSS),
    edit(PICKED, "losses.mean()",
         "Every token counts: the mask only decides whether the result is 0. Average the losses where it is True."),
    edit("loss_mask[..., 1:]", "~loss_mask[..., 1:]",
         "The mask is turned around: the tokens that do not count are averaged. True means that a token counts."),
    edit(PICKED, "(losses * counted).mean()",
         "The sum is divided by all predictions, also by those that do not count. Divide by the number of tokens that "
         "count: `counted.sum()`."),
    edit(PICKED, "losses[counted].sum() / tokens.size",
         "The sum is divided by the number of all tokens. Divide by the number of those that count."),
    edit(PICKED, "losses[counted].sum() / loss_mask.sum()",
         "The divisor also counts marks on the first token of a row, which is never predicted. Count the marks after "
         "the first column is cut off."),
    edit(PICKED, "losses[counted].sum()",
         "The losses are summed. Divide by the number of tokens that count."),
    edit(PICKED, "losses[counted].sum() / len(tokens)",
         "The sum is divided by the number of rows. Divide by the number of tokens that count."),
    edit(PICKED,
         "np.mean([row[keep].mean() for row, keep in zip(losses, counted) if keep.any()])",
         "This is a mean of means: each row is averaged first, so a token of a row with few counted tokens weighs "
         "more. Sum over the whole batch, and divide once."),
    edit(PICKED,
         "np.mean([row[keep].mean() if keep.any() else 0.0 for row, keep in zip(losses, counted)])",
         "This is a mean of means: each row is averaged first, and rows without a counted token join in with 0. Sum "
         "over the whole batch, and divide once."),
    edit(f"float({PICKED}) if counted.any() else 0.0", f"float({PICKED})",
         "If no token counts, the mean of nothing is nan. Return 0.0."),
    edit(f"float({PICKED}) if counted.any() else 0.0", f"float({PICKED}) if loss_mask.any() else 0.0",
         "A mark on the first token of a row alone gives nan: no guess is made about it. Test what is left after the "
         "first column is cut off."),
    edit(f"float({PICKED}) if counted.any() else 0.0", "float((losses * counted).sum() / (counted.sum() + {}))",
         "A small number is added to the count, so that no division by 0 happens. It moves every loss a little. Test "
         "whether anything counts.", each=(1e-3, 1e-6, 1e-8)),
    edit(f"float({PICKED}) if counted.any() else 0.0", "float((losses * counted).sum() / (counted.sum() + 1))",
         "1 is added to the count. Divide by the count itself, and return 0.0 if it is 0."),
    edit("losses = (", "losses = -(",
         "The sign is missing: a log probability is never above 0, and a loss is never below 0.", see=LOSS),
    edit(PICKED, f"{PICKED} / np.log(2)",
         "The logarithm has base 2. The loss is measured in nats: np.log.", see=LOSS),
    edit(PICKED, f"np.exp({PICKED})",
         "This is the exponential of the loss, the perplexity. Return the mean itself.", see=LOSS),
    edit(" - guesses.max(axis=-1, keepdims=True)", "",
         "No maximum is subtracted, so logits of a thousand overflow. Subtract each row's largest logit first.",
         see=LOSS),
    edit("(log_total - np.take_along_axis(guesses, targets, axis=-1))[..., 0]",
         "-np.log(np.take_along_axis(np.exp(guesses - log_total), targets, axis=-1))[..., 0]",
         "Probabilities are taken first, then their logarithm. One that rounds to 0 gives an infinite loss. Use the "
         "log softmax.", see=LOSS),
    edit("(log_total - np.take_along_axis(guesses, targets, axis=-1))[..., 0]",
         "-np.log(np.take_along_axis(np.exp(guesses - log_total), targets, axis=-1) + {})[..., 0]", LOG_EPSILON,
         see=LOSS, each=(1e-6, 1e-8, 1e-9, 1e-10, 1e-12)),
    edit("loss_mask[..., 1:]\n", "loss_mask[..., 1:] & loss_mask[..., :-1]\n",
         "A token counts only if the one before it does too: the mask is used for the guess and for its target. What "
         "was read counts always; loss_mask[..., 1:] alone decides."),
    edit("guesses = guesses - ", "guesses = guesses * counted[..., None]\n    guesses = guesses - ", ZEROED,
         also={PICKED: "losses.sum() / counted.sum()"}),
    edit("guesses - guesses.max(axis=-1, keepdims=True)", "guesses * loss_mask[..., 1:, None]",
         "The logits are multiplied by the mask. Those of tokens that do not count become 0, and such a guess still "
         "has a loss, log of the vocabulary. Leave the logits, and pick the losses.", also={PICKED: "losses.mean()"}),
    edit("guesses, targets, counted =", "loss_mask[..., 0] = False\n    guesses, targets, counted =",
         "The caller's mask is written into: its first column is set to False. Cut the column off."),
    edit(f"float({PICKED})", "losses[counted]",
         "One loss per counted token is returned. Return their mean, a single number."),
)  # fmt: skip


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
