"""The dashboard against numbers worked out by hand, in text and picture, and its faces."""

import json
import re
import sys

import pytest
import runs_by_hand as by_hand
from runs_by_hand import MEASURED, OUT_OF_MEMORY, VALIDATION, end, folder, job, record, start, steps

from dlojz import views
from dlojz.jobs import job as job_module
from dlojz.jobs import runs
from dlojz.labs import catalogue
from dlojz.system.errors import UsageError
from dlojz.ui import page, words
from dlojz.ui.palette import GREY, MEMORY

dashboard = sys.modules["dlojz.views.dashboard"]  # views.dashboard is the verb
watch = sys.modules["dlojz.jobs.watch"]  # jobs.watch is the verb


def rows(view) -> dict[str, str]:
    """The rows of a dashboard's text."""
    lines = [line.strip() for line in str(view).split("\n")[1:] if re.search(r"\w\s{2,}\w", line)]
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines)


def test_numbers_by_hand():
    view = views.dashboard(record(*MEASURED))
    assert str(view) == """\
run: completed: 10 of 10 steps
  run            resnet50, 224 px, on NVIDIA H100, 16 cores, torch 2.11.0
  speed          256 images/s, 500 ms per step
  device alone   320 images/s, if every batch were ready in time
  per step       waiting for data 20%, copy 0%, forward 20%, backward 40%, update 20%
  loading        the process waits 50.0 ms per step for its loader (10% of the step)
  first step     4.00 s
  devices        2 GPUs
  batch          128 images (2 processes x 64)
  precision      FP32
  switches       none
  optimizer      SGD, lr 0.1, momentum 0.9, weight decay 0.0001
  memory         40.0 GB at peak, 44.0 GB reserved: 55% of the card's 80.0 GB (rank 0 of 2)
  power          1,200 W, 4.69 J per image
  per epoch      2.50 s (640 images)
  full training  7.50 s (3 epochs)
  this run       took 30.0 s
  validation     accuracy 62.5%, loss 1.2500 of 1,000 images"""


def test_picture_says_what_the_text_says():
    view = views.dashboard(record(*MEASURED), against=record(start(), *steps(seconds=1.0), end()))
    said, page = rows(view), view._repr_html_()
    for name in ("devices", "batch", "precision", "optimizer", "memory", "power", "per epoch", "full training", "validation",
                 "loading"):
        assert said[name].replace("'", "&#x27;") in page, name
    for number in (">256<", "device alone: 320 images/s", ">2.00x<", ">128 images/s</text>", "waiting for data 20%"):
        assert number in page
    assert "<script" not in page and "http" not in page.replace("http://www.w3.org/2000/svg", "")


def bars(page: str, tip: str) -> list[float]:
    """The lengths in pixels of what the pointer shows this of."""
    found = re.findall(rf'd="M([\d.]+) [\d.]+H([\d.]+)V[^"]*"[^>]*><title>{tip}', page)
    return [float(until) - float(begin) for begin, until in found]


def test_bars_are_as_long_as_the_numbers():
    page = views.dashboard(record(*MEASURED), against=record(start(), *steps(seconds=1.0), end()))._repr_html_()
    step = [bars(page, name)[0] for name in ("waiting for data", "forward", "backward", "update")]
    assert [part / sum(step) for part in step] == pytest.approx([0.2, 0.2, 0.4, 0.2], abs=0.002)
    taken, reserved = bars(page, "taken by tensors")[0], bars(page, "reserved")[0]
    assert reserved / taken == pytest.approx(0.1, abs=0.01) and taken / sum(step) == pytest.approx(0.5, abs=0.01)  # 40, 44, 80 GB
    speeds = [bars(page, name)[0] for name in ("this run: 256", "device alone: 320", "run: 128")]
    assert [speed / speeds[0] for speed in speeds] == pytest.approx([1, 1.25, 0.5], abs=0.01)
    assert f'fill="{GREY}"' in page and page.count(f'fill="{MEMORY}"') == 2


def test_long_times_are_said_in_days_and_years():
    """A laptop's image a second: 1,281,167 s an epoch of ImageNet are 14.8 days, 90 of them 3.65 years."""
    slow = rows(views.dashboard(record(start(data="random", test=True), *steps(images=0.5), end())))
    assert slow["per epoch"].startswith("15 days (ImageNet's") and slow["full training"] == "3.7 years (90 epochs)"
    assert slow["speed"].startswith("1.00 images/s")
    some = rows(views.dashboard(record(start(data="random", test=True), *steps(images=2), end())))
    assert some["per epoch"].startswith("3 d 17 h") and some["full training"] == "334 days (90 epochs)"


def test_no_accuracy_of_labels_by_chance():
    view = views.dashboard(record(start(data="random"), *steps(), VALIDATION, end()))
    assert "validation" not in rows(view) and "62.5%" not in view.page
    table = views.compare(record(start(data="random"), *steps(), VALIDATION, end()))
    assert table.rows[0]["validation_accuracy"] is None and "accuracy" not in str(table)


def test_precision_and_switches_have_readable_names():
    said = rows(views.dashboard(record(start(amp="bf16", channels_last=True, compile="reduce-overhead", num_workers=8, fused=True,
                                             optimizer="adamw", schedule="onecycle", accumulate=4, batch_size=32), *steps())))
    assert said["precision"] == "BF16 (autocast)"
    assert said["switches"] == "channels-last, torch.compile (reduce-overhead), 8 loader workers, 4 batches accumulated"
    assert said["optimizer"] == "AdamW, fused, lr 0.1, weight decay 0.0001, onecycle"
    assert said["batch"] == "256 images (2 processes x 32, 4 batches accumulated)"
    assert rows(views.dashboard(record(start(tf32=True), *steps())))["precision"] == "TF32"


def test_a_fence_that_is_not_written_is_not_shown_as_done():
    message = "amp is not written yet (train.py, line 212): this run continues without it"
    todo = {"event": "todo", "lab": "amp", "message": message}
    view = views.dashboard(record(start(amp="bf16"), todo, *steps(), end()))
    assert rows(view)["todo"] == message and message in view._repr_html_()
    assert rows(view)["precision"] == "FP32; amp is not written yet"


def test_on_a_cpu():
    cpu = {"event": "end", "time": 130.0, "status": "completed", "steps": 10, "host_memory": 975_294_464, "power": None,
           "joules_per_image": None}
    said = rows(views.dashboard(record(start(by_hand.CPU, world=1), *steps(images=64), cpu)))
    assert said["memory"] == "0.98 GB of host memory at peak"
    assert said["power"] == "not measured" and said["devices"] == "CPU, 1 process" and said["batch"] == "64 images"


def test_whole_steps_only():
    view = views.dashboard(record(start(), *by_hand.whole_steps(), end()))
    assert rows(view)["speed"] == "256 images/s, 500 ms per step"
    assert not {"device alone", "per step", "loading"} & set(rows(view)) and "device alone" not in view.page


def test_random_data_stands_for_imagenet():
    said = rows(views.dashboard(record(start(data="random", test=True), *steps(), end())))
    assert said["per epoch"] == "1 h 23 min (ImageNet's 1,281,167 images)"  # 1,281,167 / 256 = 5004.6 s
    assert said["full training"] == "5 d 5 h (90 epochs)"


# --- against another ------------------------------------------------------------------------------------------------------


def test_against_another_run(tmp_path):
    base = folder(tmp_path / "gpu-001", [start(), *steps(seconds=1.0, idle=0.2), end()])
    view = views.dashboard(record(*MEASURED), against=base)
    assert rows(view)["compared"] == "2.00x the 128 images/s of gpu-001"
    assert ">2.00x<" in view.page


def test_no_ratio_of_what_cannot_be_compared(tmp_path):
    base = folder(tmp_path / "small-001", [start(model="resnet18"), *steps(seconds=1.0), end()])
    view = views.dashboard(record(*MEASURED), against=base)
    assert rows(view)["compared"] == "not comparable with small-001: model resnet50 here, resnet18 there"
    assert "2.00x" not in str(view) + view.page


def test_other_number_of_processes_is_said(tmp_path):
    base = folder(tmp_path / "one-001", [start(world=1), *steps(images=64), end()])
    said = rows(views.dashboard(record(*MEASURED), base))["compared"]
    assert said == "2.00x the 128 images/s of one-001, with 2 processes for 1"


def test_a_profiled_run_is_slower_for_that_alone(tmp_path):
    plain = folder(tmp_path / "plain-001", MEASURED)
    traced, other = (folder(tmp_path / name, [start(profile=True), *steps(seconds=1.0), end()]) for name in ("a-001", "b-001"))
    assert rows(views.dashboard(traced, against=plain))["compared"].endswith("; a-001 was profiled, which takes time")
    assert rows(views.dashboard(plain, against=traced))["compared"].endswith("; a-001 was profiled, which takes time")
    assert "profiled" not in rows(views.dashboard(traced, against=other))["compared"]


def test_against_a_run_that_measured_nothing(tmp_path):
    base = folder(tmp_path / "gpu-001", [start(), OUT_OF_MEMORY])
    assert rows(views.dashboard(record(*MEASURED), base))["compared"] == \
        "not with gpu-001: gpu-001 has no timed steps: it ran out of memory. Fix that first"


@pytest.mark.parametrize("events, state, reason, said", [
    ([], "FAILED", "unrecognized arguments: --nosuch", ": it failed. Fix that first"),
    ([start(), *steps(last=2)], "TIMEOUT", "", ": it reached its time limit. Give it more time"),
    ([start(), *steps(last=2), end()], "COMPLETED", "", ": all steps are warm-up. Run more steps"),
    ([], "CANCELLED", "cancelled before it ran", ": it was cancelled before it started. Submit it again"),
    ([start(), *steps(last=2)], "CANCELLED", "", ": run it again, with submit(…, again=True)"),
    ([start(), *steps(last=2)], "RUNNING", "", " yet"),
])
def test_what_is_to_be_done_about_a_run_that_measured_nothing(tmp_path, monkeypatch, events, state, reason, said):
    monkeypatch.setattr(job_module, "refresh", lambda jobs: jobs)
    run = job(tmp_path / "gpu-001", events or None, state, reason, **({"started": None} if "before" in reason else {}))
    assert rows(views.dashboard(record(*MEASURED), run))["compared"] == f"not with gpu-001: gpu-001 has no timed steps{said}"


AMP = catalogue.lab("amp").prediction.question


def test_prediction_goal_and_baseline_of_the_lab(tmp_path):
    ended = {"state": "COMPLETED"}
    folder(tmp_path / "runs/gpu-001", [start(), *steps(seconds=1.0), end()], ended)
    mine = folder(tmp_path / "runs/amp-001", [start(amp="bf16") | {"time": 1000.0}, *steps(), end(time=1030.0)], ended)
    guess = {"event": "prediction", "time": 500.0, "lab": "amp", "question": AMP, "value": 3}
    (tmp_path / "progress.jsonl").write_text(json.dumps(guess) + "\n")
    view = views.dashboard(mine)
    said = rows(view)
    assert said["compared"] == "2.00x the 128 images/s of gpu-001"
    assert said["predicted"] == "3.00x, measured 2.00x"
    assert said["goal"].startswith("reached: 2.00x the images/s of gpu-001, goal >= ")
    assert "3.00x, measured 2.00x" in view.page
    slower = folder(tmp_path / "runs/amp-002", [start(amp="bf16") | {"time": 300.0}, *steps(seconds=1.0), end(time=330.0)], ended)
    said = rows(views.dashboard(slower))
    assert said["predicted"].startswith("3.00x (after it had begun)") and said["goal"].startswith("not reached")
    beside = rows(views.dashboard(mine, against=slower))
    assert beside["predicted"] == "3.00x, measured 2.00x", "that of the goal, whatever is beside"


def test_a_prediction_of_memory_is_in_gigabytes_and_has_memory_beside_it(tmp_path):
    ended = {"state": "COMPLETED"}
    mine = folder(tmp_path / "runs/gpu-001", [start() | {"time": 1000.0}, *steps(), end(memory_allocated=29_200_000_000)], ended)
    own = {"event": "prediction", "time": 500.0, "lab": "gpu", "question": catalogue.lab("gpu").prediction.question, "value": 0.5}
    other = own | {"time": 600.0, "question": "How many times faster?", "value": 7}
    (tmp_path / "progress.jsonl").write_text(json.dumps(own) + "\n" + json.dumps(other) + "\n")
    view = views.dashboard(mine)
    assert rows(view)["predicted"] == "0.5 GB, measured 29.2 GB at its peak" and "0.50x" not in str(view) + view.page


def test_a_prediction_of_another_question_is_no_factor(tmp_path):
    mine = folder(tmp_path / "runs/amp-001", [start(amp="bf16"), *steps(), end()], {"state": "COMPLETED"})
    guess = {"event": "prediction", "time": 5.0, "lab": "amp", "question": "How much memory?", "value": 7}
    (tmp_path / "progress.jsonl").write_text(json.dumps(guess) + "\n")
    assert "predicted" not in rows(views.dashboard(mine))


# --- faces ----------------------------------------------------------------------------------------------------------------


def face(view) -> list[str]:
    """The lines before the rows: title, message, advice."""
    lines = str(view).split("\n")
    return [lines[0].partition(": ")[2], *(line.strip() for line in lines[1:] if line.startswith("    "))]


def test_out_of_memory(tmp_path):
    for run in (record(start(), *steps(last=1), OUT_OF_MEMORY, {"event": "end", "status": "failed"}),
                job(tmp_path / "big-001", [start(), *steps(last=1), OUT_OF_MEMORY], "OUT_OF_MEMORY", OUT_OF_MEMORY["message"])):
        view = views.dashboard(run)
        assert face(view) == ["out of memory (1 of 10 steps were done)", OUT_OF_MEMORY["message"], OUT_OF_MEMORY["advice"]]
        assert OUT_OF_MEMORY["advice"] in view.page and OUT_OF_MEMORY["message"] in view.page
        assert rows(view)["memory"] == "76.0 GB of the card's 80.0 GB were allocated when it ran out of memory"
        assert rows(view)["speed"] == "no timed steps: the first 2 steps warm up"


def test_out_of_memory_that_only_the_queue_saw(tmp_path):
    view = views.dashboard(job(tmp_path / "big-001", [start(), *steps(last=4)], "OUT_OF_MEMORY", "killed by the kernel"))
    assert face(view)[:2] == ["out of memory (4 of 10 steps were done)", "killed by the kernel"]
    assert "--batch-size" in face(view)[2]


def test_failed(tmp_path):
    message = "the loss is NaN or infinite from step 3 on."
    error = {"event": "error", "kind": "nan_loss", "message": message, "advice": "Lower --lr."}
    view = views.dashboard(job(tmp_path / "x-001", [start(), *steps(last=3), error, end("failed")], "FAILED", "exit code 1"))
    assert face(view) == ["failed (3 of 10 steps were done)", "the loss is NaN or infinite from step 3 on.", "Lower --lr."]
    numpi = "ModuleNotFoundError: No module named 'numpi'"
    wrong = job(tmp_path / "y-001", [], "FAILED", numpi)
    assert face(views.dashboard(wrong)) == ["failed", numpi, "nothing is recorded"], "a log that is not there is not named"
    (tmp_path / "y-001" / "err.log").write_text(numpi)
    assert face(views.dashboard(wrong)) == ["failed", numpi, "nothing is recorded: dlojz log --err y-001"]
    lost = {"event": "error", "kind": "lost_rank", "message": "Connection reset by peer", "rank": 3, "advice": ""}
    assert face(views.dashboard(record(start(), lost)))[1] == "Connection reset by peer (rank 3)"


def test_out_of_memory_before_the_first_step(tmp_path):
    (run := job(tmp_path / "big-001", [OUT_OF_MEMORY, end("failed")], "OUT_OF_MEMORY")).folder.joinpath("err.log").write_text("x")
    assert face(views.dashboard(run)) == ["out of memory", OUT_OF_MEMORY["message"], OUT_OF_MEMORY["advice"],
                                          "it ended before its first step: dlojz log --err big-001"]


def test_cancelled_before_it_ran(tmp_path):
    run = job(tmp_path / "x-001", None, "CANCELLED", "cancelled before it ran", started=None)
    assert face(views.dashboard(run)) == ["cancelled", "cancelled before it ran"]


def test_memory_of_a_run_that_has_ended_is_not_awaited(tmp_path):
    for machine in (by_hand.CPU, by_hand.GPU):
        events = [start(machine), *steps(last=4)]
        for state in ("FAILED", "CANCELLED", "TIMEOUT"):
            said = rows(views.dashboard(job(tmp_path / f"{machine['device']}-{state}-001", events, state)))
            assert (said["memory"], said["power"]) == ("not measured", "not measured")
        assert rows(views.dashboard(record(*events)))["memory"] == "not measured yet", "it may go on"


def test_timeout_says_how_much_time_it_would_take(tmp_path):
    timed = [step | {"time": time} for step, time in zip(steps(last=4), (300, 304, 344, 384))]
    view = views.dashboard(job(tmp_path / "x-001", [start(), *timed], "TIMEOUT"))
    # The six that are left take 40 s each, and a tenth more: 264 s beside the 600 s, in which the start took the most.
    assert face(view) == ["reached its time limit (4 of 10 steps were done)", "10 min was enough for 4 of 10 steps; "
                          "all of them need about 14 min: request more time, or run fewer steps."]
    resumed = [start() | {"resumed_at": 5, "time": 250}, *({**step, "step": step["step"] + 5} for step in timed)]
    assert face(views.dashboard(job(tmp_path / "y-001", resumed, "TIMEOUT")))[1].startswith(
        "10 min was enough for 4 of the 5 steps that were left; all of them need about 11 min")
    early = [start(), *steps(last=2)]  # nothing but the warm-up: a fifth of the steps took all of the time
    assert "all of them need about 54 min" in face(views.dashboard(job(tmp_path / "z-001", early, "TIMEOUT")))[1]
    untimed = [start(), *steps(last=4)]  # half a second each, as far as is known
    assert "all of them need about 10 min" in face(views.dashboard(job(tmp_path / "w-001", untimed, "TIMEOUT")))[1]


@pytest.mark.parametrize("state, reason, expected", [
    ("CANCELLED", "by the user", ["cancelled (4 of 10 steps were done)", "by the user"]),
    ("NODE_FAIL", "", ["its node failed (4 of 10 steps were done)"]),
    ("UNKNOWN", "job.json is gone", ["nothing is known about how it ended (4 of 10 steps were done)", "job.json is gone"]),
    ("BOOT_FAIL", "", ["boot fail (4 of 10 steps were done)"]),
])
def test_other_ends(tmp_path, state, reason, expected):
    view = views.dashboard(job(tmp_path / "x-001", [start(), *steps(last=4)], state, reason))
    assert face(view) == expected and expected[0] in view.page and rows(view)["speed"].startswith("256 images/s")


def test_running_and_pending(tmp_path, monkeypatch):
    monkeypatch.setattr(job_module, "refresh", lambda jobs: jobs)  # the states that are in job.json
    running = views.dashboard(job(tmp_path / "x-001", [start(), *steps(last=6)], "RUNNING"))
    assert face(running) == ["running: 6 of 10 steps"] and rows(running)["speed"] == "256 images/s, 500 ms per step"
    assert rows(running)["memory"] == rows(running)["power"] == "not measured yet"
    assert face(views.dashboard(job(tmp_path / "y-001", None, "RUNNING"))) == ["running: nothing is recorded yet"]
    waits = views.dashboard(job(tmp_path / "z-001", None, "PENDING", "Resources: waits for a free GPU"))
    assert face(waits) == ["waits in the queue", "Resources: waits for a free GPU"]


def test_ends_that_a_record_alone_tells():
    assert face(views.dashboard(record(start(), *steps(), end("stopped"))))[0].startswith("stopped after saving a checkpoint")
    goes_on = "not finished: still running, or killed (3 of 10 steps were done)"
    assert face(views.dashboard(record(start(), *steps(last=3)))) == [goes_on]
    assert face(views.dashboard(record())) == ["nothing is known about how it ended", "nothing is recorded"]


def test_a_checkpoint_that_failed_is_no_failure():
    disk = {"event": "error", "kind": "disk", "message": "no checkpoint at step 5: No space left", "fatal": False,
            "advice": "Make room."}
    view = views.dashboard(record(start(), *steps(), disk, end()))
    assert face(view) == ["completed: 10 of 10 steps", "no checkpoint at step 5: No space left Make room."]
    assert "No space left" in view.page


def test_what_a_record_says_is_escaped():
    error = {"event": "error", "kind": "exception", "message": "<script>alert(1)</script>", "advice": "<b>"}
    page = views.dashboard(record(start(model="<img src=x>"), *steps(), error))._repr_html_()
    assert "<script" not in page and "<img" not in page and "&lt;script&gt;" in page


def test_steps_without_times_or_images_are_no_warm_up():
    for lost in ("seconds", "images"):
        bare = [{name: value for name, value in step.items() if name != lost} for step in steps()]
        view = views.dashboard(record(start(), *bare, end()), against=record(*MEASURED))
        said = "their seconds or images are not in the record"
        assert rows(view)["speed"] == f"no timed steps: {said}" and rows(view)["compared"].endswith(f"has no timed steps: {said}")
    few = views.dashboard(record(start(total=2), *steps(last=2), end()))
    assert rows(few)["speed"] == "no timed steps: the first 2 steps warm up"


def test_a_record_that_has_lost_its_start():
    lines = str(views.dashboard(record(*steps(), end()))).split("\n")
    assert lines[0] == "run: completed: 10 steps" and lines[1].strip() == "its start is not recorded"


def test_a_long_name_does_not_make_the_page_wider(tmp_path):
    name = "n" * 120
    base, other = (folder(tmp_path / end_, MEASURED) for end_ in (name, "amp-001"))
    page_ = views.dashboard(other, against=base).page
    assert re.search(">n{10,40}…</text>", page_)  # there is no room for more
    title = rf'<span role="heading" aria-level="2" style="[^"]*overflow-wrap: anywhere">{name}<'
    assert re.search(title, views.dashboard(base).page)


def test_which_run_is_said_in_one_line():
    with pytest.raises(UsageError, match="these are 2 runs"):
        views.dashboard([record(*MEASURED), record(*MEASURED)])
    with pytest.raises(UsageError, match="int is not a run"):
        views.dashboard(3)
    with pytest.raises(UsageError, match="no run to show"):
        views.dashboard([])
    with pytest.raises(UsageError, match="there is no /nowhere/amp-001"):
        views.dashboard("/nowhere/amp-001")


def test_what_is_no_run_is_said_in_one_line(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n" * 300)
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / "ws").mkdir()
    for name in ("train.py", "Makefile"):
        with pytest.raises(UsageError, match=f"{name} is not a record: give a run's folder, such as runs/amp-001$"):
            views.dashboard(tmp_path / name)
    with pytest.raises(UsageError, match=r"there is no record in .*ws: give a run's folder"):
        views.dashboard(tmp_path / "ws")
    (tmp_path / "ws" / "record.jsonl").write_text('{"ev')  # of a run that was killed early, or that begins right now
    assert "nothing is recorded (1 torn line)" in str(views.dashboard(tmp_path / "ws"))
    moved = folder(tmp_path / "x", MEASURED) / "record.jsonl"
    assert "10 of 10 steps" in str(views.dashboard(moved.rename(tmp_path / "saved.jsonl")))


@pytest.mark.parametrize("command, batch", [(["--batch-size", "512"], 512), (["--test", "--batch-size=64", "-b", "32"], 32),
                                            (["-b8"], 8), (["--test"], None), (["--name", "--batch-size"], None)])
def test_the_batch_of_a_run_that_recorded_none_is_what_it_was_asked_for(tmp_path, command, batch):
    path = folder(tmp_path / "big-001", [OUT_OF_MEMORY], {"state": "OUT_OF_MEMORY"})
    content = json.loads((path / "job.json").read_text())
    content["request"]["command"] = ["train.py", *command]
    (path / "job.json").write_text(json.dumps(content))
    assert runs.one(path).batch_size == batch
    assert runs.one(record(start(batch_size=128))).batch_size == 128


def test_a_validation_loss_that_is_no_number():
    said = rows(views.dashboard(record(start(), *steps(), {**VALIDATION, "loss": float("nan")})))
    assert said["validation"] == "accuracy 62.5%, loss not a number of 1,000 images"


def test_few_steps_do_not_tell_how_long_a_training_takes():
    few = rows(views.dashboard(record(start(), *steps()[:3], end())))
    assert few["full training"] == "1 timed step: too few to tell" and "per epoch" not in few


def test_states_have_a_colour_beside_their_words_which_can_be_read_on_any_page(tmp_path, monkeypatch):
    monkeypatch.setattr(job_module, "refresh", lambda jobs: jobs)
    own = re.compile(r"[\s;\"]color: (?!inherit|var)")
    for state, colour in dashboard.COLOURS.items():
        run = job(tmp_path / f"{state.lower()}-001", [start(), *steps(last=6)], state)
        shown = views.dashboard(run).page
        assert not own.search(shown) and (f"background: {colour}" in shown or f'stroke="{colour}"' in shown)
        row = watch.row_html(watch.Row("x-001", state))
        assert not own.search(row) and f"background: {watch.COLOURS.get(state, watch.FAILED)}" in row
        assert watch.COLOURS.get(state, colour) == colour, "a state has one colour everywhere"
    table = page.table_html(["run", "state"], [["a", "failed"], ["b", ""]], colours={"state": ["#d93a3f", "#2f9e5f"]})
    assert not own.search(table) and "#d93a3f" in table and "#2f9e5f" not in table


@pytest.mark.parametrize("value, said", [
    (0.09999, "100 ms"), (0.099, "99.0 ms"), (0.99996, "1.00 s"), (99.96e-6, "0.10 ms"), (9.996, "10.0 s"), (99.4, "99.4 s"),
    (100.0, "1 min 40 s"), (323.0, "5 min 23 s"), (480.2, "8 min"), (599.7, "10 min"), (1489.0, "25 min"),
    (3599.7, "1 h"), (3900.0, "1 h 5 min"), (86380.0, "1 d 0 h"), (0.0, "0.00 ms"),
    (4521 * 86400.0, "12 years"), (9.6 * 86400, "10 days"), (1e300, "more than 1,000 years"),
])
def test_seconds_in_words(value, said):
    assert words.seconds(value) == said


def test_numbers_that_round_up_to_one_figure_more():
    assert [words.number(value) for value in (99.96, 9.996, 0.0996, 99.94, 9.994)] == ["100", "10.0", "0.10", "99.9", "9.99"]
    assert words.ratio(9.996) == "10.0x" and words.gigabytes(9.9951e9) == "10.0 GB" and words.gigabytes(9.994e9) == "9.99 GB"


def test_a_view_is_saved_to_a_file_that_is_named():
    for nothing in (None, 3):
        with pytest.raises(UsageError, match="is not a file name: say where to write it"):
            views.dashboard(record(*MEASURED)).save(nothing)
    with pytest.raises(UsageError, match=r'int is not a file name: say where to write it, such as csv\("runs.csv"\)'):
        views.compare(record(*MEASURED)).csv(3)
