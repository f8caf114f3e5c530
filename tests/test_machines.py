"""Two machines share a run: two launchers, each told its machine's rank, as on a cluster; here both on one machine. together.py trains."""
import json
import os
import socket
import subprocess
import sys
from pathlib import Path


def test_two_machines(root, tmp_path):
    "The words that notebook 15 gives for several machines, with one process on each: both are in one group, and are handed the same log."
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    words = [Path(sys.executable).parent / "accelerate", "launch", "--multi_gpu", "--num_machines", "2", "--num_processes", "2", "--main_process_ip", "127.0.0.1", "--main_process_port", port,
             "--mixed_precision", "no", "--dynamo_backend", "no", "--machine_rank"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"}
    started = [subprocess.Popen([*words, str(rank), root / "tests" / "together.py", tmp_path], cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in (0, 1)]
    try: printed = [p.communicate(timeout=240) for p in started]
    finally:
        for p in started: p.kill()
    assert [p.returncode for p in started] == [0, 0], printed[0][1][-2000:] + printed[1][1][-2000:]
    first, second = (json.loads((tmp_path / f"logs{rank}.json").read_text()) for rank in (0, 1))
    assert first["processes"] == second["processes"] == 2 and first["logs"] == second["logs"]
    assert len(first["logs"]["cvae"]["loss"]) == 12
