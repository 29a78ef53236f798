"""A run's files as they lie on the disk, beside the page made of them; read without the report's own code."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from made_up_run import SHIFTS, Source
from reading_html import Page, taken_apart

from uraenas import report
from uraenas.evaluation import REFERENCES

METRICS = {"accuracy": "Accuracy", "ece": "ECE", "nll": "NLL", "rmse": "RMSE", "mae": "MAE", "crps": "CRPS"}
OF_CLASSES = ("accuracy", "ece", "nll")
IN_UNITS = ("rmse", "mae", "crps", "width90")  # of the target
CALIBRATIONS = ("raw", "temperature")
PLACES = {"clean": "none", "test": "none", "shifted": f"mean{len(SHIFTS)}"}
SOURCES = {
    "data": "data_uncertainty",
    "weights": "weight_uncertainty",
    "architecture": "architecture_uncertainty",
}


def percent(value: float) -> str:
    return f"{100 * value:.2f}"


def decimal(metric: str, value: float, sign: str = "") -> str:
    """With three decimals, or three digits where that is in a target's unit and small or huge."""
    digits = metric in IN_UNITS and value and not 0.1 <= abs(value) < 1e6
    return f"{value:{sign}#.3g}" if digits else f"{value:{sign}.3f}"


def shown(metric: str, value: float) -> str:
    return f"{percent(value)} %" if metric in ("accuracy", "coverage90") else decimal(metric, value)


def signed(metric: str, value: float) -> str:
    words = f"{100 * value:+.2f}" if metric == "accuracy" else decimal(metric, value, "+")
    return words.replace("-", "−")


@dataclass
class Case:
    """One run, its files and its page."""

    source: Source

    @cached_property
    def page(self) -> Page:
        return taken_apart(report.build([self.source]))

    def file(self, name: str) -> Any:
        stored = json.loads((self.source[0].path / name).read_text())
        del stored["checksum"]
        return stored

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return self.file("metrics.json")["rows"]

    @cached_property
    def sizes(self) -> dict[str, int]:
        return {
            row["method"]: max(r["members"] for r in self.rows if r["method"] == row["method"])
            for row in self.rows
        }

    @property
    def trained(self) -> dict[str, int]:
        """Without references, which no figure shows."""
        return {name: size for name, size in self.sizes.items() if name not in REFERENCES}

    def row(self, method: str, metric: str, shift: str = "none", **more: Any) -> dict[str, Any]:
        """The one row of metrics.json that says this."""
        wanted = {"severity": 0, "calibration": "raw", "members": self.sizes[method], **more}
        wanted |= {"method": method, "metric": metric, "shift": shift}
        (found,) = [row for row in self.rows if wanted.items() <= row.items()]
        return found

    def value(self, method: str, metric: str, shift: str = "none", **more: Any) -> float:
        return self.row(method, metric, shift, **more)["value"]

    def difference(self, method: str, metric: str, shift: str, calibration: str) -> dict[str, Any]:
        wanted = {"method": method, "metric": metric, "shift": shift, "calibration": calibration}
        wanted["baseline"] = self.file("config.json")["evaluate.baseline"]
        (found,) = [row for row in self.file("metrics.json")["differences"] if wanted.items() <= row.items()]
        return found

    @cached_property
    def probabilities(self) -> dict[str, np.ndarray]:
        """What the members predict [M, N, K]."""
        run, file = self.source[0], f"methods/{{}}/predictions/{self.rows[0]['dataset']}.safetensors"
        kept = {method: file.format(method) for method in self.sizes if run.has(file.format(method))}
        stored = {method: run.read_tensors(name)[0] for method, name in kept.items()}
        return {method: own["log_probabilities"].double().exp().numpy() for method, own in stored.items()}

    def chains(self, method: str) -> list[dict[str, float]]:
        """What cost.json says of the chains that this method's members could come from."""
        kinds = {
            "uraenas": "sampled-sghmc",
            "drnas": "expected-point-00",
            "deep-ensemble": "expected-point",
            "uraenas-adam": "sampled-adam",
            "deep-ensemble-adam": "expected-adam",
        }
        costs = self.file("cost.json").items()
        return [cost for name, cost in costs if name.startswith(f"chains/{kinds[method]}")]

    def spent(self, method: str, unit: str) -> float:
        """On chains and on the choice of members from them."""
        choice = self.file("cost.json")[f"members/{method}"].get(unit, 0)
        return sum(chain[unit] for chain in self.chains(method)) + choice

    @property
    def examples(self) -> str:
        return "rows" if self.file("data.json").get("columns") else "images"

    @property
    def labels(self) -> np.ndarray:
        return self.source[1].labels

    def tips(self, figure: str) -> list[dict[str, str]]:
        return tips(self.page, figure)


def tips(page: Page, figure: str) -> list[dict[str, str]]:
    """What a figure tells: per mark its heading under "", then name → value, without colours."""
    told = []
    for tip in page.figures[figure]:
        heading, *lines = re.sub(r"\{[\w-]+\}", "", tip).split("\n")
        told.append({"": heading, **dict(line.split("\t") for line in lines if "\t" in line)})
    return told
