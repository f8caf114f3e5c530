"""05 through papermill: a mistake ends with a non-zero status and one clear line; the same seed gives the same table."""
import csv
import re

import pytest

from conftest import run_in

from pertnb.tools import reproduce

NOTEBOOK = "nbs/05_cifar10c_robust.ipynb"


def test_mistake(run, tmp_path):
    "The notebook's own line is the last; which line belongs to which mistake is tested without papermill."
    done = run("papermill", "--no-progress-bar", NOTEBOOK, tmp_path / "out.ipynb", "-p", "nonsense", "1", IN_TEST="1")
    assert done.returncode != 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr).strip()
    line = "ValueError: unknown parameter 'nonsense': known are preset, data, seed"
    assert text.splitlines()[-1].startswith(line), text[-2000:]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    "Robustness tables of two runs at smoke that share nothing but the seed, both from no data and no earlier run."
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "again")]
    for folder in folders:
        words = NOTEBOOK, folder / "out.ipynb", "-p", "preset", "smoke"
        done = run_in(folder, "papermill", "--no-progress-bar", *words, timeout=150, **reproduce.PINNED)
        assert done.returncode == 0, done.stderr[-3000:]
    return [folder / "runs" / "smoke" / "tables" / "cifar10c_robustness.csv" for folder in folders]


def read_rows(path):
    "Rows without the seconds."
    with open(path, newline="") as file: return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def test_same_seed_same_table(paths):
    first, again = map(read_rows, paths)
    assert first == again and {row["row"] for row in first} >= {"Standard training", "CVAE adversarial training"}
    assert {row["precision"] for row in first if row["value"]} == {"float32"}


def test_reference_holds(paths):
    "The table is that of the shipped reference, where the same versions and instructions run under the same conditions."
    reference, here = reproduce.read_reference("smoke"), reproduce.describe_machine()
    if reference.get("pinned") != reproduce.PINNED: pytest.skip("the reference was made under other conditions: make it anew")
    there = reference["made"]
    others = [name for name in there if name not in ("commit", "python") and there[name] != here[name]]
    if others: pytest.skip(f"not the reference's versions: other {', '.join(others)}")
    theirs = reference["tables"]["cifar10c_robustness"]["text"]
    verdict, detail = reproduce.judge_table(reproduce.read_steady(paths[0]), theirs, .001)
    assert verdict in ("identical", "within tolerance"), detail
