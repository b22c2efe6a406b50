"""What a check comes to."""

from __future__ import annotations

from dataclasses import dataclass

from ..system.shown import shown
from ..ui import messages

SOLVED, WRONG, NOT_ATTEMPTED, CANNOT_CHECK = "SOLVED", "WRONG", "NOT_ATTEMPTED", "CANNOT_CHECK"
STATES = (SOLVED, WRONG, NOT_ATTEMPTED, CANNOT_CHECK)
EXIT_CODES = {SOLVED: 0, WRONG: 1, CANNOT_CHECK: 2, NOT_ATTEMPTED: 3}
TITLES = {SOLVED: "solved", WRONG: "not yet right", NOT_ATTEMPTED: "not attempted yet", CANNOT_CHECK: "cannot be checked"}
COLOURS = {SOLVED: messages.GOOD, WRONG: messages.BAD, NOT_ATTEMPTED: messages.QUIET, CANNOT_CHECK: messages.CARE}


@dataclass(frozen=True)
class Outcome:
    """A check's answer, for a learner.

    ``message`` says what was seen, what was expected and where to look. ``verified`` names what the check has seen to be right,
    ``unverified`` what this machine could not show; ``asks`` is a question to the learner. True where solved.
    """

    lab: str
    state: str
    message: str = ""
    verified: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    seconds: float = 0.0
    asks: messages.Shown | None = None

    def __bool__(self) -> bool:
        return self.state == SOLVED

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state]

    @property
    def title(self) -> str:
        return f"{self.lab}: {TITLES[self.state]}"

    def __repr__(self) -> str:
        lines = [self.title, *self.message.splitlines()]
        for label, sentences in (("Verified", self.verified), ("Not verified here", self.unverified)):
            lines += [f"{label}: {sentence}." for sentence in sentences]
        return shown("\n  ".join([*lines, self.asks.text] if self.asks else lines))

    def _ipython_display_(self) -> None:
        """The question beside the verdict, as an output of its own: buttons end with the kernel, the verdict does not."""
        if self.asks is None:
            raise NotImplementedError  # IPython's word for: show it as _repr_html_ says
        from IPython.display import HTML, display

        display(HTML(self._repr_html_()))
        display(self.asks)

    def _repr_html_(self) -> str:
        colour = COLOURS[self.state]
        parts = [messages.headline(self.title, colour)]
        parts += [f"<div>{messages.linked(line)}</div>" for line in self.message.splitlines()]
        for label, sentences in (("Verified", self.verified), ("Not verified here", self.unverified)):
            parts += [f"<div style='opacity:.75'>{label}: {messages.linked(sentence)}.</div>" for sentence in sentences]
        return f"<div style='border-left:4px solid {colour};padding:2px 10px;margin:4px 0'>{shown(''.join(parts))}</div>"
