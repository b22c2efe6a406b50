"""Traces of trainings on a CPU that nobody ran: a program says what its threads do and for how many µs.

The file has the layout that Kineto writes. Threads of gloo begin when they are told to.
"""

import json
from contextlib import contextmanager
from pathlib import Path

MAIN, GLOO = 1, 2


class Cpu:
    """``now`` is the clock of the thread that trains, in µs."""

    def __init__(self, world: int = 1):
        self.world, self.now, self.events = world, 1000.0, []

    def op(self, name: str, us: float, dims=None, types=None) -> None:
        with self.around(name):
            self.now += us
        if dims is not None:
            self.events[-1]["args"] = {"Input Dims": dims, "Input type": types or ["float"] * len(dims)}

    @contextmanager
    def around(self, name: str, kind: str = "cpu_op"):
        begin = self.now
        yield
        self._add(name, kind, begin, self.now - begin, MAIN)

    def range(self, name: str):
        return self.around(name, "user_annotation")

    def python(self, name: str):
        return self.around(name, "python_function")

    def read(self) -> None:
        """tensor.item()"""
        with self.around("aten::item"):
            self.now += 0.5
            self.op("aten::_local_scalar_dense", 1.5)

    def gap(self, us: float) -> None:
        """No operator runs."""
        self.now += us

    def all_reduce(self, elements: int, us: float, asking: float = 20.0, after: float = 0.0, call: str = "allreduce_") -> float:
        """Asked for, and done on a thread of gloo, which begins ``after`` so many µs; returns when it is over."""
        self.op(f"c10d::{call}", asking)
        self._add("gloo:all_reduce", "user_annotation", self.now + after, us, GLOO,
                  {"Input Dims": [[elements]], "Input type": ["float"]})
        return self.now + after + us

    def update(self) -> None:
        with self.range("Optimizer.step#SGD.step"):
            self.op("aten::add_", 5)

    def steps(self, count: int, body) -> "Cpu":
        for number in range(count):
            with self.range(f"ProfilerStep#{number}"):
                body(self)
        return self

    def write(self, path: Path) -> Path:
        group = {"distributedInfo": {"backend": "gloo", "rank": 0, "world_size": self.world}} if self.world > 1 else {}
        path.write_text(json.dumps({"traceEvents": self.events, **group}))
        return path

    def _add(self, name: str, kind: str, begin: float, us: float, thread: int, args: dict | None = None) -> None:
        self.events.append({"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": us,
                            "args": args or {}})
