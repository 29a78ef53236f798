"""Where a run may begin, and with which run it may go on."""

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.base.files import read_json, write_json
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


def test_data_that_changed_under_a_run_are_refused(tmp_path):
    def store(value: int) -> None:
        images = np.full((40, 8, 8, 1), value, np.uint8)
        labels = np.tile(np.arange(2), 20)
        np.savez(tmp_path / "data.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)

    store(1)
    Pipeline.start(tmp_path / "run", preset("tiny", {"data.name": str(tmp_path / "data.npz")}))
    store(2)
    with pytest.raises(UraenasError, match="other images"):
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


@pytest.mark.parametrize(("size", "halvings"), [(32, -1), (64, 0)])
def test_a_run_from_before_stems_halved_images_goes_on_as_it_began(tmp_path, size, halvings):
    images = np.zeros((40, size, size, 1), np.uint8)
    np.savez(tmp_path / "data.npz", X=images, y=np.tile(np.arange(2), 20))
    config = preset("tiny", {"data.name": str(tmp_path / "data.npz")})
    Pipeline.start(tmp_path / "run", config)
    file = tmp_path / "run" / "config.json"
    write_json(file, {key: value for key, value in read_json(file).items() if key != "network.halvings"})
    assert Run(tmp_path / "run").config().values["network.halvings"] == halvings
    assert Pipeline.resume(tmp_path / "run").task.space.skeleton.halvings == 0
