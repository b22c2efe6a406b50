"""`dlojz hub`: what a JupyterHub needs so that its users get the kit: a kernel, a workspace at their first login, limits.

    dlojz hub /etc/jupyterhub/jupyterhub_config.py     for all users of a hub, by who may write to its configuration
    dlojz hub                                          for your own account, on a hub that somebody else looks after

For all, the kit's environment gets a folder ``hub/`` with the kernel and with what each user's server runs when it starts, and
the hub's configuration a block that leads there. The workspace is made by the server, and so as its user, where the user's home
is. The training images are drawn once, into the environment. For one account, the kernel goes where Jupyter looks for the kernels
of an account.
"""

from __future__ import annotations

import grp
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .data import photos
from .labs import workspace
from .system import sites, textfile
from .system.errors import UsageError
from .system.workspace import MARKER

KERNEL, WORKSPACE, START = "dlojz", "dlojz-course", "day0_start.ipynb"
CORES, MEMORY = 1, 5  # of a user's server with its kernels; memory in GB. Training runs in jobs
BEGIN = "# >>> dlojz: the course's kernel, workspace and limits (`dlojz hub` rewrites this block, `--remove` removes it)"
END = "# <<< dlojz"
BLOCK = """\
c.Spawner.environment.update({{"JUPYTER_PATH": {folder}, "JUPYTER_CONFIG_PATH": {folder}}})
c.Spawner.cpu_limit = {cores:g}
c.Spawner.mem_limit = "{memory:g}G"
"""
SERVER = '''\
"""Run by each user's Jupyter server when it starts, as that user: a workspace at the first login. Written by `dlojz hub`."""

import grp
import os
import subprocess

os.environ["PATH"] = os.environ.get("PATH", os.defpath) + os.pathsep + {bin}  # so that a terminal finds `dlojz`
group = {group}  # empty: everybody
if not group or grp.getgrnam(group).gr_gid in os.getgroups():
    folder = os.path.expanduser("~/{workspace}")
    if not os.path.exists(folder):
        try:
            subprocess.run([{python}, "-m", "dlojz.hub", folder, {site}], timeout=60, check=True)
        except (OSError, subprocess.SubprocessError) as error:  # the server is to start all the same
            print(f"dlojz: no workspace in {{folder}}: {{error}}")
'''
SPAWNERS = {  # whether they hold a server to cpu_limit and mem_limit
    "simple": False, "localprocess": False, "sudospawner": False, "systemd": True, "docker": True, "kubespawner": True,
    "batchspawner": True, "slurm": True,
}


def for_all(config: str, cores: float = CORES, memory: float = MEMORY, group: str = "", site: str = "",
            images: bool = True) -> Iterator[str]:
    """Write kernel, server's start and the block in the hub's configuration ``config``, or bring them up to date. Yields what was
    done, and what is left to do. ``group``: a workspace only for members of this Unix group. ``site``: where their jobs run; left
    out, what each server detects. ``images``: draw the training images once, for all. Raises UsageError."""
    if site:
        site = str(Path(site).resolve()) if site.endswith(".toml") else site
        sites.load(site)
    file, folder = Path(config), Path(sys.prefix, "hub")
    if group:
        try:
            grp.getgrnam(group)
        except KeyError:
            raise UsageError(f"there is no Unix group {group!r} on this machine") from None
    text = _configuration(file)
    try:
        (folder / "kernels" / KERNEL).mkdir(parents=True, exist_ok=True)
        _write(folder / "kernels" / KERNEL / "kernel.json", _kernel())
        words = {"bin": str(Path(sys.executable).parent), "python": sys.executable, "group": group, "site": site}
        server = SERVER.format(workspace=WORKSPACE, **{key: repr(value) for key, value in words.items()})
        _write(folder / "jupyter_server_config.py", server)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}. Install the kit where you may write and all users may "
                         "read, such as /opt") from None
    yield f"{folder}: the kernel {KERNEL!r}, and what a user's server does when it starts"
    if closed := _closed(folder):
        yield f"Other users cannot read {closed}: chmod o+rx {closed}, or install the kit elsewhere, such as in /opt"
    if images:
        yield from _photos()
    block = BLOCK.format(folder=json.dumps(str(folder)), cores=cores, memory=memory)
    textfile.write_bytes(file, f"{_without(text)}\n{BEGIN}\n{block}{END}\n".encode())
    yield f"{file}: {cores:g} core{'s' * (cores != 1)} and {memory:g} GB for each user's server"
    yield _limited(text)
    yield "Restart the hub. A server that runs already gets this when its user stops and starts it."
    yield f"The link to hand out, where JupyterLab opens in the home: https://YOUR-HUB/hub/user-redirect/lab/tree/{WORKSPACE}/{START}"


def removed(config: str) -> Iterator[str]:
    """Take the block out of the hub's configuration. Kernel and workspaces stay: nothing leads to them. Raises UsageError."""
    text = _configuration(Path(config))
    if _without(text) == text:
        raise UsageError(f"{config} has no block of `dlojz hub`")
    textfile.write_bytes(Path(config), _without(text).encode())
    yield f"{config}: the block is removed. Restart the hub; the workspaces of its users stay"


def for_me(site: str = "") -> Iterator[str]:
    """The kernel for this account, and a workspace in its home. Raises UsageError."""
    data = Path(os.environ.get("JUPYTER_DATA_DIR") or "~/.local/share/jupyter").expanduser()
    folder = data / "kernels" / KERNEL
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "kernel.json", _kernel())
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None
    yield f"{folder}: the kernel {KERNEL!r}, which runs {sys.executable}"
    if os.access(sys.prefix, os.W_OK) and not os.environ.get("DLOJZ_CACHE"):  # one's own environment, which others may use
        yield from _photos()
    home = Path("~", WORKSPACE).expanduser()
    _workspace(home, site)
    yield f"{home}: the workspace. Open {START} there; where JupyterLab asks for a kernel, choose {KERNEL!r}"
    yield f"In a terminal: export PATH=$PATH:{Path(sys.executable).parent}"


def _photos() -> Iterator[str]:
    """Draws the training images into the kit's environment, so that not each user draws 200 MB into a home."""
    if not (photos.for_all() / photos.MANIFEST).is_file():
        yield f"drawing the training images once for all users, which takes a few minutes: 200 MB in {photos.for_all()}"
        photos.share()
    yield f"{photos.for_all()}: the training images, for all users"


def _kernel() -> str:
    """The kernel's specification. The kit's programs come first in its PATH, so that `!dlojz` and jobs are of the same Python."""
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}${{PATH}}"}
    return json.dumps({"argv": words, "display_name": KERNEL, "language": "python", "env": environment,
                       "metadata": {"debugger": True}}, indent=1) + "\n"


def _write(file: Path, text: str) -> None:
    textfile.write_bytes(file, text.encode())
    file.chmod(0o644)


def _configuration(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{file} is not there: name the configuration that the hub is started with, `jupyterhub -f FILE`; "
                         "`jupyterhub --generate-config -f FILE` makes one") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None


def _without(text: str) -> str:
    return re.sub(rf"\n?{re.escape(BEGIN[:12])}[^\n]*\n.*?{re.escape(END)}\n", "", text, flags=re.DOTALL)


def _closed(folder: Path) -> Path | None:
    """The outermost folder of the kit's environment that other users cannot enter."""
    return next((part for part in reversed([folder, *folder.parents]) if part.is_dir() and not part.stat().st_mode & 0o001), None)


def _limited(text: str) -> str:
    """Whether the spawner that the configuration names holds a server to its limits."""
    found = re.findall(r"(?m)^\s*c\.JupyterHub\.spawner_class\s*=\s*(.+)$", _without(text))
    name = found[-1].strip() if found else "LocalProcessSpawner"
    holds = next((holds for word, holds in SPAWNERS.items() if word in name.lower()), None)
    if holds:
        return f"{name} holds servers to these limits."
    why = "does not hold servers to these limits" if holds is False else "may or may not hold servers to these limits"
    return f"{name} {why}: use SystemdSpawner on one machine, or a spawner of Docker, Kubernetes or Slurm."


def _workspace(folder: Path, site: str) -> None:
    new = not (folder / MARKER).exists()
    workspace.create(folder, kernel=KERNEL)
    if new and site:
        workspace.write_site(folder, site)


if __name__ == "__main__":  # as a user's server starts it
    _workspace(Path(sys.argv[1]), sys.argv[2])
