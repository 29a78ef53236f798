"""What a run is and how far it has come, from its files alone."""

from typing import Any

from uraenas.config import Config, from_json, measured_otherwise
from uraenas.methods import method
from uraenas.run import Run


def summary(run: Run) -> dict[str, Any]:
    """What a run is and how far it has come, from its files alone."""
    run.require()
    config = from_json(run.read_json("config.json"))
    chains = [run.read_chain(name)[1] for name in run.chains()]
    trained = [name for name in config.methods if run.is_trained(name)]
    diverged = sum(bool(chain["failure"]) for chain in chains)
    stages = {
        "search": _search_state(run, config),
        "train": f"{len(trained)} of {len(config.methods)} methods"
        + (f"; {len(chains)} chains, {diverged} of them diverged" if chains else ""),
        "evaluate": "done" if _is_evaluated(run, config) else "not done",
        "report": "done" if run.has("report.html") else "not done",
    }
    members = {
        name: [
            {"genotype": str(m.genotype), "chain": m.chain, "epoch": m.epoch, "samples": m.samples}
            for m in run.member_facts(name)
        ]
        for name in trained
    }
    return {"dataset": config.data.name, "seed": config.seed, "stages": stages, "members": members}


def _search_state(run: Run, config: Config) -> str:
    if run.has("search/architecture.safetensors"):
        return "done"
    needed = any(config.train.needs_search(method(name)) for name in config.methods)
    return "not done" if needed else "not needed"


def _is_evaluated(run: Run, config: Config) -> bool:
    if not run.has("metrics.json"):
        return False
    metrics = run.metrics()
    whole = set(config.methods) <= set(metrics.get("temperatures", ()))
    return whole and not measured_otherwise(metrics, config)
