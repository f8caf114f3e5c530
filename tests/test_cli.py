"""The command `pertnb`: each command and each error, in this process; a few through the installed script."""
import json
import re
import shutil
import sys
import types
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_code_cell, new_notebook
from papermill.exceptions import PapermillExecutionError
from PIL import Image

from pertnb.core import paths
from pertnb.core.files import read_tensors, write_tensors
from pertnb.experiments import own, own_folders, own_report, presets
from pertnb.models import classifier_files, cvae, nets
from pertnb.sets import sets
from pertnb.tools import cli


def images(rng, shape):
    "A smooth image (C, H, W)."
    rough = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).resize(shape[:0:-1], Image.Resampling.BICUBIC)
    return np.asarray(rough).transpose(2, 0, 1)[:shape[0]]


def make_pairs(folder, n=44, shape=(3, 24, 20), classes=("cat", "dog"), copies=2):
    "PAIRS: images and darker copies of them."
    rng = np.random.default_rng(0)
    for i in range(n):
        x = images(rng, shape)
        place = (classes[i % len(classes)],) if classes else ()
        versions = [("clean", "", x)] + [("perturbed", f"__{k}", (x * rng.uniform(.5, .9)).astype(np.uint8)) for k in range(copies)]
        for part, suffix, a in versions:
            path = Path(folder, part, *place, f"image{i}{suffix}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(a[0] if len(a) == 1 else a.transpose(1, 2, 0)).save(path)
    return Path(folder)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory): return make_pairs(tmp_path_factory.mktemp("pairs") / "scans")


@pytest.fixture(scope="module")
def learned(tmp_path_factory, pairs):
    "A set's folder as `pertnb learn` leaves it, of untrained networks."
    folder = tmp_path_factory.mktemp("learned")
    torch.manual_seed(0)
    net = cvae.make_cvae("cifar10_residual", latent=4, width=8, bottleneck=4, blocks=1, features=2, maps=2, patch=4, encoder_patch=4, skip=True, size=(24, 20))
    settings = presets.resolve("your_own_pairs", dict(preset="smoke", pairs=str(pairs)))
    sets.PerturbationSet(net, 2., (.5, 1., 1.5), dict(source={k: getattr(settings, k) for k in own_folders.SOURCE}, classes=["cat", "dog"])).save(folder / "set.safetensors")
    net = dict(name="resnet-8", n_classes=2, width=8, patch=2)
    classifier_files.save_classifier(nets.make_classifier(**net), net, folder / "standard.safetensors", method="standard")
    return folder


@pytest.fixture
def said(capsys, monkeypatch, tmp_path):
    "said(words) -> exit code, stdout, stderr; runs go to the test's folder."
    monkeypatch.setenv("PERTNB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PERTNB_DATA", str(tmp_path / "data"))
    def said(*words):
        code = cli.main(words)
        out, err = capsys.readouterr()
        return code, out, err
    return said


def as_object(got):
    "The one JSON object on stdout of a command that succeeded."
    code, out, err = got
    assert code == 0, err
    assert out.count("\n") == 1
    return json.loads(out)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help(command, said):
    code, out, err = said(command, "--help")
    assert (code, err) == (0, "") and f"usage: pertnb {command}" in out and f"example:\n  pertnb {command}" in out and "--json" in out


def test_help_of_all(said):
    code, out, _ = said("--help")
    assert code == 0 and "exit codes: 0 done, 1 failed (one line on stderr), 2 wrong usage" in out
    for command, (_, what, example, _) in cli.COMMANDS.items():
        assert " ".join(what.split()) in " ".join(out.split()) and example in out


def test_version(said, settings): assert said("--version") == (0, settings["version"] + "\n", "")


def test_data(said, tmp_path):
    found = {row["name"]: row for row in as_object(said("data", "--json"))["data"]}
    assert set(found) == {"cifar10", "mnist", "photos", "digits", "CIFAR-10-C", "mi", "mi_rendered", "mi_packaged"}
    assert {name for name, row in found.items() if row["found"]} == {"photos", "digits", "mi_packaged"}
    (tmp_path / "data" / "cifar-10-batches-py").mkdir(parents=True)
    row, = as_object(said("data", "cifar10", "--json"))["data"]
    assert row["found"] and row["where"].endswith("cifar-10-batches-py")
    code, out, _ = said("data")
    assert code == 0 and "mnist" in out and "absent" in out and "pertnb data mnist --download" in out


def test_evaluate(said, learned):
    got = as_object(said("evaluate", learned, "--n", "4", "--steps", "2", "--json"))
    assert got["images"] == 4 and got["pairs"] == 8 and 0 < got["pgd_ae"] <= got["enc_ae"] and got["no_change"] > 0
    code, out, err = said("evaluate", learned / "set.safetensors", "--n", "4", "--steps", "2")
    assert code == 0 and "PGD AE" in out and "% of the squared change is left" in out


def test_evaluate_on_other_pairs(said, learned, tmp_path):
    other = make_pairs(tmp_path / "other", 41, copies=1)
    assert as_object(said("evaluate", learned, "--pairs", other, "--n", "41", "--steps", "1", "--json"))["pairs"] == 41
    small = make_pairs(tmp_path / "small", 41, (3, 16, 16), copies=1)
    code, out, err = said("evaluate", learned, "--pairs", small, "--steps", "1")
    assert (code, out) == (1, "") and "x must be images of shape (3, 24, 20), as this set was made for, got (3, 16, 16)" in err


def test_labels_are_only_for_classifiers(said, learned, tmp_path):
    other = make_pairs(tmp_path / "other", 41, classes=("fox",), copies=1)
    assert as_object(said("evaluate", learned, "--pairs", other, "--n", "3", "--steps", "1", "--json"))["images"] == 3
    code, _, err = said("attack", learned, "--pairs", other, "--n", "3", "--steps", "1")
    assert code == 1 and "is of class fox, which the training images lack" in err


def test_sample(said, learned, tmp_path):
    got = as_object(said("sample", learned, "--n", "2", "--points", "3", "--out", tmp_path / "a.png", "--json"))
    assert got["images"] == 2 and got["points"] == 3 and Image.open(tmp_path / "a.png").size[0] > 50
    first = (tmp_path / "a.png").read_bytes()
    said("sample", learned, "--n", "2", "--points", "3", "--out", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == first
    code, out, err = said("sample", learned, "--out", tmp_path / "a.txt")
    assert code == 2 and "--out is a .png or .pdf file" in err


def test_sample_of_a_folder_shows_every_class(said, learned, pairs, tmp_path, monkeypatch):
    "Folders are sorted by class; the first images shown are of all classes."
    from pertnb.report import set_plots
    shown, draw = [], set_plots.draw_samples
    monkeypatch.setattr(set_plots, "draw_samples", lambda x, *rest, **how: shown.append(x) or draw(x, *rest, **how))
    as_object(said("sample", learned, "--images", pairs / "clean", "--n", "2", "--points", "1", "--out", tmp_path / "a.png", "--json"))
    images, labels, *_ = own.load_clean(str(pairs / "clean"), "train")
    of = [int(labels[(images == (255 * x).round().byte()).flatten(1).all(1).nonzero()[0]]) for x in shown[0]]
    assert sorted(of) == [0, 1]


def test_attack(said, learned):
    got = as_object(said("attack", learned, "--n", "6", "--steps", "2", "--json"))
    assert got["classifier"] == "standard" and got["eps"] == 2 and got["clean"] >= got["pgd"] >= got["worst"] >= 0
    code, out, _ = said("attack", learned, "--n", "6", "--steps", "2", "--eps", ".5", "--classifier", learned / "standard.safetensors")
    assert code == 0 and "in the ball of radius 0.50" in out


def test_attack_on_two_classes(said, learned, pairs):
    "PGD leaves some images to AutoPGD, whose DLR loss needs three logits."
    got = as_object(said("attack", learned, "--pairs", pairs, "--n", "44", "--steps", "1", "--eps", "1e-4", "--json"))
    assert 0 < got["worst"] <= got["pgd"] < 1


def test_certify(said, learned):
    got = as_object(said("certify", learned, "--n", "3", "--draws", "50", "--json"))
    assert got["largest_radius"] == 1 and list(got["certified"]) == ["0.25", "0.50", "0.90"] and got["accuracy"] >= max(got["certified"].values())
    code, out, _ = said("certify", learned, "--n", "2", "--draws", "50", "--radius", "2")
    assert code == 0 and "largest radius that 50 draws can give: 2.00" in out
    small = as_object(said("certify", learned, "--n", "2", "--draws", "50", "--radius", "0.01", "--json"))
    assert list(small["certified"]) == ["0.0025", "0.005", "0.009"]


def test_learn_check(said, pairs, tmp_path):
    got = as_object(said("learn", pairs, "--check", "--json"))
    assert got["check"] == [] and sum(got["images"]) == 44
    bad = make_pairs(tmp_path / "bad", 42, copies=1)
    (bad / "clean" / "cat" / "image0.png").unlink()
    (bad / "perturbed" / "dog" / "image1__0.png").write_bytes(b"no image")
    code, out, err = said("learn", bad, "--check")
    assert code == 1 and err.count("\n") == 1 and "2 faults to be mended first" in err
    assert "image0__0.png has no partner in clean/" in out and "image1__0.png can't be read as an image" in out
    code, out, err = said("learn", bad, "--json")
    assert code == 1 and len(json.loads(out)["faults"]) == 2


def test_learn_check_names_every_pair_and_counts_the_parts(said, tmp_path):
    "Where the output of a notebook names the first of a kind, `--check` names all."
    bad = make_pairs(tmp_path / "bad", 60, copies=1)
    for k in range(10, 20, 2):
        (bad / "perturbed" / "cat" / f"image{k}__0.png").write_bytes((bad / "clean" / "cat" / f"image{k}.png").read_bytes())
    got = as_object(said("learn", bad, "--check", "--json"))
    assert sum("nothing is perturbed" in line for line in got["check"]) == 5 and "more like that" not in " ".join(got["check"])
    code, out, _ = said("learn", bad, "--check")
    assert code == 0 and "images: {} to learn from, {} to choose the radius by, {} to test on".format(*got["images"]) in out


def test_a_folder_is_not_taken_for_a_function(said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_pairs(tmp_path / "camera", 44, copies=1)
    code, _, err = said("learn", "camera", "--check")
    assert code == 2 and "write ./camera for the folder" in err
    assert as_object(said("learn", "./camera", "--check", "--json"))["check"] == []


def test_learn_function_check(said, tmp_path):
    (tmp_path / "mine.py").write_text("def darker(x): return x // 2\n")
    assert as_object(said("learn", f"{tmp_path / 'mine.py'}:darker", "--check", "--preset", "smoke", "--json"))["images"][2] == 12
    code, _, err = said("learn", f"{tmp_path / 'mine.py'}:lighter", "--check")
    assert code == 1 and "has no function 'lighter'" in err


def test_site(said, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pertnb.report.site", None)
    from pertnb import report
    monkeypatch.delattr(report, "site", raising=False)
    code, out, err = said("site")
    assert (code, out) == (1, "") and err.count("\n") == 1 and "needs what the docs extra installs" in err and "pip install -e '.[docs]'" in err
    built = []
    monkeypatch.setitem(sys.modules, "pertnb.report.site", types.SimpleNamespace(build_site=built.append))
    assert as_object(said("site", tmp_path / "out", "--json"))["site"] == str(tmp_path / "out") and built == [str(tmp_path / "out")]


WRONG = {
    "no command": ([], 2, "a command is missing"),
    "command": (["lern"], 2, "invalid choice: 'lern'"),
    "option": (["data", "--all"], 2, "unrecognized arguments: --all"),
    "argument missing": (["run"], 2, "the following arguments are required: NOTEBOOK (see pertnb run --help)"),
    "data set": (["data", "svhn"], 2, "unknown data set 'svhn': known are cifar10"),
    "download of what is built in": (["data", "photos", "--download"], 2, "--download takes one of cifar10, mnist"),
    "notebook": (["run", "77"], 2, "unknown notebook '77': known are 00_theory"),
    "preset": (["run", "05", "--preset", "big"], 2, "invalid choice: 'big'"),
    "parameter's name": (["run", "05", "-p", "sed=1"], 2, "unknown parameter 'sed': known are preset"),
    "parameter's type": (["run", "05", "-p", "seed=one"], 2, "parameter 'seed' must be of type int, not 'one'"),
    "parameter's form": (["run", "05", "-p", "seed"], 2, "-p takes NAME=VALUE, not 'seed'"),
    "pairs": (["learn", "nowhere"], 1, "there is no folder"),
    "function's images": (["learn", "camera", "--images", "nowhere"], 1, "there are no images 'nowhere'"),
    "images for a folder": (["learn", "pairs", "--images", "imgs"], 2, "--images go with a function"),
    "out as a parameter": (["learn", "camera", "-p", "out=x"], 2, "given by --out"),
    "set": (["sample", "nowhere"], 1, "there is no perturbation set at nowhere"),
    "steps": (["evaluate", "x", "--steps", "0"], 2, "expected a whole number of at least 1, got '0'"),
    "eps": (["attack", "x", "--eps", "nan"], 2, "expected a number above 0, got 'nan'"),
    "radius": (["certify", "x", "--radius", "-1"], 2, "expected a number above 0, got '-1'"),
    "beyond all bounds": (["attack", "x", "--eps", "1e30"], 2, "expected a number above 0 and below 9007199254740992, got '1e30'"),
    "a digit that is no number": (["run", "²"], 2, "unknown notebook '²'"),
    "an empty file": (["run", "05", "--out", ""], 2, "argument --out: expected a name, got nothing"),
    "empty pairs": (["learn", "", "--check"], 2, "argument PAIRS: expected a name, got nothing"),
    "an empty preset": (["stages", "--preset", ""], 2, "argument --preset: expected a name, got nothing"),
    "an empty stage": (["stages", "--stage", ""], 2, "argument --stage: expected a name, got nothing"),
    "an empty device": (["stages", "--device", ""], 2, "argument --device: expected a name, got nothing"),
    "an empty site": (["site", ""], 2, "argument OUT: expected a name, got nothing"),
    "an empty set": (["evaluate", ""], 2, "argument SET: expected a name, got nothing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name, said):
    words, code, part = WRONG[name]
    got = said(*words)
    assert got[:2] == (code, "") and part in got[2] and got[2].count("\n") == 1, got
    if words:
        code, out, err = said(*words, "--json")
        assert code == WRONG[name][1] and part in json.loads(out)["error"] and err.count("\n") == 1


def test_estimates_of_short_presets(said):
    "They are not made, and nothing is said of a command that goes on."
    code, out, _ = said("stages", "--preset", "smoke", "--data", "photos", "--stage", "cvae", "--estimate")
    assert code == 0 and out.splitlines()[-1] == "1 of 1 stages left, the next is 'cvae'; smoke is short and not estimated"


def test_set_without_its_pairs(said, tmp_path):
    code, _, err = said("evaluate", paths.package_root() / "weights" / "cifar10c_small.safetensors")
    assert code == 1 and "name some with --pairs" in err


QUICK = dict(evaluate=("--n", "3", "--steps", "1"), sample=("--n", "2", "--points", "1"),
             attack=("--n", "3", "--steps", "1"), certify=("--n", "2", "--draws", "20"))


@pytest.fixture
def evil(learned, tmp_path, monkeypatch):
    "evil(function) -> folder of a set whose header names a function, and of a report; evil.py beside it writes `pwned` wherever it is run."
    monkeypatch.chdir(tmp_path)
    pwned = tmp_path / "pwned"
    (tmp_path / "evil.py").write_text(f"open({str(pwned)!r}, 'w')\ndef f(x): return x // 2\n")
    pset = sets.PerturbationSet.load(learned / "set.safetensors")
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "standard.safetensors").write_bytes((learned / "standard.safetensors").read_bytes())
    cells = [new_code_cell("import evil"), new_code_cell(f"open({str(pwned)!r}, 'w')", metadata=dict(tags=["parameters"]))]
    nbformat.write(new_notebook(cells=cells), folder / "report.ipynb")

    def evil(function, **changes):
        source = pset.info["source"] | dict(pairs="", data="photos", function=function) | changes
        info = dict(source=source, classes=["cat", "dog"])
        sets.PerturbationSet(pset.cvae, 2., (.5, 1., 1.5), info).save(folder / "set.safetensors")
        return folder
    evil.pwned = pwned
    return evil


@pytest.mark.parametrize("command", QUICK)
def test_a_header_runs_nothing(said, evil, pairs, tmp_path, command):
    "What a set names is not run, however it is named; what the command line names is."
    for name in (f"{tmp_path / 'evil.py'}:f", "evil.py:f", "./evil.py:f", "results/../evil.py:f"):
        folder = evil(name)
        for named in (folder, folder / "set.safetensors"):
            code, out, err = said(command, named, *QUICK[command])
            assert (code, out) == (1, "") and err.count("\n") == 1
            assert f"was learned from the function {name}: name it with --function {name} to run it, or give pairs" in err
        assert said(command, folder, "--pairs", pairs, *QUICK[command])[0] == 0
        own_report.write_report(folder / "report.ipynb", folder / "report.html")
        assert not evil.pwned.exists()
    images = () if command == "sample" else ("--images", pairs / "clean")
    folder = evil("evil.py:f", **({} if images else dict(data=str(pairs / "clean"))))
    code, _, err = said(command, folder, "--function", "evil.py:f", *images, *QUICK[command])
    assert code == 0, err
    assert evil.pwned.exists()


def test_what_a_header_may_name(said, evil, pairs, tmp_path):
    "A built-in function, and a folder of images for it; --function and --images for a set that names nothing."
    folder = evil("camera")
    evil("camera", data=str(pairs / "clean"))
    assert as_object(said("evaluate", folder, *QUICK["evaluate"], "--json"))["images"] == 3
    code, _, err = said("evaluate", evil("camera", data="nowhere"), *QUICK["evaluate"])
    assert code == 1 and "there are no images 'nowhere'" in err
    assert said("evaluate", folder, "--images", pairs / "clean", *QUICK["evaluate"])[0] == 0
    pset = sets.PerturbationSet.load(folder / "set.safetensors")
    sets.PerturbationSet(pset.cvae, 2.).save(folder / "set.safetensors")
    assert said("evaluate", folder, "--function", "camera", "--images", pairs / "clean", *QUICK["evaluate"])[0] == 0
    code, _, err = said("evaluate", folder, "--function", "camera", "--pairs", pairs)
    assert code == 2 and "both name pairs: give one of them" in err
    code, _, err = said("evaluate", folder, "--images", pairs)
    assert code == 1 and "doesn't say which pairs" in err
    code, _, err = said("sample", folder, "--function", "camera", "--images", pairs)
    assert code == 2 and "--images take the place of" in err


def test_images_are_for_a_function(said, learned, pairs):
    code, _, err = said("evaluate", learned, "--images", pairs / "clean")
    assert code == 2 and "--images are images for --function" in err


HEADERS = {
    "info a list": ([1], "info must be a dict, got [1]"),
    "source a list": (dict(source=["evil.py:f"]), "info.source must be a dict of pairs, data, function"),
    "source text": (dict(source="evil.py:f"), "not 'evil.py:f'; name pairs with --pairs"),
    "source a part": (dict(source=dict(function="evil.py:f")), "lacks pairs, data, copies, seed, n_train, n_test"),
    "classes a number": (dict(source={}, classes=3), "info.classes must be a list of names, not 3"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers(said, evil, learned, name):
    "One line that names the file and what is wrong with its header."
    info, part = HEADERS[name]
    folder = evil("camera")
    tensors, header = read_tensors(folder / "set.safetensors")
    about = json.loads(header["pertnb"]) | dict(info=info)
    write_tensors(folder / "set.safetensors", tensors, {"pertnb": json.dumps(about)})
    for command in QUICK:
        code, out, err = said(command, folder, *QUICK[command])
        assert (code, out, err.count("\n")) == (1, "", 1) and str(folder) in err and part in err, err
    assert not evil.pwned.exists()


def test_source_of_other_types(said, evil):
    wrong = [(dict(n_test="60"), "parameter 'n_test' must be of type int, not '60'"),
             (dict(copies=0), "parameter 'copies' must be at least 1, got 0"),
             (dict(seed=None), "lacks seed")]
    for change, part in wrong:
        folder = evil("camera", **change)
        code, _, err = said("evaluate", folder)
        assert code == 1 and f"{folder}: info.source" in err and part in err and err.count("\n") == 1, err


def test_classifier_of_other_classes(said, learned, tmp_path):
    net = dict(name="resnet-8", n_classes=2, width=8, patch=2)
    classifier_files.save_classifier(nets.make_classifier(**net), net, tmp_path / "c.safetensors", classes=["cat", "cow"])
    code, _, err = said("attack", learned, "--classifier", tmp_path / "c.safetensors")
    assert code == 1 and "tells cat, cow apart, but these pairs are of cat, dog" in err and err.count("\n") == 1


def test_classifier_of_more_classes(said, learned, tmp_path):
    "One that does not name its classes is counted."
    net = dict(name="resnet-8", n_classes=3, width=8, patch=2)
    classifier_files.save_classifier(nets.make_classifier(**net), net, tmp_path / "c.safetensors")
    code, _, err = said("attack", learned, "--classifier", tmp_path / "c.safetensors")
    assert code == 1 and "tells 3 classes apart, but these pairs are of cat, dog" in err and err.count("\n") == 1


def test_moved_pairs(said, learned, pairs, tmp_path):
    "They are asked for; which of them were learned from is said."
    moved, about = tmp_path / "moved", sets.PerturbationSet.load(learned / "set.safetensors")
    shutil.copytree(pairs, moved)
    case = own.gather(presets.resolve("your_own_pairs", dict(preset="smoke", pairs=str(moved))))
    case.split().to_csv(tmp_path / "split.csv", index=False)
    source = dict(about.info["source"], pairs=str(tmp_path / "gone"))
    info = dict(about.info, source=source, split=own.digest_split(case.split()))
    sets.PerturbationSet(about.cvae, 2., (), info).save(tmp_path / "set.safetensors")
    code, _, err = said("evaluate", tmp_path)
    assert code == 1 and "gone, whose pairs" in err and "name it with --pairs" in err and err.count("\n") == 1
    code, _, err = said("evaluate", tmp_path, "--pairs", moved, "--n", "4", "--steps", "1")
    n = len(case.train) + len(case.validation)
    assert code == 0 and f"{n} of these 44 images have names of images that the set was learned from" in err


def test_pairs_that_came_after_the_set(said, learned, tmp_path):
    "Without split.csv they would change which images are tested on."
    mine, about = make_pairs(tmp_path / "mine"), sets.PerturbationSet.load(learned / "set.safetensors")
    case = own.gather(presets.resolve("your_own_pairs", dict(preset="smoke", pairs=str(mine))))
    info = dict(about.info, source=dict(about.info["source"], pairs=str(mine)), split=own.digest_split(case.split()))
    sets.PerturbationSet(about.cvae, 2., (), info).save(tmp_path / "set.safetensors")
    assert said("evaluate", tmp_path, "--n", "4", "--steps", "1")[0] == 0
    make_pairs(mine, 50)
    code, _, err = said("evaluate", tmp_path, "--n", "4", "--steps", "1")
    assert code == 1 and "nothing says which images those were" in err and err.count("\n") == 1


def test_no_classifier_and_no_labels(said, learned, tmp_path):
    code, _, err = said("attack", learned, "--classifier", "best")
    assert code == 1 and "there is no classifier 'best': known are standard, or a file" in err
    plain = make_pairs(tmp_path / "plain", 41, classes=None, copies=1)
    code, out, err = said("certify", learned, "--pairs", plain)
    assert code == 1 and "has no class folders, but the training images have: cat, dog" in err
    about = sets.PerturbationSet.load(learned / "set.safetensors")
    sets.PerturbationSet(about.cvae, 2., (), {"source": dict(about.info["source"], pairs=str(plain)), "classes": []}).save(tmp_path / "set.safetensors")
    code, _, err = said("certify", tmp_path)
    assert code == 1 and "have no labels (class folders)" in err


def test_no_notebooks(said, monkeypatch, tmp_path):
    from pertnb.core import paths
    monkeypatch.setenv("PERTNB_ROOT", str(tmp_path))
    monkeypatch.setattr(paths, "package_root", lambda: tmp_path)
    code, _, err = said("run", "05")
    assert code == 1 and "there are no notebooks in" in err and "clone of the repository" in err


@pytest.fixture
def script(run):
    if not (Path(sys.executable).parent / "pertnb").exists(): pytest.skip("the command is not installed: pip install -e .")
    return lambda *words, **kw: run("pertnb", *words, **kw)


def test_script_help_is_quick_and_codes_pass(script):
    assert "COMMAND" in script("--help", timeout=20).stdout
    done = script("run", "77")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("pertnb run: unknown notebook '77'")


def test_lines_of_a_notebook_reach_the_terminal(tmp_path, capsys):
    "What a notebook prints, and what its long steps tell, is shown while it runs."
    code = "import sys; from pertnb.experiments.own_pairs import tell; print('data: photographs'); tell('training the set')"
    nbformat.write(new_notebook(cells=[new_code_cell(code)]), tmp_path / "a.ipynb")
    cli.execute(tmp_path / "a.ipynb", {}, tmp_path / "out.ipynb")
    err = capsys.readouterr().err
    assert "data: photographs\n" in err and "training the set\n" in err


@pytest.mark.parametrize("fault, part", ((KeyboardInterrupt(), None), (OSError("no rights"), None), (DeadKernelError(), "the kernel died: probably out of memory"),
                                         (PapermillExecutionError(0, 1, "", "ValueError", "no pairs", []), "ValueError: no pairs")))
def test_an_executed_notebook_is_written_whole_or_not_at_all(tmp_path, monkeypatch, fault, part):
    "What there is stays when the run is broken off; a notebook whose cell failed is written, for its message."
    def fail(notebook, out, *args, **kw):
        Path(out).write_text(f'{{"half": "{Path(out).name}"}}')
        raise fault
    monkeypatch.setattr("papermill.execute_notebook", fail)
    out = tmp_path / "out.ipynb"
    out.write_text("before")
    with pytest.raises(RuntimeError if part else type(fault), match=part): cli.execute(tmp_path / "a.ipynb", {}, out, False)
    assert out.read_text() == ('{"half": "out.ipynb"}' if part else "before") and [*tmp_path.iterdir()] == [out]


def test_out_of_a_run_is_a_file_of_its_own(said, tmp_path):
    nbformat.write(new_notebook(), tmp_path / "a.ipynb")
    for out, part in ((tmp_path, "is a folder"), (tmp_path / "a.ipynb", "itself: name another file")):
        code, _, err = said("run", tmp_path / "a.ipynb", "--out", out)
        assert code == 2 and err.count("\n") == 1 and part in err, err


def test_checks_that_notebook_13_names_exist(root):
    "Its table of what usually goes wrong has ten rows, and each names a notebook or a test that is there."
    cells = nbformat.read(root / "nbs" / "13_your_own_pairs.ipynb", as_version=4).cells
    table, = [c.source for c in cells if c.source.startswith("## What usually goes wrong")]
    rows = table.split("| :-- | :-- | :-- |\n")[1].splitlines()
    assert len(rows) == 10
    for row in rows:
        checks = row.split(" | ")[2]
        notebooks, tests = re.findall(r"\]\(([^)]+)\)", checks), re.findall(r"`(tests/\w+\.py)::(\w+)`", checks)
        assert notebooks or tests, row
        for name in notebooks: assert (root / "nbs" / name).is_file(), name
        for file, name in tests: assert f"def {name}(" in (root / file).read_text(encoding="utf-8"), name


def test_script_runs_a_notebook(script, tmp_path):
    done = script("run", "10", "--preset", "smoke", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["experiment"] == "10_summary" and Path(result["notebook"]).is_file() and str(tmp_path) in result["notebook"]


def test_script_learns(script, tmp_path):
    "From a folder of pairs to set, classifiers and report; what learn left can be evaluated."
    pairs = make_pairs(tmp_path / "scans", 60, (1, 17, 23), copies=1)
    done = script("learn", pairs, "--preset", "smoke", "--out", tmp_path / "out", "-p", "methods=standard", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["classifiers"] == ["standard"] and result["eps"] > 0
    page = (tmp_path / "out" / "report.html").read_text()
    parts = "Verdict", "Six metrics", "The worst of the set", "The pairs that fit worst", "Advice", "data:image/png;base64"
    for part in parts: assert part in page
    assert "built-in photographs" not in page # that is of the example
    assert "http://" not in page.replace("http://www.w3.org", "") and "import pandas" not in page
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {"set.safetensors", "standard.safetensors", "report.html", "report.ipynb", "tables", "figures", "quality.csv"}
    done = script("evaluate", tmp_path / "out", "--n", "3", "--steps", "2", "--json")
    assert json.loads(done.stdout)["images"] == 3, done.stderr
