"""Which chains a method asks for, and which of their epochs they have in common."""

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from uraenas.architectures import Dirichlet, Searched, queried
from uraenas.architectures.agebo import Agebo
from uraenas.base.errors import UraenasError
from uraenas.ensemble import EnsembleSettings
from uraenas.learning.chains import ChainSpec, cycle_of, epochs_for, in_turns, plan_chains, shared_epochs
from uraenas.learning.methods import METHODS, Assembled, method
from uraenas.learning.recipes import RECIPES
from uraenas.learning.sources import SOURCES
from uraenas.spaces import CellSpace, Genotype, Shape
from uraenas.spaces.cells import NASBENCH201
from uraenas.weights import WEIGHTS, Langevin, Point, WeightMethod

SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 10))
SEED = 9
THREE = EnsembleSettings(members=3)
VALUES = {"architectures": 2, "cycles": 2, "samples": 1, "exploration": 0.5}
GIVEN = "|nor_conv_1x1~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|nor_conv_3x3~2|"


def favouring(operation: str, raw: float) -> Searched:
    """A search that has found this operation the best on every edge."""
    learned = torch.zeros(6, len(NASBENCH201), dtype=torch.float64)
    learned[:, NASBENCH201.index(operation)] = raw
    return Searched(SPACE, Dirichlet(), {"raw": learned})


SEARCHED = favouring("nor_conv_3x3", 1.0)
TRAINED = [(3, 1, 3, 2, 1, 3), (2, 0, 3, 3, 1, 1), (3, 3, 0, 1, 2, 3)]
ASKED = Searched(SPACE, Agebo(), queried.told(Agebo().initial((5,) * 6, 0), TRAINED, [0.7, 0.8, 0.9]))


def assembled(name: str, **values: object) -> Assembled:
    """A method with these values of the settings that its parts have."""
    row = method(name)
    parts = (SOURCES[row.source], RECIPES[row.recipes], WEIGHTS[row.weights])
    of_swag = {"samples": 2} if row.weights == "swag" else {}  # of one there is no spread
    every = {**VALUES, **of_swag, **values}
    own = [{key: v for key, v in every.items() if key in part.settings} for part in parts]
    return Assembled(name, row, *(part.make(chosen) for part, chosen in zip(parts, own, strict=True)))


def plan(
    name: str, settings: EnsembleSettings = THREE, searched: Searched | None = SEARCHED, **values: object
) -> list[ChainSpec]:
    return plan_chains(assembled(name, **values), settings, SPACE, searched, SEED)[0]


# Plans


def test_drnas_is_the_first_chain_of_the_deep_ensemble() -> None:
    assert plan("drnas") == plan("deep-ensemble")[:1]
    assert plan("drnas")[0].name == "expected-point-00"


CHAINS = {
    "drnas": 1,
    "uraenas-w": 2,
    "uraenas-a": 3,
    "uraenas": 2,
    "uraenas-swa": 2,
    "deep-ensemble": 3,
    "deep-ensemble-swa": 3,
    "random-ensemble": 3,
    "snapshot": 2,
    "hyper-ensemble": 3,
    "hyper-deep": 9,
    "nes": 9,
    "joint": 3,
    "uraenas-adam": 3,
    "deep-ensemble-adam": 3,
    "random-ensemble-adam": 3,
    "single-adam": 1,
    "joint-adam": 3,
    "autodeuq": 3,
    "mc-dropout": 2,
    "dropconnect": 2,
    "swapout": 2,
    "stochastic-depth": 1,
    "swag": 2,
    "multi-swag": 2,
    "laplace": 2,
    "fge": 2,
    "batch-ensemble": 2,
    "rank-one": 2,
    "mimo": 2,
    "variational": 2,
    "ssig": 2,
    "sebays": 1,
}
# What a chain of the newer ones gives.
PAIRS = {"draws": 2, "samples": 2, "cycles": 1, "size": 2, "inputs": 2}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_the_chains_that_its_members_need(name: str) -> None:
    row = METHODS[name]
    values = {} if row.weights in ("sghmc", "swa", "snapshot") else PAIRS
    specs = plan(name, searched=ASKED if row.recipes == "learned" else SEARCHED, **values)
    assert [spec.number for spec in specs] == list(range(CHAINS[name]))
    assert len({spec.name for spec in specs}) == CHAINS[name]
    assert all(spec.name.startswith(assembled(name, **values).chains) for spec in specs)
    drawn = {spec.architecture for spec in specs}
    assert all(map(SPACE.is_valid, drawn))
    if row.source == "expected":
        assert drawn == {Genotype(("nor_conv_3x3",) * 6)}
    else:
        assert len(drawn) > 1


def test_sampled_methods_share_their_architectures_and_those_of_one_trajectory_their_chains() -> None:
    drawn = [[spec.architecture for spec in plan(name)] for name in ("uraenas", "uraenas-a", "uraenas-swa")]
    assert drawn[0] == drawn[1][:2] == drawn[2]
    names = [[spec.name for spec in plan(name)] for name in ("uraenas", "uraenas-swa")]
    assert names[0] == names[1] == ["sampled-sghmc-00", "sampled-sghmc-01"]


def test_a_chain_of_one_name_has_one_architecture_in_all_methods_also_where_there_are_copies() -> None:
    """Methods need different numbers of chains: which architecture a chain has must not depend on that."""
    ten, values = EnsembleSettings(members=10), {"copies": 2, "architectures": 4}
    names = ("uraenas-a", "uraenas", "uraenas-swa", "sampled-laplace")
    plans = {name: plan(name, ten, **values, samples=3) for name in names}
    assert [len(found) for found in plans.values()] == [10, 4, 5, 4]
    for name, found in plans.items():
        counts = Counter(spec.architecture for spec in found).values()
        assert max(counts) == 2, name
        assert list(counts).count(1) <= len(found) % 2, name
    of_root: dict[str, set] = {}
    for spec in itertools.chain(*plans.values()):
        of_root.setdefault(spec.root, set()).add(spec.architecture)
    assert all(len(drawn) == 1 for drawn in of_root.values())


def test_architectures_are_drawn_without_none_where_the_settings_say_so() -> None:
    twenty = EnsembleSettings(members=20)
    freely, without = (plan("uraenas-a", twenty, draw_none=draw_none) for draw_none in (True, False))
    assert any("none" in spec.architecture.operations for spec in freely)
    assert not any("none" in spec.architecture.operations for spec in without)


def test_more_members_than_the_chains_can_give_make_more_chains() -> None:
    nine = EnsembleSettings(members=9)
    found = [len(plan(name, nine)) for name in ("uraenas", "snapshot", "deep-ensemble")]
    assert found == [5, 5, 9]  # two samples each


def test_no_chain_is_run_that_cannot_become_a_member() -> None:
    for selection, count in (("in-turn", 2), ("greedy", 5)):
        settings = EnsembleSettings(members=2, selection=selection)
        assert len(plan("uraenas", settings, architectures=5)) == count


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("deep-ensemble", {"selection": "greedy"}, 2),
        ("deep-ensemble", {"selection": "top-k", "candidates": 7}, 7),
        ("deep-ensemble", {"candidates": 7}, 2),  # of a method that does not choose
        ("drnas", {"selection": "greedy", "candidates": 7}, 1),
        ("random-ensemble", {"selection": "repeated", "candidates": 7}, 7),
        ("uraenas-a", {"selection": "greedy", "candidates": 7}, 7),
        ("uraenas-a", {"selection": "greedy"}, 5),
        ("nes", {}, 6),
        ("nes", {"candidates": 7}, 7),
        ("nes", {"candidates": 1}, 2),
        ("hyper-deep", {"selection": "greedy"}, 6),
    ],
)
def test_members_are_chosen_from_as_many_chains_as_asked_for(name: str, settings: dict, count: int) -> None:
    assert len(plan(name, EnsembleSettings(members=2, **settings), architectures=5)) == count


def test_methods_that_choose_take_chains_of_those_that_do_not() -> None:
    for chosen, whole in (("nes", "random-ensemble"), ("hyper-deep", "hyper-ensemble")):
        assert plan(chosen)[:3] == plan(whole)


def test_a_chain_gives_one_mean_for_each_cycle() -> None:
    five = EnsembleSettings(members=5)
    found = [len(plan(name, five, samples=2)) for name in ("expected-swa", "uraenas-swa", "uraenas-w")]
    assert found == [3, 3, 2]


@pytest.mark.parametrize("least", [1, 12, 13, 40, 41])
@pytest.mark.parametrize("changes", [{}, {"exploration": 0.5, "peak": 0.5, "samples": 2}])
def test_advice_on_epochs_can_be_followed_and_asks_for_no_more_than_needed(least: int, changes: dict) -> None:
    kinds = [Point(), Langevin(**{"cycles": 3, "samples": 1, "exploration": 0.5, **changes})]
    advised = epochs_for(kinds, least)
    for kind in kinds:
        kind.check(advised)
    for fewer in range(least, advised):
        with pytest.raises(UraenasError):
            kinds[1].check(fewer)


def test_a_method_that_needs_a_search_says_so() -> None:
    for name in ("drnas", "uraenas"):
        with pytest.raises(UraenasError, match="needs a search"):
            plan(name, searched=None)
    assert len(plan("random-ensemble", searched=None)) == 3


def test_a_given_genotype_takes_the_place_of_the_expected_one_and_needs_no_search() -> None:
    for name in (name for name, row in METHODS.items() if row.source == "expected"):
        planned = plan(name, searched=None, genotype=GIVEN)
        assert {str(spec.architecture) for spec in planned} == {GIVEN}
        assert [spec.name for spec in planned] == [spec.name for spec in plan(name)]


def test_an_expected_genotype_without_a_path_is_refused() -> None:
    with pytest.raises(UraenasError, match="cuts the input off"):
        plan("drnas", searched=favouring("none", 4.0))


# What chains of one root have in common


def kind(name: str, **changes: float) -> WeightMethod:
    return WEIGHTS[name].make({"cycles": 1, "samples": 12, **changes} if name != "point" else changes)


def spec(source: str, weights: WeightMethod, number: int = 0) -> ChainSpec:
    return ChainSpec(source, weights, number, SPACE.architecture((3,) * 6))


@pytest.mark.parametrize(
    ("changes", "point", "snapshot"),
    [
        ({}, 160, 160),
        ({"cycles": 4, "samples": 3}, 0, 40),
        ({"step_size": 0.05}, 0, 160),
        ({"momentum": 0.0}, 0, 160),
        ({"floor": 0.01}, 0, 160),
        ({"exploration": 1.0}, 188, 188),
        ({"exploration": 0.5}, 100, 100),
        ({"samples": 100}, 100, 100),
        ({"samples": 200}, 0, 0),
        ({"exploration": 0.0}, 0, 0),
    ],
)
def test_kinds_move_alike_while_all_explore_in_equal_steps(
    changes: Mapping[str, float], point: int, snapshot: int
) -> None:
    sampled = spec("sampled", kind("sghmc", **changes))
    others = {name: spec("sampled", kind(name, **changes)) for name in ("snapshot", "swa")}
    assert shared_epochs(sampled, spec("sampled", kind("point")), 200) == point
    assert shared_epochs(sampled, others["snapshot"], 200) == snapshot
    assert others["swa"].name == sampled.name  # one chain to its end


def test_chains_of_other_lengths_or_cycles_have_nothing_in_common() -> None:
    sampled = spec("sampled", kind("sghmc"))
    for other in ({"cycles": 2}, {"step_size": 0.05}, {"momentum": 0.5}):
        assert shared_epochs(sampled, spec("sampled", kind("snapshot", **other)), 200) == 0
    assert sampled.moves(200, 5) != sampled.moves(100, 5)


def test_the_first_of_each_root_goes_first() -> None:
    sampled, point = kind("sghmc"), kind("point")
    asked = [
        spec("sampled", sampled),
        spec("sampled", sampled, 1),
        spec("sampled", point, 1),
        spec("expected", point),
    ]
    first, later = in_turns(asked, 200)
    assert [s.name for s in first] == ["sampled-sghmc-00", "sampled-sghmc-01", "expected-point-00"]
    assert [s.name for s in later] == ["sampled-point-01"]
    four = [replace(s, weights=kind("sghmc", cycles=4)) if s.weights == sampled else s for s in asked]
    assert in_turns(four, 200) == (four, [])


def test_all_steps_of_a_restarted_chain_are_smaller_also_where_they_end_on_a_floor() -> None:
    weights = WEIGHTS["point"].make({"step_size": 0.1, "floor": 0.05})
    first, second = (cycle_of(weights, 4, 3, restarts) for restarts in (0, 1))
    sizes = [[cycle.step_size_at(step) for step in range(12)] for cycle in (first, second)]
    assert sizes[1] == pytest.approx([size / 4 for size in sizes[0]])
