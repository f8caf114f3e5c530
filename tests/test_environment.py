"""environment.yml and settings.ini name the same packages."""
import yaml


def test_same_packages(root, settings):
    *conda, pip = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    *packages, project = pip["pip"]
    assert packages == settings["requirements"].split() + settings["dev_requirements"].split()
    assert project == "-e ."
    assert f"python>={settings['min_python']}" in conda


def test_torch_is_bounded(settings):
    "Newer CPU-only builds of torch have no torchvision that can be imported beside them."
    assert "torch>=2.6,<2.13" in settings["requirements"].split()
