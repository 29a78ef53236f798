"""How many processor cores this process may use."""

import os


def available_cores() -> int:
    """Those it is bound to, where the system says; else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
