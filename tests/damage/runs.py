"""Damage to what runs leave: weights and logs of trainings, rows of evaluations, the stages' ledger."""
import io
import os
import shutil
import tempfile
from contextlib import redirect_stdout
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from certifying import Judge
from pertnb.certify import smoothing
from pertnb.learn import segment
from pertnb.measure import judging
from pertnb.tools import stages
from pertnb.data.pairs import Views
from pertnb.core.random import make_generator
from pertnb.sets.sets import PerturbationSet
from survive import Line, evaluate, until, validate
from survive import fit as fit_line

from .ways import ANY, CUT, UNSAID, change, copy_from, cut_row, exchange_rows, flip, put_text, remove, rename_column

IMAGES, TIMES = 4, ["seconds", "samples_per_s"] # images that are judged; columns that no two runs share


def make_images(seed): return (255 * torch.rand(IMAGES, 3, 4, 4, generator=make_generator("damaged", seed))).byte()


def train(folder, seed):
    "A short training that keeps the weights of its best row."
    net, log = fit_line(folder, seed=seed, validate=validate, epochs=4)
    return [*net.state_dict().values(), log.drop(columns=TIMES)]


def stop_training(folder, seed): until(2.5, folder, seed=seed, validate=validate, epochs=4)


def stop_sooner(folder, seed): until(1.5, folder, seed=seed, validate=validate, epochs=4)


def judge_classifier(folder, seed):
    "Rows clean, corrupted and attacked, two images a part."
    x, y = make_images(seed), torch.arange(IMAGES) % 3
    views = Views(x[:2], 255 - x[None, :2], y[:2], torch.arange(2), ("negative",), f"damaged {seed}")
    effort = dict(steps=1, strong_steps=1, chunk=2)
    rows, u = judging.judge_classifier(Judge(), PerturbationSet(Line(), 2.), views, views, x, y, (1., 2.), **effort)
    return [rows, u]


def certify_images(folder, seed):
    y = torch.arange(IMAGES) % 3
    return [smoothing.certify_rows(PerturbationSet(Line(), 2.), Judge(), make_images(seed), y, 1., n0=5, n=20)]


def certify_maps(folder, seed):
    "Certificates of pixels, by a network that is one convolution."
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = torch.nn.Conv2d(3, 3, 1)
    maps = torch.randint(3, (IMAGES, 4, 4), generator=make_generator("maps"))
    return [segment.certify_maps(PerturbationSet(Line(), 2.), net, make_images(seed), maps, 1., n0=5, n=20)]


def measure_set(folder, seed): return [evaluate(folder, batches=3 + seed)]


def run_stages(folder, seed):
    "The stages that the ledger doesn't have as done, which are soon over; what it has then."
    section = SimpleNamespace(folder=folder / f"stages-{seed}", device=torch.device("cpu"),
                              robust=SimpleNamespace(n_train=1))
    with patch.dict(stages.STAGES, {name: lambda s: (1, None) for name in "ab"}, clear=True):
        for stage in stages.list_unfinished(section, "ab"):
            with redirect_stdout(io.StringIO()): stages.run_stage(section, stage)
        return [stages.read_ledger(section)[["stage", "samples", "done"]]]


def in_runs(folder): return patch.dict(os.environ, PERTNB_RUNS=str(folder))


@lru_cache
def kept_run(make, seed):
    "A folder with what `make` leaves; it is removed when the process ends."
    kept = tempfile.TemporaryDirectory()
    with in_runs(kept.name), redirect_stdout(io.StringIO()): make(Path(kept.name), seed)
    return kept


@lru_cache
def find_whole(use):
    "What `use` finds where nothing is damaged."
    with in_runs(kept_run(use, 0).name): return use(Path(kept_run(use, 0).name), 0)


def folder_of(make, seed, pattern):
    "() -> the folder of the file of that pattern in a kept run."
    return lambda: next(Path(kept_run(make, seed).name).glob(pattern)).parent


def rebuild(file):
    "The header is rebuilt without one tensor; what else it says stays."
    with safe_open(file, "pt") as f: header = f.metadata()
    tensors = load_file(file)
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, file, header)


def restore(make, name):
    "A damage: the file is the one of this name, which may be a pattern, that `make` leaves."
    return lambda file: shutil.copy2(next(folder_of(make, 0, f"*/{name}")().glob(name)), file)


def tensor_ways(make, pattern):
    "Damages to a safetensors file."
    return ANY | {"tensor deleted": rebuild, "of another run": copy_from(folder_of(make, 1, pattern))}


def text_ways():
    "Damages to a CSV file."
    return ANY | {"bit of the data": flip(-3), "bit of the header": flip(3), "cut": change(cut_row),
                  "column renamed": change(rename_column), "rows exchanged": change(exchange_rows),
                  "a row doubled": change(lambda b: b + b.splitlines(keepends=True)[-1])}


def sealed_ways(make, pattern, ways, *beside):
    "Damages to a file of a bundle; `beside` are the suffixes of its other files."
    seal = lambda damage: lambda file: damage(file.with_suffix(".seal"))
    other = folder_of(make, 1, pattern)
    return ways | {
        "absent": remove(*beside, ".seal"), "absent, its seal there": remove(),
        "of another run": copy_from(other), "of another run, sealed": copy_from(other, *beside, ".seal"),
        "seal absent": seal(remove()), "seal cut": seal(CUT), "seal empty": seal(put_text("")),
        "seal a list": seal(put_text("[]")), "seal of another run": seal(copy_from(other))}


def break_key(file):
    "The description for people is not a text, and the rows are damaged."
    (file.parent / "key.json").write_bytes(b"\xff")
    CUT(file)


def rows_of(make, pattern, *beside):
    "(what makes a run, what uses it, its damaged file, damages) for rows."
    return make, make, pattern, sealed_ways(make, pattern, text_ways(), *beside)


MODEL, STATE, BEST = "*/model.safetensors", "*/state.safetensors", "*/best-*.safetensors"
CHECKPOINT, BEST_WEIGHTS = restore(stop_training, "state.safetensors"), restore(stop_training, "best-*.safetensors")
ATTACKED, OTHER_PART = "*/attacked-000002", restore(judge_classifier, "attacked-000000.safetensors")
KINDS = {
    "weights": (train, train, MODEL, tensor_ways(train, MODEL) | {
        "absent": remove(), "of the best row": BEST_WEIGHTS, "of the checkpoint": CHECKPOINT}),
    "checkpoint": (stop_training, train, STATE, tensor_ways(stop_training, STATE) | {
        "absent": remove(), "of the best row": BEST_WEIGHTS}), # one of an earlier moment is sound
    "best weights": (stop_training, train, BEST, tensor_ways(stop_training, BEST) | {
        "absent": remove(), "of the checkpoint": CHECKPOINT,
        "of an earlier moment": restore(stop_sooner, "best-*.safetensors")}),
    "log": (train, train, "*/log.jsonl", ANY | {
        "absent": remove(), "of another run": copy_from(folder_of(train, 1, MODEL))}),
    "accuracies": rows_of(judge_classifier, "*/accuracy.csv"),
    "attacked rows": rows_of(judge_classifier, f"{ATTACKED}.csv", ".safetensors"),
    "attacked tensors": (judge_classifier, judge_classifier, f"{ATTACKED}.safetensors", sealed_ways(
        judge_classifier, f"{ATTACKED}.safetensors", ANY | {"tensor deleted": rebuild, "of another part": OTHER_PART},
        ".csv")),
    "certificates": rows_of(certify_images, "*/rows-0.csv"),
    "certified maps": rows_of(certify_maps, "*/maps-0.csv"),
    "quality rows": rows_of(measure_set, "*/rows-0.csv"),
    "stages' ledger": rows_of(run_stages, "stages-*/ledger.csv")}
KINDS["certificates"][-1]["its key.json too"] = break_key


def same(a, b): return torch.equal(a, b) if torch.is_tensor(a) else a.equals(b)


def judge(
    kind,   # of file, a key of KINDS
    damage, # one of its damages
    folder, # an empty one
):
    "'made again'; AssertionError if the damage is used, unsaid, or said in several lines."
    make, use, pattern, ways = KINDS[kind]
    shutil.copytree(kept_run(make, 0).name, folder, dirs_exist_ok=True)
    file, = folder.glob(pattern)
    ways[damage](file)
    with in_runs(folder), redirect_stdout(io.StringIO()) as said: found = use(folder, 0)
    assert all(map(same, found, find_whole(use))), "damaged data were used"
    lines = said.getvalue().splitlines()
    most = 2 if kind == "best weights" else 1 # the checkpoint is lost with them
    assert (damage in UNSAID or lines) and len(lines) <= most, f"one line was expected, got {lines}"
    assert not lines or str(file.with_suffix("")) in lines[0] and "again" in lines[-1], lines
    with in_runs(folder), redirect_stdout(io.StringIO()) as said: found = use(folder, 0)
    mended = all(map(same, found, find_whole(use))) and not said.getvalue()
    assert mended, f"it was not mended for good: {said.getvalue()}"
    return "made again"


CASES = {(kind, damage): partial(judge, kind, damage) for kind, (*_, ways) in KINDS.items() for damage in ways}
