"""One run of the trainee's script, in a process that ends with it: bounded, watched, and its facts noted."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib.util
import json
import os
import random
import resource
import runpy
import signal
import sys
import traceback

from . import walls
from .log import Log, error, place


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
    _bound()
    stack = open(request["stack"], "w")  # noqa: SIM115  (it must stay open)
    faulthandler.register(signal.SIGUSR2, file=stack, all_threads=True)
    os.environ.update(request["env"])
    os.chdir(request["folder"])
    walls.stay_inside()
    import torch

    log = Log(request["facts"], request["script"], request["root"], os.path.dirname(torch.__file__))
    sys.dont_write_bytecode = True
    sys.argv = [request["script"], *request["arguments"]]
    sys.path[0:0] = [os.path.dirname(request["script"])]
    _seed(int(os.environ.get("RANK", "0")))
    log.place = lambda tensor: str(tensor.device)
    _stand_in(request["options"])
    watched, modes = _install(log, request["observe"], request["options"])
    _notice_ends(log)
    _hear_todos(log)
    with contextlib.ExitStack() as stack_of_modes:
        for mode in modes:
            stack_of_modes.enter_context(mode)
        code = _execute(log, request["script"], request["call"], request["options"].get("beside"))
    for observer in watched:
        if hasattr(observer, "finish"):
            observer.finish()
    log.write({"what": "end", "step": log.step, "code": code})
    return code


def _seed(number: int) -> None:
    """Let random numbers that the script does not seed itself be the same in each run; torch's own begin anywhere."""
    import numpy
    import torch

    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def _execute(log: Log, script: str, call: list[str] | None, beside: dict | None) -> int:
    try:
        if call is None:
            runpy.run_path(script, run_name="__main__")
        elif beside:
            from . import functions

            functions.run(log, _module, script, call[0], beside)
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
    if any(hasattr(o, method) for o in observers for method in ("before_op", "after_op", "before_call", "call_within", "call")):
        from .modes import Calls, Operations

        modes = [Operations(log, observers), Calls(log, observers)]
    return observers, modes


def _stand_in(options: dict) -> None:
    """Let the script believe that srun has started it as the process with this number on its node, though it runs alone; that a
    checkpoint was loaded, though all is as at the beginning but the place from which it goes on; let kernels be interpreted, also
    where there is a GPU (`dlojz.training.blocks`); and that there is no GPU."""
    if options.get("interpret"):
        os.environ["TRITON_INTERPRET"] = "1"
    if place := options.get("resumed_at"):
        from ...training import checkpoint, failures

        failures.to_resume, checkpoint.load = lambda *_: True, lambda *_: dict(place)
    if options.get("on_cpu"):
        import torch

        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        torch.cuda.is_available = lambda: False
    rank = options.get("local_rank")
    if rank is not None:
        from ...training import distributed

        os.environ["SLURM_LOCALID"] = str(rank)
        alone = distributed.Processes(local_rank=rank, local_size=rank + 1, launcher="srun")
        distributed.processes = lambda *_: alone


def _notice_ends(log: Log) -> None:
    """The script reports what stops it in words of its own and leaves: hear of it before that."""
    from ...training import distributed, options, records

    leave = os._exit
    distributed.leave = sys.exit  # back to here, and from here this process leaves in the same way
    options.refuse_shape = lambda *_: None  # it makes a model and a forward pass of its own, which are not the trainee's

    def heard(event, fields):
        if event == "failure":
            log.write(error(fields["failure"], log))

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

    os._exit = left
    records.listeners.append(heard)
    for parser in (argparse.ArgumentParser, options.Parser):  # the second has an error() of its own
        parser.error = noticed(parser.error)


def _hear_todos(log: Log) -> None:
    """``todo``: a fence says of a lab that it is not written, in whatever process and as often as it does: noted once a line."""
    from ...training import records

    noted = set()

    def heard(event, fields):
        if event != "todo":
            return
        said = {"what": "todo", "step": log.step, **log.caller(), "lab": fields["lab"]}
        if (said["file"], said["line"], said["lab"]) not in noted:
            noted.add((said["file"], said["line"], said["lab"]))
            log.write(said)

    records.listeners.append(heard)


def _bound() -> None:
    os.setsid()
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # let this process go first where memory is short
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    with contextlib.suppress(Exception):  # Linux: end with the host
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
