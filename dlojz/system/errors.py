"""The errors that a person can act on."""


class UsageError(Exception):
    """Something the user can mend: one line that says what is wrong and what to do.

    The shell verbs print it without a traceback and exit with code 2; in a notebook it shows as one line too.
    """

    def _render_traceback_(self):
        """What IPython shows in place of the traceback."""
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {self}"]
