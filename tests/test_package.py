"""What a source distribution and a wheel made from it hold."""
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    "A wheel made from a source distribution of a copy; (names in the sdist, opened wheel)."
    copy = tmp_path_factory.mktemp("build")
    for name in ("setup.py", "pyproject.toml", "settings.ini", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(root / name, copy)
    shutil.copytree(root / "pertnb", copy / "pertnb", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "nbs").mkdir()
    for notebook in (root / "nbs").glob("*.ipynb"): shutil.copy(notebook, copy / "nbs")
    subprocess.run([sys.executable, "setup.py", "-q", "sdist"], cwd=copy, check=True, capture_output=True)
    sdist, = (copy / "dist").glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", copy / "dist", sdist],
                   check=True, capture_output=True, cwd=copy)
    with tarfile.open(sdist) as tar: names = {"/".join(n.split("/")[1:]) for n in tar.getnames()}
    with zipfile.ZipFile(next((copy / "dist").glob("*.whl"))) as opened: yield names, opened


def files(root, folder="pertnb"):
    return {str(p.relative_to(root)) for p in (root / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts}


def test_everything_is_shipped(root, wheel):
    sdist, opened = wheel
    expected = files(root)
    assert expected <= sdist and {"settings.ini", "LICENSE", "README.md"} <= sdist
    assert expected <= set(opened.namelist())
    notebooks = {p.name for p in (root / "nbs").glob("[0-9][0-9]_*.ipynb")}
    assert notebooks == {n.split("/")[-1] for n in opened.namelist() if n.startswith("pertnb/notebooks/")}


def test_weights_have_provenance_and_are_small(root):
    weights = sorted((root / "pertnb" / "weights").glob("*.safetensors"))
    assert weights
    for path in weights:
        assert path.with_suffix(".json").exists(), f"{path.name} has no provenance beside it"
        assert path.stat().st_size < 6_000_000


def test_a_folder_called_pertnb_does_not_shadow_an_editable_install(root, tmp_path):
    "The install is a path in a .pth file, so Python looks there too after it has found a clone's folder, which is no package."
    clone, site = tmp_path / "pertnb", tmp_path / "site"
    (clone / "pertnb").mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "settings.ini", "README.md", "pertnb/__init__.py"): shutil.copy(root / name, clone / name)
    build = f"import os; os.makedirs({str(site)!r}); from setuptools import build_meta; print(build_meta.build_editable({str(site)!r}))"
    done = subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True, text=True)
    with zipfile.ZipFile(site / done.stdout.splitlines()[-1]) as editable: editable.extractall(site)
    find = f"import site; site.addsitedir({str(site)!r}); from importlib.util import find_spec; print(find_spec('pertnb').origin)"
    for folder in (tmp_path, clone):
        done = subprocess.run([sys.executable, "-S", "-c", find], cwd=folder, capture_output=True, text=True, env={})
        assert done.stdout.strip() in (str(clone / "pertnb" / "__init__.py"), "pertnb/__init__.py"), done.stderr


def test_metadata(wheel, settings):
    _, opened = wheel
    name, = (n for n in opened.namelist() if n.endswith("METADATA"))
    text = opened.read(name).decode()
    assert f"Version: {settings['version']}" in text and "Provides-Extra: dev" in text and "Provides-Extra: docs" in text
    required = [line for line in text.splitlines() if line.startswith("Requires-Dist") and "extra" not in line]
    assert len(required) == len(settings["requirements"].split())


def test_command_is_installed(wheel):
    _, opened = wheel
    name, = (n for n in opened.namelist() if n.endswith("entry_points.txt"))
    assert "pertnb = pertnb.tools.cli:script" in opened.read(name).decode()


def test_users_need_no_development_packages(root):
    "The package and the experiment notebooks import nothing that only the dev extra installs; the site has an extra of its own."
    texts = {str(p): p.read_text() for p in (root / "pertnb").rglob("*.py") if p.name not in ("_modidx.py", "site.py")}
    for path in (root / "nbs").glob("0*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        texts[path.name] = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    for name, text in texts.items():
        assert not re.search(r"^\s*(from|import) (nbdev|execnb|pytest|hypothesis)\b", text, re.M), name
