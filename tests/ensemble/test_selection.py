"""Members are taken in turn over chains, or greedily by held-out NLL."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.data.targets import Numbers, Several
from uraenas.ensemble.selection import SELECTIONS, by_nll, greedy, in_turn, top
from uraenas.evaluation.metrics import mixture, nll


def candidates(members: int, images: int = 12, classes: int = 3, key: int = 0) -> tuple[Tensor, Tensor]:
    flat = draws.normal(draws.at(key, 0), members * images * classes, torch.float64)
    log_p = torch.log_softmax(2 * flat.view(members, images, classes), dim=-1)
    return log_p, draws.integers(draws.at(key, 1), images, classes)


def test_every_source_gives_one_before_any_gives_a_second() -> None:
    sources = ["a", "a", "a", "b", "b", "c"]
    assert in_turn(sources, 6) == [0, 3, 5, 1, 4, 2]
    assert in_turn(sources, 2) == [0, 3]
    assert in_turn(["a"] * 3, 2) == [0, 1]


@settings(max_examples=100, deadline=None)
@given(sources=st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), data=st.data())
def test_shares_of_sources_differ_by_one_at_most_while_they_last(
    sources: list[str], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(sources)))
    chosen = in_turn(sources, count)
    assert len(set(chosen)) == count
    for source in set(sources):
        own = [position for position in chosen if sources[position] == source]
        assert own == sorted(own)
        most = max(sum(sources[c] == other for c in chosen) for other in set(sources))
        assert len(own) >= min(most - 1, sources.count(source))


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("key", range(5))
def test_greedy_agrees_with_trying_every_next_member(key: int, repeated: bool) -> None:
    log_p, labels = candidates(7, key=key)
    chosen: list[int] = []
    count = 9 if repeated else 5
    for _ in range(count):
        rest = [m for m in range(7) if repeated or m not in chosen]
        chosen.append(min(rest, key=lambda m: nll(mixture(log_p[[*chosen, m]]), labels)))
    assert greedy(log_p, labels, count, repeated=repeated) == chosen


def test_whole_weights_choose_as_repeated_examples_would() -> None:
    log_p, labels = candidates(7)
    counts = torch.tensor([0, 1, 3, 0, 2, 1, 1, 5, 0, 2, 1, 4])
    repeated = greedy(log_p.repeat_interleave(counts, dim=1), labels.repeat_interleave(counts), 5)
    assert greedy(log_p, labels, 5, weights_N=counts.float()) == repeated
    assert greedy(log_p, labels, 5) != repeated


@pytest.mark.parametrize("key", range(5))
def test_the_top_are_those_with_the_lowest_nll_of_their_own(key: int) -> None:
    log_p, labels = candidates(7, key=key)
    chosen = top(log_p, labels, 4)
    own = [nll(log_p[m], labels) for m in range(7)]
    assert [own[m] for m in chosen] == sorted(own)[:4]
    counts = torch.arange(len(labels))
    repeated = top(log_p.repeat_interleave(counts, dim=1), labels.repeat_interleave(counts), 4)
    assert top(log_p, labels, 4, weights_N=counts.float()) == repeated


@pytest.mark.parametrize("way", ["greedy", "top-k"])
def test_more_members_than_candidates_are_refused(way: str) -> None:
    with pytest.raises(UraenasError, match="4 members were asked for, but only 3 candidates exist"):
        by_nll(way, *candidates(3), 4)


def test_ways_to_choose_by_nll_are_those_of_the_settings() -> None:
    log_p, labels = candidates(7)
    assert [by_nll(way, log_p, labels, 5) for way in SELECTIONS[1:]] == [
        greedy(log_p, labels, 5),
        greedy(log_p, labels, 5, repeated=True),
        top(log_p, labels, 5),
    ]


def test_greedy_begins_with_the_best_and_takes_each_once() -> None:
    log_p, labels = candidates(6)
    chosen = greedy(log_p, labels, 6)
    assert sorted(chosen) == list(range(6))
    assert chosen[0] == min(range(6), key=lambda m: nll(log_p[m], labels))


@pytest.mark.parametrize("floor", [-800.0, -math.inf])
def test_greedy_takes_each_once_where_all_give_an_image_no_probability(floor: float) -> None:
    """Sharp members can all be wrong about one image beyond what exp can hold."""
    log_p, labels = candidates(4)
    log_p[:, 0] = torch.tensor([0.0, floor, floor])
    labels[0] = 1
    assert sorted(greedy(log_p, labels, 4)) == [0, 1, 2, 3]


def test_greedy_still_prefers_the_better_where_all_give_an_image_next_to_nothing() -> None:
    log_p = torch.tensor([[0.0, -2000.0], [0.0, -1000.0]])[:, None].double()
    assert greedy(log_p, torch.tensor([1]), 1) == [1]


def test_more_members_than_candidates_is_an_error() -> None:
    log_p, labels = candidates(3)
    with pytest.raises(UraenasError, match="4 members were asked for, but only 3 candidates"):
        greedy(log_p, labels, 4)
    with pytest.raises(UraenasError, match="4 members were asked for, but only 3 candidates"):
        in_turn(["a", "b", "a"], 4)


@pytest.mark.parametrize("way", ["greedy", "repeated", "top-k"])
def test_networks_less_sure_than_the_labels_spread_are_taken_only_for_want_of_others(way: str) -> None:
    """One row of a hundred lies far off, so that NLL welcomes a network that says nothing of any row."""
    target = Numbers(scale=10.0)
    labels = torch.zeros(100, dtype=torch.float64)
    labels[7] = 60.0
    log_variances = 2 * torch.tensor([1.0, 90.0, 1.1, 95.0], dtype=torch.float64).log()
    said = torch.stack([torch.zeros(4, 100), log_variances[:, None].expand(4, 100)], dim=-1).double()
    assert greedy(said, labels, 2, target, repeated=True)[0] in (1, 3)
    assert set(by_nll(way, said, labels, 2, target)) <= {0, 2}
    assert set(by_nll(way, said[[1, 3]], labels, 2, target)) <= {0, 1}
    if way != "repeated":
        assert len(set(by_nll(way, said[:3], labels, 3, target))) == 3
    several, both = Several((target, replace(target, column="z"))), labels[:, None].expand(-1, 2)
    assert set(by_nll(way, said.repeat(1, 1, 2), both, 2, several)) <= {0, 2}
