"""Step sizes and noise of a chain or a search, as tables on the device that a captured step looks up."""

import torch
from torch import Tensor

from uraenas.weights import Cycle, WeightMethod


class Pace:
    """How large each step is, and its noise."""

    def __init__(
        self, method: WeightMethod, cycle: Cycle, images: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.method, self.cycle, self.images = method, cycle, images
        steps = range(cycle.steps)
        deviations = [self.deviation_at(k) for k in steps]
        self.noisy = any(deviations)
        self._step_sizes = torch.tensor([cycle.step_size_at(k) for k in steps], dtype=dtype).to(device)
        self._deviations = torch.tensor(deviations, dtype=dtype).to(device)

    def deviation_at(self, step: int) -> float:
        """Standard deviation of the noise of this step; 0 while exploring."""
        if not self.cycle.samples_at(step):
            return 0.0
        return self.method.noise_deviation(self.cycle.step_size_at(step), self.images)

    def step_size(self, step: Tensor) -> Tensor:
        return self._step_sizes.index_select(0, step.view(1))

    def deviation(self, step: Tensor) -> Tensor:
        return self._deviations.index_select(0, step.view(1))
