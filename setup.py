"""Everything stands in settings.ini, which nbdev reads too."""
from configparser import ConfigParser
from pathlib import Path
from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
ini = ConfigParser(delimiters=["="], interpolation=None)
ini.read(HERE / "settings.ini", encoding="utf-8")
cfg = ini["DEFAULT"]
extras = {key.removesuffix("_requirements"): cfg[key].split() for key in cfg if key.endswith("_requirements")}
for extra in ("docs", "explore", "cluster"): extras["dev"] += extras[extra]  # the tests need these too


class WithNotebooks(build_py):
    "A wheel also holds the experiment notebooks, as pertnb/notebooks; an editable install has those of the clone."
    def run(self):
        super().run()
        if self.editable_mode: return
        for notebook in (HERE / cfg["nbs_path"]).glob("[0-9][0-9]_*.ipynb"):
            target = Path(self.build_lib) / cfg["lib_path"] / "notebooks"
            self.mkpath(str(target))
            self.copy_file(str(notebook), str(target))


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
    package_dir={"": "."}, # an editable install is then a path, which a folder that is called pertnb can't shadow
    packages=find_packages(include=[cfg["lib_path"], f"{cfg['lib_path']}.*"]),
    package_data={cfg["lib_path"]: ["weights/*.safetensors", "weights/*.json", "rendered/*.zip", "paper.csv", "reference_*.json"]},
    install_requires=cfg["requirements"].split(),
    extras_require=extras,
    cmdclass={"build_py": WithNotebooks},
    entry_points={"console_scripts": cfg["console_scripts"].split()},
)
