"""Members as one module that can be written down as a graph: raw images in, log-probabilities and features out."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from uraenas.base.errors import UraenasError
from uraenas.data.loader import Normalisation
from uraenas.engine.runtime import Output
from uraenas.ensemble.member import Member
from uraenas.ensemble.networks import served, weights_of, wide
from uraenas.spaces import Features, Space, folded


class MembersNetwork(nn.Module):
    """All members in evaluation, in float32, for any number of images; draws that share a network run it once.

    Images are [N, H, W, C]: bytes, or floats from 0 to 1 where the members were trained on such. What networks see is
    an output only where it `looks`. Of rows with categories that were never seen there are several variants, all rows
    of the first before all of the second.
    """

    def __init__(
        self,
        members: Sequence[Member],
        space: Space,
        normalisation: Normalisation,
        looks: bool = True,
        variants: int = 1,
    ) -> None:
        super().__init__()
        self.looks, self.variants, self.target = looks, variants, normalisation.target
        if any(member.kind.forward is not None for member in members):
            raise UraenasError("members that are no plain networks, but masked ones, cannot be exported")
        networks = served(members)
        every = ([members[position] for position in positions] for positions in networks)
        self.members = nn.ModuleList([_Network(some, space) for some in every])
        # Of each member, its network and which of those that this serves it is.
        found = {p: (place, own) for place, some in enumerate(networks) for own, p in enumerate(some)}
        self.places = [found[position] for position in range(len(members))]
        self.mean: Tensor
        self.deviation: Tensor
        for name, values in (("mean", normalisation.mean), ("deviation", normalisation.deviation)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32)[:, None, None])
        shape = space.shape
        with torch.no_grad():
            one = torch.zeros(1, shape.channels, shape.height, shape.width)
            self.levels = len(self.members[0](one)[1])

    def look(self, images: Tensor) -> tuple[list[Tensor], list[Features], list[Tensor]]:
        """Log-probabilities of each member, or mean and log-variance; what each network sees; and what is said of each
        variant by itself, of all members one after another."""
        x = (images.to(torch.float32).permute(0, 3, 1, 2) - self.mean) / self.deviation
        seen = [member(x) for member in self.members]
        said = [self.target.prediction(seen[place][0][head]) for place, head in self.places]
        features = [levels for _, levels in seen]
        if self.variants == 1:
            return said, features, said
        variants = [one.chunk(self.variants) for one in said]
        joined = [self.target.joined(torch.stack(own)) for own in variants]
        first = [tuple(level.chunk(self.variants)[0] for level in levels) for levels in features]
        return joined, first, [one for own in variants for one in own]

    @property
    def outputs(self) -> list[Output]:
        """What `forward` returns, in order."""
        features = [
            Output(feature_name(network, level), "what a network sees")
            for network in range(len(self.members) if self.looks else 0)
            for level in range(self.levels)
        ]
        return [Output("log_probabilities", "of each member, by class"), *features]

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Log-probabilities [N, M, K], and what each network sees, level by level."""
        log_p, features, _ = self.look(images)
        levels = (level for seen in features for level in seen) if self.looks else ()
        return torch.stack(log_p, dim=1), *levels


class ImagesNetwork(nn.Module):
    """All members as a module for loops that are PyTorch's own: log-probabilities [M, N, K] of images [N, C, H, W].

    Images are floats from 0 to 1, or bytes. Gradients reach the images; weights are buffers, and are not trained.
    """

    def __init__(self, members: MembersNetwork, of_bytes: bool) -> None:
        super().__init__()
        self.members, self.of_bytes = members, of_bytes

    def forward(self, images: Tensor) -> Tensor:
        if self.of_bytes == images.is_floating_point():
            images = images * 255 if self.of_bytes else images / 255
        log_p, *_ = self.members.look(images.permute(0, 2, 3, 1))
        return torch.stack(log_p)


def feature_name(network: int, level: int) -> str:
    """Of an output: what a network sees at a level."""
    return f"features_{network}_{level}"


class _Network(nn.Module):
    """A network in evaluation, its norms folded, and the members that it serves: draws of it, or mostly one."""

    def __init__(self, members: Sequence[Member], space: Space) -> None:
        super().__init__()
        member, self.classes = members[0], space.shape.classes
        flat = weights_of(members, space, torch.device("cpu"), torch.float32)
        self.architecture, self.space = member.architecture, wide(space, len(members))
        weights, space = self.space.weight_layout(member.architecture).views(flat), self.space
        statistics = space.statistics_layout(member.architecture).views(member.statistics)
        ready = folded(space, member.architecture, weights, statistics)
        self.names: list[dict[str, str]] = []
        for tensors in (ready, statistics):
            self.names.append({name: name.replace(".", "_") for name in tensors})
            for name, tensor in tensors.items():
                self.register_buffer(self.names[-1][name], tensor.float().clone())

    def forward(self, x: Tensor) -> tuple[list[Tensor], Features]:
        """The logits of each member that it serves, and what the network sees."""
        weights, statistics = (
            {name: getattr(self, own) for name, own in names.items()} for names in self.names
        )
        logits, features = self.space.trace(self.architecture, weights, statistics, x)
        if self.classes == self.space.shape.classes:
            return [logits], features
        return list(logits.split(self.classes, dim=-1)), features
