"""A process that has imported torch once and forks a child for each training run that it is asked for.

Importing torch takes seconds, and these tests run the script hundreds of times. A child is a real process with a pid and a
session of its own, which can be killed; it runs the script as ``python train.py …`` would. Requests and answers are lines of JSON
on stdin and stdout: ``{"id", "argv", "env", "cwd", "out", "err", "before"}`` -> ``{"id", "pid"}``, and later ``{"pid", "code"}``.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import sys

import torch
import torch._dynamo
import torch.distributed
import torch.distributed.distributed_c10d
import torch.profiler
import torch.utils.checkpoint
import torch.utils.data._utils.worker
import torch.utils.serialization
import torchvision
import training_models  # noqa: F401  registers small models
from PIL import Image

from dlojz.data import folders
from dlojz.system import machine, sites
from dlojz.training import activation_checkpointing, chronometer, options, summary

_ = (activation_checkpointing, chronometer, folders, machine, options, sites, summary)  # imported once, here


def child(request: dict) -> None:
    """Become the run: never returns."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        file = os.open(name, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    torch.set_num_threads(1)
    exec(request["before"], {"torch": torch})
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as stop:
        code = stop.code or 0
    atexit._run_exitfuncs()  # all of Python's way out but the taking down of modules, which takes a second in a forked process
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    ready, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(ready, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    Image.init()
    gc.freeze()  # so that children do not copy pages when they collect
    pending, answers = b"", os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nobody's print gets in between
    print(json.dumps({"torch": torch.__version__, "torchvision": torchvision.__version__}), file=answers)
    while True:
        readable, _, _ = select.select([0, ready], [], [])
        if ready in readable:
            os.read(ready, 1000)
            try:
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    print(json.dumps({"pid": ended[0], "code": os.waitstatus_to_exitcode(ended[1])}), file=answers)
            except ChildProcessError:
                pass
        if 0 in readable:
            data = os.read(0, 1 << 20)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if not pid:
                    child(request)
                print(json.dumps({"id": request["id"], "pid": pid}), file=answers)


if __name__ == "__main__":
    main()
