"""A certification that is killed and resumed, or shared by two processes, has the rows of one that was not. certifying.py certifies."""
import json
import os
import subprocess
import sys

import pytest

from pertnb.core.rows import read_rows


def start(root, folder, *args, launch=(sys.executable,)):
    "certifying.py in a folder, to its end."
    done = subprocess.run([*launch, root / "tests" / "certifying.py", folder, *args], cwd=root, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"})
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def killed(root, tmp_path_factory):
    "Rows of one process that nothing disturbed, and what came of kills."
    folder = tmp_path_factory.mktemp("certifying")
    start(root, folder, "kill")
    return read_rows(folder / "whole.csv"), json.loads((folder / "found.json").read_text())


def test_rows_differ(killed):
    "Else all would be equal for nothing: abstentions, several classes and many radii."
    rows, _ = killed
    assert rows.image.tolist() == list(range(24))
    assert rows.radius.nunique() > 12 and (rows.prediction < 0).any() and rows.prediction.nunique() >= 3


@pytest.mark.parametrize("processes, kills", [(1, 14), (2, 3)])
def test_killed_at_any_moment(killed, processes, kills):
    "One process and two, resumed by one: every image there once, the same rows (of one process the same bytes), no half file."
    found = [f for f in killed[1] if f["processes"] == processes]
    wrong = [f for f in found if f["half"] or not f["same"]]
    assert len(found) == kills and not wrong, wrong
    assert sum(f["hit"] for f in found) >= .7 * kills - 1, found
    assert sum(0 < f["left"] < 24 for f in found) >= .5 * kills - 1, found


def test_two_processes(root, killed, tmp_path, two_processes):
    "`accelerate launch` gives each half of the images; together they have the rows of one."
    start(root, tmp_path, launch=two_processes())
    folder, = tmp_path.glob("certified-*")
    assert [sorted(read_rows(folder / f"rows-{k}.csv").image) for k in range(2)] == [list(range(k, 24, 2)) for k in range(2)]
    for k in range(2): assert read_rows(tmp_path / f"all-{k}.csv").equals(killed[0])
