"""python together.py FOLDER: short trainings with the losses of the library; tests/test_distributed.py starts it in one and in two processes, tests/test_machines.py on two machines."""
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import torch

torch.set_num_threads(1)

from pertnb.data import pairs
from pertnb.core.keys import Code, describe_input
from pertnb.learn import learn, mend, robust, train
from pertnb.models import cvae, nets
from pertnb.data.pairs import Views
from pertnb.core.random import make_generator
from pertnb.sets.sets import PerturbationSet

NARROW = dict(name="cifar10_residual", latent=8, width=8, bottleneck=4, blocks=1, features=2, patch=2, encoder_patch=4)


def views(n=96):
    "Smooth random images, and two corruptions of each."
    x = torch.rand(n, 3, 8, 8, generator=make_generator("images")).repeat_interleave(4, 2).repeat_interleave(4, 3)
    corrupted = torch.stack([1 - x, x / 2])
    return Views((255 * x).byte(), (255 * corrupted).byte(), torch.arange(n) % 10, torch.arange(n), ("negative", "dark"), "random")


def trainings():
    "{name: arguments of fit}: a CVAE, one that is mended, and classifiers that draw from a set or are attacked in it."
    data = views()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        pset = PerturbationSet(cvae.make_cvae(**NARROW), 2.)
    net = dict(name="resnet-8", width=16, patch=2)
    adam, sgd = (train.Schedule(epochs=4, batch_size=32, lr=lr, optimizer=o, clip=1.) for o, lr in (("adam", .003), ("sgd", .05)))
    classifier = lambda: nets.make_classifier(**net)
    aside = robust.validation_loss("cvae_adversarial", data.on(data.index[:33]), pset, batch_size=16, steps=2) # the last batch is one image
    loss = {m: robust.classifier_loss(m, data, pset, **({"steps": 2} if m == "cvae_adversarial" else {})) for m in ("cifar10c", "cvae_augmentation", "cvae_adversarial")}
    bound = learn.bound_loss(pairs.PairsOf(data, "mixed"), (0, .1), (0, 2))
    return dict(cvae=(lambda: cvae.make_cvae(**NARROW), bound, data.index, adam),
                filtered=(lambda: cvae.make_cvae(**NARROW, filters=3), bound, data.index, adam),
                **{m: (classifier, l, data.index, sgd) for m, l in loss.items()},
                validated=(classifier, loss["cvae_adversarial"], data.index, sgd, 0, aside),
                mended=(lambda: mend.Mending(cvae.make_cvae(**NARROW)), mend.mend_loss(pairs.PairsOf(data), 2., mend.Mend(steps=2, tolerance=.01)),
                        data.index, adam),
                kept=(classifier, robust.classifier_loss("cvae_adversarial", data, pset, kept=True, part=.5, mix="adversarial", steps=1), data.index,
                      replace(sgd, micro=16, average=.5)))


if __name__ == "__main__":
    os.environ["PERTNB_RUNS"] = sys.argv[1]
    os.environ["PERTNB_BF16"] = "0" # sums of another order differ by 1e-7 in float32, by 1e-2 in bf16
    logs, networks = {}, {}
    for name, given in trainings().items():
        module, log = train.fit(name, *given, device="cpu", progress=False, log_every=1)
        logs[name] = log.drop(columns=["seconds", "samples_per_s"]).to_dict("list")
        networks[name] = describe_input(module, Code())["parts"] # all that a key says of it but its weights
    from accelerate import PartialState
    state = PartialState()
    Path(sys.argv[1], f"logs{state.process_index}.json").write_text(json.dumps(dict(processes=state.num_processes, logs=logs, networks=networks)))
    state.destroy_process_group()
