"""Python, the kit's packages, and what torch.compile needs beside them."""

from __future__ import annotations

import re
import site
import sys
from collections.abc import Iterator
from importlib import metadata, util

from .. import __version__
from ..system import inductor, paths
from ..system.look import System
from ..training import trials
from .report import Finding, broken, fine, note


def requirements() -> list[str]:
    """The kit's dependencies, as its metadata (when it is installed) or its pyproject.toml (in a checkout) list them."""
    try:
        return [line for line in metadata.requires("dlojz") or [] if "extra ==" not in line]
    except metadata.PackageNotFoundError:
        import tomllib

        with open(paths.PACKAGE.parent / "pyproject.toml", "rb") as file:
            return tomllib.load(file)["project"]["dependencies"]


def look_packages() -> dict[str, dict]:
    """For each dependency: ``{"version": "2.14.1" or None, "least": "2.6" or None, "user": it comes from ~/.local}``."""
    found = {}
    user_site = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    for line in requirements():
        name = re.match(r"[\w.-]+", line).group()
        least = re.search(r">=\s*([\d.]+)", line)
        try:
            package = metadata.distribution(name)
            version, where = package.version, str(package.locate_file(""))
        except metadata.PackageNotFoundError:
            version, where = None, ""
        found[name] = {
            "version": version,
            "least": least.group(1) if least else None,
            "user": bool(user_site and where.startswith(user_site)),
        }
    return found


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", version).group().split(".") if part)


def say_python(
    executable: str = sys.executable, version: tuple = sys.version_info[:3], conda: str | None = None
) -> Iterator[Finding]:
    words = ".".join(map(str, version))
    data = {"version": words, "executable": executable}
    where = f"conda environment {conda}, {executable}" if conda else executable
    if tuple(version) < (3, 11):
        yield broken(
            "Python",
            f"{words} ({where}): the kit needs 3.11 or later",
            "Make the course's environment and start Jupyter from it.",
            **data,
        )
    else:
        yield fine("Python", f"{words} ({where})", **data)


def say_packages(packages: dict[str, dict]) -> Iterator[Finding]:
    missing = [name for name, p in packages.items() if p["version"] is None]
    old = [
        name for name, p in packages.items() if p["version"] and p["least"] and numbers(p["version"]) < numbers(p["least"])
    ]
    user = [name for name, p in packages.items() if p["user"]]
    said = ", ".join(f"{name} {p['version']}" for name, p in packages.items() if p["version"])
    data = {"packages": packages}
    if missing:
        yield broken("Packages", f"missing: {', '.join(missing)}", f"{pip()} install {' '.join(missing)}", **data)
    if old:
        which = ", ".join(f"{name} {packages[name]['version']} (needs {packages[name]['least']})" for name in old)
        yield broken("Packages", f"too old: {which}", f"{pip()} install --upgrade {' '.join(old)}", **data)
    if user:
        yield note(
            "Packages",
            f"{', '.join(user)} from ~/.local, before those of this environment: jobs may see others",
            "Set PYTHONNOUSERSITE=1, or remove them: pip uninstall.",
            **data,
        )
    if said:
        yield fine("Packages", f"dlojz {__version__}, {said}", **data)


def look_optuna() -> str | None:
    """Its version; None where it is not installed."""
    try:
        return metadata.version("optuna")
    except metadata.PackageNotFoundError:
        return None


def say_optuna(version: str | None, needed: str = trials.NEEDED) -> Iterator[Finding]:
    least = needed.partition(">=")[2]
    if version and numbers(version) >= numbers(least):
        yield fine("Optuna", f"{version}, for the lab hpo", version=version)
        return
    seen = f"{version} is too old (the lab needs {least})" if version else "not installed"
    advice = f"Only the lab hpo needs it: {pip()} install --upgrade '{needed}'"
    yield note("Optuna", seen, advice, version=version)


def pip() -> str:
    """How to call pip so that it changes the environment that was looked at."""
    return f"{sys.executable} -m pip"


def look_compiler(system: System) -> dict:
    """What torch.compile needs beside torch: a compiler, Python's headers, and Triton where there is a GPU; its cache."""
    return {
        "compiler": inductor.compiler(system),
        "headers": inductor.headers(),
        "triton": util.find_spec("triton") is not None,
        "cache": str(inductor.folder(system.env)),
        "warm": inductor.is_warm(),
    }


def say_compiler(compiler: dict, has_gpu: bool) -> Iterator[Finding]:
    missing = inductor.missing(bool(compiler["compiler"]), compiler["headers"])
    mend = ["conda install gxx, or apt install g++ python3-dev, or a module of your site"] if missing else []
    if has_gpu and not compiler["triton"]:
        missing.append("Triton")
        mend.append(f"{pip()} install triton")
    if missing:
        yield note(
            "torch.compile",
            f"cannot work here: it lacks {' and '.join(missing)}",
            f"Only torch.compile needs it: {'; '.join(mend)}. Without it the lab compile shows recorded numbers.",
            **compiler,
        )
        return
    has = f"has what it needs: {compiler['compiler']}, Python's headers" + (", Triton" if compiler["triton"] else "")
    if compiler["warm"]:
        yield fine("torch.compile", f"{has}; its cache is warm: {compiler['cache']}", **compiler)
    else:
        first = f"its first use takes a minute, for {compiler['cache']}: `dlojz doctor --warm` does it now"
        yield fine("torch.compile", f"{has}; {first}", **compiler)
