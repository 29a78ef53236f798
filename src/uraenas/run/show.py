"""What a run is and how far it has come, told from its small files: for any face, and without PyTorch."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from uraenas.base.errors import DamagedFile
from uraenas.base.fields import Fields
from uraenas.base.files import parse_json, read_header, read_json
from uraenas.evaluation.outcome import Metrics
from uraenas.evaluation.row import Row, mean_names, sizes_of
from uraenas.evaluation.separation import separations
from uraenas.run.location import is_run, mending, stored_config
from uraenas.run.progress import progress_of

HEADLINE = ("accuracy", "ece", "nll")
NUMBER_HEADLINE = ("rmse", "crps", "nll")  # the same, where the target is a number


def summary(path: Path) -> dict[str, Any]:
    """Dataset, seed, dates, cost, how far each stage is, headline metrics, what is told apart, members by method."""
    config = stored_config(path)
    metrics = _metrics(path)
    methods = config.texts("methods")
    members = {name: own for name in methods if (own := _members(path, name, config)) is not None}
    costs, progress = _costs(path), progress_of(path)
    return {
        "dataset": config.text("data.name"),
        "seed": config.any_whole("seed"),
        "dates": _dates(path, progress),
        "cost": _seconds(costs),
        "workers": sum(item.startswith("workers/") for item in costs),
        "stages": _stages(path, config, methods, members, metrics, progress),
        "progress": progress,
        "metrics": [] if metrics is None else headline(metrics.rows),
        "part": None if metrics is None else metrics.settings.get("evaluate.part", "test"),
        "targets": 0 if metrics is None else _targets(metrics.rows),
        "outside": [] if metrics is None else separations(metrics.rows),
        "members": members,
    }


def runs_in(path: Path, depth: int = 3) -> Iterator[Path]:
    """The run directories below this one."""
    for child in sorted(path.iterdir()) if depth and path.is_dir() else ():
        if child.is_dir() and is_run(child):
            yield child
        elif child.is_dir():
            yield from runs_in(child, depth - 1)


def headline(rows: list[Row]) -> list[dict[str, Any]]:
    """The headline metrics of every method, on clean images and on the widest suite mean."""
    sizes, shifted = sizes_of(rows), next(iter(mean_names(rows)), "")
    full = [
        row
        for row in rows
        if row.severity == 0 and row.calibration == "raw" and row.members == sizes[row.method]
    ]
    found = {(row.method, row.shift, row.metric): row.value for row in full}
    wanted = NUMBER_HEADLINE if any(row.metric == "rmse" for row in rows) else HEADLINE
    lines = []
    for method, members in sizes.items():
        clean = {metric: found.get((method, "none", metric)) for metric in wanted}
        worse = {f"shifted_{metric}": found.get((method, shifted, metric)) for metric in wanted}
        lines.append({"method": method, "members": members, **clean, **worse})
    return lines


def _targets(rows: list[Row]) -> int:
    """Where there are several, how many; headline metrics are means over them."""
    return len({row.metric for row in rows if row.metric.endswith(".rmse")})


def _metrics(path: Path) -> Metrics | None:
    if not (path / "metrics.json").exists():
        return None
    with mending(path, "metrics.json"):
        stored = Fields(path / "metrics.json", read_json(path / "metrics.json"))
        _require_own(path, stored, "run")
        return Metrics.of(stored)


def _require_own(path: Path, facts: Fields, key: str) -> None:
    """Refuse a file of another run; `key` says by which identity of the run its files go."""
    config = stored_config(path)
    own = config.text(key, 64) if config.has(key) else config.text("run", 64)
    if facts.text("run") != own:
        raise DamagedFile(f"{facts.where} is a file of another run")


def _dates(path: Path, progress: Mapping[str, Any] | None) -> dict[str, float]:
    """When it began and when it was last worked on, in seconds since 1970, where its log says so.

    Hours may lie between two lines of a log; who works here tells every few seconds that he does.
    """
    times = []
    try:
        with (path / "log.jsonl").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if '"time"' in line:
                    times.append(float(json.loads(line)["time"]))
    except (OSError, ValueError, LookupError, TypeError):
        pass  # a log is for reading
    told = 0.0 if progress is None else progress["time"]
    return {"begun": times[0], "last": max(times[-1], told)} if times else {}


def _costs(path: Path) -> dict[str, float]:
    """Seconds by item of cost.json."""
    if not (path / "cost.json").exists():
        return {}
    with mending(path, "cost.json"):
        facts = Fields(path / "cost.json", read_json(path / "cost.json"))
        items = {str(item): facts.table(item) for item in facts.stored.keys() - {"run"}}
        return {item: own.number("seconds", 0) if own.has("seconds") else 0.0 for item, own in items.items()}


def _seconds(costs: Mapping[str, float]) -> dict[str, float]:
    """By stage; those of chains that were trained at the same time by several workers are summed."""
    names = {"search": "search", "chains": "training", "members": "members", "evaluate": "evaluation"}
    found = {
        name: [seconds for item, seconds in costs.items() if item.partition("/")[0] == stage]
        for stage, name in names.items()
    }
    return {name: sum(own) for name, own in found.items() if own}


def _members(path: Path, method: str, config: Fields) -> list[dict[str, Any]] | None:
    """What the members' files say of them; None where they are not there."""
    name = f"methods/{method}/members/ensemble.json"
    folder = (path / name).parent
    if not (path / name).exists():
        return None
    with mending(path, name):
        facts = Fields(path / name, read_json(path / name))
        if (facts.text("run"), facts.text("method")) != (config.text("run"), method):
            raise DamagedFile(f"{facts.where} and its members are those of another, put in this place")
        number = len(facts.list_of("members", lambda one: isinstance(one, str), "checksums"))
        files = [folder / f"{k:03d}.safetensors" for k in range(number)]
        known = facts.stored.get("known") is None or (folder / "known.safetensors").exists()
        if not known or not all(file.exists() for file in files):
            return None
        found = [_member(file) for file in files]
        draws = facts.stored.get("draws")
        return [found[place] for place, _ in draws] if draws else found


def _member(file: Path) -> dict[str, Any]:
    header = Fields(file, read_header(file))
    numbers = {name: int(header.text(name)) for name in ("epoch", "samples")}
    return {"architecture": header.text("architecture"), "chain": header.text("chain"), **numbers}


def _stages(
    path: Path,
    config: Fields,
    methods: tuple[str, ...],
    members: Mapping[str, Any],
    metrics: Metrics | None,
    progress: Mapping[str, Any] | None,
) -> dict[str, str]:
    searching = progress is not None and progress["stage"] == "search"
    measured = set() if metrics is None else set(metrics.temperatures)
    kept_elsewhere = [name for name in methods if name not in members and name in measured]
    trained = len(members) + len(kept_elsewhere)
    words = f"{trained} of {len(methods)} methods"
    if kept_elsewhere:
        words += (
            "; members are not kept here"
            if not members
            else f"; without members: {', '.join(kept_elsewhere)}"
        )
    return {
        "search": _search_state(path, config, bool(kept_elsewhere), searching),
        "train": words + _chains(path),
        "evaluate": "done" if _is_evaluated(config, methods, metrics) else "not done",
        "report": "done" if metrics is not None and (path / "report.html").exists() else "not done",
    }


def _search_state(path: Path, config: Fields, trained: bool, searching: bool) -> str:
    if (path / "search/architecture.safetensors").exists():
        return "done"
    if searching or (path / "search/state.safetensors").exists():
        return "not done"  # and chains that need none may have been trained beside it
    begun = any(path.glob("chains/*")) or any(path.glob("methods/*/members/ensemble.json"))
    if begun or not any(key.startswith("search.") for key in config.stored):
        return "not needed"  # chains come after it
    return "done; not kept here" if trained else "not done"


def _chains(path: Path) -> str:
    """How many chains there are, how many had to be restarted or given up, and how many were given up."""
    diverged = given_up = number = 0
    for file in sorted(path.glob("chains/*/state.safetensors")):
        name = str(file.relative_to(path))
        with mending(path, name):
            header = {key: parse_json(file, text, finite=False) for key, text in read_header(file).items()}
            facts = Fields(file, header)
            _require_own(path, facts, "chains")
            failed = bool(facts.text("failure"))
            diverged += failed or facts.whole("restarts") > 0
            given_up += failed
        number += 1
    if not number:
        return ""
    words = f"; {number} chain{'s' * (number > 1)}, {diverged} of them diverged"
    return words + (f" and {given_up} given up" if diverged else "")


def _is_evaluated(config: Fields, methods: tuple[str, ...], metrics: Metrics | None) -> bool:
    """Whether all methods were measured as the settings say."""
    if metrics is None or not set(methods) <= set(metrics.temperatures):
        return False
    stored = config.stored
    return all(stored.get(key, value) == value for key, value in metrics.settings.items())
