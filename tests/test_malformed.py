"""Bad input: one clear line, raised by pertnb's own check, and no file left behind. A case a line: what, exception, a part of what it says."""
import json
import linecache
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from pertnb import corruptions
from pertnb.attack import attack
from pertnb.core import paths, rows as stored
from pertnb.core.files import atomic_write
from pertnb.data import built_in, corrupted, images as data, pairs
from pertnb.experiments import presets
from pertnb.learn import learn, robust, train
from pertnb.measure import judging
from pertnb.measure import quality
from pertnb.models import cvae, nets
from pertnb.report import plots, tables as report
from pertnb.sets import sets

NAN, INF = float("nan"), float("inf")
TINY = dict(latent=4, width=8, bottleneck=4, blocks=1, features=1, maps=1, patch=2, encoder_patch=4)


def g(): return torch.Generator().manual_seed(0)


torch.manual_seed(0)
PSET = sets.PerturbationSet(cvae.make_cvae("cifar10_residual", **TINY), 2.)
MODEL = nets.make_classifier("resnet-8", width=4).eval()
X, Y, U = torch.rand(4, 3, 32, 32, generator=g()), torch.arange(4), torch.zeros(4, 4)
BYTES = (255 * X).byte()
VIEWS = pairs.Views(BYTES, BYTES[None].repeat(2, 1, 1, 1, 1), Y, torch.arange(4), ("fog", "snow"), "digest")
ONE = pairs.Views(BYTES, BYTES[None], Y, torch.arange(4), ("fog",), "digest")
ROWS = pd.DataFrame(dict(image=[0, 1], correct=[True, False]))
LONG = (3 * X).clamp(max=2.)


def with_nan(x):
    x = x.clone()
    x.view(-1)[5] = NAN
    return x


def folders(folder, size=32):
    for c in data.CIFAR10_CLASSES:
        (folder / c).mkdir(parents=True)
        Image.fromarray(np.full((size, size, 3), 9, np.uint8)).save(folder / c / "a.png")


@pytest.fixture(scope="module")
def d(tmp_path_factory):
    "A folder with everything that can be wrong on a disk."
    d = tmp_path_factory.mktemp("bad")
    for name in ("good", "text", "small", "lacking", "empty"):
        for split in ("train", "test"): folders(d / name / "cifar10" / split, 28 if name == "small" else 32)
    (d / "text/cifar10/train/cat/a.png").write_text("no image")
    shutil.rmtree(d / "lacking/cifar10/train/dog")
    for p in (d / "empty").rglob("*.png"): p.unlink()
    (d / "batches/cifar-10-batches-py").mkdir(parents=True)
    (d / "batches/cifar-10-batches-py/data_batch_1").write_bytes(b"\x80\x04K\x01.")
    raw = d / "mnist/MNIST/raw"
    raw.mkdir(parents=True)
    for prefix in ("train", "t10k"):
        (raw / f"{prefix}-images-idx3-ubyte").write_bytes(np.array([0x803, 4, 28, 28], ">i4").tobytes() + bytes(4 * 28 * 28))
        (raw / f"{prefix}-labels-idx1-ubyte").write_bytes(np.array([0x801, 3], ">i4").tobytes() + bytes(3))
    for name, a in (("float", np.zeros((50000, 1), np.float32)), ("short", np.zeros((10, 32, 32, 3), np.uint8)), ("object", np.array([{}, None]))):
        (d / name / "CIFAR-10-C").mkdir(parents=True)
        np.save(d / name / "CIFAR-10-C/fog.npy", a, allow_pickle=True)
    whole = (d / "short/CIFAR-10-C/fog.npy").read_bytes()
    for name, content in (("cut", whole[:-9]), ("zero", b"")):
        (d / name / "CIFAR-10-C").mkdir(parents=True)
        (d / name / "CIFAR-10-C/fog.npy").write_bytes(content)
    data.save_array(d / "array.npy", np.arange(1000))
    whole = (d / "array.npy").read_bytes()
    for name, content in (("array_cut", whole[:-9]), ("array_changed", whole[:-1] + b"\1"), ("array_badjson", whole)):
        (d / f"{name}.npy").write_bytes(content)
        shutil.copy(d / "array.json", d / f"{name}.json")
    (d / "array_badjson.json").write_text("{")
    (d / "array_alone.npy").write_bytes(whole)
    np.save(d / "pickle.npy", np.array([{}, None]), allow_pickle=True)
    shutil.copy(d / "array.json", d / "pickle.json")
    for name, shape in (("store", (1, 4, 3, 32, 32)), ("store_badjson", (1, 4, 3, 32, 32)), ("store_shape", (1, 3))):
        np.save(d / f"{name}.npy", np.zeros(shape, np.uint8))
    (d / "store_badjson.json").write_text("{")
    (d / "store.json").write_text(json.dumps(dict(source="another", n=4, names=["fog"], blocks={})))
    PSET.save(d / "good.safetensors")
    whole, tensors = (d / "good.safetensors").read_bytes(), load_file(d / "good.safetensors")
    about = dict(config=PSET.cvae.config, eps=2., percentiles=[], info={})
    (d / "cut.safetensors").write_bytes(whole[:-9])
    (d / "text.safetensors").write_text("no safetensors")
    (d / "zero.safetensors").write_bytes(b"")
    save_file(tensors, d / "plain.safetensors")
    save_file(tensors, d / "notjson.safetensors", {"pertnb": "{"})
    for name, change in (("eps", dict(eps=-1.)), ("epstext", dict(eps="2")), ("net", dict(config=dict(name="no"))), ("option", dict(config=dict(PSET.cvae.config, colour=1))),
                         ("wide", dict(config=dict(PSET.cvae.config, latent=5))), ("quartiles", dict(percentiles=["a"])), ("config", dict(config=3))):
        save_file(tensors, d / f"{name}.safetensors", {"pertnb": json.dumps(about | change)})
    save_file(tensors | {"prior.mu.weight": with_nan(tensors["prior.mu.weight"])}, d / "nan.safetensors", {"pertnb": json.dumps(about)})
    (d / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    (d / "zero.csv").write_text("")
    (d / "bytes.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    ROWS.to_csv(d / "rows.csv", index=False)
    (d / "run").mkdir()
    (d / "file").write_text("")
    return d


def store(d, name, n=4): return corrupted.Corrupted(d / f"{name}.npy", ("fog",), 5, "source", n)


def fit(**kw):
    kw = dict(dict(build=lambda: torch.nn.Linear(2, 1), loss=None, index=torch.arange(4), schedule=train.Schedule(), device="cpu", progress=False), **kw)
    return train.fit("bad", **kw)


def official(d, name): return corrupted.official_cifar10c(["fog"], 5, d / name)


V, F = ValueError, FileNotFoundError
CASES = {
    # names
    "data set": (lambda d: data.load_images("imagenet", "train"), V, "unknown data set 'imagenet': known are cifar10, mnist, photos"),
    "data set of an experiment": (lambda d: data.resolve_data("svhn"), V, "unknown data set 'svhn': known are auto, cifar10"),
    "data set is None": (lambda d: data.class_names(None), V, "unknown data set None"),
    "split": (lambda d: data.load_images("cifar10", "valid"), V, "unknown split 'valid': known are train, test"),
    "corruption": (lambda d: corruptions.corrupt("rain", BYTES, 5, g()), V, "unknown corruption 'rain': known are gaussian_noise"),
    "corruption of views": (lambda d: pairs.load_views("photos", "test", ("rain",)), V, "unknown corruption 'rain'"),
    "corruptions as text": (lambda d: pairs.load_views("photos", "test", "fog"), V, "corruptions must be a tuple of names, got 'fog'"),
    "no corruptions": (lambda d: pairs.load_views("photos", "test", ()), V, "corruptions must be a tuple of names, got ()"),
    "severity 0": (lambda d: corruptions.corrupt("fog", BYTES, 0, g()), V, "fog: severity 0 is unknown; it is 1, 2, 3, 4 or 5"),
    "severity nan": (lambda d: corruptions.draw("fog", NAN, 2, g()), V, "severity nan is unknown"),
    "severity text": (lambda d: corruptions.draw("fog", "5", 2, g()), V, "severity '5' is unknown"),
    "severity of views": (lambda d: pairs.load_views("photos", "test", severity=6), V, "severity 6 is unknown"),
    "option of a corruption": (lambda d: corruptions.corrupt("fog", BYTES, 5, g(), swap="exchange"), V, "options ['swap'] do not fit it"),
    "glass blur's swap": (lambda d: corruptions.corrupt("glass_blur", BYTES, 5, g(), swap="both"), V, "swap='both' is unknown"),
    "pairing": (lambda d: pairs.draw_pairs(VIEWS, Y, "crossed", g()), V, "unknown pairing 'crossed': known are centered, mixed, perturbed"),
    "pairing of an evaluation": (lambda d: pairs.evaluation_pairs(VIEWS, "crossed", g()), V, "unknown pairing 'crossed'"),
    "pairing of a source": (lambda d: pairs.PairsOf(VIEWS, "crossed"), V, "unknown pairing 'crossed'"),
    "pairing needs two": (lambda d: pairs.draw_pairs(ONE, Y, "perturbed", g()), V, "needs at least 2 corruptions, got 1"),
    "method": (lambda d: robust.check_methods("standard,mixup"), V, "unknown method 'mixup': known are cifar10c"),
    "no method": (lambda d: robust.check_methods(()), V, "methods must be some of cifar10c"),
    "method of a loss": (lambda d: robust.classifier_loss("mixup", VIEWS), V, "unknown method 'mixup'"),
    "method without a set": (lambda d: robust.train_classifier("cvae_adversarial", VIEWS, train.Schedule(), dict(name="resnet-8")), V, "needs a perturbation set"),
    "mix": (lambda d: robust.classifier_loss("cvae_adversarial", VIEWS, PSET, mix="min"), V, "unknown mix 'min': known are max, adversarial"),
    "steps of training": (lambda d: robust.classifier_loss("cvae_adversarial", VIEWS, PSET, steps=0), V, "steps must be a whole number, at least 1, got 0"),
    "start of another network": (lambda d: robust.train_classifier("standard", VIEWS, train.Schedule(), dict(name="resnet-8"), start={"w": U}), V, "start holds the weights of another network"),
    "classifier": (lambda d: nets.make_classifier("vgg-16"), V, "unknown classifier 'vgg-16': known are wrn-D-K"),
    "depth of a classifier": (lambda d: nets.make_classifier("resnet-9"), V, "unknown classifier 'resnet-9'"),
    "classifier is None": (lambda d: nets.make_classifier(None), V, "unknown classifier None"),
    "classes": (lambda d: nets.make_classifier("resnet-8", n_classes=1), V, "n_classes must be a whole number, at least 2, got 1"),
    "width of a classifier": (lambda d: nets.make_classifier("resnet-8", width=0), V, "width must be a whole number, at least 1, got 0"),
    "patch and image": (lambda d: nets.make_classifier("resnet-8", width=4, patch=33)(X), V, "images of (32, 32) pixels can't be cut into patches of 33"),
    "CVAE": (lambda d: cvae.make_cvae("vae"), V, "unknown CVAE 'vae': known are cifar10_residual"),
    "argument of a CVAE": (lambda d: cvae.make_cvae("cifar10_residual", depth=3), V, "cifar10_residual takes no depth: known are latent"),
    "latent dimensions": (lambda d: cvae.make_cvae("cifar10_residual", latent=0), V, "latent must be a whole number, at least 1, got 0"),
    "width of a CVAE": (lambda d: cvae.make_cvae("cifar10_residual", width=2.5), V, "width must be a whole number, at least 1, got 2.5"),
    "patch of a CVAE": (lambda d: cvae.make_cvae("cifar10_residual", patch=33), V, "can't be cut into patches of 33"),
    "units of a CVAE": (lambda d: cvae.make_cvae("mnist_fc", hidden=-1), V, "hidden must be a whole number, at least 1, got -1"),
    "latent of a CVAE of digits": (lambda d: cvae.make_cvae("mnist_stn", latent=0), V, "latent must be a whole number, at least 1, got 0"),
    "odd images of a CVAE": (lambda d: cvae.make_cvae("mnist_conv", size=(42, 42)), V, "sides must be multiples of 4, got (42, 42)"),
    "widths of a CVAE": (lambda d: cvae.make_cvae("mnist_conv", widths=(32, 64)), V, "mnist_conv has 3 convolutions, got 2 widths"),
    "packaged set": (lambda d: sets.packaged_set("imagenet"), V, "unknown packaged set 'imagenet': known are cifar10c, cifar10c_small, lighting"),
    "experiment": (lambda d: presets.resolve("mnist", {}), V, "unknown experiment 'mnist': known are"),
    "preset": (lambda d: presets.resolve("cifar10c_cvae", {"preset": "huge"}), V, "unknown preset 'huge': cifar10c_cvae has smoke, quick"),
    "parameter": (lambda d: presets.resolve("cifar10c_cvae", {"n_trian": 3}), V, "unknown parameter 'n_trian': known are preset"),
    "type of a parameter": (lambda d: presets.resolve("cifar10c_cvae", {"n_train": "many"}), V, "parameter 'n_train' must be of type int, not 'many'"),
    "bool for a number": (lambda d: presets.resolve("cifar10c_cvae", {"epochs": True}), V, "parameter 'epochs' must be of type float"),
    "negative parameter": (lambda d: presets.resolve("cifar10c_cvae", {"n_test": -1}), V, "parameter 'n_test' must be finite and must not be negative: -1"),
    "parameter nan": (lambda d: presets.resolve("cifar10c_robust", {"lr": NAN}), V, "parameter 'lr' must be finite"),
    "parameter inf": (lambda d: presets.resolve("cifar10c_robust", {"epochs": INF}), V, "parameter 'epochs' must be finite"),
    "severities": (lambda d: presets.resolve("cifar10c_corruptions", {"severities": "1,9"}).levels(), V, "parameter 'severities': 9 given, known are 1,2,3,4,5"),
    # images, labels, pairs, latents
    "images a list": (lambda d: PSET.at([1, 2]), V, "x must be a float tensor (B, C, H, W) with values in [0, 1], got list"),
    "images uint8": (lambda d: PSET.perturb(BYTES, U), V, "got uint8 (4, 3, 32, 32); divide uint8 images by 255"),
    "images nan": (lambda d: PSET.sample(with_nan(X), 2, g()), V, "x must lie in [0, 1] and be finite, got values from nan"),
    "images inf": (lambda d: PSET.at(X / 0), V, "x must lie in [0, 1] and be finite"),
    "images to 255": (lambda d: PSET.encode(255 * X, X), V, "x must lie in [0, 1]"),
    "perturbed images to 3": (lambda d: PSET.encode(X, 3 * X), V, "x_tilde must lie in [0, 1]"),
    "one image": (lambda d: PSET.at(X[0]), V, "got float32 (3, 32, 32)"),
    "images of another size": (lambda d: PSET.at(X[..., :28, :28]), V, "x must be images of shape (3, 32, 32), as this set was made for, got (3, 28, 28)"),
    "grey images": (lambda d: PSET.encode(X[:, :1], X[:, :1]), V, "as this set was made for, got (1, 32, 32)"),
    "pairs of two shapes": (lambda d: PSET.encode(X, X[:3]), V, "x and x_tilde must have equal shapes"),
    "pairs for a radius": (lambda d: sets.select_radius(PSET, BYTES, BYTES[:3]), V, "x and x_tilde of equal shapes"),
    "no pairs for a radius": (lambda d: sets.select_radius(PSET, BYTES[:0], BYTES[:0]), V, "expected at least one pair"),
    "int64 images for a radius": (lambda d: sets.select_radius(PSET, BYTES.long(), BYTES.long()), V, "images must be uint8, or float in [0, 1], got int64"),
    "pairs to evaluate": (lambda d: quality.evaluate_set(PSET, X, X[:3], g()), V, "expected at least one pair, and x and x_tilde of equal shapes; x is (4,"),
    "nothing to evaluate": (lambda d: quality.evaluate_set(PSET, X[:0], X[:0], g()), V, "expected at least one pair"),
    "nan to evaluate": (lambda d: quality.evaluate_set(PSET, X, with_nan(X), g()), V, "x_tilde must lie in [0, 1] and be finite"),
    "samples of an evaluation": (lambda d: quality.evaluate_set(PSET, X, X, g(), n_samples=0), V, "n_samples must be a whole number, at least 1, got 0"),
    "images to corrupt": (lambda d: corruptions.corrupt("fog", X, 5, g()), V, "fog: expected a uint8 tensor of images (N, 3, H, W), got float32"),
    "a list to corrupt": (lambda d: corruptions.corrupt("fog", [1], 5, g()), V, "images (N, 3, H, W), got list"),
    "draws for other images": (lambda d: corruptions.apply("fog", BYTES, 5, corruptions.draw("fog", 5, 3, g())), V, "these images need"),
    "chunk": (lambda d: corruptions.apply("fog", BYTES, 5, corruptions.draw("fog", 5, 4, g()), chunk=-1), V, "chunk must be a whole number, at least 1, got -1"),
    "labels float": (lambda d: attack.attack_classifier(PSET, MODEL, X, Y.float(), 1.), V, "labels must be int64 (4,), one per image, got float32 (4,)"),
    "labels of other images": (lambda d: attack.attack_classifier(PSET, MODEL, X, Y[:3], 1.), V, "labels must be int64 (4,), one per image, got int64 (3,)"),
    "negative labels": (lambda d: attack.attack_classifier(PSET, MODEL, X, Y - 1, 1.), V, "labels must be from 0"),
    "labels beyond the classes": (lambda d: attack.attack_classifier(PSET, MODEL, X, Y + 8, 1.), V, "labels must be from 0 to 9, as the classifier's, got 11"),
    "labels to count": (lambda d: judging.is_correct(MODEL, BYTES, Y[:3]), V, "labels must be int64 (4,)"),
    "latents for one": (lambda d: PSET.perturb(X, U[:1]), V, "u must be (4, 4), one float latent per image, got float32 (1, 4)"),
    "latents of another dimension": (lambda d: PSET.at(X)(torch.zeros(4, 5)), V, "u must be (4, 4)"),
    "latents a list": (lambda d: PSET.perturb(X, [[0.] * 4] * 4), V, "u must be (4, 4), one float latent per image, got list"),
    "latents int64": (lambda d: PSET.perturb(X, U.long()), V, "got int64 (4, 4)"),
    "start of an attack": (lambda d: attack.attack_classifier(PSET, MODEL, X, Y, 1., u=U[:2]), V, "u must be (4, 4)"),
    "start of a search": (lambda d: attack.pgd(lambda u: u.sum(1), torch.zeros(3), 1., 2, .1), V, "u must be (B, K), one latent per example, got float32 (3,)"),
    "images of views": (lambda d: pairs.Views(X, X[None], Y, Y, ("fog",), ""), V, "images must be uint8 (4, C, H, W), got float32"),
    "corrupted of views": (lambda d: pairs.Views(BYTES, BYTES, Y, Y, ("fog",), ""), V, "corrupted must be uint8 (1, 4, C, H, W), got uint8 (4, 3, 32, 32)"),
    "labels of views": (lambda d: pairs.Views(BYTES, BYTES[None], Y.int(), Y, ("fog",), ""), V, "labels must be int64 (4,), one per image, got int32"),
    "index of views": (lambda d: VIEWS.on(Y + 1), V, "index must be int64 from 0 to 3, got torch.int64 from 1 to 4"),
    "number of views": (lambda d: pairs.load_views("photos", "test", n=-1), V, "n must be a whole number, at least 1, got -1"),
    "number of photographs": (lambda d: built_in.photos("train", 2.5), V, "n must be a whole number, at least 1, got 2.5"),
    "images to split": (lambda d: pairs.split_images(1, g()), V, "1 image(s) can't be split"),
    "share to split": (lambda d: pairs.split_images(10, g(), NAN), V, "fraction must be a finite number above 0, got nan"),
    "padding": (lambda d: pairs.draw_crop_flip(4, -1, g()), V, "pad must be a whole number, at least 0, got -1"),
    "random pairing without a generator": (lambda d: pairs.evaluation_pairs(VIEWS, "mixed"), V, "gen must be a torch.Generator, got None"),
    "images to show": (lambda d: plots.image_grid(X), V, "images must be (rows, columns, channels, height, width), not of shape (4, 3, 32, 32)"),
    "nan to show": (lambda d: plots.image_grid(with_nan(X)[None]), V, "images must be uint8, or finite floats in [0, 1], got float32"),
    "int64 to show": (lambda d: plots.image_grid(BYTES[None].long()), V, "got int64 (1, 4, 3, 32, 32)"),
    "logits": (lambda d: attack.attack_classifier(PSET, lambda_net(), X, Y, 1.), V, "the classifier must give logits (4, classes), got float32 (4,)"),
    "classifier with nan": (lambda d: attack.attack_classifier(PSET, lambda_net(NAN), X, Y, 1.), V, "the classifier's outputs are NaN"),
    # radii, steps, schedules
    "eps 0": (lambda d: sets.PerturbationSet(PSET.cvae, 0), V, "eps must be a finite number above 0, got 0"),
    "eps nan": (lambda d: sets.PerturbationSet(PSET.cvae, NAN), V, "above 0, got nan"),
    "eps text": (lambda d: sets.PerturbationSet(PSET.cvae, "2"), V, "above 0, got '2'"),
    "quartiles": (lambda d: sets.PerturbationSet(PSET.cvae, 1., ["a"]), V, "percentiles must be a finite number, at least 0, got 'a'"),
    "eps of samples": (lambda d: PSET.sample(X, 2, g(), eps=-1), V, "eps must be a finite number, at least 0, got -1"),
    "eps of draws": (lambda d: sets.sample_ball(3, 4, INF, g()), V, "eps must be a finite number, at least 0, got inf"),
    "number of draws": (lambda d: sets.sample_ball(-3, 4, 1., g()), V, "n must be a whole number, at least 0, got -3"),
    "eps of an attack": (lambda d: attack.attack_classifier(PSET, MODEL, X, Y, NAN), V, "eps must be a finite number, at least 0, got nan"),
    "steps of an attack": (lambda d: attack.attack_classifier(PSET, MODEL, X, Y, 1., steps=-1), V, "steps must be a whole number, at least 0, got -1"),
    "step of an attack": (lambda d: attack.attack_classifier(PSET, MODEL, X, Y, 1., step_size=INF), V, "step_size must be a finite number, at least 0, got inf"),
    "radii descending": (lambda d: attack.nested_robustness(PSET, MODEL, X, Y, [2., 1.]), V, "radii must be positive and ascending, got [2.0, 1.0]"),
    "radii nan": (lambda d: attack.nested_robustness(PSET, MODEL, X, Y, [NAN]), V, "radii must be a finite number above 0, got nan"),
    "radii text": (lambda d: judging.attack_by_pgd(MODEL, PSET, BYTES, Y, ["1"]), V, "radii must be a finite number above 0, got '1'"),
    "no radii": (lambda d: attack.nested_robustness(PSET, MODEL, X, Y, []), V, "radii must be positive and ascending, got []"),
    "optimizer": (lambda d: train.Schedule(optimizer="lion"), V, "unknown optimizer 'lion': known are adam, sgd"),
    "epochs nan": (lambda d: train.Schedule(epochs=NAN), V, "epochs must be a finite number above 0, got nan"),
    "epochs inf": (lambda d: train.Schedule(epochs=INF), V, "epochs must be a finite number above 0, got inf"),
    "batch": (lambda d: train.Schedule(batch_size=2.5), V, "batch_size must be a whole number, at least 1, got 2.5"),
    "rate": (lambda d: train.Schedule(lr=-.1), V, "lr must be a finite number, at least 0, got -0.1"),
    "rate nan": (lambda d: train.Schedule(lr=NAN), V, "lr must be a finite number, at least 0, got nan"),
    "peak": (lambda d: train.Schedule(peak=1.), V, "peak must be a share of the run, below 1, got 1.0"),
    "clip": (lambda d: train.Schedule(clip=-1), V, "clip must be a finite number, at least 0, got -1"),
    "decay text": (lambda d: train.Schedule(weight_decay="5e-4"), V, "weight_decay must be a finite number, at least 0, got '5e-4'"),
    "knots": (lambda d: train.piecewise(1, [0, 1], [2, 2]), V, "as many values as increasing knots"),
    "knots nan": (lambda d: train.piecewise(1, [0, 1], [0, NAN]), V, "as many values as increasing knots"),
    "knots of beta": (lambda d: learn.bound_loss(pairs.PairsOf(VIEWS), (0, 1, 2), (0, 1)), V, "as many values as increasing knots"),
    "nothing to train on": (lambda d: fit(index=torch.arange(0)), V, "index is empty, there is no image to train on"),
    "device": (lambda d: fit(device="gpu"), V, "unknown device 'gpu': known are cpu"),
    # files
    "set missing": (lambda d: sets.load_set(d / "none.safetensors"), F, "there is no perturbation set at"),
    "set a folder": (lambda d: sets.load_set(d), F, "there is no perturbation set at"),
    **{f"set {name}": (lambda d, name=name: sets.load_set(d / f"{name}.safetensors"), V, part) for name, part in dict(
        cut="can't be read as safetensors", text="can't be read as safetensors", zero="can't be read as safetensors",
        notjson="can't be read as safetensors", plain="holds weights, but no perturbation set", eps="eps must be a finite number above 0, got -1.0",
        epstext="above 0, got '2'", net="unknown CVAE 'no'", option="takes no colour", config="network", wide="is expected",
        quartiles="percentiles must be a finite number", nan="prior.mu.weight holds numbers that are not finite").items()},
    "set under a file": (lambda d: PSET.save(d / "file" / "s.safetensors"), OSError, "can't write"),
    "set with nan": (lambda d: sets.PerturbationSet(bad_cvae(), 1.).save(d / "bad.safetensors"), V, "holds numbers that are not finite: not saved"),
    "array missing": (lambda d: data.open_array(d / "none.npy"), F, "there is no array with its .json at"),
    "array without .json": (lambda d: data.open_array(d / "array_alone.npy"), F, "there is no array with its .json at"),
    **{f"array {name}": (lambda d, name=name: data.open_array(d / f"{name}.npy"), V, f"{name}.npy is damaged: delete it, and it will be made again")
       for name in ("array_cut", "array_changed", "array_badjson", "pickle")},
    "array of objects to save": (lambda d: data.save_array(d / "objects.npy", np.array([{}, None])), V, "can't be saved: objects"),
    "PNG is text": (lambda d: data.load_images("cifar10", "train", d / "text"), V, "a.png can't be read as an image"),
    "PNG of another size": (lambda d: data.load_images("cifar10", "train", d / "small"), V, "has shape (3, 28, 28), expected (3, 32, 32)"),
    "class folder missing": (lambda d: data.load_images("cifar10", "train", d / "lacking"), F, "lacks the class folders dog"),
    "class folders empty": (lambda d: data.load_images("cifar10", "train", d / "empty"), F, "holds no images"),
    "CIFAR-10 batches damaged": (lambda d: data.load_images("cifar10", "train", d / "batches"), V, "cifar-10-batches-py is incomplete or damaged"),
    "MNIST labels short": (lambda d: data.load_images("mnist", "train", d / "mnist"), V, "holds 4 images and 3 labels"),
    "CIFAR-10-C missing": (lambda d: corrupted.official_cifar10c(["snow"], 5, d / "float"), F, "has no snow.npy"),
    "CIFAR-10-C severity": (lambda d: corrupted.official_cifar10c(["fog"], 0, d / "short"), V, "severity 0 is unknown"),
    **{f"CIFAR-10-C {name}": (lambda d, name=name: official(d, name), V, part) for name, part in dict(
        float="holds float32 (50000, 1); the official file is uint8 (50000, 32, 32, 3)", short="holds uint8 (10, 32, 32, 3); the official file",
        cut="can't be read as a NumPy array", zero="can't be read as a NumPy array", object="can't be read as a NumPy array").items()},
    "corrupted of other images": (lambda d: store(d, "store").ledger(), V, "belongs to other images"),
    "ledger damaged": (lambda d: store(d, "store_badjson").ledger(), V, "store_badjson.json can't be read"),
    "corrupted missing": (lambda d: corrupted.open_corrupted(store(d, "none")), V, "can't be read"),
    "corrupted of another shape": (lambda d: corrupted.open_corrupted(store(d, "store_shape")), V, "holds uint8 (1, 3) where uint8 (1, 4)"),
    "rows missing": (lambda d: stored.read_rows(d / "none.csv"), F, "no rows at"),
    "rows a folder": (lambda d: stored.read_rows(d), F, "no rows at"),
    **{f"rows {name}": (lambda d, name=name: stored.read_rows(d / f"{name}.csv"), V, "holds no rows that can be read") for name in ("ragged", "zero", "bytes")},
    "rows with other columns": (lambda d: stored.join_rows(ROWS, ROWS[["image"]], d / "rows.csv"), V, "has columns image, correct, not image"),
    "rows a list": (lambda d: stored.write_rows(d / "new.csv", [1]), V, "rows must be a DataFrame, got list"),
    "rows under a file": (lambda d: stored.write_rows(d / "file" / "rows.csv", ROWS), OSError, "rows.csv: Not a directory"),
    "rows to summarise": (lambda d: judging.summarise(ROWS), V, "method, kind, eps, corruption missing from image, correct"),
    "rows to average": (lambda d: quality.mean_metrics(ROWS), V, "missing from image, correct"),
    "norms nan": (lambda d: quality.norm_statistics([1., NAN]), V, "norms must be finite numbers, got 2, 1 of them not finite"),
    "two results in a cell": (lambda d: report.with_paper(ROWS.assign(row=0, column=1), None), V, "two results for one cell"),
    "column of a table": (lambda d: report.with_paper(ROWS, None), V, "row, column missing from image, correct"),
    "classifiers on other images": (lambda d: judging.compare(ROWS.correct, ROWS.correct[:1], "a", "b"), V, "on the same images, in the same order, got 2 and 1"),
    "figure under a file": (lambda d: write_under(d / "file"), OSError, "make room or rights there"),
}


def lambda_net(value=0.):
    "A module with one number an image; or, where that is NaN, ten."
    class Net(torch.nn.Module):
        def forward(self, x): return x.mean((1, 2, 3)) if value == value else torch.full((len(x), 10), value)
    return Net()


def bad_cvae():
    model = cvae.make_cvae("cifar10_residual", **TINY)
    torch.nn.init.constant_(model.prior.mu.weight, NAN)
    return model


def write_under(file):
    with atomic_write(file / "a.png") as tmp: tmp.write_bytes(b"")


def files(*folders): return {p: p.stat().st_mtime_ns for f in folders for p in f.rglob("*")}


@pytest.mark.parametrize("name", CASES)
def test_malformed(name, d, tmp_path, monkeypatch):
    work, exception, part = CASES[name]
    monkeypatch.setenv("PERTNB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PERTNB_DATA", str(tmp_path / "data"))
    before = files(d, tmp_path)
    with pytest.raises(exception) as raised: work(d)
    said, tb = str(raised.value), raised.tb
    assert part in said
    assert "\n" not in said and len(said) < 500
    while tb.tb_next: tb = tb.tb_next
    at = Path(tb.tb_frame.f_code.co_filename)
    assert paths.package_root() in at.parents, f"raised in {at}"
    assert "raise" in linecache.getline(str(at), tb.tb_lineno), f"raised by a call in {at}:{tb.tb_lineno}"
    assert files(d, tmp_path) == before
