"""The commands of docs/many-machines.md are what a shell takes them for."""

import os
import re
import subprocess
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/many-machines.md").read_text()
BLOCKS = re.findall(r"```(?:bash)?\n(.*?)```", PAGE, re.DOTALL)
# What comes after -- is called in the pod, where other commands are.
KUBECTL = 'while [ "$1" != -- ]; do shift; done; shift; PATH="$POD" exec "$@"'


def test_a_shell_can_read_every_block() -> None:
    assert len(BLOCKS) == 4
    for block in BLOCKS:
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), block


def test_the_address_of_a_pod_is_asked_for_in_the_pod(tmp_path: Path) -> None:
    here, pod = tmp_path / "here", tmp_path / "pod"
    for path, text in (
        (here / "kubectl", KUBECTL),
        (here / "hostname", "echo here"),
        (pod / "hostname", "echo 10.0.0.7"),
        (pod / "uraenas", 'for word; do echo "$word"; done'),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (block,) = [block for block in BLOCKS if block.startswith("kubectl")]
    paths = {"PATH": f"{here}:{os.environ['PATH']}", "POD": f"{pod}:{os.environ['PATH']}"}
    done = subprocess.run(["bash"], input=block, capture_output=True, text=True, env={**os.environ, **paths})
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    assert words[words.index("--on") + 1] == "ray:10.0.0.7:6379"
