"""What every entry that is learned by gradients keeps to, for equally and for unequally many options.

`test_query_contract.py` has what holds for those that are learned from queries.
"""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from choices import Choices
from torch import Tensor

from uraenas.architectures import DISTRIBUTIONS, Searched
from uraenas.base import draws
from uraenas.base.files import read_tensors, write_tensors
from uraenas.spaces import Tensors

OPTIONS = {"even": (5,) * 6, "uneven": (3, 2, 4)}
KEY = draws.key(0, "distribution")
MIXED = [name for name, row in DISTRIBUTIONS.items() if row.made.loop == "supernet"]
SWITCHES = ("bayesnas",)  # weights of their own, which need not sum to 1
UNDRAWN = ("darts", "bayesnas")  # mix by what is learned, without noise

pytestmark = [
    pytest.mark.parametrize("name", MIXED),
    pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS),
]


def present(options: tuple[int, ...]) -> Tensor:
    return torch.arange(max(options)) < torch.tensor(options)[:, None]


def there(options: tuple[int, ...], learned: Tensor) -> Tensor:
    """The same of something that is learned: of each option, or once for a decision."""
    return present(options) if learned.shape[1] > 1 else torch.ones_like(learned, dtype=torch.bool)


def slope(options: tuple[int, ...]) -> Tensor:
    """Of a loss that likes the last option of each decision best; none of its numbers is 0."""
    liked = torch.tensor(options)[:, None] - 1 == torch.arange(max(options))
    return torch.where(liked, -1.0, 0.3 + 0.1 * torch.arange(max(options))).double()


def mixed(here: Any, state: Tensors, number: int, progress: float = 0.5) -> Tensor:
    return here.mixing(state, draws.at(KEY, number), torch.tensor(progress))


def gradients_of(here: Any, state: Tensors, options: tuple[int, ...], number: int) -> Tensors:
    """Of a loss that is linear in the mixing weights, and of the penalty."""
    learned = {name: state[name].clone().requires_grad_() for name in here.learned}
    state = {**state, **learned}
    objective = (mixed(here, state, number) * slope(options)).sum()
    penalty = here.penalty(state)
    total = objective if penalty is None else objective + penalty
    return dict(zip(learned, torch.autograd.grad(total, list(learned.values())), strict=True))


def fast(name: str) -> Any:
    """An entry that learns in few steps."""
    row = DISTRIBUTIONS[name]
    quick = {"step_size": 0.1, "images": 100, "batch": 1}
    return row.make({key: value for key, value in quick.items() if key in row.settings})


def learned_from(here: Any, options: tuple[int, ...], steps: int = 25) -> Tensors:
    state = here.initial(options, KEY)
    for step in range(steps):
        state = here.update(state, gradients_of(here, state, options, step), torch.tensor(step))
    return state


def test_mixing_weights_lie_on_the_simplex_of_the_options_there_are(
    name: str, options: tuple[int, ...]
) -> None:
    here = DISTRIBUTIONS[name].make()
    state = here.initial(options, KEY)
    for number, progress in enumerate((0.0, 0.3, 1.0)):
        mixing = mixed(here, state, number, progress)
        assert mixing.shape == (len(options), max(options))
        assert mixing.dtype == torch.float64
        assert (mixing >= 0).all()
        assert (mixing[~present(options)] == 0).all()
        if name not in SWITCHES:
            torch.testing.assert_close(mixing.sum(dim=1), torch.ones(len(options), dtype=torch.float64))
    shares = here.shares(state)
    assert (shares[~present(options)] == 0).all()
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(len(options), dtype=torch.float64))


def test_gradients_reach_all_that_is_learned_and_are_finite(name: str, options: tuple[int, ...]) -> None:
    here = DISTRIBUTIONS[name].make()
    state = here.initial(options, KEY)
    for number in range(5):
        for key, gradient in gradients_of(here, state, options, number).items():
            assert gradient.shape == state[key].shape, key
            assert torch.isfinite(gradient).all(), key
            assert ((gradient != 0) == there(options, gradient)).all(), key


def test_a_step_goes_against_the_gradient_and_leaves_the_state_it_was_given_alone(
    name: str, options: tuple[int, ...]
) -> None:
    here = fast(name)
    state = here.initial(options, KEY)
    before = {key: tensor.clone() for key, tensor in state.items()}
    slopes = torch.where(present(options), slope(options), 0.0)
    gradients = {key: slopes[:, : state[key].shape[1]] for key in here.learned}
    after = here.update(state, gradients, torch.tensor(0))
    assert after.keys() == state.keys()
    for key, tensor in before.items():
        assert torch.equal(state[key], tensor), key
    for key, gradient in gradients.items():
        step = after[key] - before[key]
        assert (step * gradient)[there(options, step)].max() < 0, key
        assert (step[~there(options, step)] == 0).all(), key


def test_it_learns_to_favour_what_lowers_the_loss(name: str, options: tuple[int, ...]) -> None:
    here = fast(name)
    state = learned_from(here, options)
    last = torch.tensor(options) - 1
    assert torch.equal(here.mode(state), last)
    start = here.initial(options, KEY)
    rows = torch.arange(len(options))
    assert (here.shares(state)[rows, last] > here.shares(start)[rows, last] + 0.1).all()
    assert torch.equal(here.favour(state).argmax(dim=1), last)
    assert (here.favour(state)[~present(options)] == 0).all()
    spread = here.spread(state)
    assert spread is None or ((spread > 0) == present(options)).all()


def test_facts_hold_an_entropy_that_is_finite_and_largest_at_the_start(
    name: str, options: tuple[int, ...]
) -> None:
    here = fast(name)
    nothing = Searched.nothing(Choices(options), here)
    found = [here.facts(state)["entropy"] for state in (nothing.state, here.initial(options, KEY))]
    found += [here.facts(learned_from(here, options, steps))["entropy"] for steps in (10, 30)]
    assert all(map(math.isfinite, found))
    assert found == sorted(found, reverse=True)
    assert found[1] == pytest.approx(found[0], abs=1e-3)  # the beginning favours hardly anything
    facts = here.facts(nothing.state)
    assert all(isinstance(value, float | int | str) for value in facts.values())  # they go into JSON


def test_draws_are_a_function_of_their_key(name: str, options: tuple[int, ...]) -> None:
    here = DISTRIBUTIONS[name].make()
    start = here.initial(options, KEY)
    for state in (start, learned_from(fast(name), options)):
        for draw in (here.scores, lambda s, k: here.mixing(s, k, torch.tensor(0.5))):
            first, again, *others = (draw(state, draws.at(KEY, number)) for number in (1, 1, 2, 3, 4))
            assert torch.equal(first, again)
            if draw == here.scores or (state is start and name not in UNDRAWN):
                assert not all(torch.equal(first, other) for other in others)
    assert torch.equal(*(here.initial(options, KEY)[here.learned[0]] for _ in range(2)))


@pytest.mark.parametrize("temperature", [0.1, 1.0, 50.0])
def test_an_option_that_is_not_there_is_never_drawn_and_every_other_is(
    name: str, options: tuple[int, ...], temperature: float
) -> None:
    """`architecture` of the space would fail on an option that is not there."""
    here = DISTRIBUTIONS[name].make()
    searched = Searched(Choices(options), here, here.initial(options, KEY))
    drawn, redrawn = searched.draw(80, seed=3, temperature=temperature)
    assert (len(drawn), redrawn) == (80, 0)
    if temperature >= 1:
        found = [{architecture[d] for architecture in drawn} for d in range(len(options))]
        assert [len(chosen) for chosen in found] == list(options)
    assert drawn[:10] == searched.draw(10, seed=3, temperature=temperature)[0]
    without, _ = searched.draw(20, seed=3, temperature=temperature, draw_absent=False)
    assert not any(option.endswith("0") for architecture in without for option in architecture)
    assert searched.expected == searched.space.architecture(here.mode(searched.state).tolist())


def test_shares_are_what_is_drawn_or_mixed(name: str, options: tuple[int, ...]) -> None:
    """But for the Dirichlet, whose largest part is not as likely as it is large, shares are those of draws."""
    here = fast(name)
    searched = Searched(Choices(options), here, learned_from(here, options, steps=2))
    drawn, shares = searched.drawn_shares(400, seed=4), here.shares(searched.state)
    assert (drawn[~present(options)] == 0).all()
    torch.testing.assert_close(drawn.sum(dim=1), torch.ones(len(options), dtype=torch.float64))
    if name != "dirichlet":
        deviation = torch.sqrt(shares * (1 - shares) / 400) + 1e-4
        assert ((drawn - shares) / deviation).abs().max() < 4.5


def test_below_one_draws_lie_closer_to_the_mode(name: str, options: tuple[int, ...]) -> None:
    here = fast(name)
    searched = Searched(Choices(options), here, learned_from(here, options, steps=3))
    mode = searched.expected
    agreeing = [
        sum(a == b for one in searched.draw(60, 5, temperature)[0] for a, b in zip(one, mode, strict=True))
        for temperature in (0.02, 1.0)
    ]
    assert agreeing[0] > agreeing[1]


def test_the_state_survives_the_disk(name: str, options: tuple[int, ...], tmp_path: Path) -> None:
    here = fast(name)
    state = learned_from(here, options, steps=4)
    write_tensors(tmp_path / "state", state, {})
    stored, _ = read_tensors(tmp_path / "state")
    assert stored.keys() == state.keys()
    for step in range(4, 7):  # it goes on with the same bits
        state, stored = (
            here.update(s, gradients_of(here, s, options, step), torch.tensor(step)) for s in (state, stored)
        )
    assert all(torch.equal(stored[key], tensor) for key, tensor in state.items())
    first, second = (Searched(Choices(options), here, s).draw(5, seed=1) for s in (state, stored))
    assert first == second


def test_what_is_learned_has_a_row_for_each_decision(name: str, options: tuple[int, ...]) -> None:
    here = DISTRIBUTIONS[name].make()
    state = here.initial(options, KEY)
    assert {*here.learned, *here.kept} <= state.keys()
    assert isinstance(here.numbers, str)
    for key in here.learned:
        assert state[key].shape[:2] in ((len(options), max(options)), (len(options), 1))
        assert state[key].dtype == torch.float64
    assert ("mask" in state) == (len(set(options)) > 1)
