"""Every step whose result is kept, at the smallest size: its key, and which functions of the package run in it.

python steps.py STEP ...: the keys of some, and what they return; as JSON."""
import json
import os
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch

from together import NARROW, views

from pertnb import corruptions
from pertnb.core import keys, memo
from pertnb.core.probe import find_probe
from pertnb.data import affine, corrupted, pairs, scene_files
from pertnb.experiments import corruption_sets, lighting_robust, presets
from pertnb.learn import learn
from pertnb.measure import judging
from pertnb.tools import estimate
from pertnb.certify import smoothing
from pertnb.learn import robust, segment, smoothed, truth
from pertnb.tools import stages
from pertnb.models.cvae import make_cvae
from pertnb.models.nets import make_classifier
from pertnb.sets.sets import PerturbationSet
from pertnb.learn.train import Schedule
from pertnb.models.unet import UNetClassifier

ROOT = Path(memo.__file__).resolve().parents[1]
KEEPERS = keys.KEEPERS
FILES = *KEEPERS, "pertnb.core.paths", "pertnb.core.files", "pertnb.core.rows", "pertnb.core.clock"
PROBE = "pertnb.core.probe" # memo asks it whether a work is only to be estimated; others let it run their work
# they say how far a work is, or hand it to memo: they decide no number
SILENT = "pertnb.core.progress", "pertnb.experiments.section"
NET = dict(name="resnet-8", width=8, patch=4)
UNET = dict(latents=(4, 4, 2, 2), widths=(8, 8, 8, 8), features=2, pool=(15, 23))
LINF, RTS = dict(name="mnist_fc", latent=4, hidden=8), dict(name="mnist_stn", latent=4, width=8, features=8)
ONE, QUIET = Schedule(epochs=1., batch_size=4, clip=1.), dict(device="cpu", progress=False)
SGD = Schedule(epochs=1., batch_size=4, optimizer="sgd", lr=.01)
PGD = dict(steps=2, random_start=True)


def seeded(build):
    "What build() makes with the same weights each time."
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build()


def small(n): return views(n).on(torch.arange(n))
def image_set(): return seeded(lambda: PerturbationSet(make_cvae(**NARROW), 2., (.5, 1., 1.5)))
def scenes(mip=7, part="train"): return scene_files.load_scenes("mi_packaged", part, mip, 4)
def lighting_set(): return seeded(lambda: PerturbationSet(make_cvae("mi_unet", **UNET), 3., (1., 1.5, 2.)))
def segmenter(): return seeded(lambda: UNetClassifier((8, 8, 8, 8), 36)).eval()
def classifier(): return seeded(lambda: make_classifier(**NET)).eval()


def learn_views(pairing):
    source, validation = (pairs.PairsOf(small(n), pairing) for n in (8, 4))
    learn.learn(f"cvae-{pairing}", source, validation, NARROW, ONE, (0, .1), (0, 1), **QUIET)


def learn_digits(name, net, error, fixed=0):
    s = presets.resolve(f"mnist_{name}", dict(preset="smoke", batch_size=4))
    known = affine.true_pairs("digits", "train", name, 8, fixed)
    learn.learn_truth(s, known, known, net, error, **QUIET)


def learn_lighting():
    s = presets.resolve("mi_cvae", dict(preset="smoke", batch_size=2))
    learn.learn_lighting(s, s.stages(4)[0], scenes(), scenes(part="validation"), **QUIET)


def measure_norms(): learn.measure_every_pair(lighting_set().cvae, scenes(part="validation").on(torch.arange(1)))


def train_classifier(method, early):
    start = classifier().state_dict() if early else None
    attack = PGD if method == "cvae_adversarial" else dict(steps=2)
    validation = small(4) if early else None
    robust.train_classifier(method, small(8), SGD, NET, image_set(), start, attack, validation, **QUIET)


def train_smoothed(): smoothed.train_smoothed(small(8), image_set(), .5, SGD, NET, **QUIET)


def train_digits(name, net, method):
    pset = seeded(lambda: PerturbationSet(make_cvae(**net), 2.))
    truth.train_digits(method, affine.true_pairs("digits", "train", name, 8), ONE, pset, 2, ramp=.5, **QUIET)


def train_segmenter(method):
    options = dict(sigma=.5) if method == "cvae_smoothing" else dict(steps=2)
    schedule, net = Schedule(epochs=1., batch_size=2), dict(widths=(8, 8, 8, 8))
    segment.train_segmenter(method, scenes(), schedule, net, lighting_set(), options=options, **QUIET)


def evaluate():
    test = small(4)
    judging.judge_classifier(classifier(), image_set(), test, test, test.images, test.labels, [.5, 1.], 2, 2, chunk=4)


def certify(adaptive):
    data, (n, n0) = small(3), (400, 10) if adaptive else (30, 5)
    return smoothing.certify_rows(image_set(), classifier(), data.images, data.labels, .5, n0, n, adaptive=adaptive)


def certify_maps():
    data = scenes()
    segment.certify_maps(lighting_set(), segmenter(), data.images[:2, 3], data.materials[:2], 1., 3, 8)


def staged(work):
    "A step of the CIFAR-10-C section, with a set, a classifier and images that cost nothing."
    section, data = stages.make_section("smoke", "photos", device="cpu"), small(4)
    stand_ins = dict(test_views=lambda n: (data, data), set=lambda settings: image_set(), sigma=lambda quartile: .5,
                     learned=lambda: (image_set(), None), noise=lambda quartile: (classifier(), None))
    with patch.multiple(section, **stand_ins): work(section)


def search(work):
    "A step of the section that searches sets of corruptions, with a set and images that cost nothing."
    settings = presets.resolve("cifar10c_cvae", dict(preset="smoke", data="photos", excess_steps=1))
    section = corruption_sets.CorruptionSets(settings, "cpu")
    measured = lambda: dict(tiny=(image_set(), small(2), "centered"))
    with patch.object(section, "measured_sets", measured): work(section)


def attack_lights():
    section = lighting_robust.RobustLighting(presets.resolve("mi_robust", dict(preset="smoke")), "cpu")
    test = scenes(part="test")
    images = test.images[:2, 3], test.materials[:2], torch.arange(2)
    stand_ins = dict(learn=lambda row: (lighting_set(), None), classifier=lambda method: (segmenter(), None),
                     images=lambda: images)
    with patch.multiple(section, **stand_ins): section.judge_network("mi")


def make_corruptions():
    images = small(2).images
    store = corrupted.corrupted_file("random", "test", corruptions.NAMES, 5, images)
    corrupted.extend_store(store, images, 2)


def count_costs():
    "What an experiment costs, which notebook 15 keeps."
    estimate.cost_rows(presets.resolve("cifar10c_cvae", dict(preset="smoke")), "cpu")


STEPS = {**{f"CVAE, {p}": lambda p=p: learn_views(p) for p in pairs.PAIRINGS},
         "CVAE, linf": lambda: learn_digits("linf", LINF, "bce"),
         "CVAE, linf, fixed": lambda: learn_digits("linf", LINF, "mse", 1),
         "CVAE, linf, convolutions": lambda: learn_digits("linf", dict(name="mnist_conv", widths=(4, 4, 4)), "bce"),
         "CVAE, rts": lambda: learn_digits("rts", RTS, "bce"), "CVAE, lights": learn_lighting,
         **{f"classifier, {m}": lambda m=m: train_classifier(m, False) for m in robust.METHODS},
         **{f"classifier, {m}, early": lambda m=m: train_classifier(m, True) for m in robust.METHODS},
         "classifier, noise": train_smoothed,
         **{f"digits, linf, {m}": lambda m=m: train_digits("linf", LINF, m) for m in truth.DIGIT_METHODS},
         **{f"digits, rts, {m}": lambda m=m: train_digits("rts", RTS, m) for m in truth.DIGIT_METHODS},
         **{f"segmenter, {m}": lambda m=m: train_segmenter(m) for m in segment.SEGMENT_METHODS},
         "norms": measure_norms, "evaluation": evaluate, "maps": certify_maps,
         "certificates": lambda: certify(False), "certificates, adaptive": lambda: certify(True),
         "quality": lambda: staged(lambda section: section.judge_set()),
         "extremes": lambda: search(lambda section: section.extremes("tiny")),
         "coverage": lambda: search(lambda section: section.cover("tiny")), "attacked lights": attack_lights,
         "sequential": lambda: staged(lambda section: section.certify("25%")),
         "corruptions": make_corruptions, "costs": count_costs}


def forget():
    "Empty all caches of the package but those of the keys: what is remembered does not run."
    for name, module in list(sys.modules.items()):
        if not is_ours(name) or name in KEEPERS: continue
        for thing in list(vars(module).values()):
            if hasattr(thing, "cache_clear"): thing.cache_clear()


class Tracer:
    "Kept steps, and what runs of the package, in any thread, until the function that named a place ends."
    def __init__(self): self.root, self.before, self.steps = None, None, []

    def start(self, key, root, before=None):
        "A step begins in the frame `root`, when the frame `before` has ended; key() is its key, computed anew."
        self.root, self.before = root, before
        self.steps.append(dict(key=key, seen=set(), codes=set()))
        self.see(root)
        threading.setprofile(self.called)
        sys.setprofile(self.called)

    def called(self, frame, event, arg):
        if event == "call" and self.before is None: self.see(frame)
        elif event == "return" and frame is self.before: self.before = None
        elif event == "return" and frame is self.root: self.stop()

    def stop(self):
        sys.setprofile(None)
        threading.setprofile(None)

    def see(self, frame):
        "Note (module, name, first line) of what is called; no line of what a decorator wrote."
        code, codes = frame.f_code, self.steps[-1]["codes"]
        module = module_of(frame)
        if code in codes or not is_ours(module) or module in SILENT: return
        if code.co_name == "<module>" or self.is_plumbing(frame): return
        codes.add(code)
        name, line = code.co_qualname, code.co_firstlineno
        if not code.co_filename.startswith(str(ROOT)):
            own = type(frame.f_locals[code.co_varnames[0]])
            module, name, line = own.__module__, own.__qualname__, None
        self.steps[-1]["seen"].add((module, name, line))

    def is_plumbing(self, frame):
        "Whether a call serves keys and files alone: below one of FILES, but for the work that memo is handed."
        if frame is self.root: return False
        if module_of(frame) in KEEPERS: return True
        caller = frame.f_back
        while caller and caller is not self.root and not is_ours(module_of(caller)): caller = caller.f_back
        if caller is None: return False # a thread's first
        if module_of(caller) in KEEPERS: return module_of(frame) in (*FILES, PROBE)
        return module_of(caller) in FILES or self.is_plumbing(caller)


def module_of(frame): return frame.f_globals.get("__name__", "")


def is_ours(module): return module.startswith("pertnb.")


@contextmanager
def traced():
    "The kept steps that are made inside: [dict(key, seen, codes)]."
    tracer, place, code_key = Tracer(), memo.place, keys.code_key

    def placed(name, functions, /, **inputs):
        kept = place(name, functions, **inputs)
        if find_probe(): return kept # nothing is kept there
        tracer.start(lambda: memo.place(name, functions, **inputs).folder.name, sys._getframe(1))
        return kept

    def keyed(*things): # for the name of a file, which the caller's caller fills
        key = code_key(*things)
        tracer.start(lambda: keys.code_key(*things), sys._getframe(2), before=sys._getframe(1))
        return key
    with patch.object(memo, "place", placed), patch.object(keys, "code_key", keyed):
        try: yield tracer.steps
        finally: tracer.stop()


def trace(folder):
    "{step: dict(key, seen, ...)}: how its key is computed anew, and (module, name, line) of all functions that ran."
    found = {}
    with patch.dict(os.environ, PERTNB_RUNS=str(folder / "runs"), PERTNB_DATA=str(folder / "data")):
        for name, step in STEPS.items():
            forget()
            with traced() as steps: step()
            found |= {name + k * "'": s for k, s in enumerate(steps)}
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    out = {}
    for name in sys.argv[1:]:
        with traced() as steps: rows = STEPS[name]()
        out[name] = dict(key=steps[0]["key"]())
        if rows is not None: out[name] |= dict(radius=rows.radius.tolist(), there=rows.attrs["there"])
    print(json.dumps(out), flush=True)
    os._exit(0) # now and then a C++ thread aborts the process at Python's end, when all is done (as in conftest.py)
