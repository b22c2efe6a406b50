"""The process that runs the script: as ``python SCRIPT ARGS`` would, with the observers of the probe and one of its own.
With ranks there are several, each started as torchrun would start it.

``passed``, piled (how many of the looked-at
                 gradients have, since the last update, been added to what that update had used), cleared (how many were not zero
                 after the backward pass, and are zero or missing now)
``mode``         the script sets a module to training or to eval mode: of (which module), training
``back``         a backward pass begins: direct (whether the script itself asks for it, not a library)
``scaling``      a call of a gradient scaler, enabled or not: call, enabled, asked (whether it was made to be enabled)
``clipping``     gradients are clipped, by norm or by value
``scheduled`` ``stepped``  a learning rate schedule is made, is stepped: kind
``read``         a value that belongs to a graph is read by the host: how
``cut``          a pass over a loader was ended early
``kept``         torch.save writes a file: path
``wrote``        a file outside of the audit's own folder was opened to be written: path
``flags``        float32 products, whether there is a GPU, cores, and which GPUs this process may see
``enough``       all updates that were asked for have been seen
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import json
import os
import runpy
import sys
import time
import traceback
import weakref
from pathlib import Path

import torch
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import dataloader

from ..probe import observe, pretend
from ..probe.log import KIT, Log, error
from ..probe.modes import Calls, Operations
from ..probe.observe import told
from . import folder

OBSERVERS = ("layers", "sampling", "precision", "compiling", "transfers")
LOOKED_AT = 6  # parameters of an optimizer
PATIENCE = 10.0  # seconds that a rank waits for the others
READS = {getattr(torch.Tensor, name): name for name in ("item", "tolist", "__float__", "__bool__", "__format__", "__repr__")}


class Mark:
    """Lies in the graph of a backward pass, and is gone when the graph is."""


class Watch:
    """The observer of the audit: it knows optimizers, graphs, scalers and loaders, whoever calls them."""

    def __init__(self, log: Log, updates: int, finish):
        self.log, self.updates, self.finish = log, updates, finish
        self.number = 0
        self.marks: list[weakref.ref] = []
        self.used: dict[int, tuple] = {}  # by parameter: gradient and version that an update has used
        self.piled: set[int] = set()
        self.filled: set[int] = set()
        self.watched: dict[int, list] = {}  # parameters, by optimizer

    def install(self) -> None:
        register_optimizer_step_pre_hook(self.before)
        register_optimizer_step_post_hook(self.after)
        torch.autograd.backward = self.noting_backward(torch.autograd.backward)
        for name in ("unscale_", "step", "update"):
            setattr(torch.amp.GradScaler, name, self.noting_scaler(getattr(torch.amp.GradScaler, name), name))
        torch.amp.GradScaler.__init__ = self.noting_made(torch.amp.GradScaler.__init__)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            clip = self.before_it(getattr(torch.nn.utils, name), lambda *_, **__: self.log.note("clipping"))
            setattr(torch.nn.utils, name, clip)
            setattr(torch.nn.utils.clip_grad, name, clip)
        for kind in vars(lr_scheduler).values():
            if inspect.isclass(kind) and "step" in vars(kind):
                kind.step = self.noting_schedule(kind.step)
        torch.nn.Module.train = self.noting_mode(torch.nn.Module.train)
        given = dataloader._BaseDataLoaderIter
        given._reset, given.__next__ = self.noting_reset(given._reset), self.noting_next(given.__next__)

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
            root = roots if isinstance(roots, torch.Tensor) else next(iter(roots), None)
            if getattr(root, "grad_fn", None) is not None and not self.log.quiet:
                mark = Mark()
                root.grad_fn.metadata["dlojz"] = mark
                self.marks.append(weakref.ref(mark))
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
        several = self.watched.get(id(optimizer))
        if several is None:
            return
        self.was = {"piled": sum(id(p) in self.piled for p in several),
                    "cleared": sum(id(p) in self.filled and (p.grad is None or not self.any(p.grad)) for p in several),
                    "watched": len(several)}

    def after(self, optimizer, *_):
        if self.log.quiet:
            return
        first = id(optimizer) not in self.watched
        if first:
            every = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
            self.watched[id(optimizer)] = every[:: max(1, len(every) // LOOKED_AT)][:LOOKED_AT]
            self.flags()
        self.number += 1
        for parameter in self.watched[id(optimizer)]:
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
        self.log.note("passed", number=self.number, which=list(self.watched).index(id(optimizer)), groups=settings,
                      optimizer=type(optimizer).__name__, has_fused="fused" in optimizer.defaults, alive=alive,
                      passes=max(0, len(self.marks) - 2), **was)
        if enough:
            self.log.note("enough")
            self.finish(0)

    def alive(self) -> int:
        return sum(mark() is not None for mark in self.marks[:-2])

    def flags(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self.log.note("flags", products=told.float32_products(), gpu=torch.cuda.is_available(), cores=cores,
                      visible=os.environ.get("CUDA_VISIBLE_DEVICES"))

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
            made = hasattr(schedule, "_dlojz_audited")  # the first step is the one of its __init__
            schedule._dlojz_audited = True
            if not self.log.quiet:
                self.log.note("stepped" if made else "scheduled", kind=type(schedule).__name__)
            return result

        return step

    def noting_mode(self, original):
        inside = False  # a module sets those in it

        @functools.wraps(original)
        def train(module, mode=True):
            nonlocal inside
            if inside or self.log.quiet:
                return original(module, mode)
            self.log.note("mode", of=id(module), training=bool(mode))
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

    def noting_reset(self, original):
        @functools.wraps(original)
        def reset(iterator, *args, **kwargs):
            iterator._dlojz_given = 0
            return original(iterator, *args, **kwargs)

        return reset

    def noting_next(self, original):
        @functools.wraps(original)
        def following(iterator):
            given = getattr(iterator, "_dlojz_given", 0)
            if given >= self.updates // 2:
                self.log.note("cut")
                raise StopIteration
            batch = original(iterator)
            iterator._dlojz_given = given + 1
            return batch

        return following


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


def main() -> None:
    request = json.loads(sys.argv[1])
    script, cwd = request["script"], request["folder"]
    log = Log(request["facts"], script, os.path.dirname(script), os.path.dirname(torch.__file__))
    log.place = lambda tensor: str(tensor.device)
    sys.dont_write_bytecode = True
    os.chdir(cwd)
    sys.argv, sys.path[0] = [request["shown"], *request["arguments"]], os.path.dirname(script)
    if request["path"] is None:  # ours is not for what the script starts
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = request["path"]
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
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as failure:
        traceback.print_exc()
        log.write(error(failure, log) | {"frames": [f.filename for f in traceback.extract_tb(failure.__traceback__)][-1:],
                                         "kinds": [kind.__name__ for kind in type(failure).__mro__]})
    log.write({"what": "end", "step": log.step, "code": code})
    finish(code)


if __name__ == "__main__":
    main()
