"""Chains on two Ray nodes of this machine. Slow: a cluster takes a minute to start."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from uraenas.base.versions import version_of
from uraenas.run.places import driver

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import worker_kills
from ray_cluster import add_node, settings, two_nodes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs uraenas[ray]"),
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's own sockets
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core, which ask for a token."""
    before = {name: os.environ.get(name) for name in settings()}
    found = two_nodes()
    yield found
    found.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.mark.filterwarnings("ignore::UserWarning")  # deaths are told, and expected
def test_twenty_kills_of_workers_and_five_of_nodes_change_nothing(cluster, monkeypatch):
    """The loop compares every run's metrics with the undisturbed ones, and what was computed twice with an interval."""
    monkeypatch.setattr(driver, "MOST_DEATHS", sys.maxsize)
    words = ["--on", "ray", "--kills", "20", "--nodes", "5", "--epochs", "40", "--pause", "0", "3"]
    facts = worker_kills.loop(worker_kills.options_of(words), cluster)
    assert (facts["kills"], facts["nodes killed"]) == (20, 5)


def untrained(out: Path, finished_run: Path) -> Path:
    """A run that has searched, and has been measured once."""
    shutil.copytree(finished_run, out)
    for done_before in ("methods", "chains"):
        shutil.rmtree(out / done_before)
    return out


def test_a_node_with_another_version_is_named_in_one_line(finished_run, tmp_path, cluster, uraenas):
    """It has one more `uraenas`, of version 9, before the right one."""
    facts = tmp_path / "uraenas-9.9.9.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: uraenas\nVersion: 9.9.9\n")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    node = add_node(cluster, env_vars={"PYTHONPATH": paths})
    out = untrained(tmp_path / "run", finished_run)
    done = uraenas("train", out, "--on", f"ray:{cluster.address}")
    cluster.remove_node(node)
    assert done.returncode == 2
    line = next(line for line in done.stderr.splitlines() if line.startswith("uraenas: "))
    assert f"has uraenas 9.9.9, this process {version_of('uraenas')}; install the same everywhere" in line


def test_a_cluster_with_another_python_is_refused_in_one_line(finished_run, tmp_path, cluster, uraenas):
    """Ray compares what the cluster's head has noted; here it has noted something else."""
    import ray
    from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
    from ray._private.ray_constants import KV_NAMESPACE_CLUSTER

    place = (CLUSTER_METADATA_KEY, KV_NAMESPACE_CLUSTER)
    head = cluster.head_node.get_gcs_client()
    before = head.internal_kv_get(*place)
    other = {**json.loads(before), "python_version": "3.9.9"}
    head.internal_kv_put(place[0], json.dumps(other).encode(), True, place[1])
    out = untrained(tmp_path / "run", finished_run)
    done = uraenas("train", out, "--on", f"ray:{cluster.address}")
    head.internal_kv_put(place[0], before, True, place[1])
    assert done.returncode == 2
    words = (
        f"the Ray cluster at {cluster.address} has Ray {ray.__version__} and Python 3.9.9, this process Ray "
    )
    assert f"uraenas: {words}" in done.stderr


def test_a_wrong_token_is_refused_in_one_line(finished_run, tmp_path, cluster):
    """In a process of its own: this one has told Ray the right token."""
    out = untrained(tmp_path / "run", finished_run)
    command = [sys.executable, "-m", "uraenas", "train", out, "--on", f"ray:{cluster.address}"]
    wrong = {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
    done = subprocess.run(command, env=wrong, capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("note: "))
    assert line.startswith(f"uraenas: cannot use Ray on {cluster.address}: ")
    assert "RAY_AUTH_TOKEN" in line


def test_a_node_that_sees_another_directory_is_told_from_one_that_sees_this(tmp_path):
    from uraenas.run.places.ray_nodes import _probe

    run = tmp_path / "run"
    assert _probe(str(run))(["uraenas"])["holder"] is None
    run.mkdir()
    (run / "lock").write_bytes(b"process 1 on another\n")
    seen = _probe(str(run))(["uraenas", "no such package"])
    assert seen["holder"] == b"process 1 on another\n"
    assert seen["locked"]  # nobody holds it
    assert seen["versions"] == {"uraenas": version_of("uraenas"), "no such package": "not installed"}
