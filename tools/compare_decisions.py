"""Decide "certified at r" by a fixed number of draws and by the sequential test: 06's table on many images.

    python tools/compare_decisions.py [PRESET] [--images N] [--fixed M] [--noises NOISE ...] [-p FIELD VALUE ...]

Four noises and four radii make 16 decisions per image, 4,800 for 300 images. The sequential test decides for N images,
the fixed number of draws for the first M of them (0: for none). Rows are kept a few images at a time: a run that was
ended goes on where it was, and a larger N takes up what was decided for a smaller one, if neither is above the
preset's n_test. Only the classifiers of the noises asked for are taken or trained. Last, the rows go to
tables/PRESET/rows, and a summary of all noises that have rows there to logs/decisions_PRESET.md. -p changes a setting
of the notebook.
"""
import argparse
import json

import pandas as pd
from scipy.special import ndtr

from pertnb.core.paths import repo_root
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_certified import NOISES, Cifar10C, name_noise
from pertnb.experiments.cifar10c_decisions import (judge_decisions, tabulate_decided, tabulate_decisions,
                                                   tabulate_outcomes, tidy_numbers)
from pertnb.report.tables import PAPER, markdown_table

from package_classifier import landed_file, write_decisions  # beside this file


def describe_draws(section, noise, rows):
    "A row for each radius: what the votes have to reach, % certified, draws."
    told = []
    for radius, g in rows.groupby("radius"):
        mine = g.draws[g.certified]
        told.append({"noise": name_noise(noise), "radius": f"{radius:.2f}", "images": len(g),
                     "needed": f"{ndtr(radius / section.sigma(noise)):.5f}",
                     "certified and right (%)": f"{100 * (g.certified & g.correct).mean():.1f}",
                     "undecided": int(g.undecided.sum()), "draws, all": f"{g.draws.mean():,.0f}",
                     "draws, certified": f"{mine.mean():,.0f}" if len(mine) else "–",
                     "median": f"{mine.median():,.0f}" if len(mine) else "–"})
    return told


def write_log(section, compared):
    "Write logs/decisions_PRESET.md from the rows of all noises that have landed, and the lines about fixed draws."
    landed = {noise: landed_file(section, f"decisions_{noise.strip('%')}") for noise in NOISES}
    told = [line for noise, path in landed.items() if path.is_file()
            for line in describe_draws(section, noise, pd.read_csv(path))]
    s, table = section.certified, markdown_table(pd.DataFrame(told).astype(str).set_index("noise"))
    text = ["# Decisions by the sequential test, by noise and radius",
            f"Preset `{section.preset}`, {section.data}, seed {section.seed}, float32, α = {s.alpha:g}, at most "
            f"{s.n_most:,} draws after {s.n0} that choose the class. *Needed* is the probability of that "
            f"class that the radius asks for; the fixed test takes {s.n0 + s.n_fixed:,} draws. Rows: "
            f"[tables](../tables/{section.preset}/rows), decisions_*.", table, *compared]
    (repo_root() / "logs" / f"decisions_{section.preset}.md").write_text("\n\n".join(text) + "\n", encoding="utf-8")


def compare(section, args):
    "Markdown: both tests on the first images, with draws of their own."
    both = section.compare_decisions(tuple(args.noises))
    numbers = tidy_numbers(tabulate_decisions(both)).pivot_table("value", "row", "column", sort=False)
    return ["## Beside fixed draws", f"The first {args.fixed} images, with draws of their own. Undecided and refused "
            "decisions don't certify.", markdown_table(numbers.map("{:,.0f}".format).rename_axis(None)),
            *judge_decisions(both, section.certified.alpha)]


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
    section.noises = tuple(args.noises)
    rows = section.decide_all(tuple(args.noises))
    for noise in args.noises: write_decisions(section, noise)
    caption = (f"{len(rows):,} decisions 'certified at r' on {args.images} images, {len(args.noises)} noises and "
               f"{rows.radius.nunique()} radii, of the sequential test, which may take {settings.n_most:,} draws, "
               f"against {settings.n_fixed:,} draws that are fixed beforehand (the {settings.n0} that choose the class "
               f"included in both).")
    numbers, source = tidy_numbers(tabulate_outcomes(rows)), section.source(args.images)
    section.write_table(numbers, "cifar10c_outcomes", source, caption, digits=1)
    caption = (f"Certified accuracy (%) by the sequential test on {args.images} images, and draws per decision; the "
               "paper's numbers are of 10,000 draws, in its own set, at the quartiles of that set (2.7, 3.9, 10.2).")
    paper = {row: {at: cells[at] for at in section.quartiles()} for row, cells in PAPER["cifar10c_certified"].items()}
    numbers = tidy_numbers(tabulate_decided(rows))
    section.write_table(numbers, "cifar10c_decided", source, caption, digits=1, paper=paper)
    write_log(section, compare(section, args) if args.fixed else [])


if __name__ == "__main__": main()
