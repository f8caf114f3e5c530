"""README.md from nbs/index.ipynb.

    python tools/readme.py          # write README.md
    python tools/readme.py --check  # exit 1 if README.md differs from what would be written

Cells that begin with `#| hide` are left out, and links that are right in nbs/ are made right in the root. Once
`git_url` of settings.ini is the repository's public address, buttons that open notebooks in Colab and Binder stand
below the title.
"""
import posixpath
import re
import sys
from configparser import ConfigParser
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parent.parent


def from_root(match):
    "A Markdown link's target, relative to the root instead of nbs/."
    target = match[1]
    if re.match(r"[a-z]+:|#|/", target): return match[0]
    return f"]({posixpath.normpath(posixpath.join('nbs', target))})"


def git_url():
    "The repository's public address, or an empty text."
    ini = ConfigParser(delimiters=["="], interpolation=None)
    ini.read(ROOT / "settings.ini", encoding="utf-8")
    return ini["DEFAULT"]["git_url"].strip()


def badges(url, notebook="nbs/05_cifar10c_robust.ipynb"):
    "Buttons that launch a notebook of a repository on GitHub, as Markdown; nothing without an address."
    found = re.fullmatch(r"https://github\.com/([^/]+/[^/]+?)(\.git)?/?", url)
    if not found: return ""
    colab, binder = "https://colab.research.google.com", "https://mybinder.org"
    return (f"[![Open in Colab]({colab}/assets/colab-badge.svg)]({colab}/github/{found[1]}/blob/main/{notebook})\n"
            f"[![Open in Binder]({binder}/badge_logo.svg)]({binder}/v2/gh/{found[1]}/main?labpath={notebook})\n")


def readme(notebook):
    "The text of README.md."
    nb = nbformat.read(notebook, as_version=4)
    nb.cells = [c for c in nb.cells if not c.source.lstrip().startswith("#| hide")]
    for cell in nb.cells:
        if cell.cell_type == "markdown": cell.source = re.sub(r"\]\(([^)\s]+)\)", from_root, cell.source)
    text, _ = MarkdownExporter().from_notebook_node(nb)
    if buttons := badges(git_url()): text = re.sub(r"^(# .*\n)", rf"\1\n{buttons}", text, count=1, flags=re.M)
    return "<!-- made from nbs/index.ipynb by tools/readme.py: change it there -->\n\n" + text.strip() + "\n"


if __name__ == "__main__":
    text, path = readme(ROOT / "nbs" / "index.ipynb"), ROOT / "README.md"
    if sys.argv[1:] == ["--check"]:
        if path.read_text(encoding="utf-8") != text:
            sys.exit("README.md differs from nbs/index.ipynb: run python tools/readme.py")
    else:
        path.write_text(text, encoding="utf-8")
