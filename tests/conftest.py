"""Tests that need a process of their own, or are about the repository as a whole. All others are in the notebooks."""
import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root(): return ROOT


@pytest.fixture(scope="session")
def settings():
    ini = ConfigParser(delimiters=["="], interpolation=None)
    ini.read(ROOT / "settings.ini", encoding="utf-8")
    return ini["DEFAULT"]


@pytest.fixture
def run(tmp_path):
    "Run a program of this environment: run('papermill', ...) or run('python', ...), its runs and data in a folder of the test's."
    def run(program, *args, cwd=ROOT, timeout=300, **env):
        command = [sys.executable] if program == "python" else [Path(sys.executable).parent / program]
        env = {**os.environ, "PERTNB_RUNS": str(tmp_path / "runs"), "PERTNB_DATA": str(tmp_path / "data"), **env}
        return subprocess.run([*command, *map(str, args)], cwd=cwd, env=env, timeout=timeout, capture_output=True, text=True)
    return run
