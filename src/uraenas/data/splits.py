"""Stratified splits, the same for the same key on every machine."""

import numbers
from collections.abc import Sequence

import numpy as np

from uraenas.base.errors import UraenasError


def stratified_split(
    labels: np.ndarray,
    parts: Sequence[float] | Sequence[int],
    key: int,
    classes: Sequence[str] | None = None,
) -> list[np.ndarray]:
    """Disjoint index arrays, one per part, each in ascending order and with every class in its due share.

    `parts` are fractions (floats, at most 1 in sum) or counts (integers, at most N in sum); what they leave
    over belongs to no part. Counts are kept exactly; a fraction is rounded, and made larger where it could
    not hold one example of each class. A class's share of a part is within about one example of proportional,
    and at least one. `classes` names labels 0 … K-1 in messages, and makes a class without examples an error.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or len(labels) == 0 or labels.dtype.kind not in "iu":
        raise UraenasError(f"a split needs N integer labels, not {labels.shape} {labels.dtype}")
    values, coded = np.unique(labels, return_inverse=True)
    _check_enough_examples(values, np.bincount(coded), len(parts), classes)
    sizes = _sizes(parts, len(labels), len(values))
    counts_KP = _with_every_class(_proportional_counts(coded, sizes))

    # raw bits, because numpy promises their stability from version to version and that of permutations not
    bits = np.random.Philox(key=_checked_key(key))
    chosen: list[list[np.ndarray]] = [[] for _ in parts]
    for label, counts_P in enumerate(counts_KP):
        members = np.flatnonzero(coded == label)
        members = members[np.argsort(bits.random_raw(len(members)), kind="stable")]
        pieces = np.split(members, np.cumsum(counts_P)[:-1])  # the last piece is what no part wanted
        for part, piece in zip(chosen, pieces, strict=False):
            part.append(piece)
    return [np.sort(np.concatenate(part)) for part in chosen]


def folds_of(strata: np.ndarray, count: int, key: int) -> np.ndarray:
    """A number 0 … count − 1 for each example [N]: even parts, each with its share of every stratum."""
    bits = np.random.Philox(key=_checked_key(key)).random_raw(len(strata))
    order = np.lexsort((bits, strata))  # dealt out in turn, stratum by stratum
    found = np.empty(len(strata), np.int64)
    found[order] = np.arange(len(strata)) % count
    return found


def _checked_key(key: int) -> int:
    if isinstance(key, bool) or not isinstance(key, numbers.Integral) or not 0 <= key < 2**128:
        raise UraenasError(f"split key {key!r} is not allowed; allowed: an integer from 0 to 2^128 - 1")
    return int(key)


def _check_enough_examples(
    values: np.ndarray, counts: np.ndarray, needed: int, classes: Sequence[str] | None
) -> None:
    """Every part gets one example of each class, so a class needs as many examples as there are parts."""
    if needed == 0:
        raise UraenasError("a split needs at least one part")
    have = dict(zip(values.tolist(), counts.tolist(), strict=True))
    names = {label: str(label) for label in have}
    if classes is not None:
        names = dict(enumerate(classes))
        strangers = [label for label in have if label not in names]
        if strangers:
            raise UraenasError(f"label {strangers[0]} is not allowed; allowed: 0 … {len(names) - 1}")
    for label, name in names.items():
        if have.get(label, 0) < needed:
            raise UraenasError(
                f"class {name!r} has {have.get(label, 0)} example(s); a split into {needed} part(s) "
                f"needs at least {needed}. Add examples or leave the class out."
            )


def _sizes(parts: Sequence[float] | Sequence[int], total: int, classes: int) -> np.ndarray:
    """How many images each part gets, and at the end how many are left over."""
    if all(isinstance(part, numbers.Integral) and not isinstance(part, bool) for part in parts):
        sizes = np.array([int(part) for part in parts])
        if sizes.min() < classes or sizes.sum() > total:
            raise UraenasError(
                f"split sizes {sizes.tolist()} are not allowed; allowed: each at least {classes} "
                f"(one per class), at most {total} in sum"
            )
        return np.append(sizes, total - sizes.sum())
    fractions = np.array([float(part) for part in parts])
    if not (fractions > 0).all() or not fractions.sum() <= 1 + 1e-9:
        raise UraenasError(
            f"split fractions {fractions.tolist()} are not allowed; allowed: each above 0, at most 1 in sum"
        )
    ends = np.rint(np.minimum(np.cumsum(fractions), 1) * total).astype(int)
    sizes = np.diff(ends, prepend=0, append=total)
    least = np.append(np.full(len(parts), classes), 0)
    while (sizes < least).any():  # ends: every class has one example per part, so there is enough for all
        sizes[(sizes - least).argmin()] += 1
        sizes[(sizes - least).argmax()] -= 1
    return sizes


def _proportional_counts(coded: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Examples per class and part [K, P + 1] with exact row and column sums, near proportional.

    Example j of a class with n stands at (j + ½)/n. All examples are lined up by that place and the line is
    cut into the parts: any stretch of it holds each class in proportion, to within about one example.
    """
    counts = np.bincount(coded)
    places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    line = np.repeat(np.arange(len(counts)), counts)[np.argsort(places, kind="stable")]
    table = np.zeros((len(counts), len(sizes)), dtype=int)
    np.add.at(table, (line, np.repeat(np.arange(len(sizes)), sizes)), 1)
    return table


def _with_every_class(table: np.ndarray) -> np.ndarray:
    """The same table with no class missing from a part, by exchanges that keep all sums."""
    parts = table.shape[1] - 1
    spare_from = np.append(np.full(parts, 2), 1)  # a part keeps one of each class, the leftover need not
    for label, part in np.argwhere(table[:, :parts] == 0):
        if table[label, part]:  # an earlier exchange has brought it here
            continue
        donor = np.argmax(table[label] - spare_from)
        returned = table[:, part].argmax()
        table[label, donor] -= 1
        table[label, part] += 1
        table[returned, part] -= 1
        table[returned, donor] += 1
    return table
