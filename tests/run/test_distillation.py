"""One network that learns what an ensemble says: from just what it sees, into a run like any other."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from uraenas import report
from uraenas.base.errors import UraenasError
from uraenas.data import digits
from uraenas.deploy import Exported, accelerated, export_file
from uraenas.engine import Engine, EngineSettings, cross_entropy
from uraenas.ensemble import Ensemble
from uraenas.evaluation.metrics import mixture, uncertainty_by_source
from uraenas.learning.chains import chains_for
from uraenas.learning.teaching import EnsembleTeacher
from uraenas.run.config import override
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.task import prepare
from uraenas.run.teaching import Teaching, distilling, teacher_for
from uraenas.weights import WEIGHTS

TEST = digits().test.images[:60]


@pytest.fixture(scope="module")
def split(finished_run, uraenas, tmp_path_factory) -> tuple[Run, dict]:
    """A network with a head for each member, and what was said of it."""
    out = tmp_path_factory.mktemp("distilled") / "split"
    quick = ("--set", "train.augmentation=trivial", "--set", "evaluate.bootstrap=10")
    done = uraenas("distil", finished_run, "--into", "drnas", "--split", "--out", out, "--json", *quick)
    assert done.returncode == 0, done.stderr
    return Run(out), json.loads(done.stdout)


def test_the_teacher_speaks_of_the_very_images_that_are_trained_on(finished_run: Path) -> None:
    """Crops, flips and mixed pairs included; whatever their labels are."""
    config = override(Run(finished_run).config(), {"train.augmentation": "mixup", "methods": "drnas"})
    task, ensemble = prepare(config), Run(finished_run).ensemble()
    engine = Engine(EngineSettings(device="cpu"))
    loader = task.loader(task.train, 64, engine, config.augmentations, EnsembleTeacher(ensemble, engine))
    drawn = loader.with_room(loader.draw([3, 4], epoch=1), each=False)
    loader.augment(7, 1)
    drawn.targets.copy_(loader.taught(drawn, each=False))
    labels = loader.labels.clone()
    for step in (0, 5):
        images, targets, weights = loader.batch_at(drawn, step)
        units = ensemble.normalisation
        raw = images.movedim(2, -1) * torch.tensor(units.deviation) + torch.tensor(units.mean)
        expected = ensemble.predict_proba(raw[1].round().numpy().astype(np.uint8), calibrated=False)
        np.testing.assert_allclose(targets[1], expected, atol=1e-5)
        assert weights is None
    each = loader.taught(drawn, each=True).unflatten(-1, (len(ensemble), -1))
    torch.testing.assert_close(each.mean(dim=3), drawn.targets)
    loader.labels = labels.roll(1, dims=0)
    torch.testing.assert_close(loader.taught(drawn, each=False), drawn.targets)


def test_weights_of_images_are_those_of_what_is_learned_of_them(finished_run: Path) -> None:
    config = override(Run(finished_run).config(), {"train.class_weights": "balanced", "methods": "drnas"})
    task, engine = prepare(config), Engine(EngineSettings(device="cpu"))
    loader = task.loader(task.train, 64, engine, (), lambda raw: torch.full((2, len(raw), 10), 0.1))
    drawn = loader.draw([3], epoch=0)
    sums = loader.taught(drawn, each=False).sum(dim=-1)
    torch.testing.assert_close(sums, loader.weights[drawn.order])


def test_heads_learn_each_from_its_own_and_their_mean_is_as_near_as_they_are() -> None:
    heads = WEIGHTS["heads"].make({"architectures": (0, 0, 1)})
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 5, 3 * 4, generator=generator, requires_grad=True)
    said = torch.randn(2, 5, 3, 4, generator=generator).softmax(dim=-1)
    losses = heads.objective(logits, said.flatten(2), None)
    (slope,) = torch.autograd.grad(losses.sum(), logits)
    apart = logits.detach().unflatten(-1, (3, 4)).requires_grad_()
    alone = torch.stack([cross_entropy(apart[:, :, h], said[:, :, h], None) for h in range(3)])
    torch.testing.assert_close(losses, alone.mean(dim=0))
    torch.testing.assert_close(slope, torch.autograd.grad(alone.sum(), apart)[0].flatten(2))
    labels = said[..., 0, :].argmax(dim=-1)
    same = [cross_entropy(apart[:, :, h], labels, None) for h in range(3)]
    torch.testing.assert_close(heads.objective(logits, labels, None), torch.stack(same).mean(dim=0))
    found, means = apart.softmax(dim=-1), (said.mean(dim=2), apart.softmax(dim=-1).mean(dim=2))
    each = (said * (said / found).log()).sum(dim=-1).mean(dim=2)
    assert ((means[0] * (means[0] / means[1]).log()).sum(dim=-1) <= each + 1e-6).all()


def test_a_network_with_heads_is_an_ensemble_that_keeps_the_split(split, finished_run: Path) -> None:
    run, said = split
    teacher, student = Run(finished_run).ensemble(), run.ensemble()
    assert isinstance(student, Ensemble)
    assert len(student) == len(teacher)
    assert len(student.networks) == 1
    groups = [
        [functions.index(one) for one in functions] for functions in (teacher.functions, student.functions)
    ]
    assert groups[0] == groups[1]
    log_p = student.member_log_probabilities(TEST)
    assert (log_p[0] - log_p[1]).abs().max() > 1e-3
    expected = uncertainty_by_source(log_p, teacher.functions)
    found = student.uncertainty(TEST)
    for source in ("total", "data", "weights", "architecture"):
        torch.testing.assert_close(getattr(found, source), getattr(expected, source))
        assert said["student"][source] >= 0
    looked, _ = student.look(TEST)
    torch.testing.assert_close(looked, log_p, atol=1e-5, rtol=1e-5)
    alone = Ensemble(student.members[1:2], student.space, student.normalisation, student.classes)
    torch.testing.assert_close(alone.member_log_probabilities(TEST)[0], log_p[1])
    assert (said["images"], said["members"]) == (539, len(teacher))


def test_it_is_exported_with_one_pass_for_all_heads_and_says_whom_it_learned_from(
    split, tmp_path: Path
) -> None:
    run, _ = split
    facts = export_file(run, tmp_path / "one.onnx")
    exported = Exported(tmp_path / "one.onnx", threads=1)
    np.testing.assert_allclose(exported(TEST)["probabilities"], run.ensemble().predict_proba(TEST), atol=1e-5)
    fast = accelerated(run.ensemble(), threads=1).member_log_probabilities(TEST[:5])
    torch.testing.assert_close(fast, run.ensemble().member_log_probabilities(TEST[:5]), atol=1e-5, rtol=1e-5)
    assert exported.facts["teacher"]["ensemble"] == facts["teacher"]["ensemble"] == run.teacher()["ensemble"]
    small = 1.3 * 4 * run.ensemble().parameters + 4 * sum(
        level.whitening.numel() + level.means.numel() for level in run.ensemble().known.seen[0].parts.values()
    )
    assert (tmp_path / "one.onnx").stat().st_size < small + 60_000


def test_pages_say_that_the_teacher_was_trained_too(split: tuple[Run, dict], finished_run: Path) -> None:
    words = f"Networks learned what {Run(finished_run).primary} of {finished_run} says in place of labels"
    assert words in report.build([(split[0], None)])
    assert words not in report.build([(Run(finished_run), None)])
    both = report.build([(Run(finished_run), None), (split[0], None)])
    assert f"split: {words}" in both


def test_what_is_measured_on_held_out_images_is_called_so(
    uraenas, finished_run: Path, tmp_path: Path
) -> None:
    quick = ("--set", "train.epochs=1", "--set", "evaluate.part=held_out", "--set", "evaluate.bootstrap=0")
    done = uraenas("distil", finished_run, "--into", "drnas", "--out", tmp_path / "one", *quick)
    assert done.returncode == 0, done.stderr
    assert "held-out images" in done.stdout
    assert "test images" not in done.stdout


def test_a_copy_keeps_it_and_the_teacher_need_not_be_there(split, uraenas, tmp_path: Path) -> None:
    run, said = split
    done = uraenas("export", run.path, "--out", tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    copy = Run(tmp_path / "copy")
    assert copy.teacher()["compared"]["kl"] == said["kl"]
    near = mixture(copy.ensemble().member_log_probabilities(TEST)) - mixture(
        run.ensemble().member_log_probabilities(TEST)
    )
    assert near.abs().max() < 0.05  # half precision


@pytest.mark.parametrize("into", ["drnas", "uraenas", "random-ensemble"])
def test_one_network_has_all_heads_wherever_its_architecture_comes_from(
    finished_run: Path, into: str
) -> None:
    config = distilling(Run(finished_run), into, split=True)
    assert chains_for(config.method(config.methods[0]), config.ensemble) == 1


def test_what_does_not_fit_is_refused(finished_run: Path, split, tmp_path: Path) -> None:
    source = Run(finished_run)
    for changes, why in (
        ({"seed": 5}, "teacher .* does not fit: seed"),
        ({"train.heads.architectures": (0, 1, 2)}, "3 heads, and train.teacher 2 members"),
    ):
        with pytest.raises(UraenasError, match=why):
            Pipeline.checked(tmp_path / "new", distilling(source, "drnas", split=True, changes=changes))
    config = distilling(source, "drnas")
    other = Run(tmp_path / "other")
    pipeline = Pipeline.start(other.path, config, search_of=source)
    other.write_teacher({**Teaching.of(config).facts, "ensemble": "0" * 32})
    with pytest.raises(UraenasError, match="another ensemble"):
        teacher_for(other, config, pipeline.task, pipeline.engine)
