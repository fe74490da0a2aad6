"""Promises of the views in a real JupyterLab, with a kernel and without one."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import nbformat
import pytest
from common import ROOT
from nbformat.v4 import new_code_cell, new_notebook

CODE = ROOT / "code"
CELLS = [
    f"import sys; sys.path.insert(0, {str(CODE)!r})\n"
    "import numpy as np\n"
    "from taken_apart import views\n"
    "weights = np.full((2, 3, 4, 4), 0.25)\n"
    "views.AttentionMap(weights, list('abcd'))",
    "live = views.AttentionMap(weights, list('abcd')).live()\nlive",
    "print('read in Python:', live.layer, live.head, live.pin)",
]
MAP, FACT = ".eta-field >> nth=0", ".eta-fact"
WAIT = 60_000  # milliseconds: a machine may be busy with other tests


@pytest.fixture
def home(tmp_path):
    """A folder with a notebook and all that Jupyter would keep in a reader's home."""
    cells = [new_code_cell(text) for text in CELLS]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "views.ipynb")
    return tmp_path


@contextmanager
def jupyter_lab(home, *options):
    """Run JupyterLab on a free port of this machine, and end it afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "HOME")
    folders = {name: str(home / name.lower()) for name in names}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--ip=127.0.0.1", "--IdentityProvider.token="]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    command += ["--LabApp.extension_manager=readonly"]  # these two call home
    command += [f"--ServerApp.root_dir={home}", *options]
    with open(home / "lab.log", "w") as log:
        lab = subprocess.Popen(command, env=os.environ | folders, stderr=log, cwd=home)
    try:
        await_server(f"http://127.0.0.1:{port}/api", lab)
        yield f"http://127.0.0.1:{port}/lab/tree/views.ipynb"
    finally:
        end(lab)


def end(lab):
    lab.terminate()
    try:
        lab.wait(timeout=10)
    except subprocess.TimeoutExpired:
        lab.kill()  # a kernel ends when it finds its parent gone
        lab.wait()


def await_server(address, lab):
    for _ in range(240):
        assert lab.poll() is None, "JupyterLab ended at its start"
        try:
            return urllib.request.urlopen(address, timeout=5).read()
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"no JupyterLab at {address}")


def open_notebook(browser, address):
    """Open the notebook; the page collects requests that leave this machine."""
    page = browser.new_page(viewport={"width": 1300, "height": 1400})
    page.set_default_timeout(WAIT)
    page.outside = []
    local = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")
    page.on(
        "request",
        lambda r: None if r.url.startswith(local) else page.outside.append(r.url),
    )
    page.goto(address)
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    return page


def test_a_view_reacts_with_a_kernel_and_reopened_without_one(browser, home):
    with jupyter_lab(home) as address:
        page = open_notebook(browser, address)
        run_all_cells(page)
        steer(page, page.locator(".jp-OutputArea-output .eta").first)
        live = page.locator(".jp-OutputArea-output .eta-box").nth(1)
        steer(page, live)
        live.locator(MAP).press("Enter")
        read = page.get_by_text("read in Python: 1 2 [0, 1]")
        for _ in range(20):  # the pin may reach the kernel after the cell has run
            run_last_cell(page)
            page.wait_for_timeout(1000)
            if read.is_visible():
                break
        read.wait_for()
        page.keyboard.press("Control+s")
        await_saved(home / "views.ipynb")
        assert page.outside == []
        page.close()
    no_kernels = "--KernelSpecManager.allowed_kernelspecs={'none'}"
    with jupyter_lab(home, no_kernels) as address:
        page = open_notebook(browser, address)
        page.locator(".jp-Dialog button", has_text="No Kernel").click()
        steer(page, page.locator(".jp-OutputArea-output .eta").first)
        assert page.outside == []
        page.close()


def run_all_cells(page):
    page.get_by_text("| Idle").wait_for()  # the kernel, in the status bar
    page.locator(".jp-CodeCell .cm-content").first.click()
    for _ in CELLS:
        page.keyboard.press("Shift+Enter")
    page.get_by_text("read in Python: 0 0 None").wait_for()


def run_last_cell(page):
    page.locator(".jp-CodeCell .cm-content").nth(len(CELLS) - 1).click()
    page.keyboard.press("Control+Enter")


def steer(page, view):
    """Choose layer 1, head 2 with the keys, then the second key of the first query."""
    view.locator(".eta-heads .eta-stack").focus()
    before = active_cell(page)
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert view.locator(FACT).text_content() == "layer 1, head 2"
    view.locator(MAP).focus()
    for key in ("ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert view.locator(FACT).text_content() == "“a” gives “b” 0.2500"
    assert active_cell(page) == before  # the arrow keys did not walk through the cells


def active_cell(page):
    cell = page.locator(".jp-Cell.jp-mod-active")
    return cell.get_attribute("data-windowed-list-index")


def await_saved(file):
    for _ in range(60):
        if 'class=\\"eta\\"' in file.read_text():
            return
        time.sleep(0.5)
    raise TimeoutError("the notebook was not saved with its outputs")
