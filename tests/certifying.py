"""python certifying.py FOLDER [kill]: certifies 24 images in FOLDER; with `kill`, kills such certifications and resumes them. tests/test_certification_survival.py starts it in one and in two processes."""
import json
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path

import torch

torch.set_num_threads(1)

from accelerate import PartialState
from pertnb.certify import smoothing
from pertnb.core import memo
from pertnb.core.random import make_generator
from pertnb.core.rows import read_rows, write_rows
from pertnb.sets.sets import PerturbationSet
from survive import Line, child, ended, results

N, CHUNK = 24, 2


class Judge(torch.nn.Module):
    "Three classes, linear in the pixels."
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(48, 3, generator=make_generator("judge")))
    def forward(self, x): return (x - .5).flatten(1) @ self.w


def certify(folder):
    "Rows of all images. An image that has a row is not certified again, and none twice."
    x, seen, inner = .3 + .4 * torch.rand(N, 3, 4, 4, generator=make_generator("certified images")), [], memo.make_rows
    there = set(images(folder))

    def counted(kept, name, todo, work, *args, **kw):
        return inner(kept, name, todo, lambda units: (seen.extend(units), work(units))[1], *args, **kw)

    os.environ["PERTNB_RUNS"], memo.make_rows = str(folder), counted
    try: return smoothing.certify_rows(PerturbationSet(Line(), 2.), Judge(), x, torch.zeros(N, dtype=torch.long), 1., n0=20, n=1000, chunk=CHUNK)
    finally:
        memo.make_rows = inner
        assert len(seen) == len(set(seen)) and not there & set(seen), "an image was certified twice"


def one_of(folder, rank, port):
    "`certify` as accelerate's launcher starts it in one of two processes."
    PartialState._reset_state()
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    certify(folder)


def begin(folder, processes):
    "Ids of the children that certify."
    if processes == 1: return [child(certify, folder)]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    return [child(one_of, folder, k, port) for k in range(2)]


def images(folder):
    "Images that have a row, shard by shard."
    return [i for p in sorted(folder.glob("certified-*/rows-*.csv")) for i in read_rows(p).image]


def kills(root):
    "kill -9 at seeded moments: after so many rows and some time. Every run is then resumed by one process."
    write_rows(root / "whole.csv", certify(root / "whole")) # what it imports when it first runs is there for the children
    moments, found = random.Random(0), []
    for k, processes in enumerate([1] * 14 + [2] * 3):
        folder, after = root / str(k), moments.randrange(0, N - 2 * CHUNK)
        pids = begin(folder, processes)
        while len(images(folder)) < after: time.sleep(1e-3)
        time.sleep(.02 * moments.random()) # some chunks are left, however busy the machine is
        for pid in pids: os.kill(pid, signal.SIGKILL)
        codes, left = [ended(pid) for pid in pids], len(images(folder))
        assert ended(child(certify, folder)) == 0, f"kill {k}: not resumed"
        half = [p.name for p in folder.rglob(".*-*") if p.suffix != ".lock"]
        found.append(dict(processes=processes, hit=codes == [-signal.SIGKILL] * processes, left=left, half=half,
                          same=results(folder) == results(root / "whole") if processes == 1 else certify(folder).equals(certify(root / "whole"))))
    return found


if __name__ == "__main__":
    root = Path(sys.argv[1])
    if sys.argv[2:] == ["kill"]: (root / "found.json").write_text(json.dumps(kills(root)))
    else: write_rows(root / f"all-{os.environ.get('RANK', 0)}.csv", certify(root))
