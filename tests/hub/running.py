"""Starts and ends a JupyterHub for tests. It needs `jupyterhub` and `configurable-http-proxy` in PATH."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from dlojz import hub as dlojz_hub
from dlojz.system import paths

HERE = Path(__file__).parent
NEEDED = ("jupyterhub", "configurable-http-proxy")
SECONDS = 120


def missing() -> list[str]:
    return [name for name in NEEDED if shutil.which(name) is None]


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nothing listens at."""
    for first in range(18200, 19000, 10):
        try:
            for port in range(first, first + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise AssertionError("no free ports")


@contextmanager
def running(folder: Path, site: str = "laptop", set_up: bool = True, **environment: str):
    """A hub, set up by `dlojz hub` if ``set_up``; yields its address. Homes are in ``folder/home``. What is set here as DLOJZ_…
    is set for its users, too. In the end the jobs of their workspaces are cancelled."""
    port, config = free_ports(3), folder / "jupyterhub_config.py"
    (folder / "home").mkdir(parents=True)
    shutil.copy(HERE / "jupyterhub_config.py", config)
    if set_up:
        print(*dlojz_hub.for_all(str(config), site=site, images=False), sep="\n")
    own = {"DLOJZ_CACHE": str(paths.cache()), "HUB_FOLDER": str(folder), "HUB_PORT": str(port),
           "HUB_PROXY": shutil.which("configurable-http-proxy")}
    with open(folder / "hub.log", "wb") as log:
        process = subprocess.Popen([shutil.which("jupyterhub"), "-f", config], cwd=folder, stdout=log, stderr=log,
                                   env={**os.environ, **own, **environment}, start_new_session=True)
    try:
        url, until = f"http://127.0.0.1:{port}", time.monotonic() + SECONDS
        while not _answers(f"{url}/hub/login"):
            said = (folder / "hub.log").read_text()[-3000:]
            assert process.poll() is None and time.monotonic() < until, f"the hub does not answer:\n{said}"
            time.sleep(0.3)
        yield url
    finally:
        for home in (folder / "home").glob(f"*/{dlojz_hub.WORKSPACE}"):
            environment_ = {**os.environ, "DLOJZ_QUEUE": str(home.parent / ".local/state/dlojz/queue")}
            subprocess.run([sys.executable, "-c", "from dlojz import jobs; [job.cancel() for job in jobs if job.status.active]"],
                           cwd=home, env=environment_, check=False)
        _end(process)


def _answers(url: str) -> bool:
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(url, timeout=5).status == 200
    except OSError:
        return False


def _end(process: subprocess.Popen) -> None:
    """SIGINT ends the hub with its proxy and its users' servers."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
