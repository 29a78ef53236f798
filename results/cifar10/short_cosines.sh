#!/usr/bin/env bash
# Ten architectures without `none`, on the search that comes with the package; four samples of each chain from short cosines
# if those help. That is tried first, on held-out images and from the members that the package had at the time. `ten` has the last sample of each
# chain and the architecture ensemble, `forty` all samples. Then one network on all images but ten, for the benchmark's
# figure. Goes on where it was cut off.
set -euo pipefail
here=$(dirname "$0")
uraenas corrupt cifar10 --out datasets/cifar10-c
if [ ! -e tried ]; then
  [ -e runs/package ] || uraenas export cifar10 --out runs/package
  python3 "$here/../../benchmarks/sampling_stages.py" runs/package --epochs 20 --stages 0.5:2 0.2:2 \
    --temperature 5e-3 1e-1 --out short_cosines.json
  touch tried
fi
chosen=$(python3 -c "
import json
before, *rows = json.load(open('short_cosines.json'))
best = min((row for row in rows if row['kind'] == 'all'), key=lambda row: row['ensemble']['nll'])
helps = best['ensemble']['nll'] < before['ensemble']['nll']
print(f'--set train.weight_samples=4 --set train.sampling_peak={best[\"peak\"]} --set train.temperature={best[\"T\"]}' if helps
    else '--set train.weight_samples=10 --set train.sampling_peak=0')")
echo "chosen: $chosen"
settings=(--preset cifar10 --set evaluate.suite=datasets/cifar10-c --set engine.checkpoint_seconds=60
  --set train.average_samples=false $chosen)
uraenas run "${settings[@]}" --methods uraenas,uraenas-a --search-of cifar10 --out runs/ten
if [ ! -e runs/forty ]; then
  rm -rf runs/begun && mkdir runs/begun
  cp -r runs/ten/{chains,search,config.json,data.json,cost.json} runs/begun
  python3 -c "
from uraenas import Run
run = Run('runs/begun')
run.write_json('config.json', run.read_json('config.json') | {'train.members': 40, 'methods': ['uraenas']})"
  mv runs/begun runs/forty
fi
uraenas run "${settings[@]}" --methods uraenas --set train.members=40 --out runs/forty
uraenas run --preset cifar10 --methods drnas --set data.held_out=0.0002 --set evaluate.suite=none \
  --set train.weight_samples=10 --set train.sampling_peak=0 --set train.average_samples=false \
  --set 'train.genotype=|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|' \
  --out runs/whole
