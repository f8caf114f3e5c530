"""Lines, cells of experiment notebooks and statements keep to the house's measure; what is still over it can only shrink.

`python tests/test_lines.py` writes tests/lines.csv, the counts that are allowed for each file: never more than before.
"""
import ast
import csv
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "lines.csv"
WIDEST, TALLEST = 120, 15
FAULTS = "lines", "cells", "tuples" # over WIDEST characters; over TALLEST lines; tuples that separate statements


def files():
    "Notebooks, modules and tools whose code people write or read; _modidx is generated."
    notebooks = [p for p in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts]
    modules = [p for p in (ROOT / "pertnb").rglob("*.py") if p.name != "_modidx.py"]
    return [*sorted(notebooks), *sorted(modules), *sorted((ROOT / "tools").glob("*.py"))]


def is_experiment(path): return path.parent.name == "nbs" and re.match(r"\d\d_", path.name) is not None


def code_cells(path):
    "Sources of a notebook's code cells, and whether each is the cell of parameters, which has one line per parameter."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    is_parameters = lambda cell: "parameters" in cell["metadata"].get("tags", [])
    return [("".join(c["source"]), is_parameters(c)) for c in cells if c["cell_type"] == "code"]


def written_lines(path):
    "Lines of a module, without those that nbdev makes: its docstring (the notebook's subtitle) and __all__."
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^__all__ = \[.*?\]$", "", text, flags=re.S | re.M).splitlines()[1:]


def count_tuples(code):
    "Statements that are a tuple of calls: `f(), g()`; none in what is not Python, such as a cell with a magic."
    try: tree = ast.parse(code)
    except SyntaxError: return 0
    tuples = [n.value for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Tuple)]
    return sum(all(isinstance(e, ast.Call) for e in t.elts) for t in tuples)


def count(path):
    "The faults of a file: {kind: number}."
    if path.suffix == ".py":
        lines = written_lines(path)
        return dict(lines=sum(len(line) > WIDEST for line in lines), cells=0, tuples=count_tuples("\n".join(lines)))
    cells = code_cells(path)
    tall = [len(code.splitlines()) > TALLEST for code, parameters in cells if not parameters]
    return dict(lines=sum(len(line) > WIDEST for code, _ in cells for line in code.splitlines()),
                cells=sum(tall) if is_experiment(path) else 0,
                tuples=sum(count_tuples(code) for code, _ in cells))


def allowances():
    "{file: {kind: number}}: what was left when the table was written; a file that is not in it is allowed nothing."
    with open(TABLE, encoding="utf-8", newline="") as f:
        return {row["file"]: {kind: int(row[kind]) for kind in FAULTS} for row in csv.DictReader(f)}


@pytest.mark.parametrize("path", files(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_measure(path):
    allowed = allowances().get(path.relative_to(ROOT).as_posix(), dict.fromkeys(FAULTS, 0))
    found = count(path)
    more = {kind: f"{found[kind]}, allowed {allowed[kind]}" for kind in FAULTS if found[kind] > allowed[kind]}
    assert not more, f"more than {WIDEST} characters, {TALLEST} lines or one statement: {more}"


def test_table_shrinks():
    "What has become better is not allowed to become worse again."
    found = lambda name: count(ROOT / name) if (ROOT / name).exists() else None
    loose = [name for name, allowed in allowances().items() if allowed != found(name)]
    assert loose == [], "run python tests/test_lines.py"


def test_counts(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(f'"""{"x" * 130}"""\n__all__ = ["a",\n{" " * 130}"b"]\nf(), g()\nx = 1, 2\n{"y" * 121}\n')
    assert count(module) == dict(lines=1, cells=0, tuples=1)


def write_table():
    "Write the counts of all files that have faults; where a file had an allowance, never more than that."
    before = allowances() if TABLE.exists() else None
    rows = []
    for path in files():
        name, found = path.relative_to(ROOT).as_posix(), count(path)
        if before is not None: # a new file is allowed nothing
            allowed = before.get(name, dict.fromkeys(FAULTS, 0))
            found = {kind: min(found[kind], allowed[kind]) for kind in FAULTS}
        if any(found.values()): rows.append([name, *found.values()])
    with open(TABLE, "w", encoding="utf-8", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows([["file", *FAULTS], *rows])


if __name__ == "__main__": write_table()
