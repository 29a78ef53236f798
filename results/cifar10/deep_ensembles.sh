#!/usr/bin/env bash
# The deep ensembles that uraenas is held against, beside the members that the package had at the
# time (37a07bb) and on its search:
# ten members have its epochs, twelve its seconds (search and ten chains). Goes on where it was cut off.
set -euo pipefail
settings=(--preset cifar10 --set train.draw_none=true --set train.weight_samples=10 --set train.sampling_peak=0
  --set train.average_samples=false --set evaluate.suite=datasets/cifar10-c --set engine.checkpoint_seconds=60)
uraenas corrupt cifar10 --out datasets/cifar10-c
uraenas run "${settings[@]}" --methods deep-ensemble --set train.members=12 --set engine.stack=12 \
  --search-of cifar10 --out runs/twelve
if [ ! -e runs/cifar10/chains ]; then
  [ -e runs/cifar10 ] || uraenas export cifar10 --out runs/cifar10
  cp -r runs/twelve/chains runs/cifar10/unfinished
  mv runs/cifar10/unfinished runs/cifar10/chains
fi
uraenas run "${settings[@]}" --methods uraenas,deep-ensemble --out runs/cifar10
for other in deep-ensemble runs/twelve:deep-ensemble; do
  uraenas report runs/cifar10 --format md --against "$other"
done
