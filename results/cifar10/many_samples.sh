#!/usr/bin/env bash
# Several samples from each chain, on the search that comes with the package. First what short cycles are worth, on held-out
# images and from the package's members; then ten chains with the best of them; then one network on all images but ten,
# for the benchmark's figure. Goes on where it was cut off.
set -euo pipefail
here=$(dirname "$0")
settings=(--preset cifar10 --set evaluate.suite=datasets/cifar10-c --set engine.checkpoint_seconds=60)
uraenas corrupt cifar10 --out datasets/cifar10-c
if [ ! -e tried ]; then
  [ -e runs/package ] || uraenas export cifar10 --out runs/package
  python3 "$here/../../benchmarks/short_cycles.py" runs/package --epochs 10 --cycles 2 --peak 0.5 0.2 --temperature 5e-3 1e-1 \
    --out short_cycles.json
  touch tried
fi
read -r peak temperature < <(python3 -c "
import json
best = min((row for row in json.load(open('short_cycles.json')) if row.get('cycles') == 2), key=lambda row: row['ensemble']['nll'])
print(best['peak'], best['T'])")
echo "peak $peak, temperature $temperature"
uraenas run "${settings[@]}" --methods uraenas --search-of cifar10 --set train.first_cycle=160 --set train.cycles=5 \
  --set train.later_peak="$peak" --set train.temperature="$temperature" --set train.weight_samples=5 --set train.members=50 \
  --out runs/many
uraenas run --preset cifar10 --methods drnas --set data.held_out=0.0002 --set evaluate.suite=none \
  --set 'train.genotype=|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|' \
  --out runs/whole
