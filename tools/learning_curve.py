"""What is missing to the paper's accuracy on CIFAR-10: passes, or width? Trainings on corruptions, each from nothing.

    python tools/learning_curve.py [patch-16-64-64:2,4,8 patch-32-128-128:2,4 ...] [--test 2000]

Each argument is a network and its passes. The recipe is that of preset `overnight` (notebook 05, method cifar10c),
without a warm start. What was trained before is read. Beside the trainings stands the packaged classifier. The log is
logs/learning_curve_overnight.md.
"""
import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pertnb.core.paths import atomic_write, package_root, provenance
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import KINDS, RobustCifar10C
from pertnb.learn import robust
from pertnb.models.classifier_files import packaged_card
from pertnb.report.tables import PAPER, markdown_table

METHOD = "cifar10c"
TRAININGS = "patch-16-64-64:2,4,8", "patch-32-128-128:2,4,8", "patch-64-256-256:2,4"
BEST = {kind: max(row[column] for row in PAPER["cifar10c_robustness"].values()) for kind, column in KINDS.items()}


def train(net, passes):
    "The section of a training, its classifier and its log."
    asked = dict(preset="overnight", data="cifar10", classifier=net, epochs=passes, warm_start=False)
    section = RobustCifar10C(presets.resolve("cifar10c_robust", asked), "cpu")
    return section, *section.classifier(METHOD)


def judge(section, model, n):
    "Accuracies (%) on the first test images, {kind: value}."
    test, ood = section.test_views(n)
    rows = [robust.measure_accuracy(model, test, "perturbed", clean=True), robust.measure_accuracy(model, ood, "ood")]
    found = robust.summarise(pd.concat(rows).assign(method=METHOD))
    return dict(zip(found.kind, found.accuracy))


def fit_line(rows, kind):
    "Exponent b of a * seconds^-b, fitted to the error of all trainings, and the seconds at which it is the paper's."
    slope, height = np.polyfit(np.log(rows.seconds), np.log(100 - rows[kind]), 1)
    return -slope, float(np.exp((np.log(100 - BEST[kind]) - height) / slope))


def packaged_row():
    "The packaged classifier as a row: the seconds are those of the training it started from, too."
    card, before = packaged_card(METHOD), packaged_card("standard")
    accuracy = {r["kind"]: r["accuracy"] for r in card["accuracy"] if r["kind"] in KINDS}
    passes = sum(c["schedule"]["epochs"] for c in (card, before))
    seconds = sum(c["seconds"] for c in (card, before))
    return dict(net=f"{card['net']['name']}, packaged", passes=passes, seconds=seconds, **accuracy)


def tell(rows):
    "What more time would give, one sentence per kind."
    said = []
    for kind, name in KINDS.items():
        b, seconds = fit_line(rows, kind)
        said.append(f"{name}: the error falls as the {b:.2f}th power of the seconds; at that rate "
                    f"{BEST[kind]:g}% take {seconds / 3600:.1f} core-hours.")
    return "\n".join(f"- {sentence}" for sentence in said)


def draw(rows, packaged):
    "Error over seconds of training, both in powers of ten; returns the figure."
    fig, axes = plt.subplots(1, len(KINDS), figsize=(9.6, 3.2), sharey=True, layout="constrained")
    for ax, (kind, name) in zip(axes, KINDS.items()):
        for net, part in rows.groupby("net", sort=False):
            ax.plot(part.seconds, 100 - part[kind], "o-", label=net)
        ax.plot(packaged["seconds"], 100 - packaged[kind], "k*", ms=10, label="packaged (warm start)")
        ax.axhline(100 - BEST[kind], color="gray", ls=":", label="the paper's best row")
        ax.set(xscale="log", yscale="log", xlabel="seconds of training, one core", title=name)
        ax.set_yticks([5, 10, 20, 40], ["5", "10", "20", "40"])
        ax.minorticks_off()
    axes[0].set_ylabel("error (%)")
    axes[0].legend(fontsize=7)
    return fig


def describe(rows, packaged, n, source):
    "The log, in Markdown."
    shown = pd.DataFrame([*rows.to_dict("records"), packaged]).round(dict(seconds=0) | dict.fromkeys(KINDS, 1))
    shown = shown.astype(dict(seconds=int)).rename(columns=KINDS).set_index("net")
    best = ", ".join(f"{BEST[kind]:g} ({name})" for kind, name in KINDS.items())
    return f"""# What is missing to the paper's accuracy on CIFAR-10?

Made by `python tools/learning_curve.py`: preset overnight, data cifar10, seed {source["seed"]}, 49,000 training images,
two thirds of them corrupted, {n:,} test images (the packaged classifier: 10,000), {source["precision"]},
{source["device"]}, commit {source["commit"]}. Every training begins from nothing; accuracies in %, the best of the
paper's rows have {best}. The packaged classifier
began from the standard one, whose passes and seconds are counted.

{markdown_table(shown).replace("|  |", "| network |", 1)}

{tell(rows)}

A straight line in powers of ten is a rough guide: errors flatten out when a network has learned what it can.

![Error over seconds of training](learning_curve_overnight.png)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainings", nargs="*", default=TRAININGS, metavar="NETWORK:PASSES,PASSES")
    parser.add_argument("--test", type=int, default=2000)
    args = parser.parse_args()
    found = []
    asked = (text.split(":") for text in args.trainings)
    for net, passes in ((net, float(k)) for net, several in asked for k in several.split(",")):
        section, model, log = train(net, passes)
        found.append(dict(net=net, passes=passes, seconds=log.attrs["seconds"], **judge(section, model, args.test)))
        print(found[-1], flush=True)
    rows, packaged, logs = pd.DataFrame(found), packaged_row(), package_root().parent / "logs"
    source = provenance("overnight", "cifar10", section.seed, args.test, rows.seconds.sum(), "cpu")
    path, picture = logs / "learning_curve_overnight.md", logs / "learning_curve_overnight.png"
    with atomic_write(picture) as tmp: draw(rows, packaged).savefig(tmp, format="png", dpi=80)
    with atomic_write(path) as tmp: tmp.write_text(describe(rows, packaged, args.test, source))


if __name__ == "__main__": main()
