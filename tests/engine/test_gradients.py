"""The loss of class probabilities."""

import torch
import torch.nn.functional as F

from uraenas.base import draws
from uraenas.engine.gradients import cross_entropy

LOGITS = draws.normal(draws.at(1, 0), 2 * 5 * 3, torch.float64).view(2, 5, 3)
LABELS = draws.integers(draws.at(1, 1), 2 * 5, 3).view(2, 5)
WEIGHTS = draws.uniform(draws.at(1, 2), 2 * 5, torch.float64).view(2, 5)


def test_certain_labels_have_the_loss_of_labels() -> None:
    certain = F.one_hot(LABELS, 3).double()
    for weights in (None, WEIGHTS):
        expected = cross_entropy(LOGITS, LABELS, weights)
        torch.testing.assert_close(cross_entropy(LOGITS, certain, weights), expected)


def test_the_loss_of_a_mixture_is_the_mixture_of_losses() -> None:
    other = (LABELS + 1) % 3
    one, two = (F.one_hot(labels, 3).double() for labels in (LABELS, other))
    share = WEIGHTS[..., None]
    own = cross_entropy(LOGITS, LABELS, WEIGHTS) + cross_entropy(LOGITS, other, 1 - WEIGHTS)
    torch.testing.assert_close(cross_entropy(LOGITS, share * one + (1 - share) * two, None), own)
