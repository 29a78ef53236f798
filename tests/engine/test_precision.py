"""What `auto` means for the precision of a network. No GPU is asked: whether there is one is said by hand."""

import pytest
import torch

from uraenas.engine import Engine, EngineSettings
from uraenas.run.config import preset
from uraenas.run.task import prepare


def gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)


@pytest.mark.parametrize(
    ("capability", "lowered"), [((7, 0), False), ((7, 5), False), ((8, 0), True), ((9, 0), True)]
)
def test_bfloat16_is_taken_where_matrix_units_have_it(monkeypatch, capability, lowered) -> None:
    gpu(monkeypatch, capability)
    engine = Engine(EngineSettings())
    assert (engine.device.type, engine.lowered, engine.wants_kernels) == ("cuda", lowered, lowered)
    assert Engine(EngineSettings(precision="bfloat16")).lowered


@pytest.mark.parametrize(("name", "lowered"), [("tiny", True), ("table", False)])
def test_tables_keep_their_digits(monkeypatch, name, lowered) -> None:
    task = prepare(preset(name))
    gpu(monkeypatch, (9, 0))
    assert task.engine(EngineSettings()).lowered == lowered
    assert task.engine(EngineSettings(precision="bfloat16")).lowered
