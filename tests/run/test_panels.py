"""Where chains leave out parts in turn, a row is judged by members that were not trained on it, and by no others."""

import numpy as np
import torch

from uraenas.run.members import panels_of, said_by


def test_every_row_is_judged_by_the_members_that_left_it_out() -> None:
    fold, numbers = np.array([2, 0, 1, 1, 0, 2, 0]), [0, 1, 2, 3, 4, 5]
    panels = panels_of(numbers, fold, len(fold))
    rows = torch.cat([panel.images for panel in panels])
    assert sorted(rows.tolist()) == list(range(7))
    # Each member says its own number.
    said = said_by(panels, torch.arange(6.0)[:, None, None].expand(6, 7, 1))
    for place, row in enumerate(rows.tolist()):
        assert said[:, place, 0].tolist() == [n for n in numbers if n % 3 == fold[row]]


def test_rows_that_no_chain_has_left_out_are_not_judged_and_panels_are_of_one_size() -> None:
    fold = np.array([0, 1, 2, 0])
    panels = panels_of([0, 3, 1], fold, 4)  # nobody has left out part 2, and two have left out part 0
    assert [panel.members for panel in panels] == [[0, 1], [2]]
    assert torch.cat([panel.images for panel in panels]).tolist() == [0, 3, 1]
    assert said_by(panels, torch.zeros(3, 4, 2)).shape == (1, 3, 2)
    (everyone,) = panels_of([0, 0, 5], None, 4)
    assert (everyone.members, everyone.images.tolist()) == ([0, 1, 2], [0, 1, 2, 3])
