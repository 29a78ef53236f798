"""The ensemble that comes with the package: it is there, it is small, and it knows a cat and CIFAR-10."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data as photographs

from uraenas import Run, UraenasError, load_dataset
from uraenas.base.files import read_tensors
from uraenas.ensemble import member_files
from uraenas.evaluation import calibration, metrics
from uraenas.run.directory import PRETRAINED


@pytest.fixture(scope="module")
def cat(tmp_path_factory) -> Path:
    """A photograph by Stéfan van der Walt (CC0): her face, in 32 × 32 and with its shades as they are."""
    face = Image.fromarray(photographs.chelsea()[:, 40:340]).resize((32, 32), Image.Resampling.BOX)
    path = tmp_path_factory.mktemp("photographs") / "chelsea.png"
    face.save(path)
    return path


def test_it_knows_a_cat_it_has_never_seen_and_says_where_its_doubt_comes_from(uraenas, cat):
    done = uraenas("predict", "cifar10", cat, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["predictions"]
    assert row["label"] == "cat"
    assert row["data"] > row["weights"] > 0
    assert row["architecture"] == 0  # ten networks of one architecture


def test_ten_members_with_weights_in_half_precision_and_whole_buffers():
    run = Run.pretrained("cifar10")
    assert run.primary == "deep-ensemble"
    ensemble, space = run.ensemble(), run.ensemble().space
    assert len({member.identity for member in ensemble.members}) == 10
    assert {member.architecture for member in ensemble.members} == {run.searched().expected}
    assert ensemble.temperature == pytest.approx(1.0279, abs=1e-4)
    files = member_files(run.members_folder("deep-ensemble"), 10)
    for path, member in zip(files, ensemble.members, strict=True):
        tensors, _ = read_tensors(path)
        weights = {entry.name for entry in space.weight_layout(member.architecture).entries}
        buffers = {entry.name for entry in space.statistics_layout(member.architecture).entries}
        assert {name for name, tensor in tensors.items() if tensor.dtype == torch.float16} == weights
        assert {name for name, tensor in tensors.items() if tensor.dtype == torch.float32} == buffers
    assert _size(PRETRAINED / "cifar10") < 32e6


def test_all_that_ships_fits_into_a_small_wheel():
    assert _size(PRETRAINED) < 38e6


def test_the_small_networks_that_others_start_from_have_several_architectures():
    run = Run.pretrained("cifar10-small")
    ensemble = run.ensemble()
    assert len(run.marks) == run.data().training_images == 45_000
    assert (len(ensemble), ensemble.space.channels, ensemble.space.cells) == (6, 16, 1)
    assert len({member.architecture for member in ensemble.members}) > 1
    assert run.searched().expected == Run.pretrained("cifar10").searched().expected


def test_one_network_stands_for_the_ten_that_taught_it(cat):
    one, ten = Run.pretrained("cifar10-one"), Run.pretrained("cifar10")
    taught = one.teacher()
    assert taught["ensemble"] == ten.ensemble().identity
    assert taught["compared"]["student"]["accuracy"] > taught["compared"]["teacher"]["accuracy"] - 0.004
    image = np.asarray(Image.open(cat))[None]
    said, theirs = one.ensemble().predict_proba(image), ten.ensemble().predict_proba(image)
    assert said.argmax() == theirs.argmax() == ten.ensemble().classes.index("cat")
    assert one.ensemble().parameters * 10 == ten.ensemble().parameters
    assert not one.ensemble().is_foreign(image)[0]


def test_noise_makes_it_less_sure(cat):
    ensemble = Run.pretrained().ensemble()
    noise = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    known = ensemble.uncertainty(np.asarray(Image.open(cat))[None])
    unknown = ensemble.uncertainty(noise)
    assert unknown.model.mean() > known.model.mean()


def test_a_run_of_the_same_name_comes_first_and_other_names_are_refused(uraenas, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("cifar10").mkdir()  # a folder that is no run, such as one of images
    for text in ("cifar10", "cifar10/"):
        assert Run.find(Path(text)).path == PRETRAINED / "cifar10"
    (tmp_path / "cifar10/config.json").write_text("{}")
    assert Run.find(Path("cifar10")).path == Path("cifar10")
    with pytest.raises(UraenasError, match="Did you mean 'cifar10'"):
        Run.pretrained("cifar-10")
    refused = uraenas("predict", "cifar-10", tmp_path)
    assert refused.returncode == 2
    assert "pretrained, to predict with: cifar10" in refused.stderr


@pytest.mark.data
def test_its_figures_on_a_thousand_test_images():
    """`studies/pretrained.py` makes those on all ten thousand."""
    test = load_dataset("cifar10").test.take(np.arange(1000))
    ensemble = Run.pretrained().ensemble()
    log_p = metrics.mixture(ensemble.member_log_probabilities(test.images))
    labels = torch.from_numpy(test.labels)
    assert metrics.accuracy(log_p, labels) == pytest.approx(0.954, abs=0.0011)  # one image either way
    assert metrics.nll(log_p, labels) == pytest.approx(0.10932, abs=1e-4)
    scaled = calibration.scale(log_p, ensemble.temperature)
    assert metrics.nll(scaled, labels) == pytest.approx(0.10972, abs=1e-4)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
