"""The presets `fast` and `paper` run for a few steps with the networks and losses that they name; and their estimates are printed."""
import re
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


def announced(settings, capsys):
    estimate.announce(settings, "cpu")
    said = capsys.readouterr().out
    assert re.fullmatch(rf"{settings.preset}: about [\d,]+(\.\d)? hours and \d+\.\d GB on this device \(CPU, 1 thread\), by a few steps at full width\n", said), said
    return float(re.search(r"([\d,.]+) hours", said)[1].replace(",", ""))


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_corruptions(preset, capsys):
    assert announced(presets.resolve("cifar10c_corruptions", dict(preset=preset)), capsys) < 100


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_perturbation_set(preset, views, capsys):
    settings = presets.resolve("cifar10c_cvae", dict(preset=preset))
    assert announced(settings, capsys) > 1
    pset, log = learn.learn_set(replace(settings, epochs=1., batch_size=4, mend_images=8), views, views.on(views.index[:1]), "centered", device="cpu", progress=False, log_every=1)
    assert len(log) == 2 and log.loss.notna().all() and pset.latent == 512
    x, x_tilde, *_ = pairs.evaluation_pairs(views, n=1)
    assert len(quality.evaluate_set(pset, x[:2], x_tilde[:2], make_generator(0), steps=1, n_samples=1)) == 2


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_classifier(preset, views, capsys):
    settings = replace(presets.resolve("cifar10c_robust", dict(preset=preset)), methods=("cvae_adversarial",), train_steps=1)
    assert announced(settings, capsys) > 10
    pset, method = sets.PerturbationSet(cvae.make_cvae(**presets.resolve("cifar10c_cvae", dict(preset=preset)).net()), 10.), "cvae_adversarial"
    schedule = train.Schedule(**settings.training(method) | dict(epochs=1., batch_size=2))
    model, log = robust.train_classifier(method, views.on(views.index[:4]), schedule, dict(settings.net(), n_classes=10), pset, attack=settings.loss("cvae_adversarial"), device="cpu", progress=False, log_every=1)
    assert len(log) == 2 and log.loss.notna().all() and sum(p.numel() for p in model.parameters()) > 36e6
    found = attack.attack_classifier(pset, model, pairs.to_float(views.images[:2]), views.labels[:2], pset.eps, steps=1)
    assert (found.u.norm(dim=1) <= pset.eps * (1 + 1e-6)).all()
