"""README.md from nbs/index.ipynb.

    python tools/readme.py          # write README.md
    python tools/readme.py --check  # exit 1 if README.md differs from what would be written

Cells that begin with `#| hide` are left out, and links that are right in nbs/ are made right in the root.
"""
import posixpath
import re
import sys
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parent.parent


def from_root(match):
    "A Markdown link's target, relative to the root instead of nbs/."
    target = match[1]
    if re.match(r"[a-z]+:|#|/", target): return match[0]
    return f"]({posixpath.normpath(posixpath.join('nbs', target))})"


def readme(notebook):
    "The text of README.md."
    nb = nbformat.read(notebook, as_version=4)
    nb.cells = [c for c in nb.cells if not c.source.lstrip().startswith("#| hide")]
    for cell in nb.cells:
        if cell.cell_type == "markdown": cell.source = re.sub(r"\]\(([^)\s]+)\)", from_root, cell.source)
    text, _ = MarkdownExporter().from_notebook_node(nb)
    return "<!-- made from nbs/index.ipynb by tools/readme.py: change it there -->\n\n" + text.strip() + "\n"


if __name__ == "__main__":
    text, path = readme(ROOT / "nbs" / "index.ipynb"), ROOT / "README.md"
    if sys.argv[1:] == ["--check"]:
        if path.read_text(encoding="utf-8") != text: sys.exit("README.md differs from nbs/index.ipynb: run python tools/readme.py")
    else:
        path.write_text(text, encoding="utf-8")
