"""What a run is and how far it has come, told from its files: for any face, not for the command line alone."""

from typing import Any

from uraenas.evaluation import separations
from uraenas.run.checkpoints import chain_headers
from uraenas.run.config import Config, measured_differently
from uraenas.run.directory import Run


def summary(run: Run) -> dict[str, Any]:
    """Dataset, seed, how far each stage is, what is told apart how well, and the members of each method."""
    config = run.config()
    chains = chain_headers(run)
    trained = [name for name in config.methods if run.is_trained(name)]
    diverged = sum(bool(chain["failure"]) for chain in chains.values())
    stages = {
        "search": _search_state(run, config),
        "train": f"{len(trained)} of {len(config.methods)} methods"
        + (f"; {len(chains)} chain{'s' * (len(chains) > 1)}, {diverged} of them diverged" if chains else ""),
        "evaluate": "done" if _is_evaluated(run, config) else "not done",
        "report": "done" if run.has("report.html") else "not done",
    }
    members = {
        name: [
            {
                "architecture": str(m.architecture),
                "chain": m.origin.chain,
                "epoch": m.origin.epoch,
                "samples": m.origin.samples,
            }
            for m in run.member_facts(name)
        ]
        for name in trained
    }
    rows = run.metrics().rows if run.has("metrics.json") else []
    return {
        "dataset": config.data.name,
        "seed": config.seed,
        "stages": stages,
        "outside": separations(rows),
        "members": members,
    }


def _search_state(run: Run, config: Config) -> str:
    if run.has_search:
        return "done"
    return "not needed" if config.search is None else "not done"


def _is_evaluated(run: Run, config: Config) -> bool:
    if not run.has("metrics.json"):
        return False
    metrics = run.metrics()
    whole = set(config.methods) <= set(metrics.temperatures)
    return whole and not measured_differently(metrics.settings, config)
