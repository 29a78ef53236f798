"""Bad input to every parser ends in our own error or in something right."""

import json
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from uraenas.base.errors import UraenasError
from uraenas.learning.methods import METHODS
from uraenas.run.config import Config, build, from_json, override, parse_assignments

SCRIPT = Path(__file__).parents[2] / "tools" / "fuzz.py"
EVERY_METHOD = build({"methods": tuple(METHODS)})  # so that every setting is one
KEYS = st.sampled_from(sorted(EVERY_METHOD.values))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)


def assert_comes_back(config: Config) -> None:
    assert from_json(json.loads(json.dumps(config.as_json()))) == config


@settings(max_examples=100, deadline=None)
@given(changes=st.dictionaries(KEYS, VALUES, min_size=1, max_size=3))
def test_a_config_of_any_values_is_refused_or_comes_back(changes: dict) -> None:
    try:
        config = from_json(changes)
    except UraenasError:
        return
    assert_comes_back(config)


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(st.builds("{}={}".format, KEYS, SCALARS) | st.text(), min_size=1, max_size=3))
def test_any_assignments_are_refused_or_come_back(lines: list[str]) -> None:
    try:
        config = override(EVERY_METHOD, parse_assignments(lines))
    except UraenasError:
        return
    assert_comes_back(config)


def test_no_parser_falls_for_bad_input(tmp_path):
    """A few of the inputs that docs/reliability.md counts: files, archives, images and whole run directories."""
    command = [sys.executable, str(SCRIPT), "--inputs", "250", "--keep", str(tmp_path / "fuzzed")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    total = json.loads(done.stdout)["total"]
    assert total["refused"] > 150
    assert total["accepted"] > 0
