"""Views: what runs did and why they are not faster, as a picture and as text, from their records alone.

    views.dashboard(job, against="gpu")     one run at a glance
    views.memory_sweep(group)               memory and speed against the batch size

Runs are jobs, names ("amp": its latest run), run folders, records, or lists of those. A view shows itself in a notebook, prints as
text with the same numbers, and `save("file.html")` writes a page that opens offline.
"""

import sys

from .board import dashboard
from .memory import memory_sweep
from .page import View

__all__ = ["View", "dashboard", "memory_sweep"]

views = sys.modules[__name__]
