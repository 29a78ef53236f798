"""Predicting image files: what is read, what is reported, when to abstain."""

import csv
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from uraenas.base.errors import UraenasError
from uraenas.cli.predicting import _caption
from uraenas.data.dataset import mark_of
from uraenas.ensemble.asked import Asked
from uraenas.ensemble.predict import Prediction, Unreadable, find_files, predict_files
from uraenas.ensemble.threshold import Threshold, estimated, promised
from uraenas.run.directory import Run


@pytest.fixture
def folder(tmp_path) -> Path:
    """Images of many kinds, among them a truncated one, a 16-bit grey one and a 32-bit one; and a text file."""
    random = np.random.default_rng(0)
    for number in range(5):
        Image.fromarray(random.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    Image.fromarray(random.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(tmp_path / "large.jpg")
    Image.fromarray(random.integers(0, 65536, (8, 8)).astype(np.uint16)).save(tmp_path / "deep.png")
    Image.fromarray(random.random((8, 8)).astype(np.float32)).save(tmp_path / "vast.tif")
    whole = (tmp_path / "0.png").read_bytes()
    (tmp_path / "broken.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / ".hidden").write_text("not looked at")
    return tmp_path


def test_what_cannot_be_read_is_named_and_the_rest_predicted(uraenas, finished_run, folder):
    done = uraenas("predict", finished_run, folder, "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert [Path(row["file"]).name for row in result["unreadable"]] == ["broken.png", "vast.tif"]
    assert result["left_out"] == 1
    names = {Path(row["file"]).name: row for row in result["predictions"]}
    assert set(names) == {"0.png", "1.png", "2.png", "3.png", "4.png", "deep.png", "large.jpg"}
    assert "resized from 30×20" in names["large.jpg"]["note"]
    assert names["0.png"]["note"] == ""
    for name, why in (("broken.png", "truncated"), ("vast.tif", "32-bit grey")):
        assert any(name in line and why in line for line in done.stderr.splitlines())
    assert "notes.txt" not in done.stderr
    for row in names.values():
        assert row["total"] == pytest.approx(row["data"] + row["weights"] + row["architecture"], abs=1e-9)


def test_a_path_that_does_not_exist_does_not_stop_the_others(uraenas, finished_run, folder):
    done = uraenas(
        "predict", finished_run, folder / "absent.png", folder / "0.png", folder / "1.png", "--csv"
    )
    assert done.returncode == 1
    assert [Path(row["file"]).name for row in csv.DictReader(done.stdout.splitlines())] == ["0.png", "1.png"]
    complaint, count = done.stderr.splitlines()
    assert "absent.png: cannot be read as an image: it does not exist" in complaint
    assert count == "uraenas: 2 of 3 files predicted, 1 could not be predicted"
    nothing = uraenas("predict", finished_run, folder / "absent.png")
    assert nothing.returncode == 2
    assert "does not exist" in nothing.stderr


def test_folders_that_are_named_as_classes_say_how_many_are_right(uraenas, finished_run, tmp_path):
    ensemble, digits = Run(finished_run).ensemble(), load_digits()
    images = np.uint8(digits.images[:30] * 255 / 16)
    for number, image in enumerate(images):
        folder = tmp_path / "new" / str(digits.target[number])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number}.png")
    said = " ".join(uraenas("predict", finished_run, tmp_path / "new").stdout.split())
    right = int((ensemble.predict(images) == digits.target[:30].astype(str)).sum())
    rows = json.loads(uraenas("predict", finished_run, tmp_path / "new", "--json").stdout)["predictions"]
    kept = [row["label"] == row["file"].split("/")[-2] for row in rows if not row["abstain"]]
    share = f"{right} of 30 are right ({100 * right / 30:.1f} %)"
    assert f"By the names of their folders {share}, and {sum(kept)} of {len(kept)} that it answers." in said
    (tmp_path / "new" / "0").rename(tmp_path / "new" / "nought")
    assert "By the names" not in uraenas("predict", finished_run, tmp_path / "new").stdout
    assert "By the names" not in uraenas("predict", finished_run, tmp_path / "new" / "1").stdout


def test_images_that_the_run_has_learned_from_are_told(uraenas, finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run")
    run, images = Run(tmp_path / "run"), np.uint8(load_digits().images[:5] * 255 / 16)
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    files = [tmp_path / f"{number}.png" for number in range(5)]
    run.write_data(replace(run.data(), learned="".join(mark_of(image) for image in images[:2])))
    assert [row.note for row in run.predict(files)] == ["learned from it", "learned from it", "", "", ""]
    said = " ".join(uraenas("predict", run.path, *files).stdout.split())
    assert "2 of 5 are training images of this run: what it says of these says nothing of new ones." in said
    (run.path / "data.json").write_text("{")  # which predictions can do without
    assert not any(row.note for row in run.predict(files))


def test_pictures_in_colour_are_told_where_the_training_images_are_grey(uraenas, finished_run, tmp_path):
    grey = Image.fromarray(np.uint8(load_digits().images[0] * 255 / 16))
    grey.convert("RGB").save(tmp_path / "0.png")
    Image.new("RGB", (8, 8), "red").save(tmp_path / "1.png")
    assert [row.note for row in Run(finished_run).predict([tmp_path])] == ["", "made grey"]
    said = " ".join(uraenas("predict", finished_run, tmp_path).stdout.split())
    assert "1 in colour were made grey, as the training images are." in said


def test_of_several_frames_the_first_is_predicted_with_a_note(uraenas, finished_run, tmp_path):
    frames = [Image.new("L", (8, 8), level) for level in (10, 250, 90)]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    (row,) = json.loads(uraenas("predict", finished_run, tmp_path, "--json").stdout)["predictions"]
    assert row["note"] == "first of 3 frames"
    assert "Of 1 with several frames" in " ".join(uraenas("predict", finished_run, tmp_path).stdout.split())


def test_where_nothing_can_be_read_there_is_no_table(uraenas, finished_run, folder):
    done = uraenas("predict", finished_run, folder / "notes.txt")  # a file that is named is not left out
    assert done.returncode == 1
    assert done.stdout == ""
    *_, complaint, count = done.stderr.splitlines()
    assert "notes.txt: cannot be read as an image: it has the form of none that is known" in complaint
    assert count == "uraenas: 0 of 1 files predicted, 1 could not be predicted"


@pytest.mark.parametrize("form", [[], ["--csv"], ["--json"]])
def test_files_that_are_no_images_are_counted_in_one_note_and_no_error(uraenas, finished_run, tmp_path, form):
    for name in ("a.png", "b.PNG", "without an ending"):
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / name, format="png")
    (tmp_path / "sub").mkdir()
    for name in ("list.csv", "sub/notes.txt", ".hidden.txt"):
        (tmp_path / name).write_text("no image")
    done = uraenas("predict", finished_run, tmp_path, *form)
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if not line.startswith("predict ")]  # how far it is
    assert told == ["note: 3 files without the ending of an image left out"]
    assert all(name in done.stdout for name in ("a.png", "b.PNG"))
    named = uraenas("predict", finished_run, tmp_path / "without an ending", *form)
    assert named.returncode == 0
    assert "note: " not in named.stderr


def test_a_folder_of_a_thousand_with_three_bad_ones(uraenas, finished_run, tmp_path):
    """997 digits as PNG files, a truncated one, a 32-bit grey one and a text file."""
    digits = np.uint8(load_digits().images * 255 / 16)[:997]
    for number, image in enumerate(digits):
        Image.fromarray(image).save(tmp_path / f"{number:04d}.png")
    (tmp_path / "0100-truncated.png").write_bytes((tmp_path / "0100.png").read_bytes()[:-60])
    (tmp_path / "notes.txt").write_text("no image")
    Image.fromarray(digits[0].astype(np.float32)).save(tmp_path / "0900-deep.tif")
    done = uraenas("predict", finished_run, tmp_path, "--csv")
    assert done.returncode == 1
    note, *complaints, count = done.stderr.splitlines()
    assert note == "note: 1 file without the ending of an image left out"
    named = [Path(line.split(": ")[1]).name for line in complaints]
    assert named == ["0100-truncated.png", "0900-deep.tif"]
    assert count == "uraenas: 997 of 999 files predicted, 2 could not be predicted"
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [Path(row["file"]).name for row in rows] == [f"{number:04d}.png" for number in range(997)]
    ensemble = Run(finished_run).ensemble("uraenas")
    expected = ensemble.predict_proba(digits[..., None])
    assert [row["label"] for row in rows] == [ensemble.classes[k] for k in expected.argmax(axis=1)]


def test_python_and_the_command_say_the_same(uraenas, finished_run, folder):
    found = json.loads(uraenas("predict", finished_run, folder, "--json", "--risk", "30%").stdout)
    results = Run(finished_run).predict([str(folder)], risk=0.3)
    assert [asdict(row) for row in results if isinstance(row, Prediction)] == found["predictions"]
    assert [asdict(row) for row in results if isinstance(row, Unreadable)] == found["unreadable"]
    threshold = Run(finished_run).threshold(0.3)
    assert asdict(threshold) == found["threshold"]
    assert threshold.certainty == 0.95  # of 189 held-out images half are apart: enough
    for row in found["predictions"]:
        assert sum(row["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert row["prediction_set"][0] == row["label"]
        assert max(row["probabilities"].values()) == row["probabilities"][row["label"]] == row["probability"]


def test_a_foreign_image_is_called_so(uraenas, finished_run, tmp_path):
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "blank.png")
    Image.fromarray(np.uint8(load_digits().images[0] * 255 / 16)).save(tmp_path / "digit.png")
    done = uraenas("predict", finished_run, tmp_path, "--csv")
    blank, digit = csv.DictReader(done.stdout.splitlines())
    assert (blank["foreign"], blank["abstain"], digit["foreign"]) == ("True", "True", "False")
    assert blank["reason"] == "unlike anything it was trained on (p = 0.01)"
    table = uraenas("predict", finished_run, tmp_path / "blank.png").stdout
    assert "foreign" in table
    assert "p = 0.01" in table
    assert "unlike anything it was trained on" in " ".join(table.split())
    none = json.loads(uraenas("predict", finished_run, tmp_path, "--json", "--foreign", "0.001").stdout)
    # Of 189 held-out images none can be so rare.
    assert not any(row["foreign"] for row in none["predictions"])
    wrong = uraenas("predict", finished_run, tmp_path, "--foreign", "2")
    assert (wrong.returncode, "share = 2.0 is out of range" in wrong.stderr) == (2, True)


def test_csv_and_table_hold_the_same_predictions(uraenas, finished_run, folder):
    rows = list(
        csv.DictReader(uraenas("predict", finished_run, folder / "0.png", "--csv").stdout.splitlines())
    )
    table = uraenas("predict", finished_run, folder / "0.png")
    assert table.returncode == 0
    assert [row["label"] for row in rows] == [rows[0]["label"]]
    assert f"{float(rows[0]['probability']):.3f}" in table.stdout
    assert "resized" not in table.stdout
    resized = uraenas("predict", finished_run, folder / "large.jpg").stdout
    assert "1 of 1 images were resized" in " ".join(resized.split())


def test_predictions_do_not_depend_on_what_else_is_asked(finished_run, folder):
    ensemble = Run(finished_run).ensemble("uraenas")
    files, _ = find_files([folder])
    together = [row for row in predict_files(ensemble, files, Asked(risk=0.5)) if isinstance(row, Prediction)]
    alone = [
        row
        for file in files
        for row in predict_files(ensemble, [file], Asked(risk=0.5))
        if isinstance(row, Prediction)
    ]
    assert [row.label for row in together] == [row.label for row in alone]
    assert [row.probability for row in together] == pytest.approx(
        [row.probability for row in alone], abs=1e-5
    )
    assert any(isinstance(row, Unreadable) for row in predict_files(ensemble, files, Asked(risk=0.5)))


def test_the_threshold_keeps_the_risk_on_held_out_images():
    confidence = torch.tensor([0.99, 0.95, 0.9, 0.8, 0.7, 0.6], dtype=torch.float64)
    right = torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    for risk, expected in ((0.1, 0.9), (0.2, 0.7), (0.34, 0.6)):
        threshold = estimated(confidence, right, risk)
        assert threshold.confidence == pytest.approx(expected)
        passing = confidence >= threshold.confidence
        assert float(1 - right[passing].mean()) <= risk
        assert (threshold.passing, threshold.wrong) == (passing.sum(), (1 - right[passing]).sum())
    tied = torch.tensor([1.0, 1.0, 1.0, 0.9, 0.9], dtype=torch.float64)
    right = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    assert estimated(tied, right, 0.15).confidence == 1.0
    assert estimated(confidence, torch.zeros(6, dtype=torch.float64), 0.1).confidence > 1


def test_the_threshold_says_what_it_rests_on():
    confidence = torch.linspace(0.3, 0.99, 50, dtype=torch.float64)
    right = torch.ones(50, dtype=torch.float64)
    right[:4] = 0
    part, everything = (str(estimated(confidence, right, risk)) for risk in (0.05, 0.1))
    assert "2 of 48 wrong above it, of 50 held-out images" in part
    assert part.endswith("risk 5 % as an estimate, not promised")
    assert "the least sure held-out image (4 of 50 wrong)" in everything
    never = str(Threshold(0.0, risk=0.05, images=342, passing=342, wrong=2, certainty=0.95))
    assert never.startswith("never abstain for want of confidence (2 of 342 wrong); risk at most 5 %")
    assert "wrong too often; risk" in str(estimated(confidence, torch.zeros_like(right), 0.1))
    # 3 of 60 are 5 %, no more than that; but no risk of 5 % can be promised from them.
    sure, right = torch.ones(60, dtype=torch.float64), torch.ones(60, dtype=torch.float64)
    right[:3] = 0
    assert "wrong too often to promise it" in str(promised((sure, right), (sure, right), 0.05, 0.95))


def test_names_that_look_like_markup_are_printed_as_they_are(uraenas, finished_run, tmp_path):
    folder = tmp_path / "w["
    folder.mkdir()
    names = ("b].png", "x [red].png")
    for name in names:
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / name)
    done = uraenas("predict", finished_run, folder)
    assert done.returncode == 0, done.stderr
    printed = "".join(done.stdout.split())
    assert "b].png" in "".join(printed.split("│"))  # files of one folder go by their names
    assert "[red]" in done.stdout


def test_an_ensemble_takes_bytes_floats_and_both_orders_of_axes_and_nothing_else(finished_run):
    ensemble = Run(finished_run).ensemble("uraenas")
    images = np.uint8(load_digits().images[:4] * 255 / 16)
    expected = ensemble.predict_proba(images[..., None])
    for same in (
        images,
        images[:, None],
        (images / 255).astype(np.float32)[..., None],
        torch.from_numpy(images)[..., None],
        list(images),
    ):
        assert ensemble.predict_proba(same) == pytest.approx(expected, abs=1e-5)
    assert ensemble.predict(images).tolist() == [ensemble.classes[k] for k in expected.argmax(axis=1)]
    for wrong, said in (
        (images.astype(np.uint16) * 257, "ambiguous"),
        (images / 255 * 2 - 1, "ambiguous"),
        (np.full((1, 8, 8), np.nan), "NaN"),
        (images[:0], "no images"),
        (images[0], "not allowed"),
        (images[0][..., None], "image\\[None\\]"),
        (np.zeros((2, 9, 9), np.uint8), "takes images of 8×8×1"),
        ([images[0], images[0][:4]], "different sizes"),
        (None, "not allowed"),
        ("cat.png", "not allowed"),
    ):
        with pytest.raises(UraenasError, match=said):
            ensemble.predict_proba(wrong)


@pytest.mark.parametrize(
    "arguments", [["nowhere.png"], ["--risk", "2"], ["--risk", "five"], ["--method", "uraenas-a"]]
)
def test_bad_questions_get_one_line(uraenas, finished_run, folder, arguments):
    images = [] if arguments == ["nowhere.png"] else [folder / "0.png"]
    done = uraenas("predict", finished_run, *images, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_folders_without_images_are_refused_unless_there_are_others(tmp_path):
    empty, texts, images = (tmp_path / name for name in ("empty", "texts", "images"))
    for path in (empty, texts, images):
        path.mkdir()
    with pytest.raises(UraenasError, match="holds no files"):
        find_files([empty])
    (texts / "notes.txt").write_text("no image")
    with pytest.raises(
        UraenasError, match=r"holds 1 files, such as notes\.txt, but no image; known: .* \.png"
    ):
        find_files([empty, texts])
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(images / "0.png")
    assert find_files([empty, texts, images]) == ([images / "0.png"], 1)


def test_members_that_were_taken_repeatedly_count_once_in_what_they_can_tell(finished_run):
    ensemble = Run(finished_run).ensemble("uraenas")
    first, second = ensemble.members
    for members in ((first, second), (first, second, first, second)):
        words = _caption([], replace(ensemble, members=members), None)
        assert "The part of weights is not defined" in words
        assert "2 members have 2 architectures: Arch also holds the effect of initialisation." in words


def test_damaged_metrics_do_not_stop_a_prediction(uraenas, own_run, folder):
    (own_run / "metrics.json").write_text("{}")
    done = uraenas("predict", own_run, folder / "0.png")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
