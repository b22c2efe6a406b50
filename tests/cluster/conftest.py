"""Brings a real Slurm up, once a session, for the tests that ask for it."""

import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LOCK = Path("/run/dlojz-slurm-tests.lock")
PATIENCE = 240  # s, for another session of these tests to end: they stop the controller under each other's feet


def why_not() -> str:
    """Why no Slurm can be started here; empty where it can."""
    if os.geteuid():
        return "starting Slurm needs root"
    if not shutil.which("dpkg-query"):
        return "starting Slurm needs Debian or Ubuntu (its packages slurmctld, slurmd, slurm-client)"
    return ""


def is_up() -> bool:
    if not shutil.which("scontrol") or not Path("/run/dlojz-slurm/slurmctld.pid").exists():
        return False
    return "is UP" in subprocess.run(["scontrol", "ping"], capture_output=True, text=True, timeout=60).stdout


def real_path() -> str:
    """PATH without the folder of tests/conftest.py in which no controller answers."""
    return os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if "no-controller" not in folder)


def script(name: str, *options: str) -> None:
    real = {**os.environ, "PATH": real_path()}  # of a session's fixture, before `controller` has set it
    done = subprocess.run([HERE / name, *options], capture_output=True, text=True, timeout=600, env=real)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise RuntimeError(f"tests/cluster/{name} failed: {' / '.join(lines[-3:])}")


@pytest.fixture(scope="module", autouse=True)
def controller(no_controller):
    """The tests of this folder ask the real Slurm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", real_path())
        yield


@pytest.fixture(scope="session")
def slurm():
    """A running Slurm. Skips where there can be none, or fails where DLOJZ_REQUIRE_SLURM=1 says that there must be one."""
    give_up = pytest.fail if os.environ.get("DLOJZ_REQUIRE_SLURM") == "1" else pytest.skip
    if reason := why_not():
        give_up(reason)
    with open(LOCK, "w") as lock:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    pytest.fail("another session has been using the tests' Slurm for minutes")
                time.sleep(1)
        was_up, was_set_up = is_up(), Path("/etc/slurm/slurm.conf").exists()
        try:
            script("up")
        except RuntimeError as error:
            give_up(str(error))
        yield
        if not was_up:  # and leave no configuration behind that makes this machine look like part of a cluster
            script("down", *([] if was_set_up else ["--purge"]))


def pytest_itemcollected(item):
    if "slurm" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.slurm)
