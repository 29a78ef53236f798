"""What an ensemble keeps of the images it knows, and how it tells foreign ones.

An image has several scores, each larger the less it is like the training images: the members' total uncertainty, and at
each level of their networks a Mahalanobis distance to the nearest class (of the training images' features, with one
covariance for all classes, shrunk after Ledoit and Wolf; the members' mean). At the last level this is also taken
relative to the distance to all training images, as one class (Ren and others, 2021): what an image shares with all of
them says nothing of its class. `joining.py` makes one p-value of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from uraenas.base.errors import DamagedFile, UraenasError
from uraenas.base.files import read_tensors, write_tensors
from uraenas.ensemble import residuals
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.held_out import CERTAINTY, NAMES, SHARE, HeldOut, stored_held_out
from uraenas.ensemble.joining import conformal_p_values, joined_scores, mutual_p_values
from uraenas.ensemble.residuals import Residuals
from uraenas.ensemble.threshold import Threshold
from uraenas.evaluation import MEASURES, Measures
from uraenas.spaces import Features

FILE = "known.safetensors"
# Scores that have ranks. Others only tell what is beyond reach.
RANKED = ("uncertainty", "distance-1", "distance-2", "relative")
DISTANCE = "distance-"
LAST = 1  # the level whose distance is also taken relative to all images
WIDE = 512  # more features than this have variances alone: a covariance of 2,000 columns takes 16 MB a member
REACH = 0.99  # of the training images are within it, or more where many held-out images have ranks


@dataclass(frozen=True, eq=False)
class Level:
    """The training images' features at one level of one member: what distances are measured with."""

    whitening: Tensor  # [F, F]: features times this have covariance 1 within a class; [F] where they are many
    means: Tensor  # [K, F], of the classes, whitened

    @classmethod
    def fit(cls, features_NF: Tensor, labels_N: Tensor) -> "Level":
        from sklearn.covariance import ledoit_wolf  # a second to import, and only training needs it

        features = features_NF.double()
        present, places = torch.unique(labels_N, return_inverse=True)
        means = torch.stack([features[places == k].mean(dim=0) for k in range(len(present))])
        if features.shape[1] > WIDE:
            variance = (features - means[places]).square().mean(dim=0)
            scale = (variance + 1e-6 * variance.mean().clamp_min(1e-12)).rsqrt()
            return cls(scale.float(), (means * scale).float())
        covariance, _ = ledoit_wolf((features - means[places]).numpy(), assume_centered=True)
        inside = torch.from_numpy(covariance)
        ridge = 1e-6 * inside.diagonal().mean().clamp_min(1e-12) * torch.eye(len(inside), dtype=inside.dtype)
        factor = torch.linalg.cholesky(inside + ridge)
        whitening = torch.linalg.inv(factor).T
        return cls(whitening.float(), (means @ whitening).float())

    @property
    def is_sound(self) -> bool:
        """Whether numbers are numbers, and shapes fit each other."""
        width = self.whitening.shape[-1] if self.whitening.ndim else 0
        return (
            self.whitening.shape in ((width, width), (width,))
            and self.means.ndim == 2
            and len(self.means) > 0
            and self.means.shape[1] == width
            and self.whitening.dtype == self.means.dtype == torch.float32
            and bool(torch.isfinite(self.whitening).all() and torch.isfinite(self.means).all())
        )

    def white(self, features_NF: Tensor) -> Tensor:
        """Features in units of what they vary by within a class."""
        whitening = self.whitening
        return features_NF @ whitening if whitening.ndim == 2 else features_NF * whitening

    def distance(self, features_NF: Tensor) -> Tensor:
        """The squared Mahalanobis distance to the nearest class [N], per feature."""
        if features_NF.shape[1] != len(self.whitening):
            raise UraenasError(
                f"the ensemble knows images by {len(self.whitening)} features, its networks have {features_NF.shape[1]}"
            )
        white = self.white(features_NF.float())
        # By differences, else a batch of more than 25 would be rounded in another way than one image.
        apart = torch.cdist(white, self.means, compute_mode="donot_use_mm_for_euclid_dist")
        nearest = apart.amin(dim=1) ** 2 / white.shape[1]
        return nearest.double().nan_to_num(nan=math.inf)


@dataclass(frozen=True, eq=False)
class Seen:
    """What one member sees of the training images."""

    levels: tuple[Level, ...]
    whole: Level | None  # the last ranked level, all images as one class; for relative distances, if taken

    @classmethod
    def fit(cls, features: Features, labels_N: Tensor) -> "Seen":
        levels = tuple(Level.fit(level, labels_N) for level in features)
        has_last = len(features) > LAST
        return cls(levels, Level.fit(features[LAST], torch.zeros_like(labels_N)) if has_last else None)

    def distances(self, features: Features) -> dict[str, Tensor]:
        """How far new images are from the training images [N], by name."""
        by_level = zip(self.levels, features, strict=True)
        found = {_name(place): level.distance(own) for place, (level, own) in enumerate(by_level)}
        if self.whole is not None:
            found["relative"] = found[_name(LAST)] - self.whole.distance(features[LAST])
        return found

    @property
    def parts(self) -> dict[str, Level]:
        """By the name that files have for each."""
        found = {str(place): level for place, level in enumerate(self.levels)}
        return found if self.whole is None else {**found, "whole": self.whole}


@dataclass(frozen=True, eq=False)
class Known:
    """Distances to the training images, and what was found for the held-out ones. M members, n held-out images."""

    seen: tuple[Seen, ...]  # by member
    scores: Mapping[str, Tensor]  # [n] by name, of those that the choice of members has not seen
    held_out: HeldOut | Residuals  # what was said of all, and what that promises
    reach: Mapping[str, Tensor]  # the distance of nearly all training images, by name

    @property
    def images(self) -> int:
        """How many held-out images new ones are compared with."""
        return len(self.scores["uncertainty"])

    def scores_of(
        self,
        members_MNK: Tensor,
        features: Sequence[Features],
        measures: Measures = MEASURES["classes"],
    ) -> dict[str, Tensor]:
        """The scores of new images [N], by name."""
        return scores_of(self.seen, members_MNK, features, measures)

    def p_values(self, scores: Mapping[str, Tensor]) -> Tensor:
        """How often an image like those of the training would have scores like these, in float64 [N]."""
        return conformal_p_values(self.stacked(self.scores), self.stacked(scores), self.reach_S, self.ranked)

    def joined(self, scores: Mapping[str, Tensor]) -> Tensor:
        """One score of how foreign new images are [N]: what p-values are made of, but without steps and ends."""
        return joined_scores(self.stacked(self.scores), self.stacked(scores), self.reach_S, self.ranked)

    @property
    def names(self) -> list[str]:
        """Of the scores, those that have ranks first."""
        with_ranks = [name for name in RANKED if name in self.scores]
        return [*with_ranks, *sorted(set(self.scores) - set(with_ranks))]

    @property
    def ranked(self) -> int:
        """How many scores have ranks."""
        return sum(name in self.scores for name in RANKED)

    def stacked(self, scores: Mapping[str, Tensor]) -> Tensor:
        """Scores in this order [S, N]."""
        return torch.stack([scores[name].double() for name in self.names])

    @property
    def reach_S(self) -> Tensor:
        """By score; infinite for those that are no distance to a class."""
        nowhere = torch.tensor(math.inf)
        return torch.stack([self.reach.get(name, nowhere).double() for name in self.names])

    def doubts(self, asked: Asked, example: str) -> list[str]:
        """What so few held-out examples, called so, cannot tell, in words."""
        return [
            *self.held_out.doubts_of_risk(asked.risk, asked.share, asked.certainty, example),
            *self.held_out.doubts_of_coverage(asked.coverage, example),
            *self.doubts_of_foreign(asked.share, example),
        ]

    def doubts_of_foreign(self, share: float, example: str) -> list[str]:
        """In words, whether held-out examples are too few to call any foreign at this share."""
        if self.least_p <= share:
            return []
        few = f"{self.images:,} held-out {example}{'' if self.images == 1 else 's'}"
        return [f"with {few} the smallest p is {self.least_p:.2g}, so none is called foreign at {share:g}"]

    @property
    def least_p(self) -> float:
        """The smallest p-value that there can be."""
        return 1 / (self.images + 1)

    def threshold(self, risk: float, certainty: float = CERTAINTY, share: float = SHARE) -> Threshold:
        """The confidence below which to abstain, for at most this share of errors among the rest.

        Images that are called foreign, at this share of false alarms, are not among the rest.
        """
        return self.of_classes.threshold(risk, certainty, share)

    def own_p_values(self) -> Tensor:
        """Of each held-out image that has scores here, among the others [n]."""
        return mutual_p_values(self.stacked(self.scores), self.reach_S, self.ranked)

    @property
    def of_classes(self) -> HeldOut:
        """What was said of held-out images, where the target is a class."""
        if not isinstance(self.held_out, HeldOut):
            raise UraenasError("this ensemble predicts numbers; risks and sets are of classes")
        return self.held_out

    @property
    def of_numbers(self) -> Residuals:
        """What was said of held-out rows, where the target is a number."""
        if not isinstance(self.held_out, Residuals):
            raise UraenasError("this ensemble predicts classes; intervals are of numbers")
        return self.held_out

    def save(self, path: Path) -> None:
        tensors = {f"scores.{name}": score for name, score in self.scores.items()}
        tensors |= {f"reach.{name}": reach for name, reach in self.reach.items()}
        tensors |= self.held_out.tensors()
        for m, seen in enumerate(self.seen):
            for place, level in seen.parts.items():
                tensors |= {f"{m}.{place}.whitening": level.whitening, f"{m}.{place}.means": level.means}
        write_tensors(path, tensors, {"file": FILE})

    @classmethod
    def load(cls, path: Path, members: int, checksum: str) -> "Known":
        """Read what `save` wrote for so many members, if it is the file of this checksum."""
        tensors, _ = read_tensors(path, checksum)
        scores, reach = (
            {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
            for prefix in ("scores.", "reach.")
        )
        places = range(sum(name.startswith(DISTANCE) for name in scores))

        def level(m: int, place: int | str) -> Level:
            return Level(tensors[f"{m}.{place}.whitening"], tensors[f"{m}.{place}.means"])

        try:
            seen = tuple(
                Seen(
                    tuple(level(m, place) for place in places),
                    level(m, "whole") if "relative" in scores else None,
                )
                for m in range(members)
            )
            found = cls(seen, scores, stored_held_out(tensors), reach)
        except KeyError as error:
            raise DamagedFile(f"{path} lacks {error}") from error
        others = len(scores) + len(reach) + 2 * members * (len(scores) - 1)
        kept = sum(name in tensors for name in {*NAMES, *residuals.NAMES})
        if not found.is_sound or len(tensors) != others + kept:
            raise DamagedFile(f"{path} does not hold what an ensemble knows of its images")
        return found

    @property
    def is_sound(self) -> bool:
        """Whether numbers are numbers, and shapes fit each other."""
        levels = self.seen[0].levels if self.seen else ()
        names = {_name(place) for place in range(len(levels))}
        return (
            set(self.scores) - {"relative"} == {"uncertainty", *names}
            and set(self.reach) == names
            and all(
                one.dtype.is_floating_point and one.shape == () and one >= 0 for one in self.reach.values()
            )
            and self.held_out.is_sound
            and self.images > 0
            and all(_are_numbers(one, self.images) for one in self.scores.values())
            and all(level.is_sound for seen in self.seen for level in seen.parts.values())
        )


def scores_of(
    seen: Sequence[Seen],
    members_MNK: Tensor,
    features: Sequence[Features],
    measures: Measures = MEASURES["classes"],
) -> dict[str, Tensor]:
    """Scores [N] that are larger for images unlike those of the training."""
    found = {"uncertainty": measures.uncertainty(members_MNK), **distances_of(seen, features)}
    return {name: score.double().nan_to_num(nan=math.inf, posinf=math.inf) for name, score in found.items()}


def reach_of(seen: Sequence[Seen], features: Sequence[Features], held_out: int) -> dict[str, Tensor]:
    """How far training images lie, but for a few, at each level, by name.

    These few are no more than one in so many held-out images: as far as that, ranks tell more.
    """
    within = max(REACH, 1 - 1 / (held_out + 1))
    found = distances_of(seen, features)
    return {
        name: distance.quantile(within, interpolation="higher")
        for name, distance in found.items()
        if name.startswith(DISTANCE)
    }


def distances_of(seen: Sequence[Seen], features: Sequence[Features]) -> dict[str, Tensor]:
    """The members' mean distance to the training images [N], by name."""
    of_members = [one.distances(own) for one, own in zip(seen, features, strict=True)]
    return {name: torch.stack([own[name] for own in of_members]).mean(dim=0) for name in of_members[0]}


def _name(place: int) -> str:
    return f"{DISTANCE}{place + 1}"


def _are_numbers(one: Tensor, count: int) -> bool:
    return one.dtype.is_floating_point and one.shape == (count,) and not bool(one.isnan().any())
