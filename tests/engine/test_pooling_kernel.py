"""The pool by one GPU kernel is PyTorch's, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from uraenas.spaces.cells import pool_on_gpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("size", [(2, 3, 5, 4), (1, 16, 8, 8), (2, 2, 1, 3), (1, 1, 1, 1), (3, 7, 2, 2)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_means_and_their_gradient_are_those_of_pytorch(
    size: tuple[int, ...], layout: torch.memory_format
) -> None:
    torch.manual_seed(0)
    x, slope = (torch.randn(size, dtype=torch.float64).contiguous(memory_format=layout) for _ in range(2))
    found, expected = x.to(DEVICE, copy=True).requires_grad_(), x.requires_grad_()
    y = pool_on_gpu.pool(found)
    z = F.avg_pool2d(expected, 3, stride=1, padding=1, count_include_pad=False)
    torch.testing.assert_close(y.cpu(), z, atol=1e-12, rtol=1e-12)
    y.backward(slope.to(DEVICE))
    z.backward(slope)
    assert found.grad is not None
    torch.testing.assert_close(found.grad.cpu(), expected.grad, atol=1e-12, rtol=1e-12)


def test_sums_of_bfloat16_are_taken_in_float32() -> None:
    x = torch.full((1, 2, 6, 6), 1.0078125, dtype=torch.bfloat16, device=DEVICE)
    assert torch.equal(pool_on_gpu.pool(x), x)
