"""Profiling: how torch.profiler was set up, when it was told that a step is over, and whether a trace was written.

``profiler.made``     wait, warmup, active, repeat, skip_first (of torch.profiler.schedule; None: another schedule, or none),
                      scheduled (whether there is a schedule), activities (cpu, cuda, …), handler (whether there is an
                      on_trace_ready), operators (whether cpu is among the activities), record_shapes, profile_memory, with_stack
``profiler.start``    it begins: at the entry of a `with`, or by `start()`
``profiler.step``     `step()` was called: number (from 1), action (what it does from here on: none, warmup, record,
                      record_and_save)
``profiler.unready``  what it is to call when a trace is ready has failed: kind and message of the error
``profiler.trace``    a trace was exported: path, written (whether the file is there and not empty), steps (the numbers, from 0,
                      of those that are in it), kinds (of its events: cpu_op, kernel, …)
``profiler.stop``     it has ended
``record_function``   a named region begins: name; ``by`` says whether the trainee, the kit or a part of torch asked for it
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import inspect
import json
import os
from pathlib import Path

import torch

NUMBERS = ("wait", "warmup", "active", "repeat", "skip_first")
FLAGS = ("record_shapes", "profile_memory", "with_stack")


def contents(trace: Path) -> dict:
    """The steps in a trace, and the kinds of its events."""
    steps, kinds = set(), set()
    with contextlib.suppress(OSError, ValueError):
        packed = trace.read_bytes()
        for event in json.loads(gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed)["traceEvents"]:
            kinds.add(event.get("cat"))
            if str(event.get("name")).startswith("ProfilerStep#"):
                steps.add(int(event["name"].partition("#")[2]))
    return {"steps": sorted(steps), "kinds": sorted(map(str, kinds))}


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.schedules: dict = {}  # schedule -> its numbers

    def install(self):
        profiler = torch.profiler.profile
        torch.profiler.schedule = torch.profiler.profiler.schedule = self.keeping_numbers(torch.profiler.schedule)
        profiler.__init__ = self.noting_made(profiler.__init__)
        profiler.start = self.noting(profiler.start, "profiler.start")
        profiler.stop = self.noting(profiler.stop, "profiler.stop")
        profiler.step = self.noting_step(profiler.step)
        profiler.export_chrome_trace = self.noting_trace(profiler.export_chrome_trace)
        region = torch.profiler.record_function
        region.__enter__ = self.noting_region(region.__enter__)

    def keeping_numbers(self, original):
        @functools.wraps(original)
        def made(**kwargs):
            schedule = original(**kwargs)
            self.schedules[schedule] = kwargs
            return schedule

        return made

    def noting_made(self, original):
        signature = inspect.signature(original)

        @functools.wraps(original)
        def made(profiler, *args, **kwargs):
            original(profiler, *args, **kwargs)
            if profiler.on_trace_ready is not None:
                profiler.on_trace_ready = self.noting_failure(profiler.on_trace_ready)
            given = signature.bind(profiler, *args, **kwargs).arguments
            numbers = self.schedules.get(given.get("schedule"))
            defaults = dict.fromkeys(NUMBERS) if numbers is None else {"repeat": 0, "skip_first": 0, **numbers}
            activities = sorted(activity.name.lower() for activity in profiler.activities)
            self.log.note("profiler.made", **{name: defaults.get(name) for name in NUMBERS},
                          scheduled=given.get("schedule") is not None, handler=given.get("on_trace_ready") is not None,
                          activities=activities, operators="cpu" in activities,
                          **{name: bool(given.get(name, False)) for name in FLAGS})

        return made

    def noting_failure(self, handler):
        def called(profiler):
            try:
                return handler(profiler)
            except Exception as error:
                message = " ".join(str(error).split())[:300].rstrip(".")
                self.log.note("profiler.unready", kind=type(error).__name__, message=message)
                raise

        return called

    def noting(self, original, what):
        @functools.wraps(original)
        def noted(profiler):
            self.log.note(what)
            return original(profiler)

        return noted

    def noting_step(self, original):
        @functools.wraps(original)
        def step(profiler):
            original(profiler)
            self.log.note("profiler.step", number=profiler.step_num, action=profiler.current_action.name.lower())

        return step

    def noting_trace(self, original):
        @functools.wraps(original)
        def exported(profiler, path, *args, **kwargs):
            result = original(profiler, path, *args, **kwargs)
            written = os.path.exists(path) and os.path.getsize(path) > 0
            self.log.note("profiler.trace", path=str(path), written=written, **contents(Path(path)))
            return result

        return exported

    def noting_region(self, original):
        @functools.wraps(original)
        def enter(region):
            if not region.name.startswith("ProfilerStep#"):  # the profiler's own
                self.log.note("record_function", name=region.name)
            return original(region)

        return enter
