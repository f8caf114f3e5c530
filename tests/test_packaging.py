"""Answers that are kept for the repository belong to the weights that gave them, and more restarts don't depend on what was attacked before."""
import json
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from pertnb.core.random import make_generator
from pertnb.experiments import presets
from pertnb.learn import robust
from pertnb.models.classifier_files import packaged_card

METHOD = "standard"


@pytest.fixture
def tools(root, monkeypatch):
    "The tools, as modules."
    monkeypatch.syspath_prepend(str(root / "tools"))
    import package_classifier
    import restart_attacks
    return SimpleNamespace(package=package_classifier, restart=restart_attacks)


@pytest.fixture
def clone(tools, tmp_path, monkeypatch):
    "A clone that has nothing but a section and a card, of weights 'new' that are not judged; write_card changes it."
    card = tmp_path / "weights" / f"classifier_{METHOD}.json"
    card.parent.mkdir()
    def write_card(**changes): card.write_text(json.dumps(dict(sha256="new", accuracy=[]) | changes))
    write_card()
    monkeypatch.setattr(tools.package, "package_root", lambda: tmp_path)
    monkeypatch.setattr(tools.package, "packaged_card", lambda method: json.loads(card.read_text()))
    monkeypatch.setenv("PERTNB_ROOT", str(tmp_path))
    return SimpleNamespace(section=SimpleNamespace(preset="overnight", seed=0), write_card=write_card,
                           card=lambda: json.loads(card.read_text()))


def answers(n=4):
    "Of n images, clean and in the worst case, half of them right."
    rows = dict(corruption="none", eps=0., image=range(n), correct=[k % 2 == 0 for k in range(n)])
    worst = dict(kind="worst", corruption="learned", eps=2.5, zero_gradients=0)
    return pd.concat([pd.DataFrame(dict(kind="clean", **rows)), pd.DataFrame(rows).assign(**worst)], ignore_index=True)


def test_answers_count_for_their_weights_alone(tools, clone):
    "Those of the weights before are not taken for those of new ones, nor continued."
    tools.package.add_answers(clone.section, answers(), METHOD)
    assert [a["accuracy"] for a in clone.card()["accuracy"]] == [50., 50.]
    there = tools.package.read_own_answers(clone.section, METHOD)
    right = lambda rows: rows[rows.correct][["kind", "image"]].values.tolist()
    assert right(there) == right(answers()) and len(there) == 8
    clone.write_card() # copied with its weights, and the answers too
    assert tools.package.read_own_answers(clone.section, METHOD).equals(there)
    clone.write_card(sha256="newer")
    with pytest.raises(SystemExit, match="no answers of the packaged classifier 'standard': judge it without --more"):
        tools.package.attack_more(SimpleNamespace(**vars(clone.section), robust=None), METHOD)


def test_answers_without_attacks(tools, tmp_path):
    "They have no count of zero gradients, and are read as they were."
    rows = answers().query("kind == 'clean'").drop(columns="zero_gradients")
    tools.package.spread_answers(rows).to_csv(tmp_path / "answers.csv.xz", index=False)
    read = tools.package.read_answers(tmp_path / "answers.csv.xz")
    assert read[[*rows]].reset_index(drop=True).equals(rows) and read.zero_gradients.isna().all()


def test_answers_that_name_no_weights_need_their_card(tools, clone):
    "As those of before, and of methods without weights."
    clone.write_card(sha256=None)
    tools.package.add_answers(clone.section, answers(), METHOD)
    assert "weights" not in pd.read_csv(tools.package.landed_file(clone.section, f"classifier_{METHOD}"))
    assert len(tools.package.read_own_answers(clone.section, METHOD)) == 8
    clone.write_card(accuracy=clone.card()["accuracy"])
    assert len(tools.package.read_own_answers(clone.section, METHOD)) == 8
    clone.write_card()
    with pytest.raises(SystemExit): tools.package.read_own_answers(clone.section, METHOD)


def test_committed_answers_are_those_of_the_cards(tools):
    section = SimpleNamespace(preset="overnight")
    files = {m: tools.package.landed_file(section, f"classifier_{m}") for m in robust.METHODS}
    there = {m: path for m, path in files.items() if path.exists()}
    assert len(there) >= 8
    read = tools.package.read_if_of_card
    assert [m for m, path in there.items() if read(path, packaged_card(m)) is None] == []


def test_rows_are_written_whole_or_not_at_all(tools, clone, monkeypatch):
    tools.package.land_rows(clone.section, answers(), "some")
    path = tools.package.landed_file(clone.section, "some")
    def fail(self, path, **kw):
        path.write_bytes(b"half")
        raise KeyboardInterrupt
    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(KeyboardInterrupt): tools.package.land_rows(clone.section, answers(9), "some")
    assert len(pd.read_csv(path)) == 8 and [p.name for p in path.parent.iterdir()] == [path.name]


def break_some(pset, model, x, y, eps, steps, restarts, seed):
    "Which restart breaks an image, at random."
    return torch.randint(restarts + 1, (len(y),), generator=make_generator("restart", seed))


def test_more_restarts_do_not_depend_on_what_was_attacked_before(tools, tmp_path, monkeypatch):
    "All images at once, or first some and then more, in parts that end within those of the table."
    x, y, model = torch.zeros(600, 1, 2, 2, dtype=torch.uint8), torch.zeros(600, dtype=torch.int64), torch.nn.Linear(1, 1)
    section = SimpleNamespace(preset="overnight", seed=0, device=torch.device("cpu"), robust=SimpleNamespace(n_test=600, strong_steps=2),
                              set=lambda settings: SimpleNamespace(eps=2.), test_images=lambda n: (x[:n], y[:n]))
    standing = pd.Series([k % 3 > 0 for k in range(600)], pd.RangeIndex(600, name="image"))
    monkeypatch.setattr(tools.restart, "packaged_classifier", lambda method: model)
    monkeypatch.setattr(tools.restart, "attack_again", break_some)

    def attack(folder, *counts):
        for name in ("PERTNB_RUNS", "PERTNB_ROOT"): monkeypatch.setenv(name, str(tmp_path / folder))
        for n in counts:
            monkeypatch.setattr(tools.restart, "find_standing", lambda section, method, eps: standing[:n])
            tools.restart.attack_method(section, METHOD, 3)
        return pd.read_csv(tools.package.landed_file(section, f"restarts_{METHOD}")).set_index("image").broken_by

    whole = attack("whole", 600)
    assert set(whole[~standing]) == {1} and {0, 2, 3} <= set(whole[standing])
    assert attack("step by step", 100, 250, 600).equals(whole)


def test_restarts_of_weights_that_were_replaced_are_left_out(tools, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PERTNB_ROOT", str(tmp_path))
    monkeypatch.setattr(tools.restart, "packaged_card", lambda method: dict(sha256="new"))
    section = SimpleNamespace(preset="overnight", robust=None, set=lambda settings: SimpleNamespace(eps=2.))
    for method, weights in ((METHOD, "old"), ("augmix", "new")):
        rows = pd.DataFrame(dict(image=range(4), broken_by=[0, 1, 2, 0], restarts=3, commit="c", device="CPU", weights=weights))
        tools.package.land_rows(section, rows, f"restarts_{method}")
    broken_by, restarts, _ = tools.restart.read_restarts(section)
    assert (list(broken_by), restarts) == (["augmix"], 3) and f"{METHOD}: left out" in capsys.readouterr().out


@pytest.mark.parametrize("name, experiment", [("cifar10c", "cifar10c_cvae"), ("lighting", "mi_cvae")])
def test_cards_of_sets_have_settings_of_today(root, name, experiment):
    "`tools/package_set.py --again` goes on with a set whose card has the fields of the settings, under their names."
    card = json.loads((root / "pertnb" / "weights" / f"{name}.json").read_text(encoding="utf-8"))
    made = type(presets.resolve(experiment, {}))(**card["settings"])
    assert made.quantile < 1 and made.excess_weight > 0
