"""The command lines of `dlojz` and of the scripts: what is wrong is said in one line, with what may have been meant."""

from __future__ import annotations

import argparse
import shlex

from . import suggest
from .shown import shown


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that says in one line what is wrong, without all its switches before it."""

    advice = ""  # what to say after arguments that nobody knows

    def error(self, message: str):
        end = f" See {self.prog} --help" if message.endswith(("?", ".")) else f"; see {self.prog} --help"
        self.exit(2, shown(f"{self.prog}: {message}{end}\n"))

    def parse_args(self, args=None, namespace=None):
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.refuse(unknown)
        return found

    def refuse(self, unknown: list[str]) -> None:
        """End with what there is to say about arguments that nobody knows."""
        if not any(word.startswith("-") for word in unknown):
            return self.error(f"there is no place for {shlex.join(unknown)}")
        option = next((word.partition("=")[0] for word in unknown if word.startswith("-")), "")
        guess = suggest.hint(option, self._option_string_actions).strip() if option.startswith("--") else ""
        more = f": {guess}" if guess else f"; {self.advice}" if self.advice else ""
        self.error(f"unrecognized arguments: {shlex.join(unknown)}{more}")

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            guess = suggest.hint(value, known)
            raise argparse.ArgumentError(action, f"there is no {value!r}: {guess}Choose from {', '.join(known)}")
