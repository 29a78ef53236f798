"""Which runs a mean over seeds can be taken of."""

from collections.abc import Sequence

from uraenas.config import differences, from_json
from uraenas.report.reading import Picked, RunFacts, alike
from uraenas.report.table import table


def why_no_mean(runs: Sequence[Picked | RunFacts]) -> str:
    """Why these runs are not the same thing with several seeds; empty if they are.

    Where they were computed and which methods they have does not count.
    """
    if not alike(runs):
        return "the runs were not tested on the same images"
    first, *others = (from_json(one.config) for one in runs)
    for other in others:
        if changed := {key: both for key, both in differences(first, other).items() if key != "seed"}:
            words = ", ".join(f"{key} is {a!r} and {b!r}" for key, (a, b) in changed.items())
            return f"the runs differ in more than their seed: {words}"
    seen: dict[str, dict[int, int]] = {}  # method → seed → members
    for one in runs:
        for line in table(one.rows):
            of_method, seed = seen.setdefault(line.method, {}), one.config.get("seed", 0)
            if seed in of_method:
                return f"two runs of {line.method} have seed {seed}"
            of_method[seed] = line.members
    for method, of_method in seen.items():
        if len(sizes := set(of_method.values())) > 1:
            return f"{method} has {' and '.join(map(str, sorted(sizes)))} members"
    if all(len(of_method) < 2 for of_method in seen.values()):
        return "no method has runs of several seeds"
    return ""
