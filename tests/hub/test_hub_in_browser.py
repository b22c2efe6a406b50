"""A real JupyterHub and a real browser: what two trainees do in a morning. See README.md for what it needs."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import patient
from running import missing, running

from dlojz.labs import workspace
from dlojz.system import paths

try:
    from lab import CHROMIUM, Lab, browser
except ImportError:
    CHROMIUM = None

lacks = missing() + ["playwright and Chromium"] * (CHROMIUM is None)
pytestmark = [pytest.mark.long, pytest.mark.alone,
              pytest.mark.skipif(bool(lacks), reason=f"no {', '.join(lacks)}: see tests/hub/README.md")]
COURSE = "dlojz-course"
SOLVED = "bob"  # this user's labs are solved
NOTEBOOKS = workspace.notebooks()
LONGEST = 'submit("train.py --epochs 1000 --model resnet18 --image-size 64 --batch-size 16", name="longest")'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hub") / "hub"


@pytest.fixture(scope="module")
def hub(folder):
    with running(folder, DLOJZ_SCALE="ci", OMP_NUM_THREADS="1") as url:
        home = folder / "home" / SOLVED / COURSE
        workspace.create(home, ["all"], kernel="dlojz")
        workspace.write_site(home, "laptop")
        yield url


@pytest.fixture
def chromium():
    with browser() as found:
        yield found


@pytest.fixture
def ada(hub, chromium):
    lab = Lab(chromium, hub, "ada")
    lab.login()
    yield lab
    lab.close()


def wait_for(condition, seconds):
    until = time.monotonic() + patient(seconds)
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.3)


def test_the_first_login_brings_kernel_workspace_and_limits(ada, folder):
    ada.idle()
    assert ada.state()["kernel"] == "dlojz" and (folder / "home/ada" / COURSE / "train.py").is_file()
    assert 'site = "laptop"' in (folder / "home/ada" / COURSE / "workspace.toml").read_text()
    if Path("/sys/fs/cgroup/memory").is_dir():
        ada.run_cell("doctor()")
        ada.run_cell("from dlojz import (catch_up")
        ada.run_cell("doctor()")
        assert "of 5 GiB (this session's limit" in ada.shown() and "a CPU quota limits this session to 1" in ada.shown()


def test_on_a_hub_that_knows_nothing_of_the_kit(tmp_path, chromium):
    """The page for an instructor without root: `dlojz hub` in a terminal, then a notebook."""
    with running(tmp_path / "hub", set_up=False) as url:
        home = tmp_path / "hub/home/cleo"
        home.mkdir()
        subprocess.run([sys.executable, "-m", "dlojz.cli", "hub", "--site", "laptop"], check=True,
                       env={**os.environ, "HOME": str(home), "DLOJZ_CACHE": str(paths.cache())})
        cleo = Lab(chromium, url, "cleo")
        cleo.login()
        cleo.idle()
        cleo.run_cell("from dlojz import (catch_up")
        assert cleo.state()["kernel"] == "dlojz" and cleo.errors() == []
        cleo.close()


def test_two_users_at_once(hub, chromium, folder):
    ada, bob = (Lab(chromium, hub, user) for user in ("ada", SOLVED))
    ada.login()
    bob.login(f"lab/tree/{COURSE}/day1_1_gpu.ipynb")
    for lab in (ada, bob):
        lab.idle()
        lab.run_all(wait=False)
    for lab in (ada, bob):
        lab.idle(patient(200))
        assert lab.errors() == [], lab.user
    assert "not attempted" in ada.shown().lower() and "solved" in bob.shown()
    runs = {user: {run.name for run in (folder / "home" / user / COURSE / "runs").iterdir()} for user in ("ada", SOLVED)}
    assert "first-001" in runs["ada"] and "gpu-001" in runs[SOLVED] and not runs["ada"] & runs[SOLVED]
    ada.close()
    bob.close()


def test_answers_are_kept_through_reload_restart_and_another_browser(ada, hub, chromium):
    ada.open(f"{COURSE}/day1_1_gpu.ipynb")
    ada.run_cell("from dlojz import check")
    ada.run_cell('predict("gpu"')
    ada.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) input[type=text], .widget-text input").first.fill("12.5")
    ada.press("Keep")
    ada.shows("12.5", 30)
    ada.run_cell('quiz("gpu")')
    ada.page.locator(".widget-radio-box input").first.click()
    ada.press("Answer")
    ada.until(lambda: re.search(r"1 of \d+ answered", ada.shown()), 30, "a score")
    ada.save()
    ada.reload()
    ada.idle()
    ada.shows("12.5", 30)  # JupyterLab draws widgets after it has found its kernel
    ada.restart()
    ada.run_cell("from dlojz import check")
    ada.run_cell('predict("gpu"')
    assert "12.5" in ada.shown()
    ada.close()
    again = Lab(chromium, hub, "ada")
    again.login(f"lab/tree/{COURSE}/day1_1_gpu.ipynb")
    again.idle()
    again.run_cell("from dlojz import check")
    again.run_cell('predict("gpu"')
    assert "12.5" in again.shown()
    again.close()


def test_a_job_outlives_restart_and_browser_and_its_button_stops_it(ada, hub, chromium, folder):
    ada.idle()
    ada.run_cell("from dlojz import (catch_up")
    ada.run_instead("FIRST = ", LONGEST)
    log = folder / "home/ada" / COURSE / "runs/longest-001/record.jsonl"
    wait_for(lambda: log.is_file() and '"step"' in log.read_text(), 120)
    ada.restart()
    ada.run_cell("from dlojz import (catch_up")
    ada.close()
    size = log.stat().st_size
    again = Lab(chromium, hub, "ada")
    again.login()
    again.idle()
    again.run_cell("from dlojz import (catch_up")
    wait_for(lambda: log.stat().st_size > size, 60)
    again.run_instead("jobs.watch(job)", 'jobs.watch(jobs["longest"])', wait=0)
    again.shows("RUNNING", 60)
    again.press("cancel")
    again.press("really?")
    again.shows("CANCELLED", 60)
    again.idle()
    again.close()


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_each_notebook_runs_in_the_solved_workspace(notebook, hub, chromium):
    lab = Lab(chromium, hub, SOLVED)
    lab.login(f"lab/tree/{COURSE}/{notebook}")
    lab.idle()
    lab.run_all(patient(300))
    assert lab.errors() == []
    lab.menu("Kernel", "kernelmenu:shutdown")
    lab.close()
