"""Which runs a mean over seeds can be taken of."""

from collections.abc import Sequence

from uraenas.evaluation import REFERENCES
from uraenas.report.picked import Picked, alike, same_learning, same_references
from uraenas.report.reading import RunFacts
from uraenas.report.table import table
from uraenas.run.config import Config, differences


def why_no_mean(runs: Sequence[Picked | RunFacts]) -> str:
    """Why these runs are not the same thing with several seeds; empty if they are.

    Where they were computed and which other methods they have does not count.
    """
    if not alike(runs):
        return "the runs were not tested on the same data"
    if not all(same_learning(runs[0], one) for one in runs):
        return "the runs did not learn from the same data"
    found: dict[str, list[tuple[Config, int]]] = {}  # method → settings and members of its runs
    for one in runs:
        for line in table(one.rows):
            if line.method in REFERENCES:
                continue  # they have no settings of their own
            own = one.config.only(line.method)
            found.setdefault(line.method, []).append((own, line.members))
    for method, of_method in found.items():
        if why := _why_not(method, *zip(*of_method, strict=True)):
            return why
    referring = [one for one in runs if any(name in REFERENCES for name in one.sizes)]
    if not all(same_references(referring[0], one) for one in referring):
        return "their references learned from other images; pick methods with RUN:METHOD"
    if all(len(of_method) < 2 for of_method in found.values()):
        return "no method has runs of several seeds"
    return ""


def _why_not(method: str, configs: tuple[Config, ...], members: tuple[int, ...]) -> str:
    """Why these are not runs of one method with several seeds."""
    for config in configs[1:]:
        changed = {key: both for key, both in differences(configs[0], config).items() if key != "seed"}
        if changed:
            words = ", ".join(f"{key} is {a!r} and {b!r}" for key, (a, b) in changed.items())
            return f"the runs of {method} differ in more than their seed: {words}"
    seeds = [config.seed for config in configs]
    if twice := [seed for seed in seeds if seeds.count(seed) > 1]:
        return f"two runs of {method} have seed {twice[0]}"
    if len(sizes := sorted(set(members))) > 1:
        return f"{method} has {' and '.join(map(str, sizes))} members"
    return ""
