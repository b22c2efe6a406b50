"""What is said about a run, against a record whose numbers were worked out by hand."""

import pytest

from dlojz.training import summary
from dlojz.training.records import Record

START = {"event": "start", "model": "resnet50", "image_size": 224, "batch_size": 64, "world_size": 2, "parameters": 25_557_032,
         "total_steps": 5, "warmup_steps": 1, "args": {}, "versions": {"torch": "2.14.1"},
         "machine": {"device": "cuda", "gpu": "NVIDIA H100", "cpu": "EPYC", "cores_allowed": 16, "gpu_memory": 80_000_000_000}}


def step(number, seconds, idle, **fields):
    """A step of 128 images; what is neither idle nor forward is spread over the others."""
    rest = seconds - idle - 0.1
    return {"event": "step", "step": number, "images": 128, "seconds": seconds, "idle": idle, "copy": 0.0, "forward": 0.1,
            "backward": rest * 0.75, "update": rest * 0.25, "loading": idle / 2, **fields}


MEASURED = [
    START,
    step(1, 9.0, 8.0, loss=3.0, warmup=True),
    step(2, 0.4, 0.1, loss=2.5), step(3, 0.4, 0.1), step(4, 0.4, 0.1, loss=2.0), step(5, 0.8, 0.1, loss=1.5),
    {"event": "validation", "step": 5, "loss": 1.25, "accuracy": 0.625, "images": 1000, "seconds": 2.0},
    {"event": "end", "status": "completed", "steps": 5, "host_memory": 3_500_000_000, "memory_allocated": 40_000_000_000,
     "memory_reserved": 44_000_000_000, "power": 1200.0, "joules_per_image": 4.6875},
]


def test_numbers_by_hand():
    found = summary.numbers(Record(MEASURED))
    # Four timed steps: 2.0 s in all for 512 images, of which 0.4 s idle.
    assert found == pytest.approx({
        "timed_steps": 4, "step_seconds": 0.5, "images_per_second": 256.0, "device_images_per_second": 320.0,
        "idle": 0.1, "copy": 0.0, "forward": 0.1, "backward": 0.225, "update": 0.075, "loading": 0.05,
        "first_step_seconds": 9.0, "loss": 1.5, "validation_loss": 1.25, "validation_accuracy": 0.625, "validation_images": 1000,
        "host_memory": 3.5e9, "memory_allocated": 4e10, "memory_reserved": 4.4e10, "power": 1200.0, "joules_per_image": 4.6875,
    })
    phases = sum(found[phase] for phase in summary.PHASES)
    assert phases == pytest.approx(found["step_seconds"])


def test_text_by_hand():
    assert summary.text(Record(MEASURED)) == """\
resnet50, 224 px, 2 x 64 images per step, 25.6 M parameters
on NVIDIA H100, 16 cores, torch 2.14.1
steps             5 of 5, 4 timed (the first 1 are warm-up)
throughput        256.0 images/s, 500.0 ms per step
per step          idle 20%, copy 0%, forward 20%, backward 45%, update 15%
loading           the process waited 50.0 ms per step for its loader
the device alone  320.0 images/s, if every batch were ready in time
first step        9.00 s
GPU memory        40.00 GB at peak, 44.00 reserved of 80.0
host memory       3.50 GB at peak
power             1200 W, 4.688 J per image
validation        loss 1.2500, accuracy 62.5% of 1000 images"""


def test_nothing_is_recorded():
    assert summary.numbers(Record([])) == {}
    assert summary.text(Record([])) == "nothing is recorded"
    assert summary.text(Record([], torn=2)) == "nothing is recorded (2 torn lines)"


def test_nothing_is_measured():
    start = {**START, "machine": {"device": "cpu", "cpu": "EPYC", "cores_allowed": 2}}
    assert summary.numbers(Record([start])) == {}
    assert summary.text(Record([start])) == """\
resnet50, 224 px, 2 x 64 images per step, 25.6 M parameters
on EPYC, 2 cores, torch 2.14.1
steps             0 of 5, 0 timed (the first 1 are warm-up)
not finished      still running, or killed"""


def test_a_small_model_without_images_of_a_size():
    """A script of the hunt."""
    start = {name: value for name, value in START.items() if name != "image_size"} | {"model": "Net", "parameters": 5_258}
    assert summary.text(Record([start])).startswith("Net, 2 x 64 images per step, 5,258 parameters\n")


def test_a_bare_start_is_no_reason_to_fail():
    assert "steps" in summary.text(Record([{"event": "start"}]))
    assert summary.text(Record([{"event": "start"}, {"event": "step", "step": 1}, {"event": "end"}]))


def test_power_that_was_not_measured_is_not_made_up():
    record = Record([*MEASURED[:-1], {"event": "end", "status": "completed", "power": None, "joules_per_image": None}])
    assert "power" not in summary.numbers(record)
    assert "power             not measured" in summary.text(record)
    cpu = {**START, "machine": {**START["machine"], "device": "cpu"}}
    assert "power" not in summary.text(Record([cpu, *MEASURED[1:-1]]))


def test_without_phases_whole_steps_are_measured():
    steps = [{"event": "step", "step": n, "images": 10, "seconds": 0.5, "loading": 0.25} for n in (1, 2)]
    record = Record([START, *steps])
    found = summary.numbers(record)
    assert found["images_per_second"] == 20.0 and found["loading"] == 0.25 and "forward" not in found
    assert "per step  " not in summary.text(record) and "the device alone" not in summary.text(record)
    assert "waited 250.0 ms" in summary.text(record)


def test_a_run_goes_on():
    assert summary.text(Record(MEASURED[:-1])).endswith("not finished      still running, or killed")


def test_a_run_has_failed():
    error = {"event": "error", "kind": "out_of_memory", "message": "Out of memory.", "advice": "Take a smaller --batch-size."}
    text = summary.text(Record([*MEASURED[:3], error, {"event": "end", "status": "failed"}]))
    assert text.endswith("out_of_memory     Out of memory. Take a smaller --batch-size.\nended             failed")


def test_a_loss_that_is_no_number():
    nan = float("nan")
    validation = {"event": "validation", "step": 1, "loss": nan, "accuracy": 0.1, "images": 10}
    record = Record([START, step(1, 0.4, 0.1, loss=nan, warmup=True), validation])
    assert "validation        loss nan, accuracy 10.0% of 10 images" in summary.text(record)


def test_a_trace_that_is_missing_is_said():
    start = {**START, "args": {"profile": True}}
    end = {"event": "end", "status": "stopped", "trace": False}
    line = "trace             none: the run ended before the steps that were to be traced"
    assert line in summary.text(Record([start, end]))
    assert "trace  " not in summary.text(Record([start, {**end, "trace": True}]))
    assert "trace  " not in summary.text(Record([START, end]))
    completed = [start, {**end, "status": "completed"}]
    assert "none: there is no trace.json.gz in the run's folder. Does on_trace_ready write it" in summary.text(Record(completed))
    todo = {"event": "todo", "lab": "profiler", "message": "the profiler is not written"}
    assert "none: the profiler is not written yet" in summary.text(Record([start, todo, completed[1]]))


def test_a_trace_that_could_not_be_written_is_said_as_the_record_has_it():
    start = {**START, "args": {"profile": True}}
    error = {"event": "error", "kind": "usage", "message": "no trace: /runs/a/profile is not there.", "fatal": False,
             "advice": "Make that folder first."}
    for end in ({"event": "end", "status": "completed", "trace": False}, {"event": "step", "step": 1}):
        said = [line for line in summary.text(Record([start, error, end])).splitlines() if "trace" in line]
        assert said == ["trace             none: /runs/a/profile is not there. Make that folder first."]


def test_only_the_last_attempt_is_timed():
    again = [{**START, "resumed_at": 3, "warmup_steps": 0}, step(4, 0.25, 0.05), step(5, 0.25, 0.05)]
    found = summary.numbers(Record([*MEASURED[:4], *again]))
    assert found["timed_steps"] == 2 and found["images_per_second"] == 512.0 and found["first_step_seconds"] == 9.0


def test_a_validation_that_was_made_up_for_leaves_the_warm_up_that_was():
    events = [START, step(1, 1, 0.5, warmup=True), *(step(n, 0.25, 0.05) for n in (2, 3, 4, 5))]
    again = {**START, "resumed_at": 5, "warmup_steps": 0}
    assert "steps             5 of 5, 4 timed (the first 1 are warm-up)" in summary.text(Record([*events, again]))


def timed(*seconds, idle=0.0):
    return Record([START, *({"event": "step", "step": number, "images": 4, "seconds": each + idle, "idle": idle}
                            for number, each in enumerate(seconds, 1))])


def waiting(*seconds):
    """Each step works for a tenth of a second."""
    return Record([START, *({"event": "step", "step": number, "images": 4, "seconds": each, "idle": each - 0.1}
                            for number, each in enumerate(seconds, 1))])


@pytest.mark.parametrize("record, said", [
    (timed(*[0.1] * 39, 6.6), "1 step of 40 took up to 6.6 s; most took 100 ms."),
    (timed(*[0.1] * 3, 0.5), "1 step of 4 took up to 500 ms; most took 100 ms."),
    (timed(*[0.1] * 38, 2.0, 3.0), "2 steps of 40 took up to 3 s; most took 100 ms."),
    (timed(*[0.1] * 39, 0.5), ""),  # 4 of 44 tenths of a second: the average is what it would be
    (timed(*[0.1, 0.1, 0.1, 0.5] * 10), ""),  # one in four: that is how this training goes
    (waiting(*[0.1] * 9, 9.0), ""),  # it waited for its batch, which is what the average is for
    (Record([START]), ""), (timed(0.1, 9.0), "")])
def test_a_run_that_was_disturbed(record, said):
    found = summary.disturbed(record)
    assert found.startswith(said) and bool(found) == bool(said)
    assert not said or found.endswith("Run it again (again=True).")
