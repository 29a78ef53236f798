"""What the figures of a run's page tell, by their names; computed from the files of the run."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from made_up_run import SHIFTS
from page_and_files import METRICS, PLACES, SOURCES, Case, percent, shown, signed
from scipy.stats import norm

from uraenas.report.style import count


def check_difference(case: Case, metric: str, words: str) -> None:
    for tip in case.tips(f"difference-{metric}-{words}"):
        row = case.difference(tip[""], metric, PLACES[words], "raw")
        assert tip["difference"] == signed(metric, row["value"])
        assert tip["interval"] == f"{signed(metric, row['low'])} – {signed(metric, row['high'])}"


def check_size(case: Case, metric: str, words: str) -> None:
    for tip in case.tips(f"size-{metric}-{words}"):
        members = int(tip.pop("").split()[0])
        assert set(tip) == {name for name, most in case.trained.items() if members <= most}
        for name, told in tip.items():
            row = case.row(name, metric, PLACES[words], members=members)
            assert told.split(" (")[0] == shown(metric, row["value"])
            if 1 < members < case.sizes[name]:
                ends = " – ".join(shown(metric, row["value"] + sign * row["spread"]) for sign in (-1, 1))
                assert told.endswith(f"({ends})")


def check_severity(case: Case, metric: str, calibration: str) -> None:
    for tip in case.tips(f"severity-{metric}-{calibration}"):
        heading = tip.pop("")
        severity = 0 if heading == "clean" else int(heading.split(",")[0].split()[1])
        assert set(tip) == set(case.trained)
        for name, told in tip.items():
            values = [
                case.value(name, metric, shift, severity=severity, calibration=calibration)
                for shift in (SHIFTS if severity else ["none"])
            ]
            assert told == shown(metric, float(np.mean(values)))


def check_heat(case: Case, metric: str, method: str) -> None:
    tips = case.tips(f"heat-{metric}-{method}")
    places = {(r["shift"], r["severity"]) for r in case.rows if r["severity"] > 0}
    assert len(tips) == len(places)
    printed = case.page.texts[f"heat-{metric}-{method}"]
    for tip in tips:
        shift, severity = tip[""].replace(" ", "_").split(",_severity_")
        value = case.value(method, metric, shift, severity=int(severity))
        assert tip[method] == shown(metric, value)
        assert (f"{100 * value:.1f}" if metric == "accuracy" else f"{value:.3f}") in printed


def check_reliability(case: Case, method: str, calibration: str) -> None:
    figure = f"reliability-{method}-{calibration}"
    assert any(
        f"ECE {case.value(method, 'ece', calibration=calibration):.3f} ·" in t
        for t in case.page.texts[figure]
    )
    mean = case.probabilities[method].mean(axis=0)
    if calibration == "temperature":
        mean = mean ** (1 / case.file("metrics.json")["temperatures"][method])
        mean /= mean.sum(axis=1, keepdims=True)
    confidence, right = mean.max(axis=1), mean.argmax(axis=1) == case.labels
    bins = np.minimum(np.ceil(confidence * 15), 15)
    told = case.tips(figure)
    assert len(told) == len(np.unique(bins))
    for tip, one in zip(told, np.unique(bins), strict=True):
        inside = bins == one
        assert tip[case.examples] == f"{inside.sum():,}"
        assert tip["mean confidence"] == f"{confidence[inside].mean():.3f}"
        assert tip["accuracy"] == f"{right[inside].mean():.3f}"
        assert tip["gap"] == f"{right[inside].mean() - confidence[inside].mean():+.3f}"


def check_risk(case: Case) -> None:
    for tip in case.tips("risk-coverage"):
        coverage, answered = re.match(
            rf"coverage ([\d.]+) %, ([\d,]+) of {len(case.labels):,} {case.examples}$", tip.pop("")
        ).groups()
        answered = int(answered.replace(",", ""))
        assert coverage == f"{100 * answered / len(case.labels):.1f}"
        for name, told in tip.items():
            mean = case.probabilities[name].mean(axis=0)
            order = np.argsort(-mean.max(axis=1), kind="stable")[:answered]
            wrong = (mean.argmax(axis=1) != case.labels)[order].mean()
            assert told == (f"{percent(wrong)} %" if wrong else "0, no error")


def check_favour(case: Case) -> None:
    stored = case.source[0].read_tensors("search/architecture.safetensors")[0]
    raw = stored["raw"].numpy()
    there = stored["mask"].numpy() if "mask" in stored else np.ones_like(raw, bool)  # options of a decision
    concentration = np.where(there, np.where(raw > 0, raw + 1, np.exp(np.minimum(raw, 0))), 0)
    tips = case.tips("favour")
    assert [tip["concentration"] for tip in tips] == [f"{value:.4g}" for value in concentration[there]]
    shares = (concentration / concentration.sum(axis=1, keepdims=True))[there]
    assert [tip["expected share"] for tip in tips] == [f"{share:.4g}" for share in shares]
    expected = [tip for tip in case.page.figures["favour"] if "expected option" in tip]
    assert len(expected) == len(raw)
    for tip, row in zip(expected, concentration, strict=True):
        assert f"concentration\t{row.max():.4g}\n" in tip


def check_history(case: Case, figure: str, keys: dict[str, str]) -> None:
    rows = case.source[0].read_tensors("search/architecture.safetensors")[1].stored["history"]
    for tip, stored in zip(case.tips(figure), rows, strict=True):
        expected = {words: f"{stored[key]:.4f}" for words, key in keys.items()}
        assert tip == {"": f"after {count(stored['epoch'] + 1, 'epoch')}", **expected}


def check_disagreement(case: Case, method: str) -> None:
    figure = f"disagreement-{method}"
    mean = shown("accuracy", case.value(method, "disagreement"))
    assert any(f"mean {mean} ·" in text for text in case.page.texts[figure])
    named = case.probabilities[method].argmax(axis=2)
    for tip in case.tips(figure):
        a, b = (int(number) - 1 for number in re.findall(r"\d+", tip[""]))
        assert tip["differ on"] == shown("accuracy", (named[a] != named[b]).mean())


def check_sources(case: Case, words: str) -> None:
    for tip in case.tips(f"sources-{words}"):
        parts = {**SOURCES, "total": "total_uncertainty"}
        assert tip == {
            "": tip[""],
            **{name: f"{case.value(tip[''], metric, PLACES[words]):.4f}" for name, metric in parts.items()},
        }


def check_control(case: Case, words: str) -> None:
    for tip in case.tips(f"control-{words}"):
        told = {"architecture": "architecture_uncertainty", "by chain (control)": "chain_uncertainty"}
        for name, metric in told.items():
            assert tip[name] == f"{case.value(tip[''], metric, PLACES[words]):.4f}"


def check_pictures(case: Case, figure: str) -> None:
    mean = case.probabilities["uraenas"].mean(axis=0)
    temperature = case.file("metrics.json")["temperatures"]["uraenas"]
    classes = case.file("data.json")["classes"]
    for tip in case.tips(figure):
        image = int(tip[""].split()[-1])
        assert tip["true class"] == classes[case.labels[image]]
        scaled = mean[image] ** (1 / temperature) / (mean[image] ** (1 / temperature)).sum()
        for guess in np.argsort(-scaled)[:3]:
            assert tip[classes[guess]] == f"{scaled[guess]:.3f}"
        total = -(mean[image] * np.log(mean[image])).sum()
        parts = [float(tip[f"{source} (nats)"]) for source in SOURCES]
        assert float(tip["total (nats)"]) == pytest.approx(total, abs=6e-4)
        assert sum(parts) == pytest.approx(total, abs=2e-3)


def check_cost(case: Case, unit: str, metric: str, words: str) -> None:
    for tip in case.tips(f"cost-{unit}-{metric}-{words}"):
        method = tip[""]
        assert tip[METRICS[metric]] == shown(metric, case.value(method, metric, PLACES[words]))
        assert tip["members"] == str(case.sizes[method])
        if unit == "multiply-adds":
            members = case.source[0].member_facts(method)
            assert tip[unit] == f"{sum(m.space.cost(m.architecture).multiply_adds for m in members):,}"
            continue
        stored, name = {"examples": ("images", "examples seen")}.get(unit, (unit, unit))
        spent = case.file("cost.json")["search"][stored] + case.spent(method, stored)
        assert tip[name] == (f"{spent:,.1f}" if unit == "seconds" else f"{spent:,.0f}")


def check_confusion(case: Case) -> None:
    (ours,) = {"uraenas", "uraenas-adam"} & case.sizes.keys()
    named = case.probabilities[ours].mean(axis=0).argmax(axis=1)
    classes = case.file("data.json")["classes"]
    for k, tip in enumerate(case.tips("confusion")):
        true, guess = divmod(k, len(classes))
        number = int(((case.labels == true) & (named == guess)).sum())
        assert (tip[""], tip[f"taken for {classes[guess]}"]) == (classes[true], f"{number:,}")


def check_losses(case: Case, kind: str) -> None:
    losses = {name: own for name, own in case.file("training.json").items() if name.startswith(kind)}
    for k, tip in enumerate(case.tips(f"loss-{kind}")):
        assert tip.pop("") == f"epoch {k + 1}"
        if len(losses) > 1:
            mean = np.mean([own[k] for own in losses.values()])
            assert tip.pop(f"mean of {len(losses)}") == f"{mean:.4f}"
        named = (
            list(losses)
            if len(losses) <= 6
            else sorted(losses, key=lambda name: losses[name][k])[:: len(losses) - 1]
        )
        assert tip == {name: f"{losses[name][k]:.4f}" for name in named}


def check_sources_by_severity(case: Case, method: str) -> None:
    for tip in case.tips(f"severity-sources-{method}"):
        severity = int(tip[""].split()[1])
        for words, metric in SOURCES.items():
            shifts = SHIFTS if severity else ["none"]
            values = [case.value(method, metric, shift, severity=severity) for shift in shifts]
            assert tip[words] == f"{np.mean(values):.4f}"


def nothing_to_check(case: Case, *_: str) -> None:
    """Drawn cells, whose only numbers count members; test_page counts those."""


def mixture(case: Case, method: str, target: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations [M, N] of a target; a temperature stretches them about the mean."""
    file = f"methods/{method}/predictions/{case.rows[0]['dataset']}.safetensors"
    said = case.source[0].read_tensors(file)[0]["log_probabilities"].double().numpy()
    mean, deviation = said[..., 2 * target], np.exp(said[..., 2 * target + 1] / 2)
    stored = case.file("metrics.json")["temperatures"][method]
    factor = np.sqrt(stored[target] if isinstance(stored, list) else stored) if kind == "temperature" else 1
    return mean.mean(axis=0) + factor * (mean - mean.mean(axis=0)), factor * deviation


def observed_values(case: Case, target: int) -> np.ndarray:
    return case.labels.reshape(len(case.labels), -1)[:, target]


def check_observed(case: Case, method: str, mark: str | None) -> None:
    target = int(mark or 1) - 1
    means, deviations = mixture(case, method, target, "temperature")
    labels = observed_values(case, target)
    for n, tip in enumerate(case.tips(f"observed-{method}{f'-{mark}' if mark else ''}")):
        low, high = (as_number(one) for one in tip["interval"].split(" – "))
        near = 0.006 * (high - low)  # three digits of half of it are shown
        assert as_number(tip[""].removeprefix("observed\t")) == pytest.approx(labels[n], abs=near)
        assert as_number(tip["predicted"]) == pytest.approx(means[:, n].mean(), abs=near)
        held = [norm.cdf(end, means[:, n], deviations[:, n]).mean() for end in (low, high)]
        assert held == pytest.approx([0.05, 0.95], abs=0.003)
    assert n + 1 == len(labels)
    names = case.file("data.json").get("targets") or []
    rmse = case.value(method, f"{names[target]}.rmse" if names else "rmse")
    words = " ".join(case.page.texts[f"observed-{method}{f'-{mark}' if mark else ''}"])
    assert f"RMSE {rmse:.4g} · {len(labels)} of n = {len(labels)} rows" in words


def as_number(words: str) -> float:
    return float(words.replace("−", "-").replace(",", ""))


def check_coverage(case: Case, kind: str, mark: str | None) -> None:
    target = int(mark or 1) - 1
    told = case.tips(f"coverage-{kind}{f'-{mark}' if mark else ''}")
    assert len(told) == 19
    labels = observed_values(case, target)
    for k, tip in enumerate(told, 1):
        assert tip.pop("") == f"nominal {5 * k} %"
        assert set(tip) == set(case.trained)
        for method, words in tip.items():
            below = norm.cdf(labels, *mixture(case, method, target, kind)).mean(axis=0)
            assert words == f"{100 * (np.abs(below - 0.5) <= k / 40).mean():.1f} %"


ANY, PLACE, KIND = f"({'|'.join(METRICS)})", "(clean|shifted|test)", "(raw|temperature)"
CHECKS: dict[str, Callable[..., None]] = {
    f"difference-{ANY}-{PLACE}": check_difference,
    f"size-{ANY}-{PLACE}": check_size,
    f"severity-{ANY}-{KIND}": check_severity,
    f"heat-{ANY}-(.+)": check_heat,
    f"reliability-(.+)-{KIND}": check_reliability,
    "risk-coverage": check_risk,
    "favour": check_favour,
    "(entropy)": lambda case, figure: check_history(case, figure, {"entropy": "entropy"}),
    "(search-loss)": lambda case, figure: check_history(
        case, figure, {"validation": "validation_loss", "training": "train_loss"}
    ),
    "disagreement-(.+)": check_disagreement,
    f"sources-{PLACE}": check_sources,
    f"control-{PLACE}": check_control,
    "(least-sure|most-wrong|most-ambiguous|most-disputed)": check_pictures,
    f"cost-(seconds|examples|multiply-adds)-{ANY}-{PLACE}": check_cost,
    r"observed-(.+?)(?:-(\d))?": check_observed,
    rf"coverage-{KIND}(?:-(\d))?": check_coverage,
    "expected|cells-.+": nothing_to_check,
    "confusion": check_confusion,
    "loss-(.+)": check_losses,
    "severity-sources-(.+)": check_sources_by_severity,
}
