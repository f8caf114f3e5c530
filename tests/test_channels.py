"""Pairs of any number of channels: of a microscope, a satellite, a scanner."""
import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image, ImageCms

from pertnb.data import pictures
from pertnb.experiments import own_files
from pertnb.models import classifier_files, nets

from test_cli import images, said # the fixture that runs a command in this process


def write_tiff(path, a): tifffile.imwrite(path, a.transpose(1, 2, 0), photometric="minisblack", planarconfig="contig")
def write_planes(path, a): tifffile.imwrite(path, a, photometric="minisblack", planarconfig="separate")
def write_deep(path, a): write_planes(path, a.astype(np.uint16) * 16)
def write_hyperstack(path, a): tifffile.imwrite(path, a, imagej=True, metadata=dict(axes="CYX"))
def write_npy(path, a): np.save(path, a.transpose(1, 2, 0))
def write_npz(path, a): np.savez_compressed(path, a / np.float32(255))


WAYS = {"bands of a TIFF": (".tif", write_tiff), "planes of a TIFF": (".tif", write_planes), "16 bits": (".tiff", write_deep), "ImageJ": (".tif", write_hyperstack),
        "npy": (".npy", write_npy), "npz": (".npz", write_npz)}


def make_pairs(folder, channels, way="npy", n=42, size=(20, 24)):
    "PAIRS: images of as many channels, and darker copies of them."
    suffix, write = WAYS[way]
    rng = np.random.default_rng(0)
    for i in range(n):
        x = np.concatenate([images(rng, (1, *size)) for _ in range(channels)])
        for part, a in (("clean", x), ("perturbed", (x * rng.uniform(.5, .9)).astype(np.uint8))):
            path = folder / part / ("cat", "dog")[i % 2] / f"image{i}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, a)
    return folder


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("channels", (2, 4, 5, 13))
def test_every_form_is_read_alike(tmp_path, way, channels):
    suffix, write = WAYS[way]
    a = np.random.default_rng(0).integers(0, 256, (channels, 20, 24), dtype=np.uint8)
    write(tmp_path / f"a{suffix}", a)
    head, back = pictures.read_header(tmp_path / f"a{suffix}"), pictures.read_picture(tmp_path / f"a{suffix}")
    assert head.shape == back.shape == a.shape and f"has {channels} channels" in head.note
    (scaled,), window = pictures.scale_pictures([back], {"16 bits": (0, 4080), "npz": (0, 1)}.get(way, ()))
    assert (scaled == a).all() and bool(window) == (way in ("16 bits", "npz"))


def check_refused(path, part, by_header=True):
    "Both readers refuse it in one line; where its header is sound, the one that decodes it does."
    if not by_header: pictures.read_header(path)
    for reader in (pictures.read_header, pictures.read_picture) if by_header else (pictures.read_picture,):
        with pytest.raises(pictures.Unsuitable, match=part) as raised: reader(path)
        assert "\n" not in str(raised.value)


REFUSED = {
    "alpha": (lambda path, a: tifffile.imwrite(path, a[:4].transpose(1, 2, 0), photometric="rgb", extrasamples=["unassalpha"]), "is partly transparent"),
    "too many": (lambda path, a: write_tiff(path, np.concatenate([a, a])), "has 26 channels: at most 15 can be used"),
    "slices": (lambda path, a: tifffile.imwrite(path, a, imagej=True, metadata=dict(axes="ZYX")), "holds 13 pictures"),
    "complex": (lambda path, a: write_tiff(path, a.astype(np.complex64)), "which is not a kind of real number"),
    "cut": (lambda path, a: (write_tiff(path, a), path.write_bytes(path.read_bytes()[:300])), "can't be read as an image"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(tmp_path, name, capfd):
    save, part = REFUSED[name]
    save(tmp_path / "a.tif", np.random.default_rng(0).integers(0, 256, (13, 20, 24), dtype=np.uint8))
    check_refused(tmp_path / "a.tif", part, by_header=name not in ("alpha", "cut"))
    assert capfd.readouterr() == ("", "")


def write_two(path, a): Image.fromarray(a).save(path, save_all=True, append_images=[Image.fromarray(255 - a)])
def write_stereo(path, a): Image.fromarray(a).save(path, "MPO", save_all=True, append_images=[Image.fromarray(255 - a)])
def write_deep_pages(path, a): tifffile.imwrite(path, np.stack([a[..., 0].astype(np.uint16) * 200] * 2), photometric="minisblack", metadata=None)


@pytest.mark.parametrize("suffix, write", ((".png", write_two), (".gif", write_two), (".webp", write_two), (".tif", write_two), (".jpg", write_stereo),
                                           (".tif", write_deep_pages)))
def test_a_file_of_two_pictures(tmp_path, suffix, write):
    "Which one is meant can't be guessed, so that neither is taken."
    write(tmp_path / f"a{suffix}", np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8))
    check_refused(tmp_path / f"a{suffix}", "holds 2 pictures: save the one that is meant")


def test_what_a_header_tells_is_refused_by_both(tmp_path):
    a, exif = Image.fromarray(np.arange(200, dtype=np.uint8).reshape(10, 20)), Image.Exif()
    exif[0x0112] = 6
    a.save(tmp_path / "turned.tif", exif=exif)
    check_refused(tmp_path / "turned.tif", "asks to be turned: save it upright")
    ImageCms.profileToProfile(a.convert("RGB"), ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB").save(tmp_path / "lab.tif")
    check_refused(tmp_path / "lab.tif", "has colours of the kind LAB: save it as RGB")
    np.save(tmp_path / "empty.npy", np.zeros((0, 20), np.uint8))
    check_refused(tmp_path / "empty.npy", "is empty, of shape")


def test_colours_stay_colours(tmp_path):
    "A TIFF of grey, colour, inks or a palette is read by Pillow, and an opaque alpha channel is dropped."
    a = np.random.default_rng(0).integers(0, 256, (20, 24, 4), dtype=np.uint8)
    opaque = np.dstack([a[..., :3], np.full((20, 24), 255, np.uint8)])
    for image, channels in ((a[..., 0], 1), (a[..., :3], 3), (opaque, 3)):
        Image.fromarray(image).save(tmp_path / "a.tif")
        assert pictures.read_picture(tmp_path / "a.tif").shape == (channels, 20, 24)
        tifffile.imwrite(tmp_path / "b.tif", image)
        assert (pictures.read_picture(tmp_path / "b.tif") == pictures.read_picture(tmp_path / "a.tif")).all()


def test_what_is_for_colours_only(said, tmp_path):
    "It is refused by --check."
    folder = make_pairs(tmp_path / "scans", 4)
    code, out, err = said("learn", folder, "--check", "-p", "classifier=patch-64")
    assert code == 1 and "classifier patch-64 is for grey and coloured images, and these have 4 channels" in err and err.count("\n") == 1
    code, out, err = said("learn", "camera", "--images", folder / "clean", "--check")
    assert code == 1 and "camera" in err and "1 or 3" in err and err.count("\n") == 1


def test_a_picture_of_another_kind(said, tmp_path):
    folder = make_pairs(tmp_path / "scans", 4)
    write_npy(folder / "clean/cat/image0.npy", np.zeros((5, 20, 24), np.uint8))
    code, out, err = said("learn", folder, "--check")
    assert code == 1 and "is 5 channels, 20 × 24, most are 4 channels, 20 × 24: make all of them alike" in err


def test_a_classifier_comes_back(tmp_path):
    net = dict(name="resnet-8", n_classes=2, width=8, patch=4, channels=5)
    model = nets.make_network(**net).eval().to(memory_format=torch.channels_last)  # in the layout of a loaded one
    classifier_files.save_classifier(model, net, tmp_path / "c.safetensors", method="standard")
    back, _ = classifier_files.load_classifier(tmp_path / "c.safetensors")
    x = torch.rand(2, 5, 20, 24)
    assert back(x).allclose(model(x))


@pytest.mark.parametrize("channels, way", ((2, "npy"), (4, "16 bits")))
def test_from_pairs_to_a_robust_model(said, monkeypatch, root, tmp_path, channels, way):
    "learn, evaluate, sample, attack and certify; the report shows pictures."
    monkeypatch.chdir(root)
    folder, out = make_pairs(tmp_path / "scans", channels, way), tmp_path / "learned"
    words = "--preset", "smoke", "-p", "methods=standard,cvae_adversarial", "--out", out, "--json"
    code, text, err = said("learn", folder, *words)
    assert code == 0, err
    made = json.loads(text)
    assert made["classifiers"] == ["cvae_adversarial", "standard"] and any(f"has {channels} channels" in line for line in made["notes"])
    report = Path(made["report"]).read_text()
    assert report.count("data:image/png") + report.count("<img") > 4 and f"has {channels} channels, of which figures show" in report
    for words in (("evaluate", "--n", "2", "--steps", "1"), ("sample", "--n", "2", "--out", tmp_path / "s.png"), ("attack", "--n", "2", "--steps", "1"),
                  ("certify", "--n", "2", "--draws", "20")):
        code, _, err = said(words[0], out, *words[1:])
        assert code == 0, err
    assert Image.open(tmp_path / "s.png").size[0] > 99
