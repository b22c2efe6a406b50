"""GPUs that are not there, played by the CPU's memory: what a script does with devices can be seen on any machine.

Each tensor has a device in name: its storage is marked, or it is on the CPU. Moving copies and marks, operations hand the
mark on, and an operation on tensors of different devices raises what torch raises. Values are real, so a script trains as it
would. What only a real GPU can show is its speed, its memory and its kernels.
"""

from __future__ import annotations

import contextlib
import time
import types

import torch
import torch.utils._device
from torch.cuda._utils import _get_device_index
from torch.multiprocessing.reductions import StorageWeakRef

from .modes import tensors

MIXING = ("_to_copy", "copy_", "_foreach_copy_", "index", "index_put_", "_index_put_impl_", "record_stream", "set_")
NO_KERNEL = ("histogram", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors")  # of CUDA
GIGABYTE = 2**30


class Marks:
    """Which storages are on which GPU. A weak reference keeps the address of a freed storage from being used again."""

    def __init__(self):
        self._marks: dict[int, tuple[StorageWeakRef, int]] = {}
        self._sweep_at = 2000

    def __bool__(self):
        return bool(self._marks)

    def get(self, tensor) -> int | None:
        """The GPU's number; None on the CPU."""
        try:
            mark = self._marks.get(_storage(tensor)._cdata)
        except (NotImplementedError, RuntimeError):
            return None
        return None if mark is None or mark[0].expired() else mark[1]

    def set(self, tensor, gpu: int | None) -> None:
        storage = _storage(tensor)
        if gpu is None:
            self._marks.pop(storage._cdata, None)
            return
        self._marks[storage._cdata] = (StorageWeakRef(storage), gpu)
        if len(self._marks) > self._sweep_at:
            self._marks = {key: mark for key, mark in self._marks.items() if not mark[0].expired()}
            self._sweep_at = max(2000, 2 * len(self._marks))


class Observer:
    """``count`` GPUs. It stands last among the observers: they see an operation that it refuses."""

    def __init__(self, log, count: int):
        self.log = log
        self.count = count
        self.current = 0
        self.inside: int | None = None  # the GPU of the tensors given to the function of torch that runs
        self.marks = Marks()
        log.place = self.place
        observer = self

        class Move(torch.autograd.Function):
            @staticmethod
            def forward(ctx, tensor, gpu):
                ctx.source = observer.marks.get(tensor)
                return observer.marked_copy(tensor, gpu)

            @staticmethod
            def backward(ctx, gradient):
                with observer.log.silence():
                    return observer.marked_copy(gradient, ctx.source), None

        self.move = Move.apply
        get = torch.Tensor
        self.answers = {
            get.device.__get__: lambda tensor: self.device(tensor),
            get.is_cuda.__get__: lambda tensor: self.marks.get(tensor) is not None,
            get.is_cpu.__get__: lambda tensor: self.marks.get(tensor) is None,
            get.get_device: lambda tensor: -1 if self.marks.get(tensor) is None else self.marks.get(tensor),
            get.cuda: lambda tensor, device=None, non_blocking=False, **_: self.moved(tensor, self.index(device), non_blocking),
            get.cpu: lambda tensor, *_, **__: self.moved(tensor, None),
            get.to: self.to,
            get.numpy: self.numpy,
            get.pin_memory: self.pin_memory,
            get.is_pinned: lambda tensor, *_: False,
            get.record_stream: lambda tensor, *_: None,
            torch.nn.functional.one_hot: self.one_hot,
        }
        self.as_they_are = {torch.device, torch._C._nn._parse_to, torch.get_device_module}
        self.with_hooks = {get.backward, torch.autograd.grad}  # a user's code runs in them

    # ------------------------------------------------------------------------------------------------------- torch's calls
    def call(self, function, args, kwargs):
        """What torch's function would give, were there GPUs."""
        if function in self.answers:
            return self.answers[function](*args, **kwargs)
        if function in self.as_they_are:
            return function(*args, **kwargs)
        kwargs = dict(kwargs)
        kwargs.pop("pin_memory", None)
        device = kwargs.get("device")
        if device is None and function in _factories():
            device = torch.utils._device.CURRENT_DEVICE  # `with torch.device(…)`, torch.set_default_device
        if device is None:
            device = next((value for value in args if isinstance(value, torch.device)), None)
        if device is None:
            return self.where_they_are(function, args, kwargs)
        gpu = self.gpu(device)
        args = [torch.device("cpu") if isinstance(value, torch.device) else value for value in args]
        if "device" in kwargs or function in _factories():
            kwargs["device"] = torch.device("cpu")
        result = function(*args, **kwargs)
        with self.log.silence():
            given = {_storage(t)._cdata for t in tensors([*args, *kwargs.values()])}
            for tensor in tensors(result):
                if _storage(tensor)._cdata not in given:
                    self.marks.set(tensor, gpu)
                elif self.marks.get(tensor) != gpu:
                    return self.moved(tensor, gpu)
        return result

    def where_they_are(self, function, args, kwargs):
        """Calls a function which says no device: what it makes on the way is where its tensors are."""
        if function not in self.with_hooks:
            with self.log.silence():
                gpus = map(self.marks.get, tensors([*args, *kwargs.values()]))
                self.inside = next((gpu for gpu in gpus if gpu is not None), None)
        try:
            return function(*args, **kwargs)
        finally:
            self.inside = None

    def to(self, tensor, *args, **kwargs):
        args, target = list(args), "same"
        flags = (value for value in args if type(value) is bool)  # the first of them, whatever stands before it
        non_blocking = kwargs["non_blocking"] if "non_blocking" in kwargs else next(flags, False)
        for i, value in enumerate(args):
            if isinstance(value, (torch.device, str)) or (type(value) is int):
                target, args[i] = self.gpu(value), torch.device("cpu")
            elif isinstance(value, torch.Tensor):
                target = self.marks.get(value)
        if kwargs.get("device") is not None:
            target, kwargs["device"] = self.gpu(kwargs["device"]), torch.device("cpu")
        if isinstance(kwargs.get("other"), torch.Tensor):
            target = self.marks.get(kwargs["other"])
        if target != "same":
            tensor = self.moved(tensor, target, non_blocking)
        return torch.Tensor.to(tensor, *args, **kwargs)

    def numpy(self, tensor, *args, **kwargs):
        if self.marks.get(tensor) is not None:
            raise TypeError(f"can't convert {self.place(tensor)} device type tensor to numpy. "
                            "Use Tensor.cpu() to copy the tensor to host memory first.")
        return torch.Tensor.numpy(tensor, *args, **kwargs)

    def pin_memory(self, tensor, *_):
        if self.marks.get(tensor) is not None:
            kind = torch.Tensor.type(tensor).replace("torch.", "torch.cuda.")
            raise RuntimeError(f"cannot pin '{kind}' only dense CPU tensors can be pinned")
        return tensor

    def one_hot(self, input, num_classes=-1):
        """The CPU reads the smallest label and the largest one; a GPU reads something only where it has to count classes."""
        gpu = self.marks.get(input)
        with self.log.silence() if gpu is not None and num_classes != -1 else contextlib.nullcontext():
            made = self.where_they_are(torch.nn.functional.one_hot, (input, num_classes), {})
        self.marks.set(made, gpu)
        return made

    def moved(self, tensor, gpu: int | None, non_blocking: bool = False):
        """The tensor on that device: itself where it is there already, else a copy that gradients flow through."""
        source = self.marks.get(tensor)
        if source == gpu:
            return tensor
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.log.note("move", source=_name(source), target=_name(gpu), shape=list(tensor.shape), dtype=dtype,
                      non_blocking=bool(non_blocking))
        with self.log.silence():
            return self.move(tensor, gpu)

    def marked_copy(self, tensor, gpu):
        copy = tensor.clone()
        self.marks.set(copy, gpu)
        return copy

    # --------------------------------------------------------------------------------------------------------- operations
    def before_op(self, operation, args, kwargs):
        name = operation.overloadpacket.__name__
        if name in MIXING:
            if name.startswith(("index_put", "_index_put")):  # the indices may be elsewhere, what is put may not
                self.together([args[0], args[2]], name)
            return
        if name in NO_KERNEL and any(self.marks.get(tensor) is not None for tensor in tensors(args)):
            raise NotImplementedError(f"torch has no `{name}` for GPUs: it computes that on the CPU alone")
        given = [value for name, value in kwargs.items() if name != "out"]  # DDP's buckets are made where nothing is marked
        self.together([*args, *given], name)

    def together(self, given, name):
        with self.log.silence():
            found = {}
            for tensor in tensors(given):
                gpu = self.marks.get(tensor)
                if gpu is not None or tensor.dim():  # a number on the CPU goes with everything
                    found.setdefault(gpu)
        if len(found) > 1:
            names = " and ".join(sorted((_name(gpu) for gpu in found), reverse=True))
            same = "Expected all tensors to be on the same device, but found at least two devices"
            raise RuntimeError(f"{same}, {names}! ({name})")

    def after_op(self, operation, args, kwargs, result):
        with self.log.silence():
            gpus = [self.marks.get(tensor) for tensor in tensors([*args, *kwargs.values()])] or [self.inside]
            copied = operation.overloadpacket.__name__ == "copy_"  # what it returns is on the device of its first tensor
            gpu = gpus[0] if copied else next((number for number in gpus if number is not None), None)
            if gpu is not None:
                for tensor in tensors(result):
                    if self.marks.get(tensor) is None:
                        self.marks.set(tensor, gpu)

    # ------------------------------------------------------------------------------------------------------------- devices
    def device(self, tensor):
        gpu = self.marks.get(tensor)
        return torch.device("cpu") if gpu is None else torch.device("cuda", gpu)

    def place(self, tensor) -> str:
        return _name(self.marks.get(tensor))

    def gpu(self, device) -> int | None:
        """The number of the GPU that is meant; None for the CPU."""
        if type(device) is int:
            return self.checked(device)
        device = torch.device(device)
        if device.type != "cuda":
            return None
        return self.index(device)

    def index(self, device=None) -> int:
        return self.checked(self.current if device is None else _number(device, self.current))

    def checked(self, number: int) -> int:
        if not 0 <= number < self.count:
            raise RuntimeError(f"CUDA error: invalid device ordinal (there is no GPU {number} here, there are {self.count})")
        return number

    # --------------------------------------------------------------------------------------------------------- torch.cuda
    def install(self):
        cuda = torch.cuda
        same = {
            "is_available": True, "device_count": self.count, "is_bf16_supported": True, "is_initialized": False, "init": None,
            "is_current_stream_capturing": False,
            "reset_peak_memory_stats": None, "manual_seed": None, "manual_seed_all": None,
            "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0, "memory_stats": {},
            "mem_get_info": (GIGABYTE, GIGABYTE), "get_device_name": "simulated GPU", "get_device_capability": (8, 0),
        }
        for name, value in same.items():
            setattr(cuda, name, lambda *_, _value=value, **__: _value)
        properties = types.SimpleNamespace(name="simulated GPU", total_memory=GIGABYTE, major=8, minor=0, multi_processor_count=1)
        cuda.get_device_properties = lambda device=None: properties
        cuda.current_device = lambda: self.current
        cuda.set_device = self.set_device
        cuda.synchronize = lambda *_, **__: self.log.note("sync", how="synchronize", device=_name(self.current))
        cuda.empty_cache = lambda: self.log.note("sync", how="empty_cache", device=_name(self.current))
        cuda.get_rng_state = lambda *_: torch.get_rng_state()
        cuda.set_rng_state = lambda *_: None
        cuda.Event, cuda.Stream, cuda.device = Event, Stream, self.device_context()
        cuda.current_stream = cuda.default_stream = lambda *_: Stream()
        cuda.stream = contextlib.nullcontext
        self.install_accelerator()
        self.install_others()

    def install_accelerator(self):
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is None:
            return
        here = {"is_available": lambda: True, "device_count": lambda: self.count, "current_device_index": lambda: self.current,
                "current_accelerator": lambda *_, **__: torch.device("cuda"), "set_device_index": self.set_device,
                "synchronize": torch.cuda.synchronize, "current_stream": lambda *_: Stream()}
        for name, value in here.items():
            if hasattr(accelerator, name):
                setattr(accelerator, name, value)

    def install_others(self):
        region, loader = torch.autocast.__init__, torch.utils.data.DataLoader.__init__

        def autocast(context, device_type, dtype=None, enabled=True, cache_enabled=None):
            if device_type == "cuda":
                dtype = dtype or torch.get_autocast_dtype("cuda")
            elif self.marks:
                enabled = False  # it is for operations on the CPU, and leaves those on a GPU alone
            region(context, "cpu", dtype, enabled, cache_enabled)
            context.asked = device_type

        def without_pinning(itself, *args, **kwargs):
            loader(itself, *args, **kwargs)
            itself.pin_memory = False

        torch.autocast.__init__, torch.utils.data.DataLoader.__init__ = autocast, without_pinning

    def set_device(self, device):
        self.log.note("set_device", device=str(device))
        number = _get_device_index(device)  # torch's own: a device without a number is refused
        if number >= 0:
            self.current = self.checked(number)

    def device_context(self):
        observer = self

        class Device:
            def __init__(self, device):
                self.idx = observer.index(device)

            def __enter__(self):
                self.before, observer.current = observer.current, self.idx

            def __exit__(self, *_):
                observer.current = self.before

        return Device


class Event:
    """A CUDA event, for timing."""

    def __init__(self, *_, **__):
        self.time = None

    def record(self, *_):
        self.time = time.perf_counter()

    def elapsed_time(self, other) -> float:
        return (other.time - self.time) * 1000

    def synchronize(self):
        pass

    def wait(self, *_):
        pass

    def query(self) -> bool:
        return True


class Stream:
    """The one stream on which everything is done at once."""

    def __init__(self, *_, **__):
        pass

    def synchronize(self):
        pass

    def is_capturing(self) -> bool:
        return False

    def wait_stream(self, _):
        pass

    def wait_event(self, _):
        pass

    def record_event(self, event=None):
        event = event or Event()
        event.record()
        return event


def _storage(tensor):
    return (tensor._values() if tensor.layout is torch.sparse_coo else tensor).untyped_storage()


def _name(gpu: int | None) -> str:
    return "cpu" if gpu is None else f"cuda:{gpu}"


def _number(device, current: int) -> int:
    if type(device) is int:
        return device
    number = torch.device(device).index
    return current if number is None else number


def _factories():
    return torch.utils._device._device_constructors()
