"""Traces of a GPU that does not exist: a program of what the CPU does is run on a simulated clock, its kernels on streams.

Nothing is drawn by hand: a test says what the CPU does (operators, launches, waits, copies) and how long each kernel takes, and
who waits for whom comes out of the simulation, by CUDA's rules:

- a launch takes the CPU some microseconds; the kernel starts when it has arrived and the work before it on its stream is over;
- at most `QUEUE` launches are pending: the next one blocks the CPU until one of them is over;
- a synchronisation returns when the stream (or the device) has done all that was queued before;
- a copy from pageable memory holds the CPU until it is over; from pinned memory it does not;
- a stream that waits for an event starts nothing before that event has come.

The file has the layout that Kineto writes.
"""

import gzip
import heapq
import json
from contextlib import contextmanager
from pathlib import Path

LAUNCH = 5.0  # µs of the CPU for cudaLaunchKernel
LATENCY = 4.0  # µs from the launch until an idle GPU starts
SWITCH = 1.0  # µs between two kernels of a stream
RETURN = 3.0  # µs until a synchronisation has noticed and returned
QUEUE = 1024
PCIE = {"Pinned": 25e3, "Pageable": 6e3}  # bytes a µs
MAIN, AUTOGRAD, PID = 4242, 4300, 4242
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85028765696, "computeMajor": 9, "computeMinor": 0}

GEMM_FP32 = ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(cutlass_80_simt_sgemm_256x128_8x4_nn_align1::"
             "Params)")
GEMM_TC = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT"
CONV_TC = ("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1_g1_execute_"
           "segment_k_off_kernel__5x_cudnn")
CONV_FP32 = ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x128x8_stage3_warpsize2x2x1_g1_ffma_"
             "aligna4_alignc4_execute_kernel__5x_cudnn")
ADD = ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, "
       "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)")
RELU = ("void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::launch_clamp_scalar(at::"
        "TensorIteratorBase&, c10::Scalar, c10::Scalar, at::native::detail::ClampLimits)::{lambda()#1}::operator()() const>")
NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct, float const*, float)"
LAYOUT = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, true, false, (cudnnKernelDataType_t)0>(cudnn::ops)"
FOREACH = ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
           "TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 2, 1, 1>, float>")
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Gpu:
    """``now`` is the CPU's clock in µs. Each method does what a line of a training loop would."""

    def __init__(self, launch: float = LAUNCH, device: dict = H100, world: int = 1):
        self.launch_us, self.device, self.world = launch, device, world
        self.now, self.thread = 1000.0, MAIN
        self.free: dict[int, float] = {7: 0.0}  # when each stream has done what it was given
        self.pending: list[float] = []  # ends of what was queued, as a heap
        self.events: list[dict] = []
        self.ids = 0

    # --- what a program is made of -----------------------------------------------------------------------------------

    def work(self, us: float) -> None:
        """The CPU does something of its own: Python."""
        self.now += us

    @contextmanager
    def op(self, name: str, us: float = 4.0, dims=None, types=None, inputs=None):
        """An operator: half of ``us`` goes before what is in it, half after."""
        event = self._begin("cpu_op", name)
        if dims is not None:
            event["args"] |= {"Input Dims": dims, "Input type": types or ["float"] * len(dims), "Concrete Inputs": inputs or []}
        self.now += us / 2
        yield
        self.now += us / 2
        self._end(event)

    @contextmanager
    def range(self, name: str):
        event = self._begin("user_annotation", name)
        yield
        self._end(event)

    @contextmanager
    def python(self, name: str):
        event = self._begin("python_function", name)
        yield
        self._end(event)

    @contextmanager
    def autograd(self):
        """What is in here runs on the thread of the backward pass."""
        self.thread = AUTOGRAD
        yield
        self.thread = MAIN

    def kernel(self, name: str, us: float, stream: int = 7, after: float = 0.0, **args) -> float:
        """Launch a kernel; returns when it will be over. ``after``: it also waits for this moment (an event)."""
        while len(self.pending) >= QUEUE:
            self.now = max(self.now, heapq.heappop(self.pending))
        call = self._call("cudaLaunchKernel", self.launch_us)
        begin = max(self.now + LATENCY, self.free.get(stream, 0.0) + SWITCH, after)
        args = {"device": 0, "context": 1, "stream": stream, "correlation": call, "grid": [132, 1, 1], **args}
        return self._queued("kernel", name, stream, begin, us, args)

    def copy(self, size: int, memory: str = "Pageable", direction: str = "HtoD", stream: int = 7) -> None:
        way = f"{memory} -> Device" if direction == "HtoD" else f"Device -> {memory}"
        held = memory == "Pageable"
        begun = self.now
        self.now += self.launch_us
        begin = max(self.now + LATENCY, self.free.get(stream, 0.0) + SWITCH)
        self.ids += 1
        args = {"device": 0, "context": 1, "stream": stream, "correlation": self.ids, "bytes": size}
        end = self._queued("gpu_memcpy", f"Memcpy {direction} ({way})", stream, begin, max(1.0, size / PCIE[memory]), args)
        if held:
            self.now = max(self.now, end + RETURN)
        self._add("cuda_runtime", "cudaMemcpyAsync", begun, self.now - begun, correlation=self.ids, cbid=41)

    def sync(self, stream: int | None = 7) -> None:
        """cudaStreamSynchronize, or cudaDeviceSynchronize with None."""
        begun = self.now
        over = self.free.get(stream, 0.0) if stream is not None else max(self.free.values())
        self.now = max(self.now + 1.0, over + RETURN)
        self.ids += 1
        name = "cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize"
        self._add("cuda_runtime", name, begun, self.now - begun, correlation=self.ids, cbid=131)

    def item(self) -> None:
        """tensor.item()"""
        with self.op("aten::item", 2), self.op("aten::_local_scalar_dense", 2):
            self.copy(4, "Pageable", "DtoH")
            self.sync()

    def load(self, us: float) -> None:
        """Wait for the DataLoader."""
        with self.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            self.now += us

    def all_reduce(self, elements: int, us: float, after: float | None = None, stream=20, name="allreduce") -> float:
        """An NCCL kernel on a stream of its own, after what was queued on stream 7; returns when it will be over."""
        args = {"Collective name": name, "In msg nelems": elements, "Out msg nelems": elements, "Group size": self.world,
                "dtype": "Float"}
        with self.op("c10d::allreduce_", 3), self.op("record_param_comms", 3):
            return self.kernel(ALLREDUCE, us, stream, self.free[7] if after is None else after, **args)

    def wait(self, moment: float, stream: int = 7) -> None:
        """The stream goes on after this moment only (cudaStreamWaitEvent)."""
        self.free[stream] = max(self.free.get(stream, 0.0), moment)

    def steps(self, count: int, body, first: int = 8) -> "Gpu":
        """``body(gpu)`` in ``count`` steps as torch.profiler marks them."""
        for number in range(first, first + count):
            with self.range(f"ProfilerStep#{number}"):
                body(self)
        self.sync(None)  # as the profiler does when it stops
        return self

    # --- the clock and the file --------------------------------------------------------------------------------------

    def _begin(self, category: str, name: str) -> dict:
        return self._add(category, name, self.now, 0.0)

    def _end(self, event: dict) -> None:
        event["dur"] = self.now - event["ts"]

    def _add(self, category: str, name: str, begin: float, us: float, **args) -> dict:
        event = {"ph": "X", "cat": category, "name": name, "pid": PID, "tid": self.thread, "ts": begin, "dur": us, "args": args}
        if category in ("cpu_op", "user_annotation"):
            event["args"]["External id"] = len(self.events) + 1
        self.events.append(event)
        return event

    def _call(self, name: str, us: float) -> int:
        self.ids += 1
        self._add("cuda_runtime", name, self.now, us, correlation=self.ids, cbid=211)
        self.now += us
        return self.ids

    def _queued(self, category: str, name: str, stream: int, begin: float, us: float, args: dict) -> float:
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": begin, "dur": us,
                            "args": args})
        self.free[stream] = begin + us
        heapq.heappush(self.pending, begin + us)
        while self.pending and self.pending[0] <= self.now:
            heapq.heappop(self.pending)
        return begin + us

    def device_spans(self, *categories: str) -> list[tuple[float, float]]:
        return [(event["ts"], event["ts"] + event["dur"]) for event in self.events if event["cat"] in categories]

    def write(self, path: Path) -> Path:
        """The trace as a file, packed where its name ends in .gz."""
        backend = {"backend": "nccl", "rank": 0, "world_size": self.world}
        header = {"schemaVersion": 1, "deviceProperties": [self.device], "cuda_runtime_version": 12080,
                  **({"distributedInfo": backend} if self.world > 1 else {}), "displayTimeUnit": "ms", "baseTimeNanoseconds": 0}
        name = {"name": "thread_name", "ph": "M", "ts": 0, "pid": PID, "tid": MAIN, "args": {"name": f"thread {MAIN} (python)"}}
        events = [name, *sorted(self.events, key=lambda event: event["cat"])]
        between = ",\n"
        text = f"""{json.dumps(header, indent=2)[:-2]},
  "traceEvents": [
{between.join(json.dumps(event, indent=2) for event in events)}
  ],
  "traceName": "t.json"
}}
"""
        path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())
        return path
