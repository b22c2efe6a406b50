"""What a trace says of a step: who worked, who waited, and for whom.

On a GPU each moment of the measured stretch gets one name, the first that fits:

``compute``          a kernel runs that is no collective
``communication``    a collective runs, and nothing beside it (on the CPU's threads, with gloo)
``copy``             a copy between host and device runs, and nothing beside it; or the GPU has run dry behind the copy of a batch
                     that held the CPU
and where the GPU has nothing to do
``loader``           the process waits for its loader
``synchronisation``  the CPU had waited for the GPU when the GPU ran dry: it could not queue work ahead
``launch``           the CPU had not queued the next kernel yet
``between``          the next kernel was queued already: what the GPU needs between two kernels

On a CPU the operators are the work: ``compute``, ``calls`` (operators so short that they are mostly PyTorch's work for a call),
``loader``, ``communication`` (a collective is asked for or under way and no operator runs), ``other`` (no operator runs: Python,
or what it calls).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import intervals
from .intervals import Spans
from .kernels import ARITHMETIC
from .reading import Trace

INTERRUPTED = 2  # a step of a CPU whose own work takes so many times what is usual was interrupted by something else
HOLE = 3  # where no operator runs for so many times as long as short ones do, it is no longer what lies between two calls
ODD_SIZES = "sizes that are no multiple of 8"  # why an operator is not on the tensor cores
CONVOLUTION = re.compile(r"conv(?!ert)")


@dataclass(frozen=True)
class Row:
    """Kernels or operators of one name: seconds and calls in a step."""

    name: str
    seconds: float
    count: float
    kind: str = ""
    tensor_cores: bool = False


@dataclass(frozen=True)
class Missed:
    """An operator that could compute on tensor cores and does not: seconds in a step, and why."""

    operator: str
    dtype: str
    seconds: float
    count: float
    why: str


@dataclass(frozen=True)
class Copies:
    """Copies of one kind in a step: ``HtoD``, ``DtoH``, …; ``memory``: pinned, pageable or device; seconds and bytes."""

    direction: str
    memory: str
    count: float
    bytes: float
    seconds: float

    @property
    def speed(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Sync:
    """Waits of the CPU for the GPU that have one cause: times and seconds of waiting in a step, and how long the GPU then had
    nothing to do. ``asked``: the operator or call; ``where``: the range it is in; ``line``: of the Python code, if known."""

    asked: str
    where: str
    line: str
    count: float
    seconds: float
    idle: float


@dataclass(frozen=True)
class Launches:
    """How the CPU feeds the GPU: kernels in a step, seconds between launches, seconds a kernel runs and waits for its turn
    (medians), how many are queued at a launch on average, and at which part of the launches the queue was empty."""

    kernels: float
    every: float
    runs: float
    delay: float
    depth: float
    dry: float


@dataclass(frozen=True)
class Reads:
    """How many values are read out of tensors in a step (``.item()``, ``if tensor:``), and in which phase most of them are. On a
    GPU each is a wait."""

    count: float
    where: str


@dataclass(frozen=True)
class Hole:
    """Where the training goes on and the CPU records nothing: Python, or what it calls (numpy, files). Seconds in a step; of a
    GPU those in which it waits for a launch. ``lines``: functions with their own seconds of it, where stacks were recorded;
    ``where``: the range of the program (a phase) in which most of it is."""

    seconds: float = 0.0
    lines: tuple[tuple[str, float], ...] = ()
    where: str = ""


@dataclass(frozen=True)
class Collective:
    """One collective: kind, bytes (None: not recorded), when, for how long beside other work, in which phase it began."""

    kind: str
    bytes: float | None
    begin: float
    end: float
    hidden: float
    phase: str
    step: int | None
    backend: str

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass
class Facts:
    """What `analyse` found; seconds are those of a step, on average over ``steps`` steps between ``begin`` and ``end``. Where no
    step is marked, they are those of the whole trace."""

    trace: Trace
    begin: float
    end: float
    steps: int
    shares: dict[str, float] = field(default_factory=dict)
    busy: float = 0.0
    phases: list[tuple[str, float, float]] = field(default_factory=list)
    kinds: dict[str, float] = field(default_factory=dict)
    kernels: list[Row] = field(default_factory=list)
    operators: list[Row] = field(default_factory=list)
    tensor_cores: float = 0.0
    half: float = 0.0
    missed: list[Missed] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    loader: float = 0.0
    launches: Launches | None = None
    starved: dict[str, float] = field(default_factory=dict)  # seconds of ``launch`` in a step, by phase
    called: float = 0.0  # operators in a step, without those of the loader and of collectives
    reads: Reads | None = None
    updates: int = 0  # of optimizers, in all
    hole: Hole = field(default_factory=Hole)
    prepared: float = 0.0  # on a CPU: seconds of computing in a step before its first convolution or product
    collectives: list[Collective] = field(default_factory=list)
    sending: Spans = field(default_factory=list)  # when a collective was under way, or asked for
    cpu_work: float = 0.0
    arithmetic: float = 0.0
    waits_for_memory: float = 0.0
    achieved: dict[str, float] = field(default_factory=dict)
    compute_spans: Spans = field(default_factory=list)
    spans: Spans = field(default_factory=list)  # what was looked at, of the time between begin and end
    interrupted: int = 0

    @property
    def seconds(self) -> float:
        """A step."""
        return intervals.total(self.spans) / self.steps

    @property
    def marked(self) -> bool:
        """Whether steps are marked in the trace."""
        return bool(self.trace.steps)

    @property
    def per(self) -> str:
        """What a number counts for."""
        return "per step" if self.marked else "in all"

    @property
    def whole(self) -> str:
        """What seconds are a part of."""
        return "a step" if self.marked else "the trace"

    @property
    def under_way(self) -> tuple[float, float]:
        """For how long in a step at least one collective is under way, and for how long of that something is computed."""
        return (intervals.total(self.sending) / self.steps,
                intervals.total(intervals.common(self.sending, self.compute_spans)) / self.steps)

    @property
    def convolutions(self) -> float:
        """Seconds in a step, by the names of operators or those of kernels."""
        named = sum(row.seconds for row in self.operators if CONVOLUTION.search(row.name))
        return max(named, self.kinds.get("convolution", 0.0))

    @property
    def products(self) -> float:
        """Seconds in a step of convolutions and matrix products."""
        return sum(seconds for kind, seconds in self.kinds.items() if kind in ARITHMETIC or kind == "arithmetic")

    @property
    def updating(self) -> float:
        """Seconds in a step in which the device works on the update of the parameters."""
        if self.on_gpu:
            return self.kinds.get("optimizer", 0.0)
        update = intervals.union((begin, end) for name, begin, end in self.phases if name == "update")
        return intervals.total(intervals.common(self.compute_spans, update)) / self.steps

    @property
    def keeps_up(self) -> bool:
        """Whether the CPU's own work for a step takes less time than the GPU's."""
        return self.cpu_work < self.shares.get("compute", 0.0) + self.shares.get("communication", 0.0)

    @property
    def holey(self) -> bool:
        """Whether most of what is between the operators is not theirs."""
        rest = self.shares.get("launch", 0.0) - self.hole.seconds if self.on_gpu else self.shares.get("calls", 0.0)
        return self.hole.seconds > 0 and self.hole.seconds >= HOLE * rest

    @property
    def notes(self) -> list[str]:
        """What to know before believing the numbers."""
        left = f"{self.interrupted} of {len(self.trace.steps)} steps were more than {INTERRUPTED} times slower than the " \
               "median, probably because other programs used the cores: they are left out"
        cold = "the first step since the profiler began is among them, without a warm-up: what happens only once is in the " \
               "numbers"
        first = any(step.number == 0 and (self.on_gpu or intervals.holds(self.spans, step.begin)) for step in self.trace.steps)
        return [*self.trace.notes, *([cold] if first else []), *([left] if self.interrupted else [])]

    @property
    def on_gpu(self) -> bool:
        return self.trace.on_gpu

    def share(self, name: str) -> float:
        """Which part of a step one of ``shares`` takes."""
        return self.shares.get(name, 0.0) / self.seconds if self.seconds else 0.0


def rows_of(groups: dict[str, list[float]], steps: int, more=lambda name: {}) -> list[Row]:
    rows = [Row(name, sum(seconds) / steps, len(seconds) / steps, **more(name)) for name, seconds in groups.items()]
    return sorted(rows, key=lambda row: -row.seconds)
