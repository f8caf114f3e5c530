"""python survive.py CASE FOLDER: what tests/test_survival.py does to a trainer and an evaluation, in children of one warm process."""
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import torch

torch.set_num_threads(1) # the children of a fork can't use the parent's threads

import pandas as pd
from pertnb.core import memo, rows as stored
from pertnb.data import corrupted
from pertnb.learn import train
from pertnb.measure import quality
from pertnb.core.random import make_generator
from pertnb.sets.sets import PerturbationSet

KILLS = 20
X = torch.randn(64, 3, generator=make_generator("X"))
Y = X @ torch.tensor([[1.], [2.], [3.]])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    def forward(self, x): return self.fc(x)


def loss(module, i, gen, t):
    if t >= float(os.environ.get("STOPPED_AT", "inf")): raise Stop # the environment is not part of a run's key
    if "SLOW" in os.environ: time.sleep(.01)
    l = ((module(X[i] + .01 * torch.randn(len(i), 3, generator=gen)) - Y[i])**2).mean()
    return l, dict(rmse=l.detach().sqrt())


def fit(folder, loss=loss, epochs=10, recipe=None, **kw):
    "Sixteen rows a step; a checkpoint after every step."
    os.environ["PERTNB_RUNS"] = str(folder)
    kw = dict(dict(index=torch.arange(64), log_every=1, checkpoint_every=0), **kw)
    return train.fit("line", Net, loss, schedule=train.Schedule(epochs=epochs, batch_size=16, lr=.01, **(recipe or {})), device="cpu", progress=False, **kw)


def validate(module): return ((module(X[::4]) - Y[::4])**2).mean()


def stop_early(folder):
    "The same in parts of a batch, keeping a mean of weights, and that of its best row."
    return fit(folder, validate=validate, recipe=dict(micro=6, average=.9))


class Line(torch.nn.Module):
    "A CVAE whose three networks are linear."
    latent, config = 3, {}
    def __init__(self):
        super().__init__()
        self.W = torch.nn.Parameter(.05 * torch.randn(48, 3, generator=make_generator("W")))
    def prior(self, x): return torch.zeros(len(x), 3), torch.zeros(len(x), 3)
    def posterior(self, x, x_tilde): return (x_tilde - x).flatten(1) @ self.W, torch.zeros(len(x), 3)
    def decode(self, x, z): return x + (z @ self.W.T).view(-1, 3, 4, 4)


def evaluate(folder, batches=40):
    "Rows of a perturbation set, appended batch by batch; goes on after the last one that is there."
    pset, os.environ["PERTNB_RUNS"] = PerturbationSet(Line(), 2.), str(folder)
    x, x_tilde = torch.rand(2, 4 * batches, 3, 4, 4, generator=make_generator("images"))
    kept = memo.place("quality", quality.evaluate_set, pset=pset, x=x, x_tilde=x_tilde)

    def work(images):
        rows = quality.evaluate_set(pset, x[images], x_tilde[images], make_generator("evaluation", images[0]), steps=2, n_samples=2)
        return rows.assign(image=images)
    return memo.make_rows(kept, "rows", range(len(x)), work, chunk=4)


def contents(path):
    "Bytes of a file; of tensors without the header, which holds times."
    data = path.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little"):] if path.suffix == ".safetensors" else data


def results(folder):
    "What a finished training or evaluation left: names of files, and bytes; of the log all but the times."
    files = {str(p.relative_to(folder)).split("/")[-1]: p for p in sorted(Path(folder).rglob("*")) if p.is_file()}
    log = [{k: v for k, v in row.items() if k not in ("seconds", "samples_per_s")} for p in files.values() if p.name == "log.jsonl"
           for row in map(json.loads, p.read_text().splitlines())]
    return sorted(files), {k: contents(p) for k, p in files.items() if k != "log.jsonl"}, log


def child(work, *args, said=None):
    "Fork, and call work(*args) there; the child's id. Its error's text, or '', goes to the file `said`."
    pid = os.fork()
    if pid: return pid
    os.setsid()
    text = ""
    try: work(*args)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        if not said: traceback.print_exc() # here, since after the block there is no exception to print
    if said: Path(said).write_text(text)
    os._exit(bool(text))


def ended(pid): return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kills(work, root):
    "Kill `work` at seeded random moments and resume it; (files, those that differ, kills that hit, with a half file, with a state)."
    work(root / "warm")
    times = []
    for name in ("whole", "second", "third"): # the shortest counts: where others compute too, a kill must not come too late
        start = time.perf_counter()
        assert ended(child(work, root / name)) == 0
        times.append(time.perf_counter() - start)
    seconds, whole, moments = min(times), results(root / "whole"), random.Random(0)
    differ, hit, half, resumed = [], 0, 0, 0
    for k in range(KILLS):
        folder, pid = root / str(k), child(work, root / str(k))
        time.sleep(seconds * (k + moments.random()) / KILLS)
        os.kill(pid, signal.SIGKILL)
        hit += ended(pid) == -signal.SIGKILL
        left = results(folder)[0]
        half += any(name.startswith(".") and name != ".lock" for name in left)
        resumed += any(name in ("state.safetensors", "rows-0.csv") for name in left)
        assert ended(child(work, folder)) == 0, f"kill {k}: not resumed"
        differ += [k] * (results(folder) != whole)
    return dict(files=whole[0], differ=differ, hit=hit, half=half, resumed=resumed, seconds=seconds)


def train_counted(root, count, last=math.inf):
    "Train, and write how many checkpoints that took to the file `count`; killed where the one after `last` of them should get into place."
    replace, made = os.replace, []

    def move(source, to):
        if Path(to).name == "state.safetensors":
            if len(made) == last: os.kill(os.getpid(), signal.SIGKILL)
            made.append(to)
        replace(source, to)
    os.replace = move # for good: this is a child
    stop_early(root)
    Path(count).write_text(str(len(made)))


def between(root):
    "Killed between the weights of a best row and the checkpoint that has it, again and again: what each kill left, and what the last call did."
    stop_early(root / "whole")
    folder, count, left = root / "killed", root / "count", []
    for last in (7, 0, 0):
        assert ended(child(train_counted, folder, count, last)) == -signal.SIGKILL
        left.append([name for name in results(folder)[0] if not name.startswith(".")])
    assert ended(child(train_counted, folder, count)) == 0
    return dict(left=left, checkpoints=int(count.read_text()), same=results(folder) == results(root / "whole"))


def two(root):
    "Two trainings of one run at once: exit codes, what they said, and whether the weights are those of one alone."
    fit(root / "alone")
    outs = [root / f"out{k}" for k in range(2)]

    def trained(k):
        sys.stdout = open(outs[k], "w", buffering=1)
        os.environ["SLOW"] = ""
        fit(root / "both")
    codes = [ended(pid) for pid in [child(trained, k) for k in range(2)]]
    return dict(codes=codes, said=sorted(p.read_text() for p in outs), same=results(root / "both") == results(root / "alone"))


class Stop(Exception): pass


def until(epoch, root, **kw):
    "A training that stops at an epoch."
    os.environ["STOPPED_AT"] = str(epoch)
    try: fit(root, **kw)
    except Stop: pass
    finally: del os.environ["STOPPED_AT"]


def stopped(root, epoch=3):
    "A run that was stopped half-way: its folder, and the bytes of its checkpoint."
    until(epoch, root)
    folder, = (p for p in root.iterdir() if p.is_dir())
    return folder, (folder / "state.safetensors").read_bytes()


def error_of(work, *args, said):
    "One line of a child's error."
    ended(child(work, *args, said=said))
    return Path(said).read_text()


def limited(size, root):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    fit(root)


def trouble(root):
    "{case: [error, what is left is good]} for full disks, folders without rights, damaged and foreign checkpoints, and losses that are no number."
    out, said = {}, root / "said"
    folder, good = stopped(root / "full")
    out["full"] = error_of(limited, 1000, root / "full", said=said), (folder / "state.safetensors").read_bytes() == good
    out["half"] = out["full"][0], not [p.name for p in folder.glob(".*") if p.name != ".lock"]
    (root / "file").write_text("")
    out["folder"] = error_of(fit, root / "file" / "runs", said=said), (root / "file").read_text() == ""
    folder, good = stopped(root / "cut")
    (folder / "state.safetensors").write_bytes(good[:-100])
    fit(root / "whole")
    alike = lambda folder: results(folder.parent) == results(root / "whole")
    out["cut"] = error_of(fit, root / "cut", said=said), alike(folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    out["weights"] = error_of(fit, root / "cut", said=said), alike(folder)
    (folder / "model.safetensors").unlink()
    out["deleted"] = error_of(fit, root / "cut", said=said), alike(folder)
    folder, good = stopped(root / "foreign")
    until(2, root / "strange", seed=1)
    second, = (p for p in (root / "strange").iterdir())
    (folder / "state.safetensors").write_bytes((second / "state.safetensors").read_bytes())
    out["foreign"] = error_of(fit, root / "foreign", said=said), alike(folder)
    nan = lambda module, i, gen, t: (loss(module, i, gen, t)[0] * (float("nan") if t >= 4.5 else 1), {})
    fit_nan = lambda: fit(root / "nan", nan, log_every=7)
    out["nan"] = error_of(fit_nan, said=said), False
    folder, = (p for p in (root / "nan").iterdir() if p.is_dir())
    tensors, header = train.read_tensors(folder / "state.safetensors")
    out["nan"] = out["nan"][0], header["step"] == "14" and all(v.isfinite().all() for v in tensors.values())
    root_of_zero = lambda module, i, gen, t: (loss(module, i, gen, t)[0] + (0 * module.fc[0].bias.sum()).sqrt(), {})
    out["gradient"] = error_of(lambda: fit(root / "gradient", root_of_zero), said=said), not list((root / "gradient").rglob("*.safetensors"))
    return out


def disk(root):
    "{case: [error, what is left is good]} on a disk of 64 KB; None where it can't be mounted."
    small = root / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], capture_output=True).returncode: return None
    try:
        folder, good = stopped(small)
        rows, said = small / "rows.csv", root / "said"
        stored.write_rows(rows, pd.DataFrame(dict(a=[1])))
        filler = small / "filler"
        with suppress(OSError): filler.write_bytes(bytes(10**6))
        out = dict(training=(error_of(fit, small, said=said), (folder / "state.safetensors").read_bytes() == good),
                   rows=(error_of(stored.write_rows, rows, pd.DataFrame(dict(a=range(9999))), said=said), stored.read_rows(rows).a.tolist() == [1]))
        filler.unlink()
        images = torch.zeros(40, 3, 32, 32, dtype=torch.uint8)
        store = corrupted.Corrupted(small / "c.npy", ("contrast",), 5, "source", 40)
        out["corrupted"] = error_of(corrupted.extend_store, store, images, 40, said=said), store.ledger() == {"contrast": []}
        store.path.unlink()
        assert ended(child(fit, small)) == 0
        return out
    finally: subprocess.run(["umount", small], check=True)


CASES = dict(training=lambda root: kills(stop_early, root), evaluation=lambda root: kills(evaluate, root), between=between, two=two, trouble=trouble, disk=disk)

if __name__ == "__main__":
    root = Path(sys.argv[1])
    found = {}
    for case, work in CASES.items():
        (root / case).mkdir()
        start = time.perf_counter()
        found[case] = work(root / case)
        print(case, round(time.perf_counter() - start, 1), "s", file=sys.stderr, flush=True)
    (root / "found.json").write_text(json.dumps(found))
