"""What a run directory holds of its chains: their checkpoints, and the samples they left."""

from pathlib import Path

from uraenas.base.errors import DamagedFile
from uraenas.ensemble import Member
from uraenas.run.directory.files import RunFiles


class ChainFiles:
    """The chains of a run, by name. `checkpoints.py` says what a checkpoint holds."""

    def __init__(self, files: RunFiles) -> None:
        self.files = files

    def file(self, chain: str) -> str:
        return f"chains/{chain}/state.safetensors"

    def explored_files(self, root: str) -> dict[int, str]:
        """Where chains of one root part, by epoch, the last first."""
        found = self.files.path.glob(f"chains/explored/{root}-*.safetensors")
        numbers = (path.stem.rpartition("-")[2] for path in found)
        epochs = sorted((int(text) for text in numbers if text.isdecimal()), reverse=True)
        return {epoch: self.explored_file(root, epoch) for epoch in epochs}

    def explored_file(self, root: str, epoch: int) -> str:
        return f"chains/explored/{root}-{epoch:04d}.safetensors"

    def names(self) -> list[str]:
        """Of the chains that have a checkpoint."""
        return sorted(path.parent.name for path in self.files.path.glob("chains/*/state.safetensors"))

    def sample_path(self, chain: str, epoch: int) -> Path:
        return self.files.path / "chains" / chain / "samples" / f"{epoch:04d}.safetensors"

    def samples(self, chain: str) -> list[Member]:
        """The weight samples of a chain, the newest first."""
        files = (self.files.path / "chains" / chain / "samples").glob("*.safetensors")
        paths = sorted(files, key=lambda path: (len(path.name), path.name), reverse=True)
        with self.files.mending("chains/"):
            members = [Member.load(path) for path in paths]
            for path, member in zip(paths, members, strict=True):
                origin = member.origin
                right = (self.sample_path(chain, origin.epoch), chain, self.files.chains_identity, 1)
                if (path, origin.chain, origin.run, origin.samples) != right:  # a mean is no sample
                    raise DamagedFile(f"{path} is another sample, put in its place")
        return members
