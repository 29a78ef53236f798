"""The end of the network, for all members at once: norm, ReLU, mean over pixels, classifier.

It is small, so plain tensor operations do; their gradient is autograd's.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from uraenas.engine.kernels.cells.rows import Plan
from uraenas.spaces.cells import Skeleton
from uraenas.spaces.cells.blocks import EPSILON
from uraenas.spaces.layout import MOMENTUM


class Head:
    """Where the members' heads lie in the flat vectors, and what they compute."""

    def __init__(self, plan: Plan, skeleton: Skeleton, batch: int, maps: Tensor) -> None:
        self.skeleton, self.batch = skeleton, batch
        features, classes, device = skeleton.features, skeleton.classes, maps.device
        self.maps = maps.view(maps.shape[0], -1, features)  # of the last stage, [maps, pixels, channels]
        self.sizes = [features, features, classes * features, classes]
        starts = torch.tensor(plan.head_weights, device=device)[:, None]
        self.places = starts + torch.arange(sum(self.sizes), device=device)
        starts = torch.tensor(plan.head_statistics, device=device)[:, None]
        self.statistics_places = starts + torch.arange(2 * features, device=device)
        self.inputs = torch.tensor(plan.stages[-1].outputs, device=device)
        self.gradients = torch.tensor(plan.stages[-1].output_gradients, device=device)

    def forward(self, flat_weights: Tensor, statistics: Tensor, training: bool) -> Tensor:
        """Logits [M, N, K]; in training the running statistics move."""
        members, pixels, features = len(self.inputs), self.maps.shape[1], self.skeleton.features
        with torch.set_grad_enabled(training):
            self.x = self.maps[self.inputs].float().requires_grad_(training)
            self.weights = flat_weights[self.places].requires_grad_(training)
            scale, shift, matrix, bias = self.weights.split(self.sizes, dim=1)
            running = statistics[self.statistics_places]
            if training:
                variance, mean = torch.var_mean(self.x, dim=1, correction=0)
                with torch.no_grad():
                    unbiased = variance * (pixels / (pixels - 1))
                    running.lerp_(torch.cat([mean, unbiased], dim=1), MOMENTUM)
                    statistics[self.statistics_places] = running
            else:
                mean, variance = running.split(features, dim=1)
            factor = scale * torch.rsqrt(variance + EPSILON)
            z = F.relu(torch.addcmul((shift - mean * factor)[:, None], self.x, factor[:, None]))
            pooled = z.view(members, self.batch, -1, features).mean(dim=2)
            matrix = matrix.view(members, self.skeleton.classes, features)
            logits = torch.baddbmm(bias[:, None], pooled, matrix.transpose(1, 2))
        self.logits = logits
        return logits.detach()

    def backward(self, logits_gradient: Tensor, gradient: Tensor) -> None:
        """The head's part of the flat gradient, and the gradient of its input as maps of the last stage."""
        dx, dw = torch.autograd.grad(self.logits, (self.x, self.weights), logits_gradient)
        gradient[self.places] = dw
        self.maps[self.gradients] = dx.to(self.maps.dtype)
