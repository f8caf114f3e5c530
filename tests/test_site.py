"""The site: built from the committed notebooks in one command, its links alive, and read by a browser without a network."""
import json
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"} # what a browser loads by itself


class Page(HTMLParser):
    "Ids, links, and what is fetched, of a page."
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.fetched = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs: self.ids.add(attrs["id"])
        if tag == "a" and attrs.get("href"): self.links.append(attrs["href"])
        if attrs.get(FETCHED.get(tag)): self.fetched.append(attrs[FETCHED[tag]])


@pytest.fixture(scope="module")
def built(root, tmp_path_factory):
    "The folder of a site, what its build printed, and its seconds of processor time."
    import os, resource, subprocess, sys
    folder, before = tmp_path_factory.mktemp("site") / "site", resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "pertnb.report.site", str(folder)], cwd=root, capture_output=True, text=True, timeout=600,
                          env={**os.environ, "PERTNB_ROOT": str(root), "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return folder, done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="module")
def pages(built): return {p.relative_to(built[0]).as_posix(): Page(p) for p in built[0].rglob("*.html")}


def test_builds_without_a_warning(built):
    folder, done, seconds = built
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.strip() == str(folder / "index.html")
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6
    print(f"{seconds:.0f} s of processor time, {size:.1f} MB")
    assert size < 60


def test_every_notebook_and_module_has_a_page(root, pages):
    notebooks = [p.relative_to(root / "nbs").with_suffix(".html").as_posix() for p in (root / "nbs").rglob("[0-9]*.ipynb") if ".ipynb_checkpoints" not in p.parts]
    modules = [f"reference/{p.parent.name}.{p.stem}.html" for p in (root / "pertnb").glob("*/*.py") if not p.stem.startswith("_")]
    assert set(notebooks + modules) <= set(pages)


def test_gallery_shows_one_figure_per_question(root, pages):
    "The best preset's, large; all other figures, and all tables, are one link away from the cell that made them."
    front, results = pages["index.html"], pages["results.html"]
    shown = {f.split("/")[-1] for f in front.fetched if f.endswith(".webp")}
    experiments = [p for p in (root / "nbs").glob("[0-9]*.ipynb") if "save_figure" in p.read_text(encoding="utf-8")]
    none_kept = {"15_machines"} if not list((root / "figures").glob("*/cost_parts.png")) else set()
    assert len(shown) == len({p.stem for p in experiments} - none_kept)
    for path in (root / "figures").glob("*/*.png"):
        for page in (front, results): assert any(link.endswith(f"#figure-{path.stem}") for link in page.links), path.name
    tables = {p.stem for p in (root / "tables").glob("*/*.csv")}
    for stem in tables:
        assert any(link.endswith(f"#table-{stem}") for link in results.links), stem
        assert any(link.endswith(f"-{stem}.csv") for link in results.links), stem


def test_provenance_is_said_in_words(built):
    "No page says seconds 1088.4."
    for name in ("index.html", "05_cifar10c_robust.html", "01_mnist_linf.html"):
        text = (built[0] / name).read_text(encoding="utf-8")
        assert re.search(r"Preset \w+ on ", text) and not re.search(r"seconds \d", text), name


def test_links_are_alive(built, pages):
    "Every link within the site leads to a page, and to a place on it; every picture, style and script is there."
    folder, dead = built[0], []
    for name, page in pages.items():
        for link in page.links + page.fetched:
            at = urlsplit(link)
            if at.scheme in ("http", "https", "mailto"): continue
            target = (folder / name).parent / unquote(at.path) if at.path else folder / name
            target = target.resolve().relative_to(folder.resolve()).as_posix()
            if not (folder / target).is_file() or at.fragment and target in pages and unquote(at.fragment) not in pages[target].ids:
                dead.append(f"{name}: {link}")
    assert dead == []


def test_nothing_is_fetched_from_elsewhere(built, pages):
    assert [f"{name}: {f}" for name, page in pages.items() for f in page.fetched if urlsplit(f).scheme or f.startswith("//")] == []
    styles = [p for p in built[0].rglob("*.css") if re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", p.read_text(encoding="utf-8"))]
    assert styles == []


def test_formulas_and_comments_of_parameters(built):
    folder = built[0]
    front = (folder / "index.html").read_text(encoding="utf-8")
    assert "<math" in front and "\\lVert" not in re.sub(r"<annotation.*?</annotation>", "", front, flags=re.S)
    assert "quantiles in (0, 1), array (n,)" in (folder / "reference" / "sets.sets.html").read_text(encoding="utf-8")


def test_refuses_to_replace_other_files(tmp_path, run):
    (tmp_path / "letter.txt").write_text("dear")
    done = run("python", "-m", "pertnb.report.site", tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "a folder of other files" in done.stderr
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_without_the_extra(tmp_path, run):
    code = ("import sys; sys.modules.update(dict.fromkeys(('sphinx', 'furo'))); from importlib import util; find = util.find_spec; "
            "util.find_spec = lambda name: None if name in ('sphinx', 'furo') else find(name); from pertnb.report.site import build_from_arguments; build_from_arguments([])")
    done = run("python", "-c", code, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr == "the site needs sphinx, furo: pip install -e '.[docs]'\n"


@pytest.fixture(scope="module")
def browser():
    "Headless Chromium, driven by selenium."
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (chromium and driver): pytest.skip("no Chromium with its driver here: the pages are not looked at")
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium here: the pages are not looked at")
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"): options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


@pytest.mark.parametrize("width", [1300, 400])
@pytest.mark.parametrize("page", ["index.html", "start.html", "00_theory.html", "05_cifar10c_robust.html", "api/attack/08_attack.html", "reference/sets.sets.html"])
def test_in_a_browser(built, browser, page, width):
    "No message in the console, no request but for files, every picture drawn, formulas laid out, and no page wider than the window."
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", dict(width=width, height=900, deviceScaleFactor=1, mobile=width < 500))
    browser.get((built[0] / page).as_uri())
    browser.execute_script("document.querySelectorAll('img').forEach(i => i.loading = 'eager')")
    for _ in range(50):
        if browser.execute_script("return [...document.images].every(i => i.complete)"): break
        time.sleep(.1)
    assert browser.get_log("browser") == []
    events = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert asked and [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert browser.execute_script("return [...document.images].filter(i => !i.naturalWidth).map(i => i.src)") == []
    assert all(h > 8 for h in browser.execute_script("return [...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)"))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_search_in_a_browser(built, browser):
    "Search finds a function from file://, where nothing can be fetched."
    browser.get_log("browser")
    browser.get((built[0] / "search.html").as_uri() + "?q=sample_ball")
    for _ in range(100):
        found = browser.execute_script("return [...document.querySelectorAll('#search-results li a')].map(a => a.href)")
        if found: break
        time.sleep(.1)
    assert any("reference/sets.sets.html" in link for link in found) and browser.get_log("browser") == []
