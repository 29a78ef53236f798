"""What a run directory holds of its methods: their members, and what these predict."""

import os
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from uraenas.base.errors import UraenasError, unknown
from uraenas.data.tables import Columns
from uraenas.ensemble import SHARE, Ensemble, Known, Member, MemberFacts, Owner, member_files
from uraenas.ensemble.description import DESCRIPTION, Description
from uraenas.ensemble.held_out import CERTAINTY, COVERAGE
from uraenas.ensemble.known import FILE as KNOWN
from uraenas.ensemble.predict import Prediction, Unreadable, find_files, predict_files
from uraenas.ensemble.threshold import Threshold
from uraenas.run.directory.chains import RunChains

PRIMARY = ("uraenas", "uraenas-swa", "uraenas-adam")  # whom to ask unless told


class RunMembers(RunChains):
    """With the members that its methods drew."""

    def members_folder(self, method: str) -> Path:
        return self.path / "methods" / method / "members"

    def predictions_file(self, method: str, images: str) -> str:
        return f"methods/{method}/predictions/{images}.safetensors"

    def cell_file(self, method: str, images: str) -> str:
        """What the method was found to be on one evaluation set."""
        return f"methods/{method}/evaluation/{images}.safetensors"

    def scores_file(self, method: str, other: str) -> str:
        """By what images from elsewhere were told from the test images."""
        return f"methods/{method}/outside/{other}.safetensors"

    @property
    def has_predictions(self) -> bool:
        return any(self.path.glob("methods/*/predictions/*.safetensors"))

    def member_facts(self, method: str) -> list[MemberFacts]:
        """What the members' files say of them, where they are there."""
        with self._mending_members(method):
            described = self._described(method)
            return [] if described is None else described.member_facts()

    def inputs(self, method: str) -> Columns | None:
        """The columns that a method's members read, where they are there and of a table."""
        with self._mending_members(method):
            described = self._described(method)
            return None if described is None else Columns.of(described.facts)

    def _described(self, method: str) -> Description | None:
        """What is said of a method's members, where they are there."""
        folder = self.members_folder(method)
        has_some = (folder / DESCRIPTION).exists()
        return Description.read(folder, Owner(self.identity, method)) if has_some else None

    def _mending_members(self, method: str) -> AbstractContextManager[None]:
        return self.mending(f"methods/{method}/members/{DESCRIPTION}")

    def adopt(self, method: str, ensemble: Ensemble) -> None:
        """Make these the method's members; samples' files are shared, not copied, where the disk allows it."""
        folder = self.members_folder(method)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        networks = ensemble.networks
        for member, target in zip(networks, member_files(folder, len(networks)), strict=True):
            sample = self.sample_path(member.origin.chain, member.origin.epoch)
            if member.origin.samples == 1 and Member.load(sample).network == member.network:
                link(sample, target)
            else:
                member.save(target, ensemble.space)
        ensemble.describe(folder, Owner(self.identity, method))

    def is_trained(self, method: str) -> bool:
        """Whether the method's members are there, all of them, and what says when they should abstain."""
        with self._mending_members(method):
            described = self._described(method)
            return described is not None and described.is_complete

    @property
    def trained(self) -> list[str]:
        """The methods whose members are there."""
        return [path.name for path in sorted(self.path.glob("methods/*")) if self.is_trained(path.name)]

    @property
    def primary(self) -> str:
        """The method to ask unless told: the joint ensemble, or else the first that is trained."""
        trained = [name for name in self.config().methods if self.is_trained(name)] or self.trained
        return next((name for name in PRIMARY if name in trained), (trained or [PRIMARY[0]])[0])

    def ensemble(self, method: str = "") -> Ensemble:
        """The members of a method, ready to predict."""
        config = self.config()
        method = method or self.primary
        if not self.is_trained(method):
            if self.trained and method not in config.methods:
                raise unknown("trained method", method, self.trained)
            raise UraenasError(f"{self.path} holds no trained {method}; run: uraenas train {self.quoted}")
        with self._mending_members(method):
            return Ensemble.load(self.members_folder(method), Owner(self.identity, method))

    # Predicting

    def known(self, method: str) -> Known | None:
        """What the method's ensemble keeps of the images it knows, where it has been kept."""
        if not (self.members_folder(method) / KNOWN).exists():
            return None
        with self._mending_members(method):
            described = self._described(method)
            return None if described is None else described.known()

    def threshold(self, risk: float, method: str = "", certainty: float = CERTAINTY) -> Threshold:
        """The confidence below which to abstain, for this share of errors among the rest."""
        return self.ensemble(method).require_known().threshold(risk, certainty)

    def predict(
        self,
        paths: Iterable[Path | str],
        risk: float = 0.05,
        method: str = "",
        share: float = SHARE,
        certainty: float = CERTAINTY,
        coverage: float = COVERAGE,
    ) -> list[Prediction | Unreadable]:
        """What a method says of these files, and of all files in these folders that end as images do."""
        ensemble = self.ensemble(method)
        files, _ = find_files([Path(path) for path in paths])
        return list(predict_files(ensemble, files, risk, share, certainty=certainty, coverage=coverage))


def link(source: Path, target: Path) -> None:
    """The same file under a second name, or a copy where the disk does not allow that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
