#!/usr/bin/env bash
# The joint and the architecture ensemble once more, with seed 1: another search, other draws, other chains. Then that seed's
# single chains, with the first run's settings, and last its control, ten chains of its expected architecture with the same
# noise, stage and means. Goes on where it was cut off.
set -euo pipefail
settings=(--preset cifar10 --set evaluate.suite=datasets/cifar10-c --set engine.checkpoint_seconds=60 --set seed=1)
uraenas corrupt cifar10 --out datasets/cifar10-c
uraenas run "${settings[@]}" --methods uraenas --out runs/seed-1
uraenas run "${settings[@]}" --methods uraenas,uraenas-a --out runs/seed-1
uraenas run "${settings[@]}" --set train.weight_samples=10 --set train.sampling_peak=0 --set train.average_samples=false \
  --methods drnas,uraenas-w,snapshot --search-of runs/seed-1 --out runs/singles-seed-1
uraenas run "${settings[@]}" --methods uraenas-w --search-of runs/seed-1 --out runs/weights-seed-1
