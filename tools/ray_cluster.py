"""A Ray cluster of several nodes on loopback, for one process, that starts however busy the machine is.

A node of Ray wants to hear from its helpers within 15 s on which ports they listen, or it dies. Here these ports are
given. Ray passes all but one of them on to the node (2.60); that one is added to its command.
"""

import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

LOOPBACK = "127.0.0.1"
LONG = 600  # seconds that a part of a node may take to start
FORGOTTEN = "dashboard_agent_listen_port"
PORTS = (FORGOTTEN, "metrics_agent_port", "metrics_export_port", "runtime_env_agent_port")
# Ray asks its nodes more often whether they live. One that is only slow has as long to answer as ever.
ASKING = {"health_check_period_ms": 500, "health_check_failure_threshold": 5}


def settings() -> dict[str, str]:
    """What the environment must say: a token is asked for, nothing is reported, loopback is loopback."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_raylet_start_wait_time_s": str(LONG),
        "RAY_worker_register_timeout_seconds": str(LONG),
    }


def two_nodes() -> Any:
    """Nodes of one core. They may be added from a thread, too, which cannot heed signals: whoever asks shuts down."""
    os.environ |= settings()
    from ray.cluster_utils import Cluster

    cluster = Cluster(shutdown_at_exit=False)
    add_node(cluster, include_dashboard=False, _system_config=ASKING)
    add_node(cluster)
    return cluster


def add_node(cluster: Any, **facts: Any) -> Any:
    """One more."""
    from ray._private import services

    with ExitStack() as held:
        free = [held.enter_context(socket.create_server((LOOPBACK, 0))) for _ in PORTS]
        ports = {name: one.getsockname()[1] for name, one in zip(PORTS, free, strict=True)}
    start = services.start_ray_process

    def started(command: Sequence[str], kind: str, *rest: Any, **more: Any) -> Any:
        own = [f"--{FORGOTTEN}={ports[FORGOTTEN]}"] if kind == "raylet" else []
        return start([*command, *own], kind, *rest, **more)

    with mock.patch.object(services, "start_ray_process", started):
        node = cluster.add_node(wait=False, num_cpus=1, node_ip_address=LOOPBACK, **ports, **facts)
    cluster.wait_for_nodes(LONG)
    return node
