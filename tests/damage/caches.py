"""Damage to what is kept of data: corrupted images, images and labels of data sets, scenes."""
import io
import json
import shutil
import tempfile
from contextlib import redirect_stdout
from functools import lru_cache, partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image

from pertnb.core import arrays
from pertnb.data import built_in, images as data, illumination, pairs, scene_files

from .ways import ANY, CUT, UNSAID, change, flip, put_text, remove

NAMES, HEAD = ("contrast", "brightness"), 128 # corruptions; bytes of a .npy file before the values
N, MIP = 20, 7


def draw_scene(seed):
    "Images under the 25 lights and materials, for write_scene."
    g, size = np.random.default_rng(seed), illumination.mip_size(MIP)
    return g.integers(256, size=(25, 3, *size), dtype=np.uint8), g.integers(1, 40, size, dtype=np.uint8)


def load_views(folder):
    "Corrupted images in blocks of eight, so that the last is not full."
    with patch("pertnb.data.corrupted.BLOCK", 8):
        views = pairs.load_views("cifar10", "test", NAMES, root=folder)
    return views.corrupted, views.digest


def load_images(folder): return data.load_images("cifar10", "test", folder)


def load_scenes(folder):
    scenes = scene_files.load_scenes("mi", "train", MIP, root=folder)
    return scenes.images, scenes.materials, scenes.digest


LOAD = {"corruption cache": load_views, "corruption ledger": load_views, "image cache": load_images,
        "scene cache": load_scenes}


@lru_cache
def small_caches():
    "A folder with two images per class, two scenes, and all that is kept of them; it is removed when the process ends."
    kept = tempfile.TemporaryDirectory()
    folder, g = Path(kept.name), np.random.default_rng(0)
    for split in built_in.SPLITS:
        for c in data.CIFAR10_CLASSES:
            (folder / "cifar10" / split / c).mkdir(parents=True)
            for k in range(N // 10):
                pixels = g.integers(256, size=(32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"cifar10/{split}/{c}/{k}.png")
    for k in range(2): scene_files.write_scene(folder / f"multi_illumination/scene{k}", MIP, *draw_scene(k))
    for load in (load_views, load_images, load_scenes): load(folder)
    data.load_images("cifar10", "train", folder)
    return kept


def file_of(folder, pattern): return next(folder.glob(pattern))


def corrupted(folder): return file_of(folder, "corrupted/*.npy")


def ledger(folder): return file_of(folder, "corrupted/*.json")


def images(folder): return folder / "cache/cifar10-test-images.npy"


def labels(folder): return folder / "cache/cifar10-test-labels.npy"


def lights(folder): return folder / f"cache/mi-train-mip{MIP}-images.npy"


def materials(folder): return folder / f"cache/mi-train-mip{MIP}-materials.npy"


def exchange(b): return b[:HEAD] + b[HEAD + (len(b) - HEAD) // 2:] + b[HEAD:HEAD + (len(b) - HEAD) // 2]


def exchange_blocks(b):
    size = 8 * 3072
    return b[:HEAD] + b[HEAD + size:HEAD + 2 * size] + b[HEAD:HEAD + size] + b[HEAD + 2 * size:]


def replace_array(file): np.save(file, np.zeros((2, N, 3), np.float32))


def rewritten(**new):
    "A damage: fields of a JSON file have other values; a function is given the old one."
    def damage(file):
        found = json.loads(file.read_text())
        file.write_text(json.dumps(found | {k: v(found[k]) if callable(v) else v for k, v in new.items()}))
    return damage


BYTES = ANY | {
    "all zeros": change(lambda b: bytes(len(b))),
    "cut in the header": change(lambda b: b[:50]),
    "longer": change(lambda b: b + b"1"),
    "absent": remove(),
    "another array": replace_array}
TEXTS = {
    "empty": put_text(""),
    "text": put_text("a text"),
    "cut": CUT,
    "null": put_text("null"),
    "a list": put_text("[]"),
    "a number": put_text("7"),
    "not UTF-8": change(lambda b: b"\xff" + b)}
CORRUPTED = {"corruptions exchanged": change(exchange), "blocks exchanged": change(exchange_blocks)}
LEDGER = {
    "nothing in it": put_text("{}"),
    "blocks null": rewritten(blocks=None),
    "blocks a list": rewritten(blocks=[]),
    "blocks too long": rewritten(blocks=lambda b: {c: [*b[c], "more"] for c in b}),
    "blocks numbers": rewritten(blocks=lambda b: {c: [7] for c in b}),
    "blocks of others": rewritten(blocks=lambda b: {"fog": b["contrast"]}),
    "another digest": rewritten(blocks=lambda b: {c: ["0" * 64, *b[c][1:]] for c in b}),
    "other images": rewritten(source="another"),
    "another severity": rewritten(severity=1)}


def exchange_labels(folder):
    "The labels of other images, of another number, with a .json that fits them."
    kept = arrays.read_info(labels(folder))
    arrays.save_array(labels(folder), np.arange(7), source=kept["source"], stamp=kept["stamp"])


def exchange_split(folder):
    "The images of the other split, with their .json."
    for suffix in (".npy", ".json"):
        shutil.copy2(folder / f"cache/cifar10-train-images{suffix}", images(folder).with_suffix(suffix))


def unpack_more(folder):
    "What is cached was read when half of the images were unpacked."
    files = [folder / f"cifar10/test/{c}/1.png" for c in data.CIFAR10_CLASSES]
    for file in files: file.rename(folder / f"{file.parent.name}.png")
    with redirect_stdout(io.StringIO()): assert len(load_images(folder)[0]) == N // 2
    for file in files: (folder / f"{file.parent.name}.png").rename(file)


def lose_source(folder):
    "Damaged, and the files that it was made from are gone."
    flip(-9)(images(folder))
    shutil.rmtree(folder / "cifar10")


def replace_light(folder):
    "What is cached was read from a file of the same name and size, but of another image."
    file = folder / f"multi_illumination/scene0/dir_0_mip{MIP}.jpg"
    flip(file.stat().st_size // 2)(file)
    with redirect_stdout(io.StringIO()): load_scenes(folder)
    shutil.copy2(small_folder() / file.relative_to(folder), file)


def claim_done(folder):
    "The ledger lists all blocks of a file that holds none."
    corrupted(folder).write_bytes(bytes(corrupted(folder).stat().st_size))


def small_folder(): return Path(small_caches().name)


@lru_cache
def read_well(load):
    "What is read of the caches when nothing is wrong; it says nothing."
    with redirect_stdout(io.StringIO()) as said:
        found = [v.clone() if hasattr(v, "clone") else v for v in load(small_folder())]
    assert not said.getvalue()
    return found


def judge(
    kind,   # of file, a key of LOAD
    damage, # one of its damages
    folder, # an empty one
):
    "'made again' or 'refused', in one line; AssertionError if the damage is used, unsaid, or said in several lines."
    good = read_well(LOAD[kind])
    shutil.copytree(small_folder(), folder, dirs_exist_ok=True)
    DAMAGES[kind][damage](folder)
    offline = patch.object(data, "download", side_effect=FileNotFoundError("it is not there"))
    with redirect_stdout(io.StringIO()) as said, offline:
        try: found = LOAD[kind](folder)
        except (ValueError, OSError) as error:
            assert "\n" not in str(error) and not said.getvalue(), f"{error}\n{said.getvalue()}"
            return "refused"
    same = [a.equal(b) if hasattr(a, "equal") else a == b for a, b in zip(found, good, strict=True)]
    assert all(same), "damaged data were used"
    lines = said.getvalue().splitlines()
    one = len(lines) == 1 and lines[0].endswith(": made again")
    assert one or damage in UNSAID and not lines, f"one line was expected, got {lines}"
    with redirect_stdout(io.StringIO()) as said: LOAD[kind](folder)
    assert not said.getvalue(), f"it was not mended for good: {said.getvalue()}"
    return "made again"


def at(file, damage):
    "A damage to a folder: `damage` is done to a file in it."
    return lambda folder: damage(file(folder))


def beside(file): return lambda folder: file(folder).with_suffix(".json")


def prefixed(prefix, damages, file, names=None):
    "Damages to a folder, with longer names: {prefix + name: damage}."
    return {prefix + name: at(file, damages[name]) for name in names or damages}


FEW = "bit of the data", "all zeros"
DAMAGES = {
    "corruption cache": prefixed("", BYTES | CORRUPTED, corrupted) | {"ledger claims done": claim_done},
    "corruption ledger": prefixed("", ANY | TEXTS | LEDGER, ledger),
    "image cache": prefixed("", BYTES, images) | prefixed("labels, ", BYTES, labels, FEW)
    | prefixed(".json, ", TEXTS, beside(images)) | {
        "labels of another number": exchange_labels, "images of another split": exchange_split,
        "partly unpacked": unpack_more, "source gone": lose_source},
    "scene cache": prefixed("", BYTES, lights) | prefixed("materials, ", BYTES, materials, FEW)
    | {"a light replaced": replace_light} | prefixed(".json, ", TEXTS, beside(lights), ("empty", "null"))}
CASES = {(kind, damage): partial(judge, kind, damage) for kind in DAMAGES for damage in DAMAGES[kind]}
