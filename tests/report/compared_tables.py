"""What stands in the tables of a page of several runs, by their captions."""

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compared_runs import Column, Compared, Line, minus_by_shift, of_members, spent
from made_up_run import SHIFTS
from page_and_files import CALIBRATIONS, Case, shown, signed
from reading_html import Page

KINDS = dict(zip(("as predicted", "temperature-scaled on held-out data"), CALIBRATIONS, strict=True))
RISKS = (0.01, 0.02, 0.05)
NAMED = 3  # shifts in a row


def rows(page: Page, at: int) -> list[tuple[list[str], list[str], list[str]]]:
    """Lines of a table below its header: words, what is small beneath, and marks."""
    return list(zip(page.tables[at][1:], page.small[at][1:], page.marks[at][1:], strict=True))


def check_first_cells(compared: Compared, lines: list[Line], page: Page, at: int) -> None:
    """Which methods, and of which runs."""
    told = [(line[0], small[0].split(";")[0]) for line, small, _ in rows(page, at)]
    assert told == [(line.method, compared.runs_of(line)) for line in lines]


def without_percent(metric: str, value: float) -> str:
    return shown(metric, value).removesuffix(" %")


def check_values(compared: Compared, page: Page, at: int, words: str) -> None:
    kind = KINDS[words]
    check_first_cells(compared, compared.lines, page, at)
    assert page.tables[at][0] == ["Method", "Members", *(column.title for column in compared.columns)]
    for own, (line, small, marks) in zip(compared.lines, rows(page, at), strict=True):
        assert line[1] == str(compared.size(own))
        told = zip(compared.columns, line[2:], small[2:], marks[2:], strict=True)
        for column, value, beneath, mark in told:
            if not compared.knows(own, column):
                assert (value, beneath, mark) == ("–", "", "")
                continue
            place = {"metric": column.metric, "shift": column.shift, "calibration": kind}
            found = compared.values(own, **place)
            assert value == without_percent(column.metric, statistics.fmean(found))
            if len(found) > 1:
                assert beneath == f"± {without_percent(column.metric, statistics.stdev(found))}"
            else:
                row = compared.cases[own.runs].row(own.method, **place)
                known = [row[end] for end in ("low", "high") if end in row]  # widths have no interval
                ends = [without_percent(column.metric, end) for end in known]
                assert beneath == " – ".join(ends)
            expected = compared.standing(column, kind)[own] if column in compared.judged else ""
            assert mark == expected.replace("worse", "")


def check_differences(compared: Compared, page: Page, at: int, to: str, words: str) -> None:
    assert compared.baseline is not None
    assert to == compared.name(compared.baseline)
    others = [line for line in compared.lines if line != compared.baseline]
    check_first_cells(compared, others, page, at)
    assert page.tables[at][0] == ["Method", *(column.title for column in compared.judged)]
    for own, (line, small, marks) in zip(others, rows(page, at), strict=True):
        for column, *told in zip(compared.judged, line[1:], small[1:], marks[1:], strict=True):
            found = compared.minus(own, compared.baseline, column, KINDS[words])
            ends = " – ".join(signed(column.metric, end) for end in (found.low, found.high))
            verdict = found.verdict(column.metric)
            mark = f"{verdict} one-seed" if verdict and found.pairs == 1 else verdict
            assert told == [signed(column.metric, found.value), ends, mark]


def check_extremes(compared: Compared, page: Page, at: int) -> None:
    others = [line for line in compared.lines if line != compared.baseline]
    check_first_cells(compared, others, page, at)
    for own, (line, _, _) in zip(others, rows(page, at), strict=True):
        cells = minus_by_shift(compared, own, "nll")
        means = {s: statistics.fmean(v for (shift, _), v in cells.items() if shift == s) for s in SHIFTS}
        order = sorted(means, key=means.__getitem__)
        words = [f"{shift} {signed('nll', means[shift])}".replace("_", " ") for shift in order]
        named = min(NAMED, len(order) // 2)
        ends = [", ".join(some[:named]).replace("\u00a0", " ") for some in (words, words[::-1])]
        lower = sum(value < 0 for value in means.values())
        told = [cell.replace("\u00a0", " ") for cell in line[1:]]
        assert told == [f"{lower} of {len(means)}", *ends]


def check_costs(compared: Compared, page: Page, at: int) -> None:
    check_first_cells(compared, compared.trained, page, at)
    for own, (line, _, _) in zip(compared.trained, rows(page, at), strict=True):
        seconds, examples = spent(compared, own, "seconds"), sum(spent(compared, own, "images"))
        chains = max(len(compared.cases[run].chains(own.method)) for run in own.runs)
        parameters, operations = (
            of_members(compared, own, amount) for amount in ("parameters", "operations")
        )
        assert line[1:6] == [
            str(compared.size(own)),
            str(chains),
            f"{seconds[0]:,.1f}",
            f"{seconds[1]:,.1f}",
            f"{examples:,.0f}",
        ]
        assert line[6:8] == [f"{parameters:,}", f"{4 * parameters / 1e6:,.1f}"]
        assert in_full(line[8]) == pytest.approx(operations, rel=5.1e-3)


def in_full(words: str) -> float:
    number, _, unit = words.replace(",", "").partition(" ")
    return float(number) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit]


def check_abstaining(compared: Compared, page: Page, at: int) -> None:
    check_first_cells(compared, compared.lines, page, at)
    percents = [f"Answered at {100 * risk:g} % risk" for risk in RISKS]
    assert page.tables[at][0] == ["Method", *percents, "AURC", "cAURC"][: 4 + len(compared.places)]
    for own, (line, small, _) in zip(compared.lines, rows(page, at), strict=True):
        for risk, *told in zip(RISKS, line[1:4], small[1:4], strict=True):
            if any(own.method not in compared.cases[run].probabilities for run in own.runs):
                low, high = left_open(*(compared.mean(own, m) for m in ("accuracy", "aurc")), risk)
                ends = [f"{100 * end:.1f}" for end in (low, high)]
                assert told == [f"{' – '.join(dict.fromkeys(ends))} %", ""]
                continue
            shares = [answered_at(compared.cases[run], own.method, risk) for run in own.runs]
            spread = f"± {100 * statistics.stdev(shares):.1f}" if len(shares) > 1 else ""
            assert told == [f"{100 * statistics.fmean(shares):.1f} %", spread]
        for (words, shift), *told in zip(compared.places.items(), line[4:], small[4:], strict=True):
            if not compared.knows(own, Column("aurc", words, shift)):
                assert told == ["–", ""]
                continue
            areas = compared.values(own, "aurc", shift)
            spread = f"± {statistics.stdev(areas):.4f}" if len(areas) > 1 else ""
            assert told == [f"{statistics.fmean(areas):.4f}", spread]


def answered_at(case: Case, method: str, risk: float) -> float:
    """The largest share of the most confident predictions of which at most this share is wrong."""
    mean = case.probabilities[method].mean(axis=0)
    wrong = (mean.argmax(axis=1) != case.labels)[np.argsort(-mean.max(axis=1), kind="stable")]
    within = (wrong.cumsum() / np.arange(1, len(wrong) + 1) <= risk).nonzero()[0]
    return (within[-1] + 1) / len(wrong) if len(within) else 0.0


def left_open(accuracy: float, area: float, risk: float) -> tuple[float, float]:
    """Between which shares the answered one lies, as test_compared proves by examples."""
    if 1 - accuracy <= risk:
        return 1.0, 1.0
    most = accuracy / (1 - risk)
    return max(0.0, most - (area - 1 + most - accuracy * math.log(most)) / risk), most


def check_thresholds(compared: Compared, page: Page, at: int) -> None:
    """Of methods that have held-out rows apart, the thresholds that uraenas predict has."""
    check_first_cells(compared, compared.trained, page, at)
    for own, (line, small, _) in zip(compared.trained, rows(page, at), strict=True):
        for risk, *told in zip(RISKS, line[1:], small[1:], strict=True):
            confidences, answered, wrong, sure = [], 0, 0, True
            for case in (compared.cases[run] for run in own.runs):
                found = case.source[0].known(own.method).held_out.threshold(risk, share=0)
                confidences.append(f"{found.confidence:.3f}" if found.passing else "never")
                sure &= bool(found.certainty)
                mean = case.probabilities[own.method].mean(axis=0)
                scaled = mean ** (1 / case.file("metrics.json")["temperatures"][own.method])
                kept = (scaled / scaled.sum(axis=1, keepdims=True)).max(axis=1) >= found.confidence
                answered += kept.sum()
                wrong += (mean.argmax(axis=1) != case.labels)[kept].sum()
            words = " – ".join(dict.fromkeys(sorted(confidences)))
            of_these = f", {100 * wrong / answered:.1f} % wrong" if answered else ""
            share = f"{100 * answered / (len(own.runs) * compared.images):.1f} %{of_these}"
            assert told == [words if sure else f"≈ {words}", share]


def settings(case: Case) -> dict[str, Any]:
    stored = {**case.file("config.json"), **case.file("metrics.json")["settings"]}
    return {key: value for key, value in stored.items() if key not in ("format", "run")}


def in_words(value: Any, comma: str = ",") -> str:
    if isinstance(value, list):
        return comma.join(map(in_words, value))
    words = str(value).lower() if isinstance(value, bool) else str(value)
    return "not used" if value is None else words or "(empty)"


def check_settings_that_differ(compared: Compared, page: Page, at: int) -> None:
    assert page.tables[at][0] == ["Setting", *compared.cases]
    every = [settings(case) for case in compared.cases.values()]
    keys = dict.fromkeys(key for one in every for key in one)
    values = {key: [one.get(key) for one in every] for key in keys}
    differing = {
        key: [in_words(value, ", ") for value in found]
        for key, found in values.items()
        if len({str(value) for value in found if value is not None}) > 1
    }
    assert {line[0]: line[1:] for line, _, _ in rows(page, at)} == differing


def check_settings_of_some(compared: Compared, page: Page, at: int) -> None:
    every = {name: settings(case) for name, case in compared.cases.items()}
    keys = dict.fromkeys(key for one in every.values() for key in one)
    found: dict[str, list[str]] = {}
    for key in keys:
        having = {name: one[key] for name, one in every.items() if one.get(key) is not None}
        if 0 < len(having) < len(every) and len(set(map(str, having.values()))) == 1:
            words = f"{key}\u00a0{in_words(next(iter(having.values())))}"
            found.setdefault(", ".join(having), []).append(words)
    assert {line[0]: line[1] for line, _, _ in rows(page, at)} == {k: ", ".join(v) for k, v in found.items()}


KIND = f"({'|'.join(KINDS)})"
TABLES: dict[str, Callable[..., None]] = {  # by their captions
    rf"Methods of all runs, {KIND}\. n = .+": check_values,
    rf"Differences to (.+?), {KIND}: .+": check_differences,
    "NLL minus that of .+": check_extremes,
    "Seconds on .+": check_costs,
    "As predicted, n = .+": check_abstaining,
    "From which confidence to answer: .+": check_thresholds,
    r"Settings that differ\.": check_settings_that_differ,
    "Settings of methods that only some runs have: .+": check_settings_of_some,
}
