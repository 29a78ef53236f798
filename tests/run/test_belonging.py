"""Every part of a run carries whose it is, and another in its place is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from uraenas import Ensemble, Run, UraenasError
from uraenas.base.files import checksum_of, read_json, read_tensors, write_json, write_tensors
from uraenas.data.dataset import Dataset, LabelledImages
from uraenas.run.show import summary


def every_look(run: Run) -> None:
    """All that reads a part of a run."""
    summary(run.path)
    run.metrics()
    run.replicates()
    run.searched()
    run.data()
    run.environment()
    run.costs.read()
    run.losses()
    for method in run.trained:
        run.ensemble(method)
        run.threshold(0.05, method)
        run.read_tensors(run.predictions_file(method, "digits"))
        run.read_tensors(run.cell_file(method, "digits"))
    for chain in run.chains.names():
        run.chains.samples(chain)
    for path in run.path.glob("chains/explored/*"):
        run.read_tensors(str(path.relative_to(run.path)))


def test_one_methods_members_are_not_anothers(own_run: Path) -> None:
    run = Run(own_run)
    shutil.rmtree(run.members_folder("deep-ensemble"))
    shutil.copytree(run.members_folder("uraenas"), run.members_folder("deep-ensemble"))
    with pytest.raises(UraenasError, match="those of method uraenas, put in this place; delete it and run"):
        run.ensemble("deep-ensemble")
    # Whoever asks for no owner in particular may read it.
    assert len(Ensemble.load(run.members_folder("deep-ensemble"))) == 2


def test_every_part_of_another_run_is_refused_in_its_place(
    finished_run: Path, sampled_run: Run, tmp_path: Path
) -> None:
    every_look(Run(finished_run))
    theirs = {
        str(path.relative_to(sampled_run.path)) for path in sampled_run.path.rglob("*") if path.is_file()
    }
    ours = {str(path.relative_to(finished_run)) for path in finished_run.rglob("*") if path.is_file()}
    both = {
        name for name in theirs & ours if name.endswith((".json", ".safetensors")) and name != "config.json"
    }
    assert len(both) > 15
    copy = Path(shutil.copytree(finished_run, tmp_path / "run"))
    for name in sorted(both):
        shutil.copy(sampled_run.path / name, copy / name)
        with pytest.raises(UraenasError) as said:
            every_look(Run(copy))
        assert "\n" not in str(said.value)
        shutil.copy(finished_run / name, copy / name)
    every_look(Run(copy))


def test_a_run_and_a_copy_of_it_are_the_same(uraenas, own_run: Path, tmp_path: Path) -> None:
    assert uraenas("export", own_run, "--out", tmp_path / "copy").returncode == 0
    assert Run(tmp_path / "copy").identity == Run(own_run).identity


def test_other_settings_or_images_are_another_run(finished_run: Path, sampled_run: Run) -> None:
    run = Run(finished_run)
    known = {run.identity, sampled_run.identity}
    assert len(known) == 2
    assert all(len(one) == 32 for one in known)


def test_what_is_not_finite_is_named_and_the_exit_code_says_so(
    uraenas, own_run: Path, tmp_path: Path
) -> None:
    """Weights that are finite, with products that are not."""
    run = Run(own_run)
    folder = run.members_folder("uraenas")
    facts = read_json(folder / "ensemble.json")
    for number in range(len(facts["members"])):
        path = folder / f"{number:03d}.safetensors"
        tensors, header = read_tensors(path)
        path.unlink()  # it is the chain's sample, too
        write_tensors(path, {name: tensor.clone().fill_(1e38) for name, tensor in tensors.items()}, header)
        facts["members"][number] = checksum_of(path)
    write_json(folder / "ensemble.json", facts)
    Image.fromarray(np.full((8, 8), 200, np.uint8)).save(tmp_path / "one.png")
    done = uraenas("predict", own_run, tmp_path / "one.png", "--method", "uraenas", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["predictions"] == []
    assert "not finite" in found["unreadable"][0]["why"]
    assert "one.png: no prediction" in done.stderr


@pytest.mark.parametrize("classes", [("a", "b", "a"), ("", "", "x")])
def test_two_classes_of_one_name_are_refused_before_anything_is_trained(classes: tuple[str, ...]) -> None:
    part = LabelledImages(np.zeros((6, 4, 4, 1), np.uint8), np.arange(6) % 3)
    with pytest.raises(UraenasError, match="two classes are called"):
        Dataset("some", part, part, classes, False, 0)
