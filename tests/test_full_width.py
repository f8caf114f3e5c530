"""The presets `fast` and `paper` run for a few steps with the networks and losses that they name; and their estimates are printed."""
import io
import math
import re
import time
from contextlib import redirect_stdout
from dataclasses import replace

import pytest
import torch

from pertnb import corruptions
from pertnb.attack import attack
from pertnb.core.random import make_generator
from pertnb.data import pairs
from pertnb.experiments import presets
from pertnb.learn import learn, robust, train
from pertnb.measure import quality
from pertnb.models import cvae
from pertnb.sets import sets
from pertnb.tools import estimate
from pertnb.data.images import load_images


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PERTNB_RUNS", str(tmp_path))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def views():
    "Eight photographs, and the twelve corruptions of each."
    images, labels = (t[::500][:8].contiguous() for t in load_images("photos", "train"))
    corrupted = [corruptions.corrupt(c, images, 5, make_generator(c)) for c in corruptions.TRAIN]
    return pairs.Views(images, torch.stack(corrupted), labels, torch.arange(8), corruptions.TRAIN, "eight photographs")


def announced(settings):
    "The hours that an estimate announces."
    with redirect_stdout(io.StringIO()) as said: estimate.announce(settings, "cpu")
    hours = r"([\d,]+(?:\.\d)?) hours and \d+\.\d GB on this device \(CPU, 1 thread\), by a few steps at full width\n"
    found = re.fullmatch(rf"{settings.preset}: about {hours}", said.getvalue())
    assert found, said.getvalue()
    return float(found[1].replace(",", ""))


def settings_of(experiment, preset):
    "Those of the preset; of classifiers one method, and an attack of one step."
    few = dict(methods="cvae_adversarial", train_steps=1) if experiment == "cifar10c_robust" else {}
    return presets.resolve(experiment, dict(preset=preset, **few))


def per_image(names, images):
    "Seconds that these corruptions of an image take together."
    start = time.process_time()
    for name in names: corruptions.corrupt(name, images, 5, make_generator(name))
    return (time.process_time() - start) / len(images)


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_corruptions(preset, views, monkeypatch):
    "The estimate is about the time that eighty images take here, as often as there are images; it is announced in hours."
    settings, images = settings_of("cifar10c_corruptions", preset), views.images.repeat(10, 1, 1, 1)
    seconds = settings.n_test * len(settings.levels()) * per_image(corruptions.NAMES, images)
    seconds += settings.n_train * per_image(corruptions.TRAIN, images)
    cost = estimate.estimate_cost(settings, "cpu")
    assert seconds / 4 <= cost.seconds <= 4 * seconds
    monkeypatch.setattr(estimate, "estimate_cost", lambda *args: cost)
    assert announced(settings) == round(cost.seconds / 3600, 1)


@pytest.mark.parametrize("experiment", ["cifar10c_cvae", "cifar10c_robust"])
def test_paper_takes_longer_than_fast(experiment):
    "It trains the same network five times as long, so that only `fast` is measured: 11a_estimate tests that epochs multiply."
    fast, paper = (settings_of(experiment, preset) for preset in ("fast", "paper"))
    assert paper.epochs == 5 * fast.epochs and paper.net() == fast.net()
    assert announced(fast) > 1


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_perturbation_set(preset, views):
    "Two steps on eight photographs; the loss is that of section 4, and a search of the set comes closer than the encoder."
    settings = settings_of("cifar10c_cvae", preset)
    few = replace(settings, epochs=1., batch_size=4, mend_images=8)
    pset, log = learn.learn_set(few, views, views.on(views.index[:1]), "centered", device="cpu", progress=False, log_every=1)
    assert pset.latent == 512 and log.kl.gt(0).all()
    assert log.loss.tolist() == pytest.approx((3072 / 2 * log.mse + log.beta * log.kl).tolist(), rel=1e-3) and len(log) == 2
    x, x_tilde, *_ = pairs.evaluation_pairs(views, n=1)
    rows = quality.evaluate_set(pset, x[:2], x_tilde[:2], make_generator(0), steps=1, n_samples=1)
    assert len(rows) == 2 and (rows.pgd_ae <= rows.enc_ae).all() and (rows.pgd_ae > 0).all()


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_classifier(preset, views):
    "Two steps of adversarial training on four photographs; an attack stays in the ball, and tells the truth about its points."
    settings, method = settings_of("cifar10c_robust", preset), "cvae_adversarial"
    pset = sets.PerturbationSet(cvae.make_cvae(**settings_of("cifar10c_cvae", preset).net()), 10.)
    schedule = train.Schedule(**settings.training(method) | dict(epochs=1., batch_size=2))
    model, log = robust.train_classifier(method, views.on(views.index[:4]), schedule, dict(settings.net(), n_classes=10), pset, attack=settings.loss(method), device="cpu", progress=False, log_every=1)
    assert sum(p.numel() for p in model.parameters()) > 36e6
    assert abs(log.loss[0] - math.log(10)) < 1.5 and len(log) == log.loss.nunique() == 2 # at first it guesses
    x, y = pairs.to_float(views.images[:2]), views.labels[:2]
    found = attack.attack_classifier(pset, model, x, y, pset.eps, steps=1)
    assert (found.u.norm(dim=1) <= pset.eps * (1 + 1e-6)).all()
    with torch.no_grad(): right = model(pset.perturb(x, found.u)).argmax(1) == y
    assert found.correct.tolist() == right.tolist()
