"""Train classifiers of notebook 05 at preset `overnight`, judge them, and write them with their cards to pertnb/weights.

    python tools/package_classifier.py METHOD [METHOD ...] [--unjudged] [-p FIELD VALUE ...]

What was trained or judged before is read. Rows per image go to tables/overnight/rows; --unjudged writes weights alone; -p changes a
setting of the notebook, and the card has it.
"""
import argparse
import hashlib
import json
from dataclasses import asdict

from pertnb.core.paths import atomic_write, package_root, provenance, tables_dir
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import RobustCifar10C
from pertnb.learn import robust
from pertnb.models.classifier_files import save_classifier


def judge(section, model, method):
    "Accuracies of a classifier for its card; its rows per image are written."
    rows, _ = section.judge(model, section.seed)
    folder = tables_dir(section.preset) / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["kind", "corruption", "eps", "image", "correct", "zero_gradients"]
    rows[columns].to_csv(folder / f"classifier_{method}.csv.gz", index=False, compression=dict(method="gzip", mtime=0))
    table = robust.summarise(rows.assign(method=method))
    return [{k: r[k] for k in ("kind", "eps", "accuracy", "low", "high", "n")} for r in table.to_dict("records")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="+", choices=list(robust.METHODS))
    parser.add_argument("--unjudged", action="store_true", help="write weights without accuracies")
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("FIELD", "VALUE"))
    args = parser.parse_args()
    changed = {field: json.loads(value) for field, value in args.p}
    section = RobustCifar10C(presets.resolve("cifar10c_robust", dict(preset="overnight", data="cifar10") | changed))
    settings, net = section.robust, dict(section.robust.net(), n_classes=section.n_classes)
    for method in args.methods:
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


if __name__ == "__main__": main()
