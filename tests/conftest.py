"""What all tests share."""

import torch

# The suite runs on two cores with two workers; more threads would only wait for each other.
torch.set_num_threads(1)
