"""The failures F7 to F21 of findings/reliability.md, each as it was shown; and generated arguments for the public functions."""
import argparse
import inspect
import io
import os
import signal
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st
from PIL import Image, ImageCms

from pertnb.core.files import write_tensors
from pertnb.data import images as data, pictures
from pertnb.experiments import own_files, own_folders, own_pairs, presets
from pertnb.learn import robust, train
from pertnb.data import pairs as views
from pertnb.models import classifier_files
from pertnb.released import checkpoints
from pertnb.sets import sets
from pertnb.tools import cli

from test_cli import make_pairs, said # the fixture that runs a command in this process

SIDE = 16


def one_line(got, code, *parts):
    "A command failed with this code, and one line that holds the parts."
    assert got[0] == code and got[2].count("\n") == 1, got
    for part in parts: assert part in got[2], got


@pytest.fixture(scope="module")
def pairs(tmp_path_factory): return make_pairs(tmp_path_factory.mktemp("pairs") / "scans", 42, (3, SIDE, SIDE), copies=1)


def replaced(pairs, folder, save):
    "A copy of the pairs, in which one clean picture is what save(array (H, W, 3), path without suffix) writes."
    import shutil
    shutil.copytree(pairs, folder)
    old = next((folder / "clean" / "cat").glob("*.png"))
    with Image.open(old) as image: a = np.asarray(image.convert("RGB"))
    old.unlink()
    save(a, str(old.with_suffix("")))
    return folder


def replaced_all(pairs, folder, save):
    "A copy of the pairs, in which each picture is what save(array (H, W, 3), path without suffix) writes."
    import shutil
    shutil.copytree(pairs, folder)
    for old in [*folder.rglob("*.png")]:
        with Image.open(old) as image: a = np.asarray(image.convert("RGB"))
        old.unlink()
        save(a, str(old.with_suffix("")))
    return folder


# F7: data folders


def class_folders(root, n, suffix=".png", make=lambda i: np.full((32, 32, 3), i, np.uint8)):
    for split in ("train", "test"):
        for k, c in enumerate(data.CIFAR10_CLASSES):
            (root / "cifar10" / split / c).mkdir(parents=True, exist_ok=True)
            for i in range(n): Image.fromarray(make(20 * k + i)).save(root / "cifar10" / split / c / f"{i}{suffix}")


def test_f7_a_cache_follows_its_folder(tmp_path):
    class_folders(tmp_path, 2)
    assert len(data.load_images("cifar10", "train", tmp_path)[0]) == 20
    class_folders(tmp_path, 5)
    assert len(data.load_images("cifar10", "train", tmp_path)[0]) == 50


@pytest.mark.parametrize("suffix", (".PNG", ".jpg", ".JPEG", ".bmp"))
def test_f7_every_kind_of_image_counts(tmp_path, suffix):
    class_folders(tmp_path, 1, suffix)
    assert len(data.load_images("cifar10", "test", tmp_path)[0]) == 10


def test_f7_deep_pictures_and_labels_that_are_images(tmp_path):
    class_folders(tmp_path, 1)
    Image.fromarray(np.full((32, 32), 999, np.uint16)).save(tmp_path / "cifar10/train/cat/0.png")
    with pytest.raises(ValueError, match="0.png has more than 8 bits per value: save it with 8"): data.load_images("cifar10", "train", tmp_path)
    first, labels = data.load_images("cifar10", "test", tmp_path)
    stamp = data.read_info(tmp_path / "cache/cifar10-test-images.npy")["stamp"]
    data.save_array(tmp_path / "cache/cifar10-test-labels.npy", first, stamp=stamp)
    assert data.load_images("cifar10", "test", tmp_path)[1].equal(labels)


# F8: two folders of one name


def test_f8_two_folders_of_one_name(said, tmp_path):
    settings = [presets.resolve("your_own_pairs", dict(preset="smoke", pairs=str(tmp_path / k / "scans"))) for k in "ab"]
    first = own_folders.find_own_folder(settings[0])
    own_folders.claim_folder(first, settings[0])
    assert [own_folders.find_own_folder(s).name for s in settings] == ["scans", "scans-2"] and own_folders.find_own_folder(settings[0]) == first


def test_f8_results_of_other_pairs_are_not_replaced(said, pairs, tmp_path):
    "Also where they are asked for by --out; nothing is written."
    for words in ((pairs, "--out", tmp_path / "out"), (pairs, "--out", tmp_path / "out", "--check")):
        other = presets.resolve("your_own_pairs", dict(preset="smoke", pairs=str(tmp_path / "others")))
        own_folders.claim_folder(tmp_path / "out", other)
        write_headers(tmp_path / "out", set="pertnb")
        before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
        one_line(said("learn", *words), 2, "holds the set of other pairs", "others): name another folder, or remove it first")
        assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    (tmp_path / "out" / "set.safetensors").unlink()
    assert own_folders.find_own_folder(presets.resolve("your_own_pairs", dict(pairs=str(pairs), out=str(tmp_path / "out")))) == tmp_path / "out"


def test_f8_a_wrong_size_is_told_before_anything_is_written(said, pairs, tmp_path):
    words = "learn", pairs, "--preset", "smoke", "--out", tmp_path / "out"
    one_line(said(*words, "-p", "patch=64"), 1, f"images of ({SIDE}, {SIDE}) pixels can't be cut into patches of 64")
    assert not (tmp_path / "out").exists()
    narrow = own_pairs.OwnPairs(presets.resolve("your_own_pairs", dict(preset="smoke", pairs=str(pairs), width=1)))
    assert narrow.choice()[0]["net"]["bottleneck"] == 1


def test_f8_files_of_another_kind(said, tmp_path):
    torch.save({}, tmp_path / "set.safetensors")
    one_line(said("evaluate", tmp_path), 1, "was written by torch.save and holds no radius", "PerturbationSet.load(FILE, eps=RADIUS)")
    write_headers(tmp_path, set="pertnb")
    with pytest.raises(ValueError, match="is a perturbation set, not a classifier"): classifier_files.load_classifier(tmp_path / "set.safetensors")
    with pytest.raises(ValueError, match=r"size must be a height and a width, got \[32\]"): sets.make_cvae("cifar10_residual", size=[32])


def test_f8_only_what_is_kept_is_said_to_be_kept():
    assert [k for k in cli.COMMANDS if "kept" in cli.tell_interrupted(k)] == ["run", "learn", "stages"] and cli.tell_interrupted() == "interrupted"


def write_headers(folder, **keys):
    "Small safetensors files whose headers have these keys."
    for name, key in keys.items(): write_tensors(folder / f"{name}.safetensors", dict(a=torch.zeros(1)), {key: "{}"})


def test_f8_what_an_earlier_run_left(tmp_path):
    "It is removed; files of the user's are not, whatever they are called."
    write_headers(tmp_path, set="pertnb", standard="classifier", smoothed="format", weights="pt", mine="classifier")
    (tmp_path / "pairs.safetensors").write_bytes(b"")
    for path in tmp_path.iterdir():
        if path.stem != "set": os.utime(path, (1, 1))
    cli.drop_older(tmp_path, time.time())
    assert {p.stem for p in tmp_path.iterdir()} == {"set", "smoothed", "weights", "mine", "pairs"}


def test_a_new_set_is_not_beside_the_classifiers_of_an_older_one(tmp_path):
    write_headers(tmp_path, set="pertnb", standard="classifier", pairs="classifier", weights="classifier")
    for name in ("report.html", "notes.html"): (tmp_path / name).write_text("")
    own_pairs.drop_saved(tmp_path, own_pairs.find_saved(tmp_path))
    assert {p.name for p in tmp_path.iterdir()} == {"set.safetensors", "weights.safetensors", "notes.html"}
    (tmp_path / "set.safetensors").unlink()
    (tmp_path / "report.html").write_text("of the user's")
    own_pairs.drop_saved(tmp_path, own_pairs.find_saved(tmp_path))
    assert (tmp_path / "report.html").exists()


# F9, F17: functions


FUNCTIONS = """
import functools, sys, torch
def dark(x): return x // 2
def drawn(x, generator): return (x * torch.rand(len(x), 1, 1, 1, generator=generator)).byte()
partial = functools.partial(dark)
class Callable:
    def __call__(self, x): return x // 2
thing, builtin, largest, number = Callable(), torch.neg, max, 3
def sparse(x): return x.to_sparse()
def meta(x): return x.to("meta")
def leaves(x): sys.exit(0)
def late(x): return torch.cat([x[:4] // 2, torch.rand(x[4:].shape).mul(255).byte()])
def constant(x): return torch.zeros_like(x)
def same(x): return x
def exchanged(x): return x.roll(1, 0)
def keyword(x, *, strength): return x
def three(x, generator, strength): return x
def long(x): raise ValueError("a" * 9999 + chr(27))
"""
GOOD_FUNCTIONS = "dark", "drawn", "partial", "thing"
BAD_FUNCTIONS = dict(
    builtin="neg does not tell its arguments: write def f(x): return neg(x)", largest="max does not tell its arguments", number="has no function 'number'",
    sparse="sparse must return uint8 (4, 3, 16, 16), as it was given, not torch.uint8 (4, 3, 16, 16) with layout torch.sparse_coo",
    meta="must return uint8 (4, 3, 16, 16), as it was given, not torch.uint8 (4, 3, 16, 16) on meta", leaves="leaves fails on images (4, 3, 16, 16): SystemExit: 0",
    late="late returns something else each time", constant="no pair can be learned from: of 60 pairs 60 one constant colour", same="60 not perturbed",
    exchanged="60 mixed up", keyword="must take (x) or (x, generator), not (x, *, strength)", three="must take (x) or (x, generator)", long="ValueError: aaa")


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    "A file of functions, and a folder of images."
    folder = tmp_path_factory.mktemp("functions")
    (folder / "f.py").write_text(FUNCTIONS)
    (folder / "leave.py").write_text("import sys\nsys.exit(0)\ndef f(x): return x\n")
    rng = np.random.default_rng(0)
    for i in range(60): own_files.write_image(folder / "images" / f"{i}.png", rng.integers(0, 256, (3, SIDE, SIDE), dtype=np.uint8))
    return folder


@pytest.mark.parametrize("name", GOOD_FUNCTIONS)
def test_f17_functions_that_work(said, functions, name):
    code, out, err = said("learn", f"{functions / 'f.py'}:{name}", "--images", functions / "images", "--check", "--preset", "smoke")
    assert (code, err) == (0, "") and "checked" in out


@pytest.mark.parametrize("name", BAD_FUNCTIONS)
def test_f9_f17_functions_that_do_not(said, functions, name):
    got = said("learn", f"{functions / 'f.py'}:{name}", "--images", functions / "images", "--check", "--preset", "smoke")
    one_line(got, 1, BAD_FUNCTIONS[name])
    assert len(got[2]) < 600 and "\x1b" not in got[2]


def test_f9_a_file_that_leaves(said, functions):
    one_line(said("learn", f"{functions / 'leave.py'}:f", "--images", functions / "images", "--check"), 1, "leave.py can't be run: SystemExit: 0")


# F10, F11, F17: parameters


VALUES = {
    "quantile=2": "'quantile' must lie in (0, 1], got 2.0", "quantile=0": "'quantile' must lie in (0, 1]", "methods=magic": "unknown method 'magic'", "methods=": "must name some of",
    "copies=0": "'copies' must be at least 1", "n_test=0": "'n_test' must be at least 1", "n_train=0": "'n_train' must be at least 1", "pgd_steps=0": "'pgd_steps' must be at least 1",
    "lr=0": "'lr' must be above 0", "epochs_standard=0": "'epochs_standard' must be above 0", "beta=nan": "'beta' must be finite", "classifier=vgg": "unknown classifier 'vgg'",
    "classifier=resnet-600002": "too large", "seed=99999999999999999999": "must be at most", "preset=huge": "unknown preset 'huge'", "pairs=other": "pairs is given by PAIRS",
    "data=photos": "data is given by --images", "name=../up": "must be that of a folder, not '../up'", "n_test=1.5": "must be of type int", "window=3,2": "two ascending numbers"}


@pytest.mark.parametrize("value", VALUES)
def test_f11_a_value_that_cannot_work(said, functions, value):
    got = said("learn", f"{functions / 'f.py'}:drawn", "--images", functions / "images", "-p", value, "--check")
    one_line(got, got[0], VALUES[value])
    assert got[0] in (1, 2)


def test_f17_more_versions_than_memory(said, functions):
    begin = time.process_time()
    one_line(said("learn", f"{functions / 'f.py'}:drawn", "--images", functions / "images", "-p", "copies=100000000", "--check"), 1, "100000000 versions of 60 images are")
    assert time.process_time() - begin < 5


def test_f10_the_preset_as_a_parameter(said, functions):
    words = "learn", f"{functions / 'f.py'}:drawn", "--images", functions / "images", "--check"
    assert said(*words, "-p", "preset=smoke")[0] == said(*words, "-p", "preset", "smoke")[0] == said(*words, "--preset", "smoke", "-p", "preset=smoke")[0] == 0
    one_line(said(*words, "--preset", "quick", "-p", "preset=smoke"), 2, "--preset quick and -p preset=smoke differ")
    one_line(said("run", "05", "-p", "preset=huge"), 2, "unknown preset 'huge'")
    one_line(said("run", "05", "-p", "methods=standard,magic"), 2, "unknown method 'magic'")
    one_line(said("run", "05", "-p", "lr", "-1"), 2, "'lr' must be finite and must not be negative: -1")


@pytest.mark.parametrize("words, part", ((("learn", "pairs", "--images", "imgs"), "--images go with a function"), (("stages", "--minutes", "nan"), "expected a number of at least 0, got 'nan'"),
                                         (("attack", "x", "--classifier", ""), "expected a name, got nothing"), (("learn", "camera", "--images", ""), "expected a name"),
                                         (("certify", "x", "--alpha", "1"), "above 0 and below 1"), (("evaluate", "x", "--seed", "9" * 30), "expected a whole number"),
                                         (("learn", "camera", "--resize", "8"), "at least 16")))
def test_f17_words(said, words, part): one_line(said(*words), 2, part)


# F12, F13, F18: pictures


def write_png16(a, stem):
    "16 bits a channel, which Pillow can't write."
    def chunk(kind, content): return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + (257 * row.astype(">u2")).tobytes() for row in a)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", a.shape[1], a.shape[0], 16, 2, 0, 0, 0))
    Path(f"{stem}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def as_lab(a):
    profiles = [ImageCms.createProfile(kind) for kind in ("sRGB", "LAB")]
    return ImageCms.profileToProfile(Image.fromarray(a), *profiles, outputMode="LAB")


def write_gif_as_png(a, stem):
    content = io.BytesIO()
    Image.fromarray(a).convert("P").save(content, "GIF", save_all=True, append_images=[Image.fromarray(255 - a).convert("P")])
    Path(f"{stem}.png").write_bytes(content.getvalue())


def two(a): return dict(save_all=True, append_images=[Image.fromarray(255 - a)])


REFUSED = {
    "palette with tRNS": (lambda a, stem: Image.fromarray(a).quantize(16).save(f"{stem}.png", transparency=3), "is partly transparent"),
    "RGB with tRNS": (lambda a, stem: Image.fromarray(a).save(f"{stem}.png", transparency=tuple(map(int, a[0, 0]))), "is partly transparent"),
    "RGBA": (lambda a, stem: Image.fromarray(np.dstack([a, a[..., :1]])).save(f"{stem}.png"), "is partly transparent"),
    "LAB": (lambda a, stem: as_lab(a).save(f"{stem}.tif"), "has colours of the kind LAB: save it as RGB"),
    "animated GIF named .png": (write_gif_as_png, "holds 2 pictures: save the one that is meant"),
    "animated WebP": (lambda a, stem: Image.fromarray(a).save(f"{stem}.webp", **two(a)), "holds 2 pictures"),
    "TIFF of two pages": (lambda a, stem: Image.fromarray(a).save(f"{stem}.tif", **two(a)), "holds 2 pictures"),
    "16 bits among bytes": (write_png16, "have 8 bits per value and 1 have more: save all of them alike, or give"),
    "NaN": (lambda a, stem: np.save(f"{stem}.npy", np.where(a > 99, np.nan, a)), "holds values that are not finite"),
    "volume": (lambda a, stem: np.save(f"{stem}.npy", np.zeros((20, 20, 30))), "save one slice per file"),
    "objects": (lambda a, stem: np.save(f"{stem}.npy", np.array([{}] * 9), allow_pickle=True), "which is not a kind of real number"),
    "cut": (lambda a, stem: Path(f"{stem}.png").write_bytes(b"\x89PNG\r\n"), "can't be read as an image"),
    "link to nothing": (lambda a, stem: Path(f"{stem}.png").symlink_to("/nowhere"), "is a link to nothing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_f13_pictures_that_are_refused(said, pairs, tmp_path, name):
    save, part = REFUSED[name]
    one_line(said("learn", replaced(pairs, tmp_path / "scans", save), "--check"), 1, part)


def test_f13_slice_without_its_package(said, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    folder = replaced(pairs, tmp_path / "scans", lambda a, stem: Path(f"{stem}.dcm").write_bytes(b""))
    one_line(said("learn", folder, "--check"), 1, "needs pydicom: pip install pydicom, or save it as a TIFF")


CONVERTED = {
    "CMYK": (replaced, lambda a, stem: Image.fromarray(a).convert("CMYK").save(f"{stem}.jpg"), "has inks (CMYK), which become RGB"),
    "16 bits a channel": (replaced_all, write_png16, "values from 0 to 65535 become 0 to 255"),
    "floats": (replaced_all, lambda a, stem: np.save(f"{stem}.npy", a / 255), "values from 0 to 1 become 0 to 255"),
    "member of a .npz": (replaced, lambda a, stem: np.savez_compressed(f"{stem}.npz", a), ""),
    "opaque RGBA": (replaced, lambda a, stem: Image.fromarray(a).convert("RGBA").save(f"{stem}.png"), ""),
    "palette": (replaced, lambda a, stem: Image.fromarray(a).quantize(256).save(f"{stem}.png"), ""),
    "upper case": (replaced, lambda a, stem: Image.fromarray(a).save(f"{stem}.PNG"), ""),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_f13_pictures_that_are_converted(said, pairs, tmp_path, name):
    copy, save, part = CONVERTED[name]
    folder = copy(pairs, tmp_path / "scans", save)
    code, out, err = said("learn", folder, "--check")
    assert (code, err) == (0, "") and part in out
    a, b = own_files.read_pairs(pairs), own_files.read_pairs(folder)
    assert (a.images.float() - b.images.float()).abs().mean() < (0.01 if copy is replaced_all else 9)


def test_f12_photographs_are_refused_by_their_headers(said, tmp_path):
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (3, 4, 3), dtype=np.uint8)).resize((4000, 3000))
    content = io.BytesIO()
    photo.save(content, "JPEG", quality=60)
    for part in ("clean", "perturbed"):
        (tmp_path / "big" / part).mkdir(parents=True)
        for i in range(40): (tmp_path / "big" / part / f"{i}.jpg").write_bytes(content.getvalue())
    begin = time.process_time()
    one_line(said("learn", tmp_path / "big", "--check"), 1, "images of 3000 × 4000 pixels: sides must be from 16 to 256; --resize 64")
    assert time.process_time() - begin < 5
    small = own_files.read_all([tmp_path / "big/clean/1.jpg"], [], 64, 48)
    assert small[0].shape == (3, 48, 48) and small[0].std() > 5


def test_f12_resize_takes_both_of_a_pair_alike(said, tmp_path):
    folder = make_pairs(tmp_path / "large", 42, (3, 300, 400), copies=1)
    one_line(said("learn", folder, "--check"), 1, "sides must be from 16 to 256")
    assert said("learn", folder, "--resize", "24", "--check")[0] == 0
    found = own_files.read_pairs(folder, resize=24, crop=20)
    assert tuple(found.images.shape[1:]) == (3, 20, 20)
    change = found.perturbed[:, 0].float().mean((1, 2)) / found.images[:, 0].float().mean((1, 2))
    assert .4 < change.min() and change.max() < .95 # darker by the same factors as before


def test_f12_a_bomb_is_one_line(said, pairs, tmp_path):
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = replaced(pairs, tmp_path / "scans", lambda a, stem: Image.new("1", (13000, 13000)).save(f"{stem}.png"))
        one_line(said("learn", folder, "--check"), 1, "is 13000 × 13000, more than")


def test_f18_names(said, pairs, tmp_path):
    import shutil
    folder = shutil.copytree(pairs, tmp_path / "scans")
    odd = "\x1b[31mred\n.png", os.fsdecode(b"caf\xe9.png")
    for name in odd: shutil.copy(folder / "clean/cat/image0.png", folder / "clean/cat" / name)
    code, out, err = said("learn", folder, "--check")
    assert code == 1 and err.count("\n") == 1 and out.count("\n") == 2 and "\x1b" not in out + err and r"\x1b[31mred\n.png" in out and r"caf\udce9.png" in out
    for name in odd: shutil.copy(folder / "perturbed/cat/image0__0.png", folder / "perturbed/cat" / name)
    code, out, err = said("learn", folder, "--check", "--json")
    assert code == 0 and "\x1b" not in out + err


def test_f18_a_linked_class_folder(pairs, tmp_path):
    import shutil
    folder = shutil.copytree(pairs, tmp_path / "scans")
    for part in ("clean", "perturbed"):
        (folder / part / "cat").rename(tmp_path / f"{part}-cat")
        (folder / part / "cat").symlink_to(tmp_path / f"{part}-cat")
        (folder / part / "cat" / "loop").symlink_to(folder / part)
    assert own_files.read_pairs(folder).classes == ("cat", "dog")


def test_a_renamed_class_folder_is_two_lines(said, pairs, tmp_path):
    import shutil
    folder = shutil.copytree(pairs, tmp_path / "scans")
    (folder / "perturbed" / "cat").rename(folder / "perturbed" / "cats")
    code, out, err = said("learn", folder, "--check")
    assert code == 1 and "2 faults" in err and "the class folder clean/cat (21 files) has no folder perturbed/cat" in out


# F14: size bombs


def archive(path, content):
    "A zip with a deflated member."
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z: z.writestr("archive/data.pkl", content)


def checkpoint(path, state):
    torch.save(dict(model_state_dict=state), path)
    return path


def wide(conv, blocks=1):
    "The keys that tell the size of a wide residual network."
    state = {f"block1.layer.{i}.conv1.weight": torch.zeros(conv, 1) for i in range(blocks)}
    return state | {"fc.bias": torch.zeros(10)}


BOMBS = {
    "deflated": (lambda p: archive(p, bytes(10**7)), "is compressed"),
    "stride 0": (lambda p: checkpoint(p, {"prior.fc21.weight": torch.zeros(1).expand(10**12)}), "claims tensors of"),
    "wide": (lambda p: checkpoint(p, wide(1_600_000)), "is too large"),
    "deep": (lambda p: checkpoint(p, wide(16, 3000)), "is too large"),
    "many": (lambda p: checkpoint(p, {f"a{i}": torch.zeros(1) for i in range(6000)}), "holds 6000 tensors: at most"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_f14_checkpoints(tmp_path, name):
    make, part = BOMBS[name]
    make(tmp_path / "c.pt")
    begin = time.process_time()
    with pytest.raises(ValueError) as raised: (checkpoints.load_cvae if name in ("deflated", "stride 0", "many") else checkpoints.load_released_classifier)(tmp_path / "c.pt")
    assert part in str(raised.value) and "\n" not in str(raised.value) and len(str(raised.value)) < 1000, raised.value
    assert time.process_time() - begin < 5


TINY = dict(latent=4, width=8, bottleneck=4, blocks=1, features=1, maps=1, patch=2, encoder_patch=4)
HEADERS = {"blocks": dict(blocks=10**6), "latent": dict(latent=10**9), "width": dict(width=3000), "size": dict(size=[10**6, 10**6])}


@pytest.mark.parametrize("name", HEADERS)
def test_f14_headers_of_sets(tmp_path, name):
    import json
    about = dict(config=dict(name="cifar10_residual", **TINY | HEADERS[name]), eps=2., percentiles=[], info={})
    write_tensors(tmp_path / "s.safetensors", PSET.cvae.state_dict(), dict(pertnb=json.dumps(about)))
    begin = time.process_time()
    with pytest.raises(ValueError, match="but the file holds|is expected"): sets.load_set(tmp_path / "s.safetensors")
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("net", (dict(name="resnet-600002"), dict(name="resnet-8", width=10**6), dict(name="patch-9999999"), dict(name="wrn-10-1000")))
def test_f14_headers_of_classifiers(tmp_path, net):
    import json
    write_tensors(tmp_path / "c.safetensors", dict(a=torch.zeros(3)), dict(classifier=json.dumps(dict(net=net, info={}))))
    begin = time.process_time()
    with pytest.raises(ValueError, match="holds no classifier of this package"): classifier_files.load_classifier(tmp_path / "c.safetensors")
    assert time.process_time() - begin < 5


# F15, F16, F21: signals, pipes, devices: processes


@pytest.mark.parametrize("words", (["data"], ["--help"], ["--version"]))
def test_f21_stdout_that_is_gone(words, tmp_path):
    env = dict(os.environ, PERTNB_DATA=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, "-c", "from pertnb.tools.cli import script; script()", *words]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=env, text=True, timeout=100)
    os.close(write)
    drops = "OSError" in inspect.getsource(argparse.ArgumentParser._print_message) # what it can't write: this version of Python or not
    assert done.returncode == (0 if words == ["--help"] and drops else 1) and done.stderr == ""
    with open("/dev/full", "w") as full: done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=env, text=True, timeout=100)
    if words == ["--help"] and drops: assert (done.returncode, done.stderr) == (0, "")
    else: assert done.returncode == 1 and "No space left on device" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("words, closed, code, lines", ((["data"], 1, 0, 0), (["data", "nowhere"], 1, 2, 1), (["data", "nowhere", "--json"], 2, 2, 1)))
def test_streams_that_are_closed(words, closed, code, lines, tmp_path):
    "Nothing is written for what nobody is to read, and nothing of it to the other stream."
    env = dict(os.environ, PERTNB_DATA=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, "-c", f"import os\nos.close({closed})\nos.execv({sys.executable!r}, [{sys.executable!r}, '-c', 'from pertnb.tools.cli import script; script()', *{words!r}])"]
    done = subprocess.run(command, capture_output=True, env=env, text=True, timeout=100)
    assert (done.returncode, (done.stdout + done.stderr).count("\n")) == (code, lines), done


def test_json_is_ascii(said, tmp_path, monkeypatch):
    "So that the encoding of stdout does not matter."
    monkeypatch.setenv("PERTNB_DATA", str(tmp_path / "données"))
    code, out, _ = said("data", "photos", "--json")
    assert code == 0 and out.isascii() and "donn\\u00e9es" in out


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_f16_signals(number, tmp_path):
    "A command that works is ended with one line. (What a shell starts in the background ignores SIGINT, and so do its children.)"
    script = "import signal, time\nfrom pertnb.tools import cli\nsignal.signal(signal.SIGINT, signal.default_int_handler)\ncli.EXPERIMENT_COMMANDS\ndef work(args):\n print('here', flush=True)\n time.sleep(60)\n"
    script += "cli.COMMANDS['data'] = (work, *cli.COMMANDS['data'][1:])\ncli.script(['data'])"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
    assert child.stdout.readline() == "here\n"
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (1, f"pertnb data: {cli.tell_interrupted()}\n")


@pytest.mark.parametrize("change, part", ((dict(PERTNB_RUNS="loop"), "Too many levels of symbolic links"), (dict(PERTNB_RUNS="file/runs"), "make room or rights there")))
def test_f15_stages_in_places_that_cannot_be_written(said, tmp_path, monkeypatch, change, part):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    for k, v in change.items(): monkeypatch.setenv(k, str(tmp_path / v))
    one_line(said("stages", "--preset", "smoke", "--data", "photos", "--stage", "cvae"), 1, part)


@pytest.mark.parametrize("words, part", ((["--data", "mnist"], "expected auto, cifar10 or photos"), (["--data", "digits"], "expected auto, cifar10 or photos"),
                                         (["--device", "meta"], "device"), (["--device", "gpu"], "device"), (["--stage", "cvea"], "unknown stage")))
def test_f15_words_of_stages(said, words, part): one_line(said("stages", "--preset", "smoke", *words), 2, part)


# F20: tensors


torch.manual_seed(0)
from pertnb.attack import attack
from pertnb.models import cvae, nets
PSET = sets.PerturbationSet(cvae.make_cvae("cifar10_residual", **TINY), 2.)
MODEL = nets.make_classifier("resnet-8", width=4).eval()
X = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
U = torch.zeros(2, 4)


def g(): return torch.Generator().manual_seed(0)


TENSORS = {
    "no image": (lambda: PSET.perturb(X[:0], U[:0]), "x must hold at least one image"), "no image to draw": (lambda: PSET.sample(X[:0], 1, g()), "at least one image"),
    "no pair": (lambda: PSET.encode(X[:0], X[:0]), "at least one image"), "no point": (lambda: PSET.sample(X, 0, g()), "n must be a whole number, at least 1"),
    "nothing to attack": (lambda: attack.attack_classifier(PSET, MODEL, X[:0], torch.arange(0), 1.), "at least one image"),
    "float64": (lambda: PSET.at(X.double()), "x must be float32, as the set's weights are, got float64: convert it by x.to(torch.float32)"),
    "half": (lambda: PSET.encode(X, X.half()), "x_tilde must be float32"), "bfloat16": (lambda: PSET.sample(X.bfloat16(), 1, g()), "got bfloat16"),
    "float64 latents": (lambda: PSET.perturb(X, U.double()), "u must be float32"), "NaN latents": (lambda: PSET.at(X)(U / 0), "u must be finite"),
    "inf latents": (lambda: PSET.perturb(X, U + float("inf")), "u must be finite"), "radius NaN": (lambda: sets.project(U, float("nan")), "eps must be a finite number"),
    "radius -1": (lambda: sets.project(U, -1.), "eps must be a finite number, at least 0, got -1.0"),
    "labels beyond the classes": (lambda: robust.fit_classifier("standard", None, views.Views(X.byte(), X.byte()[None], torch.tensor([0, 3]), torch.arange(2), ("fog",), ""),
                                                               train.Schedule(), dict(name="resnet-8", n_classes=3), None), "labels must be from 0 to 2, got 0 to 3"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_f20_tensors(name):
    work, part = TENSORS[name]
    with pytest.raises(ValueError) as raised: work()
    assert part in str(raised.value)


def test_f20_a_radius_beyond_all_bounds(): assert sets.sample_ball(5, 4, 1e300, g()).isfinite().all()


# generated arguments: pertnb.tools.assault says what is right


from hypothesis import seed
from pertnb.tools import assault


@pytest.mark.parametrize("name", assault.TARGETS)
def test_generated_arguments(name, tmp_path, monkeypatch):
    "The same draws each time; what is wrong is shown by the simplest arguments that show it."
    monkeypatch.setenv("PERTNB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PERTNB_DATA", str(tmp_path / "data"))
    target = assault.TARGETS[name]

    @seed(1)
    @hypothesis_settings(max_examples=100, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.fixed_dictionaries({k: st.just(pool[0]) | st.sampled_from(pool) for k, pool in target.pools.items()}))
    def attempt(arguments): assault.judge(target, arguments)
    attempt()


def test_f21_names_in_the_gallery(tmp_path, monkeypatch):
    site = pytest.importorskip("pertnb.report.site")
    monkeypatch.setattr(site, "write_thumbnail", lambda figure, folder: (f"quick-{figure['stem']}.webp", (3, 4)))
    card = site.make_card(dict(stem='x" onerror="alert(1)', caption="", origin="", preset="quick"), "05", tmp_path)
    assert 'x" onerror' not in card and "x&quot; onerror" in card
