"""Reference answers of the chapter on the delta rule: layers that keep a state of fixed size, in PyTorch.

Shapes follow the course: q, k (batch, n_heads, n, d_k), v (batch, n_heads, n, d_v), beta and g (batch, n_heads, n), the
state (batch, n_heads, d_k, d_v). Inputs are never changed. Sizes that do not fit raise ValueError.
Sources: Schlag et al., 2021 (the delta rule); Yang et al., 2024 (in chunks); Yang et al., 2025 (with decay).
"""

import math

import torch


def delta_rule(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each token corrects by beta what the state recalls for its key, then reads the state with its query."""
    if q.ndim != 4 or q.shape != k.shape or v.shape[:-1] != k.shape[:-1]:
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit")
    if beta.shape != k.shape[:-1]:
        raise ValueError(f"beta {tuple(beta.shape)} should be {tuple(k.shape[:-1])}")
    size = (*k.shape[:2], k.shape[3], v.shape[3])
    if state is not None and state.shape != size:
        raise ValueError(f"the state is {tuple(state.shape)}, not {size}")
    wide = torch.promote_types(v.dtype, torch.float32)
    state = torch.zeros(size, dtype=wide, device=v.device) if state is None else state.to(wide)
    outputs = []
    for t in range(q.shape[2]):
        query, key, value = (x[:, :, t, None].to(wide) for x in (q, k, v))
        share = beta[:, :, t, None, None].to(wide)
        recalled = key @ state
        state = state + key.mT @ (share * (value - recalled))
        outputs.append(query @ state)
    return torch.cat(outputs, dim=2).to(v.dtype), state


def gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The delta rule on a state that is multiplied by exp(g) before each token."""
    if q.ndim != 4 or q.shape != k.shape or v.shape[:-1] != k.shape[:-1]:
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit")
    if not g.shape == beta.shape == k.shape[:-1]:
        raise ValueError(f"g {tuple(g.shape)} and beta {tuple(beta.shape)} should be {tuple(k.shape[:-1])}")
    size = (*k.shape[:2], k.shape[3], v.shape[3])
    if state is not None and state.shape != size:
        raise ValueError(f"the state is {tuple(state.shape)}, not {size}")
    wide = torch.promote_types(v.dtype, torch.float32)
    state = torch.zeros(size, dtype=wide, device=v.device) if state is None else state.to(wide)
    outputs = []
    for t in range(q.shape[2]):
        query, key, value = (x[:, :, t, None].to(wide) for x in (q, k, v))
        share, decay = beta[:, :, t, None, None].to(wide), g[:, :, t, None, None].to(wide).exp()
        state = decay * state
        recalled = key @ state
        state = state + key.mT @ (share * (value - recalled))
        outputs.append(query @ state)
    return torch.cat(outputs, dim=2).to(v.dtype), state


def chunked_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    chunk: int,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gated delta rule with a fixed number of matrix operations for each chunk of tokens.

    What the tokens of a chunk write depends on what earlier tokens of the chunk wrote: a triangular system.
    """
    if chunk < 1:
        raise ValueError(f"a chunk has at least one token, not {chunk}")
    if q.ndim != 4 or q.shape != k.shape or v.shape[:-1] != k.shape[:-1]:
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit")
    if not g.shape == beta.shape == k.shape[:-1]:
        raise ValueError(f"g {tuple(g.shape)} and beta {tuple(beta.shape)} should be {tuple(k.shape[:-1])}")
    size = (*k.shape[:2], k.shape[3], v.shape[3])
    if state is not None and state.shape != size:
        raise ValueError(f"the state is {tuple(state.shape)}, not {size}")
    wide = torch.promote_types(v.dtype, torch.float32)
    state = torch.zeros(size, dtype=wide, device=v.device) if state is None else state.to(wide)
    outputs = []
    for first in range(0, q.shape[2], chunk):
        given = (q, k, v, g[..., None], beta[..., None])
        queries, keys, values, logs, shares = (x[:, :, first : first + chunk].to(wide) for x in given)
        total = logs.cumsum(dim=2)
        later = torch.ones(total.shape[2], total.shape[2], dtype=torch.bool, device=q.device).triu(1)
        # Row i: what is left at token i of what token j wrote. Differences above 0 are hidden before they overflow.
        left = (total - total.mT).masked_fill(later, -math.inf).exp()
        faded = total.exp()
        earlier = shares * left * (keys @ keys.mT)  # only what is below the diagonal is used
        wanted = shares * (values - faded * (keys @ state))
        written = torch.linalg.solve_triangular(earlier, wanted, upper=False, unitriangular=True)
        outputs.append(faded * (queries @ state) + (left * (queries @ keys.mT)) @ written)
        state = faded[:, :, -1:] * state + (left[:, :, -1, :, None] * keys).mT @ written
    return torch.cat(outputs, dim=2).to(v.dtype), state


def short_convolution(
    x: torch.Tensor, weight: torch.Tensor, past: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A weighted sum of each token and the width - 1 tokens before it, channel by channel; the last rows come back."""
    if x.ndim != 3 or weight.ndim != 2 or x.shape[2] != weight.shape[0]:
        raise ValueError(f"x {tuple(x.shape)} and weight {tuple(weight.shape)} do not fit")
    n, width = x.shape[1], weight.shape[1]
    if past is None:
        past = x.new_zeros(x.shape[0], width - 1, x.shape[2])
    if past.shape != (x.shape[0], width - 1, x.shape[2]):
        raise ValueError(f"past is {tuple(past.shape)}, not {(x.shape[0], width - 1, x.shape[2])}")
    rows = torch.cat([past.to(x.dtype), x], dim=1)
    y = sum(rows[:, j : j + n] * weight[:, j] for j in range(width))
    return y.to(x.dtype), rows[:, n:]
