"""What stands in an ensemble's folder: `ensemble.json`, which says whose it is and vouches for the files beside it."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from uraenas.base.errors import DamagedFile
from uraenas.base.fields import Fields, is_text, is_whole
from uraenas.base.files import read_json, read_tensors, require_format
from uraenas.ensemble.known import FILE as KNOWN
from uraenas.ensemble.known import Known
from uraenas.ensemble.member import Member, MemberFacts, member_files
from uraenas.spaces import Space, space_of

DESCRIPTION = "ensemble.json"
DRAWS = "draws"
MOST_MEMBERS = 10_000


@dataclass(frozen=True)
class Owner:
    """Whose members these are: a method of a run, or nobody's."""

    run: str = ""  # its identity
    method: str = ""


NOBODY = Owner()


@dataclass(frozen=True, eq=False)
class Description:
    """What `ensemble.json` says. Other files are read and checked when they are asked for."""

    folder: Path
    facts: Fields

    @classmethod
    def read(cls, folder: Path, owner: Owner | None = None) -> "Description":
        """That of the owner, where one is given."""
        path = folder / DESCRIPTION
        stored = read_json(path)
        require_format(folder, stored)
        facts = Fields(path, stored)
        found = Owner(facts.text("run"), facts.text("method"))
        if owner is not None and owner != found:
            whose = f"of method {found.method}" if found.run == owner.run else "of another run"
            raise DamagedFile(f"{path} and its members are those {whose}, put in this place")
        return cls(folder, facts)

    @cached_property
    def files(self) -> dict[Path, str]:
        """The networks' files, each with its checksum."""
        checksums = self.facts.list_of(
            "members", lambda one: is_text(one, 32) and len(one) == 32, "checksums"
        )
        if not 1 <= len(checksums) <= MOST_MEMBERS:
            raise self.facts.error(f"it has {len(checksums)} members")
        return dict(zip(member_files(self.folder, len(checksums)), checksums, strict=True))

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """The file and the draw of each member."""
        files = len(self.files)
        if not self.facts.has(DRAWS):
            return [(place, 0) for place in range(files)]
        found = self.facts.list_of(DRAWS, lambda one: _is_draw(one, files), "a file and a draw")
        if not 1 <= len(found) <= MOST_MEMBERS or {place for place, _ in found} != set(range(files)):
            raise self.facts.error(f"its {DRAWS} do not fit its files")
        return [(place, draw) for place, draw in found]

    @property
    def is_complete(self) -> bool:
        """Whether all files that it vouches for are there."""
        has_known = self.facts.stored.get("known") is None or (self.folder / KNOWN).exists()
        return has_known and all(path.exists() for path in self.files)

    @cached_property
    def space(self) -> Space:
        return space_of(self.facts.table("space").stored, self.facts.where)

    def member_facts(self) -> list[MemberFacts]:
        """What the files say of the members."""
        found = [MemberFacts.read(path, checksum) for path, checksum in self.files.items()]
        return [replace(found[place], draw=draw, place=place) for place, draw in self.places]

    def members(self) -> tuple[Member, ...]:
        """Those that the files hold; all are of its space, and finite."""
        space = self.space
        read = [(path, read_tensors(path, checksum)) for path, checksum in self.files.items()]
        described = [MemberFacts.of(path, header) for path, (_, header) in read]
        if any(member.space != space for member in described):
            raise self.facts.error("its space is not that of its members")
        networks = [
            Member.from_tensors(member, tensors, path)
            for member, (path, (tensors, _)) in zip(described, read, strict=True)
        ]
        for path, member in zip(self.files, networks, strict=True):
            if not member.is_finite:
                raise DamagedFile(f"{path} holds weights that are not finite")
        return tuple(replace(networks[place], draw=draw) for place, draw in self.places)

    def known(self) -> Known | None:
        """What the ensemble keeps of the images it knows."""
        if self.facts.stored.get("known") is None:
            return None
        return Known.load(self.folder / KNOWN, len(self.places), self.facts.text("known", 32))


def _is_draw(one: Any, files: int) -> bool:
    pair = isinstance(one, list) and len(one) == 2
    return pair and is_whole(one[0], most=files - 1) and is_whole(one[1], most=MOST_MEMBERS)
