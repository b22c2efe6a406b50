"""The errors that a person can act on."""

from .shown import shown


class UsageError(Exception):
    """Something the user can mend: one line that says what is wrong and what to do.

    The shell verbs print it without a traceback and exit with code 2; in a notebook it shows as one line too.

    A DataLoader raises a worker's exception again with the worker's whole traceback as its one argument: of that, the message is
    kept.
    """

    def __init__(self, *arguments):
        if arguments and isinstance(arguments[0], str) and arguments[0].startswith("Caught "):
            arguments = (arguments[0].rpartition(f"{type(self).__name__}: ")[2].strip(),)
        super().__init__(*arguments)

    def __str__(self) -> str:
        return shown(super().__str__())

    def _render_traceback_(self):
        """What IPython shows in place of the traceback."""
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {self}"]


class DataError(UsageError):
    """Files of a set cannot be read: too many of them, or one that holds many."""


class NothingToValidate(DataError):
    """Not one file of a validation can be read: found in the sums over all processes, so by each of them."""

    everywhere = True
