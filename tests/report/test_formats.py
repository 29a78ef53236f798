import csv
import io

import pytest
from made_up_run import Source

from test_predict import uraenas
from uraenas.errors import UraenasError
from uraenas.report import COLUMNS, formats, table


@pytest.fixture
def rows(demo: Source) -> list[dict]:
    return demo[0].read_json("metrics.json")["rows"]


def test_markdown_is_the_table(rows: list[dict]) -> None:
    lines = formats.write("md", {"demo": rows}).splitlines()
    assert lines[0] == "| Method | Members | Acc | ECE | NLL | cAcc | cECE | cNLL | Dis |"
    assert lines[1] == "| --- |" + " ---: |" * 8
    cells = [cell.strip(" *") for cell in lines[3].strip("|").split("|")]
    line = table(rows)[1]
    shown = [column.show(value) for column, value in zip(COLUMNS, line.values, strict=True)]
    assert cells[:8] == [line.method, str(line.members), *shown]
    assert formats.write("md", {"demo": rows}).count("**") >= 2 * len(COLUMNS)


def test_intervals_are_there_when_asked_for(rows: list[dict]) -> None:
    plain, full = (formats.write("latex", {"demo": rows}, intervals=asked) for asked in (False, True))
    low, high = table(rows)[0].intervals[0] or (0.0, 0.0)
    assert f"[{100 * low:.2f}, {100 * high:.2f}]" in full
    assert "scriptsize" not in plain


def test_csv_has_full_precision(rows: list[dict]) -> None:
    text = formats.write("csv", {"a": rows, "b": rows}, calibration="temperature", intervals=True)
    found = list(csv.DictReader(io.StringIO(text)))
    assert [line["run"] for line in found] == ["a"] * 3 + ["b"] * 3
    line = table(rows, "temperature")[1]
    assert float(found[1]["nll"]) == line.values[2]
    assert (float(found[1]["shifted_ece_low"]), float(found[1]["shifted_ece_high"])) == line.intervals[4]
    assert found[0]["disagreement"] == ""


def test_latex_is_balanced_and_escaped(rows: list[dict]) -> None:
    text = formats.write("latex", {"run_1 & 50%": rows, "b": rows})
    assert text.count("{") == text.count("}")
    assert r"run\_1 \& 50\%" in text
    assert text.splitlines()[0] == r"\begin{tabular}{llrrrrrrrr}"
    assert r"Acc $\uparrow$ & ECE $\downarrow$" in text


def test_differences_to_any_method(demo: Source) -> None:
    run = demo[0]
    done = uraenas("report", run.path, "--format", "csv", "--against", "drnas")
    found = {line["method"]: line for line in csv.DictReader(io.StringIO(done.stdout))}
    assert set(found) == {"uraenas", "deep-ensemble"}
    (row,) = [
        row
        for row in run.read_json("metrics.json")["differences"]
        if (row["method"], row["baseline"], row["metric"]) == ("uraenas", "drnas", "nll")
        and (row["shift"], row["calibration"]) == ("none", "raw")
    ]
    ends = [float(found["uraenas"][name]) for name in ("nll_low", "nll", "nll_high")]
    assert ends == [row["low"], row["value"], row["high"]]
    refused = uraenas("report", run.path, "--format", "csv", "--against", "drnass")
    assert refused.returncode == 2
    assert "Did you mean 'drnas'" in refused.stderr


def test_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UraenasError, match="latex"):
        formats.write("latx", {})
