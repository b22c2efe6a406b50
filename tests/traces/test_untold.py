"""Traces that do not tell why a step is not faster: what is missing is said, and none of the six patterns is picked."""

import gzip
import json

import pytest

from dlojz import traces, views
from dlojz.traces import untold

CARD = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8}]}
STEP = 10_000  # microseconds
SETS = 20  # operators, launches and kernels of a step


def event(cat, name, begin, length, pid=1, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": begin, "dur": length, "args": args}


def run(kernel=0, op="aten::mm", runtime="cuda_runtime", launch="cudaLaunchKernel", pid=1, device=0, ahead=True, steps=4):
    """Steps of `SETS` operators of 400 us, each of which launches a kernel of ``kernel`` us (0: none is recorded).

    ``ahead``: all launches of a step come at once, so that all its kernels but the first are queued long before they run.
    """
    out, number = [], 1000 * device + 100_000 * pid
    for step in range(steps):
        start = 1_000_000 + step * STEP
        out.append(event("user_annotation", f"ProfilerStep#{step + 3}", start, STEP, pid))
        for at in range(SETS):
            number += 1
            begin = start + at * (20 if ahead else STEP // SETS)
            out.append(event("cpu_op", op, begin, 18 if ahead else 400, pid))
            if launch:
                out.append(event(runtime, launch, begin + 1, 10, pid, correlation=number))
            if kernel:
                out.append(event("kernel", "ampere_sgemm_128x64_nn", start + 450 + at * (STEP // SETS - 5), kernel, device, 7,
                                 correlation=number, device=device, stream=7))
    return out


def told(tmp_path, events, header=CARD, name="trace.json"):
    text = json.dumps({**header, "traceEvents": events}).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    trace = traces.read(tmp_path / name)
    return trace, traces.diagnose(trace)


def is_untold(verdict, why):
    assert verdict.pattern == untold.PATTERN and verdict.pattern not in traces.PATTERNS
    assert "this trace does not tell" in str(verdict) and any(why in line for line in verdict.evidence), verdict
    assert len(verdict.next) == 2


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
@pytest.mark.parametrize("how", [{}, {"op": "aten::cudnn_convolution", "launch": ""}, {"launch": "hipLaunchKernel"},
                                 {"launch": "cuLaunchKernelEx", "runtime": "cuda_driver"}])
def test_a_gpu_whose_kernels_are_missing(tmp_path, how, name):
    trace, verdict = told(tmp_path, run(ahead=False, **how), name=name)
    is_untold(verdict, "the work of the GPU is not in it")
    assert trace.device == "NVIDIA A100-SXM4-80GB"
    text = str(views.trace(tmp_path / name))
    assert "on NVIDIA A100-SXM4-80GB" in text and "where the CPU has instructions" not in text
    assert "this trace does not tell" in views.trace(tmp_path / name)._repr_html_()


def test_a_cpu_beside_a_card_is_still_a_cpu(tmp_path):
    trace, verdict = told(tmp_path, run(launch="", ahead=False))
    assert trace.device == "CPU" and verdict.pattern == "arithmetic"
    waits = [event("cuda_runtime", "cudaDeviceSynchronize", 1_000_000 + 4 * STEP, 5)]
    assert told(tmp_path, run(launch="", ahead=False) + waits)[0].device == "CPU", "the profiler itself makes this call"


def test_a_gpu_that_stands_still_with_work_queued(tmp_path):
    _, verdict = told(tmp_path, run(kernel=170))
    is_untold(verdict, "the GPU stands still between kernels although the next one is queued")
    assert verdict.share == pytest.approx(0.65, abs=0.03) and "more GPUs" not in str(verdict)
    assert told(tmp_path, run(kernel=480))[1].pattern == "arithmetic", "one that is busy is told"


def test_kernels_whose_launches_are_missing(tmp_path):
    _, verdict = told(tmp_path, run(kernel=170, launch=""))
    is_untold(verdict, "are not recorded")


def test_two_ranks_in_one_file(tmp_path):
    trace, verdict = told(tmp_path, run(kernel=170) + run(kernel=170, pid=2, device=1))
    is_untold(verdict, "it holds the operators of 2 processes")
    assert any("holds the work of 2 processes" in note for note in trace.notes)
    is_untold(told(tmp_path, run(launch="") + run(launch="", pid=2), {})[1], "it holds the operators of 2 processes")
    # In containers both may be process 1, and each may have its GPU as number 0.
    for both, header in ((run(kernel=170) + run(kernel=170, device=1), CARD), (run(kernel=480) + run(kernel=480), CARD),
                         (run(launch="", ahead=False) * 2, {})):
        trace, verdict = told(tmp_path, both, header)
        is_untold(verdict, "4 of its steps are in it twice or more")
        assert any("holds the work of several processes" in note for note in trace.notes)
    both = [each for each in run(kernel=170) + run(kernel=170, device=1) if not each["name"].startswith("ProfilerStep")]
    is_untold(told(tmp_path, both)[1], "it holds the kernels of 2 GPUs")


@pytest.mark.parametrize("how, kind", [
    ({"runtime": "xpu_runtime", "launch": "urEnqueueKernelLaunch", "kernel": 100}, "xpu"),
    ({"runtime": "privateuse1_runtime", "launch": "aclrtLaunchKernel"}, "privateuse1"),
    ({"op": "npu::npu_format_cast", "launch": ""}, "npu"),
    ({"runtime": "mtia_runtime", "launch": "run"}, "mtia"),
    ({"op": "hpu::cast", "launch": ""}, "hpu"),
])
def test_a_device_that_is_not_known(tmp_path, how, kind):
    trace, verdict = told(tmp_path, run(ahead=False, **how), {})
    is_untold(verdict, f"a device that is not known here ({kind})")
    assert "CPU" not in trace.device and kind in trace.device and f"({kind})" in str(views.trace(tmp_path / "trace.json"))


def test_nothing_but_ranges(tmp_path):
    events = [event("user_annotation", "ProfilerStep#1", 1_000_000, STEP),
              event("python_function", "train.py(3): f", 1_000_000, 9000)]
    is_untold(told(tmp_path, events, {})[1], "it holds no operator and no kernel")
