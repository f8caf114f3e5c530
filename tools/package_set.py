"""Train the set that the package ships (preset `overnight`, 40 minutes of one CPU core), measure it, and write it to pertnb/weights.

    python tools/package_set.py [--run FOLDER]

--run takes the weights of a run that already exists (finished, or its last checkpoint) instead of training.
"""
import argparse, json
from pathlib import Path

import torch

from pertnb.data import pairs
from pertnb.experiments import presets
from pertnb.learn import learn
from pertnb.measure import quality
from pertnb.models import cvae
from pertnb.sets import sets
from pertnb.core.paths import atomic_write, package_root, provenance, read_tensors

NAME = "cifar10c_small"


def from_run(folder, settings, validation):
    "A PerturbationSet from the weights in a run's folder, and the run's log."
    final = folder/"model.safetensors"
    weights, header = read_tensors(final if final.exists() else folder/"state.safetensors", advice="train it again")
    model = cvae.make_cvae(**settings.net())
    model.load_state_dict({k.removeprefix("model."): v for k, v in weights.items() if not k.startswith(("optim.", "row."))})
    x, x_tilde, *_ = pairs.evaluation_pairs(validation)
    return sets.PerturbationSet(model, **sets.select_radius(model.eval(), x, x_tilde)), json.loads(header["log"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--n-test", type=int, default=100, help="test images to measure the set on")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads that the run was trained with")
    parser.add_argument("--note", default="", help="what else should be known of the run")
    args = parser.parse_args()
    settings = presets.resolve("cifar10c_cvae", dict(preset="overnight", data="cifar10"))
    views = pairs.load_views("cifar10", "train", n=settings.n_train)
    index, held_out = pairs.split_images(len(views), pairs.generator("split", settings.seed))
    fit, validation = views.on(index), views.on(held_out)
    if args.run: pset, log = from_run(args.run, settings, validation)
    else:
        pset, log = learn.learn_set(settings, fit, validation)
        log = log.to_dict("records")
    path = package_root()/"weights"/f"{NAME}.safetensors"
    seconds = sum(r["seconds"] for r in log)
    source = provenance("overnight", "cifar10", settings.seed, len(fit), seconds, "cpu", note=args.note, pairs=len(fit) * len(fit.names), steps=log[-1]["step"],
                        validation_images=len(validation), corruptions=list(fit.names), views_digest=fit.digest)
    source["device"] = f"CPU, {args.threads} threads"
    pset.info = {k: source[k] for k in ("preset", "data", "seed", "n", "commit", "seconds", "device", "steps", "views_digest")}
    pset.info |= dict(pairs_seen=log[-1]["step"] * settings.batch_size, beta=settings.beta, last={k: log[-1][k] for k in ("mse", "kl")})
    pset.save(path, half=True)
    pset = sets.packaged_set(NAME)  # what is measured is what ships: weights rounded to half precision
    test = pairs.load_views("cifar10", "test", n=args.n_test)
    x, x_tilde, image, _ = pairs.evaluation_pairs(test)
    rows = quality.evaluate_set(pset, x, x_tilde, pairs.generator("quality", settings.seed)).assign(image=image.numpy())
    about = dict(source, eps=pset.eps, percentiles=pset.percentiles, settings=presets.asdict(settings), n_test_images=len(test),
                 test={r[0]: dict(mean=round(r[1], 6), se=round(r[2], 6)) for r in quality.mean_metrics(rows).itertuples(index=False)},
                 log=[{k: round(v, 6) for k, v in r.items()} for r in log[::max(1, len(log) // 40)]])
    with atomic_write(path.with_suffix(".json")) as tmp: tmp.write_text(json.dumps(about, indent=1) + "\n")
    print(json.dumps(about["test"], indent=1), f"\neps {pset.eps:.2f}, {path.stat().st_size / 1e6:.1f} MB: {path}")


if __name__ == "__main__": main()
