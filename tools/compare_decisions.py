"""Decide "certified at r" by a fixed number of draws and by the sequential test: the table of notebook 06 on many images.

    python tools/compare_decisions.py [PRESET] [--images N] [--fixed M] [-p FIELD VALUE ...]

Four noises and four radii make 16 decisions per image, 4,800 for 300 images. The sequential test decides for N images, the fixed
number of draws for the first M of them. Rows are kept a few images at a time: a run that was ended goes on where it was, and a larger
N takes up what was decided for a smaller one. Last, the rows go to tables/PRESET/rows. -p changes a setting of the notebook.
"""
import argparse
import json

from pertnb.experiments import presets
from pertnb.experiments.cifar10c_certified import (Cifar10C, judge_decisions, tabulate_decisions,
                                                   tabulate_outcomes, tidy_numbers)

from package_classifier import write_decisions  # beside this file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="quick")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--fixed", type=int, default=30)
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("FIELD", "VALUE"))
    args = parser.parse_args()
    usual = presets.resolve("cifar10c_certified", dict(preset=args.preset))
    n = dict(n_test=max(args.images, usual.n_test), n_decided=args.images, n_certified=args.fixed, n_compared=args.fixed)
    changed = {field: json.loads(value) for field, value in args.p}
    settings = presets.resolve("cifar10c_certified", dict(preset=args.preset) | n | changed)
    section = Cifar10C(settings)
    rows = section.decide_all()
    for noise in section.noises: write_decisions(section, noise)
    caption = (f"{len(rows):,} decisions 'certified at r' on {args.images} images, four noises and four radii, of the sequential "
               f"test, which may take {settings.n_most:,} draws, against {settings.n_fixed:,} draws that are fixed beforehand "
               f"(the {settings.n0} that choose the class included in both).")
    section.write_table(tidy_numbers(tabulate_outcomes(rows)), "cifar10c_outcomes", section.source(args.images), caption, digits=1)
    both = section.compare_decisions()
    print("\n".join(judge_decisions(both, settings.alpha)))
    caption = f"The same on {args.fixed} images by both tests, with draws of their own."
    section.write_table(tidy_numbers(tabulate_decisions(both)), "cifar10c_decisions", section.source(args.fixed), caption, digits=0)


if __name__ == "__main__": main()
