"""A weight rule: which update, with which cycle, momentum, temperature and prior."""

from dataclasses import dataclass

from torch import Tensor

from uraenas.errors import UraenasError, require_not_negative
from uraenas.inference import langevin
from uraenas.inference.schedule import Cycle

SAMPLERS = ("sgld", "sghmc")


@dataclass(frozen=True)
class WeightRule:
    """How the weights of a chain move from step to step, on the mean loss over `images` training images."""

    cycle: Cycle
    images: int
    prior_deviation: float
    momentum: float = 0.9
    temperature: float = 0.0
    nesterov: bool = False  # while exploring: with noise it would not be a Langevin step

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise UraenasError(
                f"momentum = {self.momentum} is out of range; it must lie in 0 … 1, 1 excluded"
            )
        require_not_negative("temperature", self.temperature)
        if not 1e-6 <= self.prior_deviation <= 1e6:
            raise UraenasError(
                f"prior_deviation = {self.prior_deviation} is out of range; it must lie in 1e-6 … 1e6"
            )

    @property
    def decay(self) -> float:
        return langevin.prior_decay(self.prior_deviation, self.images)

    def noise_deviation_at(self, step: int) -> float:
        """Standard deviation of the noise of this step; 0 while exploring."""
        if self.temperature == 0 or not self.cycle.samples_at(step):
            return 0.0
        return langevin.noise_deviation(
            self.cycle.step_size_at(step), self.temperature, self.images, self.momentum
        )

    def update(
        self,
        weights: Tensor,
        velocity: Tensor,
        gradient: Tensor,
        step_size: Tensor,
        noise: Tensor | None = None,
        exploring: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """The next weights and velocity from the gradient of the mean loss; the prior's gradient is added here."""
        gradient = gradient + self.decay * weights
        look_ahead = self.nesterov and exploring
        if look_ahead and noise is not None:
            raise UraenasError("noise was given to a step that explores with Nesterov momentum")
        return langevin.update(weights, velocity, gradient, step_size, self.momentum, noise, look_ahead)
