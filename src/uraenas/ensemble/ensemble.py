"""The ensemble that members form: predict, split uncertainty, save, load."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.base.files import FORMAT, checksum_of, digest_of, read_json, require_format, write_json
from uraenas.base.svg import element
from uraenas.data.arrays import as_images
from uraenas.data.loader import Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble.known import FILE as KNOWN
from uraenas.ensemble.known import Known
from uraenas.ensemble.member import Member, member_files
from uraenas.ensemble.predictor import MembersPredictor
from uraenas.evaluation import UncertaintyBySource, calibration, uncertainty_by_source
from uraenas.evaluation.metrics import mixture
from uraenas.spaces import Space, facts_of, space_of
from uraenas.spaces.pictures import gallery, standalone

SHARE = 0.05  # of images like those of the training that may be called foreign


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members whose probabilities are averaged.

    Images are N×H×W×C or N×C×H×W arrays (N×H×W where they are grey) of bytes, or of floats from 0 to 1.
    """

    members: tuple[Member, ...]
    space: Space
    normalisation: Normalisation
    classes: tuple[str, ...]
    temperature: float = 1.0  # fitted on held-out data; 1 leaves predictions as they are
    of_bytes: bool = True  # trained on uint8 images; the others lie in 0 … 1
    known: Known | None = None  # what it keeps of the images it knows

    def __post_init__(self) -> None:
        if not self.members:
            raise UraenasError("an ensemble needs at least one member")

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """What the members' architectures compute: equal for those that differ in dead edges alone."""
        return tuple(self.space.canonical(member.architecture) for member in self.members)

    @cached_property
    def identity(self) -> str:
        """The same for ensembles alone that predict the same, and are as sure of it."""
        return digest_of(self.temperature, *(member.identity for member in self.members))

    def __repr__(self) -> str:
        distinct = len(set(self.functions))
        return (
            f"Ensemble({len(self)} members, {distinct} distinct architectures, {len(self.classes)} classes, "
            f"temperature {self.temperature:.3g})"
        )

    def _repr_html_(self) -> str:
        """The members' cells as drawings, for notebooks."""
        members = Counter(member.architecture for member in self.members)
        cells = [(one, f"{number} of {len(self)} members", "") for one, number in members.items()]
        drawing, height = gallery(self.space, cells, top=0, width=360)
        shape = self.space.shape
        takes = f"takes images of {shape.height} × {shape.width} × {shape.channels}"
        return element("p", f"{self!r}, {takes}") + standalone(drawing, 360, height, "Cells of the members")

    def member_log_probabilities(self, images: Any, device: str = "auto") -> Tensor:
        """Log-probabilities [M, N, K] of every member."""
        return self._predictor(device)(self._in_units_of_training(images))

    def _predictor(self, device: str) -> MembersPredictor:
        engine = Engine(EngineSettings(device=device, precision="float32"))
        return MembersPredictor(self.members, self.space, self.normalisation, engine)

    def look(self, images: Any, device: str = "auto") -> tuple[Tensor, Tensor]:
        """Log-probabilities [M, N, K], and p-values [N]: how often an image like the training images looks so."""
        known = self.require_known()
        log_p, features = self._predictor(device).look(self._in_units_of_training(images))
        return log_p, known.p_values(known.scores_of(log_p, features))

    def is_foreign(self, images: Any, share: float = SHARE, device: str = "auto") -> np.ndarray:
        """Whether each image is unlike those of the training; of images like them, at most this share is called so."""
        return (self.look(images, device)[1] <= checked_share(share)).numpy()

    def require_known(self) -> Known:
        if self.known is None:
            raise UraenasError(
                "this ensemble keeps nothing of its training images, so it cannot tell foreign ones"
            )
        return self.known

    def predict_proba(self, images: Any, calibrated: bool = True, device: str = "auto") -> np.ndarray:
        """Class probabilities [N, K]: the members' mean, temperature-scaled unless told otherwise."""
        log_p = mixture(self.member_log_probabilities(images, device))
        return (calibration.scale(log_p, self.temperature) if calibrated else log_p).exp().numpy()

    def predict(self, images: Any, device: str = "auto") -> np.ndarray:
        """The name of the most probable class of each image."""
        return np.array(self.classes)[self.predict_proba(images, device=device).argmax(axis=1)]

    def _in_units_of_training(self, images: Any) -> np.ndarray:
        """Images [N, H, W, C] with values as in training, whether they came as bytes or as floats from 0 to 1."""
        shape = self.space.shape
        expected = (shape.height, shape.width, shape.channels)
        try:
            array = np.asarray(images)
        except ValueError as error:
            raise UraenasError(
                "images of different sizes are not allowed; resize them to one size"
            ) from error
        by_shape = {expected: "last", (expected[2], *expected[:2]): "first"}
        found = as_images(array, channels=by_shape.get(array.shape[1:], "auto"))
        if found.shape[1:] != expected:
            form = "×".join(map(str, expected))
            raise UraenasError(f"this ensemble takes images of {form} (H×W×C), not an array of {array.shape}")
        if self.of_bytes == (found.dtype == np.uint8):
            return found
        return found.astype(np.float32) * np.float32(255 if self.of_bytes else 1 / 255)

    def uncertainty(self, images: Any, device: str = "auto") -> UncertaintyBySource:
        """Per image, in nats: total entropy and its parts due to data, weights and architecture."""
        log_p = self.member_log_probabilities(images, device)
        return uncertainty_by_source(log_p, self.functions)

    def save(self, path: Path | str, half: bool = False) -> None:
        """Write a folder: ensemble.json and one safetensors file per member."""
        folder = Path(path)
        for path, member in zip(member_files(folder, len(self)), self.members, strict=True):
            member.save(path, self.space, half)
        self.describe(folder)

    def describe(self, folder: Path) -> None:
        """Write all that the members' files do not say. ensemble.json is written last and vouches for the others."""
        if self.known is not None:
            self.known.save(folder / KNOWN)
        write_json(
            folder / "ensemble.json",
            {
                "format": FORMAT,
                "members": [checksum_of(path) for path in member_files(folder, len(self))],
                "space": facts_of(self.space),
                "mean": self.normalisation.mean,
                "deviation": self.normalisation.deviation,
                "classes": self.classes,
                "temperature": self.temperature,
                "of_bytes": self.of_bytes,
                "known": None if self.known is None else checksum_of(folder / KNOWN),
            },
        )

    @classmethod
    def load(cls, path: Path | str) -> "Ensemble":
        """Read what `save` wrote."""
        folder = Path(path)
        facts = read_json(folder / "ensemble.json")
        require_format(folder, facts)
        try:
            normalisation = Normalisation(tuple(facts["mean"]), tuple(facts["deviation"]))
            files = member_files(folder, len(facts["members"]))
            members = tuple(Member.load(path) for path in files)
            for path, checksum in zip(files, facts["members"], strict=True):
                if checksum_of(path) != checksum:
                    raise ValueError(f"{path.name} is not the member it was made with")
            space = space_of(facts["space"])
            if any(len(m.weights) != space.weight_layout(m.architecture).size for m in members):
                raise ValueError("its space is not that of its members")
            known = _known(folder, facts["known"], len(members))
            temperature = float(facts["temperature"])
            if not 0 < temperature < float("inf"):
                raise ValueError(f"temperature = {temperature}")
            return cls(
                members,
                space,
                normalisation,
                tuple(facts["classes"]),
                temperature,
                bool(facts["of_bytes"]),
                known,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UraenasError(
                f"{folder / 'ensemble.json'} does not describe an ensemble: {error}"
            ) from error


def _known(folder: Path, checksum: str | None, members: int) -> Known | None:
    if checksum is None:
        return None
    path = folder / KNOWN
    found = Known.load(path, members)
    if checksum_of(path) != checksum:
        raise ValueError(f"{path.name} is not the one it was made with")
    return found


def checked_share(share: float) -> float:
    """The share of images like those of the training that may be called foreign."""
    if not 0 < share < 1:
        raise UraenasError(f"share = {share} is out of range; it must be more than 0 and less than 1")
    return share
