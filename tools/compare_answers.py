"""What a further training changed: answers per image of a classifier before and after it, on the same test images.

    python tools/compare_answers.py BEFORE.csv.xz AFTER.csv.xz [--corruptions]

With --corruptions a second table follows, the accuracies on each corruption. Both files are of tables/overnight/rows,
of this or an earlier commit (git show COMMIT:FILE > BEFORE.csv.xz). Attacks are compared on images that both files
attacked at the same radii: what breaks an image at one radius breaks it at all larger ones, so that an image attacked
at the quartiles as well withstands less at the full radius than one attacked there alone. Their p-values stand beside
those after Holm's correction for all tests under attack.
"""
import argparse
import sys

import pandas as pd
from statsmodels.stats.multitest import multipletests

from package_classifier import ATTACKED, ORDER, keep_common, read_answers  # beside this file
from pertnb.measure import judging
from pertnb.report.tables import markdown_table

NAMES = "before", "after"
WHERE = ["kind", "corruption", "eps", "image"]


def pair_answers(rows):
    "A line per answer that both files have, with the columns before and after."
    return rows.pivot(index=WHERE, columns="method", values="correct").dropna().astype(bool).reset_index()


def read_both(paths):
    "Rows of both files, those that both have: kind, corruption, eps, image, and the answers before and after."
    rows = pd.concat([read_answers(path).assign(method=name) for name, path in zip(NAMES, paths)])
    fair, attacked = pair_answers(keep_common(rows)), rows[rows.kind.isin(ATTACKED)]
    if pair_answers(rows).empty: raise SystemExit(f"{' and '.join(paths)} have no image and attack in common")
    both = set.intersection(*(set(attacked.image[attacked.method == name]) for name in NAMES))
    if left_out := len(both - set(fair.image[fair.kind.isin(ATTACKED)])):
        print(f"left out: {left_out} images that the two files attacked at different radii", file=sys.stderr)
    return fair


def correct_attacks(lines):
    "Set the column Holm of the lines of attacks: their p-values, corrected for being so many tests."
    attacked = [line for line in lines if line["what"].startswith(ATTACKED)]
    if not attacked: return
    _, corrected, _, _ = multipletests([line["chance"] for line in attacked], method="holm")
    for line, p in zip(attacked, corrected): line["Holm"] = f"{p:.2g}"


def compare(rows):
    "A line per kind and radius: images, accuracies before and after (%), right after or before alone, McNemar's p."
    lines = []
    for (kind, eps), part in rows.groupby(["kind", "eps"]):
        line = dict(what=f"{kind} {eps:.1f}" if eps else kind, images=part.image.nunique(), order=ORDER.index(kind))
        line |= {name: f"{100 * part[name].mean():.1f}" for name in NAMES}
        wins, losses, p = judging.count_wins(part.after, part.before)
        told = f"{wins}", f"{losses}", f"{p:.2g}"
        if part.corruption.nunique() > 1: told = "–", "–", "–"  # the answers of an image are not independent
        lines.append(line | dict(zip(("after alone", "before alone", "p"), told), Holm="–", chance=p))
    correct_attacks(lines)
    return pd.DataFrame(lines).sort_values("order", kind="stable").drop(columns=["order", "chance"]).set_index("what")


def compare_corruptions(rows):
    "A line per corruption, the hardest after it first: accuracies before and after (%); those trained on come first."
    parts = [rows[rows.kind == kind] for kind in ("perturbed", "ood")]
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
