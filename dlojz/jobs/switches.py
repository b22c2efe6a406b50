"""What a script's own ``argparse`` would say about a command, read from its source: a wrong switch is refused when it is
submitted, not after hours in a queue. Nothing of the script runs, and torch is not imported."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..system.arguments import Parser
from ..system.errors import UsageError

TYPES = {"int": int, "float": float, "str": str}
ACTIONS = ("store", "store_true", "store_false", "store_const", "append", "append_const", "count")
# What may be done with a parser so that the arguments are still those that `add_argument` is called for in plain sight.
GROUPS = {"add_argument_group", "add_mutually_exclusive_group"}
KNOWN = GROUPS | {"add_argument", "parse_args", "set_defaults", "get_default", "error", "exit", "print_help", "print_usage",
                  "format_help", "format_usage", "prog", "usage", "description", "epilog"}
# A subclass of somebody's may have switches of its own.
PARSERS = ("argparse.ArgumentParser", "dlojz.training.options.Parser")
OPTIONS = {"action", "nargs", "const", "default", "type", "choices", "required", "help", "metavar", "dest"}


class Unclear(Exception):
    """The source does not say which switches there are."""


def refuse(argv: Sequence[str], files: Sequence[Path]) -> None:
    """Raises UsageError where a script, the first of ``files``, would refuse the arguments ``argv``; the others are those that it
    imports from beside it. A script that makes its parser in another way is left to speak for itself."""
    try:
        parser = _parser(files)
    except (Unclear, OSError, SyntaxError, ValueError, TypeError, RecursionError):  # of argparse, too, on arguments of no sense
        return
    parser.prog = files[0].name
    parser.parse_args(list(argv))


class _Refusing(Parser):
    def error(self, message: str):
        end = "" if message.endswith(("?", ".")) else "."
        raise UsageError(f"{self.prog}: {message}{end} `python {self.prog} --help` lists its switches")


def _parser(files: list[Path]) -> Parser:
    sources = {file.stem: ast.parse(file.read_bytes()) for file in files}
    reads_itself = any(_name(node) == "sys.argv" for tree in sources.values() for node in ast.walk(tree))
    made = [(node, tree, origin) for tree in sources.values() for imported in [_imported(tree)] for node in ast.walk(tree)
            if isinstance(node, ast.Call) and (origin := _origin(node.func, imported)).endswith("Parser")]
    if reads_itself or len(made) != 1 or made[0][2] not in PARSERS:
        raise Unclear
    [(call, tree, _)] = made
    options = {word.arg: word.value for word in call.keywords}
    plain_words = {"prog", "usage", "description", "epilog", "formatter_class", "allow_abbrev", "add_help"}
    if call.args or not options.keys() <= plain_words:
        raise Unclear
    plain = {name: ast.literal_eval(options[name]) for name in ("allow_abbrev", "add_help") if name in options}
    parser = _Refusing(add_help=False, allow_abbrev=plain.get("allow_abbrev", True))
    if plain.get("add_help", True):
        parser.add_argument("-h", "--help", action="store_true")
    bound = dict(_bound(tree))
    _follow(tree, call, bound)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "add_argument" in (_last(node.func), _last(bound.get(_last(node.func)))):
            names, how = _argument(node, tree, sources, bound)
            parser.add_argument(*names, **how)
    return parser


def _follow(tree: ast.Module, call: ast.Call, bound: dict[str, ast.expr]) -> None:
    """Raises Unclear where the parser that ``call`` makes goes out of sight, or its arguments are added in a loop."""
    parsers = {name for name, value in bound.items()
               if value is call or (isinstance(value, ast.Call) and _last(value.func) in GROUPS)}
    if not any(value is call for value in bound.values()):
        raise Unclear
    followed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in KNOWN}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in parsers and isinstance(node.ctx, ast.Load) and id(node) not in followed:
            raise Unclear
        if isinstance(node, (ast.For, ast.While)) and any(_last(inner) == "add_argument" for inner in ast.walk(node)):
            raise Unclear


def _bound(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names with what is assigned to them, ``a, b = x, y`` taken apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.NamedExpr):
            yield node.target.id, node.value
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from ((one.id, value) for one, value in zip(target.elts, node.value.elts) if isinstance(one, ast.Name))


def _argument(call: ast.Call, tree: ast.Module, sources: dict[str, ast.Module],
              bound: dict[str, ast.expr]) -> tuple[list[str], dict]:
    names = [ast.literal_eval(word) for word in call.args]
    given = {word.arg: word.value for word in call.keywords}
    if not names or not given.keys() <= OPTIONS:
        raise Unclear
    how = {name: ast.literal_eval(given[name]) for name in ("nargs", "required", "dest") if name in given}
    action = given.get("action")
    if isinstance(action, ast.Constant) and action.value in ACTIONS:
        how["action"] = action.value
    elif action is not None:
        if "BooleanOptionalAction" not in (_last(action), _last(bound.get(_last(action)))):
            raise Unclear
        how["action"] = argparse.BooleanOptionalAction
    elif how.get("nargs") != 0:
        kind = _name(given["type"]) if "type" in given else ""
        choices = _value(given["choices"], tree, sources) if "choices" in given else None
        how |= {"type": TYPES[kind]} if kind in TYPES else {}
        how |= {"choices": choices} if choices and ("type" not in given or kind in TYPES) else {}
    if how.get("action") in ("store_const", "append_const") or how.get("nargs") == "?":
        how["const"] = None
    return names, how


def _value(node: ast.expr, tree: ast.Module, sources: dict[str, ast.Module]):
    """A literal, or one that is assigned to a name at the top of this file or of one beside it; None where it is neither."""
    module, _, name = _name(node).rpartition(".")
    for part in sources.get(module, tree).body if name else ():
        if isinstance(part, ast.Assign) and any(_name(target) == name for target in part.targets):
            node = part.value
    try:
        found = ast.literal_eval(node)
    except ValueError:
        return None
    return list(found) if isinstance(found, (list, tuple, set, dict)) else None


def _name(node: ast.AST) -> str:
    """``argparse.ArgumentParser`` of a name with dots; nothing of another expression."""
    if isinstance(node, ast.Attribute):
        before = _name(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def _imported(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for, with its module."""
    return {alias.asname or alias.name: f"{part.module}.{alias.name}" if isinstance(part, ast.ImportFrom) else alias.name
            for part in ast.walk(tree) if isinstance(part, (ast.Import, ast.ImportFrom)) for alias in part.names}


def _origin(node: ast.AST, imported: dict[str, str]) -> str:
    """``argparse.ArgumentParser`` of a name, however its file imports it."""
    first, dot, rest = _name(node).partition(".")
    return imported.get(first, first) + dot + rest


def _last(node: ast.AST | None) -> str:
    """``ArgumentParser`` of ``argparse.ArgumentParser``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
