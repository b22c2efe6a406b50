"""On a machine with a GPU: the diagnosis of real traces with a planted cause, and the busy share beside the Chronometer's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import run_ranks

from dlojz import traces
from dlojz.training import records

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "dlojz" / "reference" / "train.py"
ALONE = {
    "loader": ("slow_disk", "decoding_in_the_main_process", "too_few_workers", "slow_copies"),
    "launch": ("tiny_kernels", "python_between_kernels", "many_small_layers"),
    "synchronisation": ("item_in_each_layer", "synchronize_in_each_layer", "activations_to_the_host"),
    "memory_bandwidth": ("elementwise", "norms", "a_large_optimizer"),
    "arithmetic": ("products_in_half_precision", "products_in_float32", "convolutions"),
}
COMMUNICATION = ("reduce_gradients", "ddp", "the_other_process_is_late")
PROGRAMS = [(pattern, program) for pattern, programs in ALONE.items() for program in programs]


def gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


needs_gpu = pytest.mark.skipif(not gpus(), reason="needs a CUDA device")
needs_two = pytest.mark.skipif(gpus() < 2, reason="needs two CUDA devices")


def run(folder: Path, *programs: str, world: int = 1, backend: str = "gloo") -> None:
    search = os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH")]))
    run_ranks([HERE / "gpu_programs.py", folder, *programs], world, timeout=280,
                 env={"PYTHONPATH": search, "BACKEND": backend})


def facts_of(folder: Path, program: str) -> traces.Facts:
    failure = folder / f"{program}.txt"
    assert not failure.exists(), failure.read_text()
    return traces.analyse(traces.read(folder / f"{program}.json.gz"))


def told(facts: traces.Facts) -> str:
    """Everything that helps to see from afar why a diagnosis is another one."""
    found = traces.diagnose(facts)
    rows = [f"{row.name[:90]} {row.seconds * 1e3:.3f} ms x {row.count:.1f} {row.kind} {row.tensor_cores}"
            for row in facts.kernels[:8]]
    return "\n".join([str(found), f"{facts.shares} busy {facts.busy:.4f} cpu {facts.cpu_work:.6f}", str(facts.launches),
                      *map(str, facts.syncs[:5]), *map(str, facts.copies), *rows, *facts.trace.notes])


def timed(folder: Path, program: str, facts: traces.Facts) -> list[dict]:
    """The Chronometer's steps that the trace's window holds: those after the first one that was traced."""
    inside = {step.number + 1 for step in facts.trace.steps[1:]}
    steps = [step for step in records.read(folder / f"{program}.jsonl").steps if step["step"] in inside]
    assert len(steps) == facts.steps
    return steps


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    run(folder, *(program for _, program in PROGRAMS))
    return folder


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(("pattern", "program"), PROGRAMS)
def test_a_planted_cause_is_found(folder, pattern, program):
    facts = facts_of(folder, program)
    assert facts.on_gpu and facts.trace.device != "CPU"
    assert traces.diagnose(facts).pattern == pattern, told(facts)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("program", COMMUNICATION)
def test_communication_by_way_of_the_host(tmp_path, program):
    """Two processes share one GPU and send with gloo."""
    run(tmp_path, program, world=2)
    facts = facts_of(tmp_path, program)
    assert traces.diagnose(facts).pattern == "communication", told(facts)
    assert {one.backend for one in facts.collectives} == {"gloo"}


@pytest.mark.gpu
@needs_two
@pytest.mark.parametrize("program", COMMUNICATION)
def test_communication_between_gpus(tmp_path, program):
    run(tmp_path, program, world=2, backend="nccl")
    facts = facts_of(tmp_path, program)
    assert {one.backend for one in facts.collectives} == {"nccl"} and all(one.bytes for one in facts.collectives), told(facts)
    if program != "reduce_gradients":  # 128 MB between two GPUs with NVLink may take no more than their work
        assert traces.diagnose(facts).pattern == "communication", told(facts)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("program", ["slow_disk", "too_few_workers", "products_in_half_precision", "products_in_float32",
                                     "convolutions", "elementwise"])
def test_busy_share_agrees_with_the_chronometer(folder, program):
    """Programs whose kernels are long: the GPU is busy, or waits for its batch.

    Where it waits, half a millisecond of a step lies between the two: until the first kernel is launched the Chronometer counts a
    phase, and the trace an idle GPU. That is why steps have to be as long here as they are in a training.
    """
    facts = facts_of(folder, program)
    steps = timed(folder, program, facts)
    seconds = sum(step["seconds"] for step in steps)
    busy = 1 - sum(step["idle"] for step in steps) / seconds
    assert facts.busy == pytest.approx(busy, abs=0.02), told(facts)
    assert facts.seconds == pytest.approx(seconds / len(steps), rel=0.02), told(facts)
    assert facts.share("loader") <= 1 - busy + 0.02 <= facts.share("loader") + facts.share("launch") + 0.04, told(facts)


@pytest.mark.gpu
@needs_gpu
def test_tensor_cores_by_the_names_of_kernels(folder):
    half, plain, conv = (facts_of(folder, name) for name in ("products_in_half_precision", "products_in_float32", "convolutions"))
    assert half.tensor_cores > 0.9, told(half)
    assert conv.tensor_cores > 0.5, told(conv)
    assert plain.tensor_cores == 0, told(plain)
    assert plain.missed and plain.missed[0].why.startswith("float32 without TF32")
    assert half.achieved["flops"] > 3 * plain.achieved["flops"]


@pytest.mark.gpu
@needs_gpu
def test_synchronisations_are_counted(folder):
    facts = facts_of(folder, "item_in_each_layer")
    assert facts.syncs[0].asked == "aten::item" and facts.syncs[0].count == 60 and facts.syncs[0].where == "forward", told(facts)
    facts = facts_of(folder, "synchronize_in_each_layer")
    assert facts.syncs[0].asked == "torch.cuda.synchronize()" and facts.syncs[0].count == 60, told(facts)


@pytest.mark.gpu
@needs_gpu
def test_copies_are_counted(folder):
    facts = facts_of(folder, "slow_copies")
    copy = facts.copies[0]
    assert (copy.direction, copy.memory) == ("HtoD", "pageable") and copy.bytes == 256_000_000, told(facts)
    assert "--pin-memory" in traces.diagnose(facts).next[0]


@pytest.mark.gpu
@needs_gpu
def test_the_training_script(tmp_path):
    """ResNet-50 on random data keeps the GPU busy, and the trace says so as the record does."""
    folder = tmp_path / "run"
    command = [sys.executable, SCRIPT, "--model", "resnet50", "--data", "random", "--image-size", "224", "-b", "256", "--tf32",
               "--test", "--test-steps", "30", "--profile", "--run-dir", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280,
                          env=os.environ | {"PYTHONPATH": str(HERE.parents[1]), "DLOJZ_SITE": "laptop"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert (folder / "trace.json.gz").stat().st_size < 5_000_000
    facts = traces.analyse(traces.read(folder))
    assert traces.diagnose(facts).pattern in ("arithmetic", "memory_bandwidth"), told(facts)
    inside = {step.number + 1 for step in facts.trace.steps[1:]}
    steps = [step for step in records.read(folder).steps if step["step"] in inside]
    seconds = sum(step["seconds"] for step in steps)
    assert facts.busy == pytest.approx(1 - sum(step["idle"] for step in steps) / seconds, abs=0.02), told(facts)
    assert facts.tensor_cores > 0.2 and facts.achieved["flops"] > 1e13, told(facts)
    phases = {name for name, *_ in facts.phases}
    assert {"idle", "copy", "forward", "backward", "update"} <= phases
