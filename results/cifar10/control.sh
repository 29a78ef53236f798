#!/usr/bin/env bash
# What of the joint ensemble's figures comes from its weights and what from its architectures: chains of the expected
# architecture with the same noise, sampling stage and means, on the search that comes with the package. Fourteen take
# about as long as uraenas (search and ten chains); ten of them have its members. Goes on where it was cut off.
set -euo pipefail
settings=(--preset cifar10 --set evaluate.suite=datasets/cifar10-c --set engine.checkpoint_seconds=60 --set engine.stack=14)
uraenas corrupt cifar10 --out datasets/cifar10-c
uraenas run "${settings[@]}" --methods uraenas-w --set train.members=14 --search-of cifar10 --out runs/weights-14
if [ ! -e runs/weights-10 ]; then
  rm -rf runs/begun && mkdir runs/begun
  cp -rl runs/weights-14/{chains,search,data.json,cost.json} runs/begun
  python3 -c "
from uraenas import Run
config = Run('runs/weights-14').read_json('config.json')
Run('runs/begun').write_json('config.json', config | {'train.members': 10})"
  mv runs/begun runs/weights-10
fi
uraenas run "${settings[@]}" --methods uraenas-w --out runs/weights-10
