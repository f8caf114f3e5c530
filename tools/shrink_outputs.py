"""Photographs among the outputs of notebooks become JPEGs, a quarter of the size; plots stay PNGs.

    python tools/shrink_outputs.py [NOTEBOOK ...]

Without names: all notebooks of the repository. What is a photograph is decided as for figures
(`pertnb.report.plots.FEW_COLOURS`).
"""
import argparse
import base64
import io
import json
from pathlib import Path

from PIL import Image

from pertnb.core.paths import atomic_write, repo_root
from pertnb.report.plots import FEW_COLOURS

SMALL = 100_000  # characters of an output that is left as it is


def shrink_image(png):
    "The JPEG, base64, of a PNG, base64; None if it is a plot, small, or no smaller as a JPEG."
    if len(png) < SMALL: return None
    with Image.open(io.BytesIO(base64.b64decode(png))) as image: image = image.convert("RGB")
    if image.getcolors(FEW_COLOURS): return None
    file = io.BytesIO()
    image.save(file, "JPEG", quality=88, subsampling=0, optimize=True)
    jpeg = base64.b64encode(file.getvalue()).decode()
    return jpeg if len(jpeg) < .8 * len(png) else None


def shrink_notebook(path):
    "Characters saved in a notebook, which is written again where there are any."
    notebook, saved = json.loads(path.read_text(encoding="utf-8")), 0
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            png = "".join(data.get("image/png", ""))
            jpeg = shrink_image(png)
            if jpeg is None: continue
            output["data"] = {("image/jpeg" if kind == "image/png" else kind): jpeg if kind == "image/png" else value
                              for kind, value in data.items()}
            saved += len(png) - len(jpeg)
    if saved:
        with atomic_write(path) as tmp:
            tmp.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    return saved


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", type=Path)
    for path in parser.parse_args().notebooks or sorted((repo_root() / "nbs").rglob("*.ipynb")):
        if saved := shrink_notebook(path): print(f"{path.name}: {saved / 1e6:.2f} MB less")


if __name__ == "__main__":
    main()
