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
