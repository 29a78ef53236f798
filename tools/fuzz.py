"""Hand bad input to every parser. Each must end in our own error or in something right, and change no file.

`--inputs` is how many in all; every kind gets its share. An input that ends in another error, in a hang, in a wrong
result or in a changed file is kept in `--keep`, and the exit code is 1.
"""

import argparse
import contextlib
import gzip
import io
import json
import pickle
import random
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz_parts import Parts, Wrong, require
from kills import SETTINGS, work, write_images
from PIL import Image

from uraenas import UraeNAS, report
from uraenas.base.errors import UraenasError
from uraenas.base.files import read_json, read_tensors, write_tensors
from uraenas.data.cifar import CIFAR10, CIFAR100, Cifar, load_cifar, read_binary, read_python
from uraenas.data.dataset import Dataset
from uraenas.data.files import blaming
from uraenas.data.idx import read_idx
from uraenas.data.npz import load_npz
from uraenas.data.pictures import read_image
from uraenas.ensemble import Ensemble, Member
from uraenas.learning.methods import METHODS
from uraenas.run.config import Config, build, from_json, override, parse_assignments, preset
from uraenas.run.directory import Run
from uraenas.run.show import summary
from uraenas.shifts.suite import check_suite, open_suite, write_suite
from uraenas.spaces import CellSpace, architecture_count, option_counts

SECONDS, WAITING = 10, 60  # of computing, and by the clock; longer is a hang
MEMORY = 8 << 30  # address space beyond what is in use at the start
MOST_MEMORY = 1 << 30  # in use at any time, beyond what is in use at the start
TOKENS = (  # that numbers, names, lists and paths are easily mistaken for
    *("0", "-1", "1", "2", "1e9", "1e308", "1e999", "-0.0", "nan", "inf", "9" * 20, "0x10", "1_000", "٣"),
    *("true", "false", "None", "none", "null", "[]", "{}", '""', ",", "1,", ",1", "a,b", "0,1", "1,0"),
    *(
        "../..",
        "/dev/null",
        "\x00",
        "é",
        "digits",
        "cifar10",
        "uraenas",
        "kl",
        "sgld",
        "bfloat16",
        "auto",
        "cuda",
    ),
)
EXTREMES = (
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x00" * 8,
    b"\xff" * 8,
    b"9" * 30,
    b"-1",
    b"1e999",
    b"NaN",
    b'"',
)

SPACE = CellSpace()
EVERY_METHOD = build({"methods": tuple(METHODS)})  # so that every setting is one

Case = Callable[[], None]  # reads one bad input and checks what comes back


class Hang(BaseException):
    """An input took too long."""


def damaged(draw: random.Random, data: bytes) -> bytes:
    """The bytes after a few accidents."""
    content = bytearray(data)
    accidents = draw.choice((1, 1, 1, 2, 5))
    while accidents > 0 or content == data:
        at, length = draw.randrange(len(content) + 1), draw.choice((1, 2, 4, 8, 40, 400))
        accident = draw.randrange(16)
        if accident < 6 and at < len(content):
            content[at] ^= 1 << draw.randrange(8)
        elif accident < 9:
            content[at : at + length] = draw.randbytes(length)
        elif accident < 11:
            del content[at : at + length]
        elif accident < 13:
            content[at:at] = content[at : at + length]
        elif accident < 15:
            extreme = draw.choice(EXTREMES)
            content[at : at + len(extreme)] = extreme
        else:
            del content[at:]
        accidents -= 1
    return bytes(content)


def damaged_text(draw: random.Random, text: str) -> str:
    pieces = list(text)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(pieces) + 1)
        pieces[at : at + draw.randrange(3)] = draw.choice(
            ("", draw.choice(TOKENS), chr(draw.randrange(0x2FF)))
        )
    return "".join(pieces)


class Fuzzer:
    """One method for each kind of input; it gives a case for each bad input."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder, self.draw = folder, draw
        self.file = folder / "input"
        write_images(folder / "images.npz")
        self.config = preset("tiny", {**SETTINGS, "data.name": str(folder / "images.npz")})
        self.run = folder / "run"
        work(self.run, self.config)
        self.scratch = folder / "scratch"
        self._parts: Parts | None = None

    @property
    def parts(self) -> Parts:
        """Two runs and two saved models, of another seed and with other classes."""
        if self._parts is None:
            other = self.folder / "other-run"
            work(other, override(self.config, {"seed": 1}))
            models = [self._model("estimator", 0), self._model("other-estimator", 1)]
            test = load_npz(self.folder / "images.npz").test
            self._parts = Parts(self.folder, self.draw, [self.run, other], models, test)
        return self._parts

    def _model(self, name: str, seed: int) -> Path:
        source = self.folder / name
        if not source.exists():
            data = np.load(self.folder / "images.npz")
            settings = {"search.epochs": 1}
            fitted = UraeNAS(
                members=2, epochs=1, preset="tiny", settings=settings, device="cpu", random_state=seed
            )
            fitted.fit(data["x_train"], data["y_train"] + 3 * seed).save(source)
        return source

    def contents(self) -> Case:
        return self.parts.contents()

    def exchanged(self) -> Case:
        return self.parts.exchanged()

    def kinds_of_file(self) -> Case:
        return self.parts.kinds_of_file()

    def names(self) -> Case:
        return self.parts.names()

    def streams(self) -> Case:
        return self.parts.streams()

    def genotypes(self) -> Case:
        number = self.draw.randrange(architecture_count(SPACE))
        indices = [int(index) for index in np.unravel_index(number, option_counts(SPACE))]
        text = damaged_text(self.draw, str(SPACE.architecture(indices)))
        return lambda: require(str(SPACE.parse(text)) == text.strip(), f"{text!r} was read as another")

    def overrides(self) -> Case:
        values = EVERY_METHOD.values
        lines = []
        for _ in range(self.draw.choice((1, 1, 3))):
            key = self.draw.choice(list(values))
            value = self.draw.choice(TOKENS) if self.draw.random() < 0.7 else str(values[key])
            line = f"{key}={value}"
            lines.append(damaged_text(self.draw, line) if self.draw.random() < 0.5 else line)

        def case() -> None:
            require(_comes_back(override(EVERY_METHOD, parse_assignments(lines))), f"{lines} is lost")

        return case

    def configs(self) -> Case:
        table = EVERY_METHOD.as_json()
        if self.draw.random() < 0.5:
            table[self.draw.choice(list(table))] = self.draw.choice(
                (None, [], {}, True, -1, 1e308, 2**70, "x", [1, "a"], [[1]], 0.5)
            )
        text = json.dumps(table)
        self.file.write_bytes(
            damaged(self.draw, text.encode()) if self.draw.random() < 0.7 else text.encode()
        )

        def case() -> None:
            require(_comes_back(from_json(read_json(self.file))), "it does not come back")

        return case

    def cifar_records(self) -> Case:
        kind = self.draw.choice((CIFAR10, CIFAR100))
        record = bytes([1] * kind.label_bytes) + self.draw.randbytes(3072)
        data = damaged(self.draw, 3 * record)
        return lambda: _check_cifar(*read_binary(data, kind), kind)

    def cifar_pickles(self) -> Case:
        kind = self.draw.choice((CIFAR10, CIFAR100))
        pixels = np.frombuffer(self.draw.randbytes(2 * 3072), np.uint8).reshape(2, 3072)
        content = {"data": pixels, kind.label_key: [1, 9], "batch_label": b"x", "filenames": ["a", "b"]}
        data = bytearray(pickle.dumps(content, protocol=self.draw.randrange(6)))
        if self.draw.random() < 0.7:  # its structure lies in the first and last bytes
            start = self.draw.choice((0, len(data) - 120))
            data[start : start + 160] = damaged(self.draw, bytes(data[start : start + 160]))
        else:
            data = bytearray(damaged(self.draw, bytes(data)))

        def case() -> None:
            with blaming("input", ""):
                images, labels = read_python(bytes(data), kind)
            _check_cifar(images, labels, kind)

        return case

    def cifar_archives(self) -> Case:
        kind = CIFAR10
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz" if self.draw.random() < 0.5 else "w") as archive:
            for layout in kind.layouts[: self.draw.choice((1, 2))]:
                for name in layout.files:
                    member = tarfile.TarInfo(
                        self.draw.choice(("", "", "../", "/")) + f"{layout.folder}/{name}"
                    )
                    member.size = 64
                    archive.addfile(member, io.BytesIO(self.draw.randbytes(64)))
        self.file.write_bytes(damaged(self.draw, stream.getvalue()))

        def case() -> None:
            load_cifar(self.file, kind)
            raise Wrong("an archive without images was accepted")

        return case

    def npz(self) -> Case:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for name, array in (
                ("x_train", np.zeros((20, 5, 5, 1), np.uint8)),
                ("y_train", np.arange(20) % 2),
                ("x_test", np.zeros((4, 5, 5, 1), np.uint8)),
                ("y_test", np.arange(4) % 2),
                ("classes", np.array(["a", "b"])),
            ):
                part = io.BytesIO()
                np.save(part, array)
                inner = part.getvalue()
                inner = damaged(self.draw, inner[:128]) + inner[128:] if self.draw.random() < 0.3 else inner
                archive.writestr(self.draw.choice(("", "", "", "", "../")) + f"{name}.npy", inner)
        whole = stream.getvalue()
        self.file.write_bytes(damaged(self.draw, whole) if self.draw.random() < 0.5 else whole)
        return lambda: _check_dataset(load_npz(self.file))

    def idx(self) -> Case:
        axes = self.draw.choice((1, 3))
        shape = (3, 4, 5)[:axes]
        values = self.draw.randbytes(int(np.prod(shape)))
        header = bytes((0, 0, 8, axes)) + b"".join(size.to_bytes(4, "big") for size in shape)
        data = damaged(self.draw, header + values)
        packed = self.draw.random() < 0.3
        self.file.write_bytes(damaged(self.draw, gzip.compress(header + values)) if packed else data)

        def case() -> None:
            found = read_idx(self.file, axes)
            require(found.ndim == axes and found.dtype == np.uint8, "not an array of bytes")
            if not packed:
                require(found.tobytes() == data[4 + 4 * axes :], "other values than the file's")

        return case

    def tensors(self) -> Case:
        path = self.draw.choice(sorted(self.run.rglob("*.safetensors")))
        whole = path.read_bytes()
        data = damaged(self.draw, whole)
        if self.draw.random() < 0.5:  # in the header
            end = min(len(whole), 8 + int.from_bytes(whole[:8], "little"))
            data = damaged(self.draw, whole[:end]) + whole[end:]
        self.file.write_bytes(data)

        def case() -> None:
            read_tensors(self.file)
            require(data == whole, "damage was not noticed")

        return case

    def members(self) -> Case:
        """Files with a right checksum that say something else than a member's."""
        path = self.draw.choice(sorted(self.run.glob("methods/*/members/*.safetensors")))
        tensors, header = read_tensors(path)
        for _ in range(self.draw.choice((1, 2))):
            if self.draw.random() < 0.7:
                key = self.draw.choice(sorted(header))
                header[key] = self.draw.choice(
                    (self.draw.choice(TOKENS), damaged_text(self.draw, header[key]))
                )
            else:
                name = self.draw.choice(sorted(tensors))
                tensors[name] = self.draw.choice(
                    (torch.zeros(0), torch.zeros(3, 3), tensors[name].flatten()[1:])
                )
        write_tensors(self.file, tensors, header)

        def case() -> None:
            member = Member.load(self.file)
            require(str(member.architecture) == header["architecture"].strip(), "another architecture")
            require(member.kind.forward is None, "another kind of weights")  # these wrap nothing

        return case

    def images(self) -> Case:
        kind = self.draw.choice(("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM"))
        picture = Image.frombytes("RGB", (9, 7), self.draw.randbytes(9 * 7 * 3))
        stream = io.BytesIO()
        picture.save(stream, kind)
        self.file.write_bytes(damaged(self.draw, stream.getvalue()))

        def case() -> None:
            found = read_image(self.file, (6, 8), self.draw.choice((1, 3)))
            require(found.shape[:2] == (6, 8) and found.dtype == np.uint8, "not the picture asked for")

        return case

    def run_files(self) -> Case:
        """One file of a run is damaged; what looks at runs must say so or be right, and leave all files alone."""
        self._damage_run()
        before = contents(self.scratch)

        def case() -> None:
            run = Run(self.scratch)
            seen = []
            for look in (
                lambda run: summary(run.path),
                lambda run: run.metrics(),
                _ensembles,
                lambda run: report.build([(run, None)]),
            ):
                with contextlib.suppress(UraenasError):
                    seen.append((look, look(run)))
            require(contents(self.scratch) == before, "a file was changed")
            if len(seen) < 4:
                raise UraenasError("at least one look at the run was refused")
            ensembles: Any = seen[2][1]
            require(_predictions(ensembles) == self.predictions, "the ensembles predict something else")

        return case

    @property
    def predictions(self) -> list[bytes]:
        if not hasattr(self, "_expected"):
            self._expected = _predictions(_ensembles(Run(self.run)))
        return self._expected

    def resumed_runs(self) -> Case:
        """One file of a run is damaged or missing; `uraenas run` must refuse, or end with the undisturbed metrics."""
        self._damage_run()
        if self.draw.random() < 0.5:  # something is left to do
            for folder in self.scratch.glob("methods/*/evaluation"):
                shutil.rmtree(folder)
            (self.scratch / "metrics.json").unlink(missing_ok=True)

        def case() -> None:
            work(self.scratch, self.config)
            same = (self.scratch / "metrics.json").read_bytes() == (self.run / "metrics.json").read_bytes()
            require(same, "other metrics than the undisturbed ones")

        return case

    def _damage_run(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self.run, self.scratch)
        logs = ("log.jsonl", "lock")  # never read
        files = [path for path in sorted(self.scratch.rglob("*")) if path.is_file() and path.name not in logs]
        path = self.draw.choice(files)
        fate = self.draw.random()
        if fate < 0.1:
            path.unlink()
        elif fate < 0.2:
            path.write_bytes(self.draw.choice(files).read_bytes())
        else:
            path.write_bytes(damaged(self.draw, path.read_bytes()))

    def estimators(self) -> Case:
        source = self._model("estimator", 0)
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(source, self.scratch)
        path = self.draw.choice([path for path in sorted(self.scratch.rglob("*")) if path.is_file()])
        path.write_bytes(damaged(self.draw, path.read_bytes()))

        def case() -> None:
            require(UraeNAS.load(self.scratch).classes_.tolist() == [0, 1, 2], "other classes")

        return case

    def suites(self) -> Case:
        source = self.folder / "suite"
        if not source.exists():
            images = np.zeros((4, 8, 8, 3), np.uint8)
            write_suite(images, np.arange(4), source, ["brightness", "contrast"], workers=1)
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(source, self.scratch)
        path = self.draw.choice(sorted(self.scratch.iterdir()))
        whole, of_header = path.read_bytes(), 128 if self.draw.random() < 0.7 else None
        rest = b"" if of_header is None else whole[of_header:]
        path.write_bytes(damaged(self.draw, whole[:of_header]) + rest)
        before = contents(self.scratch)

        def case() -> None:
            try:
                check_suite(self.scratch)
                for _, _, images in open_suite(str(self.scratch)):
                    require(images.dtype == np.uint8 and images.ndim == 4, "not images")
            finally:
                require(contents(self.scratch) == before, "a file was changed")

        return case


SHARES = {  # of all inputs, in thousandths; the slow kinds get fewer
    "genotypes": 60,
    "overrides": 55,
    "configs": 30,
    "cifar_records": 30,
    "cifar_pickles": 55,
    "cifar_archives": 11,
    "npz": 30,
    "idx": 30,
    "tensors": 30,
    "members": 11,
    "images": 19,
    "run_files": 3,
    "resumed_runs": 1,
    "estimators": 3,
    "suites": 2,
    "contents": 320,
    "exchanged": 130,
    "kinds_of_file": 100,
    "names": 40,
    "streams": 40,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _comes_back(config: Config) -> bool:
    return from_json(json.loads(json.dumps(config.as_json()))) == config


def _ensembles(run: Run) -> list[Ensemble]:
    return [run.ensemble(method) for method in ("uraenas-swa", "deep-ensemble")]


def _predictions(ensembles: list[Ensemble]) -> list[bytes]:
    images = np.arange(128, dtype=np.uint8).reshape(2, 8, 8, 1)
    return [ensemble.predict_proba(images, device="cpu").tobytes() for ensemble in ensembles]


def _check_cifar(images: np.ndarray, labels: np.ndarray, kind: Cifar) -> None:
    require(images.dtype == np.uint8 and images.shape == (len(labels), 32, 32, 3), "not CIFAR's images")
    require(len(labels) == 0 or 0 <= labels.min() <= labels.max() < len(kind.classes), "labels out of range")


def _check_dataset(dataset: Dataset) -> None:
    for part in (dataset.train, dataset.test):
        require(len(part.images) == len(part.labels) and part.images.ndim == 4, "not labelled images")
        require(0 <= part.labels.min() <= part.labels.max() < len(dataset.classes), "labels out of range")


def outcome(case: Case) -> str:
    """How a case ended, in one word; `refused` and `accepted` are the good ones."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAITING)  # a FIFO takes no computing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning would be a second line
            case()
        return "accepted"
    except UraenasError:
        return "refused"
    except Hang:
        return "hung"
    except Exception as error:
        traceback.print_exc()
        return type(error).__name__
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _hang(number: int, frame: object) -> None:
    raise Hang


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=SHARES, default=None)
    parser.add_argument("--keep", type=Path, default=Path("fuzzed"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, _hang)
    signal.signal(signal.SIGALRM, _hang)
    counts: dict[str, Counter[str]] = {}
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder, limited_memory():
        draw = random.Random(options.seed)
        fuzzer = Fuzzer(Path(folder), draw)
        for kind, share in SHARES.items():
            if options.only not in (None, kind):
                continue
            counts[kind] = Counter()
            for number in range(options.inputs if options.only else max(1, options.inputs * share // 1000)):
                case = getattr(fuzzer, kind)()
                ended = outcome(case)
                counts[kind][ended] += 1
                if ended not in ("refused", "accepted"):
                    kept = options.keep / f"{kind}-{number}"
                    kept.mkdir(parents=True, exist_ok=True)
                    for path in (fuzzer.file, fuzzer.scratch, fuzzer.folder / "last"):
                        with contextlib.suppress(OSError):
                            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, kept / path.name)
    total = sum((count for count in counts.values()), Counter())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) << 10
    if grown > MOST_MEMORY:
        total["too much memory"] += 1
    print(
        json.dumps(
            {
                **{kind: dict(count) for kind, count in counts.items()},
                "total": dict(total),
                "megabytes": grown >> 20,
            },
            indent=1,
        )
    )
    return 0 if set(total) <= {"refused", "accepted"} else 1


if __name__ == "__main__":
    sys.exit(main())
