"""The paper as a graph: `snakemake -n` lists every notebook after those it needs, and what is finished is not run again."""
import os
import re
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not find_spec("snakemake"), reason="snakemake is not installed: pip install -e '.[cluster]'")


@pytest.fixture
def snakemake(run):
    "Run snakemake at the preset smoke; what it printed. papermill is this environment's."
    def go(*args, status=0, **env):
        done = run("python", "-m", "snakemake", *args, timeout=900, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}", **env)
        text = done.stdout + done.stderr
        assert done.returncode == status, text[-3000:]
        return text
    return go


def test_dry_run_lists_every_notebook_in_order(snakemake, root):
    text = snakemake("-n", "--config", "preset=smoke")
    order, notebooks = re.findall(r"^rule (\d\d_\w+):$", text, re.M), sorted(p.stem for p in (root / "nbs").glob("[0-9][0-9]_*.ipynb"))
    assert sorted(order) == notebooks
    needs = {name: re.findall(r"/(\d\d_\w+)\.ipynb", inputs)[1:] for name, inputs in re.findall(r"^rule (\d\d_\w+):\n\s+input: /?(.*)$", text.replace("input: nbs", "input: /nbs"), re.M)}
    for name, earlier in needs.items(): assert all(order.index(e) < order.index(name) for e in earlier), name
    assert set(needs["10_summary"]) >= set(notebooks) - {"10_summary", "15_machines"} and needs["05_cifar10c_robust"] == ["04_cifar10c_cvae"]


def test_nothing_is_recomputed(snakemake, root, tmp_path):
    "Where all others are finished, the summary alone is run; and then there is nothing to be done."
    folder, again = tmp_path / "runs" / "notebooks" / "smoke", ("-j", "2", "--nolock", "10_summary", "--config", "preset=smoke")
    folder.mkdir(parents=True)
    others = [folder / path.name for path in (root / "nbs").glob("[0-9][0-9]_*.ipynb") if path.stem != "10_summary"]
    now = time.time()
    for path in others:
        path.touch()
        os.utime(path, (now, now)) # all at once, so that none is older than what it needs
    assert "1 of 1 steps (100%) done" in snakemake(*again)
    made = folder / "10_summary.ipynb"
    assert '"papermill"' in made.read_text() and made.with_suffix(".tsv").read_text().startswith("s\t") and not any(path.stat().st_size for path in others)
    before = made.stat().st_mtime_ns
    assert "Nothing to be done" in snakemake(*again)
    assert made.stat().st_mtime_ns == before


def test_unknown_preset(snakemake):
    assert "unknown preset 'big': known are smoke, quick, overnight, fast, paper" in snakemake("-n", "--config", "preset=big", status=1)
