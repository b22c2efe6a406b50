"""jobs.watch(): what it says of a run, how little it asks and reads, and what a notebook and a terminal get to see."""

import builtins
import dataclasses
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import LIMIT, patient

from dlojz import cli, jobs
from dlojz.jobs import Jobs, wait_line, watch_table
from dlojz.jobs import job as job_module
from dlojz.jobs.states import Request, Status, Unreachable
from dlojz.system.errors import UsageError
from dlojz.training import records
from dlojz.ui import notebook

watch = sys.modules["dlojz.jobs.watch"]  # jobs.watch is the verb


# ---------------------------------------------------------------- a queue that says what the test wants


class Queue:
    """A launcher: ``queue.states[id]`` is what it answers; ``polls`` counts questions, ``ended`` who was cancelled."""

    def __init__(self):
        self.states: dict[str, Status] = {}
        self.polls = 0
        self.cancelled: list[str] = []
        self.down = False

    def poll(self, asked):
        self.polls += 1
        if self.down:
            raise Unreachable("squeue does not answer")
        return {job.id: self.states[job.id] for job in asked}

    def cancel(self, ids, given_to):
        self.cancelled += ids
        for identifier in ids:
            self.states[identifier] = Status("CANCELLED")

    def recover(self, folders):
        return {}


@pytest.fixture
def queue(monkeypatch):
    one = Queue()
    monkeypatch.setattr(job_module, "launcher", lambda name: one)
    return one


@pytest.fixture
def workspace(tmp_path, monkeypatch, queue):
    folder = tmp_path / "w"
    cli.main(["workspace", str(folder)])
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(folder))
    return folder


@pytest.fixture
def add(workspace, queue):
    """``add("amp", 3, Status(…))``: a run amp-003 as submit would have left it."""

    def make(name="amp", number=1, status=None, steps=0, total=100):
        folder = workspace / "runs" / f"{name}-{number:03}"
        folder.mkdir()
        request = Request(name=name, command=("train.py",), site="laptop", seconds=600)
        identifier = f"{name}{number}"
        content = {"id": identifier, "launcher": "local", "submitted": time.time(), "request": dataclasses.asdict(request)}
        (folder / "job.json").write_text(json.dumps(content))
        queue.states[identifier] = status or Status("RUNNING", started=time.time() - 5)
        if steps:
            write(folder, steps, total)
        return folder

    return make


def write(folder, steps, total=100, first=1, pace=0.1, **start):
    """A record of this many steps; the last was done now."""
    now = time.time() - (steps - first + 1) * pace
    writer = records.Writer(folder / records.NAME, clock=lambda: now)
    if first == 1 or start:
        writer.write("start", total_steps=total, **start)
    for step in range(first, steps + 1):
        now += pace
        writer.write("step", step=step, images=32, seconds=pace, warmup=step <= 5)
    writer.flush()


def look(**options):
    return {row.run: row for row in watch.Watched((), **options).look()}


# ---------------------------------------------------------------- what is said of a run


def test_progress_speed_and_time_left(add):
    add(steps=40)
    row = look()["amp-001"]
    assert (row.state, row.done, row.total) == ("RUNNING", 40, 100)
    assert row.speed == pytest.approx(320)  # 32 images in 0.1 s
    assert row.left == pytest.approx(6, abs=0.5)  # 60 steps of 0.1 s
    assert row.words == "40 of 100 steps, 320 images/s, 6 s left"


def test_speed_leaves_the_warm_up_out(tmp_path):
    progress = watch.Progress(tmp_path / "record.jsonl")
    progress.take({"event": "step", "step": 1, "images": 32, "seconds": 30.0, "warmup": True})
    assert progress.done == 1 and progress.speed is None
    progress.take({"event": "step", "step": 2, "images": 32, "seconds": 0.5})
    assert progress.speed == 64


def test_time_left_counts_what_lies_between_steps_and_runs_down(tmp_path):
    progress = watch.Progress(tmp_path / "record.jsonl")
    progress.take({"event": "start", "total_steps": 20})
    assert progress.left(1000.0) is None
    for step in range(1, 11):
        progress.take({"event": "step", "step": step, "time": 1000.0 + 2 * step, "seconds": 0.1})  # 1.9 s of validation each
    assert progress.left(1020.0) == pytest.approx(20)
    assert progress.left(1025.0) == pytest.approx(15)
    assert progress.left(9999.0) == 0


def test_a_resumed_run_goes_on_from_its_checkpoint(add):
    folder = add(steps=50)
    row = look()["amp-001"]
    assert row.done == 50
    write(folder, 45, first=41, resumed_at=40)
    row = look()["amp-001"]
    assert row.done == 45 and row.words.startswith("45 of 100 steps")
    assert watch.Row("x-001", "RUNNING", done=451, total=100_000).words == "451 of 100,000 steps"


def test_records_that_are_torn_empty_or_of_another_script(add, workspace):
    folder = add(steps=10)
    with open(folder / records.NAME, "a") as record:
        record.write('{"event": "step", "step": 11, "ima')
    add("bare", 1)
    odd = add("odd", 1)
    (odd / records.NAME).write_text('{"event": "step"}\n{"event": "step", "step": "x"}\nnonsense\n{"event": "start"}\n')
    rows = look()
    assert rows["amp-001"].done == 10
    assert rows["bare-001"].words == "5 s of 10 min allowed" and rows["odd-001"].done == 0


@pytest.mark.parametrize(
    "status, words",
    [
        (Status("PENDING", "waiting for its turn", position=3), "number 3 in the queue, waiting for its turn"),
        (Status("PENDING", "Resources"), "Resources"),
        (Status("COMPLETED", "", 0, 100.0, 220.0), "took 2 min"),
        (Status("FAILED", "RuntimeError: no", 1, 100.0, 103.0), "took 3 s, RuntimeError: no"),
    ],
)
def test_words_for_each_state(add, status, words):
    add(status=status)
    assert look()["amp-001"].words == words


def test_durations_in_words():
    said = [watch.duration(seconds) for seconds in (0.4, 99, 150, 3599, 3900, 7200, 86370, 100000)]
    assert said == ["0 s", "99 s", "2 min", "1 h", "1 h 5 min", "2 h", "1 d 0 h", "1 d 4 h"]


# ---------------------------------------------------------------- which jobs


def test_without_names_all_that_go_on_or_else_the_latest(add):
    add("old", 1, Status("COMPLETED", "", 0, 1.0, 2.0))
    add("old", 2, Status("FAILED", "", 1, 1.0, 2.0))
    assert list(look()) == ["old-002"]
    add("new", 1)
    add("new", 2, Status("PENDING"))
    assert list(look()) == ["new-001", "new-002"]
    named = [row.run for row in watch.Watched(("old", jobs["new-002"])).look()]
    assert named == ["old-002", "new-002"]


def test_another_workspace(add, workspace, tmp_path, monkeypatch, capsys):
    add("there", 1, Status("COMPLETED", "", 0, 1.0, 2.0))
    monkeypatch.delenv("DLOJZ_WORKSPACE")
    monkeypatch.chdir(tmp_path)
    Jobs(workspace).watch()
    assert "there-001  COMPLETED" in capsys.readouterr().out


def test_what_is_submitted_later_joins_in(add, workspace):
    add("first", 1)
    watched = watch.Watched(())
    assert len(watched.look()) == 1
    (workspace / "runs" / "later-001").mkdir()  # its job.json is still to come
    assert len(watched.look()) == 1
    (workspace / "runs" / "later-001").rmdir()
    add("later", 1, Status("PENDING"))
    assert [row.run for row in watched.look()] == ["first-001", "later-001"]


def test_nothing_to_watch_is_one_line(workspace):
    with pytest.raises(UsageError, match="nothing to watch yet"):
        watch.watch()
    with pytest.raises(UsageError, match="there is no run 'nix'"):
        watch.watch("nix")


@pytest.mark.parametrize(("names", "asked", "said"), [
    ("amp gpu", "amb", "did you mean 'amp'?"), ("amp gpu", "xyz", "there is amp, gpu"),
    ("", "xyz", "nothing has been submitted yet"), ("a b c d e f g", "xyz", "the latest are c, d, e, f, g"),
    ("amp1 amp2", "amp", "did you mean 'amp1' or 'amp2'?")])
def test_a_run_that_is_not_there_and_those_that_are(add, workspace, names, asked, said):
    for name in names.split():
        add(name, 1, Status("COMPLETED"))
    with pytest.raises(UsageError) as found:
        jobs[asked]
    assert str(found.value).endswith(f": {said}")


def test_a_run_folder_that_is_deleted_meanwhile(add, workspace):
    import shutil

    add(steps=3)
    watched = watch.Watched(())
    watched.look()
    shutil.rmtree(workspace / "runs" / "amp-001")
    row = watched.look()[0]
    assert row.state == "UNKNOWN" and "deleted" in row.words


def test_a_queue_that_does_not_answer_leaves_the_last_state(add, queue):
    add(steps=10)
    watched = watch.Watched(())
    watched.look()
    queue.down = True
    row = watched.look()[0]
    assert row.state == "RUNNING" and row.done == 10
    queue.down = False
    queue.states["amp1"] = Status("COMPLETED", "", 0, 1.0, 2.0)
    assert watched.look()[0].state == "COMPLETED"


# ---------------------------------------------------------------- how little it costs


def test_one_question_and_few_reads_a_tick(add, queue, monkeypatch):
    """20 jobs: one query for all; a running job costs its job.json and what is new in its record, a waiting one its job.json."""
    for number in range(1, 11):
        add("run", number, steps=500, total=1000)
    for number in range(1, 6):
        add("wait", number, Status("PENDING", position=number), steps=1)
    for number in range(1, 6):
        add("end", number, steps=500)
    watched = watch.Watched(())
    watched.look()
    for number in range(1, 6):
        queue.states[f"end{number}"] = Status("COMPLETED", "", 0, 1.0, 2.0)
    watched.look()

    opened, parsed = [], []
    real_open = builtins.open

    def counted(file, *arguments, **options):
        opened.append(Path(file).name if isinstance(file, (str, Path)) else file)
        return real_open(file, *arguments, **options)

    real_parse = records.Reader._parse
    monkeypatch.setattr(records.Reader, "_parse", lambda self, data: parsed.append(len(data)) or real_parse(self, data))
    monkeypatch.setattr(builtins, "open", counted)
    queue.polls = 0
    rows = watched.look()
    monkeypatch.undo()
    assert len(rows) == 20 and queue.polls == 1
    assert opened.count("job.json") == 15  # not those that have ended
    assert opened.count(records.NAME) == 10  # not those that wait
    assert len(opened) == 25
    assert sum(parsed) == 0  # nothing new, nothing read again


def test_ten_ticks_of_twenty_jobs_take_little_time(add):
    for number in range(1, 21):
        add("run", number, steps=200, total=1000)
    watched = watch.Watched(())
    watched.look()
    began = time.process_time()
    for _ in range(10):
        watched.look()
    assert (time.process_time() - began) / 10 < 0.02  # 2 % of a core would be 0.04 s a tick


def test_never_more_often_than_every_two_seconds(add, monkeypatch):
    add(status=Status("PENDING"))
    pauses = []
    monkeypatch.setattr(watch, "follow_in_lines", lambda watched, every, timeout: pauses.append(every))
    watch.watch(every=0.01)
    watch.watch(every=7)
    assert pauses == [2.0, 7]


# ---------------------------------------------------------------- lines of text


def lines(queue, changes, timeout=None, **options):
    """What is printed when before each pause the next of ``changes`` is made."""
    said, now = [], [0.0]

    def sleep(seconds):
        now[0] += seconds
        change = next(changes, None)
        if change:
            change()

    watch.follow_in_lines(watch.Watched(()), 2.0, timeout, said.append, sleep, lambda: now[0])
    return [line[10:] if line[2:3] == ":" else line for line in said]


def test_lines_come_when_states_change_and_end_with_the_jobs(add, queue):
    folder = add("amp", 1, Status("PENDING", "next to run", position=1))

    def set(state, **more):
        return lambda: queue.states.update(amp1=Status(state, **more))

    def failing():
        write(folder, 20)
        set("FAILED", reason="ValueError: x", exit_code=1, started=100.0, ended=104.0)()

    said = lines(queue, iter([None, set("RUNNING", started=time.time()), None, failing]))
    assert said == [
        "amp-001  PENDING    number 1 in the queue, next to run",
        "amp-001  RUNNING    0 s of 10 min allowed",
        "amp-001  FAILED     20 of 100 steps, 320 images/s, took 4 s, ValueError: x",
        "ended: 1 failed",
    ]


def test_lines_on_progress_come_every_ten_seconds(add, queue):
    folder = add("amp", 1, steps=10)
    more = iter([lambda n=n: write(folder, n, first=n - 4, pace=0.4) for n in range(15, 75, 5)])
    said = lines(queue, more, timeout=22)
    steps = [line.split(",")[0].split("  ")[-1].strip() for line in said[:-1]]
    assert steps == ["10 of 100 steps", "35 of 100 steps", "60 of 100 steps"]
    assert said[-1] == "after 22 s: 1 running; the jobs keep running"


def test_an_interrupt_ends_the_watching_and_nothing_else(add, queue):
    add()

    def interrupt():
        raise KeyboardInterrupt

    assert lines(queue, iter([interrupt]))[-1] == "stopped watching; the jobs keep running"
    assert queue.cancelled == []


# ---------------------------------------------------------------- who can see widgets


def kernel(metadata):
    return SimpleNamespace(get_parent=lambda channel: {"metadata": metadata})


def test_widgets_only_where_a_page_looks(monkeypatch):
    monkeypatch.delenv("DLOJZ_PLAIN", raising=False)
    assert notebook.plain_wanted()  # no kernel here
    assert notebook.looked_at(kernel({"cellId": "ab12"}), {})
    assert not notebook.looked_at(kernel({}), {})  # nbval, nbconvert, papermill
    assert notebook.looked_at(kernel({}), {"VSCODE_PID": "1"})
    assert not notebook.looked_at(object(), {})
    shell = SimpleNamespace(kernel=kernel({"cellId": "ab12"}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert not notebook.plain_wanted()
    monkeypatch.setenv("DLOJZ_PLAIN", "1")
    assert notebook.plain_wanted()
    monkeypatch.setenv("DLOJZ_PLAIN", "0")
    assert not notebook.plain_wanted()


# ---------------------------------------------------------------- HTML and logs


def test_html_shows_names_reasons_and_logs_as_text():
    row = watch.Row("<i>run</i>", "FAILED", "<script>alert('x')</script>", done=150, total=100)
    page = watch.row_html(row) + watch.final_html([row], ["<b>log</b>"])
    assert "<script>" not in page and "<i>" not in page and "<b>" not in page
    assert "&lt;script&gt;" in page and "width: 100.0%" in page
    assert "width: 100.0%" in watch.row_html(watch.Row("search-001", "COMPLETED", "took 11 s")), "a run may record no step"
    assert "width: 0.0%" in watch.row_html(watch.Row("search-001", "RUNNING", "started"))


def test_words_that_are_too_long_end_in_dots_before_the_buttons():
    """With a width of their own they would be a part of the least width of what a widget shows, and go on under its buttons."""
    assert "flex: 1 1 0; width: 0; min-width: 0; overflow: hidden; text-overflow: ellipsis" in watch.row_html(
        watch.Row("x-001", "RUNNING"))


def test_tail_of_a_log(tmp_path):
    log = tmp_path / "out.log"
    assert watch.tail(log) == ""
    log.write_bytes("".join(f"line {n}\n" for n in range(50)).encode() + b"10%\r50%\r100%\n" + b"\xff" + b"x" * 500)
    shown = watch.tail(log, lines=4).split("\n")
    assert shown[:3] == ["line 48", "line 49", "100%"]
    assert len(shown[3]) == 200 and shown[3].endswith("…")


def test_tail_of_a_log_without_what_torchrun_adds(tmp_path):
    rule, table = "=" * 60, "".join(f"[{rank}]:\n  rank      : {rank}\n  exitcode  : 2 (pid: {rank})\n" for rank in range(99))
    log = tmp_path / "err.log"
    log.write_text("train.py: unrecognized arguments: --nosuch\n"
                   "E1128 07:02:34.605000 9443 lib/torch/distributed/elastic/multiprocessing/api.py:1002] failed\n"
                   'Traceback (most recent call last):\n  File "lib/torch/distributed/run.py", line 1142, in <module>\n'
                   f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{rule}\nFAILED\n{table}{rule}\n"
                   "slurmstepd: error: something\n")
    assert watch.tail(log) == "train.py: unrecognized arguments: --nosuch\nslurmstepd: error: something"


# ---------------------------------------------------------------- the live table


@pytest.fixture
def screen(monkeypatch):
    """What is displayed: a list of things; updates of a display come as ("update", thing)."""
    shown = []

    def display(thing, display_id=None, raw=False):
        shown.append(thing)
        if display_id:
            return SimpleNamespace(update=lambda thing, raw=False: shown.append(("update", thing)))

    monkeypatch.setattr(watch_table, "display", display)
    return shown


def table(every=0.02, **options):
    one = watch_table.Table(watch.Watched(()), every, **options)
    one.show()
    return one


def until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_table_follows_without_blocking_and_becomes_plain_html_at_the_end(add, queue, screen):
    folder = add("amp", 1, steps=10)
    began = time.monotonic()
    one = table()
    assert time.monotonic() - began < patient(4) and screen == [one.box]
    assert one.head.value.endswith(">1 running</div>")
    write(folder, 50, first=11)
    until(lambda: "50 of 100 steps" in one.lines["amp-001"].text.value)
    add("new", 1, Status("PENDING", position=1))
    until(lambda: len(one.body.children) == 2)
    queue.states.update(amp1=Status("COMPLETED", "", 0, 1.0, 9.0), new1=Status("CANCELLED", "cancelled before it ran"))
    one.thread.join(5)
    assert not one.thread.is_alive()
    kind, final = screen[-1]
    assert kind == "update" and "50 of 100 steps" in final["text/html"] and "widget" not in final["text/html"]
    assert final["text/plain"].splitlines() == [
        "amp-001  COMPLETED  50 of 100 steps, 320 images/s, took 8 s",
        "new-001  CANCELLED  cancelled before it ran",
        "1 completed, 1 cancelled",
    ]


def test_jobs_that_have_ended_are_shown_without_widgets(add, screen):
    add(status=Status("COMPLETED", "", 0, 1.0, 2.0))
    one = table()
    assert "COMPLETED" in screen[0]["text/html"] and not one.thread.is_alive()


def test_values_that_stay_the_same_cost_no_message(add, screen):
    add(status=Status("PENDING", "Resources", position=4))
    one = table(every=60)
    sent = []
    for widget in (one.head, one.body, *(getattr(one.lines["amp-001"], name) for name in ("text", "tail", "log", "stop"))):
        widget.send_state = lambda key=None, widget=widget: sent.append((widget, key))
    one.look()
    assert sent == []
    one.stopped.set()


def test_cancel_asks_once_more(add, queue, screen, monkeypatch):
    add("amp", 1)
    add("other", 1)
    one = table()
    line = one.lines["amp-001"]
    line.stop.click()
    assert line.stop.description == "really?" and queue.cancelled == []
    monkeypatch.setattr(watch_table, "SURE_FOR", 0.0)  # time passes
    until(lambda: line.stop.description == "cancel")
    monkeypatch.setattr(watch_table, "SURE_FOR", 5.0)
    line.stop.click()
    line.stop.click()
    until(lambda: queue.cancelled == ["amp1"])
    until(lambda: "CANCELLED" in line.text.value)
    assert line.stop.disabled and not one.lines["other-001"].stop.disabled
    one.stopped.set()


def test_log_on_demand(add, queue, screen):
    folder = add("amp", 1)
    (folder / "out.log").write_text("hello <world>\n")
    one = table()
    line = one.lines["amp-001"]
    assert line.tail.layout.display == "none"
    line.log.value = True
    assert "hello &lt;world&gt;" in line.tail.value and line.tail.layout.display == "block"
    with open(folder / "out.log", "a") as log:
        log.write("more\n")
    until(lambda: "more" in line.tail.value)
    (folder / "err.log").write_text("Traceback\nValueError: bad\n")
    queue.states["amp1"] = Status("FAILED", "exit code 1", 1, 1.0, 2.0)
    one.thread.join(5)
    assert "ValueError: bad" in screen[-1][1]["text/html"]


def test_a_cell_run_again_or_another_one_shows_the_same_table_and_all_of_them_end_true(add, queue, screen):
    add()
    first = table()
    second = table()
    assert screen == [first.box, first.box] and not second.thread.is_alive()
    queue.states["amp1"] = Status("COMPLETED", "", 0, 1.0, 9.0)
    first.thread.join(LIMIT)
    assert "COMPLETED" in first.lines["amp-001"].text.value  # what a page that comes back shows
    assert ["COMPLETED" in thing[1]["text/html"] for thing in screen[2:]] == [True, True]
    assert watch_table._tables == {}


def test_a_look_that_fails_is_said_and_tried_again(add, queue, screen, monkeypatch):
    add()
    one = table()
    real = one.watched.look

    def fails():
        raise OSError("stale file handle")

    one.watched.look = fails
    until(lambda: "could not read the state" in one.head.value)
    one.watched.look = real
    until(lambda: "1 running" in one.head.value)
    one.stopped.set()


def test_timeout_ends_the_watching(add, queue, screen):
    add()
    one = table(timeout=0.05)
    one.thread.join(5)
    assert not one.thread.is_alive() and "stopped watching, the jobs keep running" in one.head.value
    assert queue.cancelled == []


# ---------------------------------------------------------------- a cell that waits


@pytest.fixture
def page(monkeypatch):
    """A notebook's page: ``page.shown`` is what is displayed, ``page.during`` what happens in the pauses, one after the other."""
    one = SimpleNamespace(shown=[], during=[], said=[], opened=False)

    class Sleeper:
        opened = property(lambda self: one.opened)

        def __call__(self, seconds):
            one.said.append(one.shown[0].value)
            one.during.pop(0)()

    def display(thing, display_id=None):
        one.shown.append(thing)
        return SimpleNamespace(update=lambda thing, raw: one.shown.append(thing))

    monkeypatch.setattr(wait_line, "plain_wanted", lambda: False)
    monkeypatch.setattr(wait_line, "Sleeper", Sleeper)
    monkeypatch.setattr("IPython.display.display", display)
    return one


def test_a_wait_shows_a_line_that_is_true_and_ends_as_plain_html(add, queue, page):
    folder = add("amp", 1, Status("PENDING", "Resources", position=2))
    job = jobs["amp"]

    def starts():
        queue.states["amp1"] = Status("RUNNING", started=time.time() - 5)
        write(folder, 40)

    def ends():
        write(folder, 100, first=41)
        queue.states["amp1"] = Status("COMPLETED", "", 0, 1.0, 9.0)

    page.during = [starts, ends]
    assert job.wait() is job and job.state == "COMPLETED"
    assert "number 2 in the queue" in page.said[0] and "PENDING" in page.said[0]
    assert "40 of 100 steps, 320 images/s, 6 s left" in page.said[1]
    assert all("Interrupting the cell is harmless: the job goes on." in words for words in page.said)
    line, final = page.shown
    assert final["text/html"] == line.value and "widget" not in line.value and "harmless" not in line.value
    assert final["text/plain"].splitlines()[0] == "amp-001  COMPLETED  100 of 100 steps, 320 images/s, took 8 s"
    job.wait()
    assert len(page.shown) == 2  # nothing to wait for, nothing to show


def test_a_wait_for_several_jobs_shows_the_one_that_gets_on_and_counts_the_others(add, queue, page):
    add("a", 1, Status("PENDING", position=1))
    add("b", 1)

    def end():
        for identifier in ("a1", "b1"):
            queue.states[identifier] = Status("COMPLETED", "", 0, 1.0, 2.0)

    page.during = [end]
    job_module.wait(list(jobs))
    assert "b-001" in page.said[0] and "a-001" not in page.said[0]
    assert "1 running, 1 pending. Interrupting the cell is harmless: the jobs go on." in page.said[0]


def test_an_interrupted_wait_says_so_in_one_line_and_leaves_no_state_that_grows_old(add, queue, page):
    add()

    def interrupt():
        raise KeyboardInterrupt

    page.during = [interrupt]
    with pytest.raises(KeyboardInterrupt) as stopped:
        jobs["amp"].wait()
    assert stopped.value._render_traceback_() == ["KeyboardInterrupt: stopped waiting, the job goes on"]
    assert "Stopped waiting for amp-001: the job goes on." in page.shown[0].value and "RUNNING" not in page.shown[0].value
    assert queue.cancelled == []


def test_a_page_that_comes_back_during_a_wait_is_told_what_it_misses(add, queue, page):
    add()

    def end():
        page.opened = True
        queue.states["amp1"] = Status("FAILED", "ValueError: x", 1, 1.0, 2.0)

    seen = []
    page.during = [lambda: seen.append(page.shown[0].value), lambda: setattr(page, "opened", True),
                   lambda: seen.append(page.shown[0].value), end]
    jobs["amp"].wait()
    assert ["still waiting, although this page shows no [*]" in value for value in seen] == [False, True]
    assert "ValueError: x" in page.shown[0].value and "All Below" in page.shown[0].value


def test_a_wait_without_a_page_prints_nothing(add, queue, capsys, monkeypatch):
    add()
    job = jobs["amp"]
    capsys.readouterr()
    monkeypatch.setattr("time.sleep", lambda seconds: queue.states.update(amp1=Status("COMPLETED", "", 0, 1.0, 2.0)))
    job.wait()
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------- for real


def test_a_notebook_without_a_page_gets_lines_and_waits(ws, monkeypatch):
    """Through a kernel, as nbval and nbconvert run it, with the queue of this machine."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    ws.script("toy.py", """
        import os, time
        from pathlib import Path
        from dlojz import records
        record = records.Writer(Path(os.environ["DLOJZ_RUN"]) / records.NAME)
        record.write("start", total_steps=3)
        for step in (1, 2, 3):
            time.sleep(0.05)
            record.write("step", step=step, images=8, seconds=0.05)
        record.write("end", status="completed")
        """)
    monkeypatch.setenv("IPYTHONDIR", str(ws.folder / ".ipython"))
    source = "from dlojz import submit, jobs\nsubmit('toy.py', name='toy')\njobs.watch()\nprint(jobs['toy'].state)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    where = {"metadata": {"path": str(ws.folder)}}
    nbclient.NotebookClient(notebook, timeout=LIMIT, kernel_name="python3", resources=where).execute()
    said = "".join(output.text for output in notebook.cells[0].outputs if output.output_type == "stream")
    assert "toy-001  COMPLETED  3 of 3 steps, 160 images/s" in said
    assert said.splitlines()[-2:] == ["ended: 1 completed", "COMPLETED"]
