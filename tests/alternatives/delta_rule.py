"""Right answers to the chapter on the delta rule, each found in another way than the reference."""

import torch
import torch.nn.functional as F


def at_least_float32(*tensors):
    return tuple(x.to(torch.promote_types(x.dtype, torch.float32)) for x in tensors)


def empty_state(k, v):
    return torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1], dtype=torch.promote_types(v.dtype, torch.float32),
                       device=v.device)

# delta_rule

def delta_by_sums(q, k, v, beta, state=None):
    """Products of numbers and sums, as in `transformers`: no matrix product."""
    dtype = v.dtype
    q, k, v, beta = at_least_float32(q, k, v, beta)
    S = torch.zeros_like(k[:, :, 0, :, None] * v[:, :, 0, None]) if state is None else state
    rows = []
    for t in range(k.shape[2]):
        recalled = (S * k[:, :, t, :, None]).sum(-2)
        change = (v[:, :, t] - recalled) * beta[:, :, t, None]
        S = S + k[:, :, t, :, None] * change[:, :, None]
        rows.append((S * q[:, :, t, :, None]).sum(-2))
    return torch.stack(rows, dim=2).to(dtype), S


def delta_by_einsum(q, k, v, beta, state=None):
    """The state is multiplied by 1 - beta k k^T, and beta k v^T is added."""
    wide_q, wide_k, wide_v, share = at_least_float32(q, k, v, beta)
    S = empty_state(k, v) if state is None else state.clone()
    unit = torch.eye(k.shape[-1], dtype=S.dtype, device=S.device)
    out = []
    for query, key, value, b in zip(*(x.unbind(2) for x in (wide_q, wide_k, wide_v, share))):
        b = b[..., None, None]
        S = (unit - b * torch.einsum("bhi,bhj->bhij", key, key)) @ S + b * torch.einsum("bhi,bhj->bhij", key, value)
        out.append(torch.einsum("bhi,bhij->bhj", query, S))
    return torch.stack(out, 2).type_as(v), S


def delta_in_float64(q, k, v, beta, state=None):
    """Everything in float64, the state that is returned too; inside, its columns are for keys."""
    S = (empty_state(k, v) if state is None else state).double().transpose(-1, -2)
    Q, K, V = (x.double().unsqueeze(-1) for x in (q, k, v))
    b = beta.double()[..., None, None]
    parts = []
    for t in range(V.shape[2]):
        S = S + b[:, :, t] * (V[:, :, t] - S @ K[:, :, t]) @ K[:, :, t].transpose(-1, -2)
        parts.append((S @ Q[:, :, t]).squeeze(-1))
    return torch.stack(parts, dim=2).to(v.dtype), S.transpose(-1, -2)


def delta_head_by_head(q, k, v, beta, state=None):
    """Text by text and head by head, with vectors and matrices as in the formula."""
    state = empty_state(k, v) if state is None else state
    outputs, states = [], []
    for b in range(len(q)):
        for h in range(q.shape[1]):
            S, rows = state[b, h], []
            for query, key, value, share in zip(*at_least_float32(q[b, h], k[b, h], v[b, h], beta[b, h])):
                S = S + torch.outer(key, share * (value - S.T @ key))
                rows.append(S.T @ query)
            outputs.append(torch.stack(rows))
            states.append(S)
    return torch.stack(outputs).unflatten(0, q.shape[:2]).to(v.dtype), torch.stack(states).unflatten(0, q.shape[:2])

# gated_delta_rule

def gated_by_sums(q, k, v, g, beta, state=None):
    dtype = v.dtype
    q, k, v, g, beta = at_least_float32(q, k, v, g, beta)
    S = torch.zeros_like(k[:, :, 0, :, None] * v[:, :, 0, None]) if state is None else state
    kept, rows = g.exp(), []
    for t in range(k.shape[2]):
        S = S * kept[:, :, t, None, None]
        change = (v[:, :, t] - (S * k[:, :, t, :, None]).sum(-2)) * beta[:, :, t, None]
        S = S + k[:, :, t, :, None] * change[:, :, None]
        rows.append((S * q[:, :, t, :, None]).sum(-2))
    return torch.stack(rows, dim=2).to(dtype), S


def gated_token_by_token(q, k, v, g, beta, state=None):
    """A call of the delta rule for each token, on a state that has faded."""
    S = empty_state(k, v) if state is None else state
    parts = []
    for t in range(q.shape[2]):
        faded = S * g[:, :, t].to(S.dtype).exp()[..., None, None]
        out, S = delta_by_einsum(q[:, :, t:t + 1], k[:, :, t:t + 1], v[:, :, t:t + 1], beta[:, :, t:t + 1], faded)
        parts.append(out)
    return torch.cat(parts, 2), S


def gated_unfolded(q, k, v, g, beta, state=None):
    """No state inside: what each token writes is kept, and each later token adds up what is left of it."""
    Q, K, V, logs, share = at_least_float32(q, k, v, g, beta)
    start = empty_state(k, v) if state is None else state
    G = logs.cumsum(-1)
    written, rows = [], []
    for t in range(q.shape[2]):
        def reads(asking, t=t, written=written):
            total = (asking[:, :, None] @ start)[:, :, 0] * G[:, :, t, None].exp()
            for j, row in enumerate(written):
                left = (G[:, :, t] - G[:, :, j]).exp() * (asking * K[:, :, j]).sum(-1)
                total = total + left[..., None] * row
            return total
        written.append(share[:, :, t, None] * (V[:, :, t] - reads(K[:, :, t])))
        rows.append(reads(Q[:, :, t]))
    S = start * G[:, :, -1, None, None].exp()
    for j, row in enumerate(written):
        S = S + (G[:, :, -1] - G[:, :, j]).exp()[..., None, None] * K[:, :, j, :, None] * row[:, :, None]
    return torch.stack(rows, 2).to(v.dtype), S

# chunked_gated_delta_rule

def chunks_filled_up(q, k, v, g, beta, chunk, state=None):
    """All chunks at once as far as they do not depend on the state, and a last one filled up with zeros."""
    dtype, n, more = v.dtype, q.shape[2], -q.shape[2] % chunk
    q, k, v = (F.pad(x, (0, 0, 0, more)).unflatten(2, (-1, chunk)) for x in at_least_float32(q, k, v))
    g, beta = (F.pad(x, (0, more)).unflatten(2, (-1, chunk)) for x in at_least_float32(g, beta))
    S = torch.zeros_like(k[:, :, 0].mT @ v[:, :, 0]) if state is None else state
    G = g.cumsum(-1)
    hidden = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).triu(1)
    left = (G[..., :, None] - G[..., None, :]).masked_fill(hidden, float("-inf")).exp()
    A = beta[..., None] * (k @ k.mT) * left
    solve = torch.linalg.solve_triangular
    new = solve(A, beta[..., None] * v, upper=False, unitriangular=True)
    old = solve(A, (beta * G.exp())[..., None] * k, upper=False, unitriangular=True)
    reads = (q @ k.mT) * left
    out = []
    for c in range(q.shape[2]):
        W = new[:, :, c] - old[:, :, c] @ S
        out.append((q[:, :, c] * G[:, :, c, :, None].exp()) @ S + reads[:, :, c] @ W)
        rest = (G[:, :, c, -1:] - G[:, :, c]).exp()
        S = S * G[:, :, c, -1].exp()[..., None, None] + (k[:, :, c] * rest[..., None]).mT @ W
    return torch.cat(out, 2)[:, :, :n].to(dtype), S


def row_by_row_for_all_chunks(q, k, v, g, beta, chunk, state=None):
    """Forward substitution, a row at a time, but for all chunks together."""
    dtype, n, more = v.dtype, q.shape[2], -q.shape[2] % chunk
    q, k, v = (F.pad(x, (0, 0, 0, more)).unflatten(2, (-1, chunk)) for x in at_least_float32(q, k, v))
    g, beta = (F.pad(x, (0, more)).unflatten(2, (-1, chunk)) for x in at_least_float32(g, beta))
    S = torch.zeros_like(k[:, :, 0].mT @ v[:, :, 0]) if state is None else state
    G = g.cumsum(-1)
    differences = G[..., :, None] - G[..., None, :]
    left = torch.where(torch.ones_like(differences[0, 0, 0]).tril() > 0, differences, float("-inf")).exp()
    A = (beta[..., None] * (k @ k.mT) * left).tril(-1)
    rows = [torch.eye(chunk, dtype=A.dtype, device=A.device).expand_as(A)[..., :1, :]]
    for i in range(1, chunk):
        unit = F.one_hot(torch.tensor(i, device=A.device), chunk).to(A.dtype)
        rows.append(unit - A[..., i:i + 1, :i] @ torch.cat(rows, -2))
    inverse = torch.cat(rows, -2)
    out = []
    for c in range(q.shape[2]):
        faded = G[:, :, c, :, None].exp()
        W = inverse[:, :, c] @ (beta[:, :, c, :, None] * (v[:, :, c] - faded * (k[:, :, c] @ S)))
        out.append(faded * (q[:, :, c] @ S) + ((q[:, :, c] @ k[:, :, c].mT) * left[:, :, c]) @ W)
        S = S * faded[:, :, -1:] + (k[:, :, c] * left[:, :, c, -1, :, None]).mT @ W
    return torch.cat(out, 2)[:, :, :n].to(dtype), S


def inverse_by_doubling(q, k, v, g, beta, chunk, state=None):
    """(1 + A)^-1 = (1 - A)(1 + A^2)(1 + A^4)..., since a power of a strictly lower A is 0."""
    S = empty_state(k, v) if state is None else state
    out = []
    for first in range(0, q.shape[2], chunk):
        Q, K, V, logs, b = at_least_float32(*(x[:, :, first:first + chunk] for x in (q, k, v, g, beta)))
        size = Q.shape[2]
        G = logs.cumsum(-1)
        left = (G[..., None] - G[:, :, None]).clamp(max=0).exp().tril()
        A = -(b[..., None] * left * (K @ K.mT)).tril(-1)
        W = b[..., None] * (V - G.exp()[..., None] * (K @ S))
        power = 1
        while power < size:
            W = W + A @ W
            A = A @ A
            power *= 2
        out.append(G.exp()[..., None] * (Q @ S) + (left * (Q @ K.mT)) @ W)
        S = G[..., -1].exp()[..., None, None] * S + torch.einsum("bhi,bhid,bhie->bhde", left[:, :, -1], K, W)
    return torch.cat(out, dim=2).to(v.dtype), S


def by_a_general_solver(q, k, v, g, beta, chunk, state=None):
    """A general solver in place of a triangular one."""
    S = empty_state(k, v) if state is None else state
    pieces = []
    for Q, K, V, logs, b in zip(*(x.split(chunk, dim=2) for x in (q, k, v, g, beta))):
        Q, K, V, logs, b = at_least_float32(Q, K, V, logs, b)
        G = logs.cumsum(2).unsqueeze(3)
        seen = torch.tril(torch.ones_like(G @ G.mT)).bool()
        left = torch.exp(torch.where(seen, G - G.mT, -torch.inf))
        b = b.unsqueeze(3)
        system = torch.eye(b.shape[2], dtype=b.dtype, device=b.device) + (b * left * (K @ K.mT)).tril(-1)
        W = torch.linalg.solve(system, b * (V - G.exp() * (K @ S)))
        pieces.append(torch.cat([G.exp() * Q, left * (Q @ K.mT)], -1) @ torch.cat([S, W], -2))
        S = G[:, :, -1:].exp() * S + (left[:, :, -1:].mT * K).mT @ W
    return torch.cat(pieces, 2).to(v.dtype), S

# short_convolution

def convolution_by_conv1d(x, weight, past=None):
    width, channels = weight.shape[1], x.shape[2]
    if past is None:
        past = torch.zeros(len(x), width - 1, channels, dtype=x.dtype, device=x.device)
    rows = torch.cat((past, x), 1)
    y = F.conv1d(rows.mT, weight.unsqueeze(1), groups=channels).mT
    return y, rows[:, rows.shape[1] - width + 1:].clone()


def convolution_by_windows(x, weight, past=None):
    """All windows as a view, (batch, n, channels, width)."""
    width = weight.shape[-1]
    before = x.new_zeros(x.shape[0], width - 1, x.shape[-1]) if past is None else past
    rows = torch.cat([before, x], dim=-2)
    windows = rows.unfold(1, width, 1)
    return torch.einsum("bncw,cw->bnc", windows, weight), rows.narrow(1, x.shape[1], width - 1)


def convolution_token_by_token(x, weight, past=None):
    """A list of the rows that are held, of which the oldest leaves when a new one comes."""
    width = weight.shape[1]
    held = [torch.zeros_like(x[:, 0])] * (width - 1) if past is None else list(past.unbind(1))
    rows = []
    for token in x.unbind(1):
        held = [*held, token]
        rows.append(sum(w * row for w, row in zip(weight.T, held, strict=True)))
        held = held[1:]
    return torch.stack(rows, 1), torch.stack(held, 1) if held else x[:, :0]


def convolution_shifted(x, weight, past=None):
    """A shifted copy of everything for each column, from the newest to the oldest."""
    n, width = x.shape[1], weight.shape[1]
    rows = F.pad(x, (0, 0, width - 1, 0)) if past is None else torch.hstack([past, x])
    y = torch.zeros_like(x)
    for back in range(width):
        y = y + weight[:, -1 - back] * rows[:, width - 1 - back:][:, :n]
    return y, rows[:, -(width - 1):] if width > 1 else rows[:, :0]


ALTERNATIVES = {
    "delta_rule": [delta_by_sums, delta_by_einsum, delta_in_float64, delta_head_by_head],
    "gated_delta_rule": [gated_by_sums, gated_token_by_token, gated_unfolded],
    "chunked_gated_delta_rule": [chunks_filled_up, row_by_row_for_all_chunks, inverse_by_doubling, by_a_general_solver],
    "short_convolution": [
        convolution_by_conv1d,
        convolution_by_windows,
        convolution_token_by_token,
        convolution_shifted,
    ],
}
