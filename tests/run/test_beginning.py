"""Where a run may begin, and with which run it may go on."""

import json

import numpy as np
import pytest

from uraenas.base.errors import UraenasError
from uraenas.base.files import digest_of, read_json, write_json
from uraenas.run.config import deciding, preset
from uraenas.run.directory import Run
from uraenas.run.pipeline import Pipeline
from uraenas.run.task import prepare


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


@pytest.mark.parametrize(
    "changed",
    [
        lambda table: table.replace("length", "width"),
        lambda table: table.replace("first", "third"),
        lambda table: "\n".join(  # in another unit, whose numbers are the same once they are scaled
            line if place == 0 else ",".join([str(2 * float(line.split(",")[0])), *line.split(",")[1:]])
            for place, line in enumerate(table.split("\n"))
        ),
    ],
    ids=["name", "category", "unit"],
)
def test_columns_that_changed_under_a_run_are_refused(tmp_path, changed):
    """Encoded rows are the same, and members would still read the columns as they were."""
    numbers = np.random.default_rng(0).normal(size=60)
    lines = [f"{x!r},{['first', 'second'][n % 2]},{3 * x!r}" for n, x in enumerate(numbers.tolist())]
    file, settings = tmp_path / "rows.csv", {"data.target": "y", "data.name": str(tmp_path / "rows.csv")}
    table = "\n".join(["length,order,y", *lines])
    file.write_text(table)
    began = Pipeline.start(tmp_path / "run", preset("table", settings))
    Pipeline.resume(tmp_path / "run")
    file.write_text(changed(table))
    with pytest.raises(
        UraenasError, match=r"other rows than rows holds now \(columns have other names, units or"
    ):
        Pipeline.resume(tmp_path / "run")
    file.write_text("\n".join(["length,order,y", *lines[::-1]]))
    with pytest.raises(UraenasError, match="made with other rows than rows holds now; choose"):
        Pipeline.resume(tmp_path / "run")
    file.write_text(changed(table))
    facts = read_json(tmp_path / "run/data.json")
    assert facts["blake2b"] == prepare(began.config).facts.blake2b
    del facts["columns"]  # as it was before columns were looked at
    write_json(tmp_path / "run/data.json", facts)
    Pipeline.resume(tmp_path / "run")


def test_the_checksum_of_test_images_changes_neither_a_run_nor_what_it_goes_on_with(tmp_path):
    """Of runs that began before there was one, data.json has none; more training images leave it as it is."""
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (90, 8, 8, 1), dtype=np.uint8), np.arange(90) % 2
    facts = []
    for learned in (60, 70):
        arrays = {"x_train": images[:learned], "y_train": labels[:learned]}
        np.savez(tmp_path / f"{learned}.npz", **arrays, x_test=images[70:], y_test=labels[70:])
        settings = preset("tiny", {"data.name": str(tmp_path / f"{learned}.npz")})
        facts.append(Pipeline.start(tmp_path / f"run-{learned}", settings).run.data())
    assert facts[0].tested == facts[1].tested != ""
    assert facts[0].blake2b != facts[1].blake2b
    run, stored = Run(tmp_path / "run-60"), read_json(tmp_path / "run-60/data.json")
    assert len(stored["learned"]) == 16 * facts[0].training_images
    del stored["tested"], stored["learned"]
    write_json(tmp_path / "run-60/data.json", stored)
    own = digest_of(json.dumps(deciding(run.config())), json.dumps(run.data().as_json()))
    assert run.identity == own
    Pipeline.resume(tmp_path / "run-60")


def test_a_note_counts_images_that_are_both_learned_from_and_measured_on(tmp_path):
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (90, 8, 8, 1), dtype=np.uint8), np.arange(90) % 2
    parts = {"train": np.arange(60), "test": np.arange(50, 80), "val": np.arange(78, 90)}

    def notes(parts):
        arrays = {f"{name}_{part}": own[index] for part, index in parts.items() for name, own in both.items()}
        np.savez(tmp_path / "data.npz", **arrays)
        settings = preset("tiny", {"data.name": str(tmp_path / "data.npz")})
        found = Pipeline.start(tmp_path / f"run-{parts['val'][0]}", settings).notes()
        return [line for line in found if "also among" in line]

    both = {"x": images, "y": labels}
    assert notes(parts) == [
        "10 of 30 test images are also among the training images: what is measured on these says nothing of new ones"
    ]
    assert notes({**parts, "test": np.arange(60, 90), "val": np.arange(50, 70)}) == [
        "10 of 20 held-out images are also among the training images: temperatures and promises are surer than they "
        "should be"
    ]


def test_a_note_counts_images_of_two_classes(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 1), dtype=np.uint8)
    images[1] = images[0]
    arrays = {"x_train": images[:40], "x_test": images[40:], "x_val": images[40:]}
    labels = {f"y{name[1:]}": np.arange(len(own)) % 2 for name, own in arrays.items()}
    np.savez(tmp_path / "data.npz", **arrays, **labels)
    found = Pipeline.start(
        tmp_path / "run", preset("tiny", {"data.name": str(tmp_path / "data.npz")})
    ).notes()
    assert "2 of 40 training images are there with another label, too" in found


def test_a_note_counts_rows_with_their_labels(tmp_path):
    """Rows of few categories are alike by chance."""
    random = np.random.default_rng(0)
    lines = [f"{x:.6f},{x + 0.1:.6f}" for x in random.random(100)]
    for name, text in (("once", lines), ("twice", lines * 2), ("other", lines + [f"{x}5" for x in lines])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y", *text]))
        changes = {"data.name": str(tmp_path / f"{name}.csv"), "data.target": "y"}
        found = Pipeline.start(tmp_path / name, preset("table", changes)).notes()
        told = [line for line in found if "test rows are also among the training rows" in line]
        assert len(told) == (name == "twice")


@pytest.mark.parametrize(("folds", "rows"), [(5, 150), (5, 600), (0, 150)])
def test_a_note_counts_rows_that_promises_and_training_share(tmp_path, folds, rows):
    lines = [f"{x:.6f},{x + 0.1:.6f}" for x in np.random.default_rng(0).random(rows // 2)]
    said = {
        "held-out rows are also among the training rows": folds == 0,
        "training rows are also in another part that chains leave out": folds > 0,
        "rows that intervals rest on are also among the training rows": rows > 400,
    }
    for name, text in (("once", lines * 1), ("twice", lines * 2)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y", *text]))
        changes = {"data.name": str(tmp_path / f"{name}.csv"), "data.target": "y", "train.folds": folds}
        pipeline = Pipeline.start(tmp_path / name, preset("table", changes))
        notes = [line for line in pipeline.notes() if "than they should be" in line]
        assert len(notes) == (sum(said.values()) if name == "twice" else 0)
        for words, expected in said.items():
            assert any(words in line for line in notes) == (expected and name == "twice")
    if folds:  # as counted by hand, one row after another
        train, fold = pipeline.task.train, pipeline.task.fold
        alike = (train.images[:, 0, 0, 0, None] == train.images[:, 0, 0, 0]) & (fold[:, None] != fold)
        assert notes[0].startswith(f"{alike.any(axis=1).sum()} of {len(train)} ")


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
