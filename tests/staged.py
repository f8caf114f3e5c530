"""python staged.py PRESET FOLDER [STAGES]: the section's stages in one go; killed twice, and resumed; and stopped by the clock after every part. What they leave."""
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from survive import child, contents, ended

from pertnb.tools import stages

HERE = stages.make_section
FEW = dict(cvae=dict(n_train=9, n_test=1, epochs=1., batch_size=4, pgd_steps=1, n_samples=1),
           robust=dict(n_train=9, n_test=2, n_quartiles=1, epochs_standard=1., epochs=1., batch_size=4, pgd_steps=1, strong_steps=1),
           certified=dict(n_train=9, n_test=2, n_certified=1, epochs=1., batch_size=4, n0=5, n=20, n_most=30, sample_batch=10))


def few(*args, **kw):
    "The section with the networks, losses and stages of its preset, and few images and steps."
    s = HERE(*args, **kw)
    if s.preset != "smoke":
        for part, changes in FEW.items(): setattr(s, part, replace(getattr(s, part), **changes))
    return s


def call(folder, preset, names, minutes=None):
    "The command; its status."
    os.environ |= dict(PERTNB_RUNS=str(folder), PERTNB_ROOT=str(folder))
    stages.make_section, stages.announce_stages = few, lambda *a: None
    words = ["--preset", preset, "--data", "photos", "--device", "cpu"]
    if names: words += ["--stage", names]
    if minutes is not None: words += ["--minutes", str(minutes)]
    return stages.run_from_words(words)


def boxed(folder, preset, names):
    "Calls in boxes of no time until one is done; how many were told to continue."
    calls = 0
    while call(folder, preset, names, 0) == stages.CONTINUE: calls += 1
    (folder/".calls.lock").write_text(str(calls))


def results(folder):
    "Bytes of all files that hold results, but for times; of logs the rows without theirs."
    out = {}
    for p in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(p.relative_to(folder))
        if p.name == "log.jsonl": out[name] = [{k: v for k, v in json.loads(line).items() if k not in ("seconds", "samples_per_s")} for line in p.read_text().splitlines()]
        elif not p.name.endswith(".lock") and p.stem != "ledger" and "tables" not in p.parts: out[name] = contents(p)
    return out


if __name__ == "__main__":
    preset, root, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None
    call(root/"warm", preset, "cvae")
    start = time.perf_counter()
    assert ended(child(call, root/"whole", preset, names)) == 0
    seconds, hit = time.perf_counter() - start, 0
    for share in (.3, .6):
        pid = child(call, root/"killed", preset, names)
        time.sleep(share * seconds)
        os.kill(pid, signal.SIGKILL)
        hit += ended(pid) == -signal.SIGKILL
    assert ended(child(call, root/"killed", preset, names)) == 0
    assert ended(child(boxed, root/"boxed", preset, names)) == 0
    whole, killed, cut = (results(root/k) for k in ("whole", "killed", "boxed"))
    table = next((root/"whole").rglob("stages.csv")).read_text()
    found = dict(seconds=seconds, hit=hit, calls=int((root/"boxed"/".calls.lock").read_text()), files=sorted(whole), table=table,
                 killed=[k for k in whole.keys() | killed.keys() if whole.get(k) != killed.get(k)], boxed=[k for k in whole.keys() | cut.keys() if whole.get(k) != cut.get(k)])
    (root/"found.json").write_text(json.dumps(found))
