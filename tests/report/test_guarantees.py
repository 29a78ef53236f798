"""The page's guarantees: what stands there, counted again from the run's files by a plain loop."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up_run import Source
from reading_html import taken_apart

from uraenas import report
from uraenas.data.dataset import LabelledImages
from uraenas.ensemble.known import FILE
from uraenas.report.page import render
from uraenas.report.reading import read
from uraenas.run.config import override
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.task import prepare


@pytest.fixture(scope="module")
def run_and_test(finished_run: Path) -> tuple[Run, LabelledImages]:
    run = Run(finished_run)
    return run, prepare(run.config()).dataset.test


def test_coverage_sizes_and_risk_are_those_of_a_plain_count(run_and_test: tuple[Run, LabelledImages]) -> None:
    run, test = run_and_test
    words = taken_apart(report.build([(run, test)])).sections["guarantees"]
    known = run.known("uraenas").held_out
    p = run.ensemble("uraenas").predict_proba(test.images)
    scores = (known.before + 0.01 * known.rank)[known.apart > 0].sort().values
    quantile = float(scores[int(np.ceil((len(scores) + 1) * 0.9)) - 1])
    covered, sizes = [], []
    for row, label in zip(p, test.labels, strict=True):
        order = np.argsort(-row, kind="stable")
        inside = [k for r, k in enumerate(order) if row[order[:r]].sum() + 0.01 * r <= quantile]
        covered.append(label in inside)
        sizes.append(len(inside))
    assert f"{100 * np.mean(covered):.1f} %" in words
    assert f"{np.mean(sizes):.2f}" in words
    threshold = known.threshold(0.05, share=0)
    answered = p.max(axis=1) >= threshold.confidence
    wrong = (p.argmax(axis=1) != test.labels)[answered]
    assert (f"{wrong.sum():,} of {len(wrong):,}" if len(wrong) else "none answered") in words
    assert (f"from {threshold.confidence:.3f}" in words) == (threshold.passing > 0)
    assert known.threshold(0.01).certainty == 0
    assert "An estimate: there are too few held-out" in words
    assert "not for each" in words  # class by class is shown, not guaranteed


def test_a_comparison_says_from_which_confidence_to_answer(
    run_and_test: tuple[Run, LabelledImages], demo: Source
) -> None:
    """By run and risk, with what comes of it counted again; nothing of runs that hold none out."""
    run, test = run_and_test
    page = taken_apart(report.build([(run, test), demo]))
    places = [k for k, table in enumerate(page.tables) if "For 5 % risk" in table[0]]
    (table,), (small,) = [page.tables[k] for k in places], [page.small[k] for k in places]
    assert re.search(r"≈ 0\.\d{3}", str(table))
    assert [line[0] for line in table[1:]] == list(run.config().methods)
    for (method, *words), (_, *beneath) in zip(table[1:], small[1:], strict=True):
        p = run.ensemble(method).predict_proba(test.images)
        for risk, told, share in zip((0.01, 0.02, 0.05), words, beneath, strict=True):
            threshold = run.known(method).held_out.threshold(risk, share=0)
            answered = p.max(axis=1) >= threshold.confidence
            wrong = (p.argmax(axis=1) != test.labels)[answered]
            sure = "" if threshold.certainty else "≈ "
            assert told == sure + (f"{threshold.confidence:.3f}" if threshold.passing else "never")
            of_these = f", {100 * wrong.mean():.1f} % wrong" if len(wrong) else ""
            assert share == f"{100 * answered.mean():.1f} %{of_these}"


def test_where_members_leave_out_images_in_turn_guarantees_are_not_called_exact(
    own_run: Path, run_and_test: tuple[Run, LabelledImages]
) -> None:
    run, test = Run(own_run), run_and_test[1]
    assert "hold nearly" not in taken_apart(report.build([(run, test)])).sections["guarantees"]
    run.write_data(replace(run.data(), held_out_images=0))
    assert "hold nearly, not exactly" in taken_apart(report.build([(run, test)])).sections["guarantees"]


def test_without_what_they_rest_on_guarantees_are_left_out(demo: Source, own_run: Path, run_and_test) -> None:
    assert "left out" in taken_apart(report.build([demo])).sections["guarantees"]
    for known in own_run.glob(f"methods/*/members/{FILE}"):
        known.write_bytes(known.read_bytes()[:-10])
    page = taken_apart(report.build([(Run(own_run), run_and_test[1])]))
    assert "left out" in page.sections["guarantees"]


def test_held_out_images_are_not_called_test_images(uraenas: Callable, own_run: Path) -> None:
    on_held_out = ("--set", "evaluate.part=held_out", "--set", "evaluate.suite=none")
    done = uraenas("evaluate", own_run, *on_held_out)  # which writes the report anew
    assert done.returncode == 0, done.stderr
    data, page = Run(own_run).data(), (own_run / "report.html").read_text()
    assert f"n = {data.held_out_images:,} held-out images" in page
    assert f"n = {data.test_images:,}" not in page
    assert "Held-out images by class" in page
    words = re.findall("[^.>]*[Tt]est images[^.<]*", page)
    assert all("their score" in one or "check them" in one for one in words), (
        "what such images are, in general"
    )
    assert "on held-out data, as predicted" in uraenas("show", own_run).stdout


def test_a_page_says_how_its_numbers_were_measured_where_another_evaluation_was_cut_off(
    own_run: Path, run_and_test: tuple[Run, LabelledImages]
) -> None:
    run, test = Run(own_run), run_and_test[1]
    subsets = run.config().evaluate.subsets
    other = {"evaluate.part": "held_out", "evaluate.subsets": subsets + 4}
    Pipeline.start(own_run, override(run.config(), other))
    sections = taken_apart(report.build([(run, test)])).sections
    assert "the very images measured here" not in sections["guarantees"]
    assert f"means over up to {subsets} subsets" in sections["size"]


def test_intervals_are_not_checked_on_the_rows_they_rest_on(table_runs: dict[str, Path]) -> None:
    run = Run(table_runs["numbers"])
    test = Pipeline.resume(run.path).measured.test
    assert "Conformal intervals: share" in taken_apart(report.build([(run, test)])).sections["intervals"]
    found = run.metrics()
    held_out = replace(
        read(run, test), metrics=replace(found, settings={**found.settings, "evaluate.part": "held_out"})
    )
    words = taken_apart(render([held_out])).sections["intervals"]
    assert "Conformal intervals are left out: they rest on the very rows measured here" in words
    assert "Conformal intervals: share" not in words


def test_intervals_of_too_few_rows_are_called_unbounded(table_runs: dict[str, Path]) -> None:
    run = Run(table_runs["numbers"])
    facts = read(run, Pipeline.resume(run.path).measured.test)
    (name, known), *_ = facts.residuals.items()
    one_apart = (torch.arange(len(known)) == 0).to(known.apart.dtype)
    few = replace(facts, residuals={name: replace(known, apart=one_apart)})
    words = taken_apart(render([few])).sections["intervals"]
    assert "Unbounded: held-out rows are too few for this share" in words
    assert "width inf" not in words
