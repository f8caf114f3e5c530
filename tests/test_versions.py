"""The three files of a table are of one version, whenever their writer is killed: what must come of versions.py."""
import json
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def found(root, tmp_path_factory):
    "What versions.py found, in one process that forks for each kill."
    folder = tmp_path_factory.mktemp("versions")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, root / "tests" / "versions.py", folder]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


def test_killed_at_random(found):
    "Forty kills: one version each time; some hit the writing; the next write leaves the three files and nothing else."
    kills = found["kill_at_random"]
    assert kills["mixed"] == [] and kills["unfinished"] == []
    assert kills["parts"] >= 10, kills


@pytest.mark.parametrize("writer", ("numbers", "words"))
def test_killed_between_operations(found, writer):
    "A kill before each sync, removal and move."
    kills = found["kill_between"][writer]
    assert kills["mixed"] == [] and kills["unfinished"] == []
    assert kills["kills"] >= 8, kills
