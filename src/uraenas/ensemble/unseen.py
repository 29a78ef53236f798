"""Rows with a category that was never seen in training: it may be any that was.

Such a row is predicted in variants, the category taken for another in each, and what is said of it is their mixture. So
it is at least as unsure as its variants are on average. What variants differ by is want of knowledge and no noise in
the data, so it counts with the weights.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from uraenas.data.tables import Columns, Frame
from uraenas.data.targets import Target
from uraenas.ensemble.predictor import Predicting
from uraenas.evaluation import Measures, UncertaintyBySource


@dataclass(frozen=True, eq=False)
class Variants:
    """What members say of the variants of those rows of a batch that have some."""

    rows_N: Tensor  # which they are
    said_VMSK: Tensor

    @classmethod
    def of(cls, columns: Columns, frame: Frame, strange_N: np.ndarray, predict: Predicting) -> "Variants":
        rows = {name: values[strange_N] for name, values in frame.items()}
        images = np.concatenate([columns.encode(rows, variant)[0] for variant in range(columns.variants)])
        said_MRK = predict(images)
        said_VMSK = said_MRK.unflatten(1, (columns.variants, -1)).movedim(1, 0)
        return cls(torch.from_numpy(strange_N), said_VMSK)

    def joined(self, said_MNK: Tensor, target: Target) -> Tensor:
        """What is said of all rows, where these have one prediction each."""
        found = said_MNK.clone()
        found[:, self.rows_N] = target.joined(self.said_VMSK)
        return found

    def split(
        self, found: UncertaintyBySource, measures: Measures, architectures: Sequence[Hashable]
    ) -> UncertaintyBySource:
        """The split of all rows, where data is what these have on average over their variants."""
        own = torch.stack([measures.split(one, architectures).data for one in self.said_VMSK]).mean(dim=0)
        data, weights = found.data.clone(), found.weights.clone()
        data[self.rows_N] = own
        weights[self.rows_N] += (found.data[self.rows_N] - own).clamp_min(0)
        return replace(found, data=data, weights=weights)
