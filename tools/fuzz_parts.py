"""Bad parts of runs and saved models: wrong content with a right checksum, another's part, no file at all, odd names.

Content is made wrong by its own structure: of each file some field is absent, of another type, empty, huge, negative,
not finite, twice there, in another order, or nested. `fuzz.py` counts what comes of it.
"""

import contextlib
import copy
import errno
import io
import json
import math
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from PIL import Image

from uraenas import UraeNAS, report
from uraenas.base.errors import UraenasError
from uraenas.base.files import (
    CHECKSUM,
    JSON_CHECKSUM,
    _checksum,
    _json_checksum,
    checksum_of,
    read_json,
    read_tensors,
)
from uraenas.cli import main as command_line
from uraenas.data import load_dataset
from uraenas.data.dataset import LabelledImages
from uraenas.ensemble import Ensemble
from uraenas.run.checkpoints import chain_facts
from uraenas.run.directory import Run
from uraenas.run.show import summary

LOGS = ("log.jsonl", "history.jsonl", "report.html", "lock")  # never read
HUGE = (10**9, 2**63, 10**400, 1e308, -(10**9), "x" * 100_000)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        0.5,
        -0.5,
        math.nan,
        math.inf,
        -math.inf,
        "",
        "x",
        "1",
        "../..",
        "\x1b[31m",
        "\ud800",
    ),
    *([], {}, [[]], [None], {"x": {}}, [0, 1, 2], ["a", "a"], *HUGE),
)
IMAGES = np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1)
NAMES = (  # of files, classes and datasets
    *(
        b"odd\xff\xfe",
        b"x" * 200,
        b"y" * 251,
        b"\x1b]0;t\x07",
        b"\x1b[2J",
        b"[bold red]x",
        b"[red]",
        b"=1+1",
        b"+1",
        b"-rf",
    ),
    *(
        b"@x",
        b"--help",
        b"a\nb",
        b"\rb",
        b"\t",
        b" ",
        b"...",
        "\u202egnp".encode(),
        "ﬀ".encode(),
        b"<script>",
        b"%s{0}",
    ),
)
FORMULAS = ("=", "+", "-", "@")


class Wrong(Exception):
    """A bad input was accepted with a result that cannot be right."""


def require(fulfilled: object, what: str) -> None:
    if not fulfilled:
        raise Wrong(what)


# Wrong content


def places_in(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a JSON value; of long lists, to the first and the last."""
    yield way
    if isinstance(value, dict):
        for key in value:
            yield from places_in(value[key], (*way, key))
    elif isinstance(value, list) and value:
        for at in {0, len(value) - 1}:
            yield from places_in(value[at], (*way, at))


def made_wrong(draw: random.Random, value: Any) -> Any:
    """The value with one thing about it changed."""
    value = copy.deepcopy(value)
    way = draw.choice(list(places_in(value)))
    if not way:
        return draw.choice((*VALUES, [value], {"x": value}))
    parent = value
    for key in way[:-1]:
        parent = parent[key]
    found, fate = parent[way[-1]], draw.randrange(10)
    if fate == 0:
        del parent[way[-1]]
    elif fate == 1:
        parent[way[-1]] = [found]
    elif fate == 2 and isinstance(found, list):
        parent[way[-1]] = found + found
    elif fate == 3 and isinstance(found, list):
        parent[way[-1]] = found[::-1]
    elif fate == 4 and isinstance(found, int | float):
        parent[way[-1]] = draw.choice((-found, found * 10**9, float(found), str(found)))
    elif fate == 5 and isinstance(parent, dict):
        parent["another field"] = found
    elif fate == 6 and isinstance(parent, dict):
        other = draw.choice(list(parent))
        parent[way[-1]], parent[other] = parent[other], found
    else:
        parent[way[-1]] = draw.choice(VALUES)
    return value


def wrong_json(draw: random.Random, path: Path) -> None:
    """A JSON file with a right checksum that says something else."""
    table = made_wrong(draw, read_json(path))
    if isinstance(table, dict):
        table[JSON_CHECKSUM] = _json_checksum(table)
    path.write_text(json.dumps(table))


def wrong_tensors(draw: random.Random, path: Path) -> None:
    """A tensor file with a right checksum that says or holds something else."""
    tensors, header = read_tensors(path)
    if tensors and draw.random() < 0.5:
        name = draw.choice(sorted(tensors))
        one = tensors[name]
        flat = one.flatten()
        changed = (
            *(torch.zeros(0), torch.zeros(3, 3), flat[1:], flat.flip(0), one[None], one.to(torch.float64)),
            *(
                one.to(torch.int64),
                one.to(torch.float16),
                one.to(torch.bfloat16),
                one != 0,
                torch.full_like(one, 0),
            ),
        )
        spoiled = (
            [torch.full_like(one, bad) for bad in (math.nan, math.inf, -1e30)]
            if one.is_floating_point()
            else []
        )
        tensors[name] = draw.choice((*changed, *spoiled))
        if draw.random() < 0.2:
            del tensors[name]
    else:
        key = draw.choice(sorted(header))
        try:
            header[key] = json.dumps(made_wrong(draw, json.loads(header[key])))
        except ValueError:
            header[key] = draw.choice(("", "x", "-1", "1e9", "9" * 30, "nan", "\x00", header[key] * 2))
        if draw.random() < 0.2:
            del header[key]
    tensors = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    complete = {**header, CHECKSUM: _checksum(tensors, header)}
    path.write_bytes(safetensors.torch.save(tensors, metadata=complete))


# What is looked at


def predictions(ensemble: Ensemble) -> bytes:
    found = ensemble.predict_proba(IMAGES, device="cpu")
    require(np.isfinite(found).all() and np.allclose(found.sum(axis=1), 1, atol=1e-4), "no probabilities")
    return found.tobytes()


def _predicted_by(method: str, run: Run) -> bytes:
    return predictions(run.ensemble(method))


def looks(test: LabelledImages) -> dict[str, Callable[[Run], Any]]:
    """All that reads a run, by what it reads."""

    def ensembles(run: Run) -> list[bytes]:
        return [predictions(run.ensemble(method)) for method in run.config().methods]

    def thresholds(run: Run) -> list[Any]:
        return [run.threshold(0.05, method) for method in run.config().methods]

    return {
        "ensembles": ensembles,
        "thresholds": thresholds,
        "metrics": lambda run: run.metrics(),
        "replicates": lambda run: {name: one.tolist() for name, one in run.replicates().items()},
        "data": lambda run: run.data(),
        "environment": lambda run: run.environment(),
        "costs": lambda run: run.costs.read(),
        "search": lambda run: (found := run.searched()) and str(found.expected),
        "chains": lambda run: {
            name: (chain.epoch, chain.restarts) for name, chain in chain_facts(run).items()
        },
        "samples": lambda run: [
            one.identity for chain in run.chains.names() for one in run.chains.samples(chain)
        ],
        "summary": lambda run: summary(run.path),
        "page": lambda run: len(report.build([(run, test)])) > 0,
    }


OWN_LOOK = {  # what reads a file, by the beginning or end of its name
    "config.json": "ensembles",
    "data.json": "data",
    "environment.json": "environment",
    "cost.json": "costs",
    "metrics.json": "metrics",
    "bootstrap.safetensors": "replicates",
    "architecture.safetensors": "search",
    "state.safetensors": "chains",
    "known.safetensors": "thresholds",
}


def own_look(name: str) -> str:
    if "/samples/" in name:
        return "samples"
    return OWN_LOOK.get(name.rpartition("/")[2], "page")


class Parts:
    """Two runs and two saved models, whose parts are spoiled one at a time."""

    def __init__(
        self, folder: Path, draw: random.Random, runs: list[Path], models: list[Path], test: LabelledImages
    ) -> None:
        self.folder, self.draw, self.runs, self.models = folder, draw, runs, models
        self.looks = looks(test)
        self.run, self.model = folder / "spoiled-run", folder / "spoiled-model"
        for whole, own in ((runs[0], self.run), (models[0], self.model)):
            shutil.rmtree(own, ignore_errors=True)
            shutil.copytree(whole, own)
        for method in Run(self.run).config().methods:
            self.looks[f"ensemble {method}"] = partial(_predicted_by, method)
        self.expected = {name: look(Run(self.run)) for name, look in self.looks.items()}
        self.predicted = predictions(UraeNAS.load(self.model).ensemble_)
        self.files = [p for p in sorted(self.run.rglob("*")) if p.is_file() and p.name not in LOGS]
        self.of_model = [p for p in sorted(self.model.rglob("*")) if p.is_file()]
        self.precious = folder / "precious"
        self.precious.write_text("precious")

    def _whole(self, path: Path) -> Path:
        """The same file, as it was before."""
        own, whole = (self.run, self.runs[0]) if self.run in path.parents else (self.model, self.models[0])
        return whole / path.relative_to(own)

    @contextlib.contextmanager
    def _restoring(self, path: Path) -> Iterator[None]:
        try:
            yield
        finally:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            shutil.copyfile(self._whole(path), path)

    def _check(self, path: Path, may_differ: bool) -> None:
        """Look; what is not refused must be as before, unless the file says so with a right checksum."""
        if path in self.of_model:
            found = predictions(UraeNAS.load(self.model).ensemble_)
            require(may_differ or found == self.predicted, "the model predicts something else")
            return
        name = str(path.relative_to(self.run))
        asked = self._own_looks(name)
        if self.draw.random() < 0.03:
            asked = list(self.looks)
        refused = 0
        if name.endswith(".safetensors") and not {"members", "samples"} & set(path.parts):
            Run(self.run).read_tensors(name)
        for look in asked:
            try:
                found = self.looks[look](Run(self.run))
            except UraenasError:
                refused += 1
                continue
            require(may_differ or found == self.expected[look], f"{look} has changed with {name}")
        if refused:
            raise UraenasError("at least one look at the run was refused")

    def _own_looks(self, name: str) -> list[str]:
        if "/members/" in name:
            return [f"ensemble {name.split('/')[1]}"]
        if "/evaluation/" in name or "/explored/" in name:
            return []  # nothing but evaluation and training read these
        return [own_look(name)]

    def contents(self) -> Callable[[], None]:
        path = self.draw.choice(self.of_model if self.draw.random() < 0.2 else self.files)

        def case() -> None:
            with self._restoring(path):
                path.unlink()
                shutil.copyfile(self._whole(path), path)  # not the other end of a hard link
                (wrong_json if path.suffix == ".json" else wrong_tensors)(self.draw, path)
                if path.parent.name == "members" and path.suffix == ".safetensors":
                    self._vouch_for(path)
                else:
                    self._check(path, may_differ=True)

        return case

    def _vouch_for(self, path: Path) -> None:
        """Make ensemble.json say that a spoiled member is right."""
        description = path.parent / "ensemble.json"
        with self._restoring(description):
            facts = read_json(description)
            if path.stem == "known":
                facts["known"] = checksum_of(path)
            else:
                facts["members"][int(path.stem)] = checksum_of(path)
            description.unlink()
            description.write_text(json.dumps({**facts, JSON_CHECKSUM: _json_checksum(facts)}))
            self._check(path, may_differ=True)

    def exchanged(self) -> Callable[[], None]:
        """A part of another method, run or model in the place of one of the same kind."""
        of_model = self.draw.random() < 0.2
        path = self.draw.choice(self.of_model if of_model else self.files)
        homes = self.models if of_model else self.runs
        depth = len(path.relative_to(self.model if of_model else self.run).parts)
        every = [(home, p) for home in homes for p in sorted(home.rglob(f"*{path.suffix}"))]
        alike = [p for home, p in every if len(p.relative_to(home).parts) == depth]
        others = [p for p in alike if p.read_bytes() != path.read_bytes()]
        same_name = [p for p in others if p.name == path.name]
        other = self.draw.choice(same_name if same_name and self.draw.random() < 0.5 else others or [path])
        whole_folder = path.parent.name == other.parent.name == "members" and self.draw.random() < 0.5

        def case() -> None:
            if not whole_folder:
                with self._restoring(path):
                    content = other.read_bytes()
                    path.unlink()
                    path.write_bytes(content)
                    self._check(path, may_differ=False)
                return
            folder, before = path.parent, self._whole(path.parent / "ensemble.json").parent
            try:
                shutil.rmtree(folder)
                shutil.copytree(other.parent, folder)
                self._check(folder / "ensemble.json", may_differ=False)
            finally:
                shutil.rmtree(folder)
                shutil.copytree(before, folder)

        return case

    def kinds_of_file(self) -> Callable[[], None]:
        """A link, a FIFO, a folder, a device, nothing, or a file of a tebibyte in a file's place."""
        path = self.draw.choice(self.of_model if self.draw.random() < 0.2 else self.files)
        kind = self.draw.randrange(9)

        def case() -> None:
            with self._restoring(path):
                path.unlink()
                if kind == 0:
                    os.mkfifo(path)
                elif kind == 1:
                    path.mkdir()
                elif kind in (2, 3, 4, 5):
                    target = ("/dev/zero", "/dev/full", str(self.precious), path.name)[kind - 2]
                    path.symlink_to(target)
                elif kind == 6:
                    path.touch()
                elif kind == 7:
                    with path.open("wb") as file:
                        file.truncate(1 << 40)
                else:
                    content = self._whole(path).read_bytes()
                    with path.open("wb") as file:
                        file.write(content)
                        file.truncate(1 << 36)
                try:
                    self._check(path, may_differ=kind == 5)  # a link to itself is as good as nothing
                finally:
                    require(self.precious.read_text() == "precious", "a foreign file was changed")

        return case

    # Names

    def names(self) -> Callable[[], None]:
        """A folder of images whose classes, files or whole have odd names: read, and predicted with words and CSV."""
        odd = self.draw.choice(NAMES) + self.draw.choice((b"", b"", self.draw.choice(NAMES)))
        odd, what = odd[:251], self.draw.randrange(3)
        folder = self.folder / "named"

        def case() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            name = os.fsdecode(odd)
            home = folder / (name if what == 0 else "images")
            for kind in (name if what == 1 else "a", "b"):
                (home / kind).mkdir(parents=True)
                for number in range(3):
                    file = name[:200] if what == 2 and number == 0 and len(odd) < 250 else f"{number}"
                    Image.fromarray(IMAGES[0, :, :, 0] + number).save(home / kind / f"{file}.png", "PNG")
            try:
                classes = load_dataset(home, image_size=8).classes
                require(classes == tuple(sorted(p.name for p in home.iterdir())), "other classes")
            finally:
                for form in ((), ("--csv",)):
                    self._predict_named(home, *form)

        return case

    def _predict_named(self, home: Path, *form: str) -> None:
        code, out, err = called("predict", str(self.runs[0]), str(home), *form)
        require(code in (0, 1, 2), f"exit code {code}")
        require(
            not any((one < " " and one not in "\n\r") or one == "\x7f" for one in out + err),
            "control characters",
        )
        if form and out:
            firsts = [line[0] for line in io.StringIO(out).readlines() if line]
            require(not set(firsts) & set(FORMULAS), "a formula")

    # Streams

    def streams(self) -> Callable[[], None]:
        """Standard output and error fail with every error that the system has for it, at any write."""
        words = self.draw.choice(
            [
                ("show", str(self.runs[0])),
                ("show", str(self.runs[0]), "--json"),
                ("report", str(self.runs[0]), "--format", self.draw.choice(("md", "csv", "latex"))),
                ("list",),
                ("--version",),
                ("show", "nowhere"),
                ("--no-such-option",),
                (),
            ]
        )
        errors = (None, errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO)
        outs = [self.draw.choice(errors), self.draw.choice(errors)]
        after = self.draw.randrange(3)

        def case() -> None:
            streams = [Failing(number, after) if number else io.StringIO() for number in outs]
            code, _, _ = called(*words, out=streams[0], err=streams[1])
            require(code in (0, 1, 2, 141), f"exit code {code}")
            if code:
                raise UraenasError("the command said so by its exit code")

        return case


class Failing(io.TextIOBase):
    """A stream that fails after some writes."""

    def __init__(self, number: int, after: int) -> None:
        self.number, self.left = number, after

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.number, os.strerror(self.number))
        return len(text)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "no file")


def called(*words: str, out: Any = None, err: Any = None) -> tuple[int, str, str]:
    """The command line in this process: exit code, standard output and error."""
    own = out or io.StringIO(), err or io.StringIO()
    arguments = sys.argv
    sys.argv = ["uraenas", *words]
    code: object = 0
    try:
        with contextlib.redirect_stdout(own[0]), contextlib.redirect_stderr(own[1]):
            command_line()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = arguments
    texts = [one.getvalue() if isinstance(one, io.StringIO) else "" for one in own]
    return code if isinstance(code, int) else 0, *texts  # type: ignore[return-value]
