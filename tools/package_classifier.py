"""Train classifiers of notebook 05 at preset `overnight`, judge them, and write them with their cards to pertnb/weights.

    python tools/package_classifier.py [METHOD ...] [--unjudged] [-p FIELD VALUE ...]

What was trained or judged before is read. Rows per image go to tables/overnight/rows; --unjudged writes weights alone; -p changes a
setting of the notebook, and the card has it. Last, the table of notebook 05 and its two figures are made of all rows that
are there.
"""
import argparse
import hashlib
import json
from dataclasses import asdict

import pandas as pd

from pertnb.core.paths import atomic_write, package_root, provenance, tables_dir
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import RobustCifar10C, compare_methods, tabulate_accuracy
from pertnb.learn import robust
from pertnb.models.classifier_files import save_classifier
from pertnb.report import cifar10c_plots, plots


def judge(section, model, method):
    "Accuracies of a classifier for its card; its rows per image are written."
    rows, _ = section.judge(model, section.seed)
    folder = tables_dir(section.preset) / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["kind", "corruption", "eps", "image", "correct", "zero_gradients"]
    rows[columns].to_csv(folder / f"classifier_{method}.csv.gz", index=False, compression=dict(method="gzip", mtime=0))
    table = robust.summarise(rows.assign(method=method))
    return [{k: r[k] for k in ("kind", "eps", "accuracy", "low", "high", "n")} for r in table.to_dict("records")]


def tabulate(section):
    "Write table:cifar10c_robustness and its figures of the rows of all packaged classifiers, and print what the worst case says."
    weights, folder = package_root() / "weights", tables_dir(section.preset) / "rows"
    names = {m: name for m, name in robust.METHODS.items() if (folder / f"classifier_{m}.csv.gz").exists()}
    cards = {m: json.loads((weights / f"classifier_{m}.json").read_text()) for m in names}
    rows = pd.concat([pd.read_csv(folder / f"classifier_{m}.csv.gz").assign(method=m, seed=section.seed) for m in names])
    radii = section.radii(section.robust)
    table = tabulate_accuracy(rows, names, radii)
    judged, attacked = (rows[rows.kind == kind].image.nunique() for kind in ("clean", "worst"))
    seconds, settings = sum(card["seconds"] for card in cards.values()), section.robust
    epochs = ", ".join(f"{names[m]} {card['schedule']['epochs']:g}" for m, card in cards.items())
    caption = (f"Accuracy (%) on {judged:,} test images, clean and corrupted, and on {attacked:,} under attack: "
               f"{settings.pgd_steps} steps of PGD of ε/20; worst: also {settings.strong_steps} of AutoPGD on each of two "
               f"losses, at the quartiles and the full radius ({section.set(settings).eps:.1f}) of the packaged set. "
               f"Network {settings.classifier}; passes over 49,000 images: {epochs}.")
    source = provenance(section.preset, section.data, section.seed, judged, seconds, "cpu")
    source |= dict(device=cards["standard"]["device"], precision=cards["standard"]["precision"])
    section.write_table(table.drop(columns=["accuracy", "method"]), "cifar10c_robustness", source, caption)
    section.save_figure(plots.radius_curves(table, names), "cifar10c_robustness_curve", source, cifar10c_plots.caption_curves(table))
    by = cifar10c_plots.accuracy_by_corruption(rows)
    fig, caption = cifar10c_plots.corruption_dots(by, names), cifar10c_plots.caption_corruptions(by)
    section.save_figure(fig, "cifar10c_by_corruption", source, caption)
    for heading, r in radii.items(): print(f"worst case, {heading}, " + "\n".join(compare_methods(rows, "worst", r)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help=", ".join(robust.METHODS))
    parser.add_argument("--unjudged", action="store_true", help="write weights without accuracies")
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("FIELD", "VALUE"))
    args = parser.parse_args()
    changed = {field: json.loads(value) for field, value in args.p}
    section = RobustCifar10C(presets.resolve("cifar10c_robust", dict(preset="overnight", data="cifar10") | changed))
    section.anew = tuple(args.methods)
    settings, net = section.robust, dict(section.robust.net(), n_classes=section.n_classes)
    for method in robust.check_methods(args.methods) if args.methods else ():
        model, log = section.classifier(method)
        train, _ = section.views(settings)
        source = provenance("overnight", "cifar10", section.seed, len(train), log.attrs["seconds"], section.device)
        path = package_root() / "weights" / f"classifier_{method}.safetensors"
        about = {k: source[k] for k in ("preset", "data", "seed", "n", "commit", "seconds", "device")}
        save_classifier(model, net, path, half=True, method=method, **about)
        rows = [{k: round(v, 6) for k, v in r.items()} for r in log.to_dict("records")]
        pset = section.set(settings).info if method.startswith("cvae") else None
        card = dict(source, method=method, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), net=net,
                    schedule=settings.training(method), loss=settings.loss(method), settings=asdict(settings), set=pset,
                    accuracy=[] if args.unjudged else judge(section, model, method), log=rows)
        with atomic_write(path.with_suffix(".json")) as tmp: tmp.write_text(json.dumps(card, indent=1) + "\n")
        print(f"{robust.METHODS[method]}: {path.stat().st_size / 1e6:.1f} MB", *card["accuracy"], sep="\n  ", flush=True)
    tabulate(section)


if __name__ == "__main__":
    from training_logs import write_logs  # beside this file
    main()
    write_logs()
