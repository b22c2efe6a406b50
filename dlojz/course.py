"""``dlojz course``: from nothing to a measured baseline and an open JupyterLab, in one command."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path

from .labs import workspace
from .system import inductor, sites
from .system.errors import UsageError
from .system.shown import say
from .system.workspace import MARKER
from .training import summary


def start(folder: Path | str, jupyter: bool | None = None, again: bool = False) -> int:
    """Make or complete the workspace, look at the machine, measure a baseline there, then become JupyterLab.

    ``jupyter=None``: only in a terminal, and not where ``CI`` is set. ``again``: a baseline that is there is measured anew.
    Returns the exit code where JupyterLab is not started; 130 where Ctrl-C came during the baseline, whose job goes on.
    """
    folder = Path(folder).expanduser().resolve()
    new = not (folder / MARKER).exists()
    _say(f"workspace {folder}")
    for line in [*workspace.create(folder), *(workspace.own_queue_where_slurm_is_silent(folder) if new else ())]:
        say(line)
    os.chdir(folder)

    _say("doctor")
    from .doctor import doctor

    silent = _silent_slurm()
    say(doctor().text(100))
    if silent:
        raise UsageError(f"{silent}, then run `make course` again")
    _say("torch.compile")
    say(inductor.warm())

    _draw_photos()
    from .jobs import submit

    # The same small run everywhere: the fences are not written yet, so that a machine with a GPU would not use it.
    size = sites.sizes("laptop")
    baseline = f"train.py --test --model {size.model} --image-size {size.image_size} --batch-size {size.batch_size}"
    _say(f"baseline: {baseline}")
    job = submit(baseline, name="baseline", again=again)
    shown = not job.found or job.status.active  # one that an earlier call has left running is followed, too
    try:
        for text in _follow(job) if shown else ():
            sys.stdout.write(text)  # as the script prints it, with its colours
            sys.stdout.flush()
    except KeyboardInterrupt:
        say(f"\nThe baseline goes on as the job {job.run}; nothing else was started.")
        say(f"Follow it:  {_here(folder)} && dlojz log -f {job.run}    (stop it: dlojz cancel {job.run})")
        say(f"JupyterLab: {_open_jupyter(folder)}")
        return 130
    if job.state != "COMPLETED":
        say(f"the baseline is {job.state}: {job.reason or job.err.strip()[-500:]}", file=sys.stderr)
        return 1
    if not shown:
        say(summary.text(job.record))
    say(f"(the run is in {job.folder})")

    if jupyter is None:
        jupyter = sys.stdout.isatty() and not os.environ.get("CI")
    if not jupyter:
        _say(f"done. To continue: {_open_jupyter(folder)}")
        return 0
    return _jupyter(folder)


def _silent_slurm() -> str:
    """What is wrong with the Slurm of the site in use, and what to do; empty where jobs can be submitted."""
    site = sites.current()
    if site.launcher == "slurm":
        try:
            sites.discovered(sites.clusters(site.directives))
        except UsageError as error:
            return str(error)
    return ""


def _draw_photos() -> None:
    """Draw the photo set here, where one sees how far it is, and not in the job, whose log nobody reads. On a cluster the job
    draws it: a login node is not for computing."""
    from .data import photos

    if (photos.place() / photos.MANIFEST).is_file():
        return
    _say("photos")
    if sites.current().launcher == "local":
        say(f"the training images are drawn once, which takes a few minutes: 200 MB in {photos.place()}")
        photos.folder()
    else:
        say("the job draws the training images first, which takes minutes: `dlojz log --err -f baseline` says how far it is")


def _open_jupyter(folder: Path) -> str:
    """The command that a person types to start JupyterLab in this workspace, in any shell."""
    return f"{_here(folder)} && jupyter lab{' --allow-root' * _is_root()}"


def _here(folder: Path) -> str:
    """What brings any shell into this environment and into the workspace."""
    return f"{_activated()}cd {shlex.quote(str(folder))}"


def _activated() -> str:
    """What puts the environment that we run in before the others of a shell, where it is one of its own."""
    script = Path(sys.prefix, "bin", "activate")
    return f". {shlex.quote(str(script))} && " if sys.prefix != sys.base_prefix and script.exists() else ""


def _is_root() -> bool:
    """JupyterLab refuses to start as root, the usual user in a container, unless it is told to."""
    return os.geteuid() == 0


def _follow(job):
    from .jobs.job import follow

    return follow(job, "out.log")


def _jupyter(folder: Path) -> int:
    if importlib.util.find_spec("jupyterlab") is None:
        raise UsageError("JupyterLab is not installed here: pip install 'dlojz[lab]'")
    _say("JupyterLab: open the address below in a browser, stop it with Ctrl-C")
    options = ["--no-browser", f"--ServerApp.root_dir={folder}"]
    if _is_root():
        say("You are root: JupyterLab is started with --allow-root, and so is whatever its notebooks run.")
        options.append("--allow-root")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *options])


def _say(title: str) -> None:
    say(f"\n== {title}")
