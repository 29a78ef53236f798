"""The ensemble that members form: predict, split uncertainty, save, load."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uraenas.base.errors import DamagedFile, UraenasError, require_share
from uraenas.base.files import FORMAT, checksum_of, digest_of, write_json
from uraenas.base.svg import element
from uraenas.data.arrays import as_images
from uraenas.data.dataset import require_distinct
from uraenas.data.loader import Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.description import DESCRIPTION, DRAWS, NOBODY, Description, Owner
from uraenas.ensemble.graph import ImagesNetwork, MembersNetwork
from uraenas.ensemble.held_out import COVERAGE, SHARE
from uraenas.ensemble.known import FILE as KNOWN
from uraenas.ensemble.known import Known
from uraenas.ensemble.member import Member, member_files
from uraenas.ensemble.predictor import MembersPredictor, Predicting
from uraenas.ensemble.runtime import EarningPredictor
from uraenas.ensemble.unseen import Variants
from uraenas.evaluation import Measures, UncertaintyBySource, conformal, measures_of, numbers
from uraenas.evaluation.metrics import undefined_sources
from uraenas.evaluation.temperature import Temperature, only, stored_temperature
from uraenas.spaces import Space, facts_of
from uraenas.spaces.pictures import gallery, standalone

LEAST_TEMPERATURE = 1e-6


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members whose probabilities are averaged.

    Images are N×H×W×C or N×C×H×W arrays (N×H×W where they are grey) of bytes, or of floats from 0 to 1.
    """

    members: tuple[Member, ...]
    space: Space
    normalisation: Normalisation
    classes: tuple[str, ...]
    temperatures: Temperature = 1.0  # fitted on held-out data; 1 leaves predictions as they are
    of_bytes: bool = True  # trained on uint8 images; the others lie in 0 … 1
    known: Known | None = None  # what it keeps of the images it knows

    def __post_init__(self) -> None:
        if not self.members:
            raise UraenasError("an ensemble needs at least one member")
        require_distinct(self.classes)
        shape, units = self.space.shape, self.normalisation
        if units.target.outputs(len(self.classes)) != shape.classes:
            raise UraenasError(
                f"{len(self.classes)} classes have names, and the networks tell {shape.classes} apart"
            )
        if not len(units.mean) == len(units.deviation) == shape.channels or min(units.deviation) <= 0:
            raise UraenasError(f"the normalisation is not one of {shape.channels} channels")
        if np.size(self.temperatures) != max(1, len(units.target.parts)):
            raise UraenasError("each target has one temperature")

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """What the members' architectures compute: equal for those that differ in dead edges alone."""
        canonical = self.space.canonical
        return tuple(m.kind.function(canonical(m.architecture), m.draw) for m in self.members)

    @property
    def temperature(self) -> float:
        """That of a single target; several have `temperatures`."""
        return only(self.temperatures)

    @cached_property
    def identity(self) -> str:
        """The same for ensembles alone that predict the same, and are as sure of it."""
        return digest_of(self.temperatures, *(member.identity for member in self.members))

    def __repr__(self) -> str:
        distinct = len(set(self.functions))
        temperature = ", ".join(f"{one:.3g}" for one in np.atleast_1d(self.temperatures))
        return (
            f"Ensemble({len(self)} members, {distinct} distinct architectures, {len(self.classes)} classes, "
            f"temperature {temperature})"
        )

    def _repr_html_(self) -> str:
        """The members' cells as drawings, for notebooks."""
        members = Counter(member.architecture for member in self.members)
        cells = [(one, f"{number} of {len(self)} members", "") for one, number in members.items()]
        drawing, height = gallery(self.space, cells, top=0, width=360)
        shape = self.space.shape
        columns = self.normalisation.columns
        takes = f"takes images of {shape.height} × {shape.width} × {shape.channels}"
        takes = takes if columns is None else f"takes rows of {len(columns.names)} columns"
        return element("p", f"{self!r}, {takes}") + standalone(drawing, 360, height, "Cells of the members")

    def member_log_probabilities(self, images: Any, device: str = "auto") -> Tensor:
        """Log-probabilities [M, N, K] of every member; of a number mean and log-variance."""
        return self._said(images, device)[0]

    def _said(self, images: Any, device: str) -> tuple[Tensor, Variants | None]:
        predict = self.predictor(device)
        encoded, variants = self._read(images, predict)
        return self._joined(predict(encoded), variants), variants

    def _joined(self, said_MNK: Tensor, variants: Variants | None) -> Tensor:
        return said_MNK if variants is None else variants.joined(said_MNK, self.normalisation.target)

    def _read(self, images: Any, predict: Predicting) -> tuple[np.ndarray, Variants | None]:
        """What networks read, and what they say of rows with a category that was never seen, where there are such."""
        columns = self.normalisation.columns
        if columns is None:
            return self._in_units_of_training(images), None
        frame = columns.frame(images)
        encoded, strange_N = columns.encode(frame)
        return encoded, Variants.of(columns, frame, strange_N, predict) if strange_N.any() else None

    @property
    def variants(self) -> int:
        """How many a row with a category that was never seen has."""
        columns = self.normalisation.columns
        return 1 if columns is None else columns.variants

    def predictor(self, device: str) -> Predicting:
        """Made once for each device: members are put there and made ready by the first prediction."""
        if device not in self._predictors:
            plain = self.plain_predictor(device)
            turns = plain.engine.device.type == "cpu" and self.normalisation.columns is None
            self._predictors[device] = (
                EarningPredictor(plain, self.normalisation, self.of_bytes) if turns else plain
            )
        return self._predictors[device]

    def plain_predictor(self, device: str) -> MembersPredictor:
        """One that computes with PyTorch, whatever is asked of it."""
        engine = Engine(EngineSettings(device=device, precision=self.precision))
        return MembersPredictor(self.members, self.space, self.normalisation, engine)

    def predict_with(self, device: str, predictor: Predicting) -> None:
        """Let another make the predictions that are asked of this device. Copies do not take it along."""
        self._predictors[device] = predictor

    @cached_property
    def _predictors(self) -> dict[str, Predicting]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: all but what predictions have made ready."""
        return {name: value for name, value in self.__dict__.items() if name != "_predictors"}

    def module(self) -> ImagesNetwork:
        """The members as one PyTorch module, for images [N, C, H, W]: what they say is [M, N, K], not calibrated."""
        if self.normalisation.columns is not None:
            raise UraenasError("rows of a table have no module; ask predict or member_log_probabilities")
        members = MembersNetwork(self.members, self.space, self.normalisation, looks=False)
        return ImagesNetwork(members, self.of_bytes).eval()

    def look(self, images: Any, device: str = "auto") -> tuple[Tensor, Tensor]:
        """Log-probabilities [M, N, K], and p-values [N]: how often an image like the training images looks so."""
        return self._look(images, device)[:2]

    def look_and_split(self, images: Any, device: str = "auto") -> tuple[Tensor, Tensor, UncertaintyBySource]:
        """The same, and uncertainty by source."""
        log_p, p_values, variants = self._look(images, device)
        return log_p, p_values, self._split(log_p, variants)

    def _look(self, images: Any, device: str) -> tuple[Tensor, Tensor, Variants | None]:
        known, predict = self.require_known(), self.predictor(device)
        encoded, variants = self._read(images, predict)
        log_p, features = predict.look(encoded)
        log_p = self._joined(log_p, variants)
        return log_p, known.p_values(known.scores_of(log_p, features, self.measures)), variants

    def is_foreign(self, images: Any, share: float = SHARE, device: str = "auto") -> np.ndarray:
        """Whether each image is unlike those of the training; of images like them, at most this share is called so."""
        return (self.look(images, device)[1] <= require_share("share", share)).numpy()

    def require_known(self) -> Known:
        if self.known is None:
            raise UraenasError(
                f"this ensemble keeps nothing of its training {self.example}s, so it cannot tell foreign ones"
            )
        return self.known

    @property
    def example(self) -> str:
        """What it predicts, in a word."""
        return "image" if self.normalisation.columns is None else "row"

    def doubts(self, asked: Asked) -> list[str]:
        """What held-out examples are too few for, in words."""
        return self.require_known().doubts(asked, self.example)

    def predict_proba(self, images: Any, calibrated: bool = True, device: str = "auto") -> np.ndarray:
        """Class probabilities [N, K]: the members' mean, temperature-scaled unless told otherwise."""
        if not self.classes:
            raise UraenasError("this ensemble predicts numbers, which have no class probabilities")
        return self._prediction(images, calibrated, device).exp().numpy()

    @property
    def precision(self) -> str:
        """That it predicts with: rows of a table are small, so their predictions can afford all digits."""
        return "float32" if self.normalisation.columns is None else "float64"

    @property
    def measures(self) -> Measures:
        """What is asked of predictions of this target."""
        return measures_of(self.normalisation.target)

    def _prediction(self, images: Any, calibrated: bool, device: str) -> Tensor:
        """What the members say together, temperature-scaled unless told otherwise."""
        found = self.measures.mean(self._finite(images, device))
        return self.measures.scaled(found, self.temperatures) if calibrated else found

    def _finite(self, images: Any, device: str) -> Tensor:
        """What every member says, if it is numbers."""
        return self.require_finite(self.member_log_probabilities(images, device))

    def require_finite(self, log_p_MNK: Tensor) -> Tensor:
        """What members say, if it is numbers; an error that names an image of which it is not."""
        if not torch.isfinite(log_p_MNK).all():
            which = torch.nonzero(~torch.isfinite(log_p_MNK).all(dim=2).all(dim=0)).flatten().tolist()
            raise UraenasError(
                f"the prediction for {self.example} {which[0]} is not finite, and {len(which)} of them are not"
            )
        return log_p_MNK

    def predict(self, images: Any, device: str = "auto") -> np.ndarray:
        """The name of the most probable class of each image; of a number its mean."""
        if not self.classes:
            return self.predict_distribution(images, device)[0]
        return np.array(self.classes)[self.predict_proba(images, device=device).argmax(axis=1)]

    def predict_set(self, images: Any, coverage: float = COVERAGE, device: str = "auto") -> np.ndarray:
        """Whether each class is in the image's prediction set [N, K].

        Of images like the held-out ones, at least the share `coverage` has its true class in the set.
        """
        quantile = self.require_known().of_classes.quantile(coverage)
        probability = torch.from_numpy(self.predict_proba(images, device=device))
        return conformal.prediction_sets(probability, quantile).numpy()

    def predict_interval(self, images: Any, coverage: float = COVERAGE, device: str = "auto") -> np.ndarray:
        """An interval for the number of each row [N, 2]; of T numbers [N, T, 2].

        Of rows like the held-out ones, at least the share `coverage` has its number in the interval; it is everything
        where they are too few to promise that. Of several numbers that holds for each by itself, not for all at once.
        """
        said = self._prediction(images, False, device)
        return self.require_known().of_numbers.interval(said, coverage).numpy()

    def predict_distribution(self, images: Any, device: str = "auto") -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the number of each row [N], or of T numbers [N, T], temperature-scaled."""
        mean, variance = numbers.moments(self._prediction(images, True, device))
        return mean.numpy(), variance.sqrt().numpy()

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
        """Per image, total uncertainty and its parts due to data, weights and architecture.

        Of classes entropy in nats, of numbers variance in the square of their unit.
        """
        log_p, variants = self._said(images, device)
        return self._split(self.require_finite(log_p), variants)

    def _split(self, log_p_MNK: Tensor, variants: Variants | None) -> UncertaintyBySource:
        found = self.measures.split(log_p_MNK, self.functions)
        return found if variants is None else variants.split(found, self.measures, self.functions)

    @property
    def undefined(self) -> dict[str, str]:
        """The parts of uncertainty that are not defined for these members, and why; they are given as 0."""
        of_each = dict(zip((member.identity for member in self.members), self.functions, strict=True))
        return undefined_sources(list(of_each.values()))  # one that was taken twice agrees with itself

    def save(self, path: Path | str, half: bool = False, owner: Owner = NOBODY) -> None:
        """Write a folder: ensemble.json and one safetensors file per network, however many draws of it are members."""
        folder = Path(path)
        for path, member in zip(member_files(folder, len(self.networks)), self.networks, strict=True):
            member.save(path, self.space, half)
        self.describe(folder, owner)

    @cached_property
    def networks(self) -> tuple[Member, ...]:
        """One member of each network, in order: draws of one share their weights."""
        found: dict[str, Member] = {}
        for member in self.members:
            found.setdefault(member.network, member)
        return tuple(found.values())

    @property
    def parameters(self) -> int:
        """How many weights are kept: those of draws of one network once."""
        return sum(member.weights.numel() for member in self.networks)

    def describe(self, folder: Path, owner: Owner = NOBODY) -> None:
        """Write all that the members' files do not say. ensemble.json is written last and vouches for the others."""
        if self.known is not None:
            self.known.save(folder / KNOWN)
        write_json(
            folder / DESCRIPTION,
            {
                "format": FORMAT,
                "run": owner.run,
                "method": owner.method,
                "members": [checksum_of(path) for path in member_files(folder, len(self.networks))],
                **self._draws(),
                "space": facts_of(self.space),
                **self.normalisation.as_json(),
                "classes": self.classes,
                "temperature": self.temperatures,
                "of_bytes": self.of_bytes,
                "known": None if self.known is None else checksum_of(folder / KNOWN),
            },
        )

    def _draws(self) -> dict[str, list[list[int]]]:
        """Which file and which draw each member is, where that is not each file once."""
        if len(self.networks) == len(self) and not any(member.draw for member in self.members):
            return {}
        places = {member.network: place for place, member in enumerate(self.networks)}
        return {DRAWS: [[places[member.network], member.draw] for member in self.members]}

    @classmethod
    def load(cls, path: Path | str, owner: Owner | None = None) -> "Ensemble":
        """Read what `save` wrote. Where the owner is known, it must be the same."""
        described = Description.read(Path(path), owner)
        facts, members = described.facts, described.members()
        try:
            return cls(
                members,
                described.space,
                Normalisation.stored_in(facts),
                facts.texts("classes"),
                stored_temperature(facts, "temperature", LEAST_TEMPERATURE, 1 / LEAST_TEMPERATURE),
                facts.flag("of_bytes"),
                described.known(),
            )
        except DamagedFile:
            raise
        except UraenasError as error:
            raise facts.error(str(error)) from error
