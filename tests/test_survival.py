"""The trainer and the evaluation survive kills, full disks and damaged files. survive.py does it; here is what must come of it."""
import json
import re

import pytest


@pytest.fixture(scope="module")
def found(root, tmp_path_factory):
    "What survive.py found, in one process that forks for each kill."
    import os, subprocess, sys
    folder = tmp_path_factory.mktemp("survive")
    done = subprocess.run([sys.executable, root / "tests" / "survive.py", folder], cwd=root, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"})
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


FILES = dict(training=[".lock", "key.json", "log.jsonl", "model.safetensors"], evaluation=["key.json", "rows-0.csv", "rows-0.lock", "rows-0.seal"])


@pytest.mark.parametrize("what", FILES)
def test_killed_at_any_moment(found, what):
    "Twenty kills: resumed, the same bits, and no half file."
    kills = found[what]
    assert kills["differ"] == []
    assert kills["files"] == FILES[what]
    assert kills["hit"] >= 10 and kills["resumed"] >= 5, kills


def test_killed_before_a_checkpoint(found):
    "The weights of the new best row are there, its checkpoint is not: the run goes on from the last one, of seven rows, and nothing piles up."
    between = found["between"]
    assert between["left"] == 3 * [["best-6.safetensors", "best-7.safetensors", "key.json", "log.jsonl", "state.safetensors"]]
    assert between["checkpoints"] == 40 - 7 and between["same"]


def test_two_processes(found):
    "The second waits for the first, says so in one line, and finds the same weights."
    two = found["two"]
    assert two["codes"] == [0, 0] and two["same"]
    assert two["said"][0] == "" and re.fullmatch(r"waiting for another process, which holds \S+\.lock\n", two["said"][1])


SAID = dict(
    full=r"OSError: can't write \S+: File too large; make room or rights there, .*",
    half=r"OSError: can't write .*",
    folder=r"OSError: can't write \S+: Not a directory; make room or rights there, .*",
    cut="", deleted="", weights="", foreign="", # made again
    nan=r"FloatingPointError: line-\w+: the loss is nan at step 18 \(images \d+(, \d+){15}; rate [\d.e-]+\); the last good checkpoint is \S+state\.safetensors",
    gradient=r"FloatingPointError: line-\w+: \S+ is not finite after step 0; there is no checkpoint yet at \S+state\.safetensors")


@pytest.mark.parametrize("case", SAID)
def test_trouble(found, case):
    "One clear line, and what was good before is still there."
    said, kept = found["trouble"][case]
    assert re.fullmatch(SAID[case], said), said
    assert kept


def test_full_disk(found):
    if found["disk"] is None: pytest.skip("mounting a small disk needs root")
    for case, (said, kept) in found["disk"].items():
        assert re.fullmatch(r"OSError: can't write \S+: No space left on device; make room or rights there, .*", said), (case, said)
        assert kept, case


def test_nothing_is_unpickled(root):
    "Weights are safetensors, arrays are loaded without pickle; CIFAR-10's batches are torchvision's to read, which knows their digests."
    seen = []
    for path in sorted((root / "pertnb").rglob("*.py")):
        text = path.read_text()
        seen += re.findall(r"(torch|np)\.load\(", text)
        for call in re.findall(r"torch\.load\([^)]*\)", text): assert path.name == "checkpoint_files.py" and "weights_only=True" in call, (path.name, call) # official checkpoints: tensors and numbers alone
        assert not re.search(r"torch\.save\(|pickle\.(load|loads|Unpickler)\b|\bjoblib\b|\bdill\b|read_pickle|\beval\(", re.sub(r"\.eval\(", "", text)), path.name
        for call in re.findall(r"np\.load\((?:[^()]|\([^()]*\))*\)", text): assert "allow_pickle=False" in call, (path.name, call)
    assert set(seen) == {"torch", "np"} # the patterns do find what they look for


def test_a_failed_child_says_why(root, run):
    "The reason is printed, not only that there was one."
    done = run("python", "-c", "from survive import child, ended\nprint(ended(child(int, 'seven')))", cwd=root / "tests")
    assert done.stdout == "1\n" and "invalid literal for int() with base 10: 'seven'" in done.stderr, done.stderr
