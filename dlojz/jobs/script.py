"""From what was asked for to the text of ``job.sh``: pure functions, and a linter for scripts of any origin."""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import json
import math
import os
import re
import shlex
import sys
import textwrap
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..system import paths, sites, suggest
from ..system.errors import UsageError
from ..system.machine import cores_allowed
from ..system.workspace import emptied
from . import switches
from .states import Request

# --- what was asked for --------------------------------------------------------------------------------------------------

LONGEST_NAME = 64
MOST = 1_000_000  # GPUs, nodes, cores: more than any machine has


def checked_name(name: str) -> str:
    """A name that is safe as a folder and as a Slurm job name. Raises UsageError and suggests one where it is not."""
    if not isinstance(name, str):
        raise UsageError(f"name={name!r}: a name is a text, such as name=\"amp\"")
    name = unicodedata.normalize("NFC", name)
    if re.fullmatch(r"\w[\w.+=-]*", name) and len(name) <= LONGEST_NAME and len(name.encode()) <= 200:
        return name
    better = re.sub(r"[^\w.+=]+", "-", name).strip("-.+=")[:LONGEST_NAME].strip("-.+=") or "run"
    shown = repr(name if len(name) <= 40 else name[:37] + "...")
    raise UsageError(
        f"{shown} is not a valid run name: use up to {LONGEST_NAME} letters, digits and _ . + = -, such as {better!r}")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command, checked: what runs, and the file of the script (None for a module, or where a program is given none)."""

    argv: tuple[str, ...]
    script: Path | None


def checked_command(text: str, workspace: Path, cwd: Path | None = None, find_modules: bool = True) -> Command:
    """Split a command as a shell would, without running anything of it, and see that its script is there.

    A script is looked for in the workspace, then in ``cwd``. Raises UsageError.
    """
    if not isinstance(text, str):
        raise UsageError(f"a command is a string such as \"train.py --amp bf16\" (a list of them is a sweep), not {text!r}")
    if "\0" in text:
        raise UsageError("the command holds a NUL character: remove it")
    if re.search("[\ud800-\udc7f\udd00-\udfff]", text):  # a byte that is no UTF-8 is one of those between
        raise UsageError(f"the command holds half of a letter ({_short(text)}), which no program can be given: type it anew")
    try:
        argv = shlex.split(text)
    except ValueError:
        raise UsageError(f"a quote is left open in the command: {_short(text)}") from None
    if argv and re.fullmatch(r"python(3(\.\d+)?)?", argv[0]):
        argv = argv[1:]  # `python train.py`: which Python is the site's business
    if not argv:
        raise UsageError("the command is empty: say which script to run, such as \"train.py --amp bf16\"")
    if argv[0] == "dlojz":  # this very kit, also where no such program is installed beside this Python
        return Command((*KIT, *argv[1:]), _file_of(argv, workspace))
    if argv[0] == "-m":
        file = _module_file(argv, workspace, find_modules)
        switches.refuse(argv[2:], sources(file))
        return Command(tuple(argv), file)
    if argv[0].startswith("-"):
        raise UsageError(f"the command starts with {argv[0]!r}: start with the script (train.py …) or with -m and a module")
    if is_program(argv):
        return Command(tuple(argv), _file_of(argv, workspace))
    if not argv[0].endswith(".py"):
        raise UsageError(f"{_short(argv[0])!r} is not a Python script: use train.py ARGS, -m MODULE ARGS, bash SCRIPT.sh ARGS, "
                         "or a program that is installed beside this Python, such as accelerate")
    asked = Path(argv[0]).expanduser()
    for folder in (workspace, *([cwd] if cwd else [])):
        script = Path(os.path.abspath(folder / asked))
        if script.is_file():
            shown = script.relative_to(workspace) if script.is_relative_to(workspace) else script
            if not script.read_bytes().strip():
                raise emptied(str(shown))
            switches.refuse(argv[1:], sources(script))
            return Command((str(shown), *argv[1:]), script)
    scripts = sorted(file.name for file in workspace.glob("*.py"))
    there = f": {suggest.hint(argv[0], scripts)}Choose from {', '.join(scripts[:8])}" if scripts else ""
    raise UsageError(f"there is no script {_short(argv[0])!r} in {workspace}{there}")


SHELLS = ("bash", "sh")
KIT = ("-m", "dlojz.cli")  # what `dlojz` is


def _file_of(argv: Sequence[str], workspace: Path) -> Path | None:
    """The script among the arguments of a program."""
    files = (workspace / word for word in argv[1:] if word.endswith((".py", ".sh")))
    return next((file for file in files if file.is_file()), None)


def is_program(argv: Sequence[str]) -> bool:
    """Whether a command is not for Python: a shell with what it runs, or a program of this Python's environment."""
    if argv[0] in SHELLS:
        return len(argv) > 1
    if not re.fullmatch(r"\w[\w-]*", argv[0]):  # a script, a path, -m
        return False
    beside = Path(sys.executable).with_name(argv[0])
    return beside.is_file() and os.access(beside, os.X_OK)


def _module_file(argv: list[str], workspace: Path, look: bool) -> Path | None:
    if len(argv) < 2 or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", argv[1]):
        raise UsageError("-m needs the name of a module after it, such as -m package.module")
    module = workspace.joinpath(*argv[1].split("."))
    for file in (module.with_suffix(".py"), module / "__main__.py"):
        if file.is_file():
            return file
    top = argv[1].split(".")[0]
    if look and not (workspace / top).is_dir() and importlib.util.find_spec(top) is None:
        raise UsageError(f"there is no module {argv[1]!r} in the workspace or in this Python")
    return None


def _short(text: str) -> str:
    line = text if text.isprintable() else repr(text)[1:-1]
    return line if len(line) <= 80 else line[:77] + "..."


def request(site: sites.Site, command: Command, *, name: str | None = None, gpus: int | None = None, nodes: int | None = None,
            processes: int | None = None, time: int | str | None = None, account: str = "", partition: str = "", qos: str = "",
            constraint: str = "", cores: int | None = None, devices: int = 0) -> Request:
    """Fill in the site's defaults and refuse what cannot work, in one line that says what could.

    ``devices`` is how many GPUs this machine has; it only matters where the site's launcher is local.
    """
    if name is None:
        ours = command.argv[: len(KIT)] == KIT
        words = ("dlojz", *command.argv[len(KIT):]) if ours else command.argv
        program = f"{words[0]}-" if ours or (is_program(words) and words[0] not in SHELLS) else ""
        file = command.script or Path(words[0])
        stem = words[1] if words[0] == "-m" else program + file.stem
        name = re.sub(r"[^\w.+=-]", "-", stem)[:LONGEST_NAME].lstrip("-.+=") or "run"
    for word, value, least in (("gpus", gpus, 0), ("nodes", nodes, 1), ("processes", processes, 1), ("cores", cores, 1)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST):
            raise UsageError(f"{word}={_short(repr(value))}: must be a whole number, {least} or more")
    for word, value in (("account", account), ("partition", partition), ("qos", qos), ("constraint", constraint)):
        if not isinstance(value, str) or not re.fullmatch(r"[\w.@+:&|*()\[\],-]*", value):
            raise UsageError(f"{word}={value!r}: must be a name as Slurm knows it, without blanks or quotes")
    common = {"name": checked_name(name), "command": command.argv, "site": site.name}
    limit = sites.seconds(time) if time is not None else site.time
    if site.launcher == "local":
        if (nodes or 1) > 1:
            raise UsageError(f"nodes={nodes}: the site {site.name} is one machine; leave nodes out, or name a cluster with site=")
        # Without a GPU the processes that would drive one share the cores, so that a distributed run can be tried anywhere.
        wanted = min(site.gpus, devices) if gpus is None else gpus
        if devices and wanted > devices:
            raise UsageError(f"gpus={wanted}: this machine has {devices}; ask for {devices}, "
                             f"or for gpus=0, processes={wanted} on its CPU")
        given = wanted if devices else 0
        present = cores_allowed()
        if (cores or 0) > present:
            raise UsageError(f"cores={cores}: this machine lets you use {present}")
        if max(processes or 0, wanted) > 16 * present:
            raise UsageError(f"{max(processes or 0, wanted)} processes on {present} cores: ask for {16 * present} at most")
        count = _processes(processes, given, 1) if given or processes else max(1, wanted)
        return Request(**common, gpus=given, processes=count, cores=cores or 0, seconds=limit, account=account,
                       partition=partition, qos=qos, constraint=constraint, directives=site.directives)

    kinds = site.known_partitions()
    chosen = partition or (constraint if constraint in kinds else "") or site.partition
    if not chosen and kinds:
        fitting = [key for key, kind in kinds.items() if kind.gpus_per_node or not (site.gpus if gpus is None else gpus)]
        chosen = next(iter(fitting or kinds))
    kind = kinds.get(chosen) or sites.Partition(name=chosen, partition=chosen)
    known = chosen in kinds
    if known and not kind.gpus_per_node and gpus:
        others = [key for key, other in kinds.items() if other.gpus_per_node]
        raise UsageError(f"gpus={gpus}: the partition {chosen} has no GPUs; {', '.join(others) or 'no other'} has")
    wanted = (0 if known and not kind.gpus_per_node else site.gpus) if gpus is None else gpus
    most = kind.gpus_per_node
    count = nodes or max(1, math.ceil(wanted / most) if most else 1)
    if wanted % count:
        raise UsageError(f"gpus={wanted}, nodes={count}: every node must give the same number of GPUs; "
                         f"ask for {math.ceil(wanted / count) * count}")
    if most and wanted // count > most:
        raise UsageError(f"gpus={wanted}, nodes={count}: a node of {chosen} has {most} GPUs; "
                         f"ask for nodes={math.ceil(wanted / most)}")
    limit = _checked_limit(kind, chosen, qos, wanted, limit, asked=time is not None)
    level = kind.qos.get(qos)
    owner = account or site.account or os.environ.get(site.account_variable or " ", "")
    both = "&".join(dict.fromkeys(word for word in (kind.constraint, constraint if constraint != chosen else "") if word))
    return Request(
        **common, gpus=wanted, nodes=count, processes=_processes(processes, wanted, count), seconds=limit,
        cores=cores or (kind.cores_per_gpu if wanted else 0), partition=kind.partition, qos=level.slurm_name if level else qos,
        account=owner + kind.account_suffix if owner and "@" not in owner else owner, constraint=both, directives=site.directives,
        modules=(*kind.modules, *site.modules))


def _processes(processes: int | None, gpus: int, nodes: int) -> int:
    if gpus and processes not in (None, gpus):
        raise UsageError(f"processes={processes}, gpus={gpus}: one process drives one GPU; leave processes out or ask for gpus=0")
    count = processes or max(gpus, nodes)
    if count % nodes:
        raise UsageError(f"processes={count}, nodes={nodes}: every node must run the same number of processes")
    return count


def _checked_limit(kind: sites.Partition, chosen: str, qos: str, gpus: int, limit: int, asked: bool) -> int:
    """The time limit, cut to what the partition allows where nobody asked for it. Raises UsageError."""
    levels = {level.slurm_name: level for level in kind.qos.values()} | kind.qos
    level = levels.get(qos or kind.default_qos)
    if kind.qos and qos and level is None:
        raise UsageError(f"qos={qos!r}: {chosen} has {', '.join(kind.qos)}")
    bounds = [bound for bound in (kind.max_time, level.max_time if level else 0) if bound]
    if bounds and not asked:
        limit = min(limit, *bounds)

    def fits(other: sites.Qos) -> bool:
        return (not other.max_time or limit <= other.max_time) and (not other.max_gpus or gpus <= other.max_gpus)

    if kind.max_time and limit > kind.max_time:
        raise UsageError(f"time={sites.duration(limit)}: {chosen} allows at most {sites.duration(kind.max_time)}")
    if level and not fits(level):
        better = [other.name for other in kind.qos.values() if fits(other)]
        advice = f"qos={better[0]!r} allows it" if better else "no other qos of this partition allows it: ask for less"
        most = f"at most {sites.duration(level.max_time)} and {level.max_gpus} GPUs"
        raise UsageError(f"the qos {level.name} of {chosen} allows {most}, not {sites.duration(limit)} and {gpus}: {advice}")
    return limit


def sources(script: Path | None) -> list[Path]:
    """The script and the files beside it that it imports, directly or not: what a run's outcome depends on."""
    found: list[Path] = []
    waiting = [script] if script else []
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.append(file)
        for module in _imports(file):
            beside = file.parent / f"{module}.py"
            if beside.is_file():
                waiting.append(beside)
    return found


def _imports(file: Path) -> set[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # the run will say what is wrong with it
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level <= 1:
            names.add(node.module.split(".")[0])
    return names


def fingerprint(asked: Request, script: Path | None) -> str:
    """The same text for the same name, command, resources and content of the script: the same job. What is written into fences of
    labs whose switches the command has not changes nothing of it."""
    unused = {lab for lab, switches in _labs_with_switches().items() if not _uses(asked, switches)}

    def used(file: Path) -> bytes:
        text = file.read_bytes()
        return _FENCE.sub(lambda fence: b"" if fence[2].decode() in unused else fence[0], text) if unused else text

    content = [(file.name, hashlib.sha256(used(file)).hexdigest()) for file in sources(script)]
    text = json.dumps([dataclasses.asdict(asked), sorted(content)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


_FENCE = re.compile(rb"^[ \t]*#[ \t]*>>>[ \t]*(([A-Za-z_]\w*)[\w.]*).*?^[ \t]*#[ \t]*<<<[ \t]*\1[ \t]*\r?$",
                    re.MULTILINE | re.DOTALL)


@functools.cache
def _labs_with_switches() -> dict[str, list[str]]:
    """What each lab.toml says in ``only_with``, where it says so."""
    found = {file.parent.name: tomllib.loads(file.read_text(encoding="utf-8")).get("only_with")
             for file in (paths.PACKAGE / "labs").glob("*/lab.toml")}
    return {lab: switches for lab, switches in found.items() if switches}


def _uses(asked: Request, switches: Sequence[str]) -> bool:
    given = {word.partition("=")[0] for word in asked.command}
    return any(asked.processes > 1 or asked.gpus > 1 if switch == "processes" else switch in given for switch in switches)


# --- the environment -----------------------------------------------------------------------------------------------------

_LEFT_OVER = re.compile(
    r"SLURM_.*|SLURMD_.*|SBATCH_.*|SRUN_.*|SALLOC_.*|PMIX?_.*|OMPI_.*|TORCHELASTIC_.*"
    r"|RANK|LOCAL_RANK|GROUP_RANK|ROLE_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_WORLD_SIZE|ROLE_WORLD_SIZE|MASTER_ADDR|MASTER_PORT"
    r"|DLOJZ_RUN|DLOJZ_SCALE|DLOJZ_JOB")


# Where the cluster is, and how to log in there: of no job. https://slurm.schedmd.com/sbatch.html, jwt.html
_ADDRESS = re.compile(r"SLURM_(CONF|CONF_SERVER|CLUSTERS|JWT|SACK_\w+)")


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what belongs to the job that a notebook server itself often is. What says where the cluster is and
    who may use it stays."""
    return {key: value for key, value in environ.items() if _ADDRESS.fullmatch(key) or not _LEFT_OVER.fullmatch(key)}


# --- the text of job.sh --------------------------------------------------------------------------------------------------

WARNING = 60  # seconds before the time limit at which the script is told to save; Slurm may be another 60 s early
SHORTEST_WARNED = 300  # a shorter job would be warned before it has begun


def render(asked: Request, folder: Path, **facts) -> str:
    """The text of ``job.sh`` for a run in ``folder`` (absolute, in ``runs`` of the workspace); ``facts`` as in `_lines`."""
    return "".join(line.rstrip() + "\n" for line, _ in _lines(asked, folder, **facts))


def explain(asked: Request, folder: Path, **facts) -> str:
    """The text of ``job.sh`` with what each line does below it, for someone who sees a job script for the first time."""
    shown = []
    for line, why in _lines(asked, folder, **facts):
        shown.append(line.rstrip())
        if why:
            indent = " " * (len(line) - len(line.lstrip()) + 8)
            shown += textwrap.wrap("^ " + why, 110, initial_indent=indent, subsequent_indent=indent + "  ")
    return "\n".join(shown) + "\n"


def _lines(asked: Request, folder: Path, *, site: str, scale: str, python: str | None = None, resumes: bool = False,
           files: Sequence[Path] = ()) -> Iterable[tuple[str, str]]:
    """The lines of ``job.sh``, each with what it does.

    ``site`` is what ``DLOJZ_SITE`` shall say in the job, ``python`` the interpreter (default: this one, or ``python`` where
    modules are loaded), ``resumes`` whether the script knows ``--resume``, ``files`` the script and what it imports beside it.
    """
    python = python or ("python" if asked.modules else sys.executable)
    workspace = folder.parent.parent
    values = {"run": str(folder), "site": site, "scale": scale, "workspace": str(workspace), "python": python}
    values = {key: quoted(value) for key, value in values.items()} | {"command": " ".join(map(quoted, asked.command))}
    if is_program(asked.command):  # the job's own PATH may lead to another Python
        values["python"] = "env" if asked.modules else f'env PATH={quoted(str(Path(python).parent))}:"$PATH"'
    blocks = {"directives": _directives(asked, folder), "pythonpath": _pythonpath(), "modules": _modules(asked.modules),
              "resume": _resume(resumes), "alone": _alone(asked, values["python"]), "changed": _changed(files, workspace)}
    first = True
    for line in paths.share("slurm", "job.sh").read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"@(\w+)@", line):
            yield from blocks[match[1]]
            continue
        code, _, why = line.partition("#:")
        # A value may hold "#:" and even another @name@: one pass, after the line has been split.
        code = re.sub(r"@(\w+)@", lambda match: values[match[1]], code)
        yield code, "this is a script for the bash shell" if first else why.strip()
        first = False


def quoted(text: str) -> str:
    """A word for bash that stays on one line, whatever is in it."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    return character if character.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


_WHY = {
    "job-name": "the name that the queue shows",
    "output": "what the script prints goes to this file",
    "error": "and its error messages to this one",
    "open-mode": "if the job runs a second time, append to these files",
    "nodes": "how many machines (nodes) the job gets",
    "ntasks-per-node": "how many processes to start on each node: one per GPU",
    "gres": "how many GPUs the job gets on each node",
    "cpus-per-task": "how many CPU cores each process gets; its data loader needs them",
    "time": "the time limit: at its end the job is stopped, finished or not",
    "signal": "send the warning USR1 this many seconds before the time limit, so that the script can save a checkpoint",
    "requeue": "this job may be put back into the queue (after a preemption, or because it asks for more time)",
    "partition": "which group of nodes to use",
    "account": "which project pays for the hours",
    "qos": "which quality of service: its limits and its place in the queue",
    "constraint": "which kind of nodes to use",
    "hint": "nomultithread: one process thread per physical core",
}


def _directives(asked: Request, folder: Path) -> list[tuple[str, str]]:
    options = [f"job-name={asked.name}", f"output={_slurm_path(folder / 'out.log')}", f"error={_slurm_path(folder / 'err.log')}",
               "open-mode=append", f"nodes={asked.nodes}", f"ntasks-per-node={asked.processes // asked.nodes}"]
    if asked.gpus:
        options.append(f"gres=gpu:{asked.gpus // asked.nodes}")
    if asked.cores:
        options.append(f"cpus-per-task={asked.cores}")
    options.append(f"time={sites.duration(asked.seconds)}")
    if asked.seconds >= SHORTEST_WARNED:
        options.append(f"signal=USR1@{WARNING}")
    options.append("requeue")
    options += [f"{key}={getattr(asked, key)}" for key in ("partition", "account", "qos", "constraint") if getattr(asked, key)]
    options += [option.removeprefix("--") for option in asked.directives]
    why = "an option of sbatch that this site always sets: see `man sbatch`"
    return [(f"#SBATCH --{option}", _WHY.get(option.partition("=")[0], why)) for option in options]


def _slurm_path(path: Path) -> str:
    """A path as an #SBATCH line must write it: in quotes where it has blanks, and with %% where Slurm would see a pattern."""
    text = str(path).replace("%", "%%")
    if not text.isprintable():
        raise UsageError(f"the folder {str(path)!r} has control characters in its name: use a workspace without them")
    if re.fullmatch(r"[\w./+=@%:,-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _pythonpath() -> list[tuple[str, str]]:
    """Where the kit runs from a checkout, the job's Python must be told where it is."""
    root = paths.PACKAGE.parent
    if root.name in ("site-packages", "dist-packages"):
        return []
    return [(f"export PYTHONPATH={quoted(str(root))}${{PYTHONPATH:+:$PYTHONPATH}}", "where the dlojz package is")]


def _modules(names: tuple[str, ...]) -> list[tuple[str, str]]:
    if not names:
        return [("", "")]
    return [("", ""),
            ("type module > /dev/null 2>&1 || source /etc/profile", "if this shell does not know `module`, make it known"),
            ("module purge", "start from no software modules at all, whatever was loaded where this was submitted"),
            *[(f"module load {quoted(name)} || exit 1", "load this software, or stop") for name in names],
            ("", "")]


def _changed(files: Sequence[Path], workspace: Path) -> Iterable[tuple[str, str]]:
    """The job runs the files as they are when it begins: whoever has edited them while it waited should know."""
    if files:
        names = [file.relative_to(workspace) if file.is_relative_to(workspace) else file for file in files]
        yield f"for file in {' '.join(quoted(str(name)) for name in names)}; do", "for each file that this run depends on:"
        yield '    if [ "$file" -nt "$DLOJZ_RUN/job.sh" ]; then', "was it edited after this job was submitted, while it waited?"
        yield '        echo "Note: $file has changed since this job was submitted, and runs as it is now."', "say so in the log"
        yield "    fi", "end of the if"
        yield "done", "on to the next file"


def _resume(resumes: bool) -> list[tuple[str, str]]:
    if not resumes:
        return []
    return [('    if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then script+=(--resume); fi',
             "if Slurm has requeued the job: resume from its checkpoint")]


def _alone(asked: Request, python: str) -> list[tuple[str, str]]:
    if asked.processes == 1:
        return [(f'    "${{start[@]}}" {python} "${{script[@]}}"', "run it, as one process")]
    program = is_program(asked.command)
    return [
        (f"    export OMP_NUM_THREADS=$(( $(nproc) >= {asked.processes} ? $(nproc) / {asked.processes} : 1 ))",
         "the processes share the CPU cores"),
        (f'    "${{start[@]}}" {quoted(sys.executable) if program else python} -m torch.distributed.run --standalone '
         f'--nproc-per-node={asked.processes} {f"--no-python {python} " if program else ""}"${{script[@]}}"',
         f"torchrun starts {asked.processes} processes and tells each its rank"),
    ]


def directives(text: str) -> list[str]:
    """The options that sbatch would read from a script, without ``#SBATCH``."""
    return [line[len("#SBATCH"):].strip() for line in _header(text) if line.startswith("#SBATCH")]


def _header(text: str) -> list[str]:
    """The lines before the first command: all that sbatch looks at."""
    lines = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        lines.append(line)
    return lines


def lint(text: str, workspace: Path | None = None) -> list[str]:
    """What is wrong with a job script though Slurm would say nothing, each with its line: an empty list for a good one."""
    wrong = []
    lines = text.splitlines()
    if not text.startswith("#!"):
        wrong.append("line 1: a job script starts with #!/bin/bash")
    if "\r" in text:
        wrong.append("line 1: the lines end as on Windows (CR LF): convert the file with dos2unix")
    header = len(_header(text))
    for number, line in enumerate(lines, 1):
        if re.match(r"(<{7}|={7}|>{7}|\|{7})( |$)", line):
            wrong.append(f"line {number}: a conflict marker of git ({line[:7]}) was left in the script")
        elif re.match(r"\s*#\s*SBATCH\b", line, re.IGNORECASE):
            if not re.match(r"#SBATCH\s", line):
                wrong.append(f"line {number}: Slurm ignores {line.strip()[:40]!r}: the line must start with #SBATCH, "
                             "in capitals, no blanks")
            elif number > header:
                wrong.append(f"line {number}: Slurm ignores a directive after the first command (line {header + 1}): move it up")
        elif workspace and not line.lstrip().startswith("#"):
            for script in re.findall(r"(?:^|[\s(])([\w./-]+\.py)(?=[\s)]|$)", line):
                if not (workspace / script).is_file():
                    wrong.append(f"line {number}: the script {script} is not in {workspace}")
    return wrong
