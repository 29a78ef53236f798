"""Networks that chains start from: another run's members, made to fit. Apart from `task.py`, which is about images."""

from uraenas.base import draws
from uraenas.base.errors import UraenasError
from uraenas.learning.chains import Start
from uraenas.run.directory import Run
from uraenas.spaces import Layout, Space, carried_over

MOST_FRESH = 0.25  # of the weights: the first and the last layer may be new, not the network


def starts_of(source: Run, space: Space, seed: int) -> tuple[Start, ...]:
    """The members of the source's first method, each made to fit: layers of other images or classes are drawn anew."""
    ensemble = source.ensemble()
    theirs = ensemble.space
    if theirs.decisions != space.decisions:
        raise UraenasError(
            f"train.sampled.start: {source.path} has networks of another space than {space.name}"
        )
    found = []
    for number, member in enumerate(ensemble.members):
        old = member.kind.layout(theirs.weight_layout(member.architecture))
        new = space.weight_layout(member.architecture)
        fresh = new.initial(draws.key(seed, "start", number))
        weights, unlike = carried_over(old, member.weights, new, fresh)
        if _is_another_network(theirs.weight_layout(member.architecture), new, unlike):
            raise UraenasError(
                f"train.sampled.start: networks of {source.path} are other ones; {_their_settings(source)}"
            )
        statistics, _ = carried_over(
            theirs.statistics_layout(member.architecture),
            member.statistics,
            space.statistics_layout(member.architecture),
            space.statistics_layout(member.architecture).initial(),
        )
        found.append(Start(member.architecture, weights, statistics))
    return tuple(found)


def _is_another_network(old: Layout, new: Layout, unlike: list[str]) -> bool:
    """Whether more than first and last layers differ."""
    sizes = {entry.name: entry.size for entry in new.entries}
    lost = {entry.name for entry in old.entries} - set(sizes)
    return bool(lost) or sum(map(sizes.__getitem__, unlike)) > MOST_FRESH * new.size


def _their_settings(source: Run) -> str:
    theirs = [f"--set {k}={v}" for k, v in source.config().values.items() if k.startswith("network.")]
    return f"theirs have {' '.join(theirs)}"
