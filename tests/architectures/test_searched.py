"""What is drawn from a distribution, whatever its scores are."""

import torch
from choices import Choices
from torch import Tensor

from uraenas.architectures import Searched
from uraenas.spaces import Tensors

SPACE = Choices((3, 2, 4))


class Last:
    """A distribution that always scores the last option highest, there or not, and nothing above 0."""

    learned = ("raw",)
    kept = ()

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return state["raw"] - 10

    def mode(self, state: Tensors) -> Tensor:
        return torch.zeros(3, dtype=torch.int64)


def test_the_best_of_the_options_there_are_is_taken() -> None:
    searched = Searched(SPACE, Last(), {"raw": torch.arange(4.0).expand(3, 4).clone()})
    assert searched.draw(2, seed=0) == ([("02", "11", "23")] * 2, 0)
    assert searched.expected == ("00", "10", "20")


def test_unless_absent_options_may_be_drawn_the_best_of_the_others_is_taken() -> None:
    searched = Searched(SPACE, Last(), {"raw": -torch.arange(4.0).expand(3, 4).clone()})
    assert searched.draw(1, seed=0)[0] == [("00", "10", "20")]
    assert searched.draw(1, seed=0, draw_absent=False)[0] == [("01", "11", "21")]
    assert torch.equal(searched.state["raw"], -torch.arange(4.0).expand(3, 4))  # a draw changes nothing
