"""The record: what is written can be read, and what cannot be written or read does no harm."""

import errno
import json
import math
import multiprocessing
import os
import re
import time
from pathlib import Path

import pytest

from dlojz.system.errors import UsageError
from dlojz.training import records
from dlojz.training.records import Reader, Record, Writer


def lines(*events) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def step(number, **fields):
    return {"event": "step", "step": number, **fields}


class Disk:
    """``os``, with some of its functions replaced."""

    def __init__(self, **replaced):
        self.__dict__.update(replaced)

    def __getattr__(self, name):
        return getattr(os, name)


def fails(number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def path(tmp_path):
    return tmp_path / records.NAME


@pytest.fixture
def writer(path):
    return Writer(path)


# Writing


def test_what_is_written_is_read_back(writer, path):
    writer.write("start", model="resnet18", total_steps=2, args={"lr": 0.1, "folder": path, "names": ("a", "b")})
    writer.write("step", step=1, loss=1.5, accuracy=None, warmup=True)
    writer.write("validation", step=1, loss=1.25, images=10)
    writer.write("end", status="completed")
    record = records.read(path)
    assert record.start["args"] == {"lr": 0.1, "folder": str(path), "names": ["a", "b"]}
    assert [s["loss"] for s in record.steps] == [1.5] and record.steps[0]["accuracy"] is None
    assert record.validations[0]["loss"] == 1.25 and record.end["status"] == "completed"
    assert record.progress == (1, 2) and record.torn == 0
    assert all(abs(event["time"] - time.time()) < 60 for event in record.events)


def test_numbers_that_json_does_not_have(writer, path):
    writer.write("step", flush=True, step=1, loss=math.nan, lr=math.inf, low=-math.inf, inside={"x": [math.nan]})

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    json.loads(path.read_text(), parse_constant=refuse)
    [found] = records.read(path).steps
    assert math.isnan(found["loss"]) and found["lr"] == math.inf and found["low"] == -math.inf
    assert found["inside"] == {"x": ["nan"]}


def test_every_bit_of_a_loss_is_kept(writer, path):
    losses = [1 / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308]
    for number, loss in enumerate(losses, 1):
        writer.write("step", step=number, loss=loss)
    writer.flush()
    assert [s["loss"] for s in records.read(path).steps] == losses


def test_steps_are_gathered_for_half_a_second_and_other_events_are_not(path):
    now = [100.0]
    writer = Writer(path, clock=lambda: now[0])
    writer.write("step", step=1)
    assert not path.exists()
    now[0] += 0.6
    writer.write("step", step=2)
    assert len(records.read(path).steps) == 2
    writer.write("step", step=3)
    assert len(records.read(path).steps) == 2
    writer.write("checkpoint", step=3)
    assert len(records.read(path).steps) == 3


def test_nothing_is_kept_before_the_folder_is_known(tmp_path):
    writer = Writer()
    writer.write("step", step=1)
    writer.open(None)
    writer.write("error", flush=True, kind="usage")
    writer.open(tmp_path)
    writer.write("step", flush=True, step=2)
    assert [e["event"] for e in records.read(tmp_path).events] == ["step"]


def test_another_rank_writes_its_errors_only(path):
    writer = Writer(path, errors_only=True)
    writer.write("start")
    writer.write("step", flush=True, step=1)
    writer.write("error", flush=True, kind="exception", rank=3)
    assert [e["event"] for e in records.read(path).events] == ["error"]


def test_a_line_that_a_kill_tore_does_not_swallow_the_next(path):
    path.write_bytes(lines(step(1)) + b'{"event": "step", "st')
    Writer(path).write("step", flush=True, step=2)
    record = records.read(path)
    assert [s["step"] for s in record.steps] == [1, 2] and record.torn == 1


@pytest.mark.parametrize("failing", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_disk_that_is_full_for_a_while_costs_nothing(writer, path, monkeypatch, capfd, failing):
    writer.write("step", flush=True, step=1)
    with monkeypatch.context() as full:
        full.setattr(records, "os", Disk(write=fails(failing)))
        for number in range(2, 6):
            writer.write("step", flush=True, step=number)
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and os.strerror(failing) in said and str(path) in said
    writer.write("step", flush=True, step=6)
    record = records.read(path)
    assert [s["step"] for s in record.steps] == [1, 2, 3, 4, 5, 6] and record.torn == 0


def test_a_write_that_was_done_in_part_is_done_once(writer, path, monkeypatch, capfd):
    """What a nearly full disk does: some bytes fit."""
    with monkeypatch.context() as full:
        full.setattr(records, "os", Disk(write=fails(errno.ENOSPC)))
        for number in (1, 2, 3):
            writer.write("error", number=number)
        line = len(writer._lines[0])
        full.setattr(records, "os", Disk(write=lambda fd, data: os.write(fd, data[: line + 10])))
        writer.flush()
    assert "No space left" in capfd.readouterr().err
    writer.write("error", number=4)
    record = records.read(path)
    assert [e["number"] for e in record.errors] == [1, 2, 3, 4] and record.torn == 1


def test_a_disk_that_stays_full_does_not_fill_the_memory(writer, monkeypatch, capfd):
    monkeypatch.setattr(records, "os", Disk(open=fails(errno.ENOSPC)))
    for number in range(10_100):
        writer._lines.append(lines(step(number)))
    writer.write("end", flush=True)
    assert len(writer._lines) == 10_000


def test_the_log_may_be_on_the_full_disk_too(writer, monkeypatch):
    class Full:
        def write(self, text):
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(records, "os", Disk(open=fails(errno.ENOSPC)))
    with monkeypatch.context() as log:
        log.setattr("sys.stderr", Full())
        writer.write("end", flush=True)
    assert writer.failed


def _append(path, who):
    writer = Writer(path)
    for number in range(200):
        writer.write("error", flush=True, who=who, number=number, padding="x" * (number % 50))


def test_many_processes_append_at_once(path):
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_append, args=(path, who)) for who in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    record = records.read(path)
    assert record.torn == 0 and len(record.errors) == 1200
    for who in range(6):
        assert [e["number"] for e in record.errors if e["who"] == who] == list(range(200))


def test_a_note_from_elsewhere_comes_right_after_the_start(path, monkeypatch):
    monkeypatch.setattr(records, "_started", None)
    monkeypatch.setattr(records, "_noted", [])
    records.note("todo", lab="amp")
    writer = Writer(path)
    writer.write("start")
    records.note("todo", lab="ddp")
    record = records.read(path)
    assert [e["event"] for e in record.events] == ["start", "todo", "todo"]
    assert [e["lab"] for e in record.todos] == ["amp", "ddp"]
    monkeypatch.setattr(records, "_started", None)


# Reading


@pytest.mark.parametrize("content, steps, torn", [
    (b"", 0, 0),
    (b"\n\n\n", 0, 0),
    (lines(step(1)) + b'{"event": "step", "step": 2', 1, 1),
    (lines(step(1)) + lines(step(2))[:-1], 2, 0),
    (lines(step(1))[:-5] + b"\n" + lines(step(2)), 1, 1),
    (lines(step(1)) + b"\x00\xff\xfe\x80" * 100 + b"\n" + lines(step(2)), 2, 1),
    (lines(step(1)) + b"\x00" * 4096 + b"\n" + lines(step(2)), 2, 1),
    (lines(step(1)) + b"[" * 100_000 + b"\n" + lines(step(2)), 2, 1),
    (lines(step(1)) + b"[1, 2]\n7\nnull\n" + b'{"step": 4}\n{"event": 5}\n' + lines(step(2)), 2, 5),
    (b'{"event": "step", "step": 7\n"images": 4}\n' + lines(step(1)), 1, 2),  # together they would be a step
    (lines(*map(step, range(2500))) + b"{\n" + lines(step(2500, loss="nan")), 2501, 1),
    (lines(step(1)).replace(b"\n", b"\r\n") + lines(step(2)), 2, 0),
    (lines(step(1), {"event": "weather", "sky": "blue"}, step(2, colour="red")), 2, 0),
    (lines(step("one"), step(None), step(1), {"event": "step"}), 1, 0),
    (lines({"event": "start", "resumed_at": "never"}, step(1)), 1, 0),
])
def test_whatever_is_in_the_file(path, content, steps, torn):
    path.write_bytes(content)
    record = records.read(path)
    assert len(record.steps) == steps and record.torn == torn


def test_unknown_events_and_fields_are_kept(path):
    path.write_bytes(lines({"event": "weather", "sky": "blue"}, step(1, colour="red")))
    record = records.read(path)
    assert record.events[0]["sky"] == "blue" and record.steps[0]["colour"] == "red"


def test_a_record_that_is_not_there_reads_as_an_empty_one(tmp_path):
    record = records.read(tmp_path / "runs" / "nothing-001")
    assert record.events == [] and record.start == {} and record.end is None and record.progress == (0, None)
    assert record.timed_steps == [] and record.todos == []


def test_a_growing_file_is_read_piece_by_piece(path):
    reader = Reader(path.parent)
    assert reader.poll() == []
    content = lines(step(1), step(2), step(3))
    seen = []
    for end in range(1, len(content) + 1):  # a byte at a time, with a look after each
        path.write_bytes(content[:end])
        seen += reader.poll()
        assert [e["step"] for e in seen] == list(range(1, content[:end].count(b"\n") + 1))
    assert reader.poll() == [] and reader.rest() == [] and reader.torn == 0


def test_the_rest_is_read_once_the_run_is_over(path):
    reader = Reader(path)
    path.write_bytes(lines(step(1)) + lines(step(2))[:-1])
    assert [e["step"] for e in reader.poll()] == [1]
    assert [e["step"] for e in reader.rest()] == [2]
    assert reader.rest() == []


def test_ten_thousand_steps_are_read_in_well_under_a_second(path):
    full = step(1, time=1.0, epoch=0, images=256, loss=1.2345, accuracy=0.5, lr=0.1, seconds=0.1, loading=0.01, idle=0.01,
                copy=0.01, forward=0.03, backward=0.04, update=0.01)
    path.write_bytes(b"".join(lines({**full, "step": number}) for number in range(1, 10_001)))
    took = []
    for _ in range(3):
        begun = time.process_time()
        record = records.read(path)
        took.append(time.process_time() - begun)
        assert len(record.steps) == len(record.timed_steps) == 10_000
    assert min(took) < 0.5


# Attempts


def test_a_resumed_run_replaces_what_it_ran_again():
    record = Record([
        {"event": "start", "resumed_at": 0, "total_steps": 6}, step(1, loss=1), step(2, loss=2), step(3, loss=3),
        {"event": "validation", "step": 2, "loss": 20}, {"event": "validation", "step": 3, "loss": 30},
        {"event": "error", "kind": "signal"}, {"event": "end", "status": "stopped"},
        {"event": "start", "resumed_at": 2, "total_steps": 6}, {"event": "validation", "step": 2, "loss": 21},
        step(3, loss=31, seconds=1, warmup=True), step(4, loss=41, seconds=1),
    ])
    assert [(s["step"], s["loss"]) for s in record.steps] == [(1, 1), (2, 2), (3, 31), (4, 41)]
    assert [(v["step"], v["loss"]) for v in record.validations] == [(2, 21)]
    assert record.end is None and len(record.starts) == 2 and record.start["resumed_at"] == 2
    assert [s["step"] for s in record.timed_steps] == [4]
    assert record.progress == (4, 6)


def test_an_attempt_from_the_beginning_replaces_all():
    record = Record([{"event": "start"}, step(1), step(2), {"event": "end", "status": "failed"}, {"event": "start"}, step(1)])
    assert [s["step"] for s in record.steps] == [1] and record.end is None


def test_todos_are_those_of_the_last_attempt():
    todo = {"event": "todo", "lab": "amp"}
    assert Record([{"event": "start"}, todo, {"event": "start"}]).todos == []
    assert Record([{"event": "start"}, {"event": "start"}, todo]).todos == [todo]


def test_a_rank_that_fails_before_rank_0_has_started_belongs_to_this_attempt():
    first = [{"event": "error", "rank": 1, "began": 99.5, "time": 101}, {"event": "start", "time": 102}, step(1)]
    assert Record(first).errors == [first[0]]
    again = [*first, {"event": "start", "time": 200}]
    assert Record(again).errors == []
    again.insert(3, {"event": "error", "rank": 1, "began": 190, "time": 199})
    assert Record(again).errors == [again[3]]


def test_what_ended_an_attempt_that_never_started_is_over_with_it():
    first = [{"event": "start", "time": 100}, step(1), {"event": "end", "status": "stopped", "time": 110}]
    failed = [{"event": "error", "rank": 0, "began": 200, "time": 201}, {"event": "end", "status": "failed", "time": 201},
              {"event": "error", "rank": 1, "began": 200, "time": 202}]
    assert Record(first + failed).errors == [failed[0], failed[2]]
    assert Record([*first, *failed, {"event": "start", "time": 300, "resumed_at": 1}]).errors == []
    mine = {"event": "error", "rank": 1, "began": 298, "time": 299}
    assert Record([*first, *failed, mine, {"event": "start", "time": 300, "resumed_at": 1}]).errors == [mine]


def test_checkpoints_are_those_of_this_run():
    saved = [{"event": "checkpoint", "step": number} for number in (2, 4)]
    assert Record([{"event": "start"}, *saved, {"event": "start", "resumed_at": 2}]).checkpoints == saved[:1]
    assert Record([{"event": "start"}, *saved, {"event": "start", "resumed_at": 0}]).checkpoints == []


def test_an_attempt_without_steps_to_do_leaves_the_averages_alone():
    done = [{"event": "start", "resumed_at": 0, "total_steps": 2, "warmup_steps": 1}, step(1, seconds=1, warmup=True),
            step(2, seconds=1), {"event": "end", "status": "stopped"}]
    again = [*done, {"event": "start", "resumed_at": 2, "total_steps": 2, "warmup_steps": 0}]
    assert [s["step"] for s in Record(again).timed_steps] == [2] and Record(again).timed_start == done[0]
    more = [*again, {"event": "start", "resumed_at": 2, "total_steps": 4}]
    assert Record(more).timed_steps == [] and Record(more).timed_start == more[-1]
    assert Record([]).timed_steps == [] and Record([]).timed_start == {}


@pytest.mark.parametrize("fields, used, kept", [
    ({"kind": "usage"}, True, False), ({"kind": "usage"}, False, True), ({"kind": "exception"}, True, True),
])
def test_a_refusal_leaves_no_mark_on_the_record_of_runs_before(path, fields, used, kept):
    if used:
        before = Writer(path)
        before.write("start")
        before.write("end", flush=True, status="completed")
    content = path.read_bytes() if used else b""
    refused = Writer(path)
    refused.write("error", flush=True, **fields)
    refused.write("end", flush=True, status="failed")
    assert ((path.read_bytes() if path.exists() else b"") != content) == kept


def test_what_is_wrong_after_the_start_is_recorded_whatever_its_kind(writer, path):
    writer.write("start")
    writer.write("error", flush=True, kind="usage")
    Writer(path, errors_only=True).write("error", flush=True, kind="usage", rank=1)
    assert len(records.read(path).errors) == 2


def test_a_refusal_takes_the_new_folder_along_and_no_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DLOJZ_RUN", raising=False)
    for chosen in (None, "mine"):
        writer = Writer()
        folder = writer.open(records.run_folder(chosen, "train"))
        writer.write("error", flush=True, kind="usage")
        writer.write("end", flush=True, status="failed")
        assert folder.exists() == bool(chosen)
    assert len(records.read(tmp_path / "mine").errors) == 1


def test_an_error_says_when_its_process_began(tmp_path):
    writer = records.Writer(tmp_path / "r.jsonl", errors_only=True, clock=iter([7.0, 7.0, 8.0, 8.0, 8.0]).__next__)
    writer.write("error", flush=True, rank=1)
    assert records.read(tmp_path / "r.jsonl").errors[0]["began"] == 7.0


def test_how_long_it_ran_leaves_out_the_time_between_attempts():
    times = [("start", 100), ("step", 101), ("step", 103), ("start", 1000), ("step", 1002), ("end", 1002.5)]
    events = [{"event": event, "time": time} for event, time in times]
    events[3]["resumed_at"] = 2
    assert Record(events).run_seconds == 3 + 2.5
    events[3]["resumed_at"] = 0  # a new run, in the folder of another
    assert Record(events).run_seconds == 2.5
    assert Record([]).run_seconds == 0


# Folders


def test_the_folder_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DLOJZ_RUN", raising=False)
    assert records.run_folder(None, "train") == tmp_path / "runs" / "train-001"
    assert records.run_folder(None, "train") == tmp_path / "runs" / "train-002"
    assert records.run_folder(None, "train", is_main=False) is None
    (tmp_path / "runs" / "train-010").mkdir()
    (tmp_path / "runs" / "train-x").mkdir()
    assert records.run_folder(None, "train").name == "train-011"
    monkeypatch.setenv("DLOJZ_RUN", str(tmp_path / "job"))
    assert records.run_folder(None, "train") == tmp_path / "job"
    assert records.run_folder("mine", "train", is_main=False) == tmp_path / "mine"


@pytest.mark.parametrize("name", ["a[b]*", "ünï cödé", "-"])
def test_any_name_will_do_for_a_folder(tmp_path, name):
    assert [records.new_folder(tmp_path, name).name for _ in range(2)] == [f"{name}-001", f"{name}-002"]


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"^cannot write to .*/file/run: Not a directory\. Give another folder with --run-dir$"):
        records.run_folder(tmp_path / "file" / "run", "train")


@pytest.mark.parametrize("where", ["", "record.jsonl"])
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch, where):
    (tmp_path / "record.jsonl").write_text("")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / where and access(path, mode))
    said = f"cannot write to {tmp_path / where}: Permission denied. Give another folder with --run-dir"
    with pytest.raises(UsageError, match=f"^{re.escape(said)}$"):
        records.run_folder(tmp_path, "train")
