"""How good are packaged classifiers together? The mean of their probabilities, judged and attacked as one classifier.

    python tools/judge_mean.py METHOD METHOD [...] [--attacked 750]

Nothing is trained. Judged as at preset `overnight`: clean and corrupted on all test images, by PGD and AutoPGD, which
see the gradients of all members, on the first so many. What was judged before is read. Answers go to
tables/overnight/rows/mean_METHOD_METHOD.csv.xz, a line per image; tools/compare_answers.py compares them with those of
one classifier.
"""
import argparse

from package_classifier import land_rows, landed_file, spread_answers  # beside this file
from pertnb.core.paths import list_origin, provenance
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import RobustCifar10C, tabulate_accuracy
from pertnb.models.classifier_files import packaged_classifier, packaged_names
from pertnb.models.nets import MeanClassifier, count_parameters
from pertnb.report.tables import markdown_table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="+", choices=packaged_names(), metavar="METHOD")
    parser.add_argument("--attacked", type=int, default=750, help="test images that are attacked")
    args = parser.parse_args()
    attacked = dict(n_test=args.attacked, n_quartiles=args.attacked)
    section = RobustCifar10C(presets.resolve("cifar10c_robust", dict(preset="overnight", data="cifar10") | attacked))
    model = MeanClassifier(*map(packaged_classifier, args.methods)).eval().to(section.device)
    rows, stem = section.judge(model, section.seed)[0], "_".join(["mean", *args.methods])
    land_rows(section, spread_answers(rows), stem)
    table = tabulate_accuracy(rows.assign(method=stem), {stem: stem}, section.radii(section.robust))
    shown = table.set_index("column")[["accuracy", "low", "high"]].map("{:.1f}".format)
    print(markdown_table(shown.assign(n=table.n.map("{:.0f}".format).to_numpy()), "answers"))
    source = provenance(section.preset, section.data, section.seed, len(rows.image.unique()), None, section.device)
    weights = f"{count_parameters(model) / 1e6:.1f} million weights"
    print(list_origin(source), weights, landed_file(section, stem).name, sep=", ")


if __name__ == "__main__": main()
