"""The diagnosis of real traces of small trainings on the CPU, each with a planted cause (cpu_programs.py)."""

import json
from pathlib import Path

import pytest
from ranks import run_ranks

from dlojz import traces

HERE = Path(__file__).parent
ALONE = {
    "loader": ("slow_disk", "decoding_in_the_main_process", "too_few_workers"),
    "launch": ("loop_over_samples", "many_small_layers", "python_between_operators"),
    "synchronisation": ("loss_of_each_sample", "norms_of_gradients", "table_of_answers"),
    "arithmetic": ("products", "convolutions", "attention_like"),
    "memory_bandwidth": ("elementwise", "norms", "a_large_optimizer"),
}
TOGETHER = {"communication": ("all_reduce_after_backward", "ddp_with_large_gradients", "the_other_process_is_late")}
pytestmark = pytest.mark.alone  # what is planted are milliseconds

CASES = [(pattern, program) for pattern, programs in (ALONE | TOGETHER).items() for program in programs]


def run(folder: Path, world: int, *programs: str) -> None:
    run_ranks([HERE / "cpu_programs.py", folder, *programs], world, timeout=600,
              env={"KINETO_LOG_LEVEL": "6", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The traces of all programs, made in one process, or two: importing torch takes longer than the programs."""
    folder = tmp_path_factory.mktemp("traces")
    run(folder, 1, *(program for programs in ALONE.values() for program in programs))
    run(folder, 2, *TOGETHER["communication"])
    return folder


def facts_of(folder: Path, program: str) -> traces.Facts:
    return traces.analyse(traces.read(folder / f"{program}.json.gz"))


@pytest.mark.parametrize(("pattern", "program"), CASES)
def test_a_planted_cause_is_found(folder, pattern, program):
    found = traces.diagnose(facts := facts_of(folder, program))
    if found.pattern != pattern:  # one more time: whatever else this machine does may have hit one step of four
        run(folder, 2 if pattern in TOGETHER else 1, program)
        found = traces.diagnose(facts := facts_of(folder, program))
    assert found.pattern == pattern, f"{found}\n{facts.shares}"
    assert sum(facts.shares.values()) == pytest.approx(facts.seconds, rel=1e-6)
    assert facts.steps + facts.interrupted == 4 and not facts.on_gpu and facts.trace.device == "CPU"
    assert (found.title in traces.PATTERNS.values()) == (pattern not in ("launch", "synchronisation"))
    assert any("GPU's trace shows it" in line for line in found.unknown)


FIRST = {"python_between_operators": "profile Python", "loop_over_samples": "more to do", "many_small_layers": "more to do",
         "the_other_process_is_late": "find the slow process", "ddp_with_large_gradients": "send less often",
         "all_reduce_after_backward": "send less often", "norms": "fuse elementwise", "a_large_optimizer": "the update in",
         "table_of_answers": "leave numbers", "convolutions": "half precision", "products": "half precision"}


@pytest.mark.parametrize("program", FIRST)
def test_what_to_try_first(folder, program):
    facts = facts_of(folder, program)
    found = traces.diagnose(facts)
    pattern = next(pattern for pattern, planted in CASES if planted == program)
    if found.pattern != pattern or not found.next[0].startswith(FIRST[program]):
        run(folder, 2 if pattern in TOGETHER else 1, program)
        found = traces.diagnose(facts := facts_of(folder, program))
    assert found.next[0].startswith(FIRST[program]), f"{found}\n{facts.shares}\n{facts.collectives}"
    assert ("--channels-last" in " ".join(found.next)) == (program == "convolutions")


def steps_by_hand(path: Path, lengths, work) -> Path:
    """Steps that last so many ms, with operators of so many µs each in them and nothing else."""
    events, now = [], 0.0
    for number, ms in enumerate(lengths):
        events.append({"cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": now, "dur": ms * 1e3, "args": {}})
        at = now
        for name, dims, us in work(number):
            events.append({"cat": "cpu_op", "name": name, "ts": at, "dur": us, "args": {"Input Dims": dims}})
            at += us
        now += ms * 1e3 + 500  # between two steps is the profiler
    events = [{"ph": "X", "pid": 1, "tid": 1} | event for event in events]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_an_interrupted_step_is_left_out_and_said(tmp_path):
    usual = [("aten::mul", [[1000]], 800.0)]
    path = steps_by_hand(tmp_path / "t.json", [1.0, 1.0, 9.0, 1.1], lambda number: usual)
    facts = traces.analyse(traces.read(path))
    assert (facts.steps, facts.interrupted) == (3, 1) and facts.seconds == pytest.approx(3.1e-3 / 3)
    assert any(note.startswith("1 of 4 steps were more than 2 times slower") for note in facts.notes)
    even = traces.analyse(traces.read(steps_by_hand(tmp_path / "u.json", [1.0, 1.2, 1.9, 1.1], lambda number: usual)))
    assert even.steps == 4 and not any("left out" in note for note in even.notes)


def test_one_small_operator_that_was_interrupted_is_no_large_one(tmp_path):
    def work(number):
        return [("aten::add_", [[1]], 400.0 if number == 1 and one == 0 else 3.0) for one in range(50)] + [
            ("aten::add_", [[1000, 1000]], 500.0)]
    facts = traces.analyse(traces.read(steps_by_hand(tmp_path / "t.json", [1.0, 1.3, 1.0], work)))
    assert facts.shares["calls"] == pytest.approx((3 * 50 * 3 + 397) * 1e-6 / 3)
    assert facts.shares["compute"] == pytest.approx(500e-6)


def test_the_loaders_wait_is_the_time_it_sleeps(folder):
    facts = facts_of(folder, "slow_disk")
    assert facts.loader >= 32 * 0.002  # 32 images of 2 ms each
    assert facts.shares["loader"] == pytest.approx(facts.loader, rel=0.01)


def test_bytes_and_kinds_of_collectives(folder):
    facts = facts_of(folder, "all_reduce_after_backward")
    step = min(one.step for one in facts.collectives)  # one that was interrupted is left out
    sizes = sorted(one.bytes for one in facts.collectives if one.step == step)
    assert sizes == [40, 240_000, 60_000 * 10 * 4, 64 * 60_000 * 4]  # biases and weights of both layers
    assert {(one.kind, one.backend, one.phase) for one in facts.collectives} == {("all_reduce", "gloo", "update")}
    assert facts.trace.world_size == 2
    overlapped = facts_of(folder, "ddp_with_large_gradients")
    step = min(one.step for one in overlapped.collectives)
    assert sum(one.bytes for one in overlapped.collectives if one.step == step and one.kind == "all_reduce") == sum(sizes)


def test_what_the_products_reach_is_their_arithmetic_over_their_time(folder):
    facts = facts_of(folder, "products")
    flops = 2 * 512 * (64 * 512 + 3 * 512 * 512 + 512 * 10) * 3 - 2 * 512 * 64 * 512  # no gradient of the first inputs
    assert facts.achieved["flops"] * facts.arithmetic == pytest.approx(flops, rel=0.01)


def test_values_that_are_read_are_counted(folder):
    facts = facts_of(folder, "table_of_answers")
    assert (facts.reads.count, facts.reads.where) == (200, "update")
    assert facts_of(folder, "a_large_optimizer").reads is None  # Adam reads its counters, which are no tensors of the model
