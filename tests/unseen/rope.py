"""Wrong answers to the rotary chapter that its list of misconceptions does not hold in these words."""

import math

import torch


def own_error(kind):
    raise kind("my own words")


def speeds(d_head, base=10000.0, exponent=lambda i, d: -2 * i / d):
    if d_head < 2 or d_head % 2:
        raise ValueError("my own words")
    return base ** exponent(torch.arange(d_head // 2, dtype=torch.float32), d_head)


def angles(positions, d_head, base=10000.0):
    if positions.dim() != 1:
        raise ValueError("my own words")
    return torch.einsum("n,p->np", positions.float(), speeds(d_head, base).to(positions.device))


def by_matrices(table, interleaved):
    """Pairs turned by 2 x 2 matrices, `table(positions, d, base)` radians each; right with the right table."""
    def turn(x, positions, base=10000.0):
        if x.dim() < 2 or x.shape[-2] != positions.numel():
            raise ValueError("my own words")
        t = table(positions, x.shape[-1], base).float()
        cosine, sine = torch.cos(t), torch.sin(t)
        matrix = torch.stack([cosine, -sine, sine, cosine], dim=-1).unflatten(-1, (2, 2))
        pairs = x.float().unflatten(-1, (-1, 2)) if interleaved else x.float().unflatten(-1, (2, -1)).mT
        spun = (matrix @ pairs[..., None])[..., 0]
        return (spun if interleaved else spun.mT).flatten(-2).to(x.dtype)
    return turn


def rotated_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def written_into_slices(x, positions, base=10000.0):
    """Two assignments to slices of x; the second reads what the first has written."""
    if x.dim() < 2 or x.shape[-2] != positions.numel():
        raise ValueError("my own words")
    t, half = angles(positions, x.shape[-1], base), x.shape[-1] // 2
    out = x.clone()
    out[..., :half] = out[..., :half] * t.cos() - out[..., half:] * t.sin()
    out[..., half:] = out[..., :half] * t.sin() + out[..., half:] * t.cos()
    return out


def table_in_the_dtype_of_x(x, positions, base=10000.0):
    """Cosines of whatever comes out in the format of x."""
    if x.dim() < 2 or x.shape[-2] != positions.numel():
        raise ValueError("my own words")
    speed = speeds(x.shape[-1], base).to(x.dtype)
    t = (positions.to(x.dtype)[:, None] * speed)
    t = torch.cat([t, t], dim=-1)
    return x * t.cos() + rotated_half(x) * t.sin()


def rotated_with(exchange, table):
    """x * cos + exchange(x) * sin, with angles as wide as the head."""
    def turn(x, positions, base=10000.0):
        if x.dim() < 2 or x.shape[-2] != positions.numel():
            raise ValueError("my own words")
        t = table(angles(positions, x.shape[-1], base))
        return (x * t.cos() + exchange(x) * t.sin()).to(x.dtype)
    return turn


def neighbours_exchanged(x):
    return torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)


def into_its_own_columns(x, positions, base=10000.0):
    x[..., :] = by_matrices(angles, True)(x, positions, base)
    return x


def whole_rows(w, n_heads):
    if w.dim() != 2 or n_heads < 1 or len(w) % (2 * n_heads):
        raise ValueError("my own words")


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "rope_frequencies": [
        (lambda d_head, base=10000.0: speeds(d_head, base, lambda i, d: -2 * i / (d // 2)), "twice what it should be"),
        (lambda d_head, base=10000.0: speeds(d_head, base, lambda i, d: -i / d), "half of what it should be"),
        (lambda d_head, base=10000.0: 1 / speeds(d_head, base), "minus of the exponent"),
        (lambda d_head, base=10000.0: speeds(d_head, base, lambda i, d: -2 * i / (d - 2)) if d_head > 2
         else speeds(d_head, base), "exactly 1 / base"),
        (lambda d_head, base=10000.0: torch.cat([speeds(d_head, base)] * 2), "comes twice"),
        (lambda d_head, base=10000.0: speeds(d_head, base).double(), "come as float64"),
        (lambda d_head, base=10000.0: speeds(d_head, base).bfloat16().float(), None),
        (lambda d_head, base=10000.0: speeds(d_head, base).tolist(), None),
        (lambda d_head, base=10000.0: speeds(d_head, base).sqrt().flip(0), None),
    ],
    "rope_angles": [
        (lambda positions, d_head, base=10000.0: angles(positions + 1, d_head, base), "one too large"),
        (lambda positions, d_head, base=10000.0: angles(torch.arange(positions.shape[0]), d_head, base)
         if positions.dim() == 1 else own_error(ValueError), "positions are ignored"),
        (lambda positions, d_head, base=10000.0: angles(positions, d_head), "fixed at 10000"),
        (lambda positions, d_head, base=10000.0: angles(positions.bfloat16(), d_head, base), "half precision"),
        (lambda positions, d_head, base=10000.0: angles(positions, d_head, base).mT, "is transposed"),
        (lambda positions, d_head, base=10000.0: angles(positions, d_head, base).cos(), "cosines already"),
        (lambda positions, d_head, base=10000.0: angles(positions.clamp(min=0), d_head, base), None),
        (lambda positions, d_head, base=10000.0: angles(positions % 256, d_head, base), None),
        (lambda positions, d_head, base=10000.0: angles(positions.sort().values, d_head, base), None),
    ],
    "apply_rope": [
        (by_matrices(angles, True), "pairing is the other one"),
        (by_matrices(lambda p, d, base: -angles(p, d, base), False), "rotates the other way"),
        (by_matrices(lambda p, d, base: angles(p, d), False), "fixed at 10000"),
        (by_matrices(lambda p, d, base: angles(torch.arange(len(p)), d, base), False), "positions are ignored"),
        (by_matrices(lambda p, d, base: angles(p, d, base) * math.pi / 180, False), "radians"),
        (by_matrices(lambda p, d, base: angles(p, d, base).bfloat16(), False), "half precision"),
        (table_in_the_dtype_of_x, "half precision"),
        (written_into_slices, "overwritten already"),
        (rotated_with(lambda x: -rotated_half(x), lambda t: t.repeat(1, 2)), "rotates the other way"),
        (rotated_with(neighbours_exchanged, lambda t: t.repeat(1, 2)), "neighbors are exchanged"),
        (by_matrices(lambda p, d, base: torch.outer(torch.tensor(p.tolist()).float(), speeds(d, base)), False),
         "is on the CPU"),
        (by_matrices(lambda p, d, base: angles(p.abs(), d, base), False), None),
        (by_matrices(lambda p, d, base: angles(p.clamp(max=2047), d, base), False), None),
        (lambda x, positions, base=10000.0: x if x.shape[-2] == 1 else by_matrices(angles, False)(x, positions, base),
         None),
    ],
    "apply_rope_interleaved": [
        (lambda x, positions, base=10000.0: x if x.shape[-2] == 1 else by_matrices(angles, True)(x, positions, base),
         None),
        (by_matrices(angles, False), "pairing is the other one"),
        (by_matrices(lambda p, d, base: angles(p + 1, d, base), True), "one too large"),
        (by_matrices(lambda p, d, base: angles(p, d, base).flip(1), True), "slowest pair comes first"),
        (by_matrices(lambda p, d, base: angles(p, d, base)[:, :1].expand(-1, d // 2), True), "frequency of the first"),
        (lambda x, positions, base=10000.0: by_matrices(angles, True)(x.float(), positions, base),
         "float32 whatever x is"),
        (rotated_with(rotated_half, lambda t: t.repeat_interleave(2, 1)), "halves are exchanged"),
        (rotated_with(lambda x: x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2), lambda t: t.repeat_interleave(2, 1)),
         "There is no minus"),
        (into_its_own_columns, "written over"),
    ],
    "interleaved_to_half": [
        (lambda w, n_heads: whole_rows(w, n_heads) or w.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2).T,
         None),
        (lambda w, n_heads: whole_rows(w, n_heads) or w.flip(0), None),
        (lambda w, n_heads: whole_rows(w, n_heads) or w.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2)
         .float(), None),
    ],
}
