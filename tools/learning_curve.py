"""What separates our accuracy from the paper's: passes, or width? Trainings on corruptions, each from nothing.

    python tools/learning_curve.py [NETWORK:PASSES,PASSES ...] [--test 2000]

The recipe is that of preset `overnight` (notebook 05, method cifar10c), without a warm start. What was trained before
is read. Beside the trainings stands the packaged classifier. The log is logs/learning_curve_overnight.md.
"""
import argparse

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pertnb.core.files import atomic_write
from pertnb.core.paths import package_root, provenance
from pertnb.experiments import presets
from pertnb.experiments.cifar10c import RobustSettings
from pertnb.experiments.cifar10c_robust import KINDS, RobustCifar10C
from pertnb.learn import robust
from pertnb.measure import judging
from pertnb.models.classifier_files import packaged_card
from pertnb.models.nets import read_groups
from pertnb.report.tables import PAPER, markdown_table

METHOD = "cifar10c"
TRAININGS = "patch-16-64-64:2,4,8,16", "patch-32-128-128:2,4,8,16", "patch-64-256-256:2,4"
ROW = robust.METHODS[METHOD]
THEIRS = {kind: PAPER["cifar10c_robustness"][ROW][column] for kind, column in KINDS.items()}


def parse_training(text):
    "A network and its passes; ValueError names the argument."
    net, _, passes = text.partition(":")
    try: return net, [float(k) for k in passes.split(",")]
    except ValueError:
        raise ValueError(f"expected NETWORK:PASSES,PASSES, such as {TRAININGS[0]}, got {text!r}") from None


def train(net, passes):
    "The section of a training, its classifier and its log."
    asked = dict(preset="overnight", data="cifar10", classifier=net, epochs=passes, further=(), warm_start=False)
    section = RobustCifar10C(presets.resolve("cifar10c_robust", asked), "cpu")
    return section, *section.classifier(METHOD)


def measure(section, model, n):
    "Rows of judging.measure_accuracy on the first test images: clean, perturbed and out of distribution."
    test, ood = section.test_views(n)
    return pd.concat([judging.measure_accuracy(model, test, "perturbed", clean=True),
                      judging.measure_accuracy(model, ood, "ood")])


def judge(section, model, n):
    "Accuracies (%) on the first test images, {kind: value}, and half of the widest 95% interval."
    found = judging.summarise(measure(section, model, n).assign(method=METHOD))
    return dict(zip(found.kind, found.accuracy)), (found.high - found.low).max() / 2


def count_channels(net): return read_groups(net)[0][1]


def fit_errors(rows, kind):
    "Logarithms: height, exponents of passes and of channels in the error (%), by least squares over all trainings."
    columns = [np.ones(len(rows)), np.log(rows.passes), np.log(rows.net.map(count_channels))]
    return np.linalg.lstsq(np.stack(columns, 1), np.log(100 - rows[kind]), rcond=None)[0]


def tell_last_doubling(rows, kind):
    "What the last doubling of the passes leaves in the networks that have the most passes."
    most, errors = rows.passes.max(), rows.assign(error=100 - rows[kind]).set_index(["net", "passes"]).error
    left = [errors[net, most] / errors[net, most / 2] for net in rows.net[rows.passes == most]
            if (net, most / 2) in errors.index]
    return f"; the last doubling, to {most:g} passes, {min(left):.0%} to {max(left):.0%}" if left else ""


def tell(rows):
    "What passes and channels give, one sentence per kind."
    if rows.net.nunique() < 2 or rows.passes.nunique() < 2: return ["Too few trainings to tell passes from width."]
    said = []
    for kind, name in KINDS.items():
        _, b, c = fit_errors(rows, kind)
        said.append(f"{name}: over all trainings, twice the passes leave {2**b:.0%} of the error, twice the channels "
                    f"{2**c:.0%} (least squares){tell_last_doubling(rows, kind)}.")
    return said


def packaged_row():
    "The packaged classifier, as a row: it began after the first training of the standard one."
    card, before = packaged_card(METHOD), packaged_card("standard")
    accuracy = {r["kind"]: r["accuracy"] for r in card["accuracy"] if r["kind"] in KINDS}
    clean = RobustSettings(**before["settings"]).passes("standard")[0]
    passes = RobustSettings(**card["settings"]).tell_passes(METHOD)
    seconds = sum(row["seconds"] for row in before["log"] if row.get("training", 1) == 1)
    return dict(net=f"{card['net']['name']}, packaged", passes=f"{clean:g} clean, {passes}",
                seconds=card["seconds"] + seconds, **accuracy)


def tell_fit():
    "How well the packaged classifier knows the images that it was trained on."
    last = [row for row in packaged_card(METHOD)["log"] if "accuracy" in row][-1]
    return (f"The packaged classifier was right on {last['accuracy']:.1%} of the images of its last pass that was not "
            "taught, corrupted as they were: little was left for more such passes to fit.")


def draw(rows, packaged):
    "Error over seconds of training, both in powers of ten; returns the figure."
    fig, axes = plt.subplots(1, len(KINDS), figsize=(9.6, 3.2), sharey=True, layout="constrained")
    for ax, (kind, name) in zip(axes, KINDS.items()):
        for net, part in rows.groupby("net", sort=False):
            ax.plot(part.seconds, 100 - part[kind], "o-", label=net)
        ax.plot(packaged["seconds"], 100 - packaged[kind], "k*", ms=10, label="packaged (warm start)")
        ax.axhline(100 - THEIRS[kind], color="gray", ls=":", label="the paper's row")
        ax.set(xscale="log", yscale="log", xlabel="seconds of training, one core", title=name)
        ax.set_yticks([5, 10, 20, 40], ["5", "10", "20", "40"])
        ax.minorticks_off()
    axes[0].set_ylabel("error (%)")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    return fig


def describe(rows, packaged, command, n, widest, source):
    "The log, in Markdown."
    paper = dict(net=f"the paper's row {ROW}", passes="", seconds="", **THEIRS)
    shown = pd.DataFrame([*rows.to_dict("records"), packaged, paper])
    for kind in KINDS: shown[kind] = shown[kind].map("{:.1f}".format)
    shown["passes"] = [f"{v:g}" if isinstance(v, float) else v for v in shown.passes]
    shown["seconds"] = [f"{v:,.0f}" if isinstance(v, float) else v for v in shown.seconds]
    sentences = "\n".join(f"- {sentence}" for sentence in [*tell(rows), tell_fit()])
    return f"""# What separates our accuracy from the paper's on CIFAR-10?

Made by `{command}`: preset overnight, data cifar10, seed {source["seed"]}, {source["n"]:,} training images, two thirds
of them corrupted, {n:,} test images (95% intervals of at most ±{widest:.1f}), {source["precision"]},
{source["device"]}, commit {source["commit"]}. Every training begins from nothing. The packaged classifier began from
the standard one, had another rate, and is judged on 10,000 images: it is not fitted. Accuracies in %.

{markdown_table(shown.rename(columns=KINDS).set_index("net"), "network")}

{sentences}

Powers of passes and channels are means over the whole range: errors flatten out. They are not extrapolated.

![Error over seconds of training](learning_curve_overnight.png)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainings", nargs="*", default=TRAININGS, metavar="NETWORK:PASSES,PASSES")
    parser.add_argument("--test", type=int, default=2000)
    args = parser.parse_args()
    found, widths, logs = [], [], package_root().parent / "logs"
    for net, several in [parse_training(text) for text in args.trainings]:
        for passes in several:
            section, model, log = train(net, passes)
            accuracies, half = judge(section, model, args.test)
            found.append(dict(net=net, passes=passes, seconds=log.attrs["seconds"], **accuracies))
            widths.append(half)
            print(found[-1], flush=True)
    rows, packaged, n = pd.DataFrame(found), packaged_row(), len(section.views(section.robust)[0])
    source = provenance("overnight", "cifar10", section.seed, n, rows.seconds.sum(), "cpu")
    asked = [] if args.trainings is TRAININGS else args.trainings
    if args.test != parser.get_default("test"): asked = [*asked, f"--test {args.test}"]
    command = " ".join(["python tools/learning_curve.py", *asked])
    text = describe(rows, packaged, command, args.test, max(widths), source)
    with atomic_write(logs / "learning_curve_overnight.png") as tmp:
        draw(rows, packaged).savefig(tmp, format="png", dpi=80)
    with atomic_write(logs / "learning_curve_overnight.md") as tmp: tmp.write_text(text, encoding="utf-8")


if __name__ == "__main__": main()
