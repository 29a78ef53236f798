"""How objects show themselves in a REPL and in a notebook, and how wide tables are where they are piped."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from uraenas.architecture.dirichlet import uniform
from uraenas.config import override, preset
from uraenas.base.errors import UraenasError
from uraenas.run import Run
from uraenas.spaces import NODES, Genotype
from uraenas.stages import Pipeline

CELL = "|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|nor_conv_1x1~1|avg_pool_3x3~2|"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with trained members, not evaluated."""
    path = tmp_path_factory.mktemp("displays") / "a <run>"
    pipeline = Pipeline.start(path, override(preset("tiny"), {"methods": "random-ensemble"}))
    pipeline.train(pipeline.search())
    return pipeline.run


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
    assert sorted(words) == sorted(["3×3 conv", "skip", "1×1 conv", "3×3 pool", *map(str, range(NODES))])
    curves = list(drawing.iter(f"{SVG}path"))
    assert all(curve.get("stroke", "").startswith("#") and curve.get("fill") == "none" for curve in curves)
    faint = [curve for curve in curves if curve.get("opacity")]
    assert len(curves) == 4
    assert len(faint) == 1, "nothing reaches node 2, so the pool from it leads nowhere"
    assert page.findtext(".//code") == CELL


def test_an_ensemble_shows_its_members(run: Run) -> None:
    ensemble = run.ensemble("random-ensemble")
    distinct = len({member.genotype for member in ensemble.members})
    assert f"2 members, {distinct} distinct genotypes, 10 classes" in repr(ensemble)
    page = parsed(ensemble._repr_html_())
    assert "takes images of 8 × 8 × 1" in (page.findtext("p") or "")
    cells = [group for group in page.iter(f"{SVG}g") if group.get("class") == "cell-graph"]
    assert len(cells) == distinct


def test_a_run_says_how_far_it_has_come(run: Run, tmp_path: Path) -> None:
    assert repr(run) == f"Run({str(run.path)!r}, 1 method trained)"
    table = [[cell.text for cell in row] for row in parsed(run._repr_html_()).iter("tr")]
    distinct = len({member.genotype for member in run.member_facts("random-ensemble")})
    assert table == [["Method", "Members", "Distinct genotypes"], ["random-ensemble", "2", str(distinct)]]
    assert repr(Run(tmp_path / "nothing")).endswith("nothing', not begun)")
    assert "<table" not in Run(tmp_path / "nothing")._repr_html_()
    later = Run(tmp_path / "later")
    later.write_json("config.json", {})
    assert repr(later).endswith("begun)")
    concentration = uniform().concentration
    later.write_tensors("search/architecture.safetensors", {"concentration": concentration}, {})
    later.write_json("metrics.json", {})
    assert repr(later).endswith("searched, evaluated)")


def test_a_damaged_member_is_named_and_a_repr_still_works(run: Run, tmp_path: Path) -> None:
    broken = Run(tmp_path / "broken")
    member = broken.members_folder("uraenas") / "000.safetensors"
    broken.write_json("config.json", {})
    broken.write_text("methods/uraenas/members/000.safetensors", "not a tensor")
    broken.write_text("methods/uraenas/members/ensemble.json", "{")
    assert repr(broken).endswith("1 method trained)")
    with pytest.raises(UraenasError, match=f"{member.name} is damaged"):
        broken.member_facts("uraenas")


@pytest.mark.parametrize(("columns", "width"), [("", 200), ("70", 70)])
def test_tables_in_a_pipe_are_not_cut(columns: str, width: int) -> None:
    asked = "from uraenas.cli.printing import console; print(console.width)"
    command = [sys.executable, "-c", asked]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": columns})
    assert found.stdout.strip() == str(width)
