"""Stacks of members and the supernet on own GPU kernels (Triton). README.md here explains the hard parts.

Import the parts from their modules, and only where `available` says so:

    stack.StackProgram    forward and backward of M members with their own genotypes
    supernet.SupernetProgram    the same for the supernet, with slopes of its mixing weights
    images.augment        gather, crop, flip and normalise uint8 images
"""

import importlib.util

import torch

__all__ = ["available"]


def available(device: torch.device) -> bool:
    """Whether own kernels can run on this device."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None
