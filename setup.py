"""Everything stands in settings.ini, which nbdev reads too."""
from configparser import ConfigParser
from pathlib import Path
from setuptools import setup

HERE = Path(__file__).resolve().parent
ini = ConfigParser(delimiters=["="], interpolation=None)
ini.read(HERE / "settings.ini", encoding="utf-8")
cfg = ini["DEFAULT"]

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    author=cfg["author"],
    description=cfg["description"],
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    keywords=cfg["keywords"],
    license="Apache-2.0",
    python_requires=f">={cfg['min_python']}",
    packages=[cfg["lib_path"]],
    package_data={cfg["lib_path"]: ["weights/*.safetensors", "weights/*.json", "rendered/*.zip", "paper.csv"]},
    install_requires=cfg["requirements"].split(),
    extras_require={key.removesuffix("_requirements"): cfg[key].split() for key in cfg if key.endswith("_requirements")},
    entry_points={"console_scripts": cfg["console_scripts"].split()},
)
