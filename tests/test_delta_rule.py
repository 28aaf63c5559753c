"""The references of the chapter on the delta rule against `transformers` and PyTorch, and the words of their errors."""

import importlib.util
import math

import pytest
import torch
import torch.nn.functional as F

from solutions.delta_rule import chunked_gated_delta_rule, delta_rule, gated_delta_rule, short_convolution


def tokens(n, d_k=8, d_v=6, batch=2, n_heads=3, dtype=torch.float32, seed=0):
    """q, k, v, g and beta of n tokens, with keys of length 1, and a state."""
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, batch, n_heads, n, d_k, generator=draw).to(dtype)
    v = torch.randn(batch, n_heads, n, d_v, generator=draw).to(dtype)
    g, beta = torch.rand(2, batch, n_heads, n, generator=draw).to(dtype)
    return q, F.normalize(k, dim=-1), v, -g, beta, torch.randn(batch, n_heads, d_k, d_v, generator=draw).to(dtype)


@pytest.fixture(scope="module")
def qwen():
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed: make model")
    from transformers.models.qwen3_next import modeling_qwen3_next

    return modeling_qwen3_next


def of_qwen(rule, q, k, v, g, beta, state, **options):
    """Call a rule of `transformers`, whose tokens come before its heads, and which divides queries by sqrt(d_k)."""
    moved = [x.transpose(1, 2) for x in (q * math.sqrt(q.shape[-1]), k, v, g, beta)]
    state = None if state is None else state.clone()
    output, last = rule(*moved, initial_state=state, output_final_state=True, **options)
    return output.transpose(1, 2), last


@pytest.mark.parametrize("with_a_state", [False, True])
def test_the_gated_rule_agrees_with_qwen3_next_token_by_token(qwen, with_a_state):
    *given, state = tokens(37)
    state = state if with_a_state else None
    expected = of_qwen(qwen.torch_recurrent_gated_delta_rule, *given, state)
    torch.testing.assert_close(gated_delta_rule(*given, state), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 16, 37, 64])
def test_the_rule_in_chunks_agrees_with_qwen3_next_in_chunks(qwen, chunk):
    *given, state = tokens(37, seed=1)
    expected = of_qwen(qwen.torch_chunk_gated_delta_rule, *given, state, chunk_size=16)
    torch.testing.assert_close(chunked_gated_delta_rule(*given, chunk, state), expected, rtol=1e-4, atol=1e-5)


def test_the_norm_that_qwen3_next_takes_itself_is_left_to_the_caller_here(qwen):
    q, k, v, g, beta, state = tokens(9, seed=2)
    given = [x.transpose(1, 2) for x in (q, 3 * k, v, g, beta)]
    expected, _ = qwen.torch_recurrent_gated_delta_rule(*given, use_qk_l2norm_in_kernel=True)
    output, _ = gated_delta_rule(F.normalize(q, dim=-1) / math.sqrt(q.shape[-1]), k, v, g, beta)
    torch.testing.assert_close(output.transpose(1, 2), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("strength", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("chunk", [1, 5, 16, 64, 100])
def test_chunks_change_nothing_however_strong_the_decay(chunk, strength):
    q, k, v, g, beta, state = tokens(70, dtype=torch.float64, seed=3)
    one_by_one = gated_delta_rule(q, k, v, strength * g, beta, state)
    torch.testing.assert_close(chunked_gated_delta_rule(q, k, v, strength * g, beta, chunk, state), one_by_one)


def test_in_float32_chunks_are_within_a_ten_thousandth_down_to_a_sum_of_minus_200():
    q, k, v, _, beta, state = tokens(512, dtype=torch.float64, seed=4)
    g = torch.full_like(beta, -200 / 128)
    exact = gated_delta_rule(q, k, v, g, beta, state)
    rounded = chunked_gated_delta_rule(*(x.float() for x in (q, k, v, g, beta)), 128, state.float())
    for expected, got in zip(exact, rounded):
        torch.testing.assert_close(got.double(), expected, rtol=1e-4, atol=1e-4)


def test_without_decay_the_gated_rule_is_the_delta_rule():
    q, k, v, g, beta, state = tokens(12)
    torch.testing.assert_close(gated_delta_rule(q, k, v, 0 * g, beta, state), delta_rule(q, k, v, beta, state))


def test_with_keys_at_right_angles_and_beta_1_the_delta_rule_is_linear_attention():
    k = torch.eye(8).expand(1, 1, 8, 8)
    q, _, v, _, _, _ = tokens(8, batch=1, n_heads=1)
    output, state = delta_rule(q, k, v, torch.ones(1, 1, 8))
    torch.testing.assert_close(output, (q @ k.mT).tril() @ v)
    torch.testing.assert_close(state, k.mT @ v)


def test_a_key_that_comes_again_recalls_the_newest_value():
    k = torch.eye(4)[[0, 1, 0, 2]].expand(1, 1, 4, 4)
    v = torch.tensor([[2.0], [3.0], [5.0], [7.0]]).expand(1, 1, 4, 1)
    _, state = delta_rule(k, k, v, torch.ones(1, 1, 4))
    assert state.flatten().tolist() == [5.0, 3.0, 7.0, 0.0]


@pytest.mark.parametrize("n, width", [(9, 4), (2, 5), (1, 2), (6, 1)])
def test_the_convolution_agrees_with_conv1d(n, width):
    x, weight = torch.randn(2, n, 3), torch.randn(3, width)
    y, past = short_convolution(x, weight)
    padded = F.pad(x.mT, (width - 1, 0))
    torch.testing.assert_close(y, F.conv1d(padded, weight[:, None], groups=3).mT)
    assert torch.equal(past, padded.mT[:, n:]) and past.shape == (2, width - 1, 3)


def test_the_convolution_agrees_with_qwen3_next_before_its_activation(qwen):
    conv = torch.nn.Conv1d(6, 6, 4, groups=6, padding=3, bias=False)
    x = torch.randn(2, 7, 6)
    y, _ = short_convolution(x, conv.weight[:, 0])
    torch.testing.assert_close(y, conv(x.mT)[..., :7].mT)


@pytest.mark.parametrize(
    "call",
    [
        lambda q, k, v, g, beta, state: delta_rule(q[:, :, :2], k, v, beta),
        lambda q, k, v, g, beta, state: gated_delta_rule(q, k, v[:, :1], g, beta),
        lambda q, k, v, g, beta, state: chunked_gated_delta_rule(q, k, v[:, :, 1:], g, beta, 2),
    ],
)
def test_queries_keys_and_values_that_do_not_fit_are_named(call):
    with pytest.raises(ValueError, match=r"q \(2, 3, \d, 8\), k \(2, 3, 5, 8\) and v .* do not fit"):
        call(*tokens(5))


def test_a_beta_a_state_and_a_chunk_that_do_not_fit_are_named():
    q, k, v, g, beta, state = tokens(5)
    with pytest.raises(ValueError, match=r"beta \(2, 3, 4\) should be \(2, 3, 5\)"):
        delta_rule(q, k, v, beta[..., 1:])
    for rule, more in ((gated_delta_rule, ()), (chunked_gated_delta_rule, (2,))):
        with pytest.raises(ValueError, match=r"g \(2, 3, 1\) and beta \(2, 3, 5\)"):
            rule(q, k, v, g[..., :1], beta, *more)
        with pytest.raises(ValueError, match=r"the state is \(2, 3, 6, 8\), not \(2, 3, 8, 6\)"):
            rule(q, k, v, g, beta, *more, state.mT)
    with pytest.raises(ValueError, match="at least one token, not 0"):
        chunked_gated_delta_rule(q, k, v, g, beta, 0)


@pytest.mark.parametrize(
    "shapes, words",
    [
        (((2, 5, 3), (4, 2)), r"x \(2, 5, 3\) and weight \(4, 2\)"),
        (((2, 5, 3), (3, 4), (2, 4, 3)), r"past is \(2, 4, 3\), not \(2, 3, 3\)"),
    ],
)
def test_sizes_of_a_convolution_that_do_not_fit_are_named(shapes, words):
    with pytest.raises(ValueError, match=words):
        short_convolution(*map(torch.ones, shapes))
