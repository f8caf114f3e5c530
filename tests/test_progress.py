"""Long work says in the terminal how far it is, and a notebook that papermill writes holds no line of it."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

TRAINING = """
import time
import torch
from pertnb.learn.train import Schedule, fit
def loss(module, i, gen, t):
    time.sleep(.02)
    return module(torch.ones(len(i), 1)).square().mean(), {}
_, log = fit("classifier-slow", lambda: torch.nn.Linear(1, 1), loss, torch.arange(1000), Schedule(epochs=1., batch_size=5), device="cpu", progress=False)
print("trained", len(log) > 0)
"""
LINE = re.compile(r"pertnb: training classifier-slow: step (\d+) of 200, about \d+ s left")


@pytest.fixture
def notebook(tmp_path):
    "A notebook whose one cell trains for four seconds."
    cells = [new_code_cell("preset = None", metadata=dict(tags=["parameters"])), new_code_cell(TRAINING)]
    kernel = dict(kernelspec=dict(name="python3", display_name="python3", language="python"))
    nbformat.write(new_notebook(cells=cells, metadata=kernel), tmp_path / "slow.ipynb")
    return tmp_path / "slow.ipynb"


def outputs(path):
    "All that the cells of an executed notebook say."
    return "".join(str(cell.get("outputs", "")) for cell in nbformat.read(path, 4).cells)


def check(text, executed):
    "The steps of the lines rise, and no line is in the notebook."
    steps = [int(step) for step in LINE.findall(text)]
    assert len(steps) >= 2 and steps == sorted(set(steps)), text
    assert "trained True" in outputs(executed) and "pertnb:" not in outputs(executed)


def test_papermill(run, notebook, tmp_path):
    done = run("papermill", notebook, tmp_path / "out.ipynb", PERTNB_PROGRESS="1")
    check(done.stderr, tmp_path / "out.ipynb")
    assert all(LINE.fullmatch(line) for line in done.stderr.splitlines() if "pertnb:" in line) # no bar in the same line


def test_in_a_terminal(notebook, tmp_path):
    "The line takes the place of the bar, which comes back below it."
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    env = dict(os.environ, PERTNB_RUNS=str(tmp_path / "runs"), PERTNB_PROGRESS="1")
    words = Path(sys.executable).parent / "pertnb", "run", notebook, "--preset", "smoke", "--out", tmp_path / "out.ipynb"
    child = subprocess.Popen(words, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    text = b""
    try:
        while part := os.read(mine, 4096): text += part
    except OSError: pass # the other side is closed
    assert child.wait(60) == 0, text
    check(text.decode(), tmp_path / "out.ipynb")
    assert b"Executing:" in text and b"\r\x1b[Kpertnb: training" in text


def test_silence(run, notebook, tmp_path):
    done = run("papermill", "--no-progress-bar", notebook, tmp_path / "out.ipynb", PERTNB_PROGRESS="0")
    assert "pertnb:" not in done.stderr and "trained True" in outputs(tmp_path / "out.ipynb")
