"""What a GPU would wait for, compile anew or compute otherwise, shown without one: steps of training on a device that holds no values, compiled, and in bf16."""
from contextlib import contextmanager, nullcontext
from copy import copy
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.utils import counters

from pertnb import corruptions
from pertnb.certify import smoothing
from pertnb.core.random import make_generator
from pertnb.data import pairs
from pertnb.learn import robust, smoothed, train
from pertnb.models.cvae import make_cvae
from pertnb.core.device import as_written, compile_module, compile_set, frozen
from pertnb.data.images import load_images
from pertnb.learn.learn import bound_loss
from pertnb.models.nets import make_classifier
from pertnb.sets.sets import PerturbationSet

CVAE = dict(name="cifar10_residual", latent=6, width=8, bottleneck=4, blocks=1, features=2, maps=1, patch=1, encoder_patch=1)
NET = dict(name="resnet-8", width=8)
STEPS = ["cvae", "standard", "cifar10c", "cvae_augmentation", "cvae_adversarial", "kept", "smoothing"]
KEPT = dict(kept=True, part=.5, mix="adversarial", steps=1, label_smoothing=.1, images=dict(real=.25, reflect=True, alternate=True))


@pytest.fixture(scope="module")
def views():
    "Sixteen photographs and two corruptions of each."
    images, labels = (t[::200][:16].contiguous() for t in load_images("photos", "train"))
    names = ("contrast", "fog")
    return pairs.Views(images, torch.stack([corruptions.corrupt(c, images, 5, make_generator(c)) for c in names]), labels, torch.arange(16), names, "sixteen")


def built(what, views, device="cpu"):
    "Module, loss and set of a kind of step."
    torch.manual_seed(0)
    cvae, net = make_cvae(**CVAE).to(device), make_classifier(**NET).to(device)
    pset = PerturbationSet(make_cvae(**CVAE).to(device), 3.)
    if what == "cvae": return cvae, bound_loss(pairs.PairsOf(views, "mixed"), (0, .1), (0, 1)), pset
    if what == "smoothing": return net, smoothed.smoothing_loss(views, pset, .5), pset
    if what == "kept":
        loss = robust.classifier_loss("cvae_adversarial", views, pset, **KEPT)
        loss.memory.start(device)
        return net, loss, pset
    return net, robust.classifier_loss(what, views, pset, **(dict(steps=2, random_start=True) if what == "cvae_adversarial" else {})), pset


def step(what, views, module, loss, number=0, device="cpu"):
    "A training step as train.fit does it; the loss."
    run = train.Run(module, loss, views.index, train.Schedule(epochs=9, batch_size=8, optimizer="sgd", lr=.01, clip=1.), 0, None, torch.device(device))
    accelerator = SimpleNamespace(backward=lambda l: l.backward(), clip_grad_norm_=torch.nn.utils.clip_grad_norm_)
    return train.train_step(run, module, torch.optim.SGD(module.parameters(), momentum=.9, nesterov=True, lr=.01), accelerator, number)["loss"]


class PretendGenerator:
    "A generator of a device that holds no values."
    device = torch.device("meta")
    def initial_seed(self): return 0


@contextmanager
def pretend_gpu(monkeypatch):
    "The device `meta` in place of a GPU: to ask a tensor for a value, to copy one back or to mix devices is an error, as each would wait for a GPU or fail on it."
    monkeypatch.setattr(train, "make_generator", lambda *key, device="cpu": PretendGenerator() if torch.device(device).type == "meta" else make_generator(*key, device=device))
    for name in ("rand", "randn", "randint"): # a draw from a PretendGenerator is a tensor of its shape
        monkeypatch.setattr(torch, name, lambda *args, f=getattr(torch, name), **kw: f(*args, **{k: v for k, v in kw.items() if not isinstance(v, PretendGenerator)}))
    yield


def on_meta(views):
    out = copy(views)
    for name in ("images", "corrupted", "labels", "index"): object.__setattr__(out, name, getattr(views, name).to("meta"))
    return out


@pytest.mark.parametrize("what", STEPS)
def test_no_step_waits(what, views, monkeypatch):
    "Drawing, attack, forward, backward and update ask for no value of any tensor."
    there = on_meta(views)
    module, loss, _ = built(what, there, "meta")
    with pretend_gpu(monkeypatch):
        assert step(what, there, module, loss, device="meta").device.type == "meta"
        for wait in (lambda t: t.sum().item(), lambda t: t.nonzero(), lambda t: t.cpu(), lambda t: bool(t.any()), lambda t: t + torch.ones(2)):
            with pytest.raises((RuntimeError, NotImplementedError)): wait(torch.ones(2, device="meta")) # the test has teeth


@pytest.mark.parametrize("what", ["cvae", "cvae_adversarial"])
def test_compiled_whole(what, views):
    "The network and the set's decoder compile without a graph break, give the same loss, and are not compiled again at later steps."
    torch._dynamo.reset()
    module, loss, pset = built(what, views)
    plain = [float(step(what, views, module, loss, k)) for k in range(3)]
    module, loss, pset = built(what, views)
    for part in (module, pset.cvae.generator): part.compile(backend="aot_eager", fullgraph=True, dynamic=False)
    counters.clear()
    quick, graphs = [], []
    for k in range(3):
        quick.append(float(step(what, views, module, loss, k)))
        graphs.append(counters["stats"]["unique_graphs"])
    assert quick == pytest.approx(plain, rel=1e-4)
    assert 1 <= graphs[0] == graphs[1] == graphs[2] <= 4 and not counters["graph_break"], (graphs, counters["graph_break"])
    torch._dynamo.reset()


@pytest.mark.parametrize("what", STEPS)
def test_bf16(what, views):
    "Under autocast to bf16 the loss is the same within a few per cent, and its gradient points the same way."
    def found(context):
        module, loss, _ = built(what, views)
        with context: value, _ = loss(module, views.index, make_generator(0), .5)
        value.backward()
        return float(value.detach()), torch.cat([p.grad.flatten() for p in module.parameters()])
    (plain, g), (half, h) = found(nullcontext()), found(torch.autocast("cpu", torch.bfloat16))
    assert half == pytest.approx(plain, rel=.03)
    assert torch.cosine_similarity(g, h, 0) > .97 and h.isfinite().all()


def test_compiled_set_is_a_copy_on_a_gpu_only():
    pset = PerturbationSet(make_cvae(**CVAE), 3.)
    assert compile_set(pset, "reduce-overhead") is pset and compile_set(None, "default") is None
    module = compile_module(make_classifier(**NET), "reduce-overhead", "cpu")
    assert module._compiled_call_impl is None
    with frozen(module), as_written(): assert module(torch.rand(2, 3, 32, 32)).shape == (2, 10)
