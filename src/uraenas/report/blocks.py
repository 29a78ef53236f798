"""What a section of the page is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup


@dataclass(frozen=True)
class Figure:
    """One drawing that can be read by itself: its title and n are part of it."""

    id: str
    title: str
    svg: Markup
    kind: str = "figure"


@dataclass(frozen=True)
class Grid:
    """Figures side by side."""

    figures: Sequence[Figure]
    kind: str = "grid"


@dataclass(frozen=True)
class Cell:
    """One value of a table, what is printed small beneath it, and how it is marked."""

    text: str
    small: str = ""
    mark: str = ""  # best, better, worse, the last two perhaps one-seed; words: may be broken into lines


@dataclass(frozen=True)
class Line:
    """One line of a table; a method's line carries its colour."""

    name: str
    cells: Sequence[Cell]
    colour: str = ""
    small: str = ""  # beneath its name


@dataclass(frozen=True)
class Table:
    caption: str
    header: Sequence[str]
    lines: Sequence[Line]
    kind: str = "table"


@dataclass(frozen=True)
class Choice:
    """Several sets of figures, or of tables, of which the reader sees one at a time."""

    label: str
    options: Mapping[str, Sequence[Figure] | Sequence[Table]]
    kind: str = "choice"


@dataclass(frozen=True)
class Tile:
    """One number that a reader looks for first, how it compares, and who is best."""

    title: str
    value: str
    beneath: str
    rank: str = ""


@dataclass(frozen=True)
class Tiles:
    tiles: Sequence[Tile]
    kind: str = "tiles"


@dataclass(frozen=True)
class Note:
    """A sentence, often one that says why something is not there."""

    text: str
    kind: str = "note"


@dataclass(frozen=True)
class Key:
    """What the colours mean; a method's entry can be pressed to bring it out in every figure."""

    entries: Sequence[tuple[str, str, Markup]]  # name, class, sample drawing
    methods: bool = True
    kind: str = "key"


@dataclass(frozen=True)
class Facts:
    """Names and values, as they are stored; or names and what they mean, in prose."""

    title: str
    values: Mapping[str, str]
    prose: bool = False
    kind: str = "facts"


Block = Grid | Choice | Table | Tiles | Note | Key | Facts


@dataclass
class Section:
    """A heading, a sentence that says how to read it, and what is shown."""

    id: str
    title: str
    lead: str
    blocks: list[Block] = field(default_factory=list)
