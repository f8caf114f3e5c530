"""pertnb/paper.csv has every number of the paper's tables once, and agrees with what other files say the paper says."""
import csv

import pandas as pd

from pertnb.report.tables import PAPER, read_paper
from pertnb.report.scoreboard import layer_numbers

CELLS = dict(all_evaluate=12, cifar10c_robustness=42, mi_robustness=16, mnist_evaluate=35, cifar10encoder=14, cifar10decoder=8,
             cifar10c_evaluate=21, cifar10c_statistics=21, cifar10c_certified=18, mi_evaluate=21, mi_statistics=21)
CELLS["fig:mi_certified"] = 2 # of its text


def test_every_number_once():
    numbers = read_paper()
    assert numbers.groupby("label").size().to_dict() == CELLS
    assert not numbers.duplicated(["label", "row", "column"]).any() and numbers.value.notna().all()
    assert numbers.sd.notna().sum() == 5


def test_condensed_table_repeats_the_others():
    "Rounded as the paper prints it; its approximation error of CIFAR10-C is the encoder's, 0.005 (PGD's is 0.006)."
    for short, table, row in (("MNIST-RTS", "mnist_rts", "RTS"), ("CIFAR10-C", "cifar10c_evaluate", "Centered at original"), ("MI", "mi_evaluate", "MIP5")):
        for column, value in PAPER["all_evaluate"][short].items():
            other = PAPER[table][row]["Enc. AE" if (short, column) == ("CIFAR10-C", "PGD AE") else column]
            assert abs(value - other) <= 0.05 * other or round(other, 3) == value, (short, column)


def test_layers_that_the_paper_preset_builds(root):
    "As in the paper's tables, but for the decoder's inputs: 500 there, 512 in its text and its encoder's table (inventory row 7)."
    with open(root / "tables" / "quick" / "cifar10c_architecture.csv", newline="") as file:
        built = {line["row"]: layer_numbers(line["built, paper"]) for line in csv.DictReader(file) if ": " in line["row"]}
    differ = {(row, column): built[row][column] for row, numbers in PAPER["cifar10c_architecture"].items() for column, v in numbers.items() if built[row][column] != v}
    assert differ == {("decoder: FC", "in"): 512}


def test_committed_tables_carry_the_same_numbers(root):
    compared = set()
    for path in (root / "tables").glob("*/*.csv"):
        if path.stem not in PAPER or path.stem == "cifar10c_architecture": continue
        for line in pd.read_csv(path).dropna(subset="paper").itertuples():
            assert PAPER[path.stem][line.row][line.column] == line.paper, (path, line.row, line.column)
            compared.add((path.stem, line.row, line.column))
    assert {stem for stem, _, _ in compared} == set(PAPER) - {"cifar10c_architecture"} and len(compared) > 100
