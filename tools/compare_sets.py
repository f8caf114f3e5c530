"""Network or set? Adversarial training with real pairs in a set of corruptions, and attacks in it.

    python tools/compare_sets.py mend FILE.safetensors [--images 8000]
    python tools/compare_sets.py train [--set FILE.safetensors] [--further TRAINING] ... [--attacked 250] [--restarts 1]
                                       [FIELD=VALUE ...]

`mend` makes another set from the packaged `cifar10c_small` (64 latent dimensions, a decoder without local filters):
its radius becomes the quantile of the norms that `overnight` takes, and points further than 0.02 from all views are
penalised in its decoder. `train` takes the packaged set, or that file. It trains a small network from nothing or, with
--further, the packaged classifier after one more training, or several. FIELD=VALUE changes a field of the settings of
`05`, for instance train_steps=2 codes=0. Numbers are printed; logs/taught_overnight.md has the tables. What was
trained is read.
"""
import argparse

import torch

from package_set import measure_set  # beside this file
import restart_attacks  # beside this file
from pertnb.attack.attack import cross_entropy, pgd
from pertnb.core.device import full_precision
from pertnb.core.random import make_generator
from pertnb.data import pairs
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import RobustCifar10C
from pertnb.learn import mend
from pertnb.measure import judging
from pertnb.measure.excess import views_to_float
from pertnb.sets import sets
from pertnb.sets.sets import sample_ball
from pertnb.tools.usage import parse_parameters

METHOD, TOLERANCE = "cvae_adversarial_pairs", 0.02
RECIPE = dict(preset="overnight", data="cifar10", classifier="patch-48-96-192", patch=2, batch_size=125, micro=0, lr=.2,
              lr_warm=.1, peak=.2, average=.8, epochs_standard=2., epochs=2., epochs_set=5., n_judged=2000, further=())


def make_set(file, images, seed=0):
    "Mend the packaged small set, at the quantile of `overnight`, write it to a file, and say how long it took."
    s = presets.resolve("cifar10c_cvae", dict(preset="overnight", data="cifar10", seed=seed))
    train, validation = pairs.split_by_seed(pairs.load_views("cifar10", "train", n=s.n_train), seed)
    small = sets.packaged_set("cifar10c_small")
    x, x_tilde, *_ = pairs.evaluation_pairs(validation)
    small = sets.PerturbationSet(small.cvae, **sets.select_radius(small.cvae, x, x_tilde, s.quantile), info=small.info)
    plan = mend.Mend(tolerance=TOLERANCE, images=images)
    pset, log = mend.mend(small, pairs.PairsOf(train), plan, seed, progress=False)
    pset.save(file)
    print(f"{file}: {log.seconds.sum():.0f} s")


def withstand_restarts(section, model, worst, restarts):
    "Accuracy (%) after further restarts at the full radius; `worst`: Series by image, whether it withstood one."
    s, pset, (x, y) = section.robust, section.given_set, section.test_images(section.robust.n_test)
    rows = [restart_attacks.attack_part(pset, model, x, y, lo, images, pset.eps, s.strong_steps, restarts, section.seed)
            for lo, images in restart_attacks.split_standing(worst).items()]
    return 100 * sum((part.broken_by == 0).sum() for part in rows) / len(worst)


def train(section, attacked, restarts=1):
    "A classifier, its seconds, and accuracies (%): on n_judged images, and attacked on the first few."
    s, pset = section.robust, section.given_set
    model, log = section.classifier(METHOD)
    plain = judging.judge_unattacked(model, *section.test_views(s.n_judged)).groupby("kind").correct.mean()
    rows, _ = judging.attack_part(model, pset, *section.test_images(s.n_test), 0, attacked, attacked,
                                  [*pset.percentiles, pset.eps], s.pgd_steps, s.strong_steps, section.seed)
    held = {f"{kind} {eps:.1f}": share for (kind, eps), share in rows.groupby(["kind", "eps"]).correct.mean().items()}
    found = {k: 100 * float(v) for k, v in {**plain, **held}.items()}
    if restarts > 1:
        worst = rows[(rows.kind == "worst") & (rows.eps == rows.eps.max())].set_index("image").correct.astype(bool)
        found[f"after {restarts} restarts"] = withstand_restarts(section, model, worst, restarts)
    return model, log.attrs["seconds"], found


def measure_detail(change):
    "Mean squared change of images (..., C, H, W) in waves shorter than four pixels, (...)."
    wave = [torch.fft.fftfreq(n, device=change.device).abs() for n in change.shape[-2:]]
    fine = torch.maximum(wave[0][:, None], wave[1]) > 0.25
    return (torch.fft.fft2(change).abs().square() * fine).flatten(-3).mean(-1) / fine.numel()


@full_precision()
def measure_change(section, model, test, steps=50):
    "{name: number} of the worst points of test images (Views) at the full radius, by PGD from random starts; of views."
    x, y, pset = pairs.to_float(test.images[test.index]), test.labels[test.index], section.given_set
    start = sample_ball(len(x), pset.latent, pset.eps, make_generator("change", section.seed))
    with torch.no_grad(): points = pset.at(x)
    u = pgd(lambda u: cross_entropy(model(points(u)), y), start, pset.eps, steps, pset.eps / 8).u
    with torch.no_grad(): change = points(u) - x
    views = views_to_float(test.corrupted[:, test.index]) - x
    return dict(change=float(change.square().mean()), detail=float(measure_detail(change).mean()),
                change_of_views=float(views.square().mean()), detail_of_views=float(measure_detail(views).mean()))


def continue_packaged(trainings):
    "The settings of the packaged classifiers, and trainings after theirs."
    given = dict(preset="overnight", data="cifar10")
    return given | dict(further=(*presets.resolve("cifar10c_robust", given).further, *trainings))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    mending = commands.add_parser("mend")
    mending.add_argument("file")
    mending.add_argument("--images", type=int, default=8000)
    training = commands.add_parser("train")
    training.add_argument("--set", help="file; else the packaged set")
    training.add_argument("--further", action="append",
                          help="as `further` of 05 has it, once or several times; else the small network is trained")
    training.add_argument("--attacked", type=int, default=250)
    training.add_argument("--restarts", type=int, default=1, help="of AutoPGD at the full radius")
    training.add_argument("--measured", type=int, default=60, help="test images on which the set is measured")
    training.add_argument("fields", nargs="*", metavar="FIELD=VALUE")
    args = parser.parse_args()
    if args.command == "mend": return make_set(args.file, args.images)
    pset = sets.load_set(args.set) if args.set else sets.packaged_set()
    test = pairs.load_views("cifar10", "test", n=args.measured)
    recipe = continue_packaged(args.further) if args.further else RECIPE
    section = RobustCifar10C(presets.resolve("cifar10c_robust", recipe | parse_parameters(args.fields)))
    section.given_set = pset
    measure_set(pset, test, section.seed)
    model, seconds, found = train(section, args.attacked, args.restarts)
    print(f"{seconds:,.0f} s", {k: round(v, 1) for k, v in found.items()}, flush=True)
    print({k: round(v, 5) for k, v in measure_change(section, model, test).items()})


if __name__ == "__main__": main()
