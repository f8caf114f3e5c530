"""Train the packaged set of corruptions further, with kernels that also see the mean of their image (`filter_mean`).

    python tools/add_mean_filter.py FILE.safetensors [--passes 5] [--control] [--mended]

The kernels' new weight begins at zero, so that the decoder begins as the packaged one. --control trains the packaged
set for as many passes with its kernels as they are. --mended mends the set again afterwards, as the packaged one was;
without it its errors can be compared (tools/read_reconstructions.py FILE), its worst points can't. What was trained
before is read.
"""
import argparse

import torch

from pertnb.core.device import best_device
from pertnb.data import pairs
from pertnb.experiments import presets
from pertnb.learn.learn import learn, sum_seconds
from pertnb.learn.train import Schedule
from pertnb.models.cvae import make_cvae
from pertnb.sets.sets import packaged_set

FIELDS = "generator.filters.fields"  # (mixtures, taps, H, W)


def widen(cvae):
    "The same CVAE, whose kernels also see the mean and don't use it yet."
    wider, weights = make_cvae(**cvae.config | dict(filter_mean=True)), cvae.state_dict()
    weights[FIELDS] = torch.cat([weights[FIELDS], torch.zeros_like(weights[FIELDS][:, :1])], 1)
    wider.load_state_dict(weights)
    return wider


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="where the set is written")
    parser.add_argument("--passes", type=float, default=5.)
    parser.add_argument("--control", action="store_true", help="kernels that don't see the mean")
    parser.add_argument("--mended", action="store_true", help="mend the set afterwards")
    args = parser.parse_args()
    s = presets.resolve("cifar10c_cvae", dict(preset="overnight", data="cifar10"))
    train, validation = pairs.split_by_seed(pairs.load_views("cifar10", "train", n=s.n_train), s.seed)
    schedule = Schedule(args.passes, s.batch_size, "adam", 1e-3, 0.1, clip=s.clip)
    start = packaged_set().cvae if args.control else widen(packaged_set().cvae)
    name = "cvae-same" if args.control else "cvae-mean"
    device = best_device()
    sources = pairs.PairsOf(train.to(device), pad=s.pad), pairs.PairsOf(validation)
    plan = s.plan()["plan"] if args.mended else None
    pset, log = learn(name, *sources, start.config, schedule, (s.beta, s.beta), (0, schedule.peak), seed=s.seed,
                      start=start, quantile=s.quantile, plan=plan, device=device, progress=False)
    pset.save(args.file)
    print(f"{args.file}: eps {pset.eps:.2f}, quartiles {', '.join(f'{r:.2f}' for r in pset.percentiles)}, "
          f"{sum_seconds(log):.0f} s")


if __name__ == "__main__": main()
