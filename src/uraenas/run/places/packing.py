"""Chains as units: stacks of like cost, so that workers finish together; chains that follow others wait for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from uraenas.learning.chains import ChainSpec, in_turns, shared_epochs


@dataclass(eq=False)
class Unit:
    """What one worker does at a time."""

    stage: str
    items: tuple[str, ...]
    cost: float = 1.0  # relative to others
    waits_for: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # chain → root and epoch needed
    part: int = 0  # lower ones first
    words: str = ""  # for whoever watches, where an item's name says too much
    deaths: int = 0  # since it last came further
    done: float = 0.0  # steps, or sets
    reached: float = 0.0  # by the time of the last death


def pack(
    specs: Sequence[ChainSpec],
    costs: Mapping[str, float],
    epochs: int,
    workers: int,
    stack: int,
    part: int = 0,
) -> list[Unit]:
    """Units of chains that may move together: `workers` of each kind, of like cost, none larger than a stack."""
    early, later = in_turns(specs, epochs)
    units = [
        unit
        for group in _grouped([(spec.weights.trajectory, spec) for spec in early])
        for unit in _divided(group, costs, workers, stack, part)
    ]
    home = {name: number for number, unit in enumerate(units) for name in unit.items}
    # Those whose leaders are in one unit can begin together.
    leaders = {spec.name: _leader(spec, early, epochs) for spec in later}
    keyed = [(f"{spec.weights.trajectory} {home[leaders[spec.name].name]}", spec) for spec in later]
    for group in _grouped(keyed):
        for unit in _divided(group, costs, 1, stack, part):
            following = [spec for spec in group if spec.name in unit.items]
            unit.waits_for = {
                leaders[spec.name].name: (spec.root, shared_epochs(leaders[spec.name], spec, epochs))
                for spec in following
            }
            units.append(unit)
    return units


def _leader(spec: ChainSpec, early: Sequence[ChainSpec], epochs: int) -> ChainSpec:
    of_root = (leader for leader in early if leader.root == spec.root)
    return next(leader for leader in of_root if shared_epochs(leader, spec, epochs) > 0)


def _grouped(keyed: Sequence[tuple[str, ChainSpec]]) -> list[list[ChainSpec]]:
    groups: dict[str, list[ChainSpec]] = {}
    for key, spec in keyed:
        groups.setdefault(key, []).append(spec)
    return list(groups.values())


def _divided(
    group: Sequence[ChainSpec], costs: Mapping[str, float], pieces: int, stack: int, part: int
) -> list[Unit]:
    """The dearest chain first, each to the piece that is cheapest so far and has room."""
    rounds = -(-len(group) // (pieces * stack))  # in each of which nobody is idle
    count = min(len(group), rounds * pieces)
    bins: list[list[ChainSpec]] = [[] for _ in range(count)]
    for spec in sorted(group, key=lambda one: -costs[one.name]):
        free = [one for one in bins if len(one) < stack]
        min(free, key=lambda one: sum(costs[other.name] for other in one)).append(spec)
    order = {spec.name: place for place, spec in enumerate(group)}
    return [
        Unit(
            "train",
            tuple(sorted((spec.name for spec in one), key=order.__getitem__)),
            sum(costs[spec.name] for spec in one),
            part=part,
        )
        for one in bins
        if one
    ]
