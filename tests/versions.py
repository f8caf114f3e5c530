"""python versions.py FOLDER: what tests/test_versions.py does to processes that write the three files of a table."""
import json
import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path

import pandas as pd
from survive import child, ended
from pertnb.report import tables as report
from pertnb.core.files import write_version

KILLS = 40
SUFFIXES = [".csv", ".md", ".tex"]


def write_big(folder, version):
    "Files of 50 KB."
    write_version(folder / "tables", "table", {suffix: f"{version}{suffix}" * 10_000 for suffix in SUFFIXES})


def write_numbers(folder, version):
    rows = pd.DataFrame(dict(row=["a", "b"], column="Accuracy", value=float(version)))
    report.write_table(rows, "table", folder, dict(version=version))


def write_words(folder, version):
    report.write_text_table(pd.DataFrame(dict(paper=[f"version {version}"]), index=["a"]), "table", folder, "Words.")


WRITERS = dict(numbers=write_numbers, words=write_words)


def contents(folder):
    "{name: bytes} of all files."
    return {p.name: p.read_bytes() for p in (folder / "tables").iterdir()} if (folder / "tables").is_dir() else {}


def whole_versions(write, root, n=3):
    "What the files of versions 0, 1, ... are."
    out = []
    for version in range(n):
        write(root / f"whole{version}", version)
        out.append(contents(root / f"whole{version}"))
    return out


def are_of_one_version(found, versions):
    "Whether the files that are there, temporary ones aside, are of one of the versions."
    table = {name: data for name, data in found.items() if not name.startswith(".")}
    return any(table.items() <= version.items() for version in versions)


def write_forever(write, folder):
    for k in count(): write(folder, k % 3)


def kill_at_random(root):
    "Kills at seeded random moments: those that left two versions, those that left a part, and the next writes that failed."
    folder, moments = root / "killed", random.Random(0)
    versions, mixed, parts, unfinished = whole_versions(write_big, root), [], 0, []
    for k in range(KILLS):
        pid = child(write_forever, write_big, folder)
        time.sleep(.02 + .1 * moments.random())
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        found = contents(folder)
        mixed += [k] * (not are_of_one_version(found, versions))
        parts += sorted(found) != sorted(versions[0])
        if k % 2: continue # the next process begins from what this one left
        write_big(folder, 1)
        unfinished += [k] * (contents(folder) != versions[1])
    return dict(mixed=mixed, parts=parts, unfinished=unfinished)


def kill_before(k, write, folder):
    "Write version 1, and be killed before the k-th operation on files."
    calls = count()
    for name in ("fsync", "replace", "unlink"):
        def operation(*args, work=getattr(os, name), **kw):
            if next(calls) == k: os.kill(os.getpid(), signal.SIGKILL)
            return work(*args, **kw)
        setattr(os, name, operation)
    write(folder, 1)


def kill_between(root):
    "Kills between each pair of operations on files: how many, those that left two versions, and the next writes that failed."
    out = {}
    for name, write in WRITERS.items():
        versions, mixed, unfinished = whole_versions(write, root / name), [], []
        for k in count():
            folder = root / name / str(k)
            write(folder, 0)
            code = ended(child(kill_before, k, write, folder))
            mixed += [k] * (not are_of_one_version(contents(folder), versions))
            write(folder, 2)
            unfinished += [k] * (contents(folder) != versions[2])
            if code == 0: break
            assert code == -signal.SIGKILL
        out[name] = dict(kills=k, mixed=mixed, unfinished=unfinished)
    return out


if __name__ == "__main__":
    root = Path(sys.argv[1])
    found = {}
    for case in (kill_at_random, kill_between):
        (root / case.__name__).mkdir()
        found[case.__name__] = case(root / case.__name__)
    (root / "found.json").write_text(json.dumps(found))
