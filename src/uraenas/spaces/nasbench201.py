"""The NAS-Bench-201 cell: four nodes, six edges, five operations, 15,625 genotypes.

Node j is the sum over i < j of operation(i → j) applied to node i. Node 0 is the cell's input, node 3 its output.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from uraenas.errors import UraenasError, unknown

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))  # (source, target), in the order of the string
NODES = 4
CONVOLUTIONS = {"nor_conv_1x1": 1, "nor_conv_3x3": 3}  # operation → kernel size
GENOTYPES = len(OPERATIONS) ** len(EDGES)


@dataclass(frozen=True)
class CanonicalForm:
    """What a cell computes, freed of how it is written down.

    Two genotypes with one `text` are the same function: the k-th edge of one's `convolutions` plays the part of the
    k-th of the other's.
    """

    text: str
    convolutions: tuple[int, ...]  # live convolution edges, in the order of the numbers in `text`


@dataclass(frozen=True, order=True)
class Genotype:
    """One architecture: an operation for each edge."""

    operations: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.operations) != len(EDGES):
            raise UraenasError(f"a genotype has {len(EDGES)} operations, not {len(self.operations)}")
        for operation in self.operations:
            if operation not in OPERATIONS:
                raise unknown("operation", operation, OPERATIONS)

    @classmethod
    def from_string(cls, text: str) -> "Genotype":
        """Read `|op~0|+|op~0|op~1|+|op~0|op~1|op~2|`."""
        operations = []
        groups = text.strip().split("+")
        if len(groups) != NODES - 1:
            raise _unreadable(text)
        for target, group in enumerate(groups, start=1):
            if not re.fullmatch(r"\|(?:\w+~\d\|)+", group, flags=re.ASCII):
                raise _unreadable(text)
            pairs = [part.split("~") for part in group.strip("|").split("|")]
            if [source for _, source in pairs] != [str(source) for source in range(target)]:
                raise _unreadable(text)
            operations += [operation for operation, _ in pairs]
        return cls(tuple(operations))

    @classmethod
    def from_indices(cls, indices: Iterable[int]) -> "Genotype":
        """The genotype with operation number `indices[e]` on edge e."""
        return cls(tuple(OPERATIONS[index] for index in indices))

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(OPERATIONS.index(operation) for operation in self.operations)

    def __str__(self) -> str:
        groups = []
        for target in range(1, NODES):
            edges = [e for e, (_, t) in enumerate(EDGES) if t == target]
            groups.append("|" + "".join(f"{self.operations[e]}~{EDGES[e][0]}|" for e in edges))
        return "+".join(groups)

    def __repr__(self) -> str:
        return f"Genotype.from_string({str(self)!r})"

    def _repr_html_(self) -> str:
        """The cell as a drawing, for notebooks."""
        from uraenas.spaces.drawing import cell_picture  # which draws genotypes, so it comes after them

        return f'{cell_picture(self)}<p style="overflow-wrap: anywhere"><code>{self}</code></p>'

    @cached_property
    def live_edges(self) -> tuple[int, ...]:
        """The edges on some path from input to output; all others are dead and pruned from the network."""
        present = [e for e, operation in enumerate(self.operations) if operation != "none"]
        fed, used = {0}, {NODES - 1}
        for e in present:  # EDGES is sorted by target, so one pass settles what the input reaches
            if EDGES[e][0] in fed:
                fed.add(EDGES[e][1])
        for e in reversed(present):
            if EDGES[e][1] in used:
                used.add(EDGES[e][0])
        return tuple(e for e in present if EDGES[e][0] in fed and EDGES[e][1] in used)

    @property
    def connected(self) -> bool:
        """Whether the input reaches the output."""
        return bool(self.live_edges)

    @cached_property
    def canonical(self) -> CanonicalForm:
        """Dead edges pruned, skips flattened into sums, and a convolution used twice still one convolution.

        Each convolution gets a number. Numbers of convolutions of equal structure may be exchanged, so the smallest
        text over those exchanges is the form.
        """
        alike: dict[str, list[int]] = {}
        for edge in self.live_edges:
            if self.operations[edge] in CONVOLUTIONS:
                alike.setdefault(_describe(self._term(edge), {}), []).append(edge)
        groups = [alike[structure] for structure in sorted(alike)]
        best: CanonicalForm | None = None
        for orders in itertools.product(*(itertools.permutations(group) for group in groups)):
            edges = tuple(itertools.chain.from_iterable(orders))
            numbers = {edge: number for number, edge in enumerate(edges)}
            text = _describe_sum(self._terms(NODES - 1), numbers)
            if best is None or text < best.text:
                best = CanonicalForm(text, edges)
        assert best is not None  # the product over no groups has one empty element
        return best

    def _terms(self, node: int) -> list[tuple]:
        """Node as a list of terms: the input, a pooled sum, or a convolved sum."""
        terms: list[tuple] = [("input",)] if node == 0 else []
        for edge in self.live_edges:
            if EDGES[edge][1] == node:
                terms += (
                    self._terms(EDGES[edge][0])
                    if self.operations[edge] == "skip_connect"
                    else [self._term(edge)]
                )
        return terms

    def _term(self, edge: int) -> tuple:
        return (self.operations[edge], edge, self._terms(EDGES[edge][0]))


LARGEST = Genotype(("nor_conv_3x3",) * len(EDGES))  # no genotype has more parameters


def _describe_sum(terms: list[tuple], numbers: dict[int, int]) -> str:
    return "+".join(sorted(_describe(term, numbers) for term in terms)) or "0"


def _describe(term: tuple, numbers: dict[int, int]) -> str:
    if term[0] == "input":
        return "x"
    operation, edge, inner = term
    if operation == "avg_pool_3x3":  # no weights: two pools of one map are the same map
        return f"pool({_describe_sum(inner, numbers)})"
    return f"conv{CONVOLUTIONS[operation]}#{numbers.get(edge, '')}({_describe_sum(inner, numbers)})"


def _unreadable(text: str) -> UraenasError:
    shown = text if len(text) <= 120 else text[:117] + "…"
    return UraenasError(f"cannot read genotype {shown!r}; expected |op~0|+|op~0|op~1|+|op~0|op~1|op~2|")


def all_genotypes() -> Iterator[Genotype]:
    """All 15,625 genotypes, `none` everywhere first."""
    for operations in itertools.product(OPERATIONS, repeat=len(EDGES)):
        yield Genotype(operations)
