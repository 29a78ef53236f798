"""Draws by one GPU kernel each are those of tensor operations."""

import pytest
import torch

pytest.importorskip("triton")

from uraenas.base import draws, draws_on_gpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KEYS = [draws.key(seed, "test") for seed in range(3)]
SINGLE = torch.tensor(KEYS[0])
MANY = torch.tensor(KEYS)[:, None]
EACH = pytest.mark.parametrize("key", [SINGLE, MANY], ids=["one key", "three keys"])
COUNT = 2 * draws_on_gpu.BLOCK + 7  # odd, and no multiple of four


@EACH
def test_words_have_the_same_bits(key: torch.Tensor) -> None:
    assert torch.equal(draws_on_gpu.words(key.to(DEVICE), COUNT).cpu(), draws.words(key, COUNT))


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_numbers_have_the_same_bits(key: torch.Tensor, dtype: torch.dtype) -> None:
    found = draws_on_gpu.uniform(key.to(DEVICE), COUNT, dtype).cpu()
    assert found.dtype == dtype
    assert torch.equal(found, draws.uniform(key, COUNT, dtype))


@EACH
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 4e-6), (torch.float64, 1e-13)])
def test_normal_numbers_differ_by_rounding_alone(key: torch.Tensor, dtype: torch.dtype, error: float) -> None:
    found = draws_on_gpu.normal(key.to(DEVICE), COUNT, dtype).cpu()
    assert found.dtype == dtype
    torch.testing.assert_close(found, draws.normal(key, COUNT, dtype), atol=error, rtol=error)


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_coins_fall_the_same_way(chance: float) -> None:
    below = round(chance * 2**16) - 2**15
    found = draws_on_gpu.coins(SINGLE.to(DEVICE), COUNT, below).cpu()
    assert found.dtype == torch.bool
    assert torch.equal(found, draws.coins(SINGLE, COUNT, chance))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("axes", [1, 2, 4])
@pytest.mark.parametrize(("each", "scaled"), [(True, False), (True, True), (False, True)])
def test_masked_values_and_their_gradient_are_those_of_a_mask(
    layout: torch.memory_format, axes: int, each: bool, scaled: bool
) -> None:
    x, slope = (draws.normal(SINGLE + n, 5 * 6 * 7 * 9).view(5, 6, 7, 9) for n in range(2))
    x, slope = x.contiguous(memory_format=layout).requires_grad_(), slope.contiguous(memory_format=layout)
    expected = draws.masked(SINGLE, x, axes, each, 0.7, scaled)
    expected.backward(slope)
    y = x.detach().to(DEVICE).requires_grad_()
    found = draws_on_gpu.masked(
        SINGLE.to(DEVICE), y, axes, each, draws._below(0.7), 1 / 0.7 if scaled else 1.0
    )
    found.backward(slope.to(DEVICE))
    assert y.grad is not None
    assert x.grad is not None
    torch.testing.assert_close(found.cpu(), expected.detach())
    torch.testing.assert_close(y.grad.cpu(), x.grad)


@pytest.mark.parametrize("axes", [1, 2, 4])
def test_some_channels_are_masked_where_they_lie(axes: int) -> None:
    whole = draws.normal(SINGLE, 5 * 6 * 7 * 9).view(5, 7, 9, 6).permute(0, 3, 1, 2).to(DEVICE)
    some = whole[:, 2:5].requires_grad_()
    found = draws_on_gpu.masked(SINGLE.to(DEVICE), some, axes, True, draws._below(0.7), 1.0)
    found.sum().backward()
    ones = torch.ones(5, 3, 7, 9)
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found.cpu(), draws.masked(SINGLE, some.cpu(), axes, True, 0.7, False))
    torch.testing.assert_close(some.grad.cpu(), draws.masked(SINGLE, ones, axes, True, 0.7, False))


@EACH
@pytest.mark.parametrize("step", [0, 1, 77, 2**40])
def test_keys_of_steps_are_the_same(key: torch.Tensor, step: int) -> None:
    expected, here = draws.at(key, step), key.to(DEVICE)
    on_device = draws_on_gpu.at(here, torch.tensor(step, device=DEVICE), 0)
    by_host = draws_on_gpu.at(here, None, draws._mixed(step * draws.GOLDEN))
    assert torch.equal(on_device.cpu(), expected)
    assert torch.equal(by_host.cpu(), expected)


def test_nothing_is_drawn_where_nothing_is_asked_for() -> None:
    assert draws_on_gpu.words(SINGLE.to(DEVICE), 0).shape == (0,)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_draws_by_them() -> None:
    key = torch.tensor(KEYS[0], device="cuda")
    cuda = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=cuda, acc_events=True) as seen:  # without: a warning
        draws.normal(draws.at(key, 3), 100)
        torch.cuda.synchronize()
    assert sum(row.count for row in seen.key_averages() if row.self_device_time_total > 0) == 2
