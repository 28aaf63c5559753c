"""Wrong answers to the rotary chapter that its list of misconceptions does not hold in these words."""

import functools

import torch

from tests.alternatives.rope import (
    angles_by_einsum, frequencies_by_exponential, frequencies_by_powers_in_double, interleaved_by_complex_numbers,
    interleaved_by_matrices, interleaved_with_a_sign, rope_as_hugging_face, rope_by_complex_numbers,
    rope_into_an_empty_tensor, rows_by_index)
from tests.unseen.parts import changed

ANGLES = "angles_of(positions, x.size(-1), base)"
ROTATED = "torch.cat((-x2, x1), dim=-1)"
PARTNERS = "torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)"


frequencies, angles, by_signs = (
    functools.partial(changed, answer)
    for answer in (frequencies_by_exponential, angles_by_einsum, interleaved_with_a_sign))
rope, interleaved = (
    functools.partial(changed, answer, ANGLES) for answer in (rope_by_complex_numbers, interleaved_by_complex_numbers))



def rows_into_zeros(w, n_heads):
    """Into a tensor of the default dtype."""
    out = torch.zeros(w.shape, device=w.device)
    out[:] = rows_by_index(w, n_heads)
    return out


def in_place_on_positions(positions, d_head, base=10000.0):
    return positions.unsqueeze_(1) * frequencies_by_exponential(d_head, base).to(positions.device)


def sorted_twice_alike(x, positions, base=10000.0):
    d = x.shape[-1]
    order = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])
    return rope_as_hugging_face(x[..., order], positions, base)[..., order]


def brought_together_twice(x, positions, base=10000.0):
    order = torch.arange(x.shape[-1]).unflatten(0, (2, -1)).T.flatten()
    return interleaved_by_complex_numbers(x[..., order], positions, base)[..., order]


# exercise: [(answer, words of the misconception that it has to be given, or None for no name)]
UNSEEN = {
    "rope_frequencies": [
        (frequencies("/ d_head)", "/ (d_head // 2))"), "twice what it should be"),
        (frequencies("/ d_head)", "/ (2 * d_head))"), "half of what it should be"),
        (frequencies("-math.log", "math.log"), "minus of the exponent"),
        (frequencies("/ d_head)", "/ max(d_head - 2, 1))"), "exactly 1 / base"),
        (frequencies("return ", "return torch.cat([torch.ones(0)] + 2 * [", "/ d_head))", "/ d_head))])"),
         "comes twice"),
        (changed(frequencies_by_powers_in_double, ".float()", ""), "come as float64"),
        (lambda d_head, base=10000.0: frequencies_by_exponential(d_head, base).sqrt().flip(0), None),
        (lambda d_head, base=10000.0: 1.0 / base ** (2 * torch.arange(d_head // 2) // d_head), "frequency 1"),
        (lambda d_head, base=10000.0: base ** (-2.0 * torch.arange(d_head // 2) // d_head), "rounds the exponent down"),
        (functools.lru_cache(lambda d_head, base=10000.0: frequencies_by_exponential(d_head, base)), None),
    ],
    "rope_angles": [
        (angles("positions.float()", "positions.float() + 1"), "one too large"),
        (angles("positions.float()", "torch.arange(len(positions)).float()"), "positions are ignored"),
        (angles("d_head, base)", "d_head)"), "fixed at 10000"),
        (angles("positions.float()", "positions.bfloat16().float()"), "half precision"),
        (angles('"n,p->np"', '"n,p->pn"'), "is transposed"),
        (angles("positions.device))", "positions.device)).cos()"), "cosines already"),
        (angles("positions.device))", "positions.device)).sin()"), None),
        (angles("positions.float()", "positions.sort().values.float()"), None),
        (angles("positions.float()", "positions.half().float()"), "half precision"),
        (in_place_on_positions, None),
    ],
    "apply_rope": [
        (interleaved_by_matrices, "pairing is the other one"),
        (rope(f"-{ANGLES}"), "rotates the other way"),
        (rope(ANGLES.replace(", base", "")), "fixed at 10000"),
        (rope(ANGLES.replace("positions", "torch.arange(len(positions))")), "positions are ignored"),
        (rope(f"{ANGLES} * math.pi / 180"), "radians"),
        (rope(f"{ANGLES}.bfloat16().float()"), "half precision"),
        (changed(rope_as_hugging_face, "angles_of(positions, x.shape[-1], base)", "positions.to(x.dtype)[:, None] "
                 "* (base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])).to(x.dtype)"), "half precision"),
        (changed(rope_into_an_empty_tensor, "= x[..., :half] * angles.sin()", "= out[..., :half] * angles.sin()"),
         "overwritten already"),
        (changed(rope_as_hugging_face, ROTATED, "torch.cat((x2, -x1), dim=-1)"), "rotates the other way"),
        (changed(rope_as_hugging_face, ROTATED, PARTNERS), "neighbors are exchanged"),
        (rope(ANGLES.replace("positions", "torch.tensor(positions.tolist())")), "is on the CPU"),
        (lambda x, positions, base=10000.0: x if x.shape[-2] == 1 else rope_by_complex_numbers(x, positions, base),
         None),
        (rope(ANGLES.replace("positions", "positions.abs()")), None),
        (brought_together_twice, "second time for the way back"),
        (rope(ANGLES.replace("positions", "positions.clamp(max=2047)")), None),
    ],
    "apply_rope_interleaved": [
        (rope_by_complex_numbers, "pairing is the other one"),
        (interleaved(ANGLES.replace("positions", "positions + 1")), "one too large"),
        (interleaved(f"{ANGLES}.flip(1)"), "slowest pair comes first"),
        (interleaved(f"{ANGLES}[:, :1].expand(-1, x.size(-1) // 2)"), "frequency of the first"),
        (changed(interleaved_by_complex_numbers, ".type_as(x)", ""), "float32 whatever x is"),
        (by_signs(PARTNERS, "torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1)"), "halves are exchanged"),
        (by_signs("-x[..., 1::2]", "x[..., 1::2]"), "There is no minus"),
        (sorted_twice_alike, "second time for the way back"),
        (torch.no_grad()(interleaved_by_matrices), "`torch.no_grad()`"),
        (by_signs("return (", "x[...] = (", ".to(x.dtype)", ".to(x.dtype)\n    return x"), "written over"),
        (lambda x, positions, base=10000.0: x if x.shape[-2] == 1 else interleaved_by_matrices(x, positions, base),
         None),
    ],
    "interleaved_to_half": [
        (lambda w, n_heads: rows_by_index(w, n_heads).T, None),
        (lambda w, n_heads: rows_by_index(w, n_heads).float(), "float32 whatever w is"),
        (rows_into_zeros, "float32 whatever w is"),
        (lambda w, n_heads: w.reshape(n_heads, -1, 2, w.shape[1]).reshape(w.shape).clone(), "as it was"),
    ],
}
