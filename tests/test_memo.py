"""Keys of kept results by mutation: whatever runs while a step computes decides its key, and nothing else does."""
import ast
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from collections import defaultdict
from copy import deepcopy
from importlib import import_module
from unittest.mock import patch

import pytest

import mutants
import steps

import pertnb
from pertnb.core import memo
from pertnb.core.device import compile_set
from pertnb.core.keys import code_key

UNRELATED = ("report.site", "report.site_pages", "tools.cli", "tools.set_commands", "tools.usage", "measure.theory",
             "measure.unbounded", "measure.set_bounds", "report.plots", "report.tables", "report.scoreboard", "tools.explore",
             "experiments.own", "released.departures")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    "Every step: how its key is made, what ran in it, and its key."
    folder = tmp_path_factory.mktemp("steps")
    found = steps.trace(folder)
    with patch.dict(os.environ, PERTNB_RUNS=str(folder)):
        for step in found.values(): step["before"] = step["key"]()
        yield found


@pytest.fixture(scope="module")
def ran(found):
    "{(module, node): steps in which it ran}: functions, classes whose methods a decorator wrote, values of modules."
    out = defaultdict(set)
    for name, step in found.items():
        for at in step["seen"]:
            definition = at[0], mutants.find_node(*at)
            for what in (definition, *mutants.find_values(*definition)): out[what].add(name)
    return out


def changed(found, names, texts):
    "Which of the steps have another key if modules have other texts."
    for module, text in texts.items(): compile(text, module, "exec")
    with mutants.texts(texts): return {name for name in names if found[name]["key"]() != found[name]["before"]}


def show(module, node): return f"{module}:{node.lineno} {getattr(node, 'name', '')}"


def test_all_ran(found, ran):
    "The trace saw what it must see: each kind of step, its own functions, and not those of others."
    seen = {step: {(m.partition(".")[2], name) for m, name, _ in found[step]["seen"]} for step in found}
    assert len(found) >= 48 and sum(map(len, ran.values())) > 2500
    assert {("corruptions.weather", "fog"), ("corruptions.jpeg", "to_ycc"), ("data.corrupted", "extend_store"), ("core.paths", "digest")} <= seen["corruptions"]
    assert {("certify.radii", "radius_of"), ("certify.smoothing", "certify_rows.<locals>.work")} <= seen["certificates"]
    assert {("learn.train", "fit"), ("models.unet", "Down.forward"), ("data.illumination", "Scenes.gather")} <= seen["CVAE, lights"]
    assert ("certify.smoothing", "bound_gain") in seen["certificates, adaptive"] - seen["certificates"]
    assert not {m for step in seen.values() for m, _ in step} & {"core.memo", "core.keys", "core.symbols", *UNRELATED}


HANDED = {"memo.place": 1, "self.make_once": 1, "keys.code_key": 0} # which argument makes what is kept


def find_makers():
    "{(module, name)} of the functions that the package hands to what names the place of a result."
    found = set()
    for name in (m.name for m in pkgutil.walk_packages(pertnb.__path__, "pertnb.")):
        if name in (*steps.KEEPERS, *steps.SILENT) or name.endswith("_modidx"): continue # they hand on what they get
        module = import_module(name)
        for call in ast.walk(ast.parse(mutants.SOURCE(name))):
            if not isinstance(call, ast.Call) or (called := ast.unparse(call.func)) not in HANDED: continue
            maker = eval(ast.unparse(call.args[HANDED[called]]), vars(module))
            found.add((maker.__module__, maker.__qualname__))
    return found


def test_every_maker_ran(found):
    "No function whose result is kept is missing from the steps, so that what it runs is traced."
    makers, ran = find_makers(), {(module, name) for step in found.values() for module, name, _ in step["seen"]}
    assert len(makers) >= 14 and makers <= ran, sorted(makers - ran)


def test_what_runs_decides(found, ran):
    "Another constant, or a statement more, in anything that ran: another key, for each step in which it ran."
    kept, pairs = [], 0
    for (module, node), names in ran.items():
        edit = mutants.changing(module, node)
        if edit is None: continue
        pairs += len(names)
        same = names - changed(found, names, {module: mutants.edited(module, [edit])})
        if same: kept.append((show(module, node), sorted(same)))
    assert not kept
    print(f"{pairs} pairs of a definition and a step in which it ran, {len(found)} steps")


@pytest.mark.parametrize("kind", ["comment", "docstring", "annotation", "error", "progress"])
def test_words_decide_nothing(found, ran, kind):
    "Other comments, docstrings, annotations, texts of errors or words of progress in all that ran: the same keys."
    edits = defaultdict(list)
    for module, node in ran: edits[module] += mutants.neutral(module, node).get(kind, [])
    assert sum(map(len, edits.values())) > 50
    assert not changed(found, found, {module: mutants.edited(module, some) for module, some in edits.items() if some})


def test_unrelated_modules(found):
    "Another constant in every function of modules that no step uses: the same keys."
    modules = [import_module(f"pertnb.{name}").__name__ for name in UNRELATED]
    assert not changed(found, found, {module: mutants.edited_everywhere(module) for module in modules})


# the name of a step may be the beginning of several
CASES = {"noise": ("learn.losses", "return self.sigma * torch.randn(", "return 100 * self.sigma * torch.randn(",
                   ["classifier, noise", "costs", "segmenter, cvae_smoothing"]),
         "Tanh": ("learn.truth", "nn.ReLU()", "nn.Tanh()", ["digits"]),
         "radius x 10": ("certify.radii", "return sigma *", "return 10 * sigma *",
                        ["certificates", "costs", "maps", "sequential"]),
         "crop": ("learn.robust", "pad=4,  # pixels that", "pad=5,  # pixels that", ["classifier", "costs"]),
         "crop of pairs": ("data.pairs", "pad: int = 4 ", "pad: int = 5 ",
                           ["CVAE, centered", "CVAE, mixed", "CVAE, perturbed", "costs"]),
         "draws of maps": ("learn.segment", "n=1000, # draws that choose", "n=500, # draws that choose", ["maps"])}


@pytest.mark.parametrize("case", CASES)
def test_named_cases(found, case):
    "Changes that once left old results in place: the keys of the steps that they concern change, and of no others."
    module, old, new, concerned = CASES[case]
    text = mutants.SOURCE(f"pertnb.{module}")
    assert old in text
    wanted = {name for name in found if name.startswith(tuple(concerned))} - {"sequential'"} # which does not use radii
    assert changed(found, found, {f"pertnb.{module}": text.replace(old, new)}) == wanted


@pytest.fixture
def copied(root, tmp_path):
    "A function that runs steps with a copy of the package, and edits of it; what steps.py prints."
    package = tmp_path / "copy" / "pertnb"
    shutil.copytree(root / "pertnb", package, ignore=shutil.ignore_patterns("__pycache__"))

    def edit(module, old, new):
        path = package / f"{module.replace('.', '/')}.py"
        text = path.read_text() if path.exists() else ""
        assert old in text
        path.write_text(text.replace(old, new) if old else new)

    def run(*names, runs=tmp_path / "runs", cwd=tmp_path, **env):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PERTNB_RUNS": str(runs),
               "PYTHONPATH": str(package.parent), **env}
        command = [sys.executable, root / "tests" / "steps.py", *names]
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])
    run.edit = edit
    return run


def test_radius_in_a_copy(copied, tmp_path):
    "Kept rows are read after other words, elsewhere, by moved code; where a radius is tenfold they are made again."
    name = "certificates"
    first = copied(name)[name]
    assert first["there"] == 0 and max(first["radius"]) > 0
    copied.edit("learn.train", '"Learning rate at a step; piece-wise linear in the share of the run."', '"The rate."')
    text = mutants.SOURCE("pertnb.certify.radii")
    start = text.index("def radius_of(")
    radius_of = text[start:text.index("\n\n", start)] + "\n"
    copied.edit("radii", "", f"import numpy as np\nfrom scipy.special import ndtri\n\n\n{radius_of}")
    copied.edit("certify.radii", radius_of, "from pertnb.radii import radius_of\n")
    assert copied(name, cwd="/", PYTHONHASHSEED="7")[name] == first | dict(there=3)
    copied.edit("radii", "return sigma *", "return 10 * sigma *")
    second = copied(name)[name]
    assert second["there"] == 0 and second["key"] != first["key"]
    assert second["radius"] == pytest.approx([10 * r for r in first["radius"]])


def test_run_in_a_copy(copied, found, tmp_path):
    "A training has one key in all processes, folders, hash seeds; after other words its weights are not made again."
    names = "classifier, noise", "digits, rts, cvae_adversarial"
    keys = {name: dict(key=found[name]["before"]) for name in names}
    assert copied(*names, PYTHONHASHSEED="1") == keys
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("model.safetensors")}
    assert len(made) == 2
    copied.edit("learn.train", '"Learning rate at a step; piece-wise linear in the share of the run."', '"The rate."')
    assert copied(*names, PYTHONHASHSEED="2") == keys
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("model.safetensors")} == made
    assert copied(names[0], runs=tmp_path / "elsewhere", cwd="/") == {names[0]: keys[names[0]]}


def test_compiled(tmp_path):
    "A compiled network has the key of the network; on a CPU a set is not compiled."
    pset = steps.image_set()
    assert compile_set(pset, "default") is pset
    copy = deepcopy(pset)
    copy.cvae.generator.compile(mode="default", dynamic=False)
    with patch.dict(os.environ, PERTNB_RUNS=str(tmp_path)):
        assert memo.place("set", steps.image_set, pset=copy) == memo.place("set", steps.image_set, pset=pset)


@pytest.mark.parametrize("way", ("import own_helper; return own_helper.scale(x)", "from own_helper import scale; return scale(x)"))
def test_what_a_users_function_imports_when_it_runs_counts(tmp_path, monkeypatch, way):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    def key(scale):
        (tmp_path / "own_helper.py").write_text(f"SCALE = {scale}\ndef scale(x): return x * SCALE\n")
        (tmp_path / "own_loss.py").write_text(f"def loss(x):\n    {way}\n")
        for name in ("own_helper", "own_loss"): sys.modules.pop(name, None)
        return code_key(import_module("own_loss").loss)
    assert key(2) == key(2) != key(3)


PUBLIC = """import pertnb
import pertnb.sets
def loss(x): return USED(x)
from pertnb.core.keys import Code
before = Code().add(loss)
USED
print(before.digest() == Code().add(loss).digest(), len(before.texts) > 3)
"""


@pytest.mark.parametrize("used", ("pertnb.attack_strongly", "pertnb.sets.sample_ball", "pertnb.sets.sets.sample_ball"))
def test_a_public_name_counts_before_it_is_used(tmp_path, used):
    "Names of the package are loaded when they are first used; that decides no key."
    (tmp_path / "script.py").write_text(PUBLIC.replace("USED", used))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"], done.stderr
