"""Does another set of corruptions teach a packaged classifier more? Train it further in that set, and judge it.

    python tools/train_in_set.py SET.safetensors [--method cvae_adversarial] [--passes 6]

The set may come from tools/add_mean_filter.py. The training goes on from the packaged classifier, and is judged without
attacks on all test images, clean and corrupted. What was trained before is read. Answers go to
tables/overnight/rows/classifier_METHOD_in_STEM.csv.xz, a line per image; tools/compare_answers.py compares them with
those of another set.
"""
import argparse
from dataclasses import replace
from pathlib import Path

from package_classifier import land_rows, spread_answers  # beside this file
from pertnb.core.paths import list_origin, provenance
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import RobustCifar10C
from pertnb.learn import robust
from pertnb.measure import judging
from pertnb.sets.sets import PerturbationSet


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="of the set")
    methods = [m for m in robust.METHODS if m.startswith("cvae")]
    parser.add_argument("--method", choices=methods, default="cvae_adversarial")
    parser.add_argument("--passes", type=int, default=6)
    args = parser.parse_args()
    base = presets.resolve("cifar10c_robust", dict(preset="overnight", data="cifar10"))
    entry = f"{args.method}:{args.passes}:pad=4:lr_warm=0.03:early_stopping=0"
    section = RobustCifar10C(replace(base, further=(*base.further, entry)))
    pset, n = PerturbationSet.load(args.file), section.robust.n_judged
    section.given_set = pset
    model, log = section.classifier(args.method)
    rows = judging.judge_unattacked(model, *section.test_views(n))
    stem = f"classifier_{args.method}_in_{Path(args.file).stem}"
    land_rows(section, spread_answers(rows), stem)
    seconds = robust.last_training(log).seconds.sum()
    source = provenance(section.preset, section.data, section.seed, n, seconds, section.device)
    print(list_origin(source))
    for what in ("kind", "corruption"): print((100 * rows.groupby(what).correct.mean()).round(2).to_string())


if __name__ == "__main__": main()
