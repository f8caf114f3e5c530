"""Train the set that the package ships, mend it, measure it, and write it with its card to pertnb/weights.

    python tools/package_set.py [NAME] [--run FOLDER | --again | --measure | --table] [--n-test 1000]

--run takes the weights of a training that already exists (finished, or its last checkpoint); --again mends the set
that the package has once more, and its card goes on; --measure leaves the set as it is and measures it. Its metrics
go into tables/overnight, too (--table: only that, from the card). The settings are those of preset `overnight`.
"""
import argparse
import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import torch

from pertnb.core.files import atomic_write, read_tensors
from pertnb.core.paths import ORIGIN, device_name, package_root, provenance
from pertnb.core.random import make_generator
from pertnb.data import pairs
from pertnb.experiments import presets
from pertnb.learn import learn, mend
from pertnb.measure import excess, quality
from pertnb.models import cvae
from pertnb.models.classifier_files import packaged_classifier
from pertnb.report import tables
from pertnb.sets import sets


def read_run(folder, settings):
    "The CVAE of a run's folder, and the run's log."
    final = folder / "model.safetensors"
    weights, header = read_tensors(final if final.exists() else folder / "state.safetensors", advice="train it again")
    model = cvae.make_cvae(**settings.net())
    kept = {k: v for k, v in weights.items() if not k.startswith(("optim.", "row."))}
    model.load_state_dict({k.removeprefix("model."): v for k, v in kept.items()})
    return model.eval(), json.loads(header["log"])


def train(settings, fit, validation):
    "A CVAE by the preset's schedule, before it is mended, and the log."
    pset, log = learn.learn_set(replace(settings, excess_weight=0.), fit, validation, progress=False)
    return pset.cvae, log.to_dict("records")


def learn_anew(args, settings, fit, validation):
    "The set before it is mended, the log of its training, and dict(mended=[]): no mending came before."
    model, log = read_run(args.run, settings) if args.run else train(settings, fit, validation)
    x, x_tilde, *_ = pairs.evaluation_pairs(validation)
    pset = sets.PerturbationSet(model, **sets.select_radius(model, x, x_tilde, settings.quantile))
    last, seen = {k: log[-1][k] for k in ("mse", "kl")}, log[-1]["step"] * settings.batch_size
    # "coverage": the key in the files that are packaged
    pset.info = dict(mended=[], coverage=settings.quantile, beta=settings.beta, last=last, pairs_seen=seen,
                     steps=log[-1]["step"])
    return pset, log, dict(training=sum(r["seconds"] for r in log), mending=0.)


def check_recipe(card, settings):
    "SystemExit unless the card's set was made by these settings: what it goes on with would not be what its card says."
    made = type(settings)(**card["settings"])  # a card older than a field: its default
    made, asked = (json.loads(json.dumps(asdict(s))) for s in (made, settings))
    other = [k for k, v in asked.items() if k not in ("n_test", "n_show") and made[k] != v]
    if other: raise SystemExit(f"the packaged set was made by other settings ({', '.join(other)}): train it anew")


def read_packaged(path, settings):
    "The packaged set, the log of its training, and the seconds that it has cost."
    pset, card = sets.load_set(path), json.loads(path.with_suffix(".json").read_text())
    check_recipe(card, settings)
    before = pset.info["mended"]
    pset.info["mended"] = before if isinstance(before, list) else [before]
    return pset, card["log"], card["seconds_of"]


def say(part, found):
    "Print a part of the card's numbers as soon as it is there, and return it."
    print(json.dumps({part: found}), flush=True)
    return found


def say_metrics(rows):
    "The six metrics of a set, from the rows of its pairs, as the card has them."
    means = quality.mean_metrics(rows).itertuples(index=False)
    return say("test", {r.metric: dict(mean=float(r.mean), se=float(r.se)) for r in means})


SEVERITIES, N_MILDER = (2, 3), 250 # milder ones, never trained on, and the images they are measured on


def measure_set(pset, test, seed):
    "The card's numbers, on every corruption of every test image: the six metrics, and what the set holds beside."
    x, x_tilde, image, _ = pairs.evaluation_pairs(test)
    rows = quality.evaluate_set(pset, x, x_tilde, make_generator("quality", seed)).assign(image=image.numpy())
    found = say_metrics(rows)
    contents = dict(inside=float((rows.norm <= pset.eps).mean()),
                    reached=float((rows.pgd_ae <= excess.TOLERANCE).mean()))
    for severity in SEVERITIES:
        milder = pairs.load_views("cifar10", "test", severity=severity, n=min(N_MILDER, len(test)))
        a, b, *_ = pairs.evaluation_pairs(milder)
        near = excess.summarise_coverage(excess.measure_coverage(pset, a, b)).iloc[0]
        contents[f"severity {severity}"] = dict(images=len(milder), **{k: float(v) for k, v in near.items()})
        say(f"severity {severity}", contents[f"severity {severity}"])
    images, views = test.images[test.index], test.corrupted[:, test.index]
    extremes = excess.find_extremes(pset, images, views, make_generator("extremes", seed))
    contents |= {k: float(v) for k, v in excess.summarise_extremes(extremes.rows).items()}
    return dict(test=found, contents=say("contents", contents))


def measure_legible(pset, test, seed):
    "% right of the packaged classifier of corruptions, also at points attacked through the standard one."
    reader, attacked = (packaged_classifier(method) for method in ("cifar10c", "standard"))
    i = test.index
    rows = excess.measure_legibility(pset, reader, attacked, test.images[i], test.labels[i], test.corrupted[:, i],
                                     make_generator("legible", seed))
    return say("legibility", dict(n=len(i), **{k: float(v) for k, v in excess.summarise_legibility(rows).items()}))


def measure_packaged(path, n, seed):
    "The card of the packaged set, with its numbers measured again on n test images."
    card = json.loads(path.with_suffix(".json").read_text())
    if hashlib.sha256(path.read_bytes()).hexdigest() != card["sha256"]:
        raise SystemExit(f"{path} is not the file of its card")
    test = pairs.load_views("cifar10", "test", n=n)
    measured = measure_set(sets.load_set(path), test, seed)
    source = provenance(card["preset"], card["data"], seed, len(test), 0., "cpu")
    measured["legibility"] = measure_legible(sets.load_set(path), test, seed)
    about = dict(commit=source["commit"], device=source["device"], precision="float32")
    return card | measured | dict(n_test_images=len(test), measured=about)


def write_card(path, card):
    "Write the card beside the weights."
    with atomic_write(path.with_suffix(".json")) as tmp: tmp.write_text(json.dumps(card, indent=1) + "\n")


def tabulate(card):
    "Write the metrics of table:cifar10c_evaluate from the card of the set that is learned from centred pairs."
    row, stem, n = "Centered at original", "cifar10c_evaluate", card["n_test_images"]
    numbers = [dict(column="eps", value=card["eps"])]
    numbers += [dict(column=metric, value=found["mean"], se=found["se"]) for metric, found in card["test"].items()]
    caption = (f"Quality of the packaged set, mended, on {n:,} test images and {len(card['corruptions'])} corruptions "
               "(means; standard errors over images in the CSV file). The sets of other pairs were not run.")
    source = {k: (card | card["measured"] | dict(n=n))[k] for k in ORIGIN}
    numbers = pd.DataFrame(numbers).assign(row=row, n=n)[["row", "column", "value", "se", "n"]]
    paper = {row: tables.PAPER[stem][row]}
    tables.write_table(numbers, stem, card["preset"], source, paper, caption, digits=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default=sets.PACKAGED[0], help="of the set")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--n-test", type=int, default=1000, help="test images to measure the set on")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="that the run was trained with")
    parser.add_argument("--note", default="", help="what else should be known of the run")
    args = parser.parse_args()
    settings = presets.resolve("cifar10c_cvae", dict(preset="overnight", data="cifar10"))
    path = package_root() / "weights" / f"{args.name}.safetensors"
    if args.measure: write_card(path, measure_packaged(path, args.n_test, settings.seed))
    if args.measure or args.table:
        if args.name == sets.PACKAGED[0]: tabulate(json.loads(path.with_suffix(".json").read_text()))
        return
    views = pairs.load_views("cifar10", "train", n=settings.n_train)
    fit, validation = pairs.split_by_seed(views, settings.seed)
    learned, log, seconds = read_packaged(path, settings) if args.again else learn_anew(args, settings, fit, validation)
    before = learned.info["mended"]
    source, plan = pairs.PairsOf(fit, pad=settings.pad), settings.plan()["plan"]
    pset, mending = mend.mend(learned, source, plan, settings.seed, progress=False)
    seconds = seconds | dict(mending=seconds["mending"] + float(mending.seconds.sum()))
    more = dict(note=args.note, pairs=len(fit) * len(fit.names), steps=pset.info["steps"],
                validation_images=len(validation), corruptions=list(fit.names), views_digest=fit.digest)
    source = provenance("overnight", "cifar10", settings.seed, len(fit), sum(seconds.values()), "cpu", **more)
    source["device"] = device_name("cpu", args.threads)
    kept = {k: source[k] for k in (*ORIGIN, "views_digest")}
    pset.info = pset.info | kept | dict(mended=[*before, pset.info["mended"]])
    pset.save(path, half=True)
    pset = sets.load_set(path)  # what is measured is what ships: weights rounded to half precision
    test = pairs.load_views("cifar10", "test", n=args.n_test)
    measured = dict(commit=source["commit"], device=source["device"], precision="float32")
    card = dict(source, eps=pset.eps, percentiles=pset.percentiles, settings=asdict(settings), seconds_of=seconds,
                sha256=hashlib.sha256(path.read_bytes()).hexdigest(), n_test_images=len(test),
                measured=measured, **measure_set(pset, test, settings.seed),
                mending=mending.round(6).to_dict("records"),
                log=[{k: round(v, 6) for k, v in r.items()} for r in log[::max(1, len(log) // 40)]])
    write_card(path, card)
    if args.name == sets.PACKAGED[0]: tabulate(card)
    print(f"eps {pset.eps:.2f}, {path.stat().st_size / 1e6:.1f} MB: {path}")


if __name__ == "__main__":
    from training_logs import write_logs  # beside this file
    main()
    write_logs()
