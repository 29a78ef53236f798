"""Guarantees from held-out images, and whether the test images bear them out: prediction sets, and risk."""

from torch import Tensor

from uraenas.ensemble.held_out import CERTAINTY, HeldOut
from uraenas.ensemble.threshold import Threshold
from uraenas.evaluation import conformal
from uraenas.report.blocks import Cell, Line, Note, Section, Table
from uraenas.report.reading import RunFacts
from uraenas.report.sections.reliability import RISKS, missing
from uraenas.report.style import colour

COVERAGES = (0.9, 0.95)
SHOWN = 20  # classes, those least covered first


def section(facts: RunFacts) -> Section:
    found = Section(
        "guarantees",
        "Guarantees",
        f"What can be relied on, for {facts.examples} like the held-out ones: a set of classes that holds the true "
        "one as often as stated, and a confidence above which at most a chosen share of answers is wrong. "
        f"They rest on held-out {facts.examples} that neither the temperature nor the choice of members has seen; "
        f"the test {facts.examples} check them.",
    )
    if facts.part != "test":
        found.blocks.append(
            Note(f"Guarantees are left out: they rest on the very {facts.examples} measured here.")
        )
        return found
    able = [name for name in facts.predictions if name in facts.held_out]
    if not able:
        found.blocks.append(missing("guarantees"))
        return found
    if not facts.data.held_out_images:
        found.blocks.append(
            Note(
                f"Members leave out {facts.examples} in turn: each was judged by those that did not learn from it, new "
                "ones are judged by all. So guarantees hold nearly, not exactly; where more members err less, sets "
                "hold the true class more often than stated. With train.folds=0 they are exact."
            )
        )
    found.blocks += [_sets(facts, able), _risks(facts, able)]
    if facts.primary in able:
        found.blocks.append(_classes(facts, facts.held_out[facts.primary]))
    return found


def _sets(facts: RunFacts, methods: list[str]) -> Table:
    lines = []
    for name in methods:
        cells = []
        for sets_NK in _prediction_sets(facts, name).values():
            sizes = sets_NK.sum(dim=1).double()
            alone = f"{_percent((sizes == 1).double().mean())} with one class"
            held = Cell(_percent(_covered(sets_NK, facts.labels).mean()))
            cells += [held, Cell(f"{float(sizes.mean()):.2f}", alone)]
        lines.append(Line(name, cells, colour(name)))
    header = ["Method"]
    for coverage in COVERAGES:
        header += [f"{100 * coverage:g} % guaranteed: found", "Classes in a set"]
    return Table(
        f"Prediction sets: share that holds the true class, and size. {_rests(facts)}", header, lines
    )


def _risks(facts: RunFacts, methods: list[str]) -> Table:
    lines = []
    for name in methods:
        cells = []
        for risk in RISKS:
            threshold = threshold_of(facts, name, risk)
            answered, wrong = answers(facts, name, threshold)
            of = f"{wrong:,} of {answered:,}" if answered else "none answered"
            words = of if threshold.certainty else f"{of}; an estimate"
            share = _percent(wrong / answered) if answered else "–"
            cells += [Cell(_percent(answered / facts.measured), _from(threshold)), Cell(share, words)]
        lines.append(Line(name, cells, colour(name)))
    header = ["Method"]
    for risk in RISKS:
        header += [f"Risk {100 * risk:g} %: answered", "Of these wrong"]
    caption = (
        f"Answers at a chosen risk, kept with a certainty of {100 * CERTAINTY:g} %: those of at least the confidence "
        f"beneath. {_rests(facts)}"
    )
    if any("an estimate" in cell.small for line in lines for cell in line.cells):
        caption += (
            f" An estimate: there are too few held-out {facts.examples} to guarantee so small a risk, so the threshold "
            "is the one that kept to it on them. A larger risk that can be guaranteed may answer fewer."
        )
    return Table(caption, header, lines)


def threshold_of(facts: RunFacts, method: str, risk: float) -> Threshold:
    """From held-out images, by confidence alone."""
    return facts.held_out[method].threshold(risk, share=0)


def answers(facts: RunFacts, method: str, threshold: Threshold) -> tuple[int, int]:
    """How many test images it answers, and how many of these wrongly."""
    confidence, predicted = facts.prediction(method, "temperature").exp().max(dim=1)
    answered = confidence >= threshold.confidence
    return int(answered.sum()), int((predicted != facts.labels)[answered].sum())


def _from(threshold: Threshold) -> str:
    return f"from {threshold.confidence:.3f}" if threshold.passing else ""


def _classes(facts: RunFacts, held_out: HeldOut) -> Table:
    """The guarantee is one over all classes: here is how it falls out for each."""
    sets = _prediction_sets(facts, facts.primary)
    covered = {coverage: _covered(found, facts.labels) for coverage, found in sets.items()}
    apart = held_out.label[held_out.apart > 0]
    rows = []
    for k, name in enumerate(facts.classes):
        of_class = facts.labels == k
        if of_class.any():
            shares = [float(covered[coverage][of_class].mean()) for coverage in COVERAGES]
            size = float(sets[COVERAGES[-1]][of_class].sum(dim=1).double().mean())
            cells = [Cell(f"{int(of_class.sum()):,}", f"{int((apart == k).sum()):,} apart")]
            cells += [Cell(_percent(share)) for share in shares]
            rows.append((shares[-1], Line(name, [*cells, Cell(f"{size:.2f}")])))
    rows.sort(key=lambda row: row[0])
    header = [
        "Class",
        facts.examples.capitalize(),
        *(f"{100 * c:g} % guaranteed: found" for c in COVERAGES),
        "Classes in a set",
    ]
    of = f", the {SHOWN} least covered of {len(rows)}" if len(rows) > SHOWN else ""
    caption = (
        f"Coverage by class, {facts.primary}{of}. It is guaranteed over all classes, not for each. {facts.n}."
    )
    return Table(caption, header, [line for _, line in rows[:SHOWN]])


def _prediction_sets(facts: RunFacts, method: str) -> dict[float, Tensor]:
    """Whether each class is in the image's set [N, K], by coverage."""
    scores_NK = conformal.regularised(*conformal.set_scores(facts.prediction(method, "temperature").exp()))
    return {coverage: scores_NK <= facts.held_out[method].quantile(coverage) for coverage in COVERAGES}


def _covered(sets_NK: Tensor, labels_N: Tensor) -> Tensor:
    return sets_NK.gather(1, labels_N[:, None]).squeeze(1).double()


def _percent(share: Tensor | float) -> str:
    return f"{100 * float(share):.1f} %"


def _rests(facts: RunFacts) -> str:
    images = max((one.images_apart for one in facts.held_out.values()), default=0)
    return f"Temperature-scaled, {facts.n} test {facts.examples}; {images:,} held-out ones apart."
