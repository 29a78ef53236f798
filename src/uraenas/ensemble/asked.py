"""What is asked of predictions: how often they may be wrong, call something foreign, or miss what is true."""

from dataclasses import asdict, dataclass

from uraenas.base.errors import require_share
from uraenas.ensemble.held_out import CERTAINTY, COVERAGE, SHARE

RISK = 0.05  # of errors among what is answered


@dataclass(frozen=True)
class Asked:
    """It abstains where something is foreign, and where it is less sure than held-out examples allow for the risk."""

    risk: float = RISK  # of classes: the share of errors among the answers
    share: float = SHARE  # of examples like those of the training that may be called foreign
    certainty: float = CERTAINTY  # with which the risk is kept
    coverage: float = COVERAGE  # the share of sets, or intervals, that hold the true value

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            require_share(name, value)


USUAL = Asked()
