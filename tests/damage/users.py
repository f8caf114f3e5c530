"""Damage to files that only their owner can make again: perturbation sets and classifiers."""
import io
import json
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file
from pertnb.experiments import own
from pertnb.tools import cli, set_commands
from pertnb.models import classifier_files
from pertnb.models.cvae import make_cvae
from pertnb.models.nets import make_classifier
from pertnb.core.files import read_tensors, write_tensors
from pertnb.sets.sets import PerturbationSet

from .ways import ANY, CUT, change, flip, half, put_text, remove

TINY = dict(latent=4, width=8, bottleneck=4, blocks=1, features=1, maps=1, patch=2, encoder_patch=4)
CLASSES = ["cat", "dog", "frog"]
NET = dict(name="resnet-8", n_classes=3, width=8)
SOURCE = dict(pairs="", data="photos", function="camera", copies=2, seed=0, n_train=100, n_test=10)


def make_set(path, **sizes):
    torch.manual_seed(0)
    info = dict(source=SOURCE, classes=CLASSES)
    PerturbationSet(make_cvae("cifar10_residual", **TINY | sizes), 2.5, (1, 1.5, 2), info).save(path)


def make_plain_set(path, **sizes):
    "As the packaged set: in half precision, without a digest."
    make_set(path, **sizes)
    tensors, header = read_tensors(path)
    save_file({k: v.half() if v.is_floating_point() else v for k, v in tensors.items()}, path, header)


def use_set(path):
    "Load the set, and find out from what pairs it was learned."
    set_commands.resolve_source(PerturbationSet.load(path), SimpleNamespace(set=path, function=None, images=None, n=3))


def make_own_classifier(path, **sizes):
    torch.manual_seed(0)
    net = NET | sizes
    classifier_files.save_classifier(make_classifier(**net), net, path, method="standard", classes=CLASSES)


@lru_cache
def small_pairs():
    "A folder of six pairs of three classes; it is removed when the process ends."
    kept, g = tempfile.TemporaryDirectory(), np.random.default_rng(0)
    for part in ("clean", "perturbed"):
        for c in CLASSES:
            folder = Path(kept.name) / part / c
            folder.mkdir(parents=True)
            for k in range(2):
                pixels = g.integers(256, size=(32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{k}.png")
    return kept


def make_folder(path):
    "As `pertnb learn` leaves it: a set and a classifier."
    make_set(path.with_name("set.safetensors"))
    make_own_classifier(path.with_name("standard.safetensors"))


def attack(path):
    "`pertnb attack` with a set and a classifier; ValueError with what it says on stderr where it fails."
    classifier = path.with_name("standard.safetensors")
    words = "attack", path.parent, "--pairs", small_pairs().name, "--classifier", classifier, "--n", 2, "--steps", 1
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said: code = cli.main(words)
    if code: raise ValueError(said.getvalue().removesuffix("\n"))


KINDS = { # (what makes the file, what uses it, its name)
    "set": (make_set, use_set, "file"),
    "set without digest": (make_plain_set, use_set, "file"),
    "classifier": (make_own_classifier, classifier_files.load_classifier, "file"),
    "set in `pertnb attack`": (make_folder, attack, "set"),
    "classifier in `pertnb attack`": (make_folder, attack, "standard")}


def zero_first_half(data): return bytes(half(data)) + data[half(data):]


def write_again(path, write, tensors=None, header=None):
    "Write the file anew with other tensors or another header."
    old_tensors, old_header = read_tensors(path)
    write(path, tensors or old_tensors, header or old_header)


def save_plain(path, tensors, header): save_file(tensors, path, header)


def delete_tensor(path):
    "The header is rebuilt without one tensor; what else it holds stays, the digest among it where there is one."
    with safe_open(path, "pt") as f: header = f.metadata()
    tensors, _ = read_tensors(path)
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, path, header)


def take_other_shapes(path, make, write):
    "Valid, digest and all, but the tensors are those of a wider network."
    other = path.with_name("other.safetensors")
    make(other, width=16)
    write_again(path, write, tensors=read_tensors(other)[0])


def name_function(path, write):
    "Valid, digest and all, but the header names a function that leaves the file `pwned`."
    evil = path.with_name("evil.py")
    evil.write_text(f"open({str(path.with_name('pwned'))!r}, 'w')\ndef f(x): return x\n")
    _, header = read_tensors(path)
    (key, text), = header.items()
    about = json.loads(text)
    if key == "pertnb": about["info"]["source"]["function"] = f"{evil}:f"
    else: about["net"]["name"] = f"{evil}:f"
    write_again(path, write, header={key: json.dumps(about)})


def shapes(make, write): return partial(take_other_shapes, make=make, write=write)


SEEN = {
    "bit of the header": flip(lambda b: b.index(b"{")),
    "half zeroed": change(zero_first_half),
    "cut": CUT,
    "empty": put_text(""),
    "text": put_text("a text"),
    "absent": remove(),
    "tensor deleted": delete_tensor}
DIGESTED = SEEN | ANY | {
    "bit of the header": flip(lambda b: b.index(b"cat") + 2),
    "function named": partial(name_function, write=write_tensors)}
DAMAGES = {
    "set": DIGESTED | {
        "of another shape": shapes(make_set, write_tensors),
        "of another kind": make_own_classifier},
    "set without digest": SEEN | {
        "function named": partial(name_function, write=save_plain),
        "of another shape": shapes(make_plain_set, save_plain),
        "of another kind": make_own_classifier},
    "classifier": DIGESTED | {
        "of another shape": shapes(make_own_classifier, write_tensors),
        "of another kind": make_set}}
DAMAGES["set in `pertnb attack`"] = DAMAGES["set"].copy()
del DAMAGES["set in `pertnb attack`"]["function named"] # it is not asked for: --pairs are used
DAMAGES["classifier in `pertnb attack`"] = DAMAGES["classifier"]


def judge(kind, damage, folder):
    "Make a file, damage it and use it: 'refused' where that ends in one line that names it; AssertionError otherwise."
    make, use, name = KINDS[kind]
    path = folder / f"{name}.safetensors"
    make(path)
    use(path)
    DAMAGES[kind][damage](path)
    try: use(path)
    except (ValueError, OSError) as error: said = str(error)
    else: raise AssertionError(f"{kind}, {damage}: passed in silence")
    assert str(path) in said and "\n" not in said and "Traceback" not in said and len(said) < 500, said
    assert not (folder / "pwned").exists(), f"{kind}, {damage}: the function was run"
    return "refused"


CASES = {(kind, damage): partial(judge, kind, damage) for kind, damages in DAMAGES.items() for damage in damages}
