"""A trainee's folder: notebooks, the files of ``dlojz/reference/`` to edit, ``runs/`` and ``progress.jsonl``.

What was laid down is noted in ``.dlojz.json`` (as hashes), so that an update can tell what the trainee has changed: that is
never written over. Where only fences were changed, an update goes round them; else the new file is put beside the old one, with
what stands in the trainee's fences.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .. import __version__
from ..system import paths, sites, textfile
from ..system.errors import UsageError
from ..system.workspace import MARKER, make_runs, older, refuse_newer, refuse_others, version
from ..system.workspace import kernel as workspace_kernel
from . import catalogue, fences

MANIFEST = ".dlojz.json"


def create(folder: Path | str, solved: Iterable[str] = (), update: bool = False, kernel: str = "") -> list[str]:
    """Make a workspace, or complete one that is there: what is missing is laid down, nothing that exists is written over.

    ``solved`` are labs whose fences hold the solution: in new files, and in fences of existing ones that were not written yet.
    ``update`` brings what the kit has changed since, and leaves alone what the trainee has changed. ``kernel``: the Jupyter
    kernel that the notebooks of a new workspace name, where the server's Python is not the kit's; workspace.toml remembers it.
    Returns one line for each thing done. Raises UsageError: an Incomplete where some files can't be read or written.
    """
    folder = Path(folder).expanduser()
    done = solved_labs(solved)
    said, failed = [], {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        make_runs(folder)
        refuse_others(folder / MARKER)
        refuse_newer(folder)
        named = workspace_kernel(folder) if (folder / MARKER).exists() or not kernel else kernel
        manifest, lost = _read_manifest(folder)
        said += [lost] if lost else []
        for name in [*references(), *notebooks()]:
            try:
                (folder / name).parent.mkdir(exist_ok=True)
                line = _lay(folder, name, manifest, done, update, named)
                said += [line] if line else []
                said += _solve_unwritten(folder, name, done) if name in references() else []
            except FileExistsError:
                failed[Path(name).parent.as_posix()] = "is a file, and a folder of that name is needed"
            except OSError as error:
                failed[name] = str(error.strerror or error)
            except UsageError as error:
                failed[name] = str(error)
        for name in manifest:
            if update and name not in (*references(), *notebooks()) and (folder / name).exists():
                said.append(f"{name}: no longer a part of the course; yours stays")
        _write_marker(folder, update, named)
        _write_manifest(folder, manifest)
    except OSError as error:
        what = error.strerror or error
        where = error.filename if isinstance(error.filename, str) and Path(error.filename) != folder else ""
        raise UsageError(f"cannot make a workspace in {folder}: {f'{where}: ' if where else ''}{what}. "
                         "Choose a folder that you may write to") from None
    if not update and (line := older(folder)):
        said.append(line)
    if failed:
        raise Incomplete(failed, said)
    return said


class Incomplete(UsageError):
    """Some files of a workspace could not be read or written; ``said`` is what `create` has done with the others."""

    def __init__(self, failed: dict[str, str], said: list[str]):
        why = "; ".join(f"{name}: {reason}" for name, reason in list(failed.items())[:4])
        more = f"; and {len(failed) - 4} more" if len(failed) > 4 else ""
        super().__init__(f"{why}{more}. Move {'it' if len(failed) == 1 else 'them'} away or fix the permissions, then run this "
                         "again; the other files are done")
        self.said = said


def solved_labs(names: Iterable[str]) -> set[str]:
    """The ids that ``--solved`` names: ``all``, or labs. Raises UsageError for a lab that isn't there."""
    names = [name.strip() for name in names if name.strip()]
    return set(catalogue.labs()) if "all" in names else {catalogue.lab(name).id for name in names}


def references() -> list[str]:
    """The names of the files of the reference, each of which has its copy in a workspace: ``train.py``, ``hunt/slow_feed.py``."""
    return catalogue.files()


def notebooks() -> list[str]:
    return sorted(path.name for path in paths.share("notebooks").glob("*.ipynb"))


def missing(folder: Path, name: str) -> UsageError:
    """The error for a file of the workspace that isn't there: what may have become of it, and how to get it back."""
    wanted = set(catalogue.reference_fences(name)) if name in references() else set()
    others = [*folder.glob("*.py"), *(path for path in folder.glob("*/*.py") if path.parent.name not in ("backup", "runs"))]
    for other in sorted(others, key=lambda path: (len(path.parts), path.name)):
        try:
            elsewhere = other.relative_to(folder).as_posix() not in references()
            if elsewhere and wanted & set(fences.find(textfile.read(other).text).fences):
                place = shlex.quote(str(other.relative_to(folder)))
                return UsageError(f"{name} is not in {folder}, but {place} has its fences: put it back (mv {place} {name}), "
                                  f"or get a new one with `dlojz workspace {folder}`")
        except (UsageError, OSError):
            continue
    return UsageError(f"{name} is not in {folder}: `dlojz workspace {folder}` puts a new one there and touches nothing else")


# --- one file ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _State:
    """What is compared of a file: all of it, what stands outside its fences, and each fence (as hashes)."""

    whole: str
    skeleton: str
    fences: dict[str, str]


def _lay(folder: Path, name: str, manifest: dict, done: set[str], update: bool, kernel: str) -> str:
    """Bring one file to the workspace, or up to date; says what was done."""
    target, entry = folder / name, manifest.get(name)
    ours = _kit(name, done if entry is None or not target.exists() else set(entry.get("solved", [])), kernel)
    now = _state(name, ours)
    if not target.exists():
        textfile.write_bytes(target, ours)
        manifest[name] = _entry(name, now, done)
        return f"{name}: {'new' if entry is None else 'was missing, so a new one was written'}"
    theirs = target.read_bytes()
    state = _state(name, theirs)
    if not update and (entry or state is None or state.whole != now.whole):
        return "" if entry else f"{name} already exists and stays unchanged"
    if entry and state is not None and state.skeleton == entry.get("offered", {}).get("skeleton"):
        entry = manifest[name] = {**entry, **entry["offered"], "offered": {}}  # the file that we put beside it was taken
    if state is not None and state.whole == now.whole:
        manifest[name] = _entry(name, now, set(entry.get("solved", [])) if entry else done)
        return ""
    if entry is not None and entry.get("kit") == now.whole:
        return ""  # nothing new from the kit
    merged = _merge(name, ours, now, theirs, state, entry)
    if merged is None:
        new, note = _with_theirs(name, ours, now, theirs, state, entry)
        beside = _free(target, {(entry or {}).get("beside"), _hash(new)})
        textfile.write_bytes(beside, new)
        offered = {"whole": now.whole, "skeleton": now.skeleton, "fences": now.fences}
        manifest[name] = {**(entry or _entry(name, now, set())), "kit": now.whole, "beside": _hash(new), "offered": offered}
        outside = " outside its fences" if entry and state and state.fences and state.skeleton != entry.get("skeleton") else ""
        why = f"you have changed it{outside}" if entry else "whether you have changed it is not known"
        place = beside.relative_to(folder).as_posix()
        return f"{name}: {why}, so it stays unchanged; the new version is next to it, {place}" + note.format(f"mv {place} {name}")
    new, kept = merged
    where = None
    if new != theirs:
        if state.whole != (entry or {}).get("whole"):
            where = textfile.back_up(folder, [name], "update")[0].relative_to(folder).parents[len(Path(name).parts) - 1]
        textfile.write_bytes(target, new)
    manifest[name] = _entry(name, now, set((entry or {}).get("solved", [])))
    if new == theirs:
        return ""
    said = f"{name}: brought up to date"
    said += f", with your code kept ({', '.join(kept)})" if kept else ""
    return said + (f"; the previous version is in {where}" if where else "")


def _with_theirs(name: str, ours: bytes, now: _State, theirs: bytes, state: _State | None,
                 entry: dict | None) -> tuple[bytes, str]:
    """The kit's new file with what stands in the trainee's own fences, and what is to be said about it: ``{}`` is the command
    that takes it."""
    if state is None or not now.fences:
        return ours, ""
    text, *encoding = textfile.decode(theirs)
    found = fences.find(text, name, catalogue.reference_fences(name))
    base, new = (entry or {}).get("fences", {}), ours.decode().replace("\n", textfile.common_end(text))
    kits = fences.find(new, name).fences
    mine = {each: fence for each, fence in found.fences.items()
            if state.fences[each] != base.get(each) and not fences.same(fence.body, kits[each].body)}
    lacking = [each for each in kits if each not in found.fences]
    new = fences.replace(new, mine, name)
    try:
        content = new.encode(*encoding)
    except UnicodeEncodeError:
        content = new.encode("utf-8", "surrogateescape")
    note = f", with your code from {', '.join(mine)}" if mine else ""
    note += f", without {', '.join(lacking)}, whose comments are damaged or missing in yours" if base and lacking else ""
    return content, f"{note}. Your file alone has your changes outside the fences. To use the new version: {{}}"


def _merge(name: str, ours: bytes, now: _State, theirs: bytes, state: _State | None,
           entry: dict | None) -> tuple[bytes, list[str]] | None:
    """The kit's new text with the fences that the trainee wrote, and their ids; None where more than fences was changed, or where
    that can't be told."""
    if state is None:
        return None
    base = entry or {}
    if state.whole == base.get("whole") or (name.endswith(".ipynb") and state.skeleton == base.get("skeleton")):
        return ours, []  # untouched; of a notebook only outputs are new
    if name.endswith(".ipynb") or state.skeleton not in (base.get("skeleton"), now.skeleton):
        return None
    text, *encoding = textfile.decode(theirs)
    mine = fences.find(text, name).fences
    changed = {fence: mine[fence] for fence in mine if state.fences[fence] != base.get("fences", {}).get(fence)}
    if not set(changed) <= set(now.fences):
        return None
    new = fences.replace(ours.decode().replace("\n", textfile.common_end(text)), changed, name)
    try:
        content = new.encode(*encoding)
    except UnicodeEncodeError:
        content = new.encode("utf-8", "surrogateescape")
    return content, [fence for fence in changed if state.fences[fence] != now.fences[fence]]


def _solve_unwritten(folder: Path, file: str, done: set[str]) -> list[str]:
    """Put solutions into the fences of ``done`` labs that hold their stubs still."""
    said = []
    labs = [lab for lab in catalogue.in_file(file) if lab.id in done]
    if not labs or not (folder / file).exists():
        return said
    content, known = textfile.read(folder / file), catalogue.reference_fences(file)
    found = fences.find(content.text, file, known)
    new = {}
    for lab in labs:
        for name, solution in lab.fences_in(file).items():
            if name not in found.fences:
                said.append(f"{file}: {name} is not solved: its fence is missing or damaged, `dlojz diff {lab.id}` says how")
            elif fences.same(found[name].body, lab.stubs[name]):
                new[name] = solution.body
            elif not fences.same(found[name].body, solution.body):
                said.append(f"{file}: {name} contains your own code, which stays (`dlojz solve {lab.id}` replaces it)")
    if new:
        content.write(fences.replace(content.text, new, file, known))
        said.append(f"{file}: solved {', '.join(new)}")
    return said


def _kit(name: str, done: set[str], kernel: str) -> bytes:
    """What the kit would lay down under this name."""
    if name.endswith(".ipynb"):
        content = paths.share("notebooks", name).read_bytes()
        return content if kernel == "python3" else _named(content, kernel)
    return catalogue.laid_out(name, done).encode()


def _named(content: bytes, kernel: str) -> bytes:
    """A notebook that runs in this kernel."""
    notebook = json.loads(content)
    notebook["metadata"]["kernelspec"] = {"display_name": kernel, "language": "python", "name": kernel}
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def _state(name: str, content: bytes) -> _State | None:
    """None for a notebook that is none, and for a text that can't be read."""
    if name.endswith(".ipynb"):
        try:
            cells = [[cell.get("cell_type"), "".join(cell.get("source", ""))] for cell in json.loads(content)["cells"]]
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
        return _State(_hash(content), _hash(json.dumps(cells)), {})
    text = textfile.decode(content)[0]
    plain = "\n".join(line.rstrip() for line in textfile.lines(text)).rstrip()
    bodies = {fence.id: _hash(fence.body) for fence in fences.find(text, name).fences.values()}
    return _State(_hash(plain), _hash(fences.skeleton(text)), bodies)


def _hash(content: bytes | str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content).hexdigest()[:32]


def _free(target: Path, ours: set[str | None]) -> Path:
    """Where the new file goes: NAME.new.ext, or the next free number where something else stands than ``ours`` (hashes): what we
    put there, or would."""
    for number in range(1, 1000):
        beside = target.with_name(f"{target.stem}.new{f'-{number}' if number > 1 else ''}{target.suffix}")
        if not beside.exists() or _hash(beside.read_bytes()) in ours:
            return beside
    raise UsageError(f"there are too many files like {beside} already: delete those that you don't need")


# --- what was laid down --------------------------------------------------------------------------------------------------


def _entry(name: str, state: _State, done: set[str]) -> dict:
    """``kit`` is what the kit has last offered, the others what was last laid down."""
    entry = {"kit": state.whole, "whole": state.whole, "skeleton": state.skeleton}
    if state.fences:
        entry["fences"] = state.fences
        entry["solved"] = sorted(lab.id for lab in catalogue.in_file(name) if lab.id in done)
    return entry


def _read_manifest(folder: Path) -> tuple[dict, str]:
    """What was laid down, and a line where that is lost: then a file stays unless it is what the kit would lay down."""
    lost = f"{MANIFEST}, the list of the files that the kit wrote, {{}}: files that differ from the kit's stay unchanged"
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        found = {name: entry for name, entry in content["files"].items() if isinstance(entry, dict) and entry}
        return found, "" if len(found) == len(content["files"]) else lost.format("could be read in part only")
    except FileNotFoundError:
        return {}, lost.format("is missing") if (folder / MARKER).exists() else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}, lost.format("could not be read")


def _write_manifest(folder: Path, manifest: dict) -> None:
    text = json.dumps({"about": "what `dlojz workspace` wrote", "files": manifest}, indent=1)
    textfile.write_bytes(folder / MANIFEST, text.encode())


def write_site(folder: Path, site: str) -> None:
    """Write the site into workspace.toml, in place of what it says there; its other lines stay."""
    marker = folder / MARKER
    text = re.sub(r"(?m)^(# )?site = .*\n?", "", marker.read_text(encoding="utf-8"))
    textfile.write_bytes(marker, f"{text}site = {json.dumps(site)}   # see `dlojz sites`\n".encode())


def own_queue_where_slurm_is_silent(folder: Path) -> list[str]:
    """Slurm's commands may be installed where no controller answers them. A workspace that was just made, with the site that only
    stands for "there is an sbatch here", is then given the machine's own queue. Returns the line that says so, if it was."""
    if os.environ.get("DLOJZ_SITE") or sites.for_workspace() != "slurm":
        return []
    try:
        sites.discovered(sites.clusters(sites.load("slurm").directives))
    except UsageError as error:
        write_site(folder, "laptop")
        why = f"Slurm does not work here, {str(error).partition(': the cluster')[0]}"
        return [f'{why}. Jobs go to this machine\'s own queue: site = "laptop" is now in {folder / MARKER}']
    return []


def _write_marker(folder: Path, update: bool, kernel: str) -> None:
    marker = folder / MARKER
    if not marker.exists():
        # The site is written down: it must not change because a command appears in PATH.
        chosen = sites.for_workspace()
        site = f"site = {json.dumps(chosen)}" if chosen else '# site = "jean-zay"'
        text = f'# This folder is a DLO-JZ workspace.\nversion = "{__version__}"\n{site}   # see `dlojz sites`\n'
        text += f"kernel = {json.dumps(kernel)}   # what the notebooks run in\n" if kernel != "python3" else ""
    elif update and version(folder) != __version__:
        text = marker.read_text(encoding="utf-8")
        line = f'version = "{__version__}"'
        text = re.sub(r"(?m)^version\s*=.*$", line, text, count=1) if re.search(r"(?m)^version\s*=", text) else f"{line}\n{text}"
    else:
        return
    textfile.write_bytes(marker, text.encode())
