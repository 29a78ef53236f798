"""The ensemble that comes with the package: it is there, it is small, and it knows a cat and CIFAR-10."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data as photographs

from test_predict import uraenas
from uraenas import Run, UraenasError, load_dataset
from uraenas.files import read_tensors
from uraenas.run import PRETRAINED


@pytest.fixture(scope="module")
def cat(tmp_path_factory) -> Path:
    """A photograph by Stéfan van der Walt (CC0): her face, in 32 × 32 and with its shades as they are."""
    face = Image.fromarray(photographs.chelsea()[:, 40:340]).resize((32, 32), Image.Resampling.BOX)
    path = tmp_path_factory.mktemp("photographs") / "chelsea.png"
    face.save(path)
    return path


def test_it_knows_a_cat_it_has_never_seen_and_says_where_its_doubt_comes_from(cat):
    done = uraenas("predict", "cifar10", cat, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["predictions"]
    assert row["label"] == "cat"
    assert row["total"] == pytest.approx(row["data"] + row["weights"] + row["architecture"], abs=1e-5)


def test_ten_members_in_half_precision_with_whole_buffers():
    ensemble = Run.pretrained("cifar10").ensemble()
    assert len(ensemble) == 10
    assert len({member.genotype for member in ensemble.members}) > 5
    tensors, _ = read_tensors(PRETRAINED / "cifar10/methods/uraenas/members/000.safetensors")
    kinds = {str(tensor.dtype) for name, tensor in tensors.items()}
    assert kinds == {"torch.float16", "torch.float32"}
    assert sum(path.stat().st_size for path in PRETRAINED.rglob("*") if path.is_file()) < 32e6


def test_noise_makes_it_less_sure(cat):
    ensemble = Run.pretrained().ensemble()
    noise = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    known = ensemble.uncertainty(np.asarray(Image.open(cat))[None])
    unknown = ensemble.uncertainty(noise)
    assert unknown.model.mean() > known.model.mean()


def test_a_directory_of_the_same_name_comes_first_and_other_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Run.find(Path("cifar10")).path == PRETRAINED / "cifar10"
    Path("cifar10").mkdir()
    assert Run.find(Path("cifar10")).path == Path("cifar10")
    with pytest.raises(UraenasError, match="Did you mean 'cifar10'"):
        Run.pretrained("cifar-10")


@pytest.mark.data
def test_its_accuracy_on_test_images():
    test = load_dataset("cifar10").test
    probabilities = Run.pretrained().ensemble().predict_proba(test.images[:1000])
    right = probabilities.argmax(axis=1) == test.labels[:1000]
    assert right.mean() == pytest.approx(0.956, abs=0.0015)  # one image either way
