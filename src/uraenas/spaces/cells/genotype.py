"""One architecture of a cell space: an operation on each edge.

Node j is the sum over i < j of operation(i → j) applied to node i. Node 0 is the cell's input, the last its output.
"""

import itertools
import re
from dataclasses import dataclass
from functools import cached_property

from uraenas.base.errors import UraenasError, unknown
from uraenas.spaces.cells.drawing import cell_picture
from uraenas.spaces.cells.operations import CONVOLUTIONS, NONE, POOL, SKIP, edges, known, node_count

Applied = tuple[str, int, "list[Applied]"]  # an operation, its edge, and the terms whose sum it is applied to
INPUT: Applied = ("input", -1, [])


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
        if not self.operations or len(self.operations) != len(self.edges):
            raise UraenasError(f"{len(self.operations)} operations do not make a cell: 1, 3, 6, 10, … do")
        for operation in self.operations:
            if operation not in known():
                raise unknown("operation", operation, known())

    @cached_property
    def nodes(self) -> int:
        return node_count(len(self.operations))

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        return edges(self.nodes)

    @classmethod
    def from_string(cls, text: str) -> "Genotype":
        """Read `|op~0|+|op~0|op~1|+|op~0|op~1|op~2|`."""
        operations: list[str] = []
        groups = text.strip().split("+")
        for target, group in enumerate(groups, start=1):
            if not re.fullmatch(r"\|(?:\w+~\d\|)+", group, flags=re.ASCII):
                raise _unreadable(text)
            pairs = [part.split("~") for part in group.strip("|").split("|")]
            if [source for _, source in pairs] != [str(source) for source in range(target)]:
                raise _unreadable(text)
            operations += [operation for operation, _ in pairs]
        return cls(tuple(operations))

    def __str__(self) -> str:
        groups = []
        for target in range(1, self.nodes):
            arriving = [e for e, (_, t) in enumerate(self.edges) if t == target]
            groups.append("|" + "".join(f"{self.operations[e]}~{self.edges[e][0]}|" for e in arriving))
        return "+".join(groups)

    def __repr__(self) -> str:
        return f"Genotype.from_string({str(self)!r})"

    def _repr_html_(self) -> str:
        """The cell as a drawing, for notebooks."""
        picture = cell_picture(self.operations, self.live_edges, str(self))
        return f'{picture}<p style="overflow-wrap: anywhere"><code>{self}</code></p>'

    @cached_property
    def live_edges(self) -> tuple[int, ...]:
        """The edges on some path from input to output; all others are dead and pruned from the network."""
        ends = self.edges
        present = [e for e, operation in enumerate(self.operations) if operation != NONE]
        fed, used = {0}, {self.nodes - 1}
        for e in present:  # edges are sorted by target, so one pass settles what the input reaches
            if ends[e][0] in fed:
                fed.add(ends[e][1])
        for e in reversed(present):
            if ends[e][1] in used:
                used.add(ends[e][0])
        return tuple(e for e in present if ends[e][0] in fed and ends[e][1] in used)

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
            text = _describe_sum(self._terms(self.nodes - 1), numbers)
            if best is None or text < best.text:
                best = CanonicalForm(text, edges)
        assert best is not None  # the product over no groups has one empty element
        return best

    def _terms(self, node: int) -> list[Applied]:
        """Node as a list of terms: the input, a pooled sum, or a convolved sum."""
        terms = [INPUT] if node == 0 else []
        for edge in self.live_edges:
            source, target = self.edges[edge]
            if target == node:
                terms += self._terms(source) if self.operations[edge] == SKIP else [self._term(edge)]
        return terms

    def _term(self, edge: int) -> Applied:
        return (self.operations[edge], edge, self._terms(self.edges[edge][0]))


def _describe_sum(terms: list[Applied], numbers: dict[int, int]) -> str:
    return "+".join(sorted(_describe(term, numbers) for term in terms)) or "0"


def _describe(term: Applied, numbers: dict[int, int]) -> str:
    if term is INPUT:
        return "x"
    operation, edge, inner = term
    if operation == POOL:  # no weights: two pools of one map are the same map
        return f"pool({_describe_sum(inner, numbers)})"
    return f"conv{CONVOLUTIONS[operation]}#{numbers.get(edge, '')}({_describe_sum(inner, numbers)})"


def _unreadable(text: str) -> UraenasError:
    shown = text if len(text) <= 120 else text[:117] + "…"
    return UraenasError(f"cannot read genotype {shown!r}; expected |op~0|+|op~0|op~1|+|op~0|op~1|op~2|")
