"""The rooms of the package and the one way that imports go between them: a room knows those before it, never those after it."""

import ast
from pathlib import Path

import dlojz

PACKAGE = Path(dlojz.__file__).parent
LEVELS = [
    {"system"},
    {"ui"},
    {"training"},
    {"data"},
    {"jobs", "traces"},
    {"labs"},
    {"views", "doctor"},
    {"benchmarks", "compat", "course", "hub"},
    {"cli"},
]
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}
EXERCISES = {path.parent.name for path in PACKAGE.glob("labs/*/lab.toml")}


def modules() -> dict[str, Path]:
    """The package's modules by their dotted names, without the reference (scripts of trainees) and the answers of labs."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] not in ("reference", "_share") and parts[-1] != "stub":
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def imported(name: str, path: Path, whole: bool = True) -> set[str]:
    """The package's modules that this one imports; ``whole``: also inside of functions, where an import only waits."""
    tree = ast.parse(path.read_text())
    found = set()
    here = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree) if whole else tree.body:
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = here[: len(here) - node.level + 1] if name else []
            elif (node.module or "").split(".")[0] == "dlojz":
                base = []
            else:
                continue
            module = [*base, *(node.module or "").removeprefix("dlojz").strip(".").split(".")]
            module = ".".join(part for part in module if part)
            for alias in node.names:
                one = f"{module}.{alias.name}".strip(".")
                found.add(one if one in MODULES else module)
        elif isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("dlojz.") for alias in node.names if alias.name.startswith("dlojz.")}
    return {each for each in found if each in MODULES and each}


def room(name: str) -> str:
    return name.split(".")[0]


def test_each_module_is_in_a_known_room():
    assert {room(name) for name in MODULES if name} == set(LEVEL)


def test_imports_go_one_way_between_rooms():
    upward = [f"{name} -> {other}" for name, path in MODULES.items() if name for other in imported(name, path)
              if room(other) != room(name) and LEVEL[room(other)] >= LEVEL[room(name)]]
    assert not upward, upward


def test_no_two_modules_wait_for_each_other():
    graph = {name: imported(name, path, whole=False) - {name} for name, path in MODULES.items() if name}
    done, path = set(), []

    def visit(name):
        assert name not in path, f"circle: {' -> '.join([*path[path.index(name):], name])}"
        if name not in done:
            path.append(name)
            for other in sorted(graph.get(name, ())):
                visit(other)
            done.add(path.pop())

    for name in graph:
        visit(name)


def test_a_training_process_imports_nothing_of_labs():
    training = [name for name in MODULES if room(name) in ("system", "data", "training")]
    reached, waiting = set(), list(training)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += imported(name, MODULES[name])
    assert not {name for name in reached if room(name) in ("labs", "views", "jobs")}, sorted(reached)
