"""What is run to predict with members: networks of their space, of which one may serve several members.

Most kinds of weights say of a draw which plain network it is, so that draws predict as point estimates do: by own
kernels, with norms folded, in files to deploy. Where draws of one network differ in the last layer alone, one network
has the last layers of all of them, one after another, and one pass is enough.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from uraenas.base import draws
from uraenas.ensemble.member import Member
from uraenas.evaluation.metrics import groups_of
from uraenas.spaces import Draw, Layout, Space, as_it_is


def served(members: Sequence[Member]) -> list[list[int]]:
    """For each network that is run, the positions of the members that it serves."""
    return groups_of(
        member.network if member.kind.in_one_pass else position for position, member in enumerate(members)
    )


def wide(space: Space, members: int) -> Space:
    """The space whose networks give the logits of so many members, one after another."""
    if members == 1:
        return space
    shape = replace(space.shape, classes=members * space.shape.classes)
    return replace(space, shape=shape)


def weights_of(members: Sequence[Member], space: Space, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The flat weights of the one network, in `wide`, that serves these members."""
    first, as_plain = members[0], members[0].kind.method.changes.as_plain
    flat = first.weights.to(device, dtype)
    if as_plain is None:
        return flat
    plain = space.weight_layout(first.architecture)
    layout = first.kind.layout(plain)
    views = layout.views(flat)
    found = [as_plain(views, layout, draw_of(member, device)) for member in members]
    parts = [
        torch.cat([one[entry.name] for one in found]) if entry.role == "logits" else found[0][entry.name]
        for entry in plain.entries
    ]
    return torch.cat([part.reshape(-1) for part in parts])


def layout_of(member: Member) -> Callable[[Layout], Layout]:
    """What its kind makes of the plain network's layout: nothing, where it is run as a plain network."""
    return member.kind.layout if member.kind.forward else as_it_is


def draw_of(member: Member, device: torch.device) -> Draw:
    """What is random about a member's predictions."""
    return Draw(draws.at(member.origin.key, member.draw, device), member.draw)
