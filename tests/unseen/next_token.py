"""Wrong answers on the loss of a language model that the list of mistakes does not hold in these words."""

import numpy as np

from tests.alternatives.next_token import loss_by_logaddexp, loss_guess_by_guess, loss_that_checks_what_it_uses
from tests.unseen.parts import changed

LOSS = "np.mean(np.logaddexp.reduce(logits, axis=-1)[:, :-1] - logits[batch, n, tokens[:, 1:]])"
SHARES = "np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))"

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
        (lambda logits, tokens: loss_by_logaddexp(logits, tokens.astype(np.int8)), None),
    ],
}
