"""Text from outside, made fit to be shown: names of files and jobs, messages of exceptions, records and traces of others.

Such text may hold what a terminal takes for an order (escape sequences), what turns or hides the letters around it (marks for the
direction of writing, letters without width), and bytes that are no UTF-8, which nothing can print. It is kept as it is, and
cleaned where it leaves the kit: whatever prints, calls `say`; what a notebook shows, goes through `shown`.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence

# Control characters but for tab and newline; soft hyphen; marks of direction; letters without width (not those that join letters
# in Persian or emoji); line and paragraph separators; lone surrogates.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
                    "\ud800-\udfff]")


def shown(text: str) -> str:
    r"""The text with what cannot be seen as escapes: ``\x1b[31m``, ``\u202e``, and ``\xe9`` for a byte that is no UTF-8."""
    return UNSEEN.sub(_escape, text)


def _escape(found: re.Match) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # as os.fsdecode puts a byte
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(*words, file=None) -> None:
    """Print a line, fit to be shown, in one piece and at once: others may write to the same log."""
    file = file or sys.stdout
    line = shown(" ".join(map(str, words))) + "\n"
    try:
        print(line, end="", file=file, flush=True)
    except UnicodeEncodeError:  # letters that this terminal has not
        print(line.encode(file.encoding, "replace").decode(file.encoding), end="", file=file, flush=True)


def apart(names: Sequence[str]) -> list[str]:
    """The names, so that different ones look different: an é may be one letter or two, and on screen it is the same."""
    alike = [unicodedata.normalize("NFKC", name) for name in names]
    twins = {look for look in alike if len({name for name, its in zip(names, alike) if its == look}) > 1}
    return [ascii(name)[1:-1] if look in twins else name for name, look in zip(names, alike)]
