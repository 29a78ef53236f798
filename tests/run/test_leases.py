"""Who may write for a unit: only the newest lease counts, and nothing foreign in their folder matters."""

import errno
import fcntl
from pathlib import Path

import pytest
import torch

from uraenas.base.errors import UraenasError
from uraenas.base.lock import hold
from uraenas.base.whole_files import unfinished
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.places.leases import Superseded, guard, issue, revoke


def test_a_writer_whose_lease_is_older_than_the_newest_is_refused(tmp_path: Path):
    run = Run(tmp_path)
    run.write_config(preset("tiny"))
    file, other = run.chains.file("a"), run.chains.explored_file("root", 3)
    first, second = Run(tmp_path), Run(tmp_path)
    first.guard = guard(first, issue(run, ["chains/a", "chains/b"], "one"))
    first.write_tensors(file, {"weights": torch.zeros(1)}, {})
    second.guard = guard(second, issue(run, ["chains/a"], "two"))
    second.write_tensors(file, {"weights": torch.ones(1)}, {})
    for name in (file, other):
        with pytest.raises(Superseded):
            first.write_tensors(name, {"weights": torch.zeros(1)}, {})
    first.write_tensors(run.chains.file("b"), {"weights": torch.zeros(1)}, {})  # which nobody else was given
    assert run.read_tensors(file)[0]["weights"] == 1
    revoke(run)
    assert not run.leases_folder.exists()
    with pytest.raises(Superseded):
        second.write_tensors(file, {"weights": torch.zeros(1)}, {})
    assert run.read_tensors(file)[0]["weights"] == 1


def test_what_killed_writers_left_is_removed_when_no_lease_holds_any_more(tmp_path: Path):
    run = Run(tmp_path)
    issue(run, ["chains/a"], "one")
    names = run.chains.file("a"), run.chains.explored_file("root", 3), "search/state.safetensors"
    left = [unfinished(tmp_path / name) for name in names]
    for file in left:
        file.parent.mkdir(parents=True)
        file.touch()
    revoke(run)
    assert [file.exists() for file in left] == [False, False, True]  # none has a lease for the search


def begun(path: Path) -> Run:
    run = Run(path / "run")
    run.write_config(preset("tiny"))
    return run


@pytest.mark.parametrize("name", ["leases", "leases/chains", "leases/chains/a.lease"])
def test_links_among_leases_are_refused(tmp_path: Path, name: str):
    run, elsewhere = begun(tmp_path), tmp_path / "elsewhere"
    number = issue(run, ["chains/a"], "one")
    (run.path / name).rename(elsewhere)
    (run.path / name).symlink_to(elsewhere)
    before = run.lease_path("chains/a").read_bytes()
    with pytest.raises(UraenasError, match="it is a link"):
        issue(run, ["chains/a"], "two")
    with pytest.raises(UraenasError, match="it is a link"):
        revoke(run)
    run.guard = guard(run, number)
    with pytest.raises(UraenasError, match="it is a link"):
        run.write_tensors(run.chains.file("a"), {"weights": torch.zeros(1)}, {})
    assert run.lease_path("chains/a").read_bytes() == before


def test_what_is_no_lease_is_left_alone(tmp_path: Path):
    run, precious = begun(tmp_path), tmp_path / "precious"
    precious.mkdir()
    issue(run, ["chains/a"], "one")
    strays = [run.leases_folder / name for name in ("a.lease~", "chains/.nfs0001", "chains/b.lease/notes")]
    for stray in strays:
        stray.parent.mkdir(exist_ok=True)
        stray.write_text("a stray")
    (run.leases_folder / "search").symlink_to(precious)
    kept = unfinished(precious / "file")
    kept.touch()
    revoke(run)
    assert not run.lease_path("chains/a").exists()
    assert [stray.read_text() for stray in strays] == ["a stray"] * 3
    assert kept.exists()
    issue(run, ["chains/a"], "two")
    revoke(run)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_is_refused_in_one_line(tmp_path: Path, monkeypatch, number: int):
    run = begun(tmp_path)
    run.guard = guard(run, issue(run, ["chains/a"], "one"))

    def flock(*facts: object) -> None:
        raise OSError(number, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    words = "No locks available; its file system cannot keep two commands apart"
    with pytest.raises(UraenasError, match=words), hold(run.path):
        pass
    with pytest.raises(UraenasError, match=words):
        issue(run, ["chains/a"], "two")
    with pytest.raises(UraenasError, match=words):
        run.write_tensors(run.chains.file("a"), {"weights": torch.zeros(1)}, {})
