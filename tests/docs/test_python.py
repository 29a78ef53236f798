"""The page on Python: its code runs as it stands, on smaller searches and another run, and says what is true."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from uraenas import Run, UraeNAS, UraenasError, UraeNASRegressor, uncertainty_by_source

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def found(finished_run: Path) -> dict[str, Any]:
    """What the names of the blocks on runs and PyTorch stand for."""
    names: dict[str, Any] = {}
    for block in blocks()[1:]:
        exec(block.replace("runs/digits", str(finished_run)), names)
    return names


def test_the_estimators_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shorter = {"epochs=16": "epochs=4", "members=4": "members=2", "cv=3": "cv=2"}
    code = blocks()[0]
    for long, short in shorter.items():
        assert long in code
        code = code.replace(long, short)
    code = code.replace("return_X_y=True)", "return_X_y=True)\nX, y = X[:200], y[:200]")
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["probabilities"].shape == (200, 10)
    assert UraeNAS.load(tmp_path / "model").classes_.tolist() == list(range(10))


def test_a_module_says_what_members_and_predict_say(found: dict[str, Any]) -> None:
    ensemble, test = found["run"].ensemble("uraenas"), found["test"]
    torch.testing.assert_close(
        found["log_p"], ensemble.member_log_probabilities(test.images), atol=1e-5, rtol=0
    )
    expected = ensemble.predict_proba(test.images)
    np.testing.assert_allclose(found["calibrated"].exp().numpy(), expected, atol=1e-5)
    assert found["log_p"].shape == (len(ensemble), len(test), len(ensemble.classes))
    split = uncertainty_by_source(found["log_p"], ensemble.functions)
    np.testing.assert_allclose(split.total, ensemble.uncertainty(test.images).total, atol=1e-4)


def test_a_module_takes_bytes_and_floats_and_hands_gradients_to_images(found: dict[str, Any]) -> None:
    network, images = found["network"], found["images"][:5]
    as_floats = images / 255 if images.dtype == torch.uint8 else images
    as_bytes = (as_floats * 255).round().to(torch.uint8)
    again = as_bytes.float() / 255
    torch.testing.assert_close(network(as_bytes), network(again), atol=1e-4, rtol=0)
    again.requires_grad_()
    network(again).sum().backward()
    assert again.grad is not None
    assert again.grad.abs().sum() > 0
    assert list(network.parameters()) == []


def test_rows_of_a_table_have_no_module() -> None:
    random = np.random.default_rng(0)
    model = UraeNASRegressor(members=1, epochs=1).fit(random.normal(size=(60, 2)), random.normal(size=60))
    with pytest.raises(UraenasError, match="rows of a table have no module"):
        model.ensemble_.module()


def test_predictions_of_a_run_are_those_of_its_test_images(found: dict[str, Any]) -> None:
    run: Run = found["run"]
    share = (found["mean"].argmax(1).numpy() == found["test"].labels).mean()
    rows = [
        row
        for row in run.metrics().rows
        if (row.method, row.metric, row.shift) == ("uraenas", "accuracy", "none")
    ]
    assert share == pytest.approx(max(rows, key=lambda row: row.members).value, abs=1e-6)
    assert {"method", "value", "low", "high"} <= set(found["found"].columns)
    assert len(found["found"]) >= 1
