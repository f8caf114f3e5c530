"""No set is tested on images that it was learned from, whatever happened to its folder since."""
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pertnb.experiments import own, own_files, own_folders, presets
from pertnb.tools import set_commands


def write_split(folder, parts):
    "split.csv of images named after their parts; its rows."
    rows = pd.DataFrame(dict(part=parts, name=[f"clean/a/{i}.png" for i in range(len(parts))]))
    rows.to_csv(folder / "split.csv", index=False)
    return rows


def test_split_belongs_to_its_set(tmp_path):
    rows = write_split(tmp_path, ["train", "validation", "test"])
    info = dict(split=own.digest_split(rows))
    assert own.read_learned(tmp_path, info) == own.read_learned(tmp_path) == {"clean/a/0.png", "clean/a/1.png"}
    write_split(tmp_path, ["train", "test", "test"])
    with pytest.raises(ValueError, match="is not the split of the set beside it"): own.read_learned(tmp_path, info)
    assert own.read_learned(tmp_path) == {"clean/a/0.png"}  # of a set from before there was a digest
    for text, said in (("a,b\n1,2\n", "lacks the columns part and name"), ("", "can't be read"), ("\x00\xff" * 40, "can't be read|lacks")):
        (tmp_path / "split.csv").write_bytes(text.encode("latin1"))
        with pytest.raises(ValueError, match=said): own.read_learned(tmp_path, info)


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    locked = PermissionError(13, "Permission denied", str(tmp_path / "locked"))
    with pytest.raises(PermissionError, match="can't read .*locked: Permission denied"): own_files.refuse_locked(locked)
    own_files.refuse_locked(FileNotFoundError(2, "No such file or directory", "gone"))
    assert own_files.walk_files(tmp_path / "gone") == []


def make_images(folder, n, seed=0, most=255):
    "n grey images of 20 x 24 pixels, of 16 bits where their largest value asks for it."
    draws = np.random.default_rng(seed)
    for i in range(n):
        x = draws.integers(0, most + 1, (20, 24))
        x[0, 0] = most
        path = folder / "ab"[i % 2] / f"x{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x.astype(np.uint8 if most < 256 else np.uint16)).save(path)
    return folder


def learn_from(folder, **kw):
    "Settings, case and split of pairs that the built-in camera makes."
    s = presets.resolve("your_own_pairs", dict(preset="smoke", function="camera", data=str(folder), **kw))
    case = own.gather(s)
    return s, case, case.split()


def test_names_of_other_images_drop_none(tmp_path):
    "The images of a function are named by numbers; those of another folder are not the ones that were learned from."
    s, case, split = learn_from(make_images(tmp_path / "A", 100), n_train=1000)
    learned = set(split.name[split.part != "test"])
    pset = SimpleNamespace(info=dict(source=own_folders.describe_source(case, s), split=own.digest_split(split)))
    def tested(folder, **how):
        args = SimpleNamespace(set="mine", function="camera", images=str(folder), n=60, pairs=None)
        return set_commands.take_own_tests(pset, learned, args)
    other = make_images(tmp_path / "B", 60, seed=1)
    assert len(tested(other)) == len(learn_from(other, n_train=1000)[1].test) > 5
    again = tested(tmp_path / "A")  # more of them, since more are asked for
    assert set(case.test.names) <= set(again.names) and not set(again.names) & learned
    other = next((tmp_path / "A").rglob("*.png"))
    other.with_name("0.png").write_bytes(next((tmp_path / "B").rglob("*.png")).read_bytes())  # all others move on by one
    with pytest.raises(ValueError, match="no longer those that it was learned from"): tested(tmp_path / "A")


def test_scale_of_deep_images_is_kept(tmp_path):
    "Images that a function perturbs keep their window, so that others are brought to the same scale."
    s, case, _ = learn_from(make_images(tmp_path / "A", 60, most=3000))
    source = own_folders.describe_source(case, s)
    how = own_folders.read_how(dict(source=source), "mine")
    how.pop("level")
    assert how["window"] == case.train.window != ()
    brightest = [int(own.load_clean(str(folder), "train", **how)[0].max())
                 for folder in (tmp_path / "A", make_images(tmp_path / "B", 60, most=1500))]
    assert brightest[1] < .6 * brightest[0]


def test_a_file_of_groups_is_found_from_everywhere(tmp_path, monkeypatch):
    "Its path is kept whole in the set, like that of the pairs."
    from pertnb.tools import cli
    monkeypatch.chdir(tmp_path)
    args = SimpleNamespace(pairs="scans", images=None, resize=0, crop=0, p=["groups=patients.csv"])
    monkeypatch.setattr(cli, "read_parameters", lambda args, experiment: dict(groups="patients.csv"))
    values = cli.learn_values(args)
    assert values == dict(groups=str(tmp_path / "patients.csv"), pairs=str(tmp_path / "scans"))


def test_images_that_moved_from_train_to_test_are_not_tested_on(tmp_path):
    "A folder with parts of its own: what was learned from is known by the split."
    for part, n in (("train", 60), ("test", 5)): own_files.make_folder(tmp_path / part, n, copies=1, seed=n)
    s = presets.resolve("your_own_pairs", dict(preset="smoke", pairs=str(tmp_path)))
    case = own.gather(s)
    split = case.split()
    learned = set(split.name[split.part != "test"])
    pset = SimpleNamespace(info=dict(source=own_folders.describe_source(case, s), split=own.digest_split(split)))
    args = SimpleNamespace(set="mine", function=None, images=None, n=60, pairs=None)
    assert len(set_commands.take_own_tests(pset, learned, args)) == 5
    for kind in ("clean", "perturbed"):
        (tmp_path / "train" / kind / "b" / "x7.png").rename(tmp_path / "test" / kind / "b" / "x7.png")
    with pytest.raises(ValueError, match="no longer those that it was learned from"):
        set_commands.take_own_tests(pset, learned, args)


def gather_grouped(folder, classes, group_of):
    "The case of 60 pairs whose groups a CSV file gives."
    own_files.make_folder(folder / "pairs", 60, classes=classes, copies=1)
    groups = folder / "groups.csv"
    groups.write_text("name,group\n" + "".join(f"{classes[i % len(classes)]}/x{i}.png,{group_of(i)}\n" for i in range(60)))
    return own.gather(presets.resolve("your_own_pairs", dict(preset="smoke", pairs=str(folder / "pairs"), groups=str(groups), n_test=60)))


def test_groups_that_are_classes_cannot_be_split(tmp_path):
    for classes, said in (("ab", "2 groups of images can't make 3 parts"), ("abc", "each class has one group")):
        with pytest.raises(ValueError, match=said): gather_grouped(tmp_path / classes, classes, lambda i: classes[i % len(classes)])


def test_three_groups_make_three_parts(tmp_path):
    split = gather_grouped(tmp_path, "x", lambda i: i % 3).split()
    assert sorted(split.groupby("part").group.nunique()) == [1, 1, 1]
