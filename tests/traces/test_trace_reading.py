"""Reading traces: whole ones in any layout, and what is cut short, damaged, empty or no trace at all."""

import gzip
import json
import os

import pytest
from simulated_cpu import Cpu
from simulated_gpu import CONV_TC, Gpu

from dlojz import traces
from dlojz.system.errors import UsageError


def body(gpu):
    gpu.load(100)
    for _ in range(20):
        with gpu.op("aten::cudnn_convolution", 10):
            gpu.kernel(CONV_TC, 50.0)
    gpu.item()


@pytest.fixture
def file(tmp_path):
    return Gpu().steps(3, body).write(tmp_path / "trace.json")


def whole(trace) -> tuple:
    return len(trace.calls), len(trace.work), len(trace.steps), trace.device, trace.notes


def test_every_layout_reads_the_same(tmp_path, file):
    """As Kineto writes it, packed, in one line, with other keys after the events, and as a plain list of events."""
    expected = whole(traces.read(file))
    assert expected[1:4] == (63, 3, "NVIDIA H100 80GB HBM3") and expected[4] == []
    data = json.loads(file.read_text())
    layouts = {
        "packed.json.gz": gzip.compress(file.read_bytes()),
        "packed_twice.json.gz": gzip.compress(file.read_bytes()[:5000]) + gzip.compress(file.read_bytes()[5000:]),
        "line.json": json.dumps(data).encode(),
        "tight.json": json.dumps(data, separators=(",", ":")).encode(),
        "turned.json": json.dumps({"traceEvents": data["traceEvents"], "deviceProperties": data["deviceProperties"]}).encode(),
    }
    for name, content in layouts.items():
        (tmp_path / name).write_bytes(content)
        assert whole(traces.read(tmp_path / name)) == expected, name
    (tmp_path / "list.json").write_text(json.dumps(data["traceEvents"]))
    assert whole(traces.read(tmp_path / "list.json"))[:3] == expected[:3]


def test_the_file_of_a_run(tmp_path, file):
    run = tmp_path / "amp-001"
    run.mkdir()
    with pytest.raises(UsageError, match=r"there is no trace in .*amp-001: run it with --profile"):
        traces.read(run)
    (run / "host_1.123.pt.trace.json").write_bytes(file.read_bytes())
    assert traces.read(run).path.name == "host_1.123.pt.trace.json"
    (run / "trace.json.gz").write_bytes(gzip.compress(file.read_bytes()))
    assert traces.read(run).path.name == "trace.json.gz"
    assert traces.read(str(run)).path.name == "trace.json.gz"


@pytest.mark.parametrize(("part", "packed"), [(0.6, False), (0.9, False), (0.999, False), (0.9, True), (0.999, True)])
def test_a_file_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path, file, part, packed):
    content = gzip.compress(file.read_bytes()) if packed else file.read_bytes()
    cut = tmp_path / ("cut.json.gz" if packed else "cut.json")
    cut.write_bytes(content[: int(len(content) * part)])
    trace = traces.read(cut)
    assert 0 < trace.events <= traces.read(file).events
    assert trace.notes[0].startswith(f"{cut.name} was cut short: only its first {trace.events:,} events are here")
    assert str(traces.diagnose(trace))


@pytest.mark.parametrize("part", [0.2, 0.4])
def test_a_trace_of_a_gpu_without_a_kernel_is_not_taken_for_one_of_a_cpu(tmp_path, file, part):
    cut = tmp_path / "cut.json"
    cut.write_bytes(file.read_bytes()[: int(file.stat().st_size * part)])
    with pytest.raises(UsageError, match=r"was cut short before the first kernel: what the GPU did is not in it"):
        traces.read(cut)


@pytest.mark.parametrize(("part", "steps"), [(0.2, 0), (0.5, 1), (0.8, 2), (0.999, 2)])
def test_a_step_of_which_a_part_is_missing_is_left_out(tmp_path, part, steps):
    """Kineto writes the mark of a step when it begins, and with it when it ends: the rest would be taken for a hole."""
    def step(cpu):
        for _ in range(40):
            cpu.op("aten::convolution_backward", 1000)

    file = Cpu().steps(3, step).write(tmp_path / "trace.json")
    data = json.loads(file.read_text())
    data["traceEvents"].sort(key=lambda event: (event["ts"], -event["dur"]))
    text = json.dumps(data)
    file.write_text(text[: int(len(text) * part)])
    trace = traces.read(file)
    assert (len(trace.steps), trace.cut_steps) == (steps, 1)
    facts = traces.analyse(trace)
    assert facts.busy == pytest.approx(1, abs=0.03)
    assert traces.diagnose(facts).pattern == "arithmetic"
    whole = "" if steps else ": the numbers are for the part that is there"
    assert f"1 step of which a part is missing is left out{whole}" in trace.notes


def test_every_place_to_cut_is_survived(tmp_path, file):
    """A trace, or one sentence."""
    content = file.read_bytes()
    for length in range(1, len(content), 997):
        (tmp_path / "cut.json").write_bytes(content[:length])
        try:
            assert str(traces.diagnose(traces.read(tmp_path / "cut.json")))
        except UsageError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(("content", "said"), [
    (b"", "is empty: the run was killed while it wrote it"),
    (b"hello", 'is not a trace of torch.profiler: it has no "traceEvents"'),
    (b"{}", "is not a trace of torch.profiler"),
    (b'{"event": "start"}\n{"event": "step"}\n', "is not a trace of torch.profiler"),
    (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "is not a trace of torch.profiler"),
    (gzip.compress(b"hello", mtime=0), "is not a trace of torch.profiler"),
    (b"\x1f\x8b" + b"no gzip at all", "is not a trace of torch.profiler"),
    (b'{"traceEvents": []}', "has no events: profile again"),
    (b'{"traceEvents": [', "has no events and broke off before the first event"),
    (b'{"traceEvents": [{"ph": ', "has no events and broke off before the first event"),
    (b'{"traceEvents": [' + b"[" * 100_000, "has no events and broke off before the first event"),
    (b"[]", "has no events"),
])
def test_what_is_no_trace_gets_one_sentence(tmp_path, content, said):
    (tmp_path / "trace.json").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        traces.read(tmp_path / "trace.json")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_not_ours(tmp_path):
    with pytest.raises(UsageError, match=r"there is no .*: a run with --profile writes"):
        traces.read(tmp_path / "none.json")
    if os.getuid():
        (tmp_path / "locked.json").write_text("{}")
        (tmp_path / "locked.json").chmod(0)
        with pytest.raises(UsageError, match="cannot be read"):
            traces.read(tmp_path / "locked.json")


def test_damage_in_the_middle_costs_the_events_that_it_hit(tmp_path, file):
    """Names that are no JSON are known from older traces: an unescaped quote, a bare nan."""
    text = file.read_text()
    good = traces.read(file)
    at = text.index('"name": "aten::cudnn_convolution"')
    (tmp_path / "quote.json").write_text(text[:at] + '"name": "a"b"' + text[at + 33 :])
    trace = traces.read(tmp_path / "quote.json")
    assert trace.events == good.events - 1
    assert trace.notes == ["1 events of quote.json could not be read and are left out"]
    at = text.index('"bytes": 4')
    (tmp_path / "nan.json").write_text(text[:at] + '"bytes": nan' + text[at + 10 :])
    assert traces.read(tmp_path / "nan.json").skipped == 1


def test_damaged_gzip(tmp_path, file):
    packed = bytearray(gzip.compress(file.read_bytes()))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "trace.json.gz").write_bytes(packed)
    try:
        assert traces.read(tmp_path / "trace.json.gz").torn in ("is damaged", "was cut short")
    except UsageError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("odd", [
    {"ts": None}, {"ts": "x"}, {"dur": -1}, {"dur": "long"}, {"name": 7}, {"name": None}, {"tid": []}, {"tid": None}, {"args": 5},
    {"args": None}, {"args": {"External id": "x", "Input Dims": 3}}, {"cat": 9}, {"ph": 1}, {"ts": 1e300}, {"ts": float("inf")},
    {"args": {"correlation": [1]}}, {"args": {"stream": {}, "bytes": "many"}}, {"cat": []},
])
def test_odd_fields_are_survived(tmp_path, file, odd):
    data = json.loads(file.read_text())
    for index in range(0, len(data["traceEvents"]), 7):
        data["traceEvents"][index] = data["traceEvents"][index] | odd
    (tmp_path / "odd.json").write_text(json.dumps(data))
    assert str(traces.diagnose(traces.read(tmp_path / "odd.json")))


@pytest.mark.parametrize("header", [{"deviceProperties": 5}, {"deviceProperties": [1, None]}, {"distributedInfo": []},
                                    {"distributedInfo": {"world_size": "x"}}, {"deviceProperties": [{"id": 0}]}])
def test_odd_headers_are_survived(tmp_path, file, header):
    data = json.loads(file.read_text()) | header
    events = data.pop("traceEvents")
    (tmp_path / "odd.json").write_text(json.dumps(data | {"traceEvents": events}))
    trace = traces.read(tmp_path / "odd.json")
    assert trace.device in ("NVIDIA H100 80GB HBM3", "a GPU") and trace.world_size == 1


def test_own_time_and_who_is_around_whom(tmp_path):
    def event(name, category, begin, end):
        return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": end - begin, "args": {}}

    events = [event("outer", "cpu_op", 0, 100), event("range", "user_annotation", 10, 60), event("inner", "cpu_op", 20, 50),
              event("next", "cpu_op", 60, 90), event("after", "cpu_op", 100, 110)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    calls = {call.name: call for call in traces.read(tmp_path / "t.json").calls}
    assert calls["outer"].own * 1e6 == pytest.approx(40) and calls["inner"].own * 1e6 == pytest.approx(30)
    assert [around.name for around in calls["inner"].around()] == ["range", "outer"]
    assert calls["next"].parent.name == "outer" and calls["after"].parent is None


@pytest.mark.long
@pytest.mark.slow
def test_200_mb_in_little_time_and_memory(tmp_path):
    """In a process of its own, in seconds of the CPU: the machine may be busy with other things."""
    import subprocess
    import sys

    gpu = Gpu()
    gpu.steps(5, lambda gpu: [body(gpu) for _ in range(10)])
    events = sorted(gpu.events, key=lambda event: event["ts"])
    length = max(event["ts"] for event in events) + 1000
    path = tmp_path / "large.json"
    block = ",\n".join(json.dumps(event, indent=2) for event in events)
    with open(path, "w") as out:
        out.write('{\n"schemaVersion": 1,\n"traceEvents": [\n')
        for number in range(200_000_000 // len(block) + 1):
            out.write(("" if not number else ",\n") + block.replace('"ts": ', f'"ts": {int(length * number)}'))
        out.write("\n]}\n")
    assert path.stat().st_size > 200_000_000
    code = ("import resource, sys, time; from dlojz import traces; trace = traces.read(sys.argv[1]); "
            "print(len(trace.calls), time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=250)
    calls, seconds, memory = (float(word) for word in done.stdout.split())
    assert calls > 300_000 and seconds < 30 and memory < 2e9
