"""Wrong answers to the chapter on the delta rule that its list of mistakes does not hold in these words."""

import torch
import torch.nn.functional as F

from tests.alternatives.delta_rule import (
    at_least_float32,
    by_a_general_solver,
    chunks_filled_up,
    convolution_by_conv1d,
    convolution_by_windows,
    convolution_shifted,
    convolution_token_by_token,
    delta_by_einsum,
    delta_by_sums,
    delta_head_by_head,
    empty_state,
    gated_by_sums,
    gated_token_by_token,
    gated_unfolded,
    inverse_by_doubling,
)
from tests.unseen.parts import changed

RECALLED = "(S * k[:, :, t, :, None]).sum(-2)"
CHANGE = "(v[:, :, t] - recalled) * beta[:, :, t, None]"
WRITTEN = "S = S + k[:, :, t, :, None] * change[:, :, None]"
READ = "rows.append((S * q[:, :, t, :, None]).sum(-2))"
FADED = "S = S * kept[:, :, t, None, None]"
TRIL = ".clamp(max=0).exp().tril()"


def as_attention(q, k, v, beta, state=None):
    """Causal linear attention with values that are multiplied by beta."""
    Q, K, V, b = at_least_float32(q, k, v, beta)
    S = empty_state(k, v) if state is None else state
    V = b[..., None] * V
    return (Q @ S + (Q @ K.mT).tril() @ V).to(v.dtype), S + K.mT @ V


def in_an_array(q, k, v, g, beta, chunk, state=None):
    """Token by token in NumPy: PyTorch has few operations to count, and no gradient to follow."""
    q, k, v, g, beta = (x.double().cpu().detach().numpy() for x in (q, k, v, g, beta))
    S = torch.zeros(*k.shape[:2], k.shape[3], v.shape[3]).double().numpy() if state is None else state.detach().numpy()
    rows = []
    for t in range(q.shape[2]):
        S = S * torch.from_numpy(g[:, :, t, None, None]).exp().numpy()
        change = beta[:, :, t, None] * (v[:, :, t] - (S * k[:, :, t, :, None]).sum(-2))
        S = S + k[:, :, t, :, None] * change[:, :, None]
        rows.append(torch.from_numpy((S * q[:, :, t, :, None]).sum(-2)))
    return torch.stack(rows, 2), torch.from_numpy(S)


def everything_against_everything(q, k, v, g, beta, chunk, state=None):
    """Right numbers, from a single system for the whole text."""
    return chunks_filled_up(q, k, v, g, beta, q.shape[2], state)


def recurrent_all_the_same(q, k, v, g, beta, chunk, state=None):
    return gated_by_sums(q, k, v, g, beta, state)


def same_padding(x, weight, past=None):
    width = weight.shape[1]
    y = F.conv1d(x.mT, weight[:, None], padding="same", groups=x.shape[2]).mT
    return y, F.pad(x, (0, 0, width - 1, 0))[:, x.shape[1]:]


def too_few_zeros(x, weight, past=None):
    width = weight.shape[1]
    rows = F.pad(x, (0, 0, width, 0)) if past is None else torch.cat([past[:, :1], past, x], 1)
    return convolution_by_windows(rows[:, :-1], weight)[0][:, width - 1:], rows[:, x.shape[1] + 1:]


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "delta_rule": [
        (as_attention, "linear attention"),
        (changed(delta_by_sums, CHANGE, "v[:, :, t] * beta[:, :, t, None]"), "linear attention"),
        (changed(delta_by_sums, CHANGE, "v[:, :, t] - recalled"), "beta is not used"),
        (changed(delta_by_sums, CHANGE, "v[:, :, t] * beta[:, :, t, None] - recalled"), "the value alone"),
        (changed(delta_by_sums, f"        {WRITTEN}\n        {READ}", f"        {READ}\n        {WRITTEN}"),
         "before the token has written"),
        (changed(delta_by_sums, "at_least_float32(q, k, v, beta)", "q, k, v, beta"), None),
        (changed(delta_by_sums, RECALLED, "(S * q[:, :, t, :, None]).sum(-2)"), "with the query"),
        (changed(delta_by_sums, RECALLED, "S.sum(-2)"), None),
        (changed(delta_by_sums, CHANGE, "torch.tanh(v[:, :, t] - recalled) * beta[:, :, t, None]"), None),
        (changed(delta_by_sums, WRITTEN, "S += k[:, :, t, :, None] * change[:, :, None]"), "in place"),
        (changed(delta_by_sums, "torch.stack(rows, dim=2)", "torch.stack(rows, dim=1)"), None),
        (changed(delta_by_einsum, "bhij\", key, value", "bhij\", key, b[..., 0] * value"), None),
        (changed(delta_by_einsum, "unit - b * torch", "unit - torch"), "the value alone"),
        (changed(delta_by_einsum, "query, S)", "query, S) / key.shape[-1] ** 0.5"), "square root of d_k"),
        (changed(delta_by_einsum, "state.clone()", "empty_state(k, v)"), "is not used"),
        (changed(delta_head_by_head, "S.T @ key", "S @ key"), None),
        (changed(delta_head_by_head, "share * (value", "share ** 0.5 * (value"), None),
        (changed(delta_head_by_head, "S, rows = state[b, h], []", "S, rows = state[0, 0], []"), None),
    ],
    "gated_delta_rule": [
        (changed(gated_by_sums, "g.exp()", "g"), "by g itself"),
        (changed(gated_by_sums, "g.exp()", "(-g).exp()"), "so it grows"),
        (changed(gated_by_sums, "g.exp()", "1 / (1 - g)"), None),
        (changed(gated_by_sums, "g.exp()", "2 ** g"), None),
        (changed(gated_by_sums, "g.exp()", "g.cumsum(-1).exp()"), "sum of all g"),
        (changed(gated_by_sums, "g.exp()", "g.mean(1, keepdim=True).exp().expand_as(g)"), None),
        (changed(gated_by_sums, f"        {FADED}\n", "", READ, f"{READ}\n        {FADED}"), "after the token has read"),
        (changed(gated_by_sums, f"        {FADED}\n", "", WRITTEN, f"{WRITTEN}\n        {FADED}"),
         "after the token has written"),
        (changed(gated_by_sums, f"        {FADED}\n", ""), "never fades"),
        (changed(gated_by_sums, FADED, f"{FADED}\n        v = v * kept[..., None]"), None),
        (changed(gated_by_sums, "- (S * k[:, :, t, :, None]).sum(-2)", ""), "linear attention"),
        (changed(gated_token_by_token, "S * g", "S.detach() * g"), "detached between tokens"),
        (changed(gated_token_by_token, "delta_by_einsum(q[:, :, t:t + 1], k[:, :, t:t + 1]",
                 "delta_by_einsum(k[:, :, t:t + 1], q[:, :, t:t + 1]"), "exchanged"),
        (changed(gated_unfolded, "start * G[:, :, -1, None, None].exp()", "start"), None),
        (changed(gated_unfolded, "(G[:, :, t] - G[:, :, j]).exp()", "(G[:, :, t] - G[:, :, j] + g[:, :, j]).exp()"),
         None),
    ],
    "chunked_gated_delta_rule": [
        (in_an_array, None),
        (everything_against_everything, "single chunk"),
        (recurrent_all_the_same, "grows with the tokens"),
        (changed(chunks_filled_up, "A = beta[..., None] * (k @ k.mT) * left", "A = (k @ k.mT) * left"),
         "beta is missing in the triangular system"),
        (changed(chunks_filled_up, "masked_fill(hidden, float(\"-inf\")).exp()", "exp().masked_fill(hidden, 0.0)"),
         "before the mask"),
        (changed(chunks_filled_up, "[:, :, :n].to(dtype)", ".to(dtype)"), "more tokens than q"),
        (changed(chunks_filled_up, "(beta * G.exp())[..., None] * k", "G.exp()[..., None] * k"), "the values alone"),
        (changed(chunks_filled_up, "(beta * G.exp())[..., None] * k", "beta[..., None] * k"), "had not faded"),
        (changed(chunks_filled_up, "old[:, :, c] @ S", "0"), "is not taken away"),
        (changed(chunks_filled_up, "rest = (G[:, :, c, -1:] - G[:, :, c]).exp()", "rest = G[:, :, c].exp()"),
         "exp(G_j)"),
        (changed(inverse_by_doubling, "power *= 2", "break"), "taken away only once"),
        (changed(inverse_by_doubling, "A = A @ A", "A = A"), None),
        (changed(inverse_by_doubling, "(K @ K.mT)).tril(-1)", "(K @ K.mT))"), None),
        (changed(inverse_by_doubling, TRIL, ".exp().tril()"), "before the mask"),
        (changed(inverse_by_doubling, "G = logs.cumsum(-1)", "G = logs.cumsum(-1) - logs[..., :1]"), None),
        (changed(by_a_general_solver, "-torch.inf", "-1.0"), None),
        (changed(by_a_general_solver, "(K @ K.mT)).tril(-1)", "(K @ K.mT)).tril()"), "diagonal is part of A"),
        (changed(by_a_general_solver, "logs.cumsum(2)", "logs.flip(2).cumsum(2).flip(2)"), None),
    ],
    "short_convolution": [
        (same_padding, None),
        (too_few_zeros, None),
        (changed(convolution_by_conv1d, "weight.unsqueeze(1)", "weight.flip(1).unsqueeze(1)"), "wrong way round"),
        (changed(convolution_by_conv1d, "(past, x)", "(x, past)"), "on the wrong side"),
        (changed(convolution_by_conv1d, "rows.shape[1] - width + 1:", "-width + 1:"), "-0:"),
        (changed(convolution_by_conv1d, "groups=channels).mT", "groups=channels).mT.relu()"), None),
        (changed(convolution_by_windows, "rows.narrow(1, x.shape[1], width - 1)", "before"), "old past"),
        (changed(convolution_by_windows, "torch.einsum", "torch.sigmoid(x) * torch.einsum"), None),
        (changed(convolution_token_by_token, "held = held[1:]", "held = held[:-1]"), None),
        (changed(convolution_token_by_token, "held = [*held, token]", "held = [token, *held]",
                 "held = held[1:]", "held = held[:-1]"), None),
        (changed(convolution_shifted, "-1 - back]", "back]"), "wrong way round"),
        (changed(convolution_shifted, "rows[:, -(width - 1):] if", "x[:, -(width - 1):] if"), "too short"),
        (changed(convolution_shifted, "torch.zeros_like(x)", "x.clone()"), None),
    ],
}
