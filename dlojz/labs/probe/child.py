"""One run of the trainee's script, in a process that ends with it: bounded, watched, and its facts noted."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib.util
import json
import mmap
import os
import resource
import runpy
import signal
import struct
import sys
import traceback

from ...system import processes
from .log import Log, error, place

FILE_SIZE = 2**30  # bytes that one file may grow to
CPU_SECONDS = 300  # should everything that watches this process be killed


def run(request: dict) -> None:
    """Never returns. ``request``: see `dlojz.labs.probe.session.Session.start`."""
    code, leave = 1, os._exit
    try:
        code = _run(request)
    except BaseException as failure:  # the probe's own fault
        traceback.print_exc()
        with contextlib.suppress(OSError), open(request["facts"], "a") as file:
            file.write("\n" + json.dumps({"what": "broken", "message": f"{type(failure).__name__}: {failure}"}) + "\n")
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        leave(code)


def _run(request: dict) -> int:
    _bound(request["processes"])
    stack = open(request["stack"], "w")  # noqa: SIM115  (it must stay open)
    faulthandler.register(signal.SIGUSR2, file=stack, all_threads=True)
    os.environ.update(request["env"])
    os.chdir(request["folder"])
    import torch

    log = Log(request["facts"], request["script"], request["root"], os.path.dirname(torch.__file__))
    _watch_processes(log, request["processes"])
    _keep_files(request["root"], request["folder"])
    sys.dont_write_bytecode = True
    sys.argv = [request["script"], *request["arguments"]]
    sys.path[0:0] = [os.path.dirname(request["script"])]
    log.place = lambda tensor: str(tensor.device)
    _stand_in(request["options"])
    watched, modes = _install(log, request["observe"], request["options"])
    _notice_ends(log)
    _hear_todos(log)
    with contextlib.ExitStack() as stack_of_modes:
        for mode in modes:
            stack_of_modes.enter_context(mode)
        code = _execute(log, request["script"], request["call"])
    for observer in watched:
        if hasattr(observer, "finish"):
            observer.finish()
    log.write({"what": "end", "step": log.step, "code": code})
    return code


def _execute(log: Log, script: str, call: list[str] | None) -> int:
    try:
        if call is None:
            runpy.run_path(script, run_name="__main__")
        else:
            trainees = _module(os.path.splitext(os.path.basename(script))[0], script)
            calls, function = call
            log.called = (calls, trainees)
            getattr(_module("calls", calls), function)(trainees, log.note)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        log.write({"what": "exit", "step": log.step, "how": "SystemExit", "code": code, **place(stop, log)})
        return code
    except BaseException as failure:
        traceback.print_exc()
        log.write(error(failure, log))
        return 1
    return 0


def _module(name: str, file: str):
    """A file as `import NAME` would give it, and under that name for whatever else imports it."""
    spec = importlib.util.spec_from_file_location(name, file)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _install(log: Log, names: list[str], options: dict):
    """The observers, and the modes that they need."""
    from . import observe

    observers = [observe.load(name)(log, options) for name in names]
    if options.get("gpus"):
        from . import pretend

        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        observers.append(pretend.Observer(log, options["gpus"]))
    for observer in observers:
        observer.install()
    modes = []
    if any(hasattr(o, "before_op") or hasattr(o, "after_op") for o in observers):
        from .modes import Calls, Operations

        modes = [Operations(log, observers), Calls(log, observers)]
    return observers, modes


def _stand_in(options: dict) -> None:
    """Let the script believe that srun has started it as the process with this number on its node, though it runs alone."""
    rank = options.get("local_rank")
    if rank is not None:
        from ...training import distributed

        os.environ["SLURM_LOCALID"] = str(rank)
        alone = distributed.Processes(local_rank=rank, local_size=rank + 1, launcher="srun")
        distributed.processes = lambda *_: alone


def _notice_ends(log: Log) -> None:
    """The script reports what stops it in words of its own and leaves: hear of it before that."""
    from ...training import distributed, failures, options

    explain, leave = failures.explain, os._exit
    distributed.leave = sys.exit  # back to here, and from here this process leaves in the same way
    options.refuse_shape = lambda *_: None  # it makes a model and a forward pass of its own, which are not the trainee's

    def explained(failure, *args, **kwargs):
        log.write(error(failure, log))
        return explain(failure, *args, **kwargs)

    def left(code):
        stop = sys.exc_info()[1]
        where = place(stop, log) if isinstance(stop, SystemExit) else {}
        log.note("exit", **{"how": "os._exit", "code": code, **where})
        leave(code)

    def noticed(refuse):
        def refused(parser, message):
            log.write({"what": "error", "step": log.step, "kind": "a wrong switch", "message": message, **log.caller()})
            refuse(parser, message)

        return refused

    failures.explain, os._exit = explained, left
    for parser in (argparse.ArgumentParser, options.Parser):  # the second has an error() of its own
        parser.error = noticed(parser.error)


def _hear_todos(log: Log) -> None:
    """``todo``: a fence says of a lab that it is not written, in whatever process and as often as it does: noted once a line."""
    from ...training import todos

    noted = set()

    def heard(lab):
        said = {"what": "todo", "step": log.step, **log.caller(), "lab": lab}
        if (said["file"], said["line"], lab) not in noted:
            noted.add((said["file"], said["line"], lab))
            log.write(said)

    todos.heard = heard


# ----------------------------------------------------------------------------------------------------------------- limits
def _bound(most: int) -> None:
    os.setsid()
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _limit(resource.RLIMIT_FSIZE, FILE_SIZE)
        _limit(resource.RLIMIT_CPU, CPU_SECONDS)
    with contextlib.suppress(OSError):  # let this process go first where memory is short
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    with contextlib.suppress(Exception):  # Linux: end with the host
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.geteuid() != 0:  # it counts all threads of the user, and root is not bound by it
        with contextlib.suppress(OSError, ValueError):
            _limit(resource.RLIMIT_NPROC, _threads_of_user() + most + 256)


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _threads_of_user() -> int:
    count, uid = 0, os.getuid()
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                count += len(os.listdir(f"{entry.path}/task"))
    return count


CHANGES = frozenset(("open", "os.remove", "os.rename", "os.truncate"))
KEPT = (".py", ".ipynb", ".toml", ".jsonl")


def _keep_files(root: str, folder: str) -> None:
    """Refuse to change what the trainee has written: files of these kinds in their folder. A run's own folder is free."""
    root, folder = os.path.realpath(root) + os.sep, os.path.realpath(folder) + os.sep

    def hook(event, arguments):
        if event not in CHANGES:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC)):
            return
        for path in arguments[: 2 if event == "os.rename" else 1]:
            if not isinstance(path, (str, bytes)):
                continue
            path = os.path.realpath(os.fsdecode(path))
            if path.endswith(KEPT) and path.startswith(root) and not path.startswith(folder) and os.path.exists(path):
                raise PermissionError(f"a check leaves your files as they are: this would change {path[len(root):]}")

    sys.addaudithook(hook)


STARTS = frozenset(("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"))


def _watch_processes(log: Log, most: int) -> None:
    """Count the processes that the script and its children start, in memory that they share; end them all at one too many."""
    shared, leader = mmap.mmap(-1, 8), processes.identity(os.getpid())

    def hook(event, _):
        if event in STARTS:
            count = struct.unpack("q", shared[:8])[0] + 1
            shared[:8] = struct.pack("q", count)
            if count > most:
                log.write({"what": "processes", "step": log.step, "count": count, **log.caller()})
                if processes.alive(leader):
                    os.killpg(leader["pid"], signal.SIGKILL)
                os.killpg(0, signal.SIGKILL)  # where it has left the group

    sys.addaudithook(hook)
