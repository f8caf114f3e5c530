"""Exports, notebooks and README.md are in step with their sources."""
import json
import re
import shutil

import pytest


def notebooks(root):
    return sorted(p for p in (root / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)


@pytest.fixture
def copy(root, tmp_path):
    "What nbdev works on, without the package."
    shutil.copytree(root / "nbs", tmp_path / "copy" / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copy(root / "settings.ini", tmp_path / "copy")
    return tmp_path / "copy"


def test_package_is_what_the_notebooks_export(root, copy, run):
    done = run("nbdev_export", cwd=copy)
    assert done.returncode == 0, done.stderr
    exported, committed = ({str(p.relative_to(base)): p.read_text() for p in (base / "pertnb").rglob("*.py")} for base in (copy, root))
    assert sorted(exported) == sorted(committed)
    assert [name for name in exported if exported[name] != committed[name]] == [], "run nbdev_export"


def test_notebooks_are_clean(root, copy, run):
    done = run("nbdev_clean", cwd=copy)
    assert done.returncode == 0, done.stderr
    changed = [p.name for p in notebooks(root) if p.read_text() != (copy / p.relative_to(root)).read_text()]
    assert changed == [], "run nbdev_clean"


def test_notebooks_run_anywhere(root):
    for path in notebooks(root):
        nb = json.loads(path.read_text())
        assert nb["metadata"]["kernelspec"]["name"] == "python3", path.name
        tags = [tag for cell in nb["cells"] for tag in cell["metadata"].get("tags", [])]
        assert "injected-parameters" not in tags, f"{path.name} was run in place by papermill"
        if re.match(r"\d\d_", path.name) and path.parent.name == "nbs":
            assert tags.count("parameters") == 1, f"{path.name} needs one cell with the tag `parameters`"


def test_notebooks_show_no_widgets_and_no_errors(root):
    for path in notebooks(root):
        text = path.read_text()
        assert "application/vnd.jupyter.widget" not in text and '"output_type": "error"' not in text, path.name


def test_readme_is_made_from_index(root, run):
    done = run("python", "tools/readme.py", "--check")
    assert done.returncode == 0, done.stderr


def test_readme_links(root):
    links = re.findall(r"\]\(([^)\s]+)\)", (root / "README.md").read_text())
    assert links
    missing = [link for link in links if not re.match(r"[a-z]+:|#", link) and not (root / link).exists()]
    assert missing == []


def test_readme_commands(root):
    "Two commands; the second is the one that .ci/run takes."
    install, test = re.findall(r"```sh\n(.*?)\n```", (root / "README.md").read_text(), re.S)
    assert "pip install -e ." in install and install.endswith("pertnb run 05")
    assert 'pip install -e ".[dev]"' in test and "nbdev_test" in test and re.search(r"\npytest -n \d --dist loadfile$", test)


def test_readme_python(root, run):
    "The few lines on own use do run."
    code, = re.findall(r"```python\n(.*?)\n```", (root / "README.md").read_text(), re.S)
    done = run("python", "-c", code + "\nassert x_tilde.shape == x.shape and 0 <= x_tilde.min() and x_tilde.max() <= 1")
    assert done.returncode == 0, done.stderr


def test_pictures_say_what_their_captions_say(root):
    "The description inside a figure is the caption beside it."
    from PIL import Image
    pictures = [p for p in (root / "figures").rglob("*.png") if p.with_suffix(".md").exists()]
    said = {p: (Image.open(p).info.get("Description"), p.with_suffix(".md").read_text(encoding="utf-8").split("\n\n")[1].strip()) for p in pictures}
    assert len(said) > 50 and [p.name for p, (inside, beside) in said.items() if inside and inside.strip() != beside] == []
