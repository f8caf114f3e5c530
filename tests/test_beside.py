"""Two processes at once: each result is made once, and is that of one process. beside.py is the cheaper half."""
import json
import os
import subprocess
import sys

import pytest

from pertnb.core.rows import read_rows
from staged import results


@pytest.fixture(scope="module")
def found(root, tmp_path_factory):
    "What beside.py found."
    folder = tmp_path_factory.mktemp("beside")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"}
    words = [sys.executable, root / "tests" / "beside.py", folder]
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize("case", ["parts", "rows"])
def test_made_once(found, case):
    "Both have the same rows, and no part of the work was done twice."
    case = found[case]
    assert case["codes"] == [0, 0] and case["same"] == [True, True]
    assert len(case["made"]) == len(set(case["made"])) >= 3


def test_one_is_killed(found):
    "The other goes on after the last chunk that is whole."
    killed = found["killed"]
    assert killed["hit"] == -9 and killed["codes"] == [0] and killed["same"]
    assert set(killed["made"]) == set(map(str, range(12))) and len(killed["made"]) <= 16
    assert "waiting for another process" in killed["said"] and killed["said"].count("\n") == 1


def test_append(found):
    assert found["append"] == dict(codes=[0, 0], rows=[[*range(20)]] * 2)


def start(root, folder, stages):
    "The command of the stages, its runs and data in a folder."
    folder.mkdir(exist_ok=True)
    env = os.environ | dict(OMP_NUM_THREADS="1", PERTNB_RUNS=str(folder / "runs"), PERTNB_DATA=str(folder / "data"))
    words = [sys.executable, "-m", "pertnb.tools.stages", "--preset", "smoke", "--data", "photos", "--device", "cpu"]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen([*words, "--stage", stages], cwd=root, env=env, **pipes)


def test_stages(root, tmp_path):
    "Files as one process leaves them; each pair has one row, and each image one at a radius."
    names = "cvae,quality,noise 25%,certify 25%"
    started = [start(root, tmp_path / folder, names) for folder in ("both", "both", "alone")]
    try: said = [p.communicate(timeout=300) for p in started]
    finally:
        for p in started: p.kill()
    assert [p.returncode for p in started] == [0, 0, 0], said
    both, alone = (tmp_path / folder / "runs" for folder in ("both", "alone"))
    assert results(both) == results(alone)
    for pattern, unit, n in (("quality-*/pairs-0.csv", ["image", "corruption"], 120),
                             ("sequential-*/decisions-0.csv", ["image", "radius"], 24),
                             ("certified-*/rows-0.csv", ["image"], 4)):
        path, = both.glob(pattern)
        rows = read_rows(path)
        assert len(rows) == n and not rows.duplicated(unit).any(), pattern
    ledger, = both.glob("stages-*/ledger.csv")
    assert set(read_rows(ledger).stage) == set(names.split(",")) and read_rows(ledger).done.all()


KEY = """
import collections, ctypes, enum, functools, logging, os, re, subprocess, sysconfig, tempfile, threading, weakref
import pandas
import torch
from pertnb.core import keys
from pertnb.learn import learn
def known(name): return name in {"a", "b", "c", "d"}

class Thing: # in a set, things are in the order of their addresses
    def __init__(self, name): self.name, self.others = name, []

class Wrapper(Thing):
    def __init__(self, f): functools.update_wrapper(self, f)
    def __call__(self, x): return x

class Kind(enum.Enum):
    SQUARE = functools.partial(known, 2)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.log = torch.nn.Identity(), logging.getLogger("net")
        self.layer.register_forward_hook(self.see)
    def see(self, module, x, out): return out

things = [Thing(name) for name in "abcd"]
for thing in things: thing.others = set(things)
things[0].table = {known: 1, Thing: 2, (known, 3): 4, Kind.SQUARE: 5}
things[1].open = [threading.Lock(), logging.getLogger("a"), tempfile.TemporaryDirectory(), open(os.devnull), ctypes.CDLL(None)]
things[2].more = [re.compile("a"), collections.namedtuple("Pair", "a b")(1, 2), object(), iter([]), weakref.ref(things[0]),
                  pandas.DataFrame(dict(a=[1])), subprocess.Popen("true"), threading.Thread(target=known)]
VALUES = Wrapper(known), functools.lru_cache(known), Kind.SQUARE, Net(), set(things), torch.relu, torch.Tensor.relu, things
def use(): return VALUES

code = keys.Code()
for thing in (known, learn.learn_set, use): code.add(thing)
texts = [*code.texts.values(), str(keys.describe_input(VALUES[:4], code))]
assert any("layer" in text for text in texts)
assert not [text for text in texts for part in (sysconfig.get_path("stdlib"), tempfile.gettempdir(), " at 0x") if part in text]
print(code.digest(), texts[-1])
"""


def test_keys_are_the_same_in_every_process(run):
    "Whatever the order that sets have in it, the addresses of objects, and the folders that Python and packages are in."
    said = [run("python", "-c", KEY, PYTHONHASHSEED=str(k)) for k in (1, 2)]
    assert len({r.stdout for r in said}) == 1 and said[0].stdout, said
