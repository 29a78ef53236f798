"""Kernels run here in Triton's interpreter, on the CPU; it is chosen before Triton is first imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
