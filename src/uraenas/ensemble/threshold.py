"""The confidence below which to abstain, from held-out images."""

from dataclasses import dataclass

import torch
from torch import Tensor

from uraenas.base.errors import require_share
from uraenas.evaluation import metrics
from uraenas.evaluation.conformal import least_images, risk_p_values

STEPS = 100  # thresholds that are tried
ALWAYS = 1.1  # a confidence that no image has


@dataclass(frozen=True)
class Threshold:
    """The confidence below which to abstain, and the held-out images it rests on."""

    confidence: float
    risk: float  # the share of errors that was asked for
    images: int  # held out
    passing: int  # of these, as sure as that or surer
    wrong: int  # of the passing ones
    certainty: float = 0.0  # with which the risk is kept on images like these; 0: an estimate, not promised
    # Where nothing passes, a larger risk at which something would; 0: none that was tried on the way there.
    possible: float = 0.0

    def __str__(self) -> str:
        return self.in_words("image")

    def in_words(self, example: str) -> str:
        """With this word for what is held out."""
        rests = f"{self.wrong:,} of {self.passing:,} wrong"
        if self.passing == 0:
            words = (
                f"abstain always: even the surest of {self.images:,} held-out {example}s are wrong too often"
            )
            words += " to promise it" if self.certainty else ""
            if self.possible:
                less = ", though less certain if it is chosen after this look" if self.certainty else ""
                words += f"; {100 * self.possible:g} % would be possible{less}"
        elif self.confidence == 0:
            words = f"never abstain for want of confidence ({rests})"
        elif self.passing == self.images:
            words = f"abstain below {self.confidence:.3f}, the least sure held-out {example} ({rests})"
        else:
            words = f"abstain below {self.confidence:.3f} ({rests} above it, of {self.images:,} held-out {example}s)"
        if self.certainty:
            return (
                f"{words}; risk at most {100 * self.risk:g} % with a certainty of {100 * self.certainty:g} %"
            )
        return f"{words}; risk {100 * self.risk:g} % as an estimate, not promised"


def promised(
    apart: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor], risk: float, certainty: float
) -> Threshold | None:
    """A threshold at which the risk is kept with this certainty; None where so few images cannot promise it.

    Each pair is confidence [n] and right [n]. Learn-then-test with a fixed sequence (Angelopoulos and others, 2021):
    the other images say at which threshold to begin, where their own p-value is smallest. From there thresholds fall.
    At each, "the risk is larger" is tested on the images apart, and the last that is rejected is taken. The sequence
    does not depend on the images it is tested on, so a wrong threshold is taken with a probability of at most
    1 − certainty, however many are tried. Where the first is not rejected, it abstains always.
    """
    require_share("risk", risk)
    require_share("certainty", certainty)
    confidence, right = apart
    if len(right) < least_images(risk, certainty) or len(others[1]) == 0:
        return None
    tried = _falling(*others, risk)
    passing, wrong = _counts(confidence, right, tried)
    kept = int((risk_p_values(wrong, passing, risk) <= 1 - certainty).long().cumprod(dim=0).sum())
    if kept == 0:
        return Threshold(ALWAYS, risk, len(right), 0, 0, certainty)
    last = kept - 1
    return Threshold(float(tried[last]), risk, len(right), int(passing[last]), int(wrong[last]), certainty)


def estimated(confidence_N: Tensor, right_N: Tensor, risk: float) -> Threshold:
    """The lowest confidence at which the held-out images that pass have at most this share of errors.

    An estimate from the held-out images, not a guarantee. Where no threshold will do, it is above 1: always abstain.
    """
    require_share("risk", risk)
    ranked = confidence_N.sort(descending=True).values
    risks = metrics.risk_at_coverage(confidence_N, right_N)
    # A threshold cannot part equals.
    last_of_tie = torch.cat([ranked[1:] < ranked[:-1], torch.tensor([True])])
    passing = torch.nonzero((risks <= risk + 1e-12) & last_of_tie)  # sums over ties are rounded
    if len(passing) == 0:
        return Threshold(ALWAYS, risk, len(ranked), 0, 0)
    last = int(passing[-1])
    wrong = round(float(risks[last]) * (last + 1))
    return Threshold(float(ranked[last]), risk, len(ranked), last + 1, wrong)


def _falling(confidence_N: Tensor, right_N: Tensor, risk: float) -> Tensor:
    """Thresholds to be tried one after another: from where these images promise most, down to all images."""
    ranked = confidence_N.sort(descending=True).values
    places = torch.linspace(0, len(ranked) - 1, min(STEPS, len(ranked))).round().long()
    tried = torch.cat([ranked[places].unique().flip(0), ranked.new_zeros(1)])
    passing, wrong = _counts(confidence_N, right_N, tried)
    return tried[int(risk_p_values(wrong, passing, risk).argmin()) :]


def _counts(confidence_N: Tensor, right_N: Tensor, thresholds_T: Tensor) -> tuple[Tensor, Tensor]:
    """How many images pass each threshold, and how many of these are wrong [T]."""
    passing_TN = confidence_N >= thresholds_T[:, None]
    return passing_TN.sum(dim=1), (passing_TN & (right_N == 0)).sum(dim=1)
