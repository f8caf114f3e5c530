"""Train classifiers of notebooks 05 and 06 at preset `overnight`, judge them, and write them with their cards to
pertnb/weights.

    python tools/package_classifier.py [METHOD ...] [noise_wide ...] [--unjudged | --more | --bare] [-p FIELD VALUE ...]

What was trained or judged before is read. Answers go to tables/overnight/rows, a line per image; --unjudged writes
weights alone, and without it they are judged as they are; --more attacks the test images that the answers of a
packaged classifier lack, 250 at a time, and adds theirs; -p changes a setting of the notebook, and the card has it. A
classifier of a noise is judged by the decisions of the sequential test. --bare writes card and answers without
weights, for methods of 05 that nothing builds on. Last, unless nothing was judged, the table of notebook 05 and its
two figures are made of all answers that count.

Answers count for the weights that gave them and no others: a column of them names the weights, by the sha256 that the
card has. So weights can be trained in one clone (--unjudged) and judged in another, where weights and card were
copied; answers that are copied from there count wherever these weights lie, and --more goes on with them. Answers
that name no weights, as those of --bare, count while the card has their accuracies: they are copied with that card.
"""
import argparse
import hashlib
import json
import time
from dataclasses import asdict

import pandas as pd

from pertnb.core.files import atomic_write
from pertnb.core.paths import ORIGIN, package_root, provenance, tables_dir
from pertnb.experiments import presets
from pertnb.experiments.cifar10c import RobustSettings
from pertnb.experiments.cifar10c_certified import NOISES, Cifar10C
from pertnb.experiments.cifar10c_robust import KINDS, RobustCifar10C, compare_methods, tabulate_accuracy
from pertnb.learn import robust
from pertnb.measure import judging
from pertnb.models.classifier_files import packaged_card, packaged_classifier, packaged_names, save_classifier
from pertnb.report import cifar10c_plots, plots


def landed_file(section, stem):
    "Where rows lie in the repository."
    return tables_dir(section.preset) / "rows" / f"{stem}.csv.xz"


def are_of(rows, **digests):
    "Whether all rows name these weights: {column: their digest}."
    return all(what in rows and (rows[what] == sha256).all() for what, sha256 in digests.items())


def land_rows(section, rows, stem):
    "Rows per image of a classifier, for the repository."
    with atomic_write(landed_file(section, stem)) as tmp: rows.to_csv(tmp, index=False)


ORDER = [*KINDS, "robust", "worst"]  # of kinds of rows, as in the table
ATTACKED = "robust", "worst"  # kinds of attacks
COUNTED = {"": "correct", "zero_gradients ": "zero_gradients"}  # beginnings of columns, and what stands in them


def spread_answers(rows):
    "A line per image; for each kind, corruption and radius a column: 1 right, 0 wrong; a fifth of the room of rows."
    rows = rows.assign(column=rows.kind + " " + rows.corruption + " " + rows.eps.map(repr))
    spread = lambda value: rows.dropna(subset=value).pivot(index="image", columns="column", values=value)
    counted = {lead: value for lead, value in COUNTED.items() if value in rows}  # without attacks: no zero gradients
    wide = [spread(value).astype("Int16").add_prefix(lead) for lead, value in counted.items()]
    return pd.concat(wide, axis=1).reset_index()


def read_answers(path):
    "The rows that `spread_answers` spread: kind, corruption, eps, image, correct, zero_gradients."
    return gather_answers(pd.read_csv(path))


def gather_answers(wide):
    "The same of a table in memory."
    wide, found = wide.set_index("image").drop(columns="weights", errors="ignore"), []
    for lead, value in COUNTED.items():
        own = [c for c in wide if c.startswith("zero_gradients ") == bool(lead)]
        found.append(wide[own].rename(columns=lambda c: c.removeprefix(lead)).stack().dropna().rename(value))
    rows = pd.concat(found, axis=1).rename_axis(["image", "column"]).reset_index()
    rows[["kind", "corruption", "eps"]] = rows.pop("column").str.split(" ", expand=True)
    rows = rows.assign(eps=rows.eps.astype(float), correct=rows.correct == 1)
    return rows.sort_values("kind", key=lambda kinds: kinds.map(ORDER.index), kind="stable")


def summarise_answers(rows):
    "Accuracies of rows, as a card has them."
    table = judging.summarise(rows.assign(method=""))
    return [{k: r[k] for k in ("kind", "eps", "accuracy", "low", "high", "n")} for r in table.to_dict("records")]


def add_answers(section, rows, method):
    "Write the answers of a packaged classifier, which name its weights, and their accuracies into its card."
    wide, card = spread_answers(rows), packaged_card(method)
    if card["sha256"]: wide = wide.assign(weights=card["sha256"])
    land_rows(section, wide, f"classifier_{method}")
    with atomic_write(package_root() / "weights" / f"classifier_{method}.json") as tmp:
        tmp.write_text(json.dumps(card | dict(accuracy=summarise_answers(rows)), indent=1) + "\n")


def read_if_of_card(path, card):
    "`read_answers` if they are those of the weights of a card or, where they name none, have its accuracies; or None."
    wide = pd.read_csv(path)
    rows = gather_answers(wide)
    if "weights" in wide: return rows if are_of(wide, weights=card["sha256"]) else None
    if not card["accuracy"]: return None
    table = lambda found: pd.DataFrame(found).sort_values(["kind", "eps"], ignore_index=True).round(6)
    return rows if table(card["accuracy"]).equals(table(summarise_answers(rows))) else None


def read_own_answers(section, method):
    "The answers of a packaged classifier; one line ends the command if there are none."
    path = landed_file(section, f"classifier_{method}")
    rows = read_if_of_card(path, packaged_card(method)) if path.exists() else None
    if rows is not None: return rows
    raise SystemExit(f"{path} has no answers of the packaged classifier {method!r}: judge it without --more, or copy "
                     "the answers of these weights there")


def judge(section, model, method):
    "Judge a packaged classifier; its answers and their accuracies are written."
    add_answers(section, section.judge(model, section.seed)[0], method)
    print(method, *packaged_card(method)["accuracy"], sep="\n  ", flush=True)


def is_unjudged(method):
    "Whether the package has a classifier of notebook 05 without accuracies."
    return method in packaged_names() and not packaged_card(method)["accuracy"]


def attack_more(section, method):
    "Attack the test images that the rows of a packaged classifier lack, as `judge` does, and write them part by part."
    rows, s = read_own_answers(section, method), section.robust
    model, pset, radii = packaged_classifier(method).to(section.device), section.set(s), [*section.radii(s).values()]
    x, y = section.test_images(s.n_test)
    add_answers(section, rows, method)  # where they were copied, the card may lack their accuracies
    for lo in range(0, len(x), judging.PART):
        images = range(lo, min(lo + judging.PART, len(x)))
        if set(images) <= set(rows[rows.kind == "worst"].image): continue
        begin, args = time.perf_counter(), (s.n_quartiles, radii, s.pgd_steps, s.strong_steps, section.seed)
        new, _ = judging.attack_part(model, pset, x, y, images[0], images[-1] + 1, *args)
        rows = pd.concat([rows, new]).drop_duplicates(["kind", "corruption", "eps", "image"])
        add_answers(section, rows, method)
        print(f"{method}: images {images[0]} to {images[-1]} in {time.perf_counter() - begin:.0f} s", flush=True)


def write_decisions(section, noise):
    "Write the decisions of the sequential test for a noise; its rows."
    rows = section.decisions(noise)
    land_rows(section, rows.drop(columns=["precision", "heading"]), f"decisions_{noise.strip('%')}")
    return rows


def judge_noise(section, noise):
    "Accuracies and certified accuracies of a smoothed classifier for its card; its decisions are written."
    rows, predicted = write_decisions(section, noise), section.predict_views(noise)
    says = [dict(kind=kind, eps=0., accuracy=100 * g.correct.mean(), n=g.image.nunique())
            for kind, g in predicted.groupby("kind", sort=False)]
    asked = rows.assign(held=rows.certified & rows.correct).groupby("radius")
    certified = lambda g: dict(accuracy=100 * g.held.mean(), draws=g.draws.mean(), n=g.image.nunique())
    return says + [dict(kind="certified", eps=r, **certified(g)) for r, g in asked]


def save(section, name, model, log, net, bare=False, **card):
    "Write the card of a classifier and, unless `bare`, its weights; `net`: arguments of make_network."
    train, _ = section.views(section.robust)
    net = dict(net, n_classes=section.n_classes)
    source = provenance("overnight", "cifar10", section.seed, len(train), log.attrs["seconds"], section.device)
    path = package_root() / "weights" / f"classifier_{name}.safetensors"
    about = {k: source[k] for k in ORIGIN if k != "precision"}
    if not bare: save_classifier(model, net, path, half=True, method=name, **about)
    known = lambda r: {k: round(v, 6) for k, v in r.items() if not pd.isna(v)}  # one that was taught has no accuracy
    rows = [known(r) for r in log.to_dict("records")]
    sha256 = None if bare else hashlib.sha256(path.read_bytes()).hexdigest()
    card = dict(source, method=name, sha256=sha256, net=net, **card, log=rows)
    with atomic_write(path.with_suffix(".json")) as tmp: tmp.write_text(json.dumps(card, indent=1) + "\n")
    size = "no weights" if bare else f"{path.stat().st_size / 1e6:.1f} MB"
    print(f"{name}: {size}", *card["accuracy"], sep="\n  ", flush=True)


def land(section, method, unjudged, bare):
    "Train, write and judge a classifier of notebook 05; one that is packaged for these settings is judged alone."
    if found := section.packaged(method, section.seed): model = found[0]
    else: model = train(section, method, bare)
    if not unjudged: judge(section, model, method)


def train(section, method, bare):
    "Train a classifier of notebook 05, and write it and a card without accuracies; the model."
    model, log = section.classifier(method)
    settings = section.robust
    passes, last = settings.trainings(method)[-1]
    info = section.set(settings).info if method.startswith("cvae") else None
    save(section, method, model, log, last.net(), bare, schedule=last.training(method) | dict(epochs=passes),
         loss=last.loss(method), settings=asdict(settings), set=info, accuracy=[])
    return model


def land_noise(section, name, unjudged):
    "Train, judge and write a classifier of notebook 06."
    noise, settings = name.removeprefix("noise_"), section.certified
    model, log = section.noise(noise)
    save(section, name, model, log, settings.net(), schedule=settings.training("cvae_smoothing"),
         loss=settings.loss(), sigma=section.sigma(noise), settings=asdict(settings), set=section.set(settings).info,
         accuracy=[] if unjudged else judge_noise(section, noise))


def keep_common(rows):
    "Of the attacks only those on images that every method attacked at the same radii; all other rows."
    attacked = rows.kind.isin(ATTACKED)
    radii = rows[attacked].groupby(["image", "method"]).eps.agg(lambda eps: tuple(sorted({*eps}))).unstack()
    alike = radii.index[radii.notna().all(axis=1) & (radii.nunique(axis=1) == 1)]
    return rows[~attacked | rows.image.isin(alike)]


def find_judged(section):
    "{method: card} and {method: rows} of the methods of notebook 05 whose answers count; a line tells which don't."
    cards, answers = {}, {}
    for method in robust.METHODS:
        path = landed_file(section, f"classifier_{method}")
        if not path.exists(): continue
        card = packaged_card(method)
        rows = read_if_of_card(path, card)
        if rows is None: print(f"{method}: left out, {path.name} has no answers of the weights of its card")
        else: cards[method], answers[method] = card, rows
    return cards, answers


def tabulate(section):
    "Write table:cifar10c_robustness and its figures of all classifiers judged, and print what the worst case says."
    cards, answers = find_judged(section)
    names = {m: robust.METHODS[m] for m in cards}
    rows = keep_common(pd.concat([own.assign(method=m, seed=section.seed) for m, own in answers.items()]))
    radii = section.radii(section.robust)
    table = tabulate_accuracy(rows, names, radii)
    judged, attacked = (rows[rows.kind == kind].image.nunique() for kind in ("clean", "worst"))
    seconds, settings = sum(card["seconds"] for card in cards.values()), section.robust
    epochs = ", ".join(f"{names[m]} {RobustSettings(**card['settings']).tell_passes(m)}" for m, card in cards.items())
    caption = (f"Accuracy (%) on {judged:,} test images, clean and corrupted, and on {attacked:,} under attack: "
               f"{settings.pgd_steps} steps of PGD of ε/20; worst: also {settings.strong_steps} of AutoPGD on each of "
               f"two losses, at the quartiles and the full radius ({section.set(settings).eps:.1f}) of the packaged "
               "set. "
               f"Network {settings.classifier}, if no other is named; passes over {packaged_card('standard')['n']:,} "
               f"images: {epochs}; the others start from the standard classifier after its first training.")
    source = provenance(section.preset, section.data, section.seed, judged, seconds, "cpu")
    join = lambda field: " or ".join(dict.fromkeys(card[field] for card in cards.values()))
    source |= dict(device=join("device"), precision=join("precision"))
    section.write_table(table.drop(columns=["accuracy", "method"]), "cifar10c_robustness", source, caption)
    fig, caption = plots.draw_radius_curves(table, names), cifar10c_plots.caption_curves(table)
    section.save_figure(fig, "cifar10c_robustness_curve", source, caption)
    by = cifar10c_plots.accuracy_by_corruption(rows)
    fig, caption = cifar10c_plots.draw_corruptions(by, names), cifar10c_plots.caption_corruptions(by)
    section.save_figure(fig, "cifar10c_by_corruption", source, caption)
    for heading, r in radii.items(): print(f"worst case, {heading}, " + "\n".join(compare_methods(rows, "worst", r)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [f"noise_{noise}" for noise in NOISES]
    parser.add_argument("methods", nargs="*", help=", ".join([*robust.METHODS, *known]).replace("%", "%%"))
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--unjudged", action="store_true", help="write weights without accuracies")
    ways.add_argument("--more", action="store_true", help="attack the images that rows lack")
    ways.add_argument("--bare", action="store_true", help="write card and rows without weights")
    parser.add_argument("-p", nargs=2, action="append", default=[], metavar=("FIELD", "VALUE"))
    args = parser.parse_args()
    changed = {field: json.loads(value) for field, value in args.p}
    noises = [name for name in args.methods if name in known]
    methods = [name for name in args.methods if name not in noises]
    if noises and (args.more or args.bare):
        parser.error(f"--more and --bare are for methods of notebook 05, not for {', '.join(noises)}")
    if noises:
        section = Cifar10C(presets.resolve("cifar10c_certified", dict(preset="overnight", data="cifar10") | changed))
        section.anew = tuple(noises)
        for name in noises: land_noise(section, name, args.unjudged)
    if noises and not methods: return
    section = RobustCifar10C(presets.resolve("cifar10c_robust", dict(preset="overnight", data="cifar10") | changed))
    section.anew = tuple(m for m in methods if args.unjudged or not is_unjudged(m))
    for method in robust.check_methods(methods) if methods else ():
        if args.more: attack_more(section, method)
        else: land(section, method, args.unjudged, args.bare)
    if not args.unjudged: tabulate(section)


if __name__ == "__main__":
    from training_logs import write_logs  # beside this file
    main()
    write_logs()
