"""Tests that need a process of their own, or are about the repository as a whole. All others are in the notebooks."""
import os
import socket
import subprocess
import sys
from configparser import ConfigParser
from functools import partial
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


def run_in(folder, program, *args, cwd=ROOT, timeout=300, **env):
    "Run a program of this environment, 'papermill' or 'python', its runs and data in a folder."
    command = [sys.executable] if program == "python" else [Path(sys.executable).parent / program]
    env = {**os.environ, "PERTNB_RUNS": str(folder / "runs"), "PERTNB_DATA": str(folder / "data"), **env}
    return subprocess.run([*command, *map(str, args)], cwd=cwd, env=env, timeout=timeout, capture_output=True, text=True)


@pytest.fixture
def run(tmp_path):
    "run('papermill', ...) or run('python', ...): `run_in` a folder of the test's."
    return partial(run_in, tmp_path)


@pytest.fixture(scope="session")
def two_processes():
    "A function that says, with a free port each time, how a script is started in two processes of this machine."
    def words():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = str(s.getsockname()[1])
        # without MPI `--cpu` starts one process whatever `--num_processes` says; the launcher for GPUs starts two, and they take the CPU
        return [Path(sys.executable).parent / "accelerate", "launch", "--multi_gpu", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
                "--num_processes", "2", "--main_process_ip", "127.0.0.1", "--main_process_port", port]
    return words


def pytest_sessionfinish(session, exitstatus): session.config.status_of_tests = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """End with the status of the tests, all reports being written. A library's C++ thread that still runs when Python is taken down
    ("terminate called without an active exception", now and then after tests/test_memo.py) would replace it by its own."""
    status = getattr(config, "status_of_tests", None)
    if status is None or hasattr(config, "workerinput"): return # a worker still has to tell the process that it works for
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
