"""How objects show themselves in a REPL and in a notebook, and how wide tables are where they are piped."""

import io
import runpy
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_run import MakeRun
from rich.console import Console

from uraenas.base.errors import UraenasError
from uraenas.cli import looking, printing
from uraenas.cli.screen import lines_of
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.show import summary
from uraenas.spaces import Genotype

CELL = "|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|nor_conv_1x1~1|avg_pool_3x3~2|"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Run:
    """A finished run whose name needs quoting."""
    return Run(shutil.copytree(finished_run, tmp_path / "a <run>"))


def parsed(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{html}</div>")


def test_a_genotype_can_be_typed_again() -> None:
    genotype = Genotype.from_string(CELL)
    assert repr(genotype) == f"Genotype.from_string('{CELL}')"
    assert eval(repr(genotype)) == genotype
    assert str(genotype) == CELL


def test_a_genotype_is_drawn_with_its_operations() -> None:
    page = parsed(Genotype.from_string(CELL)._repr_html_())
    (drawing,) = page.iter(f"{SVG}svg")
    words = [text.text for text in drawing.iter(f"{SVG}text")]
    assert sorted(words) == sorted(["3×3 conv", "skip", "1×1 conv", "3×3 pool", *"0123"])
    curves = list(drawing.iter(f"{SVG}path"))
    assert all(curve.get("stroke", "").startswith("#") and curve.get("fill") == "none" for curve in curves)
    faint = [curve for curve in curves if curve.get("opacity")]
    assert len(curves) == 4
    assert len(faint) == 1, "nothing reaches node 2, so the pool from it leads nowhere"
    assert page.findtext(".//code") == CELL


def test_the_demo_is_shown_on_one_screen(make_own_run: MakeRun) -> None:
    methods = preset("digits").methods
    run, _ = make_own_run("digits", methods=methods, members=6)
    metrics = run.metrics()
    single = [row for row in metrics.rows if row.method == "drnas"]
    references = [row._replace(method=name) for name in ("logistic", "forest") for row in single]
    temperatures = {**metrics.temperatures, "logistic": 1.0, "forest": 1.0}
    shown = replace(metrics, rows=[*metrics.rows, *references], temperatures=temperatures)
    run.write_outcome(shown, run.replicates())
    (run.path / "log.jsonl").write_text('{"time": 1.0e9}\n{"time": 1.1e9}\n')
    screen = io.StringIO()
    Console(file=screen, width=80).print(lines_of(Path("runs/digits"), summary(run.path)))
    lines = screen.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in (*methods, "forest"))
    assert "  one member: drnas" in lines
    assert "  6 members of 6 chains, 1 architecture: uraenas-w, deep-ensemble, snapshot" in lines


def test_runs_in_a_list_fold_between_the_parts_of_their_names(
    make_own_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_own_run("a-run-with-a-rather-long-name-of-seed-10")
    make_own_run("one_whose_parts_are_" + "endless" * 5)
    searched, _ = make_own_run("searched")
    searched.remove("metrics.json")
    shutil.rmtree(searched.path / "methods")
    monkeypatch.setattr(looking, "console", Console(width=80))
    looking.show(tmp_path)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert max(map(len, lines)) <= 80
    assert [line.split("  ")[0].strip() for line in lines] == [
        "a-run-with-a-rather-long-",
        "name-of-seed-10",
        "one_whose_parts_are_",
        "endlessendlessendlessendle",
        "ssendless",
        "searched",
    ]
    assert "searched" in lines[-1].split()[1:]


def test_of_a_directory_of_runs_those_with_metrics_are_reported(
    make_own_run: MakeRun, tmp_path: Path, uraenas: Callable
) -> None:
    for name in ("a", "b", "searched"):
        run, _ = make_own_run(name)
    run.remove("metrics.json")
    out = tmp_path / "page.html"
    told = uraenas("report", tmp_path, "--out", out)
    assert told.returncode == 0, told.stderr
    assert "left out, as they hold no metrics yet: searched" in told.stderr
    assert 'data-runs="a, b"' in out.read_text(encoding="utf-8")
    assert uraenas("report", tmp_path, "--format", "md").stdout.count("| uraenas |") == 2
    for name in ("a", "b"):
        Run(tmp_path / name).remove("metrics.json")
    refused = uraenas("report", tmp_path)
    assert refused.returncode == 2
    assert f"no run in {tmp_path} holds metrics yet" in refused.stderr


def test_an_ensemble_shows_its_members(run: Run) -> None:
    ensemble = run.ensemble("uraenas")
    functions = len(set(ensemble.functions))
    assert f"2 members, {functions} distinct architectures, 10 classes" in repr(ensemble)
    page = parsed(ensemble._repr_html_())
    assert "takes images of 8 × 8 × 1" in (page.findtext("p") or "")
    cells = [group for group in page.iter(f"{SVG}g") if group.get("class") == "cell-graph"]
    assert len(cells) == len({member.architecture for member in ensemble.members})


def test_a_run_says_how_far_it_has_come(run: Run, tmp_path: Path) -> None:
    assert repr(run) == f"Run({str(run.path)!r}, searched, 3 methods trained, evaluated, reported)"
    table = [[cell.text for cell in row] for row in parsed(run._repr_html_()).iter("tr")]
    distinct = len({member.function for member in run.member_facts("uraenas")})
    assert table == [
        ["Method", "Members", "Distinct architectures"],
        ["deep-ensemble", "2", "1"],
        ["drnas", "1", "1"],
        ["uraenas", "2", str(distinct)],
    ]
    for name in ("report.html", "metrics.json"):
        run.remove(name)
    for name in ("drnas", "uraenas"):
        shutil.rmtree(run.members_folder(name))
    assert repr(run).endswith("searched, 1 method trained)")
    begun = Run(tmp_path / "begun")
    assert repr(begun).endswith("not begun)")
    begun.write_config(run.config())
    assert repr(begun).endswith("begun', begun)")
    assert "<table" not in begun._repr_html_()


def test_a_damaged_member_is_named_and_a_repr_still_works(run: Run) -> None:
    run.write_text("methods/uraenas/members/000.safetensors", "not a tensor")
    with pytest.raises(UraenasError, match=r"000\.safetensors is damaged"):
        run.member_facts("uraenas")
    run.write_text("methods/uraenas/members/ensemble.json", "{")
    assert "3 methods trained" in repr(run)


@pytest.mark.parametrize(("columns", "width"), [("", 200), ("70", 70)])
def test_tables_in_a_pipe_are_not_cut(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stdout", io.StringIO())  # no terminal
    assert runpy.run_path(printing.__file__)["console"].width == width
