#!/usr/bin/env bash
# The joint and the architecture ensemble once more, with seed 1: another search, other draws, other chains. Then ten
# random architectures with seed 0. Goes on where it was cut off.
set -euo pipefail
settings=(--preset cifar10 --set evaluate.suite=datasets/cifar10-c --set engine.checkpoint_seconds=60)
uraenas corrupt cifar10 --out datasets/cifar10-c
uraenas run "${settings[@]}" --set seed=1 --methods uraenas --out runs/seed-1
uraenas run "${settings[@]}" --set seed=1 --methods uraenas,uraenas-a --out runs/seed-1
uraenas run "${settings[@]}" --methods random-ensemble --out runs/random
