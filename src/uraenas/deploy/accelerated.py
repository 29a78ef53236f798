"""An ensemble whose predictions on a CPU are made by ONNX Runtime: one graph of all members, without a file.

PyTorch spends as much on calling the operations of one image as on computing them; of many images it is as fast, and
keeps them. Making the graph takes seconds, so this is for processes that predict often, as a server does.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from uraenas.base.errors import UraenasError
from uraenas.deploy import onnx_file
from uraenas.deploy.exported import Exported
from uraenas.deploy.network import EnsembleNetwork, Output
from uraenas.deploy.writing import PARITY
from uraenas.ensemble import Ensemble
from uraenas.spaces import Features

CHECKED = 3  # images on which both must say the same
FEW = 8  # images up to which ONNX Runtime is asked: 2.6 times as fast for one, and no faster for 32
DEVICES = ("auto", "cpu")


def accelerated(ensemble: Ensemble, threads: int = 0) -> Ensemble:
    """The same ensemble, whose predictions ONNX Runtime makes; as it is where there is a GPU.

    All that is made of predictions is as before, to within the last digits of float32: sets, votes, uncertainties,
    p-values. Members that are no plain networks, but masked ones, cannot be accelerated.
    """
    if torch.cuda.is_available():
        return ensemble
    onnx_file.require_onnx()
    found = replace(ensemble)
    runtime = RuntimePredictor(ensemble, threads)
    for device in DEVICES:
        found.predict_with(device, runtime)
    return found


class RuntimePredictor:
    """What `MembersPredictor` says, said by ONNX Runtime of a few images. Many, and floats for bytes, go to PyTorch."""

    def __init__(self, ensemble: Ensemble, threads: int = 0) -> None:
        network = _Members(ensemble).eval()
        shape = ensemble.space.shape
        self.image = (shape.height, shape.width, shape.channels)
        model = onnx_file.model_of(network, self.image, ensemble.of_bytes)
        self.exported = Exported(model.SerializeToString(), threads)
        self.places, self.levels = network.places, network.levels
        self.values = np.dtype(np.uint8 if ensemble.of_bytes else np.float32)
        self.plain = ensemble.predictor("cpu")
        self._check()

    def __call__(self, images: np.ndarray) -> Tensor:
        """Log-probabilities [M, N, K]."""
        return self._log_p(self.exported(images)) if self._takes(images) else self.plain(images)

    def look(self, images: np.ndarray) -> tuple[Tensor, list[Features]]:
        """The same, and what each member sees of the images."""
        if not self._takes(images):
            return self.plain.look(images)
        found = self.exported(images)
        seen: list[Features] = [
            tuple(torch.from_numpy(found[_name(network, level)]) for level in range(self.levels))
            for network in range(1 + max(self.places))
        ]
        return self._log_p(found), [seen[network] for network in self.places]

    def _takes(self, images: np.ndarray) -> bool:
        return images.dtype == self.values and len(images) <= FEW

    def _log_p(self, found: dict[str, np.ndarray]) -> Tensor:
        return torch.from_numpy(found["log_probabilities"]).movedim(1, 0)

    def _check(self) -> None:
        """Refuse to speak differently from PyTorch."""
        random = np.random.default_rng(0)
        images = random.integers(0, 256, (CHECKED, *self.image)) / (1 if self.values == np.uint8 else 255)
        images = images.astype(self.values)
        apart = float((self(images).exp() - self.plain(images).exp()).abs().max())
        if not apart <= PARITY:
            raise UraenasError(
                f"ONNX Runtime does not say what PyTorch says: probabilities differ by {apart:.2g}"
            )


class _Members(nn.Module):
    """All members' log-probabilities [N, M, K], and what their networks see."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        self.network = EnsembleNetwork(ensemble)
        self.places = [place for place, _ in self.network.places]
        shape = ensemble.space.shape
        with torch.no_grad():
            one = torch.zeros(1, shape.height, shape.width, shape.channels)
            self.levels = len(self.network.look(one)[1][0])

    @property
    def outputs(self) -> list[Output]:
        found = [Output("log_probabilities", "of each member, by class")]
        networks = range(len(self.network.members))
        return found + [
            Output(_name(network, level), "what a network sees")
            for network in networks
            for level in range(self.levels)
        ]

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        log_p, features = self.network.look(images)
        return torch.stack(log_p, dim=1), *(level for seen in features for level in seen)


def _name(network: int, level: int) -> str:
    return f"features_{network}_{level}"
