"""Members as one module that can be written down as a graph: raw images in, log-probabilities and features out."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from uraenas.base.errors import UraenasError
from uraenas.data.loader import Normalisation
from uraenas.engine.runtime import Output
from uraenas.ensemble.member import Member
from uraenas.spaces import Features, Space, folded


class MembersNetwork(nn.Module):
    """All members in evaluation, in float32, for any number of images; draws that share a network run it once.

    Images are [N, H, W, C]: bytes, or floats from 0 to 1 where the members were trained on such.
    """

    def __init__(self, members: Sequence[Member], space: Space, normalisation: Normalisation) -> None:
        super().__init__()
        if any(member.kind.forward is not None for member in members):
            raise UraenasError("members whose weights are drawn anew in each pass cannot be exported")
        found: dict[str, Member] = {}
        for member in members:
            found.setdefault(member.network, member)
        networks = {name: place for place, name in enumerate(found)}
        self.members = nn.ModuleList([_Network(member, space) for member in found.values()])
        # Of each member, its network and, where that has heads, which one it is.
        self.places = [(networks[member.network], member.draw) for member in members]
        self.mean: Tensor
        self.deviation: Tensor
        for name, values in (("mean", normalisation.mean), ("deviation", normalisation.deviation)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32)[:, None, None])
        shape = space.shape
        with torch.no_grad():
            one = torch.zeros(1, shape.channels, shape.height, shape.width)
            self.levels = len(self.members[0](one)[1])

    def look(self, images: Tensor) -> tuple[list[Tensor], list[Features]]:
        """Log-probabilities of each member, and what each network sees."""
        x = (images.to(torch.float32).permute(0, 3, 1, 2) - self.mean) / self.deviation
        seen = [member(x) for member in self.members]
        log_p = [torch.log_softmax(seen[place][0][head], dim=-1) for place, head in self.places]
        return log_p, [features for _, features in seen]

    @property
    def outputs(self) -> list[Output]:
        """What `forward` returns, in order."""
        features = [
            Output(feature_name(network, level), "what a network sees")
            for network in range(len(self.members))
            for level in range(self.levels)
        ]
        return [Output("log_probabilities", "of each member, by class"), *features]

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Log-probabilities [N, M, K], and what each network sees, level by level."""
        log_p, features = self.look(images)
        return torch.stack(log_p, dim=1), *(level for seen in features for level in seen)


def feature_name(network: int, level: int) -> str:
    """Of an output: what a network sees at a level."""
    return f"features_{network}_{level}"


class _Network(nn.Module):
    """One member in evaluation, its norms folded."""

    def __init__(self, member: Member, space: Space) -> None:
        super().__init__()
        self.architecture, self.space = member.architecture, space
        self.heads = max(1, len(member.kind.heads))
        weights = member.kind.layout(space.weight_layout(member.architecture)).views(member.weights)
        statistics = space.statistics_layout(member.architecture).views(member.statistics)
        ready = folded(space, member.architecture, weights, statistics)
        self.names: list[dict[str, str]] = []
        for tensors in (ready, statistics):
            self.names.append({name: name.replace(".", "_") for name in tensors})
            for name, tensor in tensors.items():
                self.register_buffer(self.names[-1][name], tensor.float().clone())

    def forward(self, x: Tensor) -> tuple[list[Tensor], Features]:
        """The logits of each head, mostly one, and what the network sees."""
        weights, statistics = (
            {name: getattr(self, own) for name, own in names.items()} for names in self.names
        )
        logits, features = self.space.trace(self.architecture, weights, statistics, x)
        if self.heads == 1:
            return [logits], features
        return list(logits.split(self.space.shape.classes, dim=-1)), features
