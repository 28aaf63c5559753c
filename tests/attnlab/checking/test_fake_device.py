"""A tensor on the other device has its numbers, and meets no tensor of the CPU."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.checking.fake_device import FakeDevice, to_cpu, to_fake_device

X = torch.arange(12.0).reshape(3, 4)
NEAR = torch.ones(3, 4)


@pytest.fixture
def there():
    with FakeDevice():
        yield to_fake_device(X.clone())


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x.softmax(-1) + torch.arange(4, device=x.device),
        lambda x: x @ x.T * torch.tensor(2.0),
        lambda x: x[x > 3].sum() if (x > 3).any() else None,
        lambda x: x[[2, 0]] + x.new_tensor([1.0, 2.0, 3.0, 4.0]),
        lambda x: x[torch.tensor([2, 0])],
        lambda x: torch.tensor(x[0].tolist(), device=x.device) + x,
        lambda x: torch.full((3, 3), -torch.inf, device=x.device).triu(1).softmax(-1) @ x,
        lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], is_causal=True),
        lambda x: torch.cat([x, torch.zeros_like(x), x.new_zeros(1, 4)]).to(torch.float64),
        lambda x: NEAR.to(x.device) * x + NEAR.to(x),
        lambda x: (x.cpu() + NEAR).to(x.device),
        lambda x: copy.deepcopy(x).add_(1.0).mul_(x),
    ],
)
def test_numbers_are_those_of_the_cpu(there, run):
    result = run(there)
    assert result.device.type == "meta"
    torch.testing.assert_close(to_cpu(result), run(X.clone()))


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x + NEAR,
        lambda x: x @ NEAR.T,
        lambda x: x[None] @ NEAR.T[None],
        lambda x: x.masked_fill(NEAR > 0, 0.0),
        lambda x: torch.where(torch.ones(3, 4) > 0, x, 0.0),
        lambda x: torch.cat([x, NEAR]),
        lambda x: F.embedding(torch.arange(2), x),
        lambda x: x.gather(0, torch.zeros(1, 4, dtype=torch.int64)),
        lambda x: NEAR[x > 3],
    ],
)
def test_two_devices_do_not_meet(there, run):
    with pytest.raises(Exception, match="same device"):
        run(there)


@pytest.mark.parametrize("run", [lambda x: x.numpy(), lambda x: x.detach().numpy()])
def test_numpy_has_to_be_fed_from_the_cpu(there, run):
    with pytest.raises((RuntimeError, TypeError)):
        run(there)


def test_what_is_written_there_is_written_here():
    x = X.clone()
    with FakeDevice():
        to_fake_device(x).mul_(2.0)
    assert torch.equal(x, 2 * X)


def test_a_module_goes_there_with_shared_parameters_and_buffers():
    module = nn.Linear(4, 4, bias=False)
    module.twin, module.places = nn.Linear(4, 4, bias=False), None
    module.twin.weight = module.weight
    module.register_buffer("ones", torch.ones(4))
    weight = module.weight.detach().clone()
    with FakeDevice():
        gone = to_fake_device(module)
        result = to_cpu(gone.twin(to_fake_device(X)) * gone.ones)
    assert gone.twin.weight is gone.weight
    torch.testing.assert_close(result, X @ weight.T)
