"""report.html from a run's rows: one page that needs nothing else."""

from importlib import resources
from typing import Any

import jinja2

from uraenas.report.table import COLUMNS, DISAGREEMENT, best, mean_name, table


def page(title: str, metrics: dict[str, Any], config: dict[str, Any], environment: dict[str, Any]) -> str:
    """The report as HTML."""
    source = resources.files("uraenas.report").joinpath("page.html").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    tables = {
        calibration: {"lines": lines, "best": best(lines)}
        for calibration in ("raw", "temperature")
        if (lines := table(metrics["rows"], calibration))
    }
    return template.render(
        title=title,
        tables=tables,
        columns=COLUMNS,
        disagreement=DISAGREEMENT,
        shifted=mean_name(metrics["rows"]),
        differences=[row for row in metrics["differences"] if row["calibration"] == "raw"],
        config=config,
        environment=environment,
    )
