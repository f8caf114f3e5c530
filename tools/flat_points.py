"""Are the points of the packaged set that count as flat blank? Rows, a log and a picture, from 1,000 test images.

    python tools/flat_points.py

A set holds a flat point if AutoPGD (60 steps, 3 starts) finds one with less than half the contrast (the standard
deviation over the values of an image) of the flattest real corruption of its image. Rows that were landed are read;
the picture is of those points.
"""
import matplotlib.pyplot as plt
import pandas as pd
import torch

from pertnb.core.paths import atomic_write, package_root, provenance
from pertnb.core.random import make_generator
from pertnb.data.pairs import to_float
from pertnb.experiments import presets
from pertnb.experiments.cifar10c_robust import RobustCifar10C
from pertnb.measure import excess
from pertnb.models.classifier_files import packaged_classifier
from pertnb.report.tables import markdown_table

from package_classifier import landed_file, write_rows  # beside this file

N, STEPS, STARTS, READER = 1000, 60, 3, "cifar10c"
LEAST = 0.02 # contrast below which an image looks empty, whatever its set


def search(pset, reader, x, views, y, starts):
    "Rows of images x (B, C, H, W), the flattest point of each set, and the flattest of its views (V, B, C, H, W)."
    u, best = excess.search_extreme(pset, x, views, "flat", starts, STEPS)
    with torch.no_grad():
        contrast, which = views.flatten(2).std(2).min(0)
        points, flattest = pset.perturb(x, u), views[which, torch.arange(len(x))]
        right = lambda images: (reader(images).argmax(1) == y).numpy()
        rows = dict(flat=-best.numpy(), real_flat=contrast.numpy(), read=right(points), read_real=right(flattest))
    return pd.DataFrame(rows), points, flattest


def search_all(section, images, batch=100):
    "Rows, points and flattest views of the images with these numbers, all (N, ...)."
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
    rows, *pictures = zip(*parts)
    return pd.concat(rows, ignore_index=True).assign(image=images), *map(torch.cat, pictures)


def describe(rows, source):
    "The log, in Markdown."
    ratio = rows.flat / rows.real_flat
    found = rows[ratio < excess.FLAT].assign(share=100 * ratio)
    by = ", ".join(f"{(ratio < t).sum()} below {t:.0%}" for t in (0.4, 0.45, 0.5, 0.6))
    numbers = {"flattest point": found.flat.map("{:.3f}".format), "%": found.share.map("{:.0f}".format),
               "flattest corruption": found.real_flat.map("{:.3f}".format)}
    table = pd.DataFrame(numbers | {"read": found.read.map({True: "yes", False: "no"})})
    return f"""# The points of the packaged set that count as flat

Made by `python tools/flat_points.py`: data cifar10, seed {source["seed"]}, {len(rows):,} test images, all 12
corruptions and the image itself; AutoPGD, {STEPS} steps, {STARTS} starts; float32, {source["device"]}, commit
{source["commit"]}. *Contrast* is the standard deviation over the values of an image. A set is said to hold a flat
point if there is one with less than half the contrast of the flattest real corruption of its image.

**{len(found)} of {len(rows):,} sets hold one. {(found.flat < LEAST).sum()} of these points have a contrast below {LEAST},
where an image looks empty.** They have {ratio.min():.0%} to {found.share.max() / 100:.0%} of the contrast of the
flattest real corruption ({by}), that is {found.flat.min():.3f} to {found.flat.max():.3f}; a quarter of all images have a
real corruption of {rows.real_flat.quantile(.25):.3f} or less. The classifier trained on the corruptions reads
{found.read.sum()} of the {len(found)}. It reads {100 * rows.read.mean():.1f}% of the flattest points of all sets, and
{100 * rows.read_real.mean():.1f}% of the flattest real corruptions. Of all sets, {(rows.flat < LEAST).sum()} have a point
below {LEAST}; {(rows.real_flat < LEAST).sum()} images have a real corruption there.

{markdown_table(table.set_axis(found.image)).replace("|  |", "| image |", 1)}

![Images, their flattest real corruption, and the flattest point of their sets](flat_overnight.png)

Top: the images; middle: their flattest real corruption; bottom: the flattest point of their sets.
"""


def draw(x, flattest, points):
    "Three rows of images; returns the figure."
    fig, axes = plt.subplots(3, len(x), figsize=(1.2 * len(x), 3.8), squeeze=False)
    for row, images in zip(axes, (x, flattest, points)):
        for ax, image in zip(row, images):
            ax.imshow(image.permute(1, 2, 0).clamp(0, 1))
            ax.axis("off")
    return fig


def main():
    section = RobustCifar10C(presets.resolve("cifar10c_robust", dict(preset="overnight", data="cifar10")))
    path = landed_file(section, "flat_points")
    if not path.exists():
        rows, _, _ = search_all(section, torch.arange(N))
        write_rows(section, rows.round(6), "flat_points")
    rows = pd.read_csv(path)
    found = torch.tensor(rows.image[rows.flat < excess.FLAT * rows.real_flat].to_numpy())
    _, points, flattest = search_all(section, found)
    test, _ = section.test_views(N)
    logs = package_root().parent / "logs"
    fig = draw(to_float(test.images[test.index[found]]), flattest, points)
    with atomic_write(logs / "flat_overnight.png") as tmp: fig.savefig(tmp, format="png", dpi=40, bbox_inches="tight")
    source = provenance(section.preset, section.data, section.seed, len(rows), 0, section.device)
    with atomic_write(logs / "flat_overnight.md") as tmp: tmp.write_text(describe(rows, source))


if __name__ == "__main__": main()
