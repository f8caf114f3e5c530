"""environment.yml and settings.ini name the same packages."""
import yaml


def test_same_packages(root, settings):
    *conda, pip = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    *packages, project = pip["pip"]
    assert packages == list(dict.fromkeys(" ".join(settings[f"{part}requirements"] for part in ("", "dev_", "docs_", "explore_", "cluster_")).split()))
    assert project == "-e ."
    assert f"python>={settings['min_python']}" in conda


def test_torch_is_bounded(settings):
    "Newer CPU-only builds of torch have no torchvision that can be imported beside them."
    assert "torch>=2.6,<2.13" in settings["requirements"].split()
