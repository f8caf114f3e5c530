"""Images among the outputs of notebooks get smaller: large photographs become JPEGs, all others get 256 colours.

    python tools/shrink_outputs.py [NOTEBOOK ...]

Without names: all notebooks of the repository. What has more than `pertnb.report.plots.FEW_COLOURS` colours is taken
for a photograph.
"""
import argparse
import base64
import io
import json
from pathlib import Path

from PIL import Image

from pertnb.core.files import atomic_write
from pertnb.core.paths import repo_root
from pertnb.report.plots import FEW_COLOURS, reduce_colours

LARGE = 100_000  # characters of a photograph that becomes a JPEG


def shrink_image(png):
    "Kind and base64 of what a PNG, base64, becomes: a JPEG, or a PNG of 256 colours; None if it is no smaller then."
    with Image.open(io.BytesIO(base64.b64decode(png))) as image: image = image.convert("RGB")
    file, photograph = io.BytesIO(), len(png) >= LARGE and not image.getcolors(FEW_COLOURS)
    if photograph: image.save(file, "JPEG", quality=88, subsampling=0, optimize=True)
    else: reduce_colours(image).save(file, "PNG", optimize=True)
    smaller = base64.b64encode(file.getvalue()).decode()
    return ("image/jpeg" if photograph else "image/png", smaller) if len(smaller) < .8 * len(png) else None


def shrink_notebook(path):
    "Characters saved in a notebook, which is written again where there are any."
    notebook, saved = json.loads(path.read_text(encoding="utf-8")), 0
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" not in data: continue
            png = "".join(data["image/png"])
            if found := shrink_image(png):
                kind, smaller = found
                output["data"] = {k: v for k, v in data.items() if k != "image/png"} | {kind: smaller}
                saved += len(png) - len(smaller)
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
