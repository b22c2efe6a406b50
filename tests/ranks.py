"""Processes that find each other, for tests that start them without torchrun."""

import os
import subprocess
import sys

from dlojz.labs.probe import reserved_port


def run_ranks(command: list, world: int, timeout: float, drop: tuple[str, ...] = (), **how) -> list[tuple[str, str]]:
    """What each of ``world`` Python processes printed: (stdout, stderr). All must end well, within ``timeout`` seconds.

    ``env`` is added to what is here, less what begins with one of ``drop``; ``how`` is for `subprocess.Popen`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("RANK", "WORLD_SIZE", "LOCAL_", *drop))}
    env |= how.pop("env", {})
    with reserved_port() as port:
        if world > 1:
            env |= {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [subprocess.Popen([sys.executable, *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=env | ({"RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {}), **how)
                 for rank in range(world)]
        try:
            said = [rank.communicate(timeout=timeout) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    assert not any(rank.returncode for rank in ranks), said
    return said
