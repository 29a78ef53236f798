import csv
import io
import re
import shutil
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up_run import MakeRun, Source
from reading_html import taken_apart

from uraenas import report
from uraenas.base.errors import UraenasError
from uraenas.evaluation import Row
from uraenas.report import COLUMNS, Picked, alike, formats, table
from uraenas.report.formats import Contents
from uraenas.report.seeds import why_no_mean
from uraenas.run import task
from uraenas.run.config import override
from uraenas.run.directory import Run
from uraenas.run.pairing import differences
from uraenas.shifts import SHIFTS, SUITES

Command = Callable[..., Any]


@pytest.fixture
def rows(demo: Source) -> list[Row]:
    return demo[0].metrics().rows


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_markdown_is_the_table(rows: list[Row]) -> None:
    lines = formats.write("md", [("demo", rows)], Contents()).splitlines()
    assert lines[0] == "| Method | Members | Acc | ECE | NLL | cAcc | cECE | cNLL | Dis |"
    assert lines[1] == "| --- |" + " ---: |" * 8
    cells = [cell.strip(" *") for cell in lines[3].strip("|").split("|")]
    line = table(rows)[1]
    shown = [column.show(value) for column, value in zip(COLUMNS, line.values, strict=True)]
    assert cells[:8] == [line.method, str(line.members), *shown]
    assert formats.write("md", [("demo", rows)], Contents()).count("**") >= 2 * len(COLUMNS)


@pytest.mark.parametrize(("calibration", "known"), [("raw", True), ("temperature", True), ("views", False)])
def test_members_disagree_as_they_predict_with_and_without_a_temperature_not_with_views(
    rows: list[Row], calibration: str, known: bool
) -> None:
    viewed = [row._replace(calibration="views") for row in rows if row.metric == "accuracy"]
    assert any(line.disagreement is not None for line in table([*rows, *viewed], calibration)) == known


@pytest.mark.parametrize(("form", "bold"), [("md", "**0.123**"), ("latex", "\\textbf{0.123}")])
def test_values_that_print_alike_are_bold_alike(form: str, bold: str) -> None:
    values = {"a": 0.12301, "b": 0.12302, "c": 0.2}
    rows = [Row(name, "x", "none", 0, "nll", value, 1, "raw", 0) for name, value in values.items()]
    assert formats.write(form, [("demo", rows)], Contents()).count(bold) == 2


def test_intervals_are_there_when_asked_for(rows: list[Row]) -> None:
    plain, full = (
        formats.write("latex", [("demo", rows)], Contents(intervals=asked)) for asked in (False, True)
    )
    low, high = table(rows)[0].intervals[0] or (0.0, 0.0)
    assert f"[{100 * low:.2f}, {100 * high:.2f}]" in full
    assert "scriptsize" not in plain


def test_the_mean_over_the_main_corruptions_when_asked_for(make_run: MakeRun, uraenas: Command) -> None:
    run = make_run(shifts=SUITES["cifar10-c"], severities=(1,))[0]
    found = {}
    for arguments in ((), ("--shifted", "mean15"), ("--shifted", "mean19")):
        done = uraenas("report", run.path, "--format", "csv", *arguments)
        found[arguments] = read_csv(done.stdout)[0]
    wide, main, same = found.values()
    assert wide == same
    assert (main["nll"], main["shifted_nll"] != wide["shifted_nll"]) == (wide["nll"], True)
    values = [
        row.value
        for row in run.metrics().rows
        if (row.method, row.metric, row.calibration) == (main["method"], "nll", "raw")
        and row.shift in SUITES["cifar10-c"]
        and not SHIFTS[row.shift].extra
    ]
    assert float(main["shifted_nll"]) == pytest.approx(statistics.fmean(values))
    assert len(values) == 15
    unknown = uraenas("report", run.path, "--format", "md", "--shifted", "mean16")
    assert (unknown.returncode, "Allowed: mean15, mean19" in unknown.stderr) == (2, True)
    assert "--format md" in uraenas("report", run.path, "--shifted", "mean15").stderr
    clean = make_run("clean", shifts=())[0]
    assert "it has no suite" in uraenas("report", clean.path, "--format", "md", "--shifted", "mean15").stderr


def test_csv_has_full_precision(rows: list[Row]) -> None:
    text = formats.write(
        "csv", [("a", rows), ("b", rows)], Contents(calibration="temperature", intervals=True)
    )
    found = read_csv(text)
    assert [line["run"] for line in found] == ["a"] * 3 + ["b"] * 3
    line = table(rows, "temperature")[1]
    assert float(found[1]["nll"]) == line.values[2]
    assert (float(found[1]["shifted_ece_low"]), float(found[1]["shifted_ece_high"])) == line.intervals[4]
    assert found[0]["disagreement"] == ""


def test_latex_is_balanced_and_escaped(rows: list[Row]) -> None:
    text = formats.write("latex", [("run_1 & 50%", rows), ("b", rows)], Contents())
    assert text.count("{") == text.count("}")
    assert r"run\_1 \& 50\%" in text
    assert text.splitlines()[0] == r"\begin{tabular}{llrrrrrrrr}"
    assert r"Acc $\uparrow$ & ECE $\downarrow$" in text


def test_a_calibration_that_was_not_measured_makes_no_table_of_dashes(demo: Source, uraenas: Command) -> None:
    done = uraenas("report", demo[0].path, "--format", "md", "--calibration", "views")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing was measured with views" in done.stderr
    assert "--set evaluate.test_time=views" in done.stderr


def test_how_many_intervals_hold_has_no_better_side() -> None:
    values = {"rmse": (-0.3, -0.4, -0.2), "coverage90": (-0.2, -0.3, -0.1)}
    rows = [
        Row("a", "x", "none", 0, metric, value, 1, "raw", 0, low, high, "b")
        for metric, (value, low, high) in values.items()
    ]
    header, _, line = formats.write("md", [("demo", rows)], Contents(against="b")).splitlines()
    assert header.startswith("| Method - b | Members | RMSE | MAE | CRPS | NLL | In 90 % |")
    assert line.count("**") == 2
    assert "| **-0.300** (" in line
    titles = formats.write("latex", [("demo", rows)], Contents()).splitlines()[2]
    assert r"NLL $\downarrow$ & In 90 \% & Width 90 \% & Dis" in titles


@pytest.mark.parametrize("calibration", ["raw", "temperature"])
def test_differences_to_any_method(demo: Source, uraenas: Command, calibration: str) -> None:
    run = demo[0]
    done = uraenas("report", run.path, "--format", "csv", "--against", "drnas", "--calibration", calibration)
    found = {line["method"]: line for line in read_csv(done.stdout)}
    assert set(found) == {"uraenas", "deep-ensemble"}
    for row in differences(run, "drnas"):
        name = {"none": "", "mean2": "shifted_"}.get(row.shift, "?") + row.metric
        if row.calibration == calibration and name in found["uraenas"]:
            line = found[row.method]
            ends = [float(line[key]) for key in (f"{name}_low", name, f"{name}_high")]
            assert ends == [row.low, row.value, row.high], name
            assert line["minus"] == "drnas"


def test_differences_have_signs_and_are_bold_where_they_are_better(demo: Source) -> None:
    rows = differences(demo[0], "drnas")
    lines = formats.write("md", [("demo", rows)], Contents(against="drnas")).splitlines()
    assert lines[0] == "| Method - drnas | Members | Acc | ECE | NLL | cAcc | cECE | cNLL |"
    for line, words in zip(table(rows), lines[2:], strict=True):
        for column, interval, cell in zip(COLUMNS, line.intervals, words.split(" | ")[2:], strict=True):
            low, high = interval or (0.0, 0.0)
            assert ("**" in cell) == (low > 0 if column.larger_is_better else high < 0)
            assert cell.strip("*")[0] in "+-"
    assert r"Method $-$ drnas & Members" in formats.write(
        "latex", [("demo", rows)], Contents(against="drnas")
    )


def test_why_there_are_no_differences(make_run: MakeRun, demo: Source, uraenas: Command) -> None:
    assert differences(make_run(methods=("drnas",), members=1)[0], "drnas") == []
    with pytest.raises(UraenasError, match="bootstrap was switched off"):
        differences(make_run(bootstrap=0)[0], "drnas")
    done = uraenas("report", demo[0].path, "--format", "csv", "--against", "drnass")
    assert done.returncode == 2
    assert "Did you mean 'drnas'" in done.stderr


def test_differences_to_a_method_of_another_run(demo: Source, make_run: MakeRun, uraenas: Command) -> None:
    run, (other, _) = demo[0], make_run("other", methods=("uraenas", "deep-ensemble"), members=4)
    to = f"{other.path}:deep-ensemble"
    done = uraenas("report", run.path, other.path, "--format", "csv", "--against", to)
    assert done.returncode == 0, done.stderr
    found = {(line["run"], line["method"]): line for line in read_csv(done.stdout)}
    by_name = uraenas("report", run.path, other.path, "--format", "csv", "--against", "other:deep-ensemble")
    assert by_name.stdout == done.stdout
    mine, theirs = str(run.path), str(other.path)
    assert set(found) == {
        *((mine, name) for name in ("drnas", "uraenas", "deep-ensemble")),
        (theirs, "uraenas"),  # the baseline itself is left out
    }
    values = [
        {line.method: line.values[2] for line in table(source.metrics().rows)} for source in (run, other)
    ]
    for (where, name), line in found.items():
        value = values[where == theirs][name]
        assert float(line["nll"]) == pytest.approx(value - values[1]["deep-ensemble"], abs=1e-9)
        assert float(line["nll_low"]) < float(line["nll_high"])
        assert line["minus"] == to
    pairs = zip(differences(run, "drnas"), differences(run, f"{run.path}:drnas"), strict=True)
    for within, itself in pairs:
        assert within.low == pytest.approx(itself.low, abs=1e-6)  # replicates are kept in single precision
        same = {"low": 0.0, "high": 0.0, "baseline": ""}
        assert within._replace(**same) == itself._replace(**same)


def test_suite_means_over_other_severities_are_not_paired(demo: Source, make_run: MakeRun) -> None:
    other, _ = make_run("other", severities=(3,))
    found = differences(demo[0], f"{other.path}:drnas")
    assert {row.shift for row in found} == {"none"}


def test_why_two_runs_cannot_be_paired(
    demo: Source, make_run: MakeRun, make_own_run: MakeRun, uraenas: Command
) -> None:
    run = demo[0]
    with pytest.raises(UraenasError, match=r"evaluate\.bootstrap differs"):
        differences(run, f"{make_run('fewer', bootstrap=10)[0].path}:drnas")
    with pytest.raises(UraenasError, match="switched off"):
        differences(run, f"{make_run('none', bootstrap=0)[0].path}:drnas")
    with pytest.raises(UraenasError, match="Did you mean 'drnas'"):
        differences(run, f"{run.path}:drnass")
    with pytest.raises(UraenasError, match="is not a run directory"):
        differences(run, "nowhere:drnas")
    for words in (":drnas", "demo:"):
        with pytest.raises(UraenasError, match="expected METHOD or RUN:METHOD"):
            differences(run, words)
    alone = make_run("alone", methods=("drnas",))[0]
    assert differences(alone, f"{alone.path}:drnas") == []
    done = uraenas("report", alone.path, "--format", "md", "--against", f"{alone.path}:drnas")
    assert (done.returncode, done.stderr.count("it is the only method")) == (2, 1)
    done = uraenas("report", run.path, alone.path, "--format", "csv", "--against", f"{alone.path}:drnas")
    assert {line["run"] for line in read_csv(done.stdout)} == {str(run.path)}
    page = report.build([(alone, None)], against=f"{alone.path}:drnas")
    assert "it is the only method" in page
    bare, _ = make_own_run("bare")
    bare.remove("bootstrap.safetensors")
    with pytest.raises(UraenasError, match=r"holds no bootstrap\.safetensors; run: uraenas evaluate"):
        differences(run, f"{bare.path}:drnas")
    elsewhere, _ = make_own_run("elsewhere")
    elsewhere.write_data(replace(elsewhere.data(), blake2b="11"))
    with pytest.raises(UraenasError, match="not measured on the same images"):
        differences(run, f"{elsewhere.path}:drnas")


def test_runs_that_learned_from_more_images_pair_on_the_same_test_images(make_own_run: MakeRun) -> None:
    """They compete, but are no seeds of one another, and the page says what each has learned from."""
    (few, _), (many, _) = make_own_run("few", seed=1), make_own_run("many", seed=2)
    few.write_data(replace(few.data(), tested="aa"))
    many.write_data(replace(few.data(), tested="aa", blake2b="11", training_images=1900))
    assert differences(many, f"{few.path}:drnas")
    picks = [Picked(few), Picked(many)]
    assert alike(picks)
    assert why_no_mean(picks) == "the runs did not learn from the same data"
    page = report.build([(few, None), (many, None)])
    told = re.search(r"training images(.*?)</tr>", page, re.DOTALL)
    assert told is not None
    assert re.findall(r"[\d,]+", re.sub(r"<[^>]*>", " ", told[1])) == ["900", "1,900"]
    many.write_data(replace(many.data(), tested="bb"))
    assert not alike([Picked(few), Picked(many)])
    with pytest.raises(UraenasError, match="not measured on the same images"):
        differences(many, f"{few.path}:drnas")


def test_held_out_images_of_two_seeds_are_not_the_same_images(make_own_run: MakeRun) -> None:
    """Nor are they the test images: nothing is paired, and n is the number of those that were measured on."""

    def held_out(name: str, seed: int) -> Run:
        run, _ = make_own_run(name, seed=seed)
        run.write_config(override(run.config(), {"evaluate.part": "held_out"}))
        found = run.metrics()
        settings = {**found.settings, "evaluate.part": "held_out"}
        run.write_outcome(replace(found, settings=settings), run.replicates())
        return run

    tested, (a, b) = make_own_run("tested", seed=1)[0], (held_out("a", 1), held_out("b", 2))
    for one, other in ((a, b), (a, tested), (tested, b)):
        with pytest.raises(UraenasError, match="not measured on the same images"):
            differences(one, f"{other.path}:drnas")
        assert "not tested on the same images" in report.build([(one, None), (other, None)])
    assert differences(a, f"{held_out('again', 1).path}:drnas")
    page = report.build([(a, None)])
    assert ("n = 100 held-out images" in page, "n = 120" in page) == (True, False)


@pytest.mark.parametrize("form", ["md", "csv", "latex"])
def test_a_table_goes_where_it_is_told(demo: Source, tmp_path: Path, uraenas: Command, form: str) -> None:
    path = demo[0].path
    done = uraenas("report", path, "--format", form, "--out", tmp_path / "table")
    assert done.stdout == f"wrote {tmp_path / 'table'}\n"
    assert (tmp_path / "table").read_text() == uraenas("report", path, "--format", form).stdout
    assert uraenas("report", path, "--format", form, "--out", "/proc/nowhere/table").returncode == 2


def test_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UraenasError, match="latex"):
        formats.write("latx", [], Contents())


def test_methods_are_picked_from_runs_and_the_best_is_the_best_of_all(demo: Source, uraenas: Command) -> None:
    path = demo[0].path
    done = uraenas("report", f"{path}:deep-ensemble,drnas", f"{path}:uraenas", "--format", "md")
    assert done.returncode == 0, done.stderr
    lines = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [line[:2] for line in lines] == [
        [str(path), name] for name in ("deep-ensemble", "drnas", "uraenas")
    ]
    for column in zip(*(line[3:9] for line in lines), strict=True):
        values = {cell.strip("*") for cell in column if cell.startswith("**")}
        assert len(values) == 1, column  # ties share it


@pytest.mark.parametrize("picked", ["nothing", "", "uraenas,nothing"])
def test_a_method_that_the_run_has_not_cannot_be_picked(demo: Source, uraenas: Command, picked: str) -> None:
    refused = uraenas("report", f"{demo[0].path}:{picked}", "--format", "md")
    assert refused.returncode == 2
    assert "Allowed: deep-ensemble, drnas, uraenas" in refused.stderr


def test_a_run_whose_name_has_a_colon(demo: Source, tmp_path: Path, uraenas: Command) -> None:
    copy = tmp_path / "a:b"
    shutil.copytree(demo[0].path, copy)
    done = uraenas("report", copy, "--format", "csv")
    assert [line["method"] for line in read_csv(done.stdout)] == demo_methods(demo)
    done = uraenas("report", f"{copy}:drnas", "--format", "csv", "--against", "uraenas")
    assert [line["method"] for line in read_csv(done.stdout)] == ["drnas"]


def bold(table: str) -> list[list[bool]]:
    """Whether Acc and cAcc are, of each line of a table of several runs."""
    lines = [line.split(" | ") for line in table.splitlines()[2:]]
    return [[line[at].startswith("**") for at in (3, 6)] for line in lines]


def test_runs_on_other_images_have_each_its_best(
    demo: Source, make_run: MakeRun, make_own_run: MakeRun, uraenas: Command
) -> None:
    """Of other shifted images too; clean ones that are the same have one best."""
    elsewhere, _ = make_own_run("elsewhere", seed=1)
    elsewhere.write_data(replace(elsewhere.data(), blake2b="11"))
    milder, unshifted = (
        make_run("other", seed=1, **kind)[0] for kind in ({"severities": (3,)}, {"shifts": ()})
    )
    drawn = {}
    for other in (elsewhere, milder, unshifted):
        done = uraenas("report", f"{demo[0].path}:drnas", f"{other.path}:drnas", "--format", "md")
        drawn[other.path] = list(zip(*bold(done.stdout), strict=True))
    assert drawn[elsewhere.path] == [(True, True), (True, True)]
    clean, shifted = drawn[milder.path]
    assert (sorted(clean), shifted) == ([False, True], (True, True))
    clean, shifted = drawn[unshifted.path]
    assert (sorted(clean), shifted) == ([False, True], (True, False))


def test_a_table_needs_the_metrics_alone(demo: Source, tmp_path: Path, uraenas: Command) -> None:
    shutil.copy(demo[0].path / "config.json", tmp_path)
    shutil.copy(demo[0].path / "metrics.json", tmp_path)
    done = uraenas("report", tmp_path, "--format", "csv")
    assert [line["method"] for line in read_csv(done.stdout)] == demo_methods(demo)


def test_a_page_of_some_methods_is_written_here(
    own_run: Path, tmp_path: Path, uraenas: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = (own_run / "report.html").read_text()
    assert uraenas("report", f"{own_run.name}:drnas,uraenas").returncode == 0
    assert (own_run / "report.html").read_text() == whole
    page = taken_apart(Path("report.html").read_text())
    assert [line[0] for line in page.tables[0][1:]] == ["drnas", "uraenas"]


def demo_methods(demo: Source) -> list[str]:
    return [line.method for line in table(demo[0].metrics().rows)]


def test_mean_and_spread_over_seeds(make_run: MakeRun, uraenas: Command) -> None:
    a, b, c = (
        make_run(name, seed=seed, methods=methods)[0]
        for seed, (name, methods) in enumerate(
            {"a": ("drnas", "uraenas"), "b": ("drnas", "uraenas"), "c": ("uraenas",)}.items()
        )
    )
    done = uraenas("report", a.path, b.path, c.path, "--format", "csv", "--over-seeds")
    assert done.returncode == 0, done.stderr
    found = {line["method"]: line for line in read_csv(done.stdout)}
    values = {name: [] for name in ("drnas", "uraenas")}
    for run in (a, b, c):
        for line in table(run.metrics().rows):
            values[line.method].append(line.values[5])
    for name, of_method in values.items():
        assert found[name]["runs"] == str(len(of_method))
        assert float(found[name]["shifted_nll"]) == pytest.approx(statistics.fmean(of_method))
        assert float(found[name]["shifted_nll_sd"]) == pytest.approx(statistics.stdev(of_method))
    mean, spread = (f(values["uraenas"]) for f in (statistics.fmean, statistics.stdev))
    for form, sign in {"md": "±", "latex": r"$\pm$"}.items():
        words = uraenas("report", a.path, b.path, c.path, "--format", form, "--over-seeds").stdout
        (line,) = [line for line in words.splitlines() if "uraenas" in line]
        assert f"{mean:.3f}" in line.split(sign)[-3]
        assert line.split(sign)[-2].strip().startswith(f"{spread:.3f}")
    some = uraenas(
        "report", f"{a.path}:drnas,uraenas", f"{b.path}:uraenas", "--format", "csv", "--over-seeds"
    )
    alone, both = read_csv(some.stdout)
    assert (alone["method"], alone["runs"], alone["nll_sd"]) == ("drnas", "1", "")
    assert (both["method"], both["runs"], both["nll_sd"] != "") == ("uraenas", "2", True)


def change(run: Run, **settings: Any) -> Path:
    """Say that the run was made with other settings; returns where it is."""
    run.write_config(override(run.config(), {key.replace("__", "."): v for key, v in settings.items()}))
    return run.path


def test_what_a_mean_over_seeds_does_not_look_at(make_own_run: MakeRun, uraenas: Command) -> None:
    a, b = (make_own_run(name, seed=seed, shifts=())[0] for seed, name in enumerate("ab"))
    change(b, engine__device="cuda", tensorboard=True, data__root="there", train__epochs=200)  # the default
    done = uraenas("report", a.path, b.path, "--format", "md", "--over-seeds")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "uraenas" in line]
    assert [line.count(sign) for sign in "±–"] == [4, 3]  # no shifted suite; and disagreement
    change(b, train__sampling__samples=4)
    points = uraenas("report", f"{a.path}:drnas", f"{b.path}:drnas", "--format", "md", "--over-seeds")
    assert points.returncode == 0, points.stderr  # it has no samples
    done = uraenas("report", a.path, b.path, "--format", "md", "--over-seeds")
    assert "the runs of uraenas differ in more than their seed: train.sampling.samples" in done.stderr


def test_references_that_learned_from_more_images_are_no_seeds_of_one_thing(
    make_own_run: MakeRun, uraenas: Command
) -> None:
    runs = {}
    for seed, (name, method) in enumerate({"a": "drnas", "b": "drnas", "c": "uraenas"}.items()):
        run = runs[name] = make_own_run(name, seed=seed, methods=(method,), shifts=())[0]
        found = run.metrics()
        plain = [row._replace(method="logistic", members=1) for row in found.rows if row.members == 1]
        temperatures = {**found.temperatures, "logistic": 1.0}
        run.write_outcome(
            replace(found, rows=[*found.rows, *plain], temperatures=temperatures), run.replicates()
        )
    change(runs["c"], data__limit=500)

    def lines(*names: str) -> list[str]:
        page = taken_apart(report.build([(runs[name], None) for name in names]))
        return [line[0] for line in page.tables[0][1:]]

    assert lines("a", "b") == ["drnas", "logistic"]
    assert lines("a", "b", "c").count("logistic") == 2
    paths = [run.path for run in runs.values()]
    done = uraenas("report", *paths, "--format", "md", "--over-seeds")
    assert (done.returncode, "references learned from other images" in done.stderr) == (2, True)


def test_best_are_marked_among_means_of_as_many_runs(make_run: MakeRun, uraenas: Command) -> None:
    a, b = (make_run(name, seed=seed)[0] for seed, name in enumerate("ab"))
    even = uraenas("report", a.path, b.path, "--format", "md", "--over-seeds")
    uneven = uraenas("report", a.path, f"{b.path}:uraenas", "--format", "md", "--over-seeds")
    assert even.stdout.count("**") >= 2 * len(COLUMNS)
    assert "±" in uneven.stdout
    assert "**" not in uneven.stdout


def test_what_has_no_mean_over_seeds(make_run: MakeRun, make_own_run: MakeRun, uraenas: Command) -> None:
    def refused(*arguments: str | Path) -> str:
        done = uraenas("report", *arguments, "--over-seeds")
        assert done.returncode == 2
        return done.stderr

    md = ("--format", "md")
    a, b, same = (make_run(name, seed=seed)[0].path for name, seed in (("a", 0), ("b", 1), ("same", 0)))
    fewer, short = make_run("fewer", seed=2, members=2)[0].path, make_run("short", seed=3, shifts=())[0].path
    other = change(make_own_run("other", seed=4)[0], train__epochs=100)
    assert "more than their seed: train.epochs is 200 and 100" in refused(a, other, *md)
    assert "two runs of drnas have seed 0" in refused(a, b, same, *md)
    assert "uraenas has 2 and 3 members" in refused(a, fewer, *md)
    assert "not tested on the same data" in refused(a, short, *md)
    assert "no method has runs of several seeds" in refused(f"{a}:drnas", f"{b}:uraenas", *md)
    for more in (("--intervals",), ("--against", "drnas")):
        assert "leave out --against and --intervals" in refused(a, b, "--format", "csv", *more)
    assert "--format md, csv or latex" in refused(a, b)


def test_a_page_is_made_without_images_that_are_not_at_hand(make_own_run: MakeRun, uraenas: Command) -> None:
    kept, left = make_own_run("kept")[0], make_own_run("left", keep_predictions=False)[0]
    for run in (kept, left):
        change(run, data__name="moved/away")
    done = uraenas("report", kept.path)
    assert done.returncode == 0, done.stderr
    assert "is without what needs its test data" in done.stderr
    assert "moved/away, which is not there" in done.stderr
    assert "the test set is not at hand" in (kept.path / "report.html").read_text()
    quiet = uraenas("report", left.path)  # it would not need them
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert not (left.path / "lock").exists()


def test_a_page_of_several_runs_loads_their_images_and_reads_their_metrics_once(
    finished_run: Path, uraenas: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, read = [], []
    load, metrics = task.load_from_settings, Run.metrics
    monkeypatch.setattr(task, "load_from_settings", lambda data: loaded.append(data.name) or load(data))
    monkeypatch.setattr(Run, "metrics", lambda run: read.append(run.path.name) or metrics(run))
    other = shutil.copytree(finished_run, tmp_path / "other")
    page = tmp_path / "page.html"
    done = uraenas("report", finished_run, other, "--against", "drnas", "--out", page)
    assert (done.returncode, done.stderr) == (0, "")
    assert loaded == ["digits"]
    assert read == [finished_run.name, "other"]
    assert "Differences to drnas" in page.read_text()
