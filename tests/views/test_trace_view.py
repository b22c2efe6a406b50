"""`views.trace` and `views.communications`: text and picture say the same, from simulated GPUs, a real run, and broken files."""

import gzip
import html
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs_by_hand import MEASURED, end, folder, job, start, steps

from dlojz import traces, views
from dlojz.system.errors import UsageError
from dlojz.training import records
from dlojz.ui.palette import PHASE

sys.path.insert(0, str(Path(__file__).parents[1] / "traces"))
from simulated_gpu import ADD, CONV_TC, FOREACH, Gpu

report, trace = (sys.modules[f"dlojz.views.{name}"] for name in ("report", "trace"))  # views.trace is the verb


def training(gpu, loading=2_000.0, layers=10, sends=True):
    with gpu.range("dlojz.idle"):
        gpu.load(loading)
    with gpu.range("dlojz.copy"), gpu.op("aten::to"):
        gpu.copy(1_000_000, "Pinned")
    with gpu.range("dlojz.forward"):
        for _ in range(layers):
            with gpu.op("aten::cudnn_convolution", 10):
                gpu.kernel(CONV_TC, 100.0)
            with gpu.op("aten::add_", 5):
                gpu.kernel(ADD, 50.0)
    with gpu.range("dlojz.backward"), gpu.autograd():
        for number in range(layers):
            with gpu.op("aten::convolution_backward", 10):
                gpu.kernel(CONV_TC, 200.0)
            if sends and number % 5 == 4:
                over = gpu.all_reduce(2_500_000, 800.0)
    if sends:
        gpu.wait(over)
    with gpu.range("dlojz.update"), gpu.range("Optimizer.step#SGD.step"), gpu.op("aten::_foreach_add_", 20):
        gpu.kernel(FOREACH, 100.0)
    gpu.item()


@pytest.fixture
def run(tmp_path):
    """A run's folder with a record and the trace of a simulated GPU of two."""
    path = folder(tmp_path / "runs" / "profile-001", MEASURED)
    Gpu(world=2).steps(5, training).write(path / "trace.json.gz")
    return path


def plain(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def test_text_of_a_trace(run):
    said = str(views.trace(run))
    assert said.startswith("trace of profile-001: 4 steps of ")
    assert "on NVIDIA H100 80GB HBM3, rank 0 of 2" in said
    for line in (r"busy +kernels run \d+% of the time", r"per step +the GPU computes \d+%",
                 r"tensor cores +(83|84|85)% of the kernels",
                 r"copies +to the GPU, pinned memory: 1\.00 MB per step, 25\.0 GB/s", r"synchronises +aten::item, once per step",
                 r"launches +\d+ kernels per step", r"loader +the process waits 2\.00 ms per step", r"collectives +2 per step",
                 r"diagnosis: loader: fed too slowly", r"  try 1: .*--num-workers", r"  try 2: "):
        assert re.search(line, said), (line, said)


def test_picture_says_what_the_text_says(run):
    view = views.trace(run)
    page, said = plain(view._repr_html_()), str(view)
    busy = re.search(r"run (\d+%) of the time", said)[1]
    assert f" {busy} " in page
    for row in ("computes", "waits for the loader", "communicates, computes nothing"):
        part = re.search(rf"{row} (\d+%)", said)[1]
        assert f"{row} {part}" in page
    for line in said.split("diagnosis: ")[1].split("\n")[1:]:
        words = re.sub(r"^ *(try \d|also|not known): *", "", line).strip()
        assert words[1:] in page, words
    for lane in ("CPU", "CPU waits", "GPU stream 7", "GPU stream 20", "GPU copies"):
        assert f" {lane} " in page
    number = trace.drawn(traces.analyse(traces.read(run / "trace.json.gz")))[2]
    assert f" step {number + 1} in detail" in page, "as the record counts, from 1"
    raw = view._repr_html_()
    assert "<script" not in raw and "http" not in raw.replace("http://www.w3.org/2000/svg", "")


def test_lanes_lie_where_the_work_is(run):
    """The kernels of the drawn step, in pixels: as many for the whole step as the axis is long."""
    view = views.trace(run)
    facts = trace.facts_of(run)[1]
    begin, until, number = trace.drawn(facts)
    assert number in (9, 10, 11, 12) and until - begin == pytest.approx(facts.seconds, rel=0.2)
    page = view._repr_html_()
    axis = max(float(until) - float(begin) for begin, until in re.findall(r'd="M(118) [\d.]+H([\d.]+)', page))
    drawn = re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)V[^"]*"[^>]*><title>sm90', page)
    assert len(drawn) == 20  # ten convolutions forward, ten backward
    scale = axis / (until - begin)
    for left, right in drawn:
        assert min(abs(float(right) - float(left) - us * 1e-6 * scale) for us in (100, 200)) < 0.15


def test_text_of_communications(run):
    said = str(views.communications(run))
    assert re.search(r"collective +phase +per step +bytes +time +hidden +GB/s +largest\n"
                     r"all_reduce +backward +2 +20\.0 MB +1\.60 ms +\d+% +12\.5 +10\.0 MB", said), said
    assert "2 collectives per step, 20.0 MB, by nccl" in said and "waits for the others" in said
    page = plain(views.communications(run)._repr_html_())
    for line in said.split("\n")[3:]:
        assert line in page
    assert "all_reduce 10.0 MB" in page and "12.5" in page


def test_what_is_hidden_is_what_was_beside_computing(tmp_path):
    def body(gpu, other):
        """An all-reduce of 1 ms beside 0.6 ms of computing."""
        with gpu.op("aten::add", 5):
            gpu.kernel(ADD, 1000.0)
        begun = gpu.free[7]
        gpu.all_reduce(1000, 1000.0, begun)
        with gpu.op("aten::add", 5):
            gpu.kernel(ADD, other)
        gpu.wait(gpu.free[20])
    for other in (600.0, 1500.0):
        path = Gpu(world=2).steps(4, lambda gpu, other=other: body(gpu, other)).write(tmp_path / f"{other:.0f}.json")
        said = str(views.communications(path))
        assert f"{'60%' if other == 600 else '100%'} of that is hidden behind computing" in said, said


def test_a_phase_has_one_colour_in_all_views(run):
    page, board = views.trace(run).page, views.dashboard(run).page
    for shown, name in ((page, "waits for the loader"), (page, "waits for its loader"), (board, "waiting for data")):
        assert set(re.findall(rf'fill="(#\w+)"[^>]*><title>{name}: ', shown)) == {PHASE["idle"]}
    assert PHASE["loading"] not in page, "pink is what the process waits beside the device, as the timeline has it"
    colours = {colour for name, (_, colour) in trace.SHARES.items() if name != "loader"}
    assert not colours & {PHASE[name] for name in ("idle", "forward", "backward", "update", "loading")}


# --- where there is nothing to show ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [views.trace, views.communications])
def test_a_run_without_a_trace_gets_a_clear_word(tmp_path, view):
    path = folder(tmp_path / "amp-001", MEASURED)
    said = str(view(path))
    assert "nothing to show" in said and "run it with --profile" in said and "\n" in said
    assert "run it with --profile" in plain(view(path)._repr_html_())
    going = job(tmp_path / "amp-002", [start(), *steps(last=3)], "RUNNING")
    assert "has not ended: the trace is written after the profiled steps" in str(view(going))
    todo = {"event": "todo", "lab": "profiler", "message": "the profiler is not written"}
    unwritten = folder(tmp_path / "amp-003", [start(), todo, *steps(), end()])
    assert "the profiler is not written" in str(view(unwritten))
    assert "no trace next to it" in str(view(records.Record(MEASURED)))
    with pytest.raises(UsageError):
        view(str(tmp_path / "none"))


@pytest.mark.parametrize("view", [views.trace, views.communications])
def test_a_run_that_was_profiled_is_not_told_to_be(tmp_path, view):
    profiled, over = start(profile=True), end(trace=False)
    error = {"event": "error", "kind": "usage", "message": "no trace: /runs/a/profile is not there.", "fatal": False,
             "advice": "Make that folder first."}
    for name, events, why in (("a-001", [profiled, error, *steps(), over], f"{error['message'][10:]} {error['advice']}"),
                              ("b-001", [profiled, *steps(), over], "there is no trace.json.gz in the run's folder. Does"),
                              ("c-001", [profiled, *steps(last=2), end("failed")], "the run ended before the steps that"),
                              ("d-001", [profiled, *steps(last=2)], "it was stopped before it could write one")):
        said = str(view(folder(tmp_path / name, events)))
        assert f"{name} was to be profiled, but has left no trace: {why}" in said and "run it with" not in said
    going = str(view(job(tmp_path / "e-001", [profiled, *steps(last=3)], "RUNNING")))
    assert "has not ended" in going and "run it with" not in going
    asked = {"request": {"name": "g", "command": ["train.py", "--profile"], "site": "laptop"}}
    never = folder(tmp_path / "g-001", None, {"state": "CANCELLED", "reason": "cancelled before it ran"}, **asked)
    assert "g-001 was to be profiled, but has left no trace: cancelled before it ran" in str(view(never))
    assert "run it with" not in str(view(never))
    broken = folder(tmp_path / "f-001", [profiled, *steps(), end(trace=True)])
    (broken / "trace.json.gz").write_bytes(b"")
    assert "is empty" in str(view(broken)) and "has left no trace" not in str(view(broken))


@pytest.mark.parametrize("content", [b"", b"no trace", b"{}", b'{"traceEvents": []}', b"\x1f\x8b damaged",
                                     gzip.compress(b'{"trace', mtime=0)])
@pytest.mark.parametrize("view", [views.trace, views.communications])
def test_a_broken_trace_gets_a_clear_word(tmp_path, view, content):
    path = folder(tmp_path / "amp-001", MEASURED)
    (path / "trace.json.gz").write_bytes(content)
    said = str(view(path))
    assert "nothing to show" in said and len(said.split("\n")) <= 3 and "Traceback" not in said
    with pytest.raises(UsageError):
        view(path / "trace.json.gz")


def test_a_trace_that_was_cut_short_is_shown_with_a_note(run):
    content = (run / "trace.json.gz").read_bytes()
    (run / "trace.json.gz").write_bytes(content[: len(content) * 9 // 10])
    view = views.trace(run)
    assert "note: trace.json.gz was cut short: only its first" in str(view) and "diagnosis: " in str(view)
    assert "was cut short" in plain(view._repr_html_())


def test_one_process_has_nobody_to_talk_to(tmp_path):
    """As its record says; where nothing says so, nobody knows."""
    for number, (world, events, said) in enumerate(((1, [start(world=1), *steps()], "one process trained here"),
                                                    (1, [start(world=2), *steps()], "none was under way in the steps"),
                                                    (2, [], "none was under way in the steps"),
                                                    (1, [], "neither it nor a record says how many processes trained"),
                                                    (1, None, "neither it nor a record says how many processes trained"))):
        path = folder(tmp_path / f"amp-{number}", events, more='{"event": "start", "world_si' if events == [] else "")
        Gpu(world=world).steps(3, lambda gpu: training(gpu, sends=False)).write(path / "trace.json.gz")
        assert said in str(views.communications(path)), number
    assert "neither it nor a record says" in str(views.communications(path / "trace.json.gz"))


@pytest.mark.parametrize("view", [views.trace, views.communications])
def test_a_trace_in_which_no_time_passes_has_nothing_to_show(tmp_path, view):
    events = [{"ph": "X", "cat": "cpu_op", "name": f"aten::{number}", "tid": 1, "ts": "then", "dur": None} for number in range(9)]
    for number, odd in enumerate(({}, {"ts": 5.0, "dur": 0}, {"cat": "weather", "ts": 5.0, "dur": 3.0})):
        path = folder(tmp_path / f"amp-{number}", MEASURED)
        (path / "trace.json").write_text(json.dumps({"traceEvents": [event | odd for event in events]}))
        assert "nothing to show" in str(view(path)) and "holds no operator and no kernel that takes time" in str(view(path))
        with pytest.raises(UsageError, match="holds no operator and no kernel that takes time"):
            view(path / "trace.json")


def test_steps_that_are_none_are_left_out_and_said(tmp_path):
    gpu = Gpu().steps(4, training)
    marks = [event for event in gpu.events if event["name"].startswith("ProfilerStep#")]
    sound = str(views.trace(gpu.write(tmp_path / "sound.json")))
    gpu.events += [marks[1] | {"dur": 0}, marks[2] | {"name": "ProfilerStep#99", "ts": marks[2]["ts"] + 5, "dur": 10.0}]
    said = str(views.trace(gpu.write(tmp_path / "odd.json")))
    assert "note: 2 marks of steps left out" in said and "of steps" not in sound
    assert said.split("\n")[1:8] == sound.split("\n")[1:8]
    marks[1]["dur"], marks[2]["dur"] = 0, 0
    for event in gpu.events:
        event["dur"] = -event["dur"] if event["cat"] == "kernel" else event["dur"]
    assert "diagnosis: " in str(views.trace(gpu.write(tmp_path / "no_kernel.json")))


def test_no_step_one_step_and_a_single_kernel(tmp_path):
    gpu = Gpu()
    gpu.kernel(ADD, 10.0)
    for path in (gpu.write(tmp_path / "none.json"), Gpu().steps(1, training).write(tmp_path / "one.json"),
                 Gpu().steps(2, lambda gpu: gpu.kernel(ADD, 5.0)).write(tmp_path / "two.json"),
                 Gpu().steps(2, lambda gpu: gpu.work(5)).write(tmp_path / "idle.json")):
        for view in (views.trace, views.communications):
            assert str(view(path)) and view(path)._repr_html_()


@pytest.mark.parametrize("odd", [{"ts": None}, {"dur": 0}, {"name": ""}, {"name": "<b>&\"'"}, {"args": {}}, {"tid": "x"},
                                 {"cat": "kernel"}])
def test_odd_events_are_survived_and_nothing_is_injected(run, odd):
    data = json.loads(gzip.decompress((run / "trace.json.gz").read_bytes()))
    for index in range(1, len(data["traceEvents"]), 3):
        data["traceEvents"][index] |= odd
    (run / "trace.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    for view in (views.trace, views.communications):
        assert "<b>&" not in view(run)._repr_html_() and str(view(run))


# --- as part of the whole ----------------------------------------------------------------------------------------------------


def test_reports_hold_the_trace_of_a_run_that_has_one(run, tmp_path):
    said = str(views.report(run))
    assert "trace of profile-001" in said and "communications of profile-001" in said
    other = folder(tmp_path / "runs" / "gpu-001", MEASURED)
    assert "trace of" not in str(views.report(other))
    assert str(views.report(run, other)).count("trace of profile-001") == 1
    done = subprocess.run([sys.executable, "-m", "dlojz.cli", "report", run], capture_output=True, text=True, timeout=60)
    assert "diagnosis: loader" in done.stdout and done.returncode == 0, done.stderr


def test_a_report_goes_on_after_a_run_that_cannot_be_shown(run, tmp_path, monkeypatch):
    bad = [folder(tmp_path / "runs" / name, MEASURED) for name in ("junk-001", "link-001", "cut-001")]
    (bad[0] / "trace.json").write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": 3, "ts": "", "dur": -1}]}')
    (bad[1] / "trace.json.gz").symlink_to(tmp_path / "nowhere")
    (bad[2] / "trace.json.gz").write_bytes((run / "trace.json.gz").read_bytes()[:40])
    page = tmp_path / "report.html"
    done = subprocess.run([sys.executable, "-m", "dlojz.cli", "report", *bad, run, "--html", page], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    said = plain(page.read_text())
    assert "junk-001/trace.json holds no operator and no kernel" in said and "there is no trace in" in said
    assert "cut-001/trace.json.gz has no events and broke off" in said
    assert "Diagnosis  loader" in said and "Trace of profile-001" in said
    whole = report.trace
    monkeypatch.setattr(report, "trace", lambda one: whole(one) if one.name == run.name else 1 // 0)
    text = str(views.report(*bad, run))
    assert text.count("it can't be shown (ZeroDivisionError: ") == 3 and "diagnosis: loader" in text


def test_a_folder_of_runs_that_submit_did_not_make_has_its_name(run, tmp_path, monkeypatch):
    (tmp_path / "workspace.toml").write_text("")
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(tmp_path))
    assert str(views.trace("profile-001")) == str(views.trace("profile")) == str(views.trace(run))  # its latest, or that one
    bare = tmp_path / "runs" / "bare"
    bare.mkdir()
    for view in (views.report, views.trace):
        with pytest.raises(UsageError, match=r"there is no record in .*bare: give a run's folder"):
            view("bare")
    (bare / "record.jsonl").touch()
    assert "bare" in str(views.report("bare")) and "there is no trace in" in str(views.trace("bare"))
    for none in ("pro", "", ".", ".."):
        with pytest.raises(UsageError, match="there is no run"):
            views.trace(none)


@pytest.mark.alone
def test_an_ordinary_trace_takes_less_than_a_second(tmp_path):
    """As many events as five steps of a ResNet-50 on a GPU."""
    path = Gpu(world=2).steps(5, lambda gpu: training(gpu, layers=700)).write(tmp_path / "trace.json.gz")
    took = []
    for _ in range(3):  # the machine may be busy with other things
        trace._analysed.cache_clear()
        begun = time.process_time()
        page = views.trace(path)._repr_html_()
        took.append(time.process_time() - begun)
    assert min(took) < 1 and len(page) < 400_000
