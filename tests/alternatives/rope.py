"""Correct answers to the rotary chapter, written in other ways. All must get full marks."""

import math

import torch

from course.right_answers.rope import (
    angles_of,
    check_sizes,
    rope_as_hugging_face,
    rope_by_complex_numbers,
    rope_by_matrices,
    rope_into_an_empty_tensor,
)

# rope_frequencies

def frequencies_by_powers_in_double(d_head, base=10000.0):
    """1 / base ** (2i / d) in float64, rounded at the end, as many libraries have it."""
    return (1.0 / base ** (torch.arange(0, d_head, 2, dtype=torch.int64).double() / d_head)).float()


def frequencies_by_exponential(d_head, base=10000.0):
    return torch.exp(torch.arange(0, d_head, 2).float() * (-math.log(base) / d_head))


def frequencies_on_a_log_scale(d_head, base=10000.0):
    """The base is left to logspace, the way from 0 to -1 is cut into equal parts."""
    return torch.logspace(0, -(d_head - 2) / d_head, d_head // 2, base=base)


# rope_angles

def angles_by_einsum(positions, d_head, base=10000.0):
    return torch.einsum("n,p->np", positions.float(), frequencies_by_powers_in_double(d_head, base).to(positions.device))


def angles_by_promotion(positions, d_head, base=10000.0):
    """Whole numbers times float32 are float32."""
    (n,) = positions.shape
    return positions.view(n, 1) * frequencies_by_exponential(d_head, base).to(positions.device)


def angles_in_double_rounded_once(positions, d_head, base=10000.0):
    speeds = base ** -(torch.arange(d_head // 2, device=positions.device).double() / (d_head // 2))
    return torch.outer(positions.double(), speeds).to(torch.float32)


# apply_rope

# apply_rope_interleaved

def interleaved_by_complex_numbers(x, positions, base=10000.0):
    """As the first Llama's published code: neighbors are the real and the imaginary part of one number. One position
    for three tokens passes: no size is asked for."""
    angles = angles_of(positions, x.size(-1), base)
    numbers = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(numbers * torch.polar(torch.ones_like(angles), angles)).flatten(-2).type_as(x)


def interleaved_by_sorting_twice(x, positions, base=10000.0):
    """To halves, turned there, and back."""
    d = x.shape[-1]
    order = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])
    return rope_as_hugging_face(x[..., order], positions, base)[..., order.argsort()]


def interleaved_by_matrices(x, positions, base=10000.0):
    check_sizes(x, positions)
    angles = angles_by_einsum(positions, x.shape[-1], base)
    turn = torch.stack([torch.stack([angles.cos(), -angles.sin()], -1), torch.stack([angles.sin(), angles.cos()], -1)],
                       -2)
    return (turn @ x.float().unflatten(-1, (-1, 2)).unsqueeze(-1)).squeeze(-1).flatten(-2).to(x.dtype)


def interleaved_with_a_sign(x, positions, base=10000.0):
    check_sizes(x, positions)
    angles = angles_in_double_rounded_once(positions, x.shape[-1], base).repeat_interleave(2, dim=1)
    partner = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return (x * angles.cos() + partner * angles.sin()).to(x.dtype)


# interleaved_to_half

def rows_by_index(w, n_heads):
    if w.dim() != 2 or n_heads <= 0 or len(w) % (2 * n_heads) != 0:
        raise ValueError("rows of whole pairs, please")
    d_head = len(w) // n_heads
    order = [h * d_head + 2 * i + member for h in range(n_heads) for member in (0, 1) for i in range(d_head // 2)]
    return w[order]


def rows_left_to_reshape(w, n_heads):
    """Where heads of pairs do not fit, reshape says so."""
    rows, columns = w.shape
    return w.reshape(n_heads, -1, 2, columns).permute(0, 2, 1, 3).reshape(rows, columns)


ALTERNATIVES = {
    "rope_frequencies": [frequencies_by_powers_in_double, frequencies_by_exponential, frequencies_on_a_log_scale],
    "rope_angles": [angles_by_einsum, angles_by_promotion, angles_in_double_rounded_once],
    "apply_rope": [rope_as_hugging_face, rope_by_complex_numbers, rope_by_matrices, rope_into_an_empty_tensor],
    "apply_rope_interleaved": [interleaved_by_complex_numbers, interleaved_by_sorting_twice, interleaved_by_matrices,
                               interleaved_with_a_sign],
    "interleaved_to_half": [rows_by_index, rows_left_to_reshape],
}
