"""Views: what runs did and why they are not faster, as a picture and as text, from their records alone.

    views.dashboard(job, against="gpu")     one run at a glance
    views.timeline(job)                     step after step, what loader and device did
    views.curves(jobs, by="epoch")          loss, accuracy, learning rate; of groups by name, bands over their seeds
    views.lr_finder(job)                    loss against the learning rate, of a run with --find-lr
    views.memory_sweep(group)               memory and speed against the batch size
    views.memory_plan("train.py -b 256")    what a command will take of a GPU, counted before it runs
    views.snapshot(job)                     what an allocator's snapshot holds: memory over time, by line
    views.scaling(jobs)                     speed against the number of processes, and how much of the ideal that is
    views.communications(job)               what processes send each other, and how much of it hides behind computing
    views.trace(job)                        why it is not faster: a profiled run's kernels, waits and diagnosis
    views.bound(job, on="h100")             what the roofline allows for a profiled run, here or on another GPU
    views.compare(jobs)                     one table of runs; .sort("images/s"), .csv("runs.csv")
    views.room(folder)                      for instructors: how those are doing who publish it
    views.site()                            the cluster: nodes, cores per GPU, queues, storage, reservation
    views.report(jobs, html="report.html")  all of that as one page that opens offline

Runs are jobs, names ("amp": its latest run), run folders, records, or lists of those. A view shows itself in a notebook, prints
as text with the same numbers, and `save("file.html")` writes it as a page. Where runs go on, a notebook shows at once what there
is and fills it in when they have ended; where no page looks, as in CI, it waits for their end.
"""

import sys

from ..ui.page import View
from .bound import bound
from .communications import communications
from .compare import compare
from .curves import curves
from .dashboard import dashboard
from .filling import following
from .lr_finder import lr_finder
from .memory_plan import memory_plan
from .memory_sweep import memory_sweep
from .report import report
from .room import room
from .scaling import scaling
from .site import site
from .snapshot import snapshot
from .timeline import timeline
from .trace import trace

__all__ = ["View", "bound", "communications", "compare", "curves", "dashboard", "lr_finder", "memory_plan", "memory_sweep",
           "report", "room", "scaling", "site", "snapshot", "timeline", "trace"]

bound, communications, compare, curves, dashboard, lr_finder, memory_sweep, report, scaling, timeline, trace = map(
    following, (bound, communications, compare, curves, dashboard, lr_finder, memory_sweep, report, scaling, timeline, trace))
views = sys.modules[__name__]  # so that `from dlojz import views` and `dlojz.views` are the same
