"""What a run directory holds of a method's members."""

import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from uraenas.data.tables import Columns
from uraenas.ensemble import Ensemble, Known, Member, MemberFacts, Owner, member_files
from uraenas.ensemble.description import DESCRIPTION, Description
from uraenas.ensemble.known import FILE as KNOWN
from uraenas.run.directory.chains import ChainFiles
from uraenas.run.directory.files import RunFiles


class MemberFiles:
    """The members of one method, where they are there."""

    def __init__(self, files: RunFiles, method: str) -> None:
        self.files, self.method = files, method
        self.folder = files.path / "methods" / method / "members"

    @property
    def are_complete(self) -> bool:
        """Whether they are there, all of them, and what says when they should abstain."""
        with self._mending():
            described = self._described()
            return described is not None and described.is_complete

    def facts(self) -> list[MemberFacts]:
        """What their files say of them."""
        with self._mending():
            described = self._described()
            return [] if described is None else described.member_facts()

    def inputs(self) -> Columns | None:
        """The columns that they read, where these are of a table."""
        with self._mending():
            described = self._described()
            return None if described is None else Columns.of(described.facts)

    def known(self) -> Known | None:
        """What their ensemble keeps of the images it knows, where it has been kept."""
        if not (self.folder / KNOWN).exists():
            return None
        with self._mending():
            described = self._described()
            return None if described is None else described.known()

    def ensemble(self) -> Ensemble:
        """All of them, ready to predict."""
        with self._mending():
            return Ensemble.load(self.folder, self._owner)

    def adopt(self, ensemble: Ensemble, chains: ChainFiles) -> None:
        """Take these in place of others; samples' files are shared, not copied, where the disk allows it."""
        self.files.require_here()
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        networks = ensemble.networks
        for member, target in zip(networks, member_files(self.folder, len(networks)), strict=True):
            sample = chains.sample_path(member.origin.chain, member.origin.epoch)
            if member.origin.samples == 1 and Member.load(sample).network == member.network:
                link(sample, target)
            else:
                member.save(target, ensemble.space)
        ensemble.describe(self.folder, self._owner)

    @property
    def _owner(self) -> Owner:
        return Owner(self.files.identity, self.method)

    def _described(self) -> Description | None:
        """What is said of them."""
        return Description.read(self.folder, self._owner) if (self.folder / DESCRIPTION).exists() else None

    def _mending(self) -> AbstractContextManager[None]:
        return self.files.mending(f"methods/{self.method}/members/{DESCRIPTION}")


def link(source: Path, target: Path) -> None:
    """The same file under a second name, or a copy where the disk does not allow that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
