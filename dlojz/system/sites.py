"""Sites: what differs from one machine or cluster to the next, one small TOML file each, and the default sizes of a run.

The site in use is the one that ``DLOJZ_SITE`` names (or the .toml file it is a path to), else the one that the workspace's
workspace.toml names, else a detected one. The kit's own files are in ``slurm/sites/``; a workspace may hold more in ``sites/``.
`Site`, `Partition` and `Qos` are the schema: their fields are the keys that a file may hold.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import paths, suggest, workspace
from .errors import UsageError
from .machine import cores_allowed
from .shown import say, shown

# --- time limits ---------------------------------------------------------------------------------------------------------

TIME_FORMS = '10 (minutes), "30:00" (minutes:seconds), "2:00:00" (hours) or "1-00:00:00" (days)'


def seconds(limit: int | str) -> int:
    """A time limit in seconds, read as Slurm reads it: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S. Raises UsageError."""
    text = str(limit).strip() if isinstance(limit, (int, str)) and not isinstance(limit, bool) else ""
    match = re.fullmatch(r"(?:(\d{1,3})-)?(\d{1,6})(?::(\d{1,4}))?(?::(\d{1,4}))?", text, re.ASCII)
    if not match:
        raise UsageError(f"{_said(limit)} is not a time limit: use {TIME_FORMS}")
    days, *rest = match.groups()
    numbers = [int(number) for number in rest if number is not None]
    if days is not None:
        hours, minutes, secs = numbers + [0] * (3 - len(numbers))
    elif len(numbers) == 3:
        hours, minutes, secs = numbers
    else:
        hours, (minutes, secs) = 0, [*numbers, 0][:2]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + secs
    if not 0 < total <= 365 * 86400:
        raise UsageError(f"{_said(limit)} is not a time limit: it must be above 0 and at most a year")
    return total


def duration(total: float) -> str:
    """Seconds as Slurm writes them: ``0:10:00``, ``1-00:00:00``."""
    days, rest = divmod(int(total), 86400)
    hours, rest = divmod(rest, 3600)
    return (f"{days}-{hours:02}" if days else f"{hours}") + f":{rest // 60:02}:{rest % 60:02}"


# --- schema --------------------------------------------------------------------------------------------------------------


def _key(default, expected: str, right: Callable[[object], bool], convert: Callable = lambda value: value):
    """A field of the schema: its default, and what a file may say for it."""
    return dataclasses.field(default=default, metadata={"expected": expected, "right": right, "convert": convert})


def _one_line(value) -> bool:
    return isinstance(value, str) and not re.search(r"[\x00-\x1f\x7f]", value)


def _text(default: str = "", expected: str = "a text in quotes, on one line"):
    return _key(default, expected, _one_line)


def _option(default: str = "", expected: str = "a name without blanks, in quotes"):
    return _key(default, expected, lambda value: _one_line(value) and re.fullmatch(r"[^\s'\"`;$\\]*", value) is not None)


def _choice(default: str, *allowed: str):
    return _key(default, "one of " + ", ".join(f'"{word}"' for word in allowed), lambda value: value in allowed)


def _count(default: int, low: int, high: int):
    return _key(default, f"a whole number from {low} to {high}",
                lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high)


def _switch(default: bool):
    return _key(default, "true or false", lambda value: isinstance(value, bool))


def _words(expected: str, right: Callable[[str], bool]):
    return _key((), expected, lambda value: isinstance(value, list) and all(_one_line(v) and right(v) for v in value), tuple)


def _is_time(value) -> bool:
    try:
        return bool(seconds(value))
    except UsageError:
        return False


def _time(default: int):
    return _key(default, f"a time limit: {TIME_FORMS}", _is_time, seconds)


def _modules():
    return _words('a list of module names, such as ["pytorch-gpu/py3/2.8.0"]',
                  lambda v: re.fullmatch(r"[\w./+@-]+", v) is not None)


@dataclass(frozen=True)
class Storage:
    """A file system of the site, by what it is good for: ``[storage.scratch]``."""

    name: str = ""  # the key in the file
    path: str = _text()  # may hold $VARIABLES
    holds: str = _text()  # "data", "checkpoints", "environments"
    quota: str = _text()  # per user or project, such as "20 TB"
    inodes: str = _text()  # how many files, such as "500,000"
    lifetime: str = _text()  # such as "files unread for 30 days are deleted"

    def folder(self) -> Path | None:
        """Its folder for whoever asks; None where a variable is not set here."""
        said = os.path.expandvars(os.path.expanduser(self.path))
        return Path(said) if said and "$" not in said else None


LAUNCHERS = ("local", "slurm", "replay")  # modules of dlojz.jobs


@dataclass(frozen=True)
class Qos:
    """One quality of service of a partition. Limits of 0 are none."""

    name: str = ""  # the key in the file: what users may write for short
    qos: str = _option()  # Slurm's name for it, where it is another
    max_time: int = _time(0)
    max_gpus: int = _count(0, 1, 100_000)

    @property
    def slurm_name(self) -> str:
        return self.qos or self.name


@dataclass(frozen=True)
class Partition:
    """A kind of nodes. ``submit(partition=NAME)`` chooses it by the key in the file."""

    name: str = ""
    partition: str = _option()  # for --partition
    constraint: str = _option()  # for --constraint: chooses the nodes where the partition does not
    nodes: int = _count(0, 0, 100_000)  # 0: not said
    gpu: str = _text()  # "H100 80 GB"
    links: str = _text()  # between GPUs and between nodes: "NVLink; 4 x InfiniBand 400 Gbit/s"
    memory_per_core: str = _text()  # "4 GB"
    gpus_per_node: int = _count(0, 0, 64)
    cores_per_gpu: int = _count(0, 0, 1024)  # per process; 0: leave it to Slurm
    account_suffix: str = _option()  # added to the account: "@h100"
    modules: tuple[str, ...] = _modules()  # loaded before the site's
    max_time: int = _time(0)
    default_qos: str = _option()  # the one Slurm takes when none is named: for checking limits, never passed on
    qos: dict[str, Qos] = dataclasses.field(default_factory=dict, metadata={"table": Qos})


@dataclass(frozen=True)
class Site:
    """A machine or a cluster. Times in seconds; a file says them as Slurm does."""

    name: str = ""  # the file's name
    description: str = _text()
    launcher: str = _choice("local", *LAUNCHERS)
    recorded: str = _text()  # with the launcher "replay": the folder of recorded runs, from the site's file; may hold $VARIABLES
    references: str = _text()  # the folder of the site's own runs for `reference`, from the site's file; may hold $VARIABLES
    room: str = _text()  # the shared folder of the course's room, where trainees may publish how they are doing
    scale: str = _choice("auto", "auto", "laptop", "gpu", "cluster", "ci")
    hosts: tuple[str, ...] = _words('a list of host name patterns, such as ["jean-zay*"]', lambda v: bool(v.strip()))
    gpus: int = _count(1, 0, 1024)  # of a job that does not say how many
    time: int = _time(600)  # of a job that does not say how long
    partition: str = _option()  # of a job that does not say which
    account: str = _option()
    account_variable: str = _key("", "the name of an environment variable, in quotes",
                                 lambda v: isinstance(v, str) and re.fullmatch(r"[A-Za-z_]\w*", v) is not None)
    modules: tuple[str, ...] = _modules()
    python: str = _text()  # "this": the Python that submits; "": that too, but `python` where modules are loaded; or a path
    directives: tuple[str, ...] = _words('a list of options of sbatch, such as ["--hint=nomultithread"]',
                                         lambda v: re.fullmatch(r"--[a-z][\w-]*(=[^\s'\"`;$\\]+)?", v) is not None)
    data: str = _text()  # the folder of shared data sets; may hold $VARIABLES
    discover: bool = _switch(False)  # ask sinfo for the partitions and their GPUs
    partitions: dict[str, Partition] = dataclasses.field(default_factory=dict, metadata={"table": Partition})
    storage: dict[str, Storage] = dataclasses.field(default_factory=dict, metadata={"table": Storage})
    source: Path | None = None  # the file it was read from

    @property
    def reference(self) -> str:
        """What ``DLOJZ_SITE`` must say in a job to mean this site: its name, or its file where the kit does not ship it."""
        shipped = self.source is None or self.source.parent == paths.share("slurm", "sites")
        return self.name if shipped else str(self.source)

    def folder(self, key: str) -> Path | None:
        """The folder that a key names, its variables filled in, from the site's file; None where it is empty or a variable is not
        set here."""
        said = os.path.expandvars(os.path.expanduser(getattr(self, key)))
        base = self.source.parent if self.source else Path.cwd()
        return base / said if said and "$" not in said else None

    @property
    def reservation(self) -> str:
        """The name of the reservation that its directives ask for; empty where they ask for none."""
        return next((word.partition("=")[2] for word in self.directives if word.startswith("--reservation=")), "")

    def known_partitions(self) -> dict[str, Partition]:
        """The partitions of the file, and those that sinfo lists where the file says ``discover``."""
        return {**(discovered(clusters(self.directives)) if self.discover else {}), **self.partitions}

    def __str__(self) -> str:
        return shown(f"{self.name}: {self.description}")


_FILLED_IN = ("name", "source")  # fields that are no keys


def parse(text: str, name: str, source: Path | None = None) -> Site:
    """The site that the text of a .toml file describes. Raises UsageError with the line and what was expected there."""
    label = str(source or f"{name}.toml")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{label} is not valid TOML: {error}") from None
    site = _build(Site, table, (), _Where(label, text), name=name, source=source)
    _consistent(site, _Where(label, text))
    return site


@dataclass(frozen=True)
class _Where:
    label: str
    text: str

    def wrong(self, keys: tuple[str, ...], message: str) -> UsageError:
        line = _line(self.text, keys)
        return UsageError(f"{self.label}{f', line {line}' if line else ''}: {message}")


def _build(kind, table: dict, keys: tuple[str, ...], where: _Where, **filled):
    fields = {f.name: f for f in dataclasses.fields(kind) if f.metadata}
    values = {}
    for key, value in table.items():
        if key not in fields:
            hint = suggest.hint(key, fields).strip() or "known keys: " + ", ".join(fields)
            raise where.wrong((*keys, key), f"unknown key {key!r}; {hint}")
        rule = fields[key].metadata
        if "table" in rule:
            if not isinstance(value, dict):
                raise where.wrong((*keys, key), f"{key} must be a table, one [{'.'.join((*keys, key))}.NAME] each")
            values[key] = {}
            for inner, content in value.items():
                path = (*keys, key, inner)
                if not re.fullmatch(r"[\w.@+-]+", inner):
                    raise where.wrong(path, f"{inner!r} is not a name for an entry of {key}: letters, digits and _ . - only")
                if not isinstance(content, dict):
                    raise where.wrong(path, f"{inner} must be a table: [{'.'.join(path)}]")
                values[key][inner] = _build(rule["table"], content, path, where, name=inner)
        elif not rule["right"](value):
            raise where.wrong((*keys, key), f"{key} = {_said(value)} is not possible: expected {rule['expected']}")
        else:
            values[key] = rule["convert"](value)
    return kind(**values, **filled)


def _consistent(site: Site, where: _Where) -> None:
    """What the keys cannot say one by one."""
    if site.partition and site.partitions and not site.discover and site.partition not in site.partitions:
        raise where.wrong(("partition",), f"partition = {_said(site.partition)} has no table [partitions.{site.partition}]; "
                                          f"there are {', '.join(site.partitions)}")
    if site.launcher == "local" and site.partitions:
        raise where.wrong(("partitions",), 'partitions need launcher = "slurm"')
    if site.launcher == "replay" and not site.recorded:
        raise where.wrong(("launcher",), 'launcher = "replay" needs recorded = "FOLDER": where the recorded runs are')
    for key, partition in site.partitions.items():
        if partition.default_qos and partition.default_qos not in partition.qos:
            raise where.wrong(("partitions", key, "default_qos"),
                              f"default_qos = {_said(partition.default_qos)} is not among the qos of {key}")


def _said(value) -> str:
    text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _line(text: str, keys: tuple[str, ...]) -> int | None:
    """The line (from 1) on which a key stands, or the table it is in where that is written inline."""
    found, closest, table = None, 0, ()
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?(.+?)\]\]?\s*(#.*)?$", line)
        assignment = None if header else re.match(r"\s*([\w\"'.@+ -]+?)\s*=", line)
        try:
            if header:
                table = here = _path(f"[{header[1]}]")
            elif assignment:
                here = table + _path(f"{assignment[1]} = 0")
            else:
                continue
        except tomllib.TOMLDecodeError:
            continue
        shared = min(len(here), len(keys))
        if here[:shared] == keys[:shared] and shared > closest:
            found, closest = number, shared
    return found


def _path(toml: str) -> tuple[str, ...]:
    keys, table = [], tomllib.loads(toml)
    while isinstance(table, dict) and table:
        key, table = next(iter(table.items()))
        keys.append(key)
    return tuple(keys)


# --- the site in use -----------------------------------------------------------------------------------------------------


def available() -> dict[str, Path]:
    """The files of all sites by name: the workspace's own first, then the kit's."""
    found: dict[str, Path] = {}
    for folder in ([here / "sites"] if (here := _workspace()) else []) + [paths.share("slurm", "sites")]:
        for file in sorted(folder.glob("*.toml")):
            found.setdefault(file.stem, file)
    return found


def replaces(file: Path | None) -> str:
    """What to say of a site's file that takes the place of one of the kit's by its name; empty where it does not."""
    kits = paths.share("slurm", "sites")
    if file is None or file.parent == kits or not (kits / file.name).is_file():
        return ""
    return f"{file.stem} is {file}, in place of the kit's site of that name"


def load(name: str) -> Site:
    """The site of that name, or of the .toml file at that path. Raises UsageError."""
    if not isinstance(name, (str, Path)):
        raise UsageError(f"site={name!r}: give the name of a site, such as site=\"laptop\"; `dlojz sites` lists them")
    name = str(name)
    if name.endswith(".toml") or os.sep in name:
        file = Path(name).expanduser().resolve()
    else:
        sites = available()
        if name not in sites:
            guess = suggest.hint(name, sites)
            raise UsageError(f"there is no site {name!r}: {guess}`dlojz sites` lists {', '.join(sorted(sites))}")
        file = sites[name]
        if file.parent != paths.share("slurm", "sites"):
            workspace.refuse_others(file)  # nobody has named it: it is found
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"the site file {file} cannot be read: {why}") from None
    return parse(text, file.stem, file)


def choose() -> tuple[str, str]:
    """Which site is in use (a name or a path), and why, in words."""
    if chosen := os.environ.get("DLOJZ_SITE"):
        return chosen, "DLOJZ_SITE says so"
    here = _workspace()
    if here is not None and (chosen := _workspace_site(here / workspace.MARKER)):
        return chosen, f"{here / workspace.MARKER} says so"
    return _detected()


def for_workspace() -> str:
    """The site to write down in a new workspace: the one that is in use; empty where that cannot be told."""
    if chosen := os.environ.get("DLOJZ_SITE"):
        return str(Path(chosen).expanduser().absolute()) if chosen.endswith(".toml") or os.sep in chosen else chosen
    try:
        return _detected()[0]
    except UsageError:
        return ""


def _detected() -> tuple[str, str]:
    if not shutil.which("sbatch"):
        return "laptop", "detected: there is no sbatch command here"
    if why := _no_cluster():
        return "laptop", f"detected: there is an sbatch command here, but {why}"
    host = socket.gethostname()
    for name in available():
        try:
            hosts = load(name).hosts
        except UsageError:  # a file that is wrong, or another user's, is no site
            continue
        if any(fnmatch.fnmatch(host, pattern) for pattern in hosts):
            return name, f"detected: this machine is called {host}"
    return "slurm", "detected: there is an sbatch command here"


def _no_cluster() -> str:
    """Why Slurm's commands belong to no cluster, which they may be installed without; empty where they may. Each of them then
    refuses at once, and they alone know where they look: a slurm.conf at a place named by their build, then a server found by
    DNS. What is told from here is a file that was named and is missing, since they would try for a minute to read it."""
    named = os.environ.get("SLURM_CONF")
    if named and not os.path.exists(named) and not os.environ.get("SLURM_CONF_SERVER"):
        return f"SLURM_CONF names {named}, which does not exist"
    try:
        with _told("sbatch", 10):
            done = subprocess.run(["sbatch", "--version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""  # something is there: let whoever uses it say what is wrong
    return "no cluster that it belongs to" if done.returncode else ""


def current() -> Site:
    """The site in use. Raises UsageError where the chosen one is not there or its file is wrong."""
    here = _workspace()
    marker = here / workspace.MARKER if here else None
    stamp = marker.stat().st_mtime_ns if marker else 0
    return _current(os.environ.get("DLOJZ_SITE"), os.environ.get("PATH"), here, stamp)


@functools.lru_cache(maxsize=8)
def _current(*environment) -> Site:
    return load(choose()[0])


def _workspace() -> Path | None:
    try:
        return workspace.find()
    except (UsageError, OSError):
        return None


def _workspace_site(marker: Path) -> str:
    try:
        content = tomllib.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{marker} cannot be read: {error}") from None
    if unknown := sorted(set(content) - set(workspace.KEYS)):
        guess = suggest.hint(unknown[0], workspace.KEYS)
        raise UsageError(f"{marker}: there is no key {unknown[0]!r}: {guess}Expected are {', '.join(workspace.KEYS)}")
    chosen = content.get("site", "")
    if not isinstance(chosen, str):
        raise UsageError(f'{marker}: site must be a name in quotes, such as site = "laptop"')
    if chosen.endswith(".toml"):
        return str(marker.parent / chosen)
    return chosen


def table() -> str:
    """All sites, one a line, and which one is in use and why."""
    chosen, why = choose()
    lines, files = [], available()
    name = Path(chosen).stem if chosen not in files else chosen
    if chosen not in files:
        files = {name: Path(chosen), **files}
    width = max(len(site) for site in files)
    for site, file in files.items():
        try:
            parsed = load(site if site in available() else str(file))
            text = f"{parsed.launcher:6}  {parsed.description}"
        except UsageError as error:
            text = f"broken {error}"
        lines.append(f"{'*' if site == name else ' '} {site:{width}}  {text}")
    own = [file for file in files.values() if file.parent != paths.share("slurm", "sites")]
    lines += [f"  ({replaces(file) or f'{file.stem} is {file}'})" for file in own]
    lines.append(f"\nIn use: {name} ({why}). Another one: export DLOJZ_SITE=NAME, or site = \"NAME\" in workspace.toml.")
    return shown("\n".join(lines))


# --- sinfo ---------------------------------------------------------------------------------------------------------------

QUIET = 0.5  # seconds
SINFO = ("sinfo", "-h", "-o", "%P|%a|%l|%c|%G")


def clusters(directives: Sequence[str] = ()) -> str:
    """The cluster, or several with commas, that sbatch would submit to: what a site's directives say, else the environment;
    empty for the machine's own."""
    named = [option.partition("=")[2] for option in directives if option.startswith("--clusters=")]
    return named[-1] if named else os.environ.get("SLURM_CLUSTERS") or os.environ.get("SBATCH_CLUSTERS") or ""


def own_queue() -> str:
    """How to use this machine's own queue in place of Slurm, with the full path of the file to edit."""
    if os.environ.get("DLOJZ_SITE"):
        return "to use this machine's own queue instead, export DLOJZ_SITE=laptop"
    here = _workspace()
    file = here / workspace.MARKER if here else workspace.MARKER
    return f'to use this machine\'s own queue instead, write site = "laptop" into {file}'


@contextlib.contextmanager
def _told(command: str, limit: int) -> Iterator[None]:
    """A terminal is told what this process waits for, when it has waited for `QUIET` seconds: Slurm's commands try for a while to
    reach a controller that is away."""
    line = f"Waiting for {command}, {limit} s at most: Slurm's controller has not answered yet"
    timer = threading.Timer(QUIET, say, [line], {"file": sys.stderr})
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@functools.lru_cache(maxsize=4)
def discovered(cluster: str = "") -> dict[str, Partition]:
    """What sinfo says of this cluster's partitions. The default partition comes first. Raises UsageError."""
    command = [*SINFO, *([f"--clusters={cluster}"] if cluster else [])]
    try:
        with _told("sinfo", 30):
            said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=30,
                                  check=False)
    except FileNotFoundError:
        raise UsageError("there is no sinfo command here: use another site than slurm, see `dlojz sites`") from None
    except OSError as error:
        raise UsageError(f"sinfo cannot be run here ({error.strerror}): use another site than slurm, see `dlojz sites`") from None
    except subprocess.TimeoutExpired:
        raise UsageError("sinfo does not answer: the cluster's controller may be down; try again in a minute; "
                         f"{own_queue()}") from None
    if said.returncode:
        lines = [line.strip() for line in [*said.stderr.splitlines(), *said.stdout.splitlines()] if line.strip()]
        what = next((line for line in lines if re.match(r"\S+:? (error|fatal): ", line)), (lines or ["no message"])[-1])
        raise UsageError(f"sinfo fails ({what[:200]}): the cluster's controller may be down; try again in a minute; "
                         f"{own_queue()}")
    return parse_sinfo(said.stdout)


def parse_sinfo(text: str) -> dict[str, Partition]:
    """Partitions from lines of ``sinfo -h -o '%P|%a|%l|%c|%G'``; of several kinds of nodes in one the one with most GPUs."""
    found: dict[str, Partition] = {}
    default = None
    for line in text.splitlines():
        if line.count("|") != 4:
            continue
        name, up, limit, cores, gres = (part.strip() for part in line.split("|"))
        if up != "up" or not re.fullmatch(r"[^\s'\"`;$\\]+", name):
            continue
        if name.endswith("*"):
            name = default = name[:-1]
        gpus = sum(int(count) for count in re.findall(r"\bgpu(?::[^:,(]+)?:(\d+)", gres))
        cores_each = int(cores.rstrip("+")) // gpus if gpus and cores.rstrip("+").isdecimal() else 0
        if name not in found or gpus > found[name].gpus_per_node:
            found[name] = Partition(name=name, partition=name, gpus_per_node=gpus, cores_per_gpu=cores_each,
                                    max_time=seconds(limit) if _is_time(limit) else 0)
    return {**({default: found[default]} if default else {}), **found}


# --- sizes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Default sizes of a training run. ``batch_size`` is per process, ``image_size`` in pixels. Of a language model: its name
    ``lm``, the ``length`` of a row in tokens, and how many ``rows`` a process has per step.

    ``photos_repeat``: how often an epoch goes through the embedded photos. ``num_workers``: loader processes per training
    process. ``max_steps``: None where a run goes on to its last epoch.
    """

    scale: str
    model: str
    image_size: int
    batch_size: int
    photos_repeat: int
    num_workers: int
    max_steps: int | None = None
    lm: str = "1m"
    length: int = 256
    rows: int = 8


# scale: model, image_size, batch_size, photos_repeat, most workers, max_steps; lm, length, rows
_SCALES = {
    "ci": ("resnet18", 32, 8, 1, 0, 4, "1m", 64, 4),
    "laptop": ("resnet18", 64, 16, 1, 2, None, "1m", 256, 8),
    "gpu": ("resnet50", 224, 256, 8, 16, None, "124m", 1024, 32),
    "cluster": ("resnet50", 224, 256, 8, 16, None, "124m", 1024, 32),
}


def sizes(scale: str | None = None) -> Sizes:
    """The default sizes at ``scale``. Where none is given, those for a training in this very process: ``DLOJZ_SCALE``, else
    the scale of the site in use, but never a GPU's sizes where there is none (a login node, a CPU partition)."""
    chosen = resolve_scale(scale or os.environ.get("DLOJZ_SCALE") or current().scale)
    if scale is None and chosen in ("gpu", "cluster") and not has_gpu():
        chosen = "laptop"
    model, image_size, batch_size, photos_repeat, most_workers, max_steps, *text = _SCALES[chosen]
    return Sizes(chosen, model, image_size, batch_size, photos_repeat, min(most_workers, _cores()), max_steps, *text)


def resolve_scale(scale: str) -> str:
    """The scale that ``auto`` means on this machine; any other is only looked up. Raises UsageError."""
    if scale == "auto":
        return "gpu" if has_gpu() else "laptop"
    if not isinstance(scale, str) or scale not in _SCALES:
        raise UsageError(f"there is no scale {scale!r}: use {', '.join(_SCALES)} or auto")
    return scale


def has_gpu() -> bool:
    """Whether this process may use a CUDA device, found out without importing torch."""
    return bool(gpus())


def gpus() -> list[str]:
    """The CUDA devices that this process may use, as CUDA_VISIBLE_DEVICES names them, found out without importing torch."""
    present = _devices()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not present:
        return present
    chosen = []
    for device in (part.strip() for part in visible.split(",")):
        if not device or device.startswith("-") or (device.isdigit() and device not in present):
            break  # CUDA ignores what follows the first device that isn't there
        chosen.append(device)
    return chosen


@functools.lru_cache(maxsize=1)
def _devices() -> list[str]:
    """The indices of the machine's NVIDIA devices."""
    if shutil.which("nvidia-smi"):
        try:
            listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            listed = None
        if listed is not None and listed.returncode == 0:
            return re.findall(r"^GPU (\d+):", listed.stdout, re.MULTILINE)
    files = [file.name.removeprefix("nvidia") for file in Path("/dev").glob("nvidia[0-9]*")]
    return [str(number) for number in range(len([name for name in files if name.isdigit()]))]


def _cores() -> int:
    """CPU cores for this process: those it may use, shared among the processes that torchrun started beside it."""
    allowed = cores_allowed()
    beside = os.environ.get("LOCAL_WORLD_SIZE", "1") if "TORCHELASTIC_RUN_ID" in os.environ else "1"
    return max(1, allowed // max(1, int(beside)) if beside.isdigit() else allowed)
