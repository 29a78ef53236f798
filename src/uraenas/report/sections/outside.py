"""How well methods tell images from elsewhere from the test images."""

import torch
from torch import Tensor

from uraenas.base.svg import element, join, line, path, rect
from uraenas.evaluation import separations
from uraenas.evaluation.separation import LEGEND, PREFIX, SCORES, Separated, legend, scores_of
from uraenas.report.blocks import Cell, Figure, Grid, Key, Line, Note, Section, Table
from uraenas.report.chart import Axis, Frame, Legend, draw
from uraenas.report.reading import RunFacts
from uraenas.report.style import colour

BINS = 30


def section(facts: RunFacts) -> Section:
    found = Section(
        "outside",
        "Images from elsewhere",
        "Images that show none of the classes should look uncertain: their score should be higher than that of the "
        "test images.",
    )
    apart = separations(facts.main_rows)
    if not apart:
        found.blocks.append(
            Note("Not measured: name such images with evaluate.outside, a dataset, an .npz file or a folder.")
        )
    for other in dict.fromkeys(one.other for one in apart):
        found.blocks.append(_table(facts, [one for one in apart if one.other == other]))
        if other in facts.scores:
            found.blocks += [Key(LOOKS, methods=False), Grid(_histograms(facts, other, facts.scores[other]))]
    return found


TITLES = {"foreign": "Joined score", "total_uncertainty": "Total uncertainty"}
LOOKS: Legend = [
    ("test images", "source-data", rect(-7, -5, 14, 10, "fill")),
    ("images from elsewhere", "source-weights", line(-9, 0, 9, 0, "line")),
]


def _histograms(facts: RunFacts, other: str, scores: dict[str, Tensor]) -> list[Figure]:
    names = [name for name in TITLES if f"inside.{name}" in scores]
    return [_histogram(facts, other, n, scores[f"inside.{n}"], scores[f"outside.{n}"]) for n in names]


def _histogram(facts: RunFacts, other: str, score: str, inside: Tensor, outside: Tensor) -> Figure:
    """Shares of both by score, in equal bins; the last bins hold what lies beyond."""
    both = torch.cat([inside, outside]).double()
    low, high = (float(torch.quantile(both, q)) for q in (0.005, 0.995))
    high = high if high > low else low + 1.0
    edges = [low + (high - low) * k / BINS for k in range(BINS + 1)]
    shares = [
        torch.histc(one.double().clamp(low, high), BINS, low, high) / len(one) for one in (inside, outside)
    ]
    frame = Frame(
        Axis(f"score, {facts.primary}", low, high), Axis("", 0.0, 1.05 * float(torch.stack(shares).max()))
    )
    parts, places = [frame.axes()], []
    for k, (own, other_share) in enumerate(zip(*(one.tolist() for one in shares), strict=True)):
        left, right = frame.across(edges[k]), frame.across(edges[k + 1])
        tip = f"score {edges[k]:.3g} – {edges[k + 1]:.3g}\ntest images\t{100 * own:.1f} %"
        tip += f"\nfrom elsewhere\t{100 * other_share:.1f} %"
        bar = rect(left, frame.up(own), right - left, frame.bottom - frame.up(own), "fill")
        hit = rect(left, frame.top, right - left, frame.height, "hit")
        parts.append(element("g", bar, hit, class_="source-data spot", data_tip=tip))
        places += [(left, frame.up(other_share)), (right, frame.up(other_share))]
    parts.append(element("g", path(places, "line"), class_="source-weights"))
    auroc = facts.value(facts.primary, f"auroc_{score}", f"{PREFIX}{other}")
    n = f"share of images · AUROC {auroc:.3f} · " if auroc is not None else "share of images · "
    n += f"n = {len(inside):,} test images, {len(outside):,} of {other}"
    return draw(
        f"outside-{score}-{other}", f"{TITLES[score]}: {other}", n, frame.figure_height, join(parts), LOOKS
    )


def _table(facts: RunFacts, apart: list[Separated]) -> Table:
    scores = scores_of(apart)
    best = {s: max(one.auroc[s] for one in apart if s in one.auroc) for s in scores}
    lines = []
    for one in apart:
        cells = [Cell(words) for words in one.shares()]
        cells += [
            Cell(one.measures(score), mark="best" if one.auroc.get(score) == best[score] else "")
            for score in scores
        ]
        lines.append(Line(one.method, cells, colour(one.method)))
    caption = f"{apart[0].other}, n = {apart[0].images:,}, against {facts.tested}. {legend(apart, LEGEND)}"
    headings = ["Turned away", "False alarms", *(SCORES.get(score, score) for score in scores)]
    return Table(caption, ["Method", *headings], lines)
