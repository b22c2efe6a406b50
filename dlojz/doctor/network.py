"""Whether something can be downloaded from here. Nothing is asked of the network: routes and variables say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..system.look import System
from .report import Finding, fine, note

HERE = ("localhost", "127.0.0.1")
NEEDS = "Training downloads nothing: the kit draws its images, and its text comes with Python."


def look_network(system: System) -> dict:
    """Whether a default route leads out (None: cannot be seen here), the proxies, and which of this machine's own names would be
    asked of a proxy."""
    four, six = system.read("proc/net/route"), system.read("proc/net/ipv6_route")
    routes = None if four is None else any(line.split()[1:2] == ["00000000"] for line in four.splitlines()[1:]) or any(
        line.startswith("0" * 32 + " 00") and line.split()[-1] != "lo" for line in (six or "").splitlines())
    proxies = {name: value for name in ("https_proxy", "http_proxy", "all_proxy") if (value := _variable(system.env, name))}
    left_out = {word.strip().lower() for word in _variable(system.env, "no_proxy").split(",")}
    asked = [name for name in HERE if not left_out & {name, "*"}]
    return {"route": routes, "proxies": proxies, "asked": asked}


def _variable(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""


def say_network(facts: dict, slurm: bool) -> Iterator[Finding]:
    if facts["proxies"]:
        name = next(iter(facts["proxies"])).upper()
        if facts["asked"]:
            text = f"{name} is set, and NO_PROXY does not name {' and '.join(facts['asked'])}: what asks this machine's own " \
                   "Jupyter or TensorBoard asks the proxy"
            yield note("Network", text, f"export NO_PROXY={','.join(HERE)}", **facts)
        else:
            yield fine("Network", f"through the proxy that {name} names", **facts)
    elif facts["route"] is False:
        text = "no route leads out of this machine: pip and conda can download nothing"
        yield note("Network", text, f"Install on a node with a network, often the login node. {NEEDS}", **facts)
    elif slurm:
        yield fine("Network", f"compute nodes may have none, and need none. {NEEDS}", **facts)
    elif facts["route"]:
        yield fine("Network", "a route leads out of this machine, and there is no proxy", **facts)
