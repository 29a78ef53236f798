#!/usr/bin/env bash
# Ten architectures whose chains give the mean of their samples, on the search that comes with the package. Which sampling
# stage is tried first, on held-out images and from the members that the package had at the time. Then the network on all
# images but ten. Goes on where it was cut off.
set -euo pipefail
here=$(dirname "$0")
uraenas corrupt cifar10 --out datasets/cifar10-c
if [ ! -e stages.json ]; then
  [ -e runs/package ] || uraenas export cifar10 --out runs/package
  python3 "$here/../../benchmarks/sampling_stages.py" runs/package --stages 0.2:4 0.2:40 0.5:40 --out tried.json
  mv tried.json stages.json
fi
chosen=$(python3 -c "
import json
rows = [row for row in json.load(open('stages.json')) if row['kind'] == 'mean']
best = min(rows, key=lambda row: row['ensemble']['nll'])
print(f'--set train.weight_samples={best[\"samples\"]} --set train.sampling_peak={best[\"peak\"]}')")
echo "chosen: $chosen"
uraenas run --preset cifar10 --set evaluate.suite=datasets/cifar10-c --set engine.checkpoint_seconds=60 $chosen \
  --methods uraenas --search-of cifar10 --out runs/mean
uraenas run --preset cifar10 --methods drnas --set data.held_out=0.0002 --set evaluate.suite=none \
  --set train.weight_samples=10 --set train.sampling_peak=0 --set train.average_samples=false \
  --set 'train.genotype=|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|' \
  --out runs/whole
