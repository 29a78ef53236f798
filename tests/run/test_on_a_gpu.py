"""What only a real GPU can show: the same bits twice, too little memory, a signal in the middle of a captured run."""

import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from uraenas.data.dataset import LabelledImages
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import Member
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.train import Training, train
from uraenas.run.checkpoints import read_chain
from uraenas.run.config import preset
from uraenas.run.pipeline import Pipeline
from uraenas.spaces import CellSpace, Shape
from uraenas.weights import Point

pytestmark = pytest.mark.gpu

SIZES = [
    {"network.channels": 16},
    {"network.channels": 12, "engine.repeatable": True},
    {
        "network.channels": 16,
        "methods": "drnas,uraenas-swa",
        "train.sampling.samples": 2,
        "train.sampling.exploration": 0.4,
    },
]


@pytest.mark.parametrize("changes", SIZES, ids=["own kernels", "PyTorch's, repeatable", "means of samples"])
def test_two_runs_with_one_seed_have_the_same_bits(tmp_path: Path, changes: dict) -> None:
    common = {"engine.device": "cuda", "evaluate.suite": "none", "methods": "drnas,uraenas"}
    config = preset("tiny", {**common, **changes})
    results = []
    for name in ("first", "second"):
        out = tmp_path / name
        pipeline = Pipeline.start(out, config)
        pipeline.train(pipeline.search())
        pipeline.evaluate()
        paths = [*out.glob("search/architecture.safetensors"), *out.glob("methods/*/members/*.safetensors")]
        assert len(paths) > 3
        tensors = {
            f"{path.relative_to(out)} {part}": tensor.numpy().tobytes()
            for path in paths
            for part, tensor in load_file(path).items()
        }
        results.append((tensors, (out / "metrics.json").read_bytes()))
    assert results[0] == results[1]


SPACE = CellSpace(channels=16, cells=2, shape=Shape(32, 32))
SETTINGS = TrainSettings(epochs=1, batch=256)


def train_eight(engine: Engine) -> list[Member]:
    images = np.random.default_rng(0).integers(0, 256, (1024, 32, 32, 3), dtype=np.uint8)
    part = LabelledImages(images, np.arange(1024) % 10)
    loader = Loader(part, Normalisation.of(images), 256, 4, True, engine.device, engine.dtype)
    architecture = SPACE.architecture((3, 3, 3, 1, 3, 3))
    specs = [ChainSpec("sampled", Point(), n, architecture) for n in range(8)]
    chains = [initial_chain(spec, SPACE, 0) for spec in specs]
    collected: list[Member] = []
    train(chains, Training(SETTINGS, SPACE, loader, engine, 0), collected.append, lambda states: None)
    return collected


def peak(members: int) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    train_eight(Engine(EngineSettings(device="cuda", stack=members)))
    return torch.cuda.max_memory_reserved()


def test_a_stack_that_does_not_fit_is_halved_until_it_does() -> None:
    with_eight, with_four = peak(8), peak(4)
    assert with_four < with_eight
    engine = Engine(EngineSettings(device="cuda", stack=8))
    roomy = train_eight(engine)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((with_four + with_eight) / 2 / total)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            cramped = train_eight(engine)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert any("going on with 4" in str(warning.message) for warning in told)
    assert sorted(m.origin.chain for m in cramped) == sorted(m.origin.chain for m in roomy)
    others = {member.origin.chain: member.weights for member in roomy}
    for member in cramped:  # sums over fewer members are cut into other pieces, so they round otherwise
        distances = {chain: (member.weights - weights).norm() for chain, weights in others.items()}
        own = distances.pop(member.origin.chain)
        assert own < 0.1 * min(distances.values())


def test_want_of_memory_in_a_capture_is_not_taken_for_a_step_that_cannot_be_captured() -> None:
    sizes = iter([1, 1, 1, 10**15])
    counter = torch.zeros(1, device="cuda")

    def step() -> None:
        counter.add_(1)  # a graph of nothing would be a warning of its own
        torch.empty(next(sizes), device="cuda")

    captured = Engine(EngineSettings(device="cuda")).capture(step)
    for _ in range(3):
        captured()
    with pytest.raises(torch.OutOfMemoryError):
        captured()


def test_a_signal_leaves_the_epochs_that_were_over(tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    sets = [
        "network.channels=16",
        "train.epochs=2000",
        "engine.checkpoint_seconds=3600",
        "engine.device=cuda",
        "evaluate.suite=none",
    ]
    command = [sys.executable, "-m", "uraenas", "run", "--preset", "tiny", "--methods", "uraenas"]
    for text in sets:
        command += ["--set", text]
    process = subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE, text=True)
    costs = out / "cost.json"
    while process.poll() is None and not (costs.exists() and '"chains/' in costs.read_text()):
        time.sleep(0.005)
    time.sleep(3)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate()
    assert process.returncode == 143
    assert "stopped by SIGTERM" in told
    pipeline = Pipeline.resume(out)
    epochs = [read_chain(pipeline.run, name).epoch for name in pipeline.run.chains.names()]
    done = sum(cost["images"] for name, cost in pipeline.run.costs.read().items() if "/" in name)
    loader = pipeline.task.loader(pipeline.task.train, pipeline.config.train.batch, pipeline.engine)
    assert sum(epochs) * loader.steps * loader.batch == done  # no epoch that was paid for is lost
