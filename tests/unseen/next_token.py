"""Wrong answers on the loss of a language model that the list of mistakes does not hold in these words."""

import numpy as np

from tests.alternatives.next_token import (
    loss_by_logaddexp,
    loss_guess_by_guess,
    loss_that_checks_what_it_uses,
    masked_by_ignore_index,
    masked_by_logaddexp,
    masked_guess_by_guess,
)
from tests.unseen.parts import changed

LOSS = "np.mean(np.logaddexp.reduce(logits, axis=-1)[:, :-1] - logits[batch, n, tokens[:, 1:]])"
SHARES = "np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))"


def zeroed_where_nothing_counts(logits, tokens, loss_mask):
    """The logits are masked and not the losses."""
    counted = loss_mask[:, 1:]
    if not counted.any():
        return 0.0
    hidden = np.append(np.where(counted[..., None], logits[:, :-1], 0.0), logits[:, -1:], axis=1)
    return loss_by_logaddexp(hidden, tokens) * counted.size / counted.sum()


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "next_token_loss": [
        (changed(loss_by_logaddexp, LOSS, f"-np.log(np.clip({SHARES}, 1e-15, 1))[batch, n, tokens[:, 1:]].mean()"),
         "keeps the logarithm away from 0"),
        (changed(loss_by_logaddexp, LOSS, f"-np.log({SHARES})[batch, n, tokens[:, 1:]].mean()"),
         "One that rounds to 0"),
        (changed(loss_guess_by_guess, "_refuse(logits, tokens)", "_refuse(logits[:len(tokens), :len(tokens[0])], "
                 "tokens[:len(logits), :len(logits[0])])"), None),
        (changed(loss_that_checks_what_it_uses, "range(vocab)", "range(vocab + 1)"), None),
        (changed(loss_that_checks_what_it_uses, "set(targets.tolist())", "set(tokens[0, 1:].tolist())"), None),
        (lambda logits, tokens: loss_by_logaddexp(logits, tokens.astype(np.int8)), None),
    ],
    "masked_next_token_loss": [
        (changed(masked_guess_by_guess, "logits[b, t - 1] - max(logits[b, t - 1])", "logits[b, t] - max(logits[b, t])"),
         "The targets are not shifted"),
        (changed(masked_guess_by_guess, "max(len(losses), 1)", "len(tokens)"), "number of rows"),
        (changed(masked_by_logaddexp, "[:, 1:]", "[:, :-1]"), "mask is not shifted"),
        (changed(masked_by_ignore_index, "ignore_index=-100", "ignore_index=-100, reduction='sum'"), "are summed"),
        (changed(masked_by_logaddexp, "    if len(batch) == 0:\n        return np.float64(0)\n", ""), "is nan"),
        (changed(masked_guess_by_guess, "if t > 0", "if t > 1"), None),
        (changed(masked_guess_by_guess, "if t > 0", "if t > 0 and loss_mask[b, t - 1]"), "the one before it does too"),
        (zeroed_where_nothing_counts, "set to 0"),
    ],
}
