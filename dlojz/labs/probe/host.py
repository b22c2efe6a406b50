"""The process that imports torch once and then runs each request in a fork of its own: ``python -m dlojz.labs.probe.host FD``.

Requests come in on stdin, one JSON object a line. On the file descriptor FD it says ``ready``, then ``started NUMBER PID`` and
``ended NUMBER STATUS`` (as from waitpid). When stdin is closed, or whoever started it is gone, it ends all it has started.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import warnings

from ...system import processes

PLACES = 2**15  # of a fingerprint: as many as the probe's images and parameters have numbers


def main() -> None:
    replies = int(sys.argv[1])
    processes.adopt()  # whatever a run leaves behind can be found
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    _imports()
    say = lambda *words: os.write(replies, (" ".join(map(str, words)) + "\n").encode())  # noqa: E731
    say("ready")
    running: dict[int, int] = {}
    waiting = b""
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
            for pid, status in _ended():
                if pid in running:
                    say("ended", running.pop(pid), status)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    _run(request, [replies, wake, waker])
                running[pid] = request["number"]
                say("started", request["number"], pid)
    for pid in running:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


def _imports() -> None:
    """All that a script needs and that takes long; none of it starts threads or touches a GPU."""
    gc.disable()
    import torch.distributed
    import torch.nn.parallel
    import torch.utils.data
    import torchvision.transforms.v2  # noqa: F401
    from PIL import Image

    from ...data import folders, photos, shards  # noqa: F401
    from ...system import machine  # noqa: F401
    from ...training import (  # noqa: F401
        activation_checkpointing,
        checkpoint,
        chronometer,
        distributed,
        failures,
        options,
        records,
        summary,
        todos,
        training,
    )
    from . import child, fingerprints, functions, modes, net, observe, pretend  # noqa: F401

    for name in observe.names():
        observe.load(name)
    Image.preinit()
    net.register()
    fingerprints.weights(PLACES)
    # What is there by now stays. Looking for garbage among it would cost each fork more than its training does.
    gc.collect()
    gc.freeze()
    gc.enable()
    # Python 3.12 warns of any fork beside threads. There are none yet that could hold a lock.
    warnings.filterwarnings("ignore", message=".*use of fork.*", category=DeprecationWarning)
    torch.set_num_threads(1)


def _run(request, descriptors) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor in descriptors:
        os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    from . import child

    child.run(request)


def _ended():
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, status


if __name__ == "__main__":
    main()
