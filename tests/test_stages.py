"""The stages of the CIFAR-10-C section survive kills and clocks. staged.py does it; here is what must come of it."""
import json
import os
import subprocess
import sys

import pytest

from pertnb.experiments import presets
from pertnb.experiments.cifar10c_certified import Cifar10C
from pertnb.tools import cli, stages

SMOKE = "cvae,quality,train standard,train cvae_adversarial,judge cvae_adversarial,noise 25%"


def staged(root, folder, *words, timeout):
    "What staged.py found."
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, root / "tests" / "staged.py", words[0], folder, *words[1:]], cwd=root, capture_output=True, text=True, timeout=timeout, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


def check(found):
    "Killed and resumed, or stopped after every part: the same bits."
    assert found["killed"] == [] and found["boxed"] == []
    assert found["hit"] and found["calls"] > 10, found
    assert sum(name.endswith("model.safetensors") for name in found["files"]) >= 4
    assert "done" in found["table"] and "samples/s" in found["table"]


def test_smoke(root, tmp_path):
    check(staged(root, tmp_path, "smoke", SMOKE, timeout=600))


@pytest.mark.parametrize("bf16", ["0", "1"])
def test_either_precision(run, tmp_path, bf16):
    "A classifier is trained and judged, whether training takes bf16 or not; the table says in which precision."
    words = "--preset", "smoke", "--data", "photos", "--device", "cpu", "--stage", "train standard,judge standard"
    done = run("python", "-m", "pertnb.tools.stages", *words, PERTNB_BF16=bf16, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    table, = tmp_path.rglob("stages.md")
    precision = "bf16 in training, float32 in evaluation" if bf16 == "1" else "float32"
    assert f"precision {precision}." in table.read_text()


@pytest.mark.skipif("PERTNB_SLOW" not in os.environ, reason="takes minutes: PERTNB_SLOW=1 pytest tests/test_stages.py")
def test_full_width(root, tmp_path):
    "Every stage of `fast` with its networks and losses, few images and steps."
    found = staged(root, tmp_path, "fast", timeout=7200)
    check(found)
    assert "not run" not in found["table"] and "continue" not in found["table"]


def test_notebooks_find_it(tmp_path, monkeypatch):
    "The object of notebook 06 trains, certifies and decides nothing again after the stages."
    monkeypatch.setenv("PERTNB_RUNS", str(tmp_path))
    monkeypatch.setenv("PERTNB_ROOT", str(tmp_path))
    assert stages.run_from_words(["--preset", "smoke", "--data", "photos", "--device", "cpu", "--stage", "noise 25%,certify 25%"]) == 0
    made = {p.name for p in tmp_path.iterdir()}
    section = Cifar10C(presets.resolve("cifar10c_certified", dict(preset="smoke", data="photos")), "cpu")
    assert section.certificates("25%").attrs["there"] == section.certified.n_certified
    assert section.decisions("25%").attrs["there"] == section.certified.n_decided
    assert {p.name for p in tmp_path.iterdir()} == made


def test_mistakes(capsys):
    for words, line in ((["--stage", "cvea"], "unknown stage 'cvea': known are corruptions, cvae"), (["--preset", "big"], "unknown preset 'big'"),
                        (["--device", "gpu"], "unknown device 'gpu'"), (["--data", "svhn"], "unknown data set 'svhn'")):
        assert stages.run_from_words(words) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"python -m pertnb.tools.stages: {line}") and said.count("\n") == 1


def test_command(run):
    "The module is a command: its help names every option; a call whose time is up says how to go on, by its status too."
    command = "python", "-m", "pertnb.tools.stages"
    done = run(*command, "--help")
    assert done.returncode == 0 and all(option in done.stdout for option in cli.STAGES_OPTIONS), done.stderr
    words = "--preset", "smoke", "--data", "photos", "--device", "cpu", "--stage", "cvae,quality", "--minutes", "0"
    done = run(*command, *words)
    assert done.returncode == stages.CONTINUE == 75, done.stderr
    assert done.stdout.splitlines()[-1] == "continue: 2 of 2 stages left, the next is 'cvae'; run the same command again"
