"""The confidence below which to abstain, from held-out images."""

from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.base.errors import UraenasError
from uraenas.evaluation import metrics


@dataclass(frozen=True)
class Threshold:
    """The confidence below which to abstain, and the held-out images it rests on."""

    confidence: float
    risk: float  # the share of errors that was asked for
    images: int  # held out
    passing: int  # of these, as sure as that or surer
    wrong: int  # of the passing ones

    @property
    def rests_on_few(self) -> bool:
        """Whether so few held-out images pass that not even one error among them would be within the risk."""
        return self.risk * self.passing < 1

    def __str__(self) -> str:
        rests = f"{self.wrong:,} of {self.passing:,} wrong"
        if self.passing == 0:
            words = f"abstain always: even the surest of {self.images:,} held-out images are wrong too often"
        elif self.passing == self.images:
            words = f"abstain below {self.confidence:.3f}, the least sure held-out image ({rests})"
        else:
            words = (
                f"abstain below {self.confidence:.3f} ({rests} above it, of {self.images:,} held-out images)"
            )
        few = "; too few images to tell" if self.rests_on_few else ""
        return f"{words}; risk {100 * self.risk:g} %{few}"


def threshold_for(confidence_N: Tensor, right_N: Tensor, risk: float) -> Threshold:
    """The lowest confidence at which the held-out images that pass have at most this share of errors.

    An estimate from the held-out images, not a guarantee. Where no threshold will do, it is above 1: always abstain.
    """
    if not 0 < risk < 1:
        raise UraenasError(f"risk = {risk} is out of range; it must be more than 0 and less than 1")
    ranked = confidence_N.sort(descending=True).values
    risks = metrics.risk_at_coverage(confidence_N, right_N)
    last_of_tie = torch.cat(
        [ranked[1:] < ranked[:-1], torch.tensor([True])]
    )  # a threshold cannot part equals
    passing = torch.nonzero((risks <= risk) & last_of_tie)
    if len(passing) == 0:
        return Threshold(1.1, risk, len(ranked), 0, 0)
    last = int(passing[-1])
    wrong = round(float(risks[last]) * (last + 1))
    return Threshold(float(ranked[last]), risk, len(ranked), last + 1, wrong)
