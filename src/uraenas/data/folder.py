"""A folder of images with one sub-folder per class."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from uraenas.base.errors import UraenasError
from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.data.pictures import ENDINGS, Picture, read_pictures
from uraenas.data.splits import stratified_split

SPLIT_KEY = 8110  # a constant, so that every run on a folder without a test part has the same test images
TEST_FRACTION = 0.2
DEFAULT_SIZE = 32
PARTS = ("train", "test", "val")
# What others call them: as classes these would be told apart by nothing but chance.
LIKE_PARTS = frozenset((*PARTS, "training", "testing", "valid", "validation"))
NAMED_FILES = 5


@dataclass(frozen=True)
class _Found:
    """An image file of a part and a class."""

    part: str
    label: str
    file: Path


def load_folder(
    path: str | os.PathLike[str], image_size: int = DEFAULT_SIZE, skip_unreadable: bool = False
) -> Dataset:
    """The dataset in `path/CLASS/…`, or in `path/train/CLASS/…` with `path/test/…`, `path/val/…` or both.

    Every image is resized as a whole to `image_size` × `image_size`. The dataset is RGB, or grey where every
    pixel of every image is. Without a test part, a fifth of each class becomes one. A file with the ending of
    an image that cannot be read is an error, unless it is to be skipped; other files are left out and counted
    in the notes.
    """
    path = Path(path)
    parts = _parts(path)
    classes = [folder.name for folder in _folders(parts["train"])]
    found, ignored = [], 0
    for part, folder in parts.items():
        files, others = _find_images(folder, classes)
        found += [_Found(part, *one) for one in files]
        ignored += others
    pictures, notes = _read_all([one.file for one in found], (image_size, image_size), skip_unreadable)
    kept = [one for one in found if one.file in pictures]
    everything = LabelledImages(
        _stacked([pictures[one.file].pixels for one in kept]),
        np.array([classes.index(one.label) for one in kept], np.int64),
        names=tuple(str(one.file.relative_to(path)) for one in kept),
    )
    notes += [*notes_on_left_out(ignored), *_notes_on_other_places(path, parts)]
    notes += _notes_on_absent(kept, parts, classes)
    of_part = {part: np.flatnonzero([one.part == part for one in kept]) for part in parts}
    if "test" not in parts:
        training = of_part["train"]
        fractions = [1 - TEST_FRACTION, TEST_FRACTION]
        train, test = stratified_split(everything.labels[training], fractions, SPLIT_KEY, classes)
        of_part |= {"train": training[train], "test": training[test]}
        notes.append(
            f"{path.resolve().name} has no test part: {len(test)} of its images, stratified, became one; other ones "
            "will when images are added, unless you divide them into train/ and test/"
        )
    return Dataset(
        path.resolve().name,
        everything.take(of_part["train"]),
        everything.take(of_part["test"]),
        tuple(classes),
        flip=False,  # a mirrored letter or a left hand is another thing: only the user knows
        padding=image_size // 8,
        notes=tuple(notes),
        validation=everything.take(of_part["val"]) if "val" in parts else None,
    )


def read_folder(path: Path, size: tuple[int, int], skip_unreadable: bool) -> np.ndarray:
    """Every image below a folder, whatever its sub-folders mean, as uint8 [N, height, width, C]."""
    images, others = images_below(path)
    if not images:
        raise no_image_in(str(path), others)
    pictures, _ = _read_all(images, size, skip_unreadable)
    return _stacked([picture.pixels for picture in pictures.values()])


def read_again(folder: Path, names: Sequence[str], form: tuple[int, int, int]) -> np.ndarray:
    """The pictures that a folder has under these names, in another form: uint8 [N, height, width, C]."""
    files = [folder / name for name in names]
    pictures, _ = _read_all(files, form[:2], skip=False)
    return np.stack([pictures[file].with_channels(form[2]) for file in files])


def images_below(folder: Path) -> tuple[list[Path], list[Path]]:
    """All files with the ending of an image, and all others; hidden ones are neither."""
    files = sorted(_files_below(folder))
    images = [file for file in files if file.suffix.lower() in ENDINGS]
    return images, [file for file in files if file.suffix.lower() not in ENDINGS]


def notes_on_left_out(files: int) -> list[str]:
    """What a user should know of files that are no images."""
    those = "1 file" if files == 1 else f"{files} files"
    return [f"{those} without the ending of an image left out"] if files else []


def no_image_in(where: str, others: Sequence[Path]) -> UraenasError:
    """The error for a place where all files, if there are any, have other endings."""
    if not others:
        return UraenasError(f"{where} holds no files")
    known = " ".join(sorted(ENDINGS))
    return UraenasError(
        f"{where} holds {len(others)} files, such as {others[0].name}, but no image; known: {known}"
    )


def _parts(path: Path) -> dict[str, Path]:
    """Where parts lie; all is one where there is no train part. A class may be called `train`; parts have classes."""
    if not path.is_dir():
        raise UraenasError(f"{path} is not a folder")
    found = {part: path / part for part in PARTS if any(_folders(path / part))}
    if "train" not in found:
        _require_classes(path)
        return {"train": path}
    if len(found) == 1:
        raise UraenasError(f"{path} has a train part with classes but no test part: add {path / 'test'}")
    return found


def _require_classes(path: Path) -> None:
    """Refuse folders that are parts by another name, with the same classes in two of them."""
    inside = {one.name: {two.name for two in _folders(one)} for one in _folders(path)}
    alike = [name for name in inside if name.casefold() in LIKE_PARTS]
    if any(inside[one] & inside[two] for one, two in combinations(alike, 2)):
        raise UraenasError(
            f"{path} holds {' and '.join(alike)} with classes in them, which are parts and not classes; call them "
            f"{', '.join(PARTS)}"
        )


def _notes_on_other_places(path: Path, parts: Mapping[str, Path]) -> list[str]:
    """Folders beside the parts may have been meant as one, and images beside the classes as theirs."""
    others = [one.name for one in _folders(path) if len(parts) > 1 and one.name not in parts]
    notes = [f"not used, beside {'/, '.join(parts)}/: {', '.join(others[:NAMED_FILES])}"] if others else []
    places = {path, *parts.values()}
    beside = [file.name for place in places for file in _images_in(place)]
    if beside:
        notes.append(f"not used: {len(beside)} image(s) in no class's folder, such as {min(beside)}")
    hidden = [one for place in places for one in place.iterdir() if one.name.startswith(".") and one.is_dir()]
    if dotted := sorted(one.name for one in hidden if _images_in(one)):
        notes.append(f"not used, with names that begin with a dot: {', '.join(dotted[:NAMED_FILES])}")
    return notes


def _notes_on_absent(kept: Sequence[_Found], parts: Iterable[str], classes: Sequence[str]) -> Iterator[str]:
    """Classes that a part has no images of."""
    for part in parts:
        present = {one.label for one in kept if one.part == part}
        if absent := [label for label in classes if label not in present]:
            yield f"{part}/ has no images of {', '.join(absent[:NAMED_FILES])}{_and_more(absent)}"


def _images_in(folder: Path) -> list[Path]:
    """Files with the ending of an image right in a folder; hidden ones are none."""
    return [
        file
        for file in folder.iterdir()
        if file.suffix.lower() in ENDINGS and not file.name.startswith(".") and file.is_file()
    ]


def _folders(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(item for item in path.iterdir() if item.is_dir() and not item.name.startswith("."))


def _find_images(path: Path, classes: Sequence[str]) -> tuple[list[tuple[str, Path]], int]:
    """All (class, image file), and how many other files there are."""
    folders = list(_folders(path))
    if not folders:
        raise UraenasError(f"{path} has no sub-folders; needed: one per class, with its images in it")
    found, ignored = [], 0
    for folder in folders:
        if folder.name not in classes:
            raise UraenasError(
                f"{folder} is a class that the training part lacks; allowed: {', '.join(classes)}"
            )
        images, others = images_below(folder)
        if not images:
            raise no_image_in(str(folder), others)
        ignored += len(others)
        found += [(folder.name, image) for image in images]
    return found, ignored


def _files_below(folder: Path) -> Iterator[Path]:
    """All files but hidden ones. Links are followed, each folder once, so that a circle of links ends."""
    seen = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _read_all(files: list[Path], size: tuple[int, int], skip: bool) -> tuple[dict[Path, Picture], list[str]]:
    """Every picture by its file, and what should be known of them.

    Those that cannot be read are named in one error, or left out and named in a note.
    """
    results = dict(zip(files, read_pictures(files, size), strict=True))
    bad = [f"{file} ({why})" for file, why in results.items() if isinstance(why, str)]
    pictures = {file: one for file, one in results.items() if isinstance(one, Picture)}
    named = ", ".join(bad[:NAMED_FILES]) + _and_more(bad)
    if bad and not (skip and pictures):
        raise UraenasError(
            f"{len(bad)} of {len(files)} images cannot be read: {named}. "
            "Mend or remove them, or leave them out with --skip-unreadable (data.skip_unreadable=true)."
        )
    notes = [f"{len(bad)} of {len(files)} images cannot be read and were left out: {named}"] if bad else []
    return pictures, notes + _notes_on(pictures)


def _notes_on(pictures: Mapping[Path, Picture]) -> list[str]:
    """What was done to pictures that are not as others."""
    kinds = {
        "are not square and were stretched to be so": [p for p, one in pictures.items() if one.stretched],
        "hold several frames, of which the first is used": [
            p for p, one in pictures.items() if one.frames > 1
        ],
        "use at most 12 of their 16 bits and come out dark": [p for p, one in pictures.items() if one.dim],
    }
    of = f"of {len(pictures)} images"
    return [
        f"{len(those)} {of} {words}, such as {those[0].parent.name}/{those[0].name}"
        for words, those in kinds.items()
        if those
    ]


def _and_more(names: Sequence[str]) -> str:
    return f" and {len(names) - NAMED_FILES} more" if len(names) > NAMED_FILES else ""


def _stacked(pictures: list[np.ndarray]) -> np.ndarray:
    images = np.stack(pictures)
    grey = (images[..., :1] == images).all()
    return images[..., :1].copy() if grey else images
