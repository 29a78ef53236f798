"""A run that is killed again and again ends as if nothing had been."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "kills.py"


def test_kills_at_random_moments_change_nothing():
    """The script compares every run's metrics with the undisturbed ones, and reads every file after every kill."""
    command = [sys.executable, str(SCRIPT), "--kills", "5"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["kills"] >= 5
    assert min(facts["by stage"].values()) > 0, facts
