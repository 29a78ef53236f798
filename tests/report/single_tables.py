"""What the tables on a run's page tell, by their captions; computed from the files of the run."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from page_and_files import CALIBRATIONS, Case, shown, signed
from single_figures import as_number, mixture, observed_values

METRICS = {"Acc": "accuracy", "ECE": "ece", "NLL": "nll", "RMSE": "rmse", "MAE": "mae", "CRPS": "crps"}
METRICS |= {"In 90 %": "coverage90", "Width 90 %": "width90", "Dis": "disagreement"}
KINDS = dict(zip(("as predicted", "temperature-scaled on held-out data"), CALIBRATIONS, strict=True))


def cells(metric: str, row: dict) -> tuple[str, str]:
    """A value, and its interval where there is one."""
    ends = [shown(metric, row[end]).removesuffix(" %") for end in ("low", "high") if end in row]
    return shown(metric, row["value"]).removesuffix(" %"), " – ".join(ends)


def check_methods(case: Case, at: int, target: str | None, words: str) -> None:
    (header, *lines), small = case.page.tables[at], case.page.small[at][1:]
    assert [line[0] for line in lines] == list(case.sizes)
    for line, beneath in zip(lines, small, strict=True):
        assert line[1] == str(case.sizes[line[0]])
        for title, *told in zip(header[2:], line[2:], beneath[2:], strict=True):
            metric = METRICS[title]
            kind = "raw" if metric == "disagreement" else KINDS[words]
            row = case.row(line[0], f"{target}.{metric}" if target else metric, calibration=kind)
            alone = title == "Dis" and case.sizes[line[0]] == 1
            plain = ["–" if alone else f"{row['value']:.3f}", ""]
            assert told == (plain if title == "Dis" else list(cells(metric, row)))


def check_differences(case: Case, at: int, to: str, words: str) -> None:
    (header, *lines), small = case.page.tables[at], case.page.small[at][1:]
    assert to == case.file("config.json")["evaluate.baseline"]
    assert [line[0] for line in lines] == [name for name in case.sizes if name != to]
    for line, beneath in zip(lines, small, strict=True):
        for title, value, interval in zip(header[1:], line[1:], beneath[1:], strict=True):
            metric = METRICS[title]
            row = case.difference(line[0], metric, "none", KINDS[words])
            assert value == signed(metric, row["value"])
            assert interval == " – ".join(signed(metric, row[end]) for end in ("low", "high"))


def check_diversity(case: Case, at: int) -> None:
    for line in case.page.tables[at][1:]:
        members = case.source[0].member_facts(line[0])
        kinds = ([m.origin.chain for m in members], [m.architecture for m in members])
        functions = [m.space.canonical(m.architecture) for m in members]
        assert line[1:] == [str(len(members)), *(str(len(set(one))) for one in (*kinds, functions))]


def check_course(case: Case, at: int, changes: str, epochs: str) -> None:
    history = case.source[0].read_tensors("search/architecture.safetensors")[1].stored["history"]
    assert int(epochs) == len(history)
    kept = [one for k, one in enumerate(history) if not k or one["genotype"] != history[k - 1]["genotype"]]
    assert int(changes) == len(kept) - 1
    expected = [[str(one["epoch"] + 1), one["genotype"], f"{one['entropy']:.3f}"] for one in kept]
    told = [[cell.replace("−", "-") for cell in line] for line in case.page.tables[at][1:]]
    assert told == expected


def check_costs(case: Case, at: int, total: str) -> None:
    costs = case.file("cost.json")
    del costs["run"]
    assert total == f"{sum(part.get('seconds', 0.0) for part in costs.values()):,.1f}"
    search = costs["search"]
    for line in case.page.tables[at][1:]:
        members = case.source[0].member_facts(line[0])
        seconds = [search["seconds"], case.spent(line[0], "seconds")]
        assert line[1:3] == [str(case.sizes[line[0]]), str(len(case.chains(line[0])))]
        assert line[3:5] == [f"{one:,.1f}" for one in seconds]
        assert line[5] == f"{search['images'] + case.spent(line[0], 'images'):,}"
        parameters = sum(member.parameters for member in members)
        assert line[6:8] == [f"{parameters:,}", f"{4 * parameters / 1e6:,.1f}"]
        assert as_number(line[8]) == sum(m.space.cost(m.architecture).multiply_adds for m in members)


def target_of(case: Case, name: str | None) -> int:
    return case.file("data.json")["targets"].index(name) if name else 0


def check_conformal(case: Case, at: int, target: str | None) -> None:
    """By the intervals that predictions have."""
    place = target_of(case, target)
    labels = observed_values(case, place)
    for line, beneath in zip(case.page.tables[at][1:], case.page.small[at][1:], strict=True):
        known = case.source[0].known(line[0]).held_out
        known = known.by_target[place] if target else known
        file = f"methods/{line[0]}/predictions/{case.rows[0]['dataset']}.safetensors"
        said = case.source[0].read_tensors(file)[0]["log_probabilities"][..., 2 * place : 2 * place + 2]
        assert line[1] == str(known.images_apart)
        for share, *told in zip((0.8, 0.9, 0.95), line[2:], beneath[2:], strict=True):
            low, high = known.interval(said, share).T
            held = np.mean((labels >= low.numpy()) & (labels <= high.numpy()))
            width = float((high - low).mean())
            words = f"width {width:.4g}" if np.isfinite(width) else "unbounded"
            assert told == [f"{100 * held:.1f}\u00a0%", words]


def check_unsure_numbers(case: Case, at: int, target: str | None) -> None:
    """The rows whose prediction has the largest deviation; variance within members is that of the data."""
    place = target_of(case, target)
    (ours,) = {"uraenas", "uraenas-adam"} & case.sizes.keys()
    means, deviations = mixture(case, ours, place, "raw")
    data, total = (deviations**2).mean(axis=0), (deviations**2).mean(axis=0) + means.var(axis=0)
    names = list(case.source[1].names)
    lines = case.page.tables[at][1:]
    places = [names.index(line[0]) for line in lines]
    assert sorted(total[places]) == pytest.approx(sorted(total)[-len(lines) :])
    assert all(total[one] >= total[two] * (1 - 1e-9) for one, two in pairwise(places))
    for n, line in zip(places, lines, strict=True):
        spread = total[n] ** 0.5
        assert as_number(line[1]) == pytest.approx(observed_values(case, place)[n], abs=0.006 * spread)
        assert as_number(line[2]) == pytest.approx(means[:, n].mean(), abs=0.006 * spread)
        assert line[3] == f"{spread:.3g}"
        assert line[4] == f"{100 * data[n] / total[n]:.0f}\u00a0%"


def check_unsure_classes(case: Case, at: int) -> None:
    (ours,) = {"uraenas", "uraenas-adam"} & case.sizes.keys()
    members, classes = case.probabilities[ours], case.file("data.json")["classes"]
    mean = members.mean(axis=0)
    entropy = -(mean * np.log(mean)).sum(axis=1)
    data = -(members * np.log(members)).sum(axis=2).mean(axis=0)
    scaled = mean ** (1 / case.file("metrics.json")["temperatures"][ours])
    scaled /= scaled.sum(axis=1, keepdims=True)
    names = list(case.source[1].names)
    for line in case.page.tables[at][1:]:
        n = names.index(line[0])
        assert line[1:3] == [classes[case.labels[n]], classes[mean[n].argmax()]]
        assert line[3:5] == [f"{scaled[n].max():.3f}", f"{entropy[n]:.3f}"]
        assert line[5] == f"{100 * data[n] / entropy[n]:.0f}\u00a0%"
    if "Least sure" in case.page.captions[at]:
        told = [entropy[names.index(line[0])] for line in case.page.tables[at][1:]]
        assert told == pytest.approx(sorted(entropy)[::-1][: len(told)])


def check_classes(case: Case, at: int) -> None:
    (ours,) = {"uraenas", "uraenas-adam"} & case.sizes.keys()
    mean, classes = case.probabilities[ours].mean(axis=0), case.file("data.json")["classes"]
    named = mean.argmax(axis=1)
    for line in case.page.tables[at][1:]:
        own, told = case.labels == classes.index(line[0]), named == classes.index(line[0])
        assert line[1:3] == [f"{own.sum():,}", shown("accuracy", (named == case.labels)[own].mean())]
        others = [(-(named[own] == k).sum(), k) for k in range(len(classes))]
        most = [one for one in sorted(others) if one[0] and classes[one[1]] != line[0]][:3]
        assert line[3] == (", ".join(f"{classes[k]} ({-number:,})" for number, k in most) or "–")
        assert line[4] == f"{told.sum():,}"
        if not told.any():
            assert line[5:] == ["–", "–"]
            continue
        right = (named == case.labels)[told].mean()
        assert line[5] == shown("accuracy", right)
        gap = mean.max(axis=1)[told].mean() - right
        assert as_number(line[6]) == pytest.approx(gap, abs=0.00051)


def check_areas(case: Case, at: int) -> None:
    for line in case.page.tables[at][1:]:
        assert line[1:4] == [
            f"{case.value(line[0], metric):.4f}" for metric in ("aurc", "adaptive_ece", "brier")
        ]


def check_elsewhere(case: Case, at: int) -> None:
    """test_guarantees counts guarantees again; tests/evaluation/test_drift measures what moved."""


KIND = f"({'|'.join(KINDS)})"
TABLES: dict[str, Callable[..., None]] = {
    rf"(?:Methods|(.+), in its own unit), {KIND}\. n = .+": check_methods,
    rf"Differences to (.+?), {KIND}: .+": check_differences,
    r"How different the members are\.": check_diversity,
    r"The expected architecture over time: (\d+) changes? in (\d+) epochs\.": check_course,
    r"Seconds on .+? took ([\d,.]+) s\. .+": check_costs,
    r"Conformal intervals(?: of (.+))?: share that hold .+": check_conformal,
    r"(?:(.+): )?As predicted, n = .+ Deviation: .+": check_unsure_numbers,
    r"(?:Least sure of|Most confidently wrong about): .+": check_unsure_classes,
    "Test (?:rows|images) by class, .+": check_classes,
    "Lower is better in the first three.+": check_areas,
    "(?:Prediction sets|Answers at a chosen risk|Coverage by class|Test minus training rows).+": check_elsewhere,
}
