"""REINFORCE: a policy over architectures, moved along the score-function gradient of their accuracy.

    ∇E[R] = E[(R − b) ∇log p(a)],   p(a) = Π_d softmax(α_d)_{a_d},   b: running mean of rewards

The architectures of a round are drawn from one policy, and a step of Adam follows their mean. A draw is one from the
policy; what stands for it is the best that was trained, not the policy's argmax.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from uraenas.architectures import categorical, queried
from uraenas.architectures.distribution import IsValid, require_adam
from uraenas.base import draws
from uraenas.base.errors import require_range
from uraenas.spaces import Tensors


@dataclass(frozen=True)
class Reinforce(queried.Asking):
    """A policy, moved by the score-function gradient of accuracy (REINFORCE)."""

    step_size: float = 0.3
    betas: tuple[float, float] = (0.5, 0.999)
    baseline: float = 0.9  # how much of the running mean of rewards stays when a reward comes

    numbers: ClassVar[str] = "probability"
    bars: ClassVar[str] = "A bar is an option's probability by the policy: how often it is drawn."
    recipes = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_adam(self.step_size, self.betas)
        require_range("baseline", self.baseline, 0, 1)

    def propose(self, state: Tensors, count: int, key: Tensor, is_valid: IsValid) -> list[queried.Options]:
        policy = self.policy(state)

        def drawn(key: Tensor) -> queried.Options:
            return tuple(categorical.perturbed(policy, key).argmax(dim=-1).tolist())

        return [queried.until_valid(drawn, draws.at(key, number), is_valid) for number in range(count)]

    def policy(self, state: Tensors) -> Tensors:
        """The logits that the rewards so far have led to, with Adam's moments."""
        policy = categorical.initial_logits(queried.counts_of(state), key=0)
        policy["logits"] = torch.zeros_like(policy["logits"])
        values, mean = state["values"], 0.0
        for step, start in enumerate(range(0, len(values), self.together)):
            part = slice(start, start + self.together)
            rewards = values[part]
            mean = float(rewards[0]) if step == 0 else mean
            gradient = policy_gradient(policy, state["queried"][part], rewards - mean)
            policy = categorical.stepped(policy, -gradient, torch.tensor(step), self.step_size, self.betas)
            for reward in rewards.tolist():
                mean = self.baseline * mean + (1 - self.baseline) * reward
        return policy

    def scores(self, state: Tensors, key: Tensor, temperature: float = 1.0) -> Tensor:
        return categorical.perturbed(self.policy(state), key, temperature)

    def favour(self, state: Tensors) -> Tensor:
        return categorical.probabilities(self.policy(state))


def policy_gradient(policy: Tensors, chosen: Tensor, advantages: Tensor) -> Tensor:
    """The mean over draws [B, D] of advantage · ∇log p(draw), with respect to the logits [D, O].

    ∇ log softmax(α)_o = onehot(o) − softmax(α).
    """
    p = categorical.probabilities(policy)
    scores = torch.nn.functional.one_hot(chosen.to(torch.int64), p.shape[-1]) - p  # [B, D, O]
    return (advantages[:, None, None] * scores).mean(dim=0)
