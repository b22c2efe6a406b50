"""Jupyter's widgets need two halves: ipywidgets where the kernel runs, and a part of JupyterLab where its server runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ..system import workspace
from ..system.errors import UsageError
from ..system.look import System
from .packages import numbers, pip
from .report import Finding, broken, fine, note

MANAGER = "labextensions/@jupyter-widgets/jupyterlab-manager/package.json"
MANAGER_FOR = {7: 3, 8: 5}  # ipywidgets -> the major version of JupyterLab's side of it


def look_jupyter(system: System) -> dict:
    """ipywidgets where the kernel runs, and the part that shows them where the server runs (None: no server was found)."""
    return {
        "ipywidgets": _version("ipywidgets"),
        "ipykernel": _version("ipykernel"),
        "in_kernel": "ipykernel" in sys.modules,
        "code": "VSCODE_PID" in system.env or "VSCODE_CWD" in system.env,
        "colab": "google.colab" in sys.modules,
        "server": look_server(system),
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def look_server(system: System) -> dict | None:
    """The Jupyter server of this kernel, or of this account where we are in a shell; ``manager`` is the version of its half."""
    data = _data_folder(system)
    for pid in server_pids(system, data / "runtime"):
        python = server_python(system, pid)
        if python is None:
            continue
        prefix = python.parent.parent
        shares = _shares(system, prefix, pid)
        files = (share / MANAGER for share in shares)
        manager = next((json.loads(file.read_text()).get("version") for file in files if file.is_file()), None)
        return {"pid": pid, "python": str(python), "prefix": str(prefix), "manager": manager, "shares": list(map(str, shares))}
    return None


def _shares(system: System, prefix: Path, pid: int) -> list[Path]:
    """Where a server of this environment looks for kernels and extensions, in its order: a hub tells its servers a folder that a
    shell from elsewhere does not know of."""
    given = _variables(system, pid).get("JUPYTER_PATH") or system.env.get("JUPYTER_PATH", "")
    named = [Path(folder) for folder in given.split(":") if folder]
    installed = [prefix / "share/jupyter", system.path("usr/local/share/jupyter"), system.path("usr/share/jupyter")]
    return [*named, _data_folder(system), *installed]


def look_kernel(system: System) -> dict | None:
    """The Python in which the server that runs here starts the notebooks of this workspace, and whether it has the kit. None
    where no server was found, or where we are in a kernel, which has it."""
    server = None if "ipykernel" in sys.modules else look_server(system)
    if server is None:
        return None
    try:
        name = workspace.kernel(workspace.find())
    except UsageError:
        name = "python3"
    files = [Path(folder, "kernels", name, "kernel.json") for folder in server["shares"]]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        python = server["python"] if name == "python3" else ""
    else:
        python = json.loads(file.read_text(encoding="utf-8"))["argv"][0]
        python = server["python"] if python in ("python", "python3") else python
    there = bool(python) and shutil.which(python) is not None
    has = there and (python == sys.executable or not system.run([python, "-c", "import dlojz"], 4).returncode)
    return {"name": name, "python": python, "there": there, "has": has, "server": server["prefix"]}


def say_kernel(facts: dict | None) -> Iterator[Finding]:
    if facts is None:
        return
    program = Path(sys.executable).parent / "dlojz"
    mend = f"{program} hub makes the kernel 'dlojz': choose it in the notebook, Kernel > Change Kernel."
    if not facts["python"]:
        text = f"notebooks here name the kernel {facts['name']!r}, which the server ({facts['server']}) does not know"
        yield broken("Kernel", text, mend, **facts)
    elif not facts["there"]:
        text = f"notebooks here name the kernel {facts['name']!r}, whose Python is not there (any more): {facts['python']}"
        yield broken("Kernel", text, mend, **facts)
    elif not facts["has"]:
        text = f"notebooks run in {facts['python']} (kernel {facts['name']}), which cannot import dlojz"
        yield broken("Kernel", text, mend, **facts)
    else:
        yield fine("Kernel", f"{facts['name']}: notebooks run in {facts['python']}, which has the kit", **facts)


def _data_folder(system: System) -> Path:
    home = Path(system.env.get("HOME", "~")).expanduser()
    return Path(system.env.get("JUPYTER_DATA_DIR") or home / ".local/share/jupyter")


def server_pids(system: System, runtime: Path) -> list[int]:
    """In a kernel the process that started it, else the servers that this account's list says are running, newest first."""
    parent = system.env.get("JPY_PARENT_PID", "")
    if parent.isdigit() and int(parent) > 1:
        return [int(parent)]
    files = Path(system.env.get("JUPYTER_RUNTIME_DIR") or runtime).glob("jpserver-*.json")
    newest = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
    return [int(pid) for file in newest if (pid := file.stem.partition("-")[2]).isdigit()]


def server_python(system: System, pid: int) -> Path | None:
    """The python that a Jupyter server runs, as it was called: in a virtual environment the file itself is the system's.

    None where the process is gone, or no server (nbval starts kernels too).
    """
    words = (system.read(f"proc/{pid}/cmdline") or "").split("\0")
    if "python" not in Path(words[0]).name or not any("jupyter" in word for word in words[1:]):
        return None
    if "/" in words[0]:
        return Path(words[0])
    found = shutil.which(words[0], path=_variables(system, pid).get("PATH", os.defpath))
    return Path(found) if found else None


def _variables(system: System, pid: int) -> dict[str, str]:
    """The environment of a process, as far as we may read it."""
    lines = (system.read(f"proc/{pid}/environ") or "").split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def say_jupyter(facts: dict) -> Iterator[Finding]:
    widgets, server, data = facts["ipywidgets"], facts["server"], facts
    here = "this kernel" if facts["in_kernel"] else "this environment"
    if widgets is None:
        yield note(
            "Widgets",
            f"ipywidgets is not installed in {here}: jobs.watch() prints lines instead of a live table",
            f"{pip()} install 'dlojz[lab]', then restart the kernel.",
            **data,
        )
        return
    if server is None:
        who = "VS Code" if facts["code"] else "Colab" if facts["colab"] else ""
        why = f"{who} shows them itself" if who else "no Jupyter server was found from here, so its half was not looked at"
        yield fine("Widgets", f"ipywidgets {widgets} in {here}; {why}", **data)
        return
    mend = f"{server['python']} -m pip install 'jupyterlab_widgets>=3', then restart the server and reload the page."
    prefix, major = server["prefix"], numbers(widgets)[0]
    if server["manager"] is None:
        text = f"ipywidgets {widgets} in {here}, but the server ({prefix}) can't show them: live tables stay blank"
        yield broken("Widgets", text, mend, **data)
    elif major in MANAGER_FOR and numbers(server["manager"])[0] != MANAGER_FOR[major]:
        text = f"ipywidgets {widgets} in {here}, but the server ({prefix}) is made for another version: live tables stay blank"
        yield broken("Widgets", text, mend, **data)
    else:
        where = "same environment" if Path(prefix).resolve() == Path(sys.prefix).resolve() else prefix
        yield fine("Widgets", f"ipywidgets {widgets} in {here}, and the server shows them ({where})", **data)
