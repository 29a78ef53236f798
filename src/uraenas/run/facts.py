"""What a run's small files say, typed: the images it was made with."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from uraenas.base.fields import Fields
from uraenas.data import LabelledImages
from uraenas.data.dataset import MARK, mark_of
from uraenas.data.tables import Columns
from uraenas.data.targets import numbers_of

MOST_MARKED = 100_000  # images; of more, marks would be megabytes


@dataclass(frozen=True)
class DataFacts:
    """By which a run knows its images again: what data.json holds."""

    classes: tuple[str, ...]
    image: tuple[int, int, int]  # height, width, channels
    flip: bool
    padding: int
    training_images: int
    held_out_images: int
    test_images: int
    blake2b: str
    targets: tuple[str, ...] = ()  # where there are several
    apart_images: int = 0  # where chains leave out parts in turn: those that none learns from
    columns: str = ""  # checksum of a table's names and units, which rows do not tell; none in files of old
    tested: str = ""  # checksum of the test images, whatever is learned from; none in files of old
    learned: str = ""  # marks of the training images, one after the other; none of tables and in files of old

    @property
    def is_table(self) -> bool:
        """Whether images are rows of a table, of one pixel each."""
        return self.image[:2] == (1, 1)

    @property
    def example(self) -> str:
        """What one of them is called."""
        return "row" if self.is_table else "image"

    @property
    def outputs(self) -> int:
        """How many numbers a member says of an image."""
        return len(self.classes) or numbers_of(self.targets or ("",)).outputs(0)

    def fits(self, new: "DataFacts") -> bool:
        """Whether new data are these."""
        known = replace(new, tested=self.tested, learned=self.learned)  # which follow from all images
        return self == (known if self.columns else replace(known, columns=""))

    def same_images(self, settings: Mapping[str, Any], other: "DataFacts", theirs: Mapping[str, Any]) -> bool:
        """Whether runs of these settings were measured on the same images, whatever they learned from."""
        on_test = settings["evaluate.part"] == theirs["evaluate.part"] == "test"
        same_test = on_test and self.tested != "" and self.tested == other.tested
        return same_test or self.measured_on(settings) == other.measured_on(theirs)

    def has_learned(self, part: LabelledImages) -> int:
        """How many of these images are among its training images, as far as it has marks of these."""
        known = self.marks
        return sum(mark_of(image) in known for image in part.images) if known else 0

    @property
    def marks(self) -> set[str]:
        """Of its training images, as far as they are known."""
        return {self.learned[place : place + MARK] for place in range(0, len(self.learned), MARK)}

    def measured_on(self, settings: Mapping[str, Any]) -> tuple[Any, ...]:
        """What tells on which of these images a run of these settings was measured."""
        if settings["evaluate.part"] == "test":
            return (self.blake2b,)
        # Held-out rows of a table are drawn once and for all, held-out images by the seed.
        drawn_by = ("data.held_out",) if self.is_table else ("data.held_out", "data.limit", "seed")
        return (self.blake2b, *(settings[key] for key in drawn_by))

    def unlike(self, new: "DataFacts") -> str:
        """The first thing in which new data differ from these, in brackets; nothing where only what they hold does."""
        sizes = [" × ".join(map(str, one.image)) for one in (self, new)]
        ways = [
            ("classes", *(", ".join(one.classes) for one in (self, new))),
            ("columns" if self.is_table else f"{self.example}s of", *sizes),
            ("flips", self.flip, new.flip),
            ("crops' padding", self.padding, new.padding),
            (f"training {self.example}s", self.training_images, new.training_images),
            (f"held-out {self.example}s", self.held_out_images, new.held_out_images),
            (f"test {self.example}s", self.test_images, new.test_images),
        ]
        renamed = self.blake2b == new.blake2b and self.columns != new.columns
        of_columns = " (columns have other names, units or categories)" if renamed else ""
        return next((f" ({what}: {old}, now {now})" for what, old, now in ways if old != now), of_columns)

    def as_json(self) -> dict[str, Any]:
        seldom = ("targets", "apart_images", "columns", "tested", "learned")
        return {name: value for name, value in asdict(self).items() if name not in seldom or value}

    @classmethod
    def of(cls, stored: Fields) -> "DataFacts":
        """What `as_json` described."""
        height, width, channels = stored.wholes("image", 3)
        classes = stored.texts("classes")
        if len(set(classes)) < len(classes) or len(classes) == 1 or min(height, width, channels) < 1:
            raise stored.error("it does not describe images of two classes or more, each of its own name")
        return cls(
            classes=classes,
            image=(height, width, channels),
            flip=stored.flag("flip"),
            padding=stored.whole("padding"),
            training_images=stored.whole("training_images"),
            held_out_images=stored.whole("held_out_images"),
            test_images=stored.whole("test_images"),
            blake2b=stored.text("blake2b"),
            targets=stored.texts("targets") if stored.has("targets") else (),
            apart_images=stored.whole("apart_images") if stored.has("apart_images") else 0,
            columns=stored.text("columns") if stored.has("columns") else "",
            tested=stored.text("tested") if stored.has("tested") else "",
            learned=stored.text("learned", MARK * MOST_MARKED) if stored.has("learned") else "",
        )


def digest_of_images(*parts: LabelledImages) -> str:
    """A checksum of images, labels and weights."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(np.ascontiguousarray(part.images).tobytes())
        digest.update(part.labels.tobytes())
        digest.update(b"" if part.weights is None else part.weights.tobytes())
    return digest.hexdigest()


def marks_of(part: LabelledImages) -> str:
    """Checksums of single images, one after the other; none of very many."""
    return "".join(map(mark_of, part.images)) if len(part) <= MOST_MARKED else ""


def digest_of_columns(columns: Columns | None) -> str:
    """A checksum of what a table's columns are called and how they are read; nothing where there are none."""
    if columns is None:
        return ""
    return hashlib.blake2b(json.dumps(columns.marks).encode(), digest_size=16).hexdigest()
