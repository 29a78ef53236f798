"""The images it is least sure of, and those it is most confidently wrong about."""

import base64
import io
from functools import lru_cache

import numpy as np
import torch
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from uraenas.base.svg import element, join, rect, text
from uraenas.evaluation import metrics
from uraenas.report.blocks import Figure, Grid, Note, Section
from uraenas.report.chart import HEAD, WIDTH, draw
from uraenas.report.reading import RunFacts
from uraenas.report.sections.members import parts_of
from uraenas.report.sections.reliability import missing
from uraenas.report.style import colour, shortened

SHOWN = 12
FEWER = 6  # of those by kind of uncertainty
COLUMNS = 3
SIDE = 108  # pixels of a picture on the page
ROW = 196
LARGEST = 112  # pixels stored of a larger image


def section(facts: RunFacts) -> Section:
    found = Section(
        "images",
        "Images worth a look",
        f"{facts.part.capitalize()} images with the prediction of {facts.primary}, temperature-scaled, as "
        "uraenas predict gives it. The least sure ones are often hard for people too; the confidently wrong ones are "
        "either mislabelled or what it has yet to learn. What every member finds ambiguous, more training "
        "images will not help; what members dispute, they may.",
    )
    if facts.primary not in facts.predictions or facts.test is None:
        found.blocks.append(missing("images"))
        return found
    log_p = facts.prediction(facts.primary, "temperature")
    said, functions = facts.predictions[facts.primary], facts.functions(facts.primary)
    split = metrics.uncertainty_by_source(said, functions or range(len(said)))
    confidence, predicted = log_p.exp().max(dim=1)
    wrong = predicted != facts.labels
    least_sure = torch.argsort(split.total, descending=True, stable=True)[:SHOWN].tolist()
    worst = torch.argsort(torch.where(wrong, confidence, -1.0), descending=True, stable=True)
    most_wrong = worst[: min(SHOWN, int(wrong.sum()))].tolist()
    n = facts.tested
    figures = [
        _pictures(facts, "least-sure", "Least sure of", f"highest entropy of {n}", least_sure, log_p, split)
    ]
    if most_wrong:
        chosen = f"{int(wrong.sum()):,} wrong of {n}"
        figures.append(
            _pictures(facts, "most-wrong", "Most confidently wrong about", chosen, most_wrong, log_p, split)
        )
    else:
        found.blocks.append(Note("Not one test image is classified wrongly."))
    if len(said) > 1:
        figures += _by_kind(facts, log_p, split, n)
    found.blocks.append(Grid(figures))
    return found


def _by_kind(facts: RunFacts, log_p: Tensor, split: metrics.UncertaintyBySource, n: str) -> list[Figure]:
    """What every member finds ambiguous, and what the members cannot agree on."""
    kinds = (
        ("most-ambiguous", "Ambiguous to every member", "highest data uncertainty", split.data),
        ("most-disputed", "Disputed among members", "highest model uncertainty", split.model),
    )
    figures = []
    for id, title, words, score in kinds:
        chosen = torch.argsort(score, descending=True, stable=True)[:FEWER].tolist()
        figures.append(_pictures(facts, id, title, f"{words} of {n}", chosen, log_p, split))
    return figures


def _pictures(
    facts: RunFacts,
    id: str,
    title: str,
    n: str,
    chosen: list[int],
    log_p: Tensor,
    split: metrics.UncertaintyBySource,
) -> Figure:
    parts = []
    for k, image in enumerate(chosen):
        x, y = WIDTH / COLUMNS * (k % COLUMNS), HEAD + ROW * (k // COLUMNS)
        parts.append(_picture(facts, image, x, y, log_p[image].exp(), split))
    height = HEAD + ROW * -(-len(chosen) // COLUMNS)
    own = colour(facts.primary)
    legend = [
        ("named, and right", own, rect(-6, -6, 12, 12, "guess right")),
        ("named, and wrong", own, rect(-6, -6, 12, 12, "guess")),
    ]
    words = f"{n} · by {facts.primary}"
    return draw(id, title, words, height, element("g", join(parts), class_=own), legend)


def _picture(
    facts: RunFacts, image: int, x: float, y: float, p: Tensor, split: metrics.UncertaintyBySource
) -> Markup:
    assert facts.test is not None
    label = int(facts.labels[image])
    truth = facts.classes[label]
    top = torch.topk(p, min(3, len(p)))
    guesses = list(zip(top.indices.tolist(), top.values.tolist(), strict=True))
    name = facts.test.names[image] if facts.test.names else f"test image {image}"
    tip = f"{name}\ntrue class\t{truth}"
    tip += "".join(f"\n{facts.classes[guess]}\t{share:.3f}" for guess, share in guesses)
    sources = {"total": split.total, **parts_of(split, facts.functions(facts.primary))}
    tip += "".join(
        f"\n{name} (nats)\t{max(0.0, float(values[image])):.3f}" for name, values in sources.items()
    )
    address = thumbnail(facts.test.images[image])
    parts = [
        element("image", x=x, y=y, width=SIDE, height=SIDE, href=address, class_="picture"),
        text(x, y + SIDE + 15, "is " + shortened(truth, 12), "truth"),
    ]
    for k, (guess, value) in enumerate(guesses):
        at = y + SIDE + 21 + 17 * k
        parts.append(rect(x, at, 108, 14, "track"))
        parts.append(rect(x, at, 108 * value, 14, "guess right" if guess == label else "guess"))
        parts.append(text(x + 4, at + 11, shortened(facts.classes[guess], 9), "tick"))
        parts.append(text(x + 105, at + 11, f"{100 * value:.0f} %", "tick", "end"))
    return element("g", *parts, class_="spot", data_tip=tip)


def thumbnail(image: np.ndarray) -> str:
    """The image [H, W, C] as the address of an inline PNG, made smaller where it is large."""
    pixels = image if image.dtype == np.uint8 else np.rint(image * 255).clip(0, 255).astype(np.uint8)
    channels = pixels.shape[-1]
    flat = pixels[..., :3] if channels >= 3 else pixels.mean(axis=-1).astype(np.uint8)
    return _address(flat.tobytes(), flat.shape)


@lru_cache(maxsize=1000)  # figures and runs often show the same ones
def _address(pixels: bytes, shape: tuple[int, ...]) -> str:
    picture = Image.fromarray(np.frombuffer(pixels, np.uint8).reshape(shape))
    picture.thumbnail((LARGEST, LARGEST))
    stored = io.BytesIO()
    picture.save(stored, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stored.getvalue()).decode()
