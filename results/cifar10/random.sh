#!/usr/bin/env bash
# Ten random architectures, seed 0. Goes on where it was cut off.
set -euo pipefail
uraenas corrupt cifar10 --out datasets/cifar10-c
uraenas run --preset cifar10 --set evaluate.suite=datasets/cifar10-c --set engine.checkpoint_seconds=60 \
  --methods random-ensemble --out runs/random
