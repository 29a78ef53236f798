"""A saved model is replaced in one step, belongs together, and leaves foreign files alone."""

import builtins
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from uraenas import UraeNAS, UraenasError
from uraenas.base import draws, whole_files
from uraenas.base.files import checksum_of, read_json, read_tensors, write_json, write_tensors
from uraenas.base.lock import alone_in
from uraenas.data.loader import Normalisation
from uraenas.ensemble import Ensemble, Member, Origin
from uraenas.spaces import CellSpace, Shape

SPACE = CellSpace(channels=1, cells=1, shape=Shape(4, 4, 1, 2))
ARCHITECTURE = SPACE.architecture((1,) * 6)  # skips alone: few tensors
WRITING = ("mkdir", "open", "fsync", "replace", "unlink", "rmdir")


def member(number: int) -> Member:
    weights = SPACE.weight_layout(ARCHITECTURE).initial(draws.key(number, "weights"))
    statistics = SPACE.statistics_layout(ARCHITECTURE).initial()
    return Member(ARCHITECTURE, weights, statistics, Origin(f"sampled-point-{number:02d}", 1, 0, 1))


def fitted(first: int, *classes: str, members: int = 3) -> UraeNAS:
    made = UraeNAS(device="cpu")
    networks = tuple(member(first + number) for number in range(members))
    made.ensemble_ = Ensemble(networks, SPACE, Normalisation((0.0,), (1.0,)), classes)
    made.classes_ = np.array(classes)
    return made


OLD, NEW = fitted(0, "a", "b"), fitted(100, "c", "d")


def is_same(one: UraeNAS, other: UraeNAS) -> bool:
    same = one.ensemble_.identity == other.ensemble_.identity
    return (
        same
        and one.classes_.tolist() == other.classes_.tolist()
        and one.ensemble_.classes == other.ensemble_.classes
    )


class Killed(BaseException):
    """The process ends here: from now on nothing is written or removed."""


class _File:
    """A file that may be cut off before or in the middle of a write."""

    def __init__(self, file: Any, moment: Callable[[], None]) -> None:
        self.file, self.moment = file, moment

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, content: bytes) -> None:
        self.moment()
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        self.moment()
        self.file.write(content[len(content) // 2 :])


@contextmanager
def killed_at(number: int) -> Iterator[list[int]]:
    """Every call that writes is a moment; at the one of this number, and ever after, there is no process any more."""
    count = [0]
    own = {name: getattr(os, name) for name in WRITING} | {"fsync": lambda handle: None}  # which takes long

    def moment() -> None:
        count[0] += 1
        if count[0] >= number:
            raise Killed

    def watched(function: Callable) -> Callable:
        def call(*arguments: Any, **more: Any) -> Any:
            moment()
            return function(*arguments, **more)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in set(WRITING) - {"open"}:
            patch.setattr(os, name, watched(own[name]))

        def opened(path: Any, mode: str = "r") -> _File:
            moment()
            return _File(builtins.open(path, mode), moment)

        patch.setattr(whole_files, "open", opened, raising=False)
        yield count


def moments(save: Callable[[], None], prepare: Callable[[], None]) -> Iterator[int]:
    """Kill it at the first moment, then at the second, until it comes to its end."""
    number = 1
    while True:
        prepare()
        with killed_at(number):
            try:
                save()
                return
            except Killed:
                pass
        yield number
        number += 1


def test_save_killed_at_every_call_that_writes_leaves_the_old_model_or_the_new_one(tmp_path: Path) -> None:
    folder, old, seen, tried = tmp_path / "model", tmp_path / "old", [], 0
    OLD.save(old)
    left = Path(shutil.copytree(old, tmp_path / "left"))
    with killed_at(20), pytest.raises(Killed):
        NEW.save(left)

    def over_an_old_one() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(old, folder)

    def after_a_kill() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(left, folder)

    def nothing() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    for prepare in (over_an_old_one, after_a_kill, nothing):
        for _ in moments(lambda: NEW.save(folder), prepare):
            tried += 1
            if prepare is nothing and not (folder / "estimator.json").exists():
                continue
            found = UraeNAS.load(folder)
            assert is_same(found, OLD) or is_same(found, NEW)
            seen.append(is_same(found, NEW))
        assert is_same(UraeNAS.load(folder), NEW)
        assert len(list(folder.iterdir())) == 2  # nothing of the killed ones is left
    assert tried > 100
    assert 10 < sum(seen) < len(seen) - 10


def test_a_save_that_fails_leaves_the_old_model_and_nothing_else(tmp_path: Path) -> None:
    OLD.save(tmp_path / "model")
    before = sorted((tmp_path / "model").rglob("*"))
    broken = replace(NEW.ensemble_, temperatures=float("nan"))  # JSON cannot hold it
    unsaved = fitted(100, "c", "d")
    unsaved.ensemble_ = broken
    with pytest.raises(ValueError, match="JSON"):
        unsaved.save(tmp_path / "model")
    assert sorted((tmp_path / "model").rglob("*")) == before
    assert is_same(UraeNAS.load(tmp_path / "model"), OLD)


@pytest.mark.parametrize(
    "name", ["notes.txt", "estimator.json", "ensemble.json", "000.safetensors", "ensemble-1"]
)
def test_foreign_files_are_never_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(UraenasError, match="choose another folder"):
        NEW.save(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "{}")]


def test_files_beside_a_model_stay_when_it_is_replaced(tmp_path: Path) -> None:
    OLD.save(tmp_path)
    (tmp_path / "README").write_text("mine")
    foreign = tmp_path / "ensemble-0123456789abcdef"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine, too")
    NEW.save(tmp_path)
    assert (tmp_path / "README").read_text() == "mine"
    assert (foreign / "thesis.tex").exists()
    assert is_same(UraeNAS.load(tmp_path), NEW)


def test_one_process_at_a_time_saves(tmp_path: Path) -> None:
    with alone_in(tmp_path), pytest.raises(UraenasError, match="another process is writing"):
        NEW.save(tmp_path)


def test_parts_of_two_models_are_not_mixed(tmp_path: Path) -> None:
    OLD.save(tmp_path / "old")
    NEW.save(tmp_path / "new")
    folders = {name: next((tmp_path / name).glob("ensemble-*")) for name in ("old", "new")}
    for file in ("ensemble.json", "001.safetensors"):
        copy = Path(shutil.copytree(tmp_path / "old", tmp_path / f"mixed-{file}"))
        shutil.copy(folders["new"] / file, copy / folders["old"].name / file)
        with pytest.raises(UraenasError, match="is not the"):
            UraeNAS.load(copy)
    copy = Path(shutil.copytree(tmp_path / "old", tmp_path / "mixed"))
    shutil.rmtree(copy / folders["old"].name)
    shutil.copytree(folders["new"], copy / folders["old"].name)
    with pytest.raises(UraenasError, match="is not the"):
        UraeNAS.load(copy)
    facts = read_json(tmp_path / "old/estimator.json")
    write_json(tmp_path / "old/estimator.json", {**facts, "classes": {"type": "<U1", "values": ["b", "a"]}})
    with pytest.raises(UraenasError, match="classes are not those"):
        UraeNAS.load(tmp_path / "old")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_members_whose_weights_are_not_finite_are_refused_when_they_are_loaded(
    tmp_path: Path, value: float
) -> None:
    OLD.ensemble_.save(tmp_path)
    path = tmp_path / "002.safetensors"
    tensors, header = read_tensors(path)
    next(iter(tensors.values())).view(-1)[0] = value
    write_tensors(path, tensors, header)
    facts = read_json(tmp_path / "ensemble.json")
    facts["members"][2] = checksum_of(path)
    write_json(tmp_path / "ensemble.json", facts)
    with pytest.raises(UraenasError, match=r"002\.safetensors holds weights that are not finite"):
        Ensemble.load(tmp_path)


def test_a_weight_that_half_precision_cannot_hold_stays_as_it_is(tmp_path: Path) -> None:
    large = member(0)
    large.weights[0] = 1e6
    ensemble = replace(OLD.ensemble_, members=(large,))
    ensemble.save(tmp_path, half=True)
    loaded = Ensemble.load(tmp_path).members[0].weights
    assert loaded[0] == 1e6
    torch.testing.assert_close(loaded, large.weights, rtol=1e-3, atol=1e-4)


def test_predictions_that_are_not_finite_are_refused_not_given() -> None:
    wild = member(0)
    wild.weights.fill_(1e38)  # finite, and its products are not
    ensemble = replace(OLD.ensemble_, members=(wild,))
    images = np.full((2, 4, 4, 1), 255, np.uint8)
    for ask in (ensemble.predict_proba, ensemble.predict, ensemble.uncertainty):
        with pytest.raises(UraenasError, match="not finite"):
            ask(images, device="cpu")


def test_a_member_that_was_taken_twice_tells_nothing_of_weights() -> None:
    """As `ensemble.selection=repeated` may take it."""
    twice = replace(OLD.ensemble_, members=(member(0), member(0)))
    assert set(twice.undefined) == {"weights", "architecture"}
    assert set(OLD.ensemble_.undefined) == {"architecture"}


def test_two_classes_of_one_name_are_refused() -> None:
    with pytest.raises(UraenasError, match="two classes are called 'a'"):
        fitted(0, "a", "a")
