"""Where a run may begin, and with which run it may go on."""

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline


def test_a_beginning_that_was_killed_can_begin_again(tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "lock").touch()
    (out / ".config.json.abc.tmp").touch()
    Pipeline.start(out, preset("tiny"))
    assert (out / "config.json").exists()


def test_data_that_changed_under_a_run_are_refused_and_what_changed_is_said(tmp_path):
    def store(value: int, count: int = 40, size: int = 8) -> None:
        images = np.full((count, size, size, 1), value, np.uint8)
        labels = np.tile(np.arange(2), count // 2)
        np.savez(tmp_path / "data.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)

    store(1)
    Pipeline.start(tmp_path / "run", preset("tiny", {"data.name": str(tmp_path / "data.npz")}))
    for facts, words in (
        ((2,), "; choose"),
        ((1, 60), r" \(training images: 34, now 51\)"),
        ((1, 40, 9), r" \(images of: 8 × 8 × 1, now 9 × 9 × 1\)"),
    ):
        store(*facts)
        with pytest.raises(UraenasError, match=f"made with other images than data holds now{words}"):
            Pipeline.resume(tmp_path / "run")


def test_a_run_that_another_process_began_meanwhile_is_not_gone_on_with(tmp_path, monkeypatch):
    """It looked at the directory, and the other has come and gone before it holds it."""
    out = tmp_path / "run"
    check = Pipeline.check_evaluation

    def slowly(self):
        monkeypatch.setattr(Pipeline, "check_evaluation", check)
        Pipeline.start(out, preset("tiny", {"train.epochs": 4}))
        check(self)

    monkeypatch.setattr(Pipeline, "check_evaluation", slowly)
    with pytest.raises(UraenasError, match=r"train\.epochs was 4 and is now 2"):
        Pipeline.start(out, preset("tiny"))
    assert Run(out).config().train.epochs == 4
