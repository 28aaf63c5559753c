"""Right answers of the chapter rope, for its hunt. RIGHT says by what each differs from the reference."""

import torch


def angles_of(positions, d_head, base):
    speeds = base ** -(torch.arange(d_head // 2, device=positions.device).double() / (d_head // 2))
    return torch.outer(positions.double(), speeds).to(torch.float32)


def check_sizes(x, positions):
    if x.dim() < 2 or positions.numel() != x.size(-2):
        raise ValueError("one position for each token, please")


def rope_as_hugging_face(x, positions, base=10000.0):
    """Cosines as wide as the head, rounded to the dtype of x before they meet it; halves exchanged, one negated."""
    check_sizes(x, positions)
    angles = angles_of(positions, x.shape[-1], base)
    emb = torch.cat((angles, angles), dim=-1)
    cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * cos + torch.cat((-x2, x1), dim=-1) * sin


def rope_by_complex_numbers(x, positions, base=10000.0):
    check_sizes(x, positions)
    angles = angles_of(positions, x.size(-1), base)
    a, b = x.double().chunk(2, dim=-1)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


def rope_by_matrices(x, positions, base=10000.0):
    """One matrix for each position; slow and plain. No size is asked for."""
    d = x.shape[-1]
    angles = angles_of(positions, d, base)
    pair = torch.arange(d // 2)
    turn = torch.zeros(len(positions), d, d, device=x.device)
    turn[:, pair, pair] = angles.cos()
    turn[:, pair + d // 2, pair + d // 2] = angles.cos()
    turn[:, pair, pair + d // 2] = -angles.sin()
    turn[:, pair + d // 2, pair] = angles.sin()
    return torch.einsum("nij,...nj->...ni", turn, x.float()).to(x.dtype)


def rope_into_an_empty_tensor(x, positions, base=10000.0):
    check_sizes(x, positions)
    half = x.shape[-1] // 2
    angles = angles_of(positions, x.shape[-1], base)
    out = torch.empty_like(x)
    out[..., :half] = x[..., :half] * angles.cos() - x[..., half:] * angles.sin()
    out[..., half:] = x[..., :half] * angles.sin() + x[..., half:] * angles.cos()
    return out


def rope_token_by_token(x, positions, base=10000.0):
    """A loop over the tokens, in float64."""
    half = x.shape[-1] // 2
    out = x.double().clone()
    for i, position in enumerate(positions.tolist()):
        angles = position * base ** (-torch.arange(half, dtype=torch.float64) / half)
        first, second = x[..., i, :half].double(), x[..., i, half:].double()
        out[..., i, :half] = first * angles.cos() - second * angles.sin()
        out[..., i, half:] = second * angles.cos() + first * angles.sin()
    return out.to(x.dtype)


RIGHT = {
    "rounds cosines and sines to the dtype of x": rope_as_hugging_face,
    "multiplies complex numbers": rope_by_complex_numbers,
    "multiplies by one matrix for each position": rope_by_matrices,
    "fills an empty tensor": rope_into_an_empty_tensor,
    "computes its angles in float64, in a loop over the tokens": rope_token_by_token,
}
