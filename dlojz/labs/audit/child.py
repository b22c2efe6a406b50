"""The process that runs the script: as ``python SCRIPT ARGS`` would, with the observers of the probe and one of its own.
With ranks there are several, each started as torchrun would start it.

``passed``       an update, at which moment (clock), piled (how many of the looked-at
                 gradients have, since the last update, been added to what that update had used), cleared (how many were not zero
                 after the backward pass, and are zero or missing now)
``mode``         the script sets a module to training or to eval mode: of (which module), training
``back``         a backward pass begins: direct (whether the script itself asks for it, not a library)
``derived``      torch.autograd.grad goes through a graph, as functions of torch.func do
``scaling``      a call of a gradient scaler, enabled or not: call, enabled, asked (whether it was made to be enabled)
``clipping``     gradients are clipped, by norm or by value: limit
``scheduled`` ``stepped``  a learning rate schedule is made, is stepped: kind, which (of the optimizers that have
                 updated something; None: none of these), told (whether it was given an epoch, or a metric)
``read``         a value that belongs to a graph is read by the host: how
``keeper``       a variable keeps the graphs of several losses: name, and the line that fills it
``waited``       a loader has given a batch: seconds, of (which data set), cut_out (of tensors in memory), loader, epoch, batch
``cut``          a pass over a loader was ended early
``kept``         torch.save writes a file: path
``wrote``        a file outside of the audit's own folder was opened to be written: path
``flags``        float32 products, whether there is a GPU, how many gpus, cores, and which GPUs this process may see
``drawn``        a worker of a loader has fetched one of its first batches: of (which data set), worker, pid, seed (of the pass),
                 before and after (by source of random numbers, where its stream is), count (how many it had fetched before)
``carried``      a tensor that a function of torch has made on the host is copied to a GPU: how
``printed``      numbers with three decimals or more are written to the terminal: numbers, as text
``captured``     Dynamo has compiled a function, in a run of its own: name
``recompiled``   it has done so again: name, reason
``resumed``      it had to leave a function that it compiled, and come back to it: name
``enough``       all updates that were asked for have been seen
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dis
import functools
import gc
import inspect
import json
import linecache
import os
import random
import re
import runpy
import signal
import sys
import time
import traceback
import types
import weakref
import zlib
from pathlib import Path

import torch
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import Subset, TensorDataset, dataloader, default_collate, get_worker_info
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from ...training.tracing import exit_code
from ..probe import observe, pretend
from ..probe.log import KIT, Log, error
from ..probe.modes import Calls, Operations
from ..probe.observe import told
from . import folder

OBSERVERS = ("layers", "sampling", "precision", "compiling", "transfers")
MOST = 200  # values, and nodes of graphs, that are searched
LOOKED_AT = 6  # parameters of an optimizer
PATIENCE = 10.0  # seconds that a rank waits for the others
MADE = {getattr(torch, name): name for name in (
    "zeros", "ones", "full", "rand", "randn", "randint", "arange", "linspace", "eye", "randperm", "normal")}
FETCHES = 2  # of each worker
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d{3,}(?![\d.e%])")
READS = {getattr(torch.Tensor, name): name for name in ("item", "tolist", "__float__", "__bool__", "__format__", "__repr__")}


class Facts(Log):
    """The log of an audit. Own are all files below the script's folder, and below the one where it was started, but for what is
    installed there: a script of one's own has packages of its own. ``folder``: the one that stands in for ``started``."""

    def __init__(self, path: str, script: str, folder: str, started: str):
        root = os.path.dirname(script)
        super().__init__(path, script, root, os.path.dirname(torch.__file__))
        self._folder, self._started = folder, started
        self._below = tuple({place.rstrip(os.sep) + os.sep for place in (root, started, folder)})
        installed = {KIT, os.path.dirname(os.__file__), os.path.dirname(self._torch)}
        installed |= {os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)}
        installed |= {place for place in sys.path if next(Path(place).glob("*.dist-info"), None)}
        self._installed = tuple(f"{place}{os.sep}" for place in installed)
        self.is_own = functools.cache(self._is_own)

    def _is_own(self, file: str) -> bool:
        if os.path.dirname(file) in self.folders:
            return True
        if not file.startswith(self._below) or file.startswith(self._installed):
            return False
        inside = file[max(len(place) for place in self._below if file.startswith(place)):]
        return not any(part.startswith((".", "<")) or part in ("site-packages", "dist-packages") for part in inside.split(os.sep))

    def name(self, file: str) -> str:
        if file.startswith(self._folder + os.sep):
            file = self._started + file[len(self._folder) :]
        return super().name(file)


class Mark:
    """Lies in the graph of a backward pass, and is gone when the graph is."""


def filled(file: str, name: str) -> int | None:
    """The line that adds to a variable, by how such lines are written."""
    name = rf"\.{name.split('.')[1]}" if "." in name else rf"(?<![\w.]){name}"
    adds = re.compile(rf"{name}\b\s*(\+=|\.(append|extend|add|appendleft)\(|\[.*\]\s*\+?=|=.*{name}\b)")
    return next((number for number, line in enumerate(linecache.getlines(file), 1) if adds.search(line)), None)


class Watch:
    """The observer of the audit: it knows optimizers, graphs, scalers and loaders, whoever calls them."""

    def __init__(self, log: Log, updates: int, finish):
        self.log, self.updates, self.finish = log, updates, finish
        self.number = 0
        self.made: dict[int, tuple] = {}  # by tensor: a reference to it, and what made it
        self.marks: list[weakref.ref] = []
        self.backwards = 0
        self.used: dict[int, tuple] = {}  # by parameter: gradient and version that an update has used
        self.piled: set[int] = set()
        self.filled: set[int] = set()
        self.watched: dict[torch.optim.Optimizer, list] = {}  # parameters
        self.kept: dict = {}  # what keeps graphs of several losses

    def install(self) -> None:
        register_optimizer_step_pre_hook(self.before)
        register_optimizer_step_post_hook(self.after)
        torch.autograd.backward = self.noting_backward(torch.autograd.backward)
        torch.autograd.grad = self.before_it(torch.autograd.grad, lambda *_, **__: self.log.note("derived"))
        for name in ("unscale_", "step", "update"):
            setattr(torch.amp.GradScaler, name, self.noting_scaler(getattr(torch.amp.GradScaler, name), name))
        torch.amp.GradScaler.__init__ = self.noting_made(torch.amp.GradScaler.__init__)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            clip = self.before_it(getattr(torch.nn.utils, name), self.clipping)
            setattr(torch.nn.utils, name, clip)
            setattr(torch.nn.utils.clip_grad, name, clip)
        for kind in vars(lr_scheduler).values():
            if inspect.isclass(kind) and "step" in vars(kind):
                kind.step = self.noting_schedule(kind.step)
        torch.nn.Module.train = self.noting_mode(torch.nn.Module.train)
        _MapDatasetFetcher.fetch = self.noting_fetch(_MapDatasetFetcher.fetch)
        for stream in (sys.stdout, sys.stderr):
            stream.write = self.before_it(stream.write, self.printed)
        given = dataloader._BaseDataLoaderIter
        given._reset, given.__next__ = self.noting_reset(given._reset), self.noting_next(given.__next__)

    def clipping(self, _, limit=None, *__, **given):
        limit = next(iter([limit, *given.values()][limit is None:]), None)
        self.log.note("clipping", limit=float(limit) if isinstance(limit, (int, float)) else None)

    @staticmethod
    def before_it(original, look):
        @functools.wraps(original)
        def noted(*args, **kwargs):
            look(*args, **kwargs)
            return original(*args, **kwargs)

        return noted

    # ---------------------------------------------------------------------------------------------------------- gradients
    def noting_backward(self, original):
        @functools.wraps(original)
        def backward(roots, *args, **kwargs):
            self.backwards += 1
            root = roots if isinstance(roots, torch.Tensor) else next(iter(roots), None)
            if getattr(root, "grad_fn", None) is not None and not self.log.quiet:
                mark, node = Mark(), root.grad_fn
                self.marks.append(weakref.ref(mark))
                for _ in range(3):  # what is kept may be the loss before it was scaled, or divided
                    if node is None or type(node).__name__ == "AccumulateGrad":
                        break
                    node.metadata["dlojz"] = mark
                    node = next((each for each, _ in node.next_functions if each is not None), None)
            if not self.log.quiet:
                self.log.note("back", direct=self.direct())
            stale = {}
            for parameter in self.parameters():
                gradient = parameter.grad
                if gradient is None or not self.any(gradient):
                    self.used.pop(id(parameter), None)
                    self.piled.discard(id(parameter))
                elif id(parameter) in self.used:
                    stale[id(parameter)] = (gradient, gradient._version)
            original(roots, *args, **kwargs)
            for parameter in self.parameters():
                gradient, number = parameter.grad, id(parameter)
                if number in stale and (gradient is not stale[number][0] or gradient._version != stale[number][1]):
                    self.piled.add(number)
                if gradient is not None and self.any(gradient):
                    self.filled.add(number)

        return backward

    def direct(self) -> bool:
        """Whether a line of the script itself asks for the backward pass, not a library that it uses."""
        frame, torchs = sys._getframe(2), os.path.dirname(torch.__file__)
        while frame is not None and frame.f_code.co_filename.startswith((torchs, str(KIT))):
            frame = frame.f_back
        return frame is not None and self.log.is_own(frame.f_code.co_filename)

    def parameters(self):
        return [parameter for several in self.watched.values() for parameter in several]

    def any(self, tensor) -> bool:
        with self.log.silence():
            return bool(tensor.detach().count_nonzero())

    def before(self, optimizer, *_):
        if self.log.quiet:
            return
        several = self.watched.get(optimizer)
        if several is None:
            return
        self.was = {"piled": sum(id(p) in self.piled for p in several),
                    "cleared": sum(id(p) in self.filled and (p.grad is None or not self.any(p.grad)) for p in several),
                    "watched": len(several)}

    def after(self, optimizer, *_):
        if self.log.quiet:  # in a run that is compiled they are only counted
            self.number += 1
            return self.finish(0) if self.number >= self.updates else None
        first = optimizer not in self.watched
        if first:
            every = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
            self.watched[optimizer] = every[:: max(1, len(every) // LOOKED_AT)][:LOOKED_AT]
            self.flags()
        self.number += 1
        for parameter in self.watched[optimizer]:
            self.filled.discard(id(parameter))
            self.piled.discard(id(parameter))
            if parameter.grad is not None:
                self.used[id(parameter)] = (parameter.grad, parameter.grad._version)
        enough = self.number >= self.updates
        alive = self.alive()
        if alive > 2:
            gc.collect()  # what only a circle of references holds is no leak
            alive = self.alive()
        was, self.was = getattr(self, "was", None) or {"piled": 0, "cleared": 0, "watched": 0}, None
        settings = [{"decay": float(group.get("weight_decay") or 0), "foreach": group.get("foreach"), "fused": group.get("fused"),
                     "flat": sum(p.dim() < 2 for p in group["params"]), "of": len(group["params"])}
                    for group in optimizer.param_groups]
        if alive > 2 and not self.kept:
            with contextlib.suppress(Exception):  # a script may hold anything
                self.kept = self.keeper()
                self.log.write({"what": "keeper", **self.kept})
        self.log.note("passed", number=self.number, clock=time.perf_counter(), groups=settings,
                      which=list(self.watched).index(optimizer), optimizer=type(optimizer).__name__,
                      has_fused="fused" in optimizer.defaults, alive=alive, passes=max(0, len(self.marks) - 2), **was)
        if enough:
            self.log.note("enough")
            self.finish(0)

    def alive(self) -> int:
        return sum(mark() is not None for mark in self.marks[:-2])

    def keeper(self) -> dict:
        """A variable of the script, or an attribute of one or of a module that it defines, that keeps the graphs of several
        losses, and the line that fills it; empty where none is found."""
        frame, every = sys._getframe(2), []
        while frame is not None:
            file, names = frame.f_code.co_filename, frame.f_locals
            if self.log.is_own(file):
                every += [(file, name, value) for name, value in [*names.items(), *frame.f_globals.items()]]
                every += [(file, f"{owner}.{name}", value) for owner, each in names.items()
                          if not isinstance(each, types.ModuleType) for name, value in getattr(each, "__dict__", {}).items()]
            frame = frame.f_back
        for each in gc.get_objects():  # a trainer of a library holds it
            kind = type(each)
            file = getattr(sys.modules.get(kind.__module__), "__file__", None) if issubclass(kind, torch.nn.Module) else None
            if file and self.log.is_own(file):
                every += [(file, f"{kind.__name__}.{name}", value) for name, value in vars(each).items()]
        found = ((file, name) for file, name, value in every if len(self.marks_in(value)) > 1)
        # Before the variable that holds an object comes the class that fills it, perhaps in another file.
        every = [{"name": name, "file": self.log.name(file), "line": filled(file, name)} for file, name in found]
        return next((one for one in every if one["line"]), next(iter(every), {}))

    @staticmethod
    def marks_in(value) -> set[int]:
        """The backward passes whose graphs this holds."""
        if isinstance(value, dict):
            value = list(value.values())[:MOST]
        some = list(value)[:MOST] if isinstance(value, (list, tuple, set, collections.deque)) else [value]
        waiting = [each.grad_fn for each in some if isinstance(each, torch.Tensor) and each.grad_fn is not None]
        found, seen = set(), set()
        while waiting and len(seen) < MOST:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if type(node).__name__ != "AccumulateGrad" and (mark := node.metadata.get("dlojz")) is not None:
                found.add(id(mark))
            else:
                waiting += [each for each, _ in node.next_functions if each is not None]
        return found

    def flags(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self.log.note("flags", products=told.float32_products(), gpu=torch.cuda.is_available(), cores=cores,
                      gpus=torch.cuda.device_count(), visible=os.environ.get("CUDA_VISIBLE_DEVICES"))

    # ------------------------------------------------------------------------------------------------ scalers, schedules
    def noting_made(self, original):
        @functools.wraps(original)
        def made(scaler, *args, **kwargs):
            asked = inspect.signature(original).bind(scaler, *args, **kwargs).arguments.get("enabled", True)
            original(scaler, *args, **kwargs)
            scaler._dlojz_asked = bool(asked)

        return made

    def noting_scaler(self, original, name):
        def look(scaler, *_, **__):
            if not self.log.quiet:
                self.log.note("scaling", call=name, enabled=scaler.is_enabled(), asked=scaler._dlojz_asked)

        return self.before_it(original, look)

    def noting_schedule(self, original):
        @functools.wraps(original)
        def step(schedule, *args, **kwargs):
            result = original(schedule, *args, **kwargs)
            # The first step of the others is the one of their __init__.
            made = hasattr(schedule, "_dlojz_audited") or isinstance(schedule, lr_scheduler.ReduceLROnPlateau)
            schedule._dlojz_audited = True
            if not self.log.quiet:
                which = {each: place for place, each in enumerate(self.watched)}.get(getattr(schedule, "optimizer", None))
                self.log.note("stepped" if made else "scheduled", kind=type(schedule).__name__, which=which,
                              told=bool(args or kwargs))
            return result

        return step

    def noting_mode(self, original):
        inside = False  # a module sets those in it

        @functools.wraps(original)
        def train(module, mode=True):
            nonlocal inside
            if inside or self.log.quiet:
                return original(module, mode)
            self.log.note("mode", of=self.log.which(module), training=bool(mode))
            inside = True
            try:
                return original(module, mode)
            finally:
                inside = False

        return train

    # ----------------------------------------------------------------------------------------------------- reads, loaders
    def before_call(self, function, args, kwargs):
        if function in READS and args and getattr(args[0], "grad_fn", None) is not None:
            self.log.note("read", how=READS[function])

    def call_within(self, function, args, kwargs, proceed):
        result = proceed()
        if function in MADE and isinstance(result, torch.Tensor) and not self.log.quiet:
            if self.place(result) == "cpu" and self.log.caller()["by"] == "own":
                self.made[id(result)] = weakref.ref(result), MADE[function]
        elif function in (torch.Tensor.to, torch.Tensor.cuda) and args and not self.log.quiet:
            made, how = self.made.pop(id(args[0]), (lambda: None, ""))
            if made() is args[0] and self.place(result) != "cpu":
                self.log.note("carried", how=how)
        return result

    def place(self, tensor) -> str:
        with self.log.silence():
            return self.log.place(tensor)

    def printed(self, text) -> None:
        if isinstance(text, str) and (numbers := DECIMAL.findall(text[:2000])):
            self.log.note("printed", numbers=numbers[:20])

    def noting_fetch(self, original):
        @functools.wraps(original)
        def fetched(fetcher, indices):
            worker, count = get_worker_info(), getattr(fetcher, "_dlojz_fetched", 0)
            if worker is None or count >= FETCHES or self.log.quiet:
                return original(fetcher, indices)
            fetcher._dlojz_fetched = count + 1
            before = streams(fetcher.dataset)
            batch = original(fetcher, indices)
            self.log.write({"what": "drawn", "of": self.log.which(fetcher.dataset), "worker": worker.id, "pid": os.getpid(),
                            "count": count, "seed": worker.seed - worker.id, "before": before, "after": streams(fetcher.dataset)})
            return batch

        return fetched

    def noting_reset(self, original):
        @functools.wraps(original)
        def reset(iterator, *args, **kwargs):
            iterator._dlojz_given = 0
            return original(iterator, *args, **kwargs)

        return reset

    @staticmethod
    def more(iterator, given: int) -> bool:
        """Whether a loader has more than it has given."""
        try:
            return len(iterator) > given
        except (TypeError, NotImplementedError):
            return True

    def may_end(self, frame: types.FrameType) -> bool:
        """Whether who asks for a batch is ready for there being none: a loop is; of a call of next() the function must name
        StopIteration. Of an iterator without an end few do."""
        code = frame.f_code
        asks = "next" in code.co_names and dis.opname[code.co_code[frame.f_lasti]] not in ("FOR_ITER", "SEND")
        return not (asks and self.log.is_own(code.co_filename)) or "StopIteration" in code.co_names

    def noting_next(self, original):
        @functools.wraps(original)
        def following(iterator):
            given, enough = getattr(iterator, "_dlojz_given", 0), (self.updates - 2) // 2  # two passes leave updates for a third
            if not given:
                iterator._dlojz_from = self.number, self.backwards
            number, backwards = iterator._dlojz_from
            done = given if self.backwards == backwards else min(given, self.number - number)
            if done >= enough and self.more(iterator, given) and self.may_end(sys._getframe(1)):
                self.log.note("cut")
                raise StopIteration
            begun = time.perf_counter()
            batch = original(iterator)
            seconds, iterator._dlojz_given = time.perf_counter() - begun, given + 1
            if not self.log.quiet:
                loader, epoch, _ = iterator._place
                self.log.note("waited", of=self.log.which(iterator._dataset), seconds=seconds, cut_out=cut_out(iterator),
                              loader=loader._number, epoch=epoch, batch=given)
            return batch

        return following


def cut_out(iterator) -> bool:
    """Whether a batch is nothing but a part of tensors that are in memory."""
    dataset = iterator._dataset
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return isinstance(dataset, TensorDataset) and iterator._collate_fn is default_collate


def streams(dataset) -> dict[str, int]:
    """Where each source of random numbers is in its stream: the global ones, and those that the data set or its parts hold."""
    found = {"torch": torch.get_rng_state(), "random": random.getstate()}
    if "numpy" in sys.modules:
        found["numpy"] = sys.modules["numpy"].random.get_state()
    waiting, seen = [("dataset", dataset)], 0
    while waiting and seen < 200:
        (name, each), seen = waiting.pop(0), seen + 1
        kind = type(each).__name__
        if kind == "RandomState":
            found[name] = each.get_state()
        elif kind == "Generator" and hasattr(each, "bit_generator"):
            found[name] = each.bit_generator.state
        elif kind == "Generator" and isinstance(each, torch.Generator):
            found[name] = each.get_state()
        elif isinstance(each, random.Random):
            found[name] = each.getstate()
        elif isinstance(each, (list, tuple)) and len(each) < 20:
            waiting += [(name, one) for one in each]
        elif name.count(".") < 3 and not isinstance(each, type):
            waiting += [(f"{name}.{key}", one) for key, one in getattr(each, "__dict__", {}).items() if not key.startswith("__")]
    return {name: zlib.crc32(value.numpy().tobytes() if isinstance(value, torch.Tensor) else
                             b"".join(getattr(part, "tobytes", repr(part).encode)() for part in value)
                             if isinstance(value, tuple) else repr(value).encode()) for name, value in found.items()}


def finish(code: int, own: str = "", ranks: int = 1) -> None:
    """At once: nothing of the script runs after what was asked for, neither its end nor what it has registered for it. A rank
    waits for those that may still read what it sent."""
    if ranks > 1:
        Path(own, f"rank-{os.environ['RANK']}").touch()
        until = time.monotonic() + PATIENCE
        while len(list(Path(own).glob("rank-*"))) < ranks and time.monotonic() < until:
            time.sleep(0.05)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def compiled(log: Log, request: dict) -> None:
    """Run it once more, compiled: nothing but what Dynamo makes of it is noted then, for it leaves alone what others watch."""
    import torch._dynamo.utils

    make = torch.compile
    torch.compile = lambda *args, **options: make(*args, **options | {"backend": "eager", "mode": None, "options": None})
    in_place = torch.nn.Module.compile
    torch.nn.Module.compile = lambda module, *args, **options: in_place(module, backend="eager")

    def ends(code: int) -> None:
        for each in torch._dynamo.utils.get_compilation_metrics():
            number, reason = str(each.compile_id).split("/")[-1], getattr(each, "recompile_reason", None)
            file = each.co_filename or ""
            place = {"file": log.name(file) if log.is_own(file) else file}
            if resumed := re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_(\d+)", each.co_name or ""):
                log.write({"what": "resumed", "line": int(resumed[2]), "name": resumed[1], **place})
            elif number != "0" and reason:
                log.write({"what": "recompiled", "line": each.co_firstlineno, "name": each.co_name, **place,
                           "reason": re.split(r" {2,}|\n", reason.split(": ", 1)[-1])[0].strip()})
            log.write({"what": "captured", "name": each.co_name})
        finish(code)

    log.quiet = True
    Watch(log, request["updates"], ends).install()
    folder.guard(request["own"], lambda path: None)
    with contextlib.suppress(BaseException):
        runpy.run_path(request["script"], run_name="__main__")
    ends(0)


def main() -> None:
    request = json.loads(sys.argv[1])
    with contextlib.suppress(Exception):  # Linux: end with the audit, however that ends
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    script, cwd = request["script"], request["folder"]
    log = Facts(request["facts"], script, cwd, os.getcwd())
    log.place = lambda tensor: str(tensor.device)
    sys.dont_write_bytecode = True
    os.chdir(cwd)
    sys.argv, sys.path[0] = [request["shown"], *request["arguments"]], os.path.dirname(script)
    if request["path"] is None:  # ours is not for what the script starts
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = request["path"]
    if request["compiled"]:
        return compiled(log, request)
    ranks, gpus = request["ranks"], request["gpus"]
    options = {"marks": "inputs" if ranks > 1 else False, "gpus": gpus, "wait": False}
    names = [*OBSERVERS, *(["collectives"] if ranks > 1 else [])]
    ends = functools.partial(finish, own=request["own"], ranks=ranks)
    watchers = [*(observe.load(name)(log, options) for name in names), Watch(log, request["updates"], ends)]
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        watchers.append(pretend.Observer(log, gpus))
    for each in watchers:
        each.install()

    def saving(_, file=None, *__, **___):
        if isinstance(file, (str, os.PathLike)):
            folder.own(file, request["own"])
            log.note("kept", path=os.path.realpath(file))

    torch.save = Watch.before_it(torch.save, saving)
    folder.guard(request["own"], lambda path: log.note("wrote", path=path))
    code = 1
    try:
        with Operations(log, watchers), Calls(log, watchers):
            runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = exit_code(stop)
    except BaseException as failure:
        traceback.print_exc()
        log.write(error(failure, log) | {"frames": [f.filename for f in traceback.extract_tb(failure.__traceback__)][-1:],
                                         "kinds": [kind.__name__ for kind in type(failure).__mro__]})
    log.write({"what": "end", "step": log.step, "code": code})
    finish(code)


if __name__ == "__main__":
    main()
