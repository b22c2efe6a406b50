"""What the trainee's code may change on the disk: the check's own folder, caches and devices, and nothing else.

It runs from a copy, but a path such as ``/home/me/course`` leads out of any copy, and so does a program that it starts. Linux
(6.2 or later, Landlock: https://docs.kernel.org/userspace-api/landlock.html) lets a process give up the right to write elsewhere,
for itself and for all that it starts, without privileges. On other systems there is no such wall.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from ...system import paths

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls, the same on all processors
ENOUGH = 3  # of Landlock's versions: the first that knows both moving to another folder and truncating
# write to a file, remove, make (devices, folders, files, sockets, pipes, links), move between folders, truncate
WRITES = sum(1 << bit for bit in (1, *range(4, 15)))
FILE_WRITES = 1 << 1 | 1 << 14  # of these, those that a single file can have
NO_NEW_PRIVILEGES = 38  # of prctl: the kernel wants that first
PLACES = {"TMPDIR": "/tmp", "XDG_CACHE_HOME": "~/.cache", "TRITON_CACHE_DIR": "~/.triton", "CUDA_CACHE_PATH": "~/.nv",
          "TORCHINDUCTOR_CACHE_DIR": "", "TORCH_EXTENSIONS_DIR": "", "PYTORCH_KERNEL_CACHE_PATH": "",
          "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps", "CUDA_MPS_LOG_DIRECTORY": "/var/log/nvidia-mps"}


def stay_inside() -> bool:
    """From here on this process and its children write to `PLACES`, the kit's cache, /dev and /proc alone. False: no wall."""
    cache = paths.cache()
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    if "TRITON_HOME" in os.environ or not Path("~/.triton").expanduser().exists():
        os.environ.setdefault("TRITON_CACHE_DIR", str(cache / "triton"))
    make_devices()
    found = (os.environ.get(name) or usual for name, usual in PLACES.items())
    return keep_to(["/dev", "/proc", cache, *(Path(place).expanduser() for place in found if place)])


def make_devices(devices: Path = Path("/dev")) -> None:
    """What CUDA's first use since the machine was started does by a program with rights of its own, which are out of reach behind
    the wall: the driver's device for memory."""
    if (devices / "nvidiactl").exists() and not (devices / "nvidia-uvm").exists():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(["nvidia-modprobe", "-u", "-c=0"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)


def keep_to(folders: Iterable[str | Path]) -> bool:
    """The right to write remains for these, with all that is below. Only for this thread and what it starts later."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(CREATE, None, 0, 1) < ENOUGH:
            return False
        rules = libc.syscall(CREATE, struct.pack("=Q", WRITES), 8, 0)
        if rules < 0:
            return False
        for folder in folders:
            with contextlib.suppress(OSError):
                place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
                rights = WRITES if os.path.isdir(folder) else FILE_WRITES
                libc.syscall(ADD, rules, 1, struct.pack("=Qi", rights, place), 0)
                os.close(place)
        done = libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(RESTRICT, rules, 0) == 0
        os.close(rules)
        return done
    except (OSError, AttributeError, ValueError):  # another libc
        return False
