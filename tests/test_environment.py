"""environment.yml and settings.ini name the same packages, and the package loads the slow ones only where they are used."""
import subprocess
import sys
import yaml


def test_same_packages(root, settings):
    *conda, pip = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    *packages, project = pip["pip"]
    assert packages == list(dict.fromkeys(" ".join(settings[f"{part}requirements"] for part in ("", "dev_", "docs_", "explore_", "cluster_")).split()))
    assert project == "-e ."
    assert f"python>={settings['min_python']}" in conda


def test_imports_are_light(root):
    "What the command line imports for one's own pairs and for certificates leaves out packages that take as long to import as torch does."
    line = "import sys, pertnb.experiments.own, pertnb.certify.smoothing; print([p for p in ('torchvision', 'sklearn', 'skimage', 'matplotlib', 'seaborn') if p in sys.modules])"
    done = subprocess.run([sys.executable, "-c", line], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
