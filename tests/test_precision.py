"""What is reported has the same bits whether training takes bf16 or not, and inside of a caller's autocast."""
from contextlib import contextmanager, nullcontext
from copy import deepcopy

import pytest
import torch

from pertnb.attack import strong
from pertnb.certify.votes import Noisy
from pertnb.learn import segment
from pertnb.measure import judging
from pertnb.measure import quality, set_bounds
from pertnb.sets import sets
from pertnb.attack.attack import attack_classifier, attack_in_training
from pertnb.models.cvae import make_cvae
from pertnb.core.device import is_bf16_fast
from pertnb.models.nets import make_classifier
from pertnb.core.random import make_generator
from pertnb.sets.sets import PerturbationSet, sample_ball

NOTEBOOKS = "10_train", "11_robust", "14_strong", "15c_votes", "16_smoothing", "16a_attacks", "12_benchmarks"
NET = dict(name="cifar10_residual", latent=6, width=8, bottleneck=4, blocks=1, features=2, maps=1, patch=2, encoder_patch=2)


@contextmanager
def medium():
    "A caller who lets matrix products take bf16 on a CPU and TF32 on a GPU."
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try: yield
    finally: torch.set_float32_matmul_precision(before)


def autocast(): return torch.autocast("cpu", torch.bfloat16)


SURROUNDINGS = dict(forced_off=("0", nullcontext), forced_on=("1", nullcontext), autocast=("1", autocast), medium=("0", medium))


class Maps(torch.nn.Module):
    "A segmentation network that gives each pixel a classifier's answer."
    def __init__(self, classifier):
        super().__init__()
        self.classifier = classifier
    def forward(self, x): return self.classifier(x)[:, :, None, None].expand(-1, -1, *x.shape[2:])


@pytest.fixture(scope="module")
def parts():
    "A small set, a small classifier, and pairs of images with labels, all random: so margins are small."
    torch.manual_seed(0)
    pset, model = PerturbationSet(make_cvae(**NET), 3.), make_classifier("resnet-8", width=8).eval()
    return pset, model, *torch.rand(2, 24, 3, 32, 32, generator=make_generator("precision")), torch.arange(24) % 10


def in_bytes(*images): return [(255 * x).byte() for x in images]


def mapped(y): return y[:, None, None].expand(-1, 32, 32)


REPORTED = {
    "attack_classifier": lambda p, m, x, t, y: vars(attack_classifier(p, m, x, y, 3., 5)),
    "attack_strongly": lambda p, m, x, t, y: vars(strong.attack_strongly(p, m, x, y, 3., 5)),
    "attack_pixels": lambda p, m, x, t, y: vars(strong.attack_pixels(m, x, y, "l2", .1, 5)),
    "evaluate_set": lambda p, m, x, t, y: quality.evaluate_set(p, x, t, make_generator("quality"), 3, 2).to_dict("list"),
    "nearest": lambda p, m, x, t, y: dict(nearest=quality.measure_nearest(p, x, t, 3)),
    "is_correct": lambda p, m, x, t, y: dict(correct=judging.is_correct(m, x, y)),
    "sample": lambda p, m, x, t, y: dict(points=p.sample(x, 2, make_generator("sample"))),
    "latent_norms": lambda p, m, x, t, y: dict(norms=sets.latent_norms(p, *in_bytes(x, t))),
    "posterior_moments": lambda p, m, x, t, y: dict(errors=set_bounds.posterior_moments(p, x, t, make_generator("moments"), 2)[2].tolist()),
    "measure_random_errors": lambda p, m, x, t, y: dict(errors=set_bounds.measure_random_errors(p, x, t, make_generator("errors"), 2).tolist()),
    "attack_maps": lambda p, m, x, t, y: dict(enumerate(segment.attack_maps(p, Maps(m).eval(), x, mapped(y), [1., 2.], 3))),
}


@pytest.mark.parametrize("name", REPORTED)
def test_same_bits(name, parts, monkeypatch):
    "Forced on, forced off, inside of autocast and of a loose setting of matrix products."
    found = {}
    for where, (forced, context) in SURROUNDINGS.items():
        monkeypatch.setenv("PERTNB_BF16", forced)
        with context(): found[where] = REPORTED[name](*parts)
    first = found.pop("forced_off")
    for where, other in found.items():
        for k, v in first.items():
            same = torch.equal(v, other[k]) and v.dtype == other[k].dtype if torch.is_tensor(v) else v == other[k]
            assert same, f"{k} differs: {where}"


def searched(p, m, x, y, loss):
    "The best points of AutoPGD."
    start = sample_ball(len(x), p.latent, 3., make_generator("start"))
    return strong.search(strong.Composed(p, m, x), y, strong.Ball(3.), start, 8, loss).best_d


TRAINING = {
    "attack_in_training": lambda p, m, x, y: attack_in_training(p, m, x, y, 3., 2, .6),
    "attack_pixels_in_training": lambda p, m, x, y: strong.attack_pixels_in_training(m, x, y, "l2", .5, 2),
    "search, ce": lambda p, m, x, y: searched(p, m, x, y, "ce"),
    "search, dlr": lambda p, m, x, y: searched(p, m, x, y, "dlr"),
}


@pytest.mark.parametrize("name", TRAINING)
def test_searches_in_training(name, parts):
    "Under the autocast of a training step a search doesn't fail, and keeps its points in float32."
    pset, model, x, _, y = parts
    alone = TRAINING[name](pset, model, x, y)
    with autocast(): inside = TRAINING[name](pset, model, x, y)
    assert inside.dtype == torch.float32 and inside.isfinite().all()
    assert not inside.equal(alone) # the networks did compute in bf16
    if name.endswith("in_training"): assert torch.cosine_similarity(inside.flatten(1), alone.flatten(1)).median() > .9


def test_notebooks_in_the_other_precision(run):
    "nbdev_test runs them as this processor chooses; here they run as it doesn't."
    other, pattern = "0" if is_bf16_fast("cpu") else "1", rf"^({'|'.join(NOTEBOOKS)})\.ipynb$"
    done = run("nbdev_test", "--file_re", pattern, "--n_workers", "2", "--do_print", PERTNB_BF16=other)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and all(f"{name}.ipynb" in said for name in NOTEBOOKS), said


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_votes_on_the_draws_of_the_cpu(parts):
    "The draws have the same bits; rounding moves a vote only where logits almost tie."
    pset, model, x, *_ = parts
    cpu, gpu = Noisy(pset, model, x, 1.), Noisy(deepcopy(pset).cuda(), deepcopy(model).cuda(), x.cuda(), 1.)
    i = torch.arange(len(x))
    assert torch.equal(cpu.draw(i, 10), gpu.draw(i.cuda(), 10).cpu())
    assert (cpu.count(i, 500) - gpu.count(i.cuda(), 500).cpu()).abs().max() <= 10
