"""python beside.py FOLDER: two processes make one result at once. tests/test_beside.py says what must come of it."""
import json
import os
import signal
import sys
import time
from pathlib import Path

import pandas as pd

from damage.runs import in_runs, judge_classifier, measure_set
from pertnb.core import memo
from pertnb.core.rows import read_rows, write_rows
from survive import child, ended


def note(folder, names):
    "A line for each piece of work, with the process that does it; it takes a moment."
    with open(folder / "made", "a") as f: f.write("".join(f"{os.getpid()} {name}\n" for name in names))
    time.sleep(.1)


def watch(folder):
    "From now on this process notes what it makes."
    part, rows = memo.make_part, memo.make_rows

    def noted(work, names):
        note(folder, names)
        return work()
    memo.make_part = lambda kept, name, work, last=True, *args: part(
        kept, name, lambda *given: noted(lambda: work(*given), [name]), last, *args)
    memo.make_rows = lambda kept, name, todo, work, *args, **kw: rows(
        kept, name, todo, lambda units: noted(lambda: work(units), units), *args, **kw)


def made(folder):
    "[(process, piece of work)] so far."
    lines = (folder / "made").read_text().splitlines() if (folder / "made").exists() else []
    return [(int(pid), name) for pid, name in map(str.split, lines)]


def make(work, folder, k):
    "Rows of `work`, in the folder that both processes share, as process `k` has them."
    sys.stdout = open(folder / f"said{k}", "w", buffering=1)
    watch(folder)
    with in_runs(folder / "runs"): write_rows(folder / f"rows{k}.csv", work(folder / "runs", 0)[0])


def begin(work, folder):
    "Ids of two processes that make the same rows."
    folder.mkdir()
    return [child(make, work, folder, k) for k in range(2)]


def make_alone(work, folder):
    with in_runs(folder): return work(folder, 0)[0]


def both(work, root):
    "Exit codes, whether both have the rows of one alone, and what was made."
    alone, folder = make_alone(work, root / "alone"), root / "both"
    codes = list(map(ended, begin(work, folder)))
    same = [read_rows(folder / f"rows{k}.csv").astype(alone.dtypes).equals(alone) for k in range(2)]
    return dict(codes=codes, same=same, made=[name for _, name in made(folder)], processes=len(dict(made(folder))))


def killed(root):
    "The process that makes rows is killed after some; the other goes on."
    alone, folder = make_alone(measure_set, root / "alone"), root / "both"
    pids = begin(measure_set, folder)
    while len(made(folder)) < 5: time.sleep(1e-3)
    hit = made(folder)[0][0]
    os.kill(hit, signal.SIGKILL)
    codes = {pid: ended(pid) for pid in pids}
    k = 1 - pids.index(hit)
    same = read_rows(folder / f"rows{k}.csv").astype(alone.dtypes).equals(alone)
    names = [name for _, name in made(folder)]
    said = (folder / f"said{k}").read_text()
    return dict(hit=codes.pop(hit), codes=list(codes.values()), same=same, made=names, said=said)


def append(root):
    "Two processes add twenty rows each to one list, one by one."
    def work(k):
        for i in range(20): memo.append(root, "list", pd.DataFrame(dict(process=[k], row=[i])))
    codes = [ended(pid) for pid in [child(work, k) for k in range(2)]]
    rows = memo.read(root, "list")
    return dict(codes=codes, rows=[g.row.tolist() for _, g in rows.groupby("process")])


CASES = dict(parts=lambda root: both(judge_classifier, root), rows=lambda root: both(measure_set, root),
             killed=killed, append=append)

if __name__ == "__main__":
    root, found = Path(sys.argv[1]), {}
    for case, work in CASES.items():
        (root / case).mkdir()
        found[case] = work(root / case)
    (root / "found.json").write_text(json.dumps(found))
