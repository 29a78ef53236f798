"""What is imported when: PyTorch takes seconds, so nothing that only prints a few lines may wait for it."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import uraenas

SLOW = {"torch", "numpy", "scipy", "sklearn", "PIL", "safetensors", "jinja2"}
# What some command needs, and those that work with what a run holds do not.
NOT_TO_READ = {
    "scipy",
    "sklearn",
    "pandas",
    "onnx",
    "onnxruntime",
    "tensorboard",
    "torch._dynamo",
    "torch._inductor",
    "uraenas.deploy",
    "uraenas.estimator",
}
NOT_TO_PREDICT = NOT_TO_READ | {"jinja2", "uraenas.report", "uraenas.run.pipeline"}
HELP_OF_EVERYTHING = """
import contextlib, io, json, sys
from uraenas.cli import app

names = [command.name or command.callback.__name__ for command in app.registered_commands]
imported = {}
for arguments in (["--version"], ["--help"], *([name, "--help"] for name in names)):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        app(arguments, standalone_mode=False)
    assert said.getvalue().strip(), arguments
    imported[" ".join(arguments)] = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps(imported))
"""


def said_by(program: str, *arguments: str) -> str:
    """What a Python of its own prints."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_version_and_help_do_not_wait_for_pytorch():
    imported = json.loads(said_by(HELP_OF_EVERYTHING))
    assert len(imported) > 10
    assert {called: sorted(SLOW.intersection(names)) for called, names in imported.items()} == {
        called: [] for called in imported
    }


CALLED = """
import contextlib, io, sys
from uraenas.cli import app

with contextlib.redirect_stdout(io.StringIO()) as said:
    app(sys.argv[1:], standalone_mode=False)
assert said.getvalue().strip()
print(*sys.modules)
"""


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("show {run} --members", SLOW),
        ("list", NOT_TO_READ | {"uraenas.report", "uraenas.run.pipeline"}),
        ("report {run} --format md", NOT_TO_READ | {"uraenas.run.pipeline"}),
        ("report {run} --out {page}", NOT_TO_READ),  # with the digits, which come with scikit-learn
        ("report {run} {run} --out {page}", NOT_TO_READ),
    ],
)
def test_a_command_imports_no_more_than_it_needs(
    command: str, unneeded: set[str], finished_run: Path, tmp_path: Path
):
    arguments = [word.format(run=finished_run, page=tmp_path / "report.html") for word in command.split()]
    assert not unneeded.intersection(said_by(CALLED, *arguments).split())


UNCOLLECTED = """
import contextlib, gc
from uraenas.cli import main

looks = []
gc.callbacks.append(lambda phase, facts: looks.append(phase))
gc.collect()
looks.clear()
with contextlib.suppress(SystemExit):
    main()
print(len(looks), gc.isenabled())
"""


def test_a_page_is_made_without_looking_for_garbage(finished_run: Path, tmp_path: Path):
    runs = [str(finished_run)] * 2
    said = said_by(UNCOLLECTED, "report", *runs, "--out", str(tmp_path / "report.html"))
    assert said.splitlines()[-1] == "0 True"


ENDING = """
import atexit, sys
atexit.register(print, "taken apart")
import uraenas.cli
whole = uraenas.cli.main
def main():
    atexit.register(print, "left by a command")
    whole()
uraenas.cli.main = main
uraenas.cli.program()
"""


@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("nonsense", 2)])
def test_a_command_ends_with_its_code_when_its_work_is_done_and_takes_nothing_apart(argument: str, code: int):
    done = subprocess.run([sys.executable, "-c", ENDING, argument], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "left by a command")
    assert "taken apart" not in done.stdout
    assert ("nonsense" in done.stderr) == (code == 2)


BY_AND_BY = """
import sys
from uraenas import UraenasError
print(*sys.modules)
from uraenas import Stack
print(*sys.modules)
from uraenas.cli import app
app(["predict", "cifar10", sys.argv[1], "--json"], standalone_mode=False)
print(*sys.modules)
"""


def test_a_public_name_brings_what_it_needs_and_a_light_one_no_more(tmp_path: Path):
    """And predicting no more than predicting needs."""
    picture = tmp_path / "grey.png"
    Image.new("RGB", (32, 32), (99, 99, 99)).save(picture)
    said = said_by(BY_AND_BY, str(picture)).splitlines()
    light, heavy, predicting = (set(line.split()) for line in (said[0], said[1], said[3]))
    assert not light & SLOW
    assert "torch" in heavy
    assert json.loads(said[2])["predictions"][0]["foreign"]
    assert not predicting & NOT_TO_PREDICT


def test_public_names_are_the_same_at_work_and_for_type_checkers():
    """`__init__` has them twice: imported for type checkers, and with where to find them."""
    seen = {
        name.name: statement.module
        for branch in ast.parse(inspect.getsource(uraenas)).body
        if isinstance(branch, ast.If)
        for statement in branch.body
        if isinstance(statement, ast.ImportFrom)
        for name in statement.names
    }
    assert sorted(seen) == sorted(uraenas.__all__)
    assert set(uraenas.__all__) < set(dir(uraenas))
    for name, home in seen.items():
        assert getattr(uraenas, name) is getattr(sys.modules[home], name)


def test_a_name_that_is_not_public_is_refused_as_python_does():
    with pytest.raises(AttributeError, match=r"module 'uraenas' has no attribute 'UraeNas'"):
        uraenas.UraeNas  # noqa: B018
    with pytest.raises(ImportError, match=r"cannot import name 'UraeNas' from 'uraenas'"):
        from uraenas import UraeNas  # noqa: F401
