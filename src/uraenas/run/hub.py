"""Runs on the Hugging Face hub: pushed as the folder that `export` writes, with a model card."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uraenas.base.errors import UraenasError
from uraenas.base.versions import version_of
from uraenas.base.words import listed
from uraenas.ensemble import Ensemble
from uraenas.evaluation import Metrics
from uraenas.run.directory import KEPT_FILES, Run, search_taken_from
from uraenas.run.export import export
from uraenas.run.fetching import LIBRARY, PREFIX, client, refused

CARD = "README.md"
COLUMNS = {"accuracy": "Accuracy", "nll": "NLL", "ece": "ECE", "brier": "Brier"}


def push(
    run: Run,
    repo: str,
    methods: tuple[str, ...] = (),
    private: bool = False,
    half: bool = True,
    licence: str = "",
) -> str:
    """Put a small copy of a run into the repository OWNER/NAME, made where it is not there; returns its address.

    The token is the hub's own: from `hf auth login`, or HF_TOKEN.
    """
    hub = client()
    if (data := run.data()) is not None and data.is_table:
        raise UraenasError(f"{run.path} predicts rows of a table; the hub takes images")
    with tempfile.TemporaryDirectory(prefix="uraenas-") as folder:
        copy = export(run, Path(folder) / "run", methods, half)
        (copy.path / CARD).write_text(card(copy, repo, licence, half), encoding="utf-8")
        try:
            api = hub.HfApi(library_name=LIBRARY, library_version=version_of(LIBRARY))
            address = api.create_repo(repo, private=private or None, exist_ok=True)
            api.upload_folder(
                repo_id=repo,
                folder_path=copy.path,
                commit_message=f"Run {copy.identity[:8]}",
                ignore_patterns=["lock", "log.jsonl"],
                delete_patterns=[*KEPT_FILES, "methods/*"],  # what an earlier run has left there
            )
        except Exception as error:
            raise refused(hub, f"{repo} could not be pushed", error) from error
    return str(address)


def card(run: Run, repo: str, licence: str, half: bool) -> str:
    """The model card: what it is, what it is worth, how to use it; all from the run's own files."""
    metrics = run.metrics() if run.has("metrics.json") else None
    name = repo.rpartition("/")[2]
    head = _front_matter(run, name, metrics, licence)
    method = run.primary
    ensemble = run.ensemble(method)
    shape = ensemble.space.shape
    parts = [
        f"---\n{json.dumps(head, indent=1, ensure_ascii=False)}\n---",  # JSON is YAML
        f"# {name}",
        f"{_size(ensemble)} ({method}), which says of an image of "
        f"{shape.height} × {shape.width} × {shape.channels} which of {shape.classes} classes it shows, how sure it is, "
        "why it is not, and when it would rather not say. Made with [uraenas](https://pypi.org/project/uraenas/).",
        f"Classes: {listed(_plain(one) for one in ensemble.classes)}.",
        "## Use",
        f"```\npip install 'uraenas[hub]'\nuraenas predict {PREFIX}{repo} photo.png\n```",
        f'```python\nfrom uraenas import Run\n\nensemble = Run.from_hub("{repo}").ensemble()\n'
        "probabilities = ensemble.predict_proba(images)  # N×H×W×C, bytes\nsplit = ensemble.uncertainty(images)\n```",
    ]
    if metrics is not None:
        parts += ["## What it is worth", _table(metrics, run.trained)]
    parts += ["## How it was made", _provenance(run, half)]
    return "\n\n".join(parts) + "\n"


def _size(ensemble: Ensemble) -> str:
    """How many members it has, and networks where some share one."""
    members, networks = len(ensemble), len(ensemble.networks)
    if members == 1:
        return "One network"
    shared = f" that share {_counted(networks, 'network')}" if networks < members else ""
    distinct = _counted(len(set(ensemble.functions)), "architecture")
    return f"An ensemble of {members} members{shared}, of {distinct}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _front_matter(run: Run, name: str, metrics: Metrics | None, licence: str) -> dict[str, Any]:
    head: dict[str, Any] = {
        "library_name": LIBRARY,
        "pipeline_tag": "image-classification",
        "tags": ["uraenas", "ensemble", "uncertainty", "calibration", "neural-architecture-search"],
    }
    if licence:
        head["license"] = licence
    if metrics is not None:
        dataset = metrics.rows[0].dataset
        task = {"type": "image-classification", "name": "Image classification"}
        found = [
            {
                "type": row.metric,
                "value": round(row.value, 5),
                "name": f"{COLUMNS[row.metric]}, temperature-scaled",
            }
            for row in _clean(metrics, run.primary)
        ]
        result = {
            "task": task,
            "dataset": {"type": _plain(dataset), "name": _plain(dataset)},
            "metrics": found,
        }
        head["model-index"] = [{"name": name, "results": [result]}]
    return head


def _clean(metrics: Metrics, method: str) -> list[Any]:
    """The rows of a whole ensemble on clean images, temperature-scaled, in the order of the columns."""
    own = [
        row
        for row in metrics.rows
        if (row.method, row.shift, row.calibration) == (method, "none", "temperature")
    ]
    most = max((row.members for row in own), default=0)
    whole = {row.metric: row for row in own if row.members == most}
    return [whole[name] for name in COLUMNS if name in whole]


def _table(metrics: Metrics, trained: Sequence[str]) -> str:
    lines = [f"| {' | '.join(('Method', 'Members', *COLUMNS.values()))} |", "|---" * (2 + len(COLUMNS)) + "|"]
    others = []  # measured beside, and not sent
    for method in dict.fromkeys(row.method for row in metrics.rows):
        rows = {row.metric: row for row in _clean(metrics, method)}
        if rows:
            members = next(iter(rows.values())).members
            cells = [f"{rows[name].value:.4f}" if name in rows else "–" for name in COLUMNS]
            lines.append(f"| {method} | {members} | {' | '.join(cells)} |")
            others += [] if method in trained else [method]
    words = f"{_plain(metrics.rows[0].dataset)}, temperature-scaled on held-out images."
    if others:
        words += f" For comparison, and not part of this model: {', '.join(others)}."
    return f"{words}\n\n" + "\n".join(lines)


def _provenance(run: Run, half: bool) -> str:
    data, config, teacher = run.data(), run.config(), run.teacher()
    lines = [f"- run {run.identity}, seed {config.seed}, methods {', '.join(run.trained)}"]
    if data is not None:
        counts = {
            "training": data.training_images,
            "held-out": data.held_out_images,
            "test": data.test_images,
        }
        images = ", ".join(f"{count:,} {part}" for part, count in counts.items())
        lines.append(f"- {images} images, checksum {data.blake2b}")
    if source := search_taken_from(run):
        lines.append(f"- architectures from the search of {_plain(source)}")
    if starts := sorted({config.method(name).source.start for name in run.trained} - {""}):
        lines.append(
            f"- training began with networks of {', '.join(_plain(Path(one).name) for one in starts)}"
        )
    if half:
        lines.append("- weights in half precision; figures and promises are those of full precision")
    if teacher is not None:
        lines.append(f"- learned from the ensemble {teacher['ensemble']} ({teacher['members']} members)")
    made = [f"{key} {value}" for key, value in run.environment().items()]
    return "\n".join([*lines, *([f"- {', '.join(map(_plain, made))}"] if made else [])])


def _plain(text: str) -> str:
    """A name as Markdown shows it, in one line."""
    line = " ".join(str(text).split())
    return "".join(f"\\{one}" if one in "\\`*_[]<>|#" else one for one in line)
