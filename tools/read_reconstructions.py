"""What of each corruption do the packaged sets hold? Classifiers read real corruptions, and what the sets make of
them.

    python tools/read_reconstructions.py [FILE ...] [--n 500]

Each test image with each corruption is encoded and decoded again (its reconstruction); its latent is also decoded
beside another image (a transfer: the corruption of one photograph on another). Where a classifier that was trained in
the set reads the reconstructions but not the corruptions, the set lacks what makes them hard. The log goes to
logs/reconstructions_overnight.md; of sets given as files the tables are printed, and no log is written.
"""
import argparse

import pandas as pd
import torch

from pertnb.core.files import atomic_write
from pertnb.core.paths import provenance, repo_root
from pertnb.core.random import make_generator
from pertnb.data.pairs import evaluation_pairs, load_views, to_float
from pertnb.measure.judging import is_correct
from pertnb.models.classifier_files import packaged_classifier
from pertnb.report.tables import markdown_table
from pertnb.sets.sets import encode_pairs, load_set, packaged_set

SETS = "cifar10c", "cifar10c_small"
READERS = {"standard": "standard", "cvae_adversarial": "adversarial"}  # packaged classifiers: their columns


@torch.no_grad()
def decode_all(pset, x, u, batch=250):
    "Points (N, C, H, W) in [0, 1] of images x, uint8 (N, C, H, W), at u (N, K)."
    return torch.cat([pset.perturb(to_float(a), b).clamp(0, 1) for a, b in zip(x.split(batch), u.split(batch))])


def exchange(kind, seed):
    "For each pair (N,) another one of the same corruption, at random."
    other, gen = torch.empty_like(kind), make_generator("exchange", seed)
    for k in kind.unique():
        rows = (kind == k).nonzero()[:, 0]
        other[rows] = rows[torch.randperm(len(rows), generator=gen)]
    return other


def read_set(pset, views, seed):
    "By corruption: error (x 1000, and as % of the images' variance), length of latents, % right by each reader."
    x, x_tilde, image, kind = evaluation_pairs(views)
    u = encode_pairs(pset, x, x_tilde)
    decoded = decode_all(pset, x, u)
    error = 1000 * (decoded - to_float(x_tilde)).square().mean((1, 2, 3))
    moved = decode_all(pset, x, u[exchange(kind, seed)])
    images = dict(real=x_tilde, reconstruction=decoded, transfer=moved)
    own = 1000 * to_float(x_tilde).var((2, 3), unbiased=False).mean(1)
    rows = pd.DataFrame({"error": error.numpy(), "own": own.numpy(), "‖u‖": u.norm(dim=1).numpy()})
    for method, reader in READERS.items():
        model = packaged_classifier(method)
        for what, pictures in images.items():
            rows[f"{reader}, {what}"] = 100. * is_correct(model, pictures, views.labels[image]).numpy()
    by = rows.groupby([views.names[k] for k in kind.tolist()], sort=False).mean()
    table = pd.concat([by, rows.mean().to_frame("all").T])
    table.insert(1, "relative", 100 * table.error / table.pop("own"))
    return table


def describe(tables, source):
    "The log, in Markdown."
    text = [f"""# What the packaged sets hold of each corruption

Made by `python tools/read_reconstructions.py`: data cifar10, seed {source["seed"]}, {source["n"]} test images x 12
corruptions, float32, {source["device"]}, commit {source["commit"]}. *Error*: of the reconstruction by the mean of
the posterior, x 1000, mean squared. *Relative* (%): the same as a share of the variance within the corrupted images,
of which contrast leaves little. *‖u‖*: mean length of the latents. Then accuracies (%) of the packaged classifiers
`standard` and `cvae_adversarial` (trained in the set `cifar10c`), as packaged at that commit, on *real* corruptions,
their *reconstruction*, and the *transfer* of the latent to another image. Where a reconstruction is read far better
than what it reconstructs, the set lacks what makes the corruption hard, and training in the set can't teach it."""]
    for title, table in tables.items():
        shown = table.copy()
        for name, form in (("error", "{:.2f}"), ("relative", "{:.1f}"), ("‖u‖", "{:.1f}")):
            shown[name] = table[name].map(form.format)
        accuracies = [c for c in table if "," in c]
        shown[accuracies] = table[accuracies].map("{:.1f}".format)
        text += [f"## {title}", markdown_table(shown, "corruption")]
    return "\n\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="sets to read in place of the packaged ones", metavar="FILE")
    parser.add_argument("--n", type=int, default=500, help="test images")
    args, seed = parser.parse_args(), 0
    views = load_views("cifar10", "test", n=args.n)
    found = {file: load_set(file) for file in args.files} or {name: packaged_set(name) for name in SETS}
    tables = {name: read_set(pset, views, seed) for name, pset in found.items()}
    for name, table in tables.items(): print(name, table.round(2).to_string(), sep="\n")
    if args.files: return
    source = provenance("overnight", "cifar10", seed, args.n, 0, "cpu")
    path = repo_root() / "logs" / "reconstructions_overnight.md"
    with atomic_write(path) as tmp: tmp.write_text(describe(tables, source))


if __name__ == "__main__": main()
