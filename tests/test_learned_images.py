"""No set is tested on images that it was learned from, whatever happened to its folder since."""
import pandas as pd
import pytest

from pertnb.experiments import own, own_files


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
