"""Are the points of the packaged set that count as blank really blank? Rows, a log and a picture, from 1,000 test
images.

    python tools/blank_points.py

AutoPGD (60 steps, 3 starts) looks for the darkest, the lightest and the flattest point of each set.
`excess.find_blank` says which of them count as black, white or flat, beside the real corruptions of the same image.
Rows that were landed are read if they are of this set and this classifier, by the digests of their weights; else they
are made anew. The picture is of the points that count.
"""
import matplotlib.pyplot as plt
import pandas as pd
import torch
from statsmodels.stats.proportion import proportion_confint

from pertnb.core.files import atomic_write
from pertnb.core.paths import commit, device_name, package_root
from pertnb.core.random import make_generator
from pertnb.data.pairs import to_float
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import RobustCifar10C
from pertnb.measure import excess
from pertnb.models.classifier_files import packaged_card, packaged_classifier
from pertnb.report.tables import markdown_table
from pertnb.sets.sets import packaged_set_card

from package_classifier import are_of, land_rows, landed_file  # beside this file

N, STEPS, STARTS, READER = 1000, 60, 3, "cifar10c"
KINDS = {"black": "dark", "white": "light", "flat": "flat"}  # kind of a blank point: aim of the search (excess.AIMS)
MEASURES = {"dark": "brightness", "light": "brightness", "flat": "contrast"}


def find_real(x, views, aim):
    "The view of each image that is most extreme in an aim (B, C, H, W)."
    value = torch.stack([excess.AIMS[aim](v, views) for v in views])
    return views[value.argmax(0), torch.arange(len(x))]


def search(pset, reader, x, views, y, starts):
    "Rows of images x (B, C, H, W), and {aim: (most extreme point of each set, most extreme of its views)}."
    rows, pictures = {k: v.numpy() for k, v in excess.describe_views(views).items() if k != "real_excess"}, {}
    for aim in KINDS.values():
        u, best = excess.search_extreme(pset, x, views, aim, starts, STEPS)
        with torch.no_grad():
            points, real = pset.perturb(x, u), find_real(x, views, aim)
            right = [(reader(images).argmax(1) == y).numpy() for images in (points, real)]
        value = (best if aim == "light" else -best).numpy()
        rows |= {aim: value, f"read_{aim}": right[0], f"read_real_{aim}": right[1]}
        pictures[aim] = points, real
    return pd.DataFrame(rows), pictures


def search_all(section, images, batch=100):
    "Rows and pictures of the images with these numbers."
    reader = packaged_classifier(READER)
    pset, (test, _) = section.set(section.robust), section.test_views(N)
    starts = excess.draw_starts(N, pset.latent, pset.eps, make_generator("extremes", section.seed), STARTS)
    parts = []
    for lo in range(0, len(images), batch):
        part = images[lo:lo + batch]
        i = test.index[part]
        x = to_float(test.images[i])
        views = [to_float(test.gather(i, torch.full((len(i),), v + 1))) for v in range(len(test.names))]
        parts.append(search(pset, reader, x, torch.stack([x, *views]), test.labels[i], starts[:, part]))
        print(f"{lo + len(i)} of {len(images)} images", flush=True)
    rows, pictures = zip(*parts)
    joined = {aim: [torch.cat(images) for images in zip(*(p[aim] for p in pictures))] for aim in KINDS.values()}
    return pd.concat(rows, ignore_index=True).assign(image=images), joined


def list_blank(rows):
    "One row per blank point: image, kind, its brightness or contrast, that of the most extreme real corruption, read."
    blank, found = excess.find_blank(rows), []
    for kind, aim in KINDS.items():
        for _, r in rows[blank[kind]].iterrows():
            found.append(dict(image=int(r.image), kind=kind, of=MEASURES[aim], point=r[aim], real=r[f"real_{aim}"],
                              read=r[f"read_{aim}"], read_real=r[f"read_real_{aim}"]))
    return pd.DataFrame(found)


def tabulate(found):
    "The table of the log."
    yes = {True: "yes", False: "no"}
    return pd.DataFrame({"kind": found.kind + ", " + found.of, "point": found.point.map("{:.3f}".format),
                         "real corruption": found.real.map("{:.3f}".format), "point read": found.read.map(yes),
                         "corruption read": found.read_real.map(yes)}).set_axis(found.image)


def tell_near(rows):
    "How many sets would count at other thresholds, in one sentence per kind."
    white, real_white = 1 - rows.light, 1 - rows.real_light
    near = white < excess.FLAT * real_white
    bright = ", ".join(f"{((white < t) & near).sum()} at {1 - t:.3f}" for t in (.01, .015, .02, .025))
    flat = ", ".join(f"{(rows.flat < t * rows.real_flat).sum()} at {t:.0%}" for t in (.4, .45, .5, .55))
    return (f"How many count depends on the thresholds. White points, by the brightness from which they count: "
            f"{bright}. Flat ones, by the share of the flattest real contrast below which they count: {flat}.")


def describe(rows, found, seed):
    "The log, in Markdown."
    counts = ", ".join(f"{(found.kind == kind).sum()} {kind}" for kind in KINDS)
    low, high = proportion_confint(found.image.nunique(), len(rows), method="wilson")
    words, share = dict(dark="darkest", light="lightest", flat="flattest"), lambda column: 100 * rows[column].mean()
    read = ", ".join(f"{share(f'read_{aim}'):.1f}% of the {word} points ({share(f'read_real_{aim}'):.1f}% of the "
                     f"{word} real corruptions)" for aim, word in words.items())
    n = found.image.nunique()
    return f"""# The points of the packaged set that count as blank

Made by `python tools/blank_points.py`: data cifar10, seed {seed}, {len(rows):,} test images, all 12
corruptions and the image itself; AutoPGD, {STEPS} steps, {STARTS} starts; float32, {rows.device[0]}, commit
{rows.commit[0]}. *Brightness* is the mean and *contrast* the standard deviation over the values of an image. A point
counts as black below a brightness of {excess.DARK}, as white above {excess.LIGHT}, if no real corruption of its image
comes half as near to that; as flat below half the contrast of the flattest real corruption.

**{n} of {len(rows):,} sets ({n / len(rows):.1%}, 95% interval {low:.1%} to {high:.1%}) hold a blank point:
{counts}.** The classifier trained on corruptions (as packaged at that commit) reads {found.read.sum()} of these
{len(found)} points, and
{found.read_real.sum()} of the real corruptions that are most like them. Over all sets it reads {read}.

{tell_near(rows)}

A search finds that there is such a point, not that there is none: rounding alone leads it elsewhere, and it may then
find a few more or fewer.

{markdown_table(tabulate(found), "image")}

![Images, their most extreme real corruption, and the blank point of their sets](blank_overnight.png)

Top: the images; middle: their lightest (or flattest) real corruption; bottom: the lightest (or flattest) point of
their sets.
"""


def draw(section, found):
    "Three rows of images; returns the figure."
    images = torch.tensor(sorted({*found.image}))
    test, _ = section.test_views(N)
    _, pictures = search_all(section, images)
    fig, axes = plt.subplots(3, len(found), figsize=(1.2 * len(found), 3.8), squeeze=False)
    for column, r in zip(axes.T, found.itertuples()):
        k = images.tolist().index(r.image)
        points, real = pictures[KINDS[r.kind]]
        x = to_float(test.images[test.index[images[k:k + 1]]])[0]
        for ax, image in zip(column, (x, real[k], points[k])):
            ax.imshow(image.detach().permute(1, 2, 0).clamp(0, 1))
            ax.axis("off")
        column[0].set_title(f"{r.image}, {r.kind}", fontsize=9)
    return fig


def weights_of():
    "Digests of the weights of the packaged set and of the classifier that reads its points."
    return dict(set=packaged_set_card()["sha256"], reader=packaged_card(READER)["sha256"])


def read_landed(section):
    "The rows in the repository; None if there are none of this set and this classifier."
    path = landed_file(section, "blank_points")
    rows = pd.read_csv(path) if path.exists() else pd.DataFrame()
    return rows if are_of(rows, **weights_of()) else None


def main():
    section = RobustCifar10C(presets.resolve("cifar10c_robust", dict(preset="overnight", data="cifar10")), "cpu")
    rows = read_landed(section)
    if rows is None:
        rows, _ = search_all(section, torch.arange(N))
        made = dict(weights_of(), commit=commit(), device=device_name(section.device))
        land_rows(section, rows.round(6).assign(**made), "blank_points")
        rows = read_landed(section)
    found = list_blank(rows)
    logs = package_root().parent / "logs"
    fig = draw(section, found)
    with atomic_write(logs / "blank_overnight.png") as tmp: fig.savefig(tmp, format="png", dpi=70, bbox_inches="tight")
    with atomic_write(logs / "blank_overnight.md") as tmp: tmp.write_text(describe(rows, found, section.seed))


if __name__ == "__main__": main()
