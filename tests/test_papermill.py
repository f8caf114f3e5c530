"""A mistake on papermill's command line ends with a non-zero status and one clear line."""
import csv
import re

import pytest

MISTAKES = [
    (("nonsense", "1"), "ValueError: unknown parameter 'nonsense': known are preset, data, seed"),
    (("preset", "big"), "ValueError: unknown preset 'big': cifar10c_robust has smoke, quick, overnight, fast, paper"),
    (("data", "svhn"), "ValueError: unknown data set 'svhn': known are"),
    (("methods", "magic"), "ValueError: unknown method 'magic': known are"),
    (("n_test", "many"), "ValueError: parameter 'n_test' must be of type int, not 'many'"),
]


@pytest.mark.parametrize("parameter, line", MISTAKES, ids=[p[0] for p, _ in MISTAKES])
def test_mistakes(parameter, line, run, tmp_path):
    done = run("papermill", "--no-progress-bar", "nbs/05_cifar10c_robust.ipynb", tmp_path / "out.ipynb", "-p", *parameter, IN_TEST="1")
    assert done.returncode != 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr).strip()
    assert text.splitlines()[-1].startswith(line), text[-2000:]


def table(run, folder):
    "The robustness table of a run at smoke, as rows without the fields that time and machine decide."
    folder.mkdir()
    done = run("papermill", "--no-progress-bar", "nbs/05_cifar10c_robust.ipynb", folder / "out.ipynb", "-p", "preset", "smoke",
               PERTNB_RUNS=str(folder / "runs"), PERTNB_DATA=str(folder / "data"))
    assert done.returncode == 0, done.stderr[-3000:]
    with open(folder / "runs" / "smoke" / "tables" / "cifar10c_robustness.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def test_same_seed_same_table(run, tmp_path):
    "Two runs that share nothing but the seed, both from no data and no earlier run."
    first, again = (table(run, tmp_path / name) for name in ("first", "again"))
    assert first == again and {row["row"] for row in first} >= {"Standard training", "CVAE adversarial training"}
