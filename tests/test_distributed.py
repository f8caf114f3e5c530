"""`accelerate launch` with two processes gives the loss curves of one at the same batch. together.py trains."""
import json

import pytest


@pytest.fixture(scope="module")
def curves(root, tmp_path_factory, two_processes):
    "{processes: what each of them found}."
    import os, subprocess, sys
    folder, found = tmp_path_factory.mktemp("distributed"), {}
    for n, start in ((1, [sys.executable]), (2, two_processes())):
        runs = folder / str(n)
        runs.mkdir()
        done = subprocess.run([*start, root / "tests" / "together.py", runs], cwd=root, capture_output=True, text=True, timeout=240,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"})
        assert done.returncode == 0, done.stderr[-3000:]
        found[n] = [json.loads((runs / f"logs{k}.json").read_text()) for k in range(n)]
    return found


def test_processes_share_a_run(curves):
    "Two there were, and both were handed the same log."
    assert [f["processes"] for f in curves[2]] == [2, 2] and curves[1][0]["processes"] == 1
    assert curves[2][0]["logs"] == curves[2][1]["logs"]


def test_same_network(curves):
    "The networks that are returned are of the same classes: what is computed with them has the same key, whoever trained them."
    assert curves[2][0]["networks"] == curves[2][1]["networks"] == curves[1][0]["networks"]


@pytest.mark.parametrize("name", ["cvae", "filtered", "cifar10c", "cvae_augmentation", "cvae_adversarial", "validated", "kept", "mended"])
def test_same_curve(curves, name):
    "Every number that is logged, at every step; sums of another order let the curves drift apart, the faster the larger the rate."
    one, two = curves[1][0]["logs"][name], curves[2][0]["logs"][name]
    assert one.keys() == two.keys() and len(one["loss"]) == 12
    for field in one:
        assert two[field][0] == pytest.approx(one[field][0], rel=1e-5, abs=1e-6), field
        edge = 4.1 if name in ("cvae_adversarial", "validated") else 2.1 # images on the edge, which may fall to either side; adversaries are choices
        few = dict(abs=edge / 32) if field == "accuracy" else dict(rel=1e-2, abs=1e-5)
        assert two[field] == pytest.approx(one[field], **few), field
    assert two["loss"][1] == pytest.approx(one["loss"][1], rel=1e-5) # one step of training, and nothing has drifted yet
    assert one["loss"][0] != one["loss"][1]
