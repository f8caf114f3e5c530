"""What a further training changed: answers per image of a classifier before and after it, on the same test images.

    python tools/compare_answers.py BEFORE.csv.xz AFTER.csv.xz [--corruptions]

With --corruptions a second table follows, the accuracies on each corruption. Both files are of tables/overnight/rows,
of this or an earlier commit (git show COMMIT:FILE > BEFORE.csv.xz). Attacks are compared on images that both files
attacked at the same radii: what breaks an image at one radius breaks it at all larger ones, so that an image attacked
at the quartiles as well withstands less at the full radius than one attacked there alone.
"""
import argparse
import sys

import pandas as pd

from package_classifier import ORDER, read_answers  # beside this file
from pertnb.measure import judging
from pertnb.report.tables import markdown_table

NAMES = "before", "after"
ATTACKED = "robust", "worst"  # kinds of rows


def find_radii(rows):
    "The radii of each kind at which each image was judged: Series of tuples by kind and image."
    return rows.groupby(["kind", "image"]).eps.agg(lambda eps: tuple(sorted(eps)))


def read_both(paths):
    "Rows of both files, those that both have: kind, corruption, eps, image, and the answers before and after."
    where, files = ["kind", "corruption", "eps", "image"], [read_answers(path) for path in paths]
    both = pd.concat({name: rows.set_index(where).correct for name, rows in zip(NAMES, files)}, axis=1, join="inner")
    if both.empty: raise SystemExit(f"{' and '.join(paths)} have no image and attack in common")
    radii = pd.concat(dict(zip(NAMES, map(find_radii, files))), axis=1, join="inner")
    both, alike = both.reset_index(), radii.index[radii.before == radii.after]
    attacked = both.kind.isin(ATTACKED)
    fair = both[~attacked | pd.MultiIndex.from_frame(both[["kind", "image"]]).isin(alike)]
    if left_out := both[attacked].image.nunique() - fair[fair.kind.isin(ATTACKED)].image.nunique():
        print(f"left out: {left_out} images that the two files attacked at different radii", file=sys.stderr)
    return fair


def compare(rows):
    "A line per kind and radius: images, accuracies before and after (%), right after or before alone, McNemar's p."
    lines = []
    for (kind, eps), part in rows.groupby(["kind", "eps"]):
        line = dict(what=f"{kind} {eps:.1f}" if eps else kind, images=part.image.nunique(), order=ORDER.index(kind))
        line |= {name: f"{100 * part[name].mean():.1f}" for name in NAMES}
        wins, losses, p = judging.count_wins(part.after, part.before)
        told = f"{wins}", f"{losses}", f"{p:.2g}"
        if part.corruption.nunique() > 1: told = "–", "–", "–"  # the answers of an image are not independent
        lines.append(line | dict(zip(("after alone", "before alone", "p"), told)))
    return pd.DataFrame(lines).sort_values("order", kind="stable").drop(columns="order").set_index("what")


def compare_corruptions(rows):
    "A line per corruption, the hardest after it first: accuracies before and after (%); those trained on come first."
    parts = [g for _, g in rows[rows.kind.isin(("perturbed", "ood"))].groupby("kind", sort=False)]
    means = [100 * g.groupby("corruption")[list(NAMES)].mean().sort_values("after") for g in parts]
    return pd.concat(means).map("{:.1f}".format)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=2, metavar="FILE")
    parser.add_argument("--corruptions", action="store_true", help="also the accuracies on each corruption")
    args = parser.parse_args()
    rows = read_both(args.files)
    print(markdown_table(compare(rows), "answers"))
    if args.corruptions: print("\n" + markdown_table(compare_corruptions(rows), "corruption"))


if __name__ == "__main__": main()
