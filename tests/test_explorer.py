"""The explorer in a running JupyterLab, in headless Chromium: notebook 14 is run there; a slider moved changes the picture, the button the prediction."""
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver here")
pytest.importorskip("ipywidgets", reason="the explorer needs ipywidgets: pip install -e '.[explore]'")
webdriver = pytest.importorskip("selenium.webdriver", reason="the browser is driven by selenium")
NOTEBOOK = "14_explorer.ipynb"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(found, what, seconds=240):
    "The first true value of found(); AssertionError after some time."
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found(): return value
        time.sleep(.1)
    raise AssertionError(f"{what}: not within {seconds} s")


@pytest.fixture(scope="module")
def lab(root, tmp_path_factory):
    "Address of a JupyterLab that serves a copy of the notebook, on this machine alone, and goes when the tests do."
    folder, port = tmp_path_factory.mktemp("lab"), free_port()
    nb = json.loads((root / "nbs" / NOTEBOOK).read_text())
    for cell in nb["cells"]:
        if cell["cell_type"] == "code": cell["outputs"] = []
        cell["source"] = "".join(cell["source"])
    at = next(k for k, cell in enumerate(nb["cells"]) if "parameters" in cell["metadata"].get("tags", []))
    nb["cells"][at]["source"] += "\nmethods, n_test = 'standard', 8" # as papermill would be told; a few seconds
    (folder / "nbs").mkdir()
    (folder / "nbs" / NOTEBOOK).write_text(json.dumps(nb))
    env = {**os.environ, "IN_TEST": "1", "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}", "PERTNB_RUNS": str(folder / "runs"), "PERTNB_DATA": str(folder / "data"),
           "JUPYTER_CONFIG_DIR": str(folder / "config"), "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces")}
    options = [f"--ServerApp.root_dir={folder / 'nbs'}", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--no-browser",
               "--allow-root", "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with open(folder / "log", "w") as log: server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=env, cwd=folder, stdout=log, stderr=log)
    def ready():
        assert server.poll() is None, (folder / "log").read_text()[-3000:]
        try: return closing(build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/api", timeout=5))
        except (URLError, OSError): return None
    try:
        until(ready, "JupyterLab").thing.close()
        yield f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK}?reset"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def page(lab, tmp_path_factory):
    "The notebook in a browser, all its cells run."
    os.environ["NO_PROXY"] = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1,localhost"]))
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server", "--window-size=1300,1000",
                 f"--user-data-dir={tmp_path_factory.mktemp('browser')}"): options.add_argument(word)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        driver.get(lab)
        run = lambda script: driver.execute_script(f"const app = window.jupyterapp, panel = app && app.shell.currentWidget; {script}")
        until(lambda: run("return panel && panel.sessionContext && panel.sessionContext.session && panel.sessionContext.session.kernel && panel.sessionContext.session.kernel.status == 'idle'"), "a kernel")
        run("app.commands.execute('notebook:run-all-cells')")
        last = lambda: run("const n = panel.content.widgets.length - 1; panel.content.activeCellIndex = n; panel.content.scrollToItem(n, 'start'); return document.querySelector('img.pertnb-point')")
        errors = lambda: run("return panel.content.widgets.flatMap(c => c.model.type == 'code' ? c.model.outputs.toJSON() : []).filter(o => o.output_type == 'error').map(o => o.evalue).join()")
        def shown():
            assert not errors(), errors()
            return last()
        until(shown, "the explorer")
        yield driver
    finally: driver.quit()


def picture(page): return page.execute_script("return document.querySelector('img.pertnb-point').src")
def text(page, name): return page.execute_script(f"const e = document.querySelector('.pertnb-{name}'); return e ? e.textContent : ''")


def pixels(page):
    "The values of the picture that the browser shows."
    return page.execute_script("""const i = document.querySelector('img.pertnb-point'), c = document.createElement('canvas'); c.width = i.naturalWidth; c.height = i.naturalHeight;
        const g = c.getContext('2d'); g.drawImage(i, 0, 0); return Array.from(g.getImageData(0, 0, c.width, c.height).data)""")


def shoot(page, name):
    "A screenshot, where PERTNB_SCREENSHOTS names a folder for them."
    if folder := os.environ.get("PERTNB_SCREENSHOTS"):
        page.execute_script("document.querySelector('.pertnb-news').scrollIntoView({block: 'end'})")
        time.sleep(1)
        page.save_screenshot(str(Path(folder) / f"{name}.png"))


def test_a_slider_moved_changes_the_picture(page):
    before, values = picture(page), pixels(page)
    shoot(page, "start")
    assert text(page, "norm") == "‖u‖ = 0.00"
    handle = page.find_element("css selector", ".pertnb-move .noUi-handle")
    for _ in range(10): handle.send_keys("\ue014") # arrow right
    until(lambda: picture(page) != before and text(page, "norm") != "‖u‖ = 0.00", "another picture", 60)
    time.sleep(1)
    shoot(page, "slider")
    changed = sum(a != b for a, b in zip(values, pixels(page))) / len(values)
    assert changed > .1, changed


def test_the_button_walks_to_an_adversarial_point(page):
    page.find_element("css selector", ".pertnb-back").click()
    until(lambda: text(page, "norm") == "‖u‖ = 0.00", "the centre", 60)
    before, said = picture(page), text(page, "said").rsplit(" ", 1)[0]
    page.find_element("css selector", ".pertnb-attack").click()
    news = until(lambda: text(page, "news"), "the end of the attack", 60)
    until(lambda: picture(page) != before and text(page, "norm") != "‖u‖ = 0.00", "another place", 60)
    shoot(page, "attack")
    assert "misclassified after" in news and text(page, "said").rsplit(" ", 1)[0] != said, (news, said, text(page, "said"))
