"""Reads the trace that torch.profiler exports (Chrome's JSON as Kineto writes it, plain or gzip), in one pass, in little memory.

What such a file holds, by the ``cat`` of an event: ``cpu_op`` (operators of PyTorch, nested by time, per thread),
``user_annotation`` (``record_function``, ``ProfilerStep#N``, the DataLoader's ``next``, gloo's collectives),
``python_function`` (with ``with_stack=True``), ``cuda_runtime`` and ``cuda_driver`` (the CPU's calls to CUDA), and, per stream
of a GPU, ``kernel``, ``gpu_memcpy``, ``gpu_memset``. Work of a GPU and the call that queued it share a ``correlation``. Times
are microseconds; here they are seconds since the first event of the file.
"""

from __future__ import annotations

import codecs
import gc
import json
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..system import paths
from ..system.errors import UsageError
from ..ui import words

CHUNK = 1 << 18  # bytes of the file at a time; gzip makes about 20 times as many of them
LONGEST = 1 << 20  # characters of one event: what is longer and no JSON is broken, not cut
HEADER = 1 << 24  # characters before the first event
CUT = "was cut short"
BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
BETWEEN = re.compile(r"[\s,]*")
NEXT = re.compile(r'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|ts)")')  # where an event ends and another begins
STEP = "ProfilerStep#"
NUMBERED = re.compile(STEP + r"[0-9]{1,18}")
OVERLAP = 1e-6  # seconds: a step may begin so much before the last one's mark ends
ROUNDING = 5e-10  # seconds: files have nanoseconds, and what ends as the next begins is not around it
PROCESSES = 1 << 24  # more than any training has
HUGE = 1e18  # more microseconds, bytes or elements than any run has: what says so is broken

# What only a program with a GPU calls, and kinds of devices whose calls and kernels are not known here.
LAUNCHES = re.compile(r"Launch|Memcpy|Memset")
ON_A_GPU = re.compile(r"aten::_?(cudnn|miopen)|nccl:")
FOREIGN = re.compile(r"(xpu|npu|hpu|mtia|mps|xla|tpu|musa|mlu|maia|privateuse(?:one|1))(?=_|::|$)", re.IGNORECASE)

# Operators that only name memory or look at it in another way, and wrappers of autograd: their sizes say nothing.
NO_WORK = re.compile(r"aten::(empty\w*|new_empty\w*|as_strided_?|view\w*|_unsafe_view|_reshape_alias|reshape|t|transpose_?"
                     r"|permute|expand\w*|detach_?|slice|select|narrow|unsqueeze_?|squeeze_?|flatten|unflatten|alias|resize_\w*|set_|chunk"
                     r"|split\w*|unbind|resolve_\w+|lift_fresh|is_\w+|result_type|_has_compatible\w*|_nnpack_available|_version"
                     r"|unfold|item|_local_scalar_dense|record_stream)|(?!aten::|mkldnn::).*")

# Products of matrices and convolutions, whose arithmetic can be counted.
PRODUCTS = frozenset(("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution_backward",
                      "aten::cudnn_convolution", "aten::miopen_convolution", "aten::mkldnn_convolution",
                      "aten::_slow_conv2d_forward", "aten::thnn_conv2d",
                      "aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::convolution_overrideable",
                      "aten::cudnn_convolution_transpose", "aten::cudnn_convolution_relu", "aten::linear",
                      "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_efficient_attention",
                      "aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_mm", "aten::mkldnn_linear", "aten::slow_conv3d",
                      "mkldnn::_linear_pointwise", "mkldnn::_convolution_pointwise"))
COLLECTIVES = ("gloo:", "mpi:")


class Call:
    """Something that a thread of the CPU did: an operator (``op``), a range (``range``), a Python function (``python``), a call
    to CUDA (``cuda``). ``parent``: the one around it; ``own``: its seconds without those of operators in it. See `nesting`."""

    __slots__ = ("args", "begin", "correlation", "end", "kind", "name", "own", "parent", "shape", "thread")

    def __init__(self, name: str, kind: str, thread, begin: float, end: float, correlation: int = 0, args: dict | None = None,
                 shape: int = -1):
        self.shape = shape  # the same number for the same sizes of inputs; -1: not recorded
        self.name, self.kind, self.thread, self.begin, self.end = name, kind, thread, begin, end
        self.correlation, self.args = correlation, args
        self.parent: Call | None = None
        self.own = end - begin

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    def around(self) -> Iterator[Call]:
        """The calls it is in, from the nearest to the outermost."""
        call = self.parent
        while call is not None:
            yield call
            call = call.parent

    def __repr__(self) -> str:
        return f"{self.kind} {self.name} {self.begin:.6f}-{self.end:.6f}"


class Work:
    """Something that a GPU did: a ``kernel``, ``memcpy`` or ``memset`` on a stream. ``call``: what queued it (or None)."""

    __slots__ = ("args", "begin", "call", "correlation", "end", "kind", "name", "stream")

    def __init__(self, name: str, kind: str, stream, begin: float, end: float, correlation: int, args: dict | None):
        self.name, self.kind, self.stream, self.begin, self.end = name, kind, stream, begin, end
        self.correlation, self.args = correlation, args
        self.call: Call | None = None

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    def __repr__(self) -> str:
        return f"{self.kind} {self.name} on {self.stream} {self.begin:.6f}-{self.end:.6f}"


@dataclass(frozen=True)
class Step:
    """A step as ``profiler.step()`` cut it, in the time of the CPU."""

    number: int
    begin: float
    end: float


@dataclass
class Trace:
    """A trace read back. ``torn``: why its end is missing, or empty; ``skipped``: events that could not be read; ``odd_steps``:
    marks of steps that take no time or begin inside of another one; ``cut_steps``: steps of which a part is missing. Neither
    are in ``steps``. ``pids``: the processes whose operators are here; ``repeated``: how many marks have the number of another,
    as in a file of several processes that have the same pid, each in its container; ``foreign``: a kind of device that is not
    known here, such as ``xpu``."""

    path: Path
    calls: list[Call] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    devices: list[dict] = field(default_factory=list)
    distributed: dict = field(default_factory=dict)
    events: int = 0
    skipped: int = 0
    torn: str = ""
    odd_steps: int = 0
    cut_steps: int = 0
    end: float = 0.0
    pids: frozenset = frozenset()
    repeated: int = 0
    foreign: str = ""

    @property
    def begin(self) -> float:
        return min(first.begin for first in (*self.calls[:1], *self.work[:1]))

    @property
    def on_gpu(self) -> bool:
        return bool(self.work)

    @property
    def device(self) -> str:
        """The name of the GPU that worked, or ``CPU``."""
        if self.foreign:
            return f"a device that is not known here ({self.foreign})"
        if not self.work and not self.hidden_gpu:
            return "CPU"
        number = (self.work[0].args or {}).get("device") if self.work else None
        named = [device for device in self.devices if device.get("name") and isinstance(device["name"], str)]
        found = next((device for device in named if device.get("id") == number), named[0] if named else {"name": "a GPU"})
        return found["name"]

    @property
    def hidden_gpu(self) -> bool:
        """Whether a GPU worked and nothing of its work is here, as the calls to it and its operators show."""
        return not self.work and any((call.kind == "cuda" and LAUNCHES.search(call.name)) or (call.kind != "python" and
                                     ON_A_GPU.match(call.name)) for call in self.calls)

    @property
    def gpus(self) -> int:
        """How many GPUs have kernels here."""
        found = [(work.args or {}).get("device") for work in self.work if work.kind == "kernel"]
        return len({number for number in found if type(number) is int})

    @property
    def world_size(self) -> int:
        return self.processes or 1

    @property
    def processes(self) -> int | None:
        """How many trained together; None where the trace does not say: it says so only of processes that found each other."""
        size = self.distributed.get("world_size")
        return size if type(size) is int and 0 < size < PROCESSES else None

    @property
    def rank(self) -> int:
        rank = self.distributed.get("rank")
        return rank if type(rank) is int and 0 <= rank < self.world_size else 0

    @property
    def notes(self) -> list[str]:
        """What to know before believing the numbers."""
        out = []
        if len(self.pids) > 1 or self.repeated > 1 or self.gpus > 1:
            processes = f"{len(self.pids)} processes" if len(self.pids) > 1 else "several processes"
            what = processes if len(self.pids) > 1 or self.repeated > 1 else f"{self.gpus} GPUs"
            out.append(f"{self.path.name} holds the work of {what}: the numbers are of all together")
        if self.torn:
            out.append(f"{self.path.name} {self.torn}: only its first {self.events:,} events are here, and perhaps not "
                       "those of all its threads")
        if self.skipped:
            out.append(f"{self.skipped:,} events of {self.path.name} could not be read and are left out")
        if self.odd_steps:
            out.append(f"{words.counted(self.odd_steps, 'mark')} of steps left out: without a length, or begun inside of another")
        if self.cut_steps:
            all_of_it = "" if self.steps else ": the numbers are for the part that is there"
            left = "is left out" if self.cut_steps == 1 else "are left out"
            out.append(f"{words.counted(self.cut_steps, 'step')} of which a part is missing {left}{all_of_it}")
        if not (self.steps or self.odd_steps or self.cut_steps):
            out.append("no step is marked in the trace (no schedule, or profiler.step() was not called): the numbers are for all "
                       "of it")
        return out


def read(path: Path | str) -> Trace:
    """The trace in a file, or in the folder of a run. Raises UsageError where there is none.

    A file that was cut short is read as far as it goes, and `Trace.notes` says so.
    """
    path = locate(paths.given(path, "runs/profile-001"))
    source = _Source(path)
    builder = _Builder(path)
    collecting = gc.isenabled()
    gc.disable()  # hundreds of thousands of objects that all stay: looking for garbage among them would take most of the time
    try:
        with source:
            for event in source.events():
                builder.add(event)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except EOFError:
        raise UsageError(f"{path} is not a trace of torch.profiler: it has no \"traceEvents\"") from None
    finally:
        if collecting:
            gc.enable()
    trace = builder.trace(source)
    if not trace.events:
        cut = " and broke off before the first event" if source.torn else ""
        raise UsageError(f"{path} has no events{cut}: profile again (--profile), and let the run finish")
    if trace.torn and trace.devices and not trace.work:
        raise UsageError(f"{path} {trace.torn} before the first kernel: what the GPU did is not in it. Profile again "
                         "(--profile), and let the run finish")
    return trace


def locate(path: Path) -> Path:
    """The file of a trace: this one, or that of a run's folder. Raises UsageError."""
    if path.is_dir():
        found = [file for pattern in ("trace.json.gz", "trace.json", "*.pt.trace.json*") for file in sorted(path.glob(pattern))]
        if not found:
            raise UsageError(f"there is no trace in {path}: run it with --profile")
        return found[0]
    if not path.exists():
        raise UsageError(f"there is no {path}: a run with --profile writes runs/NAME/trace.json.gz")
    if path.stat().st_size == 0:
        raise UsageError(f"{path} is empty: the run was killed while it wrote it, or the disk was full. Profile again")
    return path


# --- from bytes to events ------------------------------------------------------------------------------------------------


class _Source:
    """A file as a stream of events; what stands around them is in ``header`` afterwards."""

    def __init__(self, path: Path):
        self.path = path
        self.header: dict = {}
        self.torn = ""
        self.skipped = 0

    def __enter__(self) -> _Source:
        self.file = open(self.path, "rb")
        return self

    def __exit__(self, *what) -> None:
        self.file.close()

    def _pieces(self) -> Iterator[str]:
        """The text of the file, unpacked, a piece at a time."""
        text = codecs.getincrementaldecoder("utf-8")("replace").decode
        packed = self.file.read(2) == b"\x1f\x8b"
        self.file.seek(0)
        unpack = zlib.decompressobj(31)
        while data := self.file.read(CHUNK):
            while data and packed:
                try:
                    yield text(unpack.decompress(data))
                except zlib.error:
                    self.torn = "is damaged"
                    return
                data = unpack.unused_data
                if unpack.eof and data:
                    unpack = zlib.decompressobj(31)
            if not packed:
                yield text(data)
        if packed and not unpack.eof:
            self.torn = CUT

    def events(self) -> Iterator[dict]:
        """Each event of the file. Raises EOFError where it is no trace."""
        pieces = self._pieces()
        text, at = self._start(pieces)
        decode = json.JSONDecoder().raw_decode
        between = BETWEEN.match
        ended = False
        while not ended:
            piece = next(pieces, None)
            ended = piece is None
            text, at = text[at:] + (piece or ""), 0
            while True:
                at = between(text, at).end()
                if at >= len(text):
                    break
                if text[at] == "]":
                    self._rest(text[at + 1 :], pieces)
                    return
                try:
                    event, at = decode(text, at)
                except (ValueError, RecursionError):
                    if len(text) - at < LONGEST and not ended:
                        break  # it goes on in the next piece
                    follows = NEXT.search(text, at + 1)
                    if follows is None:
                        at = len(text)
                        break
                    self.skipped += 1
                    at = follows.end()
                else:
                    if type(event) is dict:
                        yield event
        self.torn = self.torn or CUT

    def _start(self, pieces: Iterator[str]) -> tuple[str, int]:
        text = ""
        for piece in pieces:
            text += piece
            if text.lstrip()[:1] == "[":  # Chrome's other form: the events alone
                return text, text.index("[") + 1
            if found := BEGIN.search(text):
                self._fields(text[: found.start()].rstrip().rstrip(",") + "}")
                return text, found.end()
            if len(text) > HEADER or text.lstrip()[:1] not in ("{", ""):
                break
        begun = text.lstrip()[:1]
        if (self.torn and begun == "{") or (self.torn == CUT and not begun):
            return "", 0
        raise EOFError

    def _rest(self, text: str, pieces: Iterator[str]) -> None:
        """What comes after the events; in Kineto's files that is the name, elsewhere it may be the devices."""
        for piece in pieces:
            if len(text) > HEADER:
                return
            text += piece
        text = text.strip().lstrip(",").strip()
        if text != "}":
            self._fields("{" + text)

    def _fields(self, text: str) -> None:
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(fields, dict):
            self.header |= fields


# --- from events to a trace ----------------------------------------------------------------------------------------------

CALLS = {"cpu_op": "op", "user_annotation": "range", "python_function": "python", "cuda_runtime": "cuda", "cuda_driver": "cuda",
         "Operator": "op", "Runtime": "cuda"}
WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset", "Kernel": "kernel", "Memcpy": "memcpy",
        "Memset": "memset"}
KEPT_OF_WORK = ("bytes", "device", "Collective name", "In msg nelems", "Out msg nelems", "dtype")
AMOUNTS = frozenset(("bytes", "In msg nelems", "Out msg nelems"))
KEPT_OF_CALLS = ("Input Dims", "Input type", "Concrete Inputs")


def is_amount(value) -> bool:
    """Whether this can be a number of bytes or of elements."""
    return type(value) in (int, float) and 0 <= value < HUGE


class _Builder:
    """Takes events and keeps what is needed of them."""

    def __init__(self, path: Path):
        self.path = path
        self.calls: list[Call] = []
        self.work: list[Work] = []
        self.shapes: dict[str, int] = {}
        self.sizes: dict[str, dict] = {}  # each once: a step repeats the last one
        self.base: float | None = None
        self.pids: set = set()
        self.foreign = ""
        self.events = self.skipped = 0

    def add(self, event: dict) -> None:
        self.events += 1
        if event.get("ph") == "X":
            try:
                self._take(event)
            except (KeyError, TypeError, ValueError, OverflowError, RecursionError):  # a time that is none, a name that is a list
                self.skipped += 1

    def _take(self, event: dict) -> None:
        category = event.get("cat")
        call = CALLS.get(category)
        if call is None and category not in WORK:
            if not self.foreign and isinstance(category, str) and (found := FOREIGN.match(category)):
                self.foreign = found[1].lower()
            return
        begin, seconds = float(event["ts"]), float(event.get("dur", 0.0)) * 1e-6
        name, thread = sys.intern(event["name"]), event["tid"]
        hash(thread)
        if not (0 <= seconds < 1e9 and abs(begin) < HUGE):
            raise ValueError
        if self.base is None:
            self.base = begin
        begin = (begin - self.base) * 1e-6
        args = event.get("args")
        if type(args) is not dict:
            args = {}
        if call is not None:
            keep = None
            sized = "Input Dims" in args and not NO_WORK.fullmatch(name)
            if call != "python" and args and (sized or name.startswith(COLLECTIVES)):
                keep = {key: args[key] for key in KEPT_OF_CALLS if key in args}
                keep = self.sizes.setdefault(repr(keep), keep)
            number = args.get("correlation", 0)
            shape = -1
            if call == "op" and isinstance(event.get("pid"), (int, str)):
                self.pids.add(event["pid"])
            if call == "op" and "Input Dims" in args:
                shape = self.shapes.setdefault(repr(args["Input Dims"]), len(self.shapes))
            self.calls.append(Call(name, call, thread, begin, begin + seconds, number if type(number) is int else 0, keep, shape))
        else:
            number = args.get("correlation", 0)
            keep = {key: args[key] for key in KEPT_OF_WORK if key in args and (key not in AMOUNTS or is_amount(args[key]))}
            stream = args.get("stream", thread)
            self.work.append(Work(name, WORK[category], stream if type(stream) is int else thread, begin, begin + seconds,
                                  number if type(number) is int else 0, keep))

    def trace(self, source: _Source) -> Trace:
        trace = Trace(self.path, self.calls, self.work, events=self.events, skipped=self.skipped + source.skipped,
                      torn=source.torn)
        header = source.header
        devices, distributed = header.get("deviceProperties"), header.get("distributedInfo")
        trace.devices = [device for device in devices if isinstance(device, dict)] if isinstance(devices, list) else []
        trace.distributed = distributed if isinstance(distributed, dict) else {}
        names = {call.name for call in self.calls if call.kind == "op"}
        trace.pids = frozenset(self.pids)
        trace.foreign = self.foreign or next((found[1].lower() for name in sorted(names) if (found := FOREIGN.match(name))), "")
        trace.calls.sort(key=lambda call: (call.begin, -call.end))
        trace.work.sort(key=lambda work: work.begin)
        trace.steps, trace.odd_steps, trace.repeated = _steps(trace.calls)
        trace.end = max((one.end for some in (trace.calls, trace.work) for one in some), default=0.0)
        if trace.torn:
            _leave_out_cut(trace)
        nesting(trace.calls)
        queued = {call.correlation: call for call in trace.calls if call.kind == "cuda" and call.correlation}
        for work in trace.work:
            work.call = queued.get(work.correlation)
        return trace


def _steps(calls: list[Call]) -> tuple[list[Step], int, int]:
    """The marked steps, one after the other, how many marks can be none, and how many have the number of another."""
    marks = [call for call in calls if call.kind == "range" and NUMBERED.fullmatch(call.name)]
    steps: list[Step] = []
    for call in marks:
        if call.end > call.begin and (not steps or call.begin >= steps[-1].end - OVERLAP):
            steps.append(Step(int(call.name[len(STEP) :]), call.begin, call.end))
    return steps, len(marks) - len(steps), len(marks) - len({call.name for call in marks})


def _leave_out_cut(trace: Trace) -> None:
    """Of a file whose end is missing, what there is of the last steps would pass for all that they did.

    Kineto writes the operators of a thread one after the other as they began, and the work of a GPU after those. A mark is
    written when its step begins, with the time at which it ends.
    """
    marked = {call.thread for call in trace.calls if call.kind == "range" and NUMBERED.fullmatch(call.name)}
    begun = [call.begin for call in trace.calls if call.kind in ("op", "range") and (call.thread in marked or not marked)]
    known = min(begun[-1] if begun else trace.end, trace.work[-1].begin if trace.work else trace.end)
    whole = [step for step in trace.steps if step.end <= known]
    trace.cut_steps, trace.steps = len(trace.steps) - len(whole), whole
    trace.end = min(trace.end, known)


def nesting(calls: list[Call]) -> None:
    """Sets who is inside of whom, and each operator's own seconds. ``calls`` are in the order of their begin.

    Ranges and Python functions are only around operators: the seconds of an operator in a range in an operator are those of
    the inner one.
    """
    open_: dict = {}
    for call in calls:
        stack = open_.setdefault(call.thread, [])
        while stack and stack[-1].end <= call.begin + ROUNDING:
            stack.pop()
        if stack:
            call.parent = stack[-1]
            if call.kind == "op":
                outer = next((other for other in reversed(stack) if other.kind == "op"), None)
                if outer is not None:
                    outer.own -= min(call.end, outer.end) - call.begin
        stack.append(call)
