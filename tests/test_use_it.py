"""The page "Use it in your training": its ten lines are ten, and run with what the lines above them define."""
import json

import pytest


@pytest.fixture(scope="module")
def page(root):
    "Sources of the page's code cells, in order."
    cells = json.loads((root / "nbs" / "use_it.ipynb").read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


def test_ten_lines_train(page, run, tmp_path):
    "A process of its own runs the page up to the ten lines and the checks below them; the weights have changed."
    ten = next(k for k, code in enumerate(page) if code.startswith("pset = pertnb.packaged_set()"))
    assert len(page[ten].splitlines()) == 10
    script = tmp_path / "mine.py"
    script.write_text("\n".join([*page[:ten + 2], "print('trained', float(loss))"]))
    done = run("python", script)
    assert done.returncode == 0 and done.stdout.startswith("trained"), done.stderr[-2000:]


@pytest.mark.parametrize("library", ["foolbox", "art", "torchattacks"])
def test_an_absent_library_is_one_line(page, library):
    "Where a library is not installed, its cell prints one line."
    code, = [code for code in page if f"import {library}" in code or f"from {library}." in code]
    said = []
    def absent(name, *args, **kw): raise ImportError(name)
    exec(code, {"__builtins__": {"__import__": absent, "ImportError": ImportError, "print": said.append}})
    assert len(said) == 1 and said[0].endswith("is not installed: skipped")
