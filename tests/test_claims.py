"""Sentences of the notebooks that tables support, and sentences that no table supports and that must not come back.

README's sentences have their own tests in test_companion.py.
"""
import csv
import json
import re

import pytest

from pertnb.report.tables import PAPER

UNSUPPORTED = {
    "classifiers that withstand": "accuracy in the worst case at the full radius is far below that of clean images",
    "are no worse": "OAE and KL have no better or worse",
    "to the letter": "the inventory lists where `paper` differs from the text",
    "adversarial examples at full radius": "each is of the smallest radius that breaks its image",
    "segmentation that withstands": "08 attacks with PGD alone",
}


def prose(root):
    "Markdown of the experiment notebooks, README and the inventory, in lower case: {name: text}."
    found = {"README.md": (root / "README.md").read_text(encoding="utf-8")}
    for path in (root / "nbs").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found[path.name] = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return {name: " ".join(text.lower().split()) for name, text in found.items()}


@pytest.mark.parametrize("words", UNSUPPORTED)
def test_what_nothing_supports_is_not_said(root, words):
    code, kept = (root / "pertnb").rglob("*.py"), [*(root / "figures").glob("*/*.md"), *(root / "tables").glob("*/*.md")]
    captions = "\n".join(p.read_text(encoding="utf-8").lower() for p in [*code, *kept])
    assert words not in captions and [name for name, text in prose(root).items() if words in text] == [], UNSUPPORTED[words]


def numbers(root, path):
    "{(row, column): value} of a tidy table."
    with open(root / "tables" / path, newline="", encoding="utf-8") as file:
        return {(line["row"], line["column"]): float(line["value"]) for line in csv.DictReader(file) if line["value"]}


def every(at, column, holds): return all(holds(at, row) for row, c in at if c == column)


SUPPORTED = [ # notebook, what it says, its table, and when the table supports it
    ("01_mnist_linf.ipynb", "at `quick` the squared error of pgd ae is above *no change* in all four rows", "quick/mnist_linf_mse.csv",
     lambda at: len({row for row, _ in at}) == 4 and every(at, "PGD AE", lambda at, row: at[row, "PGD AE"] > at[row, "No change"])),
    ("01_mnist_linf.ipynb", "after the paper's schedule it is a quarter of it", "paper/mnist_linf_mse.csv",
     lambda at: every(at, "PGD AE", lambda at, row: .2 < at[row, "PGD AE"] / at[row, "No change"] < .3)),
    ("02_mnist_rts.ipynb", "have reconstruction errors of .041, .047 and .042, where the paper's are .04, .05 and .05, and kl divergences of 14 nats, where the paper's are 22 to 24",
     "overnight/mnist_rts_nearest_pose.csv", lambda at: [f'{at[row + ", nearest, pose encoders", "Recon. err"]:.3f}' for row in PAPER["mnist_rts"]] == ["0.041", "0.047", "0.042"]
     and [line["Recon. err"] for line in PAPER["mnist_rts"].values()] == [.04, .05, .05] and {round(at[row + ", nearest, pose encoders", "KL"]) for row in PAPER["mnist_rts"]} == {14}
     and {round(line["KL"]) for line in PAPER["mnist_rts"].values()} == {22, 24}),
    ("02_mnist_rts.ipynb", "by .0140 with fresh partners, by .0183 with one per image (31% more), and by .0147 with five (5% more)", "overnight/mnist_rts_nearest_pose.csv",
     lambda at: [f'{at[f"{row}, nearest, pose encoders", "PGD AE"] - at[f"{row}, nearest, pose encoders", "entropy of x~"]:.4f}' for row in ("RTS", "RTS-1", "RTS-5")]
     == ["0.0140", "0.0183", "0.0147"]),
    ("02_mnist_rts.ipynb", "withstands the worst of 875 true poses on 12.5% of 200 images", "overnight/mnist_rts_nearest_pose_robust.csv",
     lambda at: at["CVAE adversarial training", "Worst true"] == 12.5 and at["Standard training", "Worst true"] == 0 == at["CVAE data augmentation", "Worst true"]
     and at["CVAE adversarial training", "Random true"] >= at["True perturbations", "Random true"]),
    ("02_mnist_rts.ipynb", "training on random true poses on 29.5%", "overnight/mnist_rts_nearest_pose_robust.csv",
     lambda at: at["True perturbations", "Worst true"] == 29.5),
    ("02_mnist_rts.ipynb", "trained for 3 passes in the released network's set it did so on none", "overnight/mnist_rts_nearest_released_robust.csv",
     lambda at: at["CVAE adversarial training", "Worst true"] == 0),
    ("09_mi_certified.ipynb", "31.7% of the pixels are right, 10.9% are certified at the median radius, 5.6% at the third quartile and none at the full one",
     "overnight/mi_certified.csv", lambda at: [round(at["Smoothed, each pixel", column], 1) for column in ("Perturbed", "eps 50%", "eps 75%", "eps full")]
     == [31.7, 10.9, 5.6, 0.]),
    ("README.md", "at full radius, after 10 restarts, adversarial training in the set beats training on corruptions on",
     "overnight/cifar10c_robustness.csv",
     lambda at: at["CIFAR10-C data augmentation", "Perturbed"] > at["CVAE adversarial training", "Perturbed"]
     and at["CIFAR10-C data augmentation", "eps full worst"] < at["CVAE adversarial training", "eps full worst"]),
    ("05_cifar10c_robust.ipynb", "at the full radius both adversarial trainings come first, and points of the set after training on corruptions.",
     "overnight/cifar10c_robustness.csv", lambda at: at["CVAE data augmentation", "eps full worst"] < at["CIFAR10-C data augmentation", "eps full worst"]
     < at["CVAE adversarial training", "eps full worst"] < at["CVAE adversarial training, real pairs", "eps full worst"]),
]


@pytest.mark.parametrize("name, sentence, path, holds", SUPPORTED, ids=[s[1][:50] for s in SUPPORTED])
def test_what_is_said_stands_in_its_table(root, name, sentence, path, holds):
    assert sentence in prose(root)[name] and holds(numbers(root, path))


def test_full_radius_orderings_name_their_attack():
    "Methods are ordered at the full radius by the worst case of three attacks, or the sentence says that it is PGD alone."
    import pandas as pd
    from pertnb.report.cifar10c_plots import caption_curves
    from pertnb.report.lighting_plots import judge_adversarial
    rows = [dict(kind=kind, column=column, row=row, value=v, n=9)
            for kind, column in (("clean", "Clean"), ("robust", "eps full"), ("worst", "eps 50% worst"), ("worst", "eps full worst"))
            for row, v in (("a", 1.), ("b", 2.))]
    assert re.search(r"In the worst case of three attacks the highest is 2.0% at the median radius \(b\) and 2.0% at the full one \(b\)", caption_curves(pd.DataFrame(rows)))
    table = pd.DataFrame([dict(row=row, column="eps full", value=v) for row, v in (("CVAE adversarial training", 2.), ("MI data augmentation", 1.))])
    assert judge_adversarial(table).startswith("under PGD alone") and "a stronger attack" in judge_adversarial(table)
    strong = judge_adversarial(table, "AutoPGD")
    assert strong.startswith("under AutoPGD, adversarial") and "stronger" not in strong and "PGD alone" not in strong
