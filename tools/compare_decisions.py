"""Decide "certified at r" by a fixed number of draws and by the sequential test: 06's table on many images.

    python tools/compare_decisions.py [PRESET] [--images N] [--fixed M] [--noises NOISE ...] [-p FIELD VALUE ...]

Four noises and four radii make 16 decisions per image, 4,800 for 300 images. The sequential test decides for N images,
the fixed number of draws for the first M of them (0: for none). Rows are kept a few images at a time: a run that was
ended goes on where it was, and a larger N takes up what was decided for a smaller one. Last, the rows go to
tables/PRESET/rows. -p changes a setting of the notebook.
"""
import argparse
import json

from pertnb.experiments import presets
from pertnb.experiments.cifar10c_certified import (NOISES, Cifar10C, judge_decisions, tabulate_decided,
                                                   tabulate_decisions, tabulate_outcomes, tidy_numbers)
from pertnb.report.tables import PAPER

from package_classifier import write_decisions  # beside this file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="quick")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--fixed", type=int, default=30)
    parser.add_argument("--noises", nargs="+", default=NOISES, choices=NOISES, metavar="NOISE")
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("FIELD", "VALUE"))
    args = parser.parse_args()
    usual = presets.resolve("cifar10c_certified", dict(preset=args.preset))
    n = dict(n_test=max(args.images, usual.n_test), n_decided=args.images)
    if args.fixed: n |= dict(n_certified=args.fixed, n_compared=args.fixed)
    changed = {field: json.loads(value) for field, value in args.p}
    settings = presets.resolve("cifar10c_certified", dict(preset=args.preset) | n | changed)
    section = Cifar10C(settings)
    rows = section.decide_all(tuple(args.noises))
    for noise in args.noises: write_decisions(section, noise)
    caption = (f"{len(rows):,} decisions 'certified at r' on {args.images} images, {len(args.noises)} noises and "
               f"{rows.radius.nunique()} radii, of the sequential test, which may take {settings.n_most:,} draws, "
               f"against {settings.n_fixed:,} draws that are fixed beforehand (the {settings.n0} that choose the class "
               f"included in both).")
    numbers, source = tidy_numbers(tabulate_outcomes(rows)), section.source(args.images)
    section.write_table(numbers, "cifar10c_outcomes", source, caption, digits=1)
    caption = (f"Certified accuracy (%) by the sequential test on {args.images} images, and draws per decision; the "
               "paper's numbers are of 10,000 draws, on its own set, at the same quartiles.")
    paper = {row: {at: cells[at] for at in section.quartiles()} for row, cells in PAPER["cifar10c_certified"].items()}
    numbers = tidy_numbers(tabulate_decided(rows))
    section.write_table(numbers, "cifar10c_decided", source, caption, digits=1, paper=paper)
    if not args.fixed: return
    both = section.compare_decisions(tuple(args.noises))
    print("\n".join(judge_decisions(both, settings.alpha)))
    caption = f"The same on {args.fixed} images by both tests, with draws of their own."
    numbers, source = tidy_numbers(tabulate_decisions(both)), section.source(args.fixed)
    section.write_table(numbers, "cifar10c_decisions", source, caption, digits=0)


if __name__ == "__main__": main()
