"""How much further do more restarts of AutoPGD bring the worst case down? Packaged classifiers, at the full radius.

    python tools/restart_attacks.py [METHOD ...] [--restarts 10]

The test images that still withstood PGD and AutoPGD in tables/overnight/rows are attacked again, restart by restart,
until they are broken: each restart is AutoPGD from a random point of the ball, on the cross-entropy and on the DLR
loss, with as many steps as before. Images are attacked in the parts in which they were attacked before, each with
random starts of its own, so that the order in which parts come makes no difference. What was attacked before is read.
Writes rows (an image, and the restart that broke it; 0: none did; the digest of the weights) to tables/overnight/rows,
and, of all rows there of classifiers as they are packaged, logs/restarts_overnight.md.
"""
import argparse
import time

import pandas as pd
import torch
from statsmodels.stats.proportion import proportion_confint

from package_classifier import are_of, keep_common, land_rows, landed_file, read_own_answers  # beside this file
from pertnb.attack.attack import count_at_once
from pertnb.attack.strong import attack_strongly
from pertnb.core import memo
from pertnb.core.files import atomic_write
from pertnb.core.paths import commit, device_name, package_root
from pertnb.core.random import make_generator
from pertnb.data.pairs import to_float
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import RobustCifar10C
from pertnb.learn import robust
from pertnb.measure import judging
from pertnb.models.classifier_files import packaged_card, packaged_classifier, packaged_names
from pertnb.report.tables import markdown_table

ATTACKS = "apgd-ce", "apgd-dlr"
SHOWN = 1, 2, 3, 5, 10


def attack_again(pset, model, x, y, eps, steps, restarts, seed):
    "The restart, from the second on, that breaks each image x (B, C, H, W) with label y (B,); 0 where none does (B,)."
    broken_by, left = torch.zeros_like(y), torch.arange(len(y), device=y.device)
    for r in range(2, restarts + 1):
        if not len(left): break
        gen = make_generator("restart", seed, r)
        found = attack_strongly(pset, model, x[left], y[left], eps, steps, 1, gen, ATTACKS, count_at_once(x.device))
        broken_by[left[~found.correct]] = r
        left = left[found.correct]
    return broken_by


def find_standing(section, method, eps):
    "Whether each attacked image withstands the attacks of the table at a radius: Series by image."
    rows = read_own_answers(section, method)
    worst = rows[(rows.kind == "worst") & ((rows.eps - eps).abs() < 1e-6)]
    return worst.set_index("image").correct.sort_index()


def split_standing(standing):
    "{first image of a part: the images of the part that stand}; parts as `judging` attacks them; `standing`: Series."
    images = standing.index[standing].to_series()
    return {lo: part.tolist() for lo, part in images.groupby(images // judging.PART * judging.PART)}


def attack_part(pset, model, x, y, lo, images, eps, steps, restarts, seed):
    "A row per image of the part from image lo: image, broken_by; x uint8 (N, C, H, W) and y (N,) are of all images."
    i = torch.tensor(images, device=y.device)
    broken_by = attack_again(pset, model, to_float(x[i]), y[i], eps, steps, restarts, f"{seed}, from {lo}")
    return pd.DataFrame(dict(image=images, broken_by=broken_by.cpu().numpy()))


def attack_method(section, method, restarts):
    "Attack what stands, and write a row per attacked image: image, broken_by (1: before), and what made it."
    s, pset = section.robust, section.set(section.robust)
    model, (x, y) = packaged_classifier(method).to(section.device), section.test_images(s.n_test)
    standing = find_standing(section, method, pset.eps)
    broken_by, begin = pd.Series(1, standing.index, name="broken_by"), time.perf_counter()
    for lo, images in split_standing(standing).items():
        args = dict(pset=pset, model=model, x=x, y=y, lo=lo, images=images, eps=pset.eps, steps=s.strong_steps,
                    restarts=restarts, seed=section.seed)
        kept = memo.place("restarts", attack_part, **args)
        rows, _ = memo.make_part(kept, "attacked", lambda: (attack_part(**args), None))
        broken_by[rows.image] = rows.broken_by.to_numpy()
    made = dict(restarts=restarts, commit=commit(), device=device_name(section.device),
                weights=packaged_card(method)["sha256"])
    land_rows(section, broken_by.reset_index().assign(**made), f"restarts_{method}")
    print(f"{method}: {time.perf_counter() - begin:.0f} s", flush=True)


def read_restarts(section):
    "{method: Series by image: the restart that broke it, 0 where none did}, restarts, {commit:, device:} of all."
    parts = {m: landed_file(section, f"restarts_{m}") for m in robust.METHODS}
    parts = {m: pd.read_csv(path) for m, path in parts.items() if path.exists()}
    for m in [m for m, part in parts.items() if not are_of(part, weights=packaged_card(m)["sha256"])]:
        print(f"{m}: left out, its rows are of other weights than the packaged ones")
        parts.pop(m)
    eps = section.set(section.robust).eps
    rows = pd.concat([part.assign(method=m, kind="worst", eps=eps) for m, part in parts.items()])
    rows = keep_common(rows)
    broken_by = {m: g.set_index("image").broken_by for m, g in rows.groupby("method", sort=False)}
    made = {what: "; ".join(rows[what].unique()) for what in ("commit", "device")}
    return broken_by, int(rows.restarts.min()), made


def is_standing(broken_by, restarts):
    "Whether each image withstands so many restarts."
    return (broken_by == 0) | (broken_by > restarts)


def tabulate(broken_by, restarts):
    "A line per method: accuracy (%) after some numbers of restarts, with a 95% interval after all."
    shown = [r for r in SHOWN if r < restarts] + [restarts]
    lines = {}
    for method, by in broken_by.items():
        held = {r: is_standing(by, r) for r in shown}
        cells = {str(r): f"{100 * ok.mean():.1f}" for r, ok in held.items()}
        low, high = proportion_confint(held[restarts].sum(), len(by), method="wilson")
        lines[robust.METHODS[method]] = cells | {f"95% interval at {restarts}": f"{100 * low:.1f} to {100 * high:.1f}"}
    return pd.DataFrame(lines).T


def rank(broken_by, restarts):
    "A sentence for each pair of neighbours in the order after all restarts."
    held = {m: is_standing(by, restarts) for m, by in broken_by.items()}
    order = sorted(held, key=lambda m: -held[m].mean())
    return [judging.compare(held[a], held[b], robust.METHODS[a], robust.METHODS[b]) for a, b in zip(order, order[1:])]


def describe(section, broken_by, restarts, made):
    "The log, in Markdown; `made`: commits and devices of the attacks."
    s, n = section.robust, len(next(iter(broken_by.values())))
    sentences = "\n".join(f"- {sentence}" for sentence in rank(broken_by, restarts))
    return f"""# More restarts at the full radius, preset overnight

Made by `python tools/restart_attacks.py`: data cifar10, seed {section.seed}, the packaged set and the packaged
classifiers (one training each), {n} test images, radius {section.set(s).eps:.1f}; float32, {made["device"]}; attacked
at commit {made["commit"]}. Accuracy (%) in the worst case, by the number of restarts. One restart is the worst case of
table:cifar10c_robustness: {s.pgd_steps} steps of PGD from the centre, and {s.strong_steps} of AutoPGD from a random
point of the ball on each of two losses (cross-entropy, DLR); the same attacks at the quartiles come before, and what
breaks an image there counts. Each further restart is AutoPGD on both losses from another random point of the whole
ball, on the images that are still classified correctly.

{markdown_table(tabulate(broken_by, restarts), "training")}

After {restarts} restarts, on the same images:

{sentences}

What one restart leaves is not yet the worst case; where the numbers still fall from column to column, more restarts
would lower them further.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [m for m in robust.METHODS if m in packaged_names()]
    parser.add_argument("methods", nargs="*", help=", ".join(known))
    parser.add_argument("--restarts", type=int, default=10)
    args = parser.parse_args()
    section = RobustCifar10C(presets.resolve("cifar10c_robust", dict(preset="overnight", data="cifar10")), "cpu")
    if args.methods:
        for method in robust.check_methods(args.methods): attack_method(section, method, args.restarts)
    log = describe(section, *read_restarts(section))
    with atomic_write(package_root().parent / "logs" / "restarts_overnight.md") as tmp: tmp.write_text(log)
    print(log)


if __name__ == "__main__": main()
