"""What is imported when: PyTorch takes seconds, so nothing that only prints a few lines may wait for it."""

import ast
import inspect
import subprocess
import sys

import pytest

import uraenas
from uraenas.cli import app

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]
SLOW = {"torch", "numpy", "scipy", "sklearn", "PIL", "safetensors", "jinja2"}


def imported_by(*arguments: str) -> set[str]:
    """The top-level packages that a process has imported when it ends."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join
)
def test_version_and_help_do_not_wait_for_pytorch(arguments):
    packages = imported_by("-m", "uraenas.cli", *arguments)
    assert "uraenas" in packages
    assert not packages & SLOW


def test_a_public_name_brings_what_it_needs_and_a_light_one_no_more():
    assert "torch" in imported_by("-c", "from uraenas import Stack")
    assert not imported_by("-c", "from uraenas import UraenasError") & SLOW


def test_public_names_are_the_same_at_work_and_for_type_checkers():
    """`__init__` has them three times: in `__all__`, imported for type checkers, and with where to find them."""
    seen = {
        name.name: statement.module
        for branch in ast.parse(inspect.getsource(uraenas)).body
        if isinstance(branch, ast.If)
        for statement in branch.body
        if isinstance(statement, ast.ImportFrom)
        for name in statement.names
    }
    assert sorted(seen) == sorted(uraenas.__all__)
    assert seen == {name: f"uraenas.{home}" for name, home in uraenas._HOMES.items()}
    assert set(uraenas.__all__) < set(dir(uraenas))
    for name, home in seen.items():
        assert getattr(uraenas, name) is getattr(sys.modules[home], name)


def test_a_name_that_is_not_public_is_refused_as_python_does():
    with pytest.raises(AttributeError, match=r"module 'uraenas' has no attribute 'UraeNas'"):
        uraenas.UraeNas  # noqa: B018
    with pytest.raises(ImportError, match=r"cannot import name 'UraeNas' from 'uraenas'"):
        from uraenas import UraeNas  # noqa: F401
