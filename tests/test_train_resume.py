"""A training that is killed or told to stop, at any moment, comes to the same end as one that was left alone: to the last bit."""

import random
import signal
import time

import pytest
from training import make_images, same, same_training, until

from dlojz.training import records

pytestmark = pytest.mark.spread
LONG = ("--model", "tiny_slow", "-e", 24, "--checkpoint-every", 2)  # 144 steps, 20 ms each


def steps_done(run) -> int:
    steps = [event["step"] for event in records.Reader(run.folder).poll() if event["event"] == "step"]
    return max(steps, default=0)


@pytest.mark.parametrize("wanted", [5, pytest.param(20, marks=pytest.mark.long)])
def test_kills_at_random_moments(training, wanted):
    """kill -9 at random moments, while it starts or trains, with loader workers in each third attempt."""
    straight = training.run("straight", *LONG)
    dice = random.Random(2)
    kills, where = 0, []
    for attempt in range(100):
        workers = ("--num-workers", 2) if attempt % 3 == 2 else ()
        run = training.start("killed", *LONG, *workers, "--resume")
        if kills == wanted + 2:
            break
        if attempt % 7 == 3:  # while it starts
            time.sleep(dice.uniform(0, 0.3))
        else:  # so many steps further, as far as they are in the record, and a little more
            goal = steps_done(run) + dice.randrange(6)
            until(lambda run=run, goal=goal: run.code is not None or steps_done(run) >= goal)
            time.sleep(dice.uniform(0, 0.1))
        kills += run.code is None
        run.kill()
        where.append(steps_done(run))
    assert run.wait().code == 0, run.err
    print("killed after steps", where)
    assert kills >= wanted and len(set(where)) > wanted // 2 - 2, "the kills hit too few places"
    same_training(run, straight)
    # Nothing lost but the steps since the last checkpoint, which may have been killed before it was noted.
    reached = 0
    for event in run.record.events:
        if event["event"] == "start":
            assert event["resumed_at"] in (reached, reached + 2)
            reached = event["resumed_at"]
        elif event["event"] == "checkpoint":
            reached = event["step"]


MOMENTS = {
    "writing": """
import dlojz.training.failures, os, signal, torch
save, count = torch.save, [0]
def torn(state, file):
    count[0] += 1
    save(state, file)
    if count[0] == 3:
        file.flush()
        os.ftruncate(file.fileno(), file.tell() // 2)
        os.kill(os.getpid(), signal.SIGKILL)
torch.save = torn
""",
    "before the rename": """
import os, signal
replace, count = os.replace, [0]
def never(*names):
    count[0] += 1
    if count[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*names)
os.replace = never
""",
    "after the rename": """
import os, signal
replace, count = os.replace, [0]
def late(*names):
    replace(*names)
    count[0] += 1
    if count[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = late
""",
    "validating": """
import os, signal, torch
eval, count = torch.nn.Module.eval, [0]
def dies(self):
    count[0] += 1
    if count[0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return eval(self)
torch.nn.Module.eval = dies
""",
    "between epochs": """
import dlojz.data, os, signal
set_epoch = dlojz.data.ImageFolder.set_epoch
def dies(self, epoch):
    if epoch == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    set_epoch(self, epoch)
dlojz.data.ImageFolder.set_epoch = dies
""",
    "at the end": """
import dlojz.system.machine, os, signal
dlojz.system.machine.peak_memory = lambda device: os.kill(os.getpid(), signal.SIGKILL)
""",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while(training, moment):
    argv = ("--model", "tiny_dropout", "-e", 3, "--checkpoint-every", 2)
    straight = training.run("straight", *argv)
    killed = training.run("run", *argv, "--resume", before=MOMENTS[moment], code=-signal.SIGKILL)
    assert killed.record.end is None
    resumed = training.run("run", *argv, "--resume")
    assert len(resumed.record.starts) == 2 and resumed.record.start["resumed_at"] > 0
    same_training(resumed, straight)
    assert not list(resumed.folder.glob("*.part"))


KINDS = {
    "onecycle": ("--schedule", "onecycle"),
    "cosine, adamw": ("--schedule", "cosine", "--optimizer", "adamw", "--lr", 0.01),
    "accumulate": ("--accumulate", 2),
    "accumulate past the epoch's end, checkpoints within groups": ("--accumulate", 4, "--checkpoint-every", 1),
    "bf16": ("--amp", "bf16"),
    "fp16 with its scaler": ("--amp", "fp16", "--clip-grad", 1),
    "dropout": ("--model", "tiny_dropout"),
    "batch norm": ("--model", "tiny_bn", "--checkpoint-activations"),
    "metrics every third step": ("--metric-every", 3),
    "fused": ("--fused", "--amp", "fp16", "--optimizer", "adamw", "--lr", 0.01),
    "workers": ("--num-workers", 2, "--persistent-workers", "--prefetch-factor", 3, "--model", "tiny_dropout"),
    "all together": ("--schedule", "onecycle", "--accumulate", 2, "--amp", "fp16", "--model", "tiny_dropout", "--metric-every", 3,
                     "--clip-grad", 0.5, "--channels-last", "--label-smoothing", 0.1, "--drop-last", "-b", 5, "-e", 3),
    "random data": ("--data", "random", "--test", "--test-steps", 12, "--model", "tiny_dropout"),
    "test mode": ("--test", "--test-steps", 15),
    "RandAugment": ("--augment", "randaugment", "--model", "tiny_dropout"),
    "mixup in the loader": ("--augment", "mixup-cpu", "--alpha", 1, "--model", "tiny_dropout"),
    "mixup in two workers": ("--augment", "mixup-cpu", "--num-workers", 2, "--label-smoothing", 0.1),
    "mixup": ("--augment", "mixup", "--model", "tiny_dropout", "--accumulate", 2),
    "CutMix": ("--augment", "cutmix", "--amp", "bf16", "--data", "random", "--test", "--test-steps", 12),
}
DIES_AT = """
import dlojz.training.chronometer, os, signal
next_iter = dlojz.training.chronometer.Chronometer.next_iter
def dies(self, *args, **more):
    settled = next_iter(self, *args, **more)
    if self.step == {step}:
        os.kill(os.getpid(), signal.{signal})
    return settled
dlojz.training.chronometer.Chronometer.next_iter = dies
"""


QUICK = ("onecycle", "fp16 with its scaler", "workers", "all together", "mixup in the loader")  # the others are long


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[] if kind in QUICK else pytest.mark.long) for kind in KINDS])
def test_killed_and_resumed_with(training, kind):
    argv = ("-e", 2, "--checkpoint-every", 2, *KINDS[kind])
    straight = training.run("straight", *argv)
    for step in (5, 8, 11):
        training.run("run", *argv, "--resume", before=DIES_AT.format(step=step, signal="SIGKILL"), code=-signal.SIGKILL)
    resumed = training.run("run", *argv, "--resume")
    assert len(resumed.record.starts) == 4
    same_training(resumed, straight)


@pytest.mark.parametrize("more", [(), ("--accumulate", 2, "--metric-every", 3), ("--schedule", "onecycle")], ids=str)
def test_two_ranks_killed_and_resumed(training, more):
    argv = ("-e", 2, "-b", 2, "--checkpoint-every", 2, "--model", "tiny_dropout", *map(str, more))
    straight = training.run_ranks("straight", 2, *argv)
    for rank in training.start_ranks("run", 2, *argv, "--resume", before=DIES_AT.format(step=7, signal="SIGKILL")):
        assert rank.wait().code != 0
    resumed = training.run_ranks("run", 2, *argv, "--resume")
    assert resumed.record.start["resumed_at"] == 6
    same_training(resumed, straight)


# Told to stop


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("workers", [(), ("--num-workers", 2, "--persistent-workers")], ids=["no workers", "workers"])
def test_a_signal_to_the_whole_group(training, number, workers):
    argv = ("--model", "tiny_slow", "-e", 6, *workers)  # without --checkpoint-every
    straight = training.run("straight", *argv, "--checkpoint-every", 100)
    for at in (4, 15, 22):
        run = training.start("run", *argv, "--resume")
        until(lambda run=run, at=at: steps_done(run) >= at or run.code is not None)
        run.signal_group(number)
        asked = steps_done(run)
        assert run.wait().code == 75, run.err
        record = run.record
        assert record.end["status"] == "stopped" and record.end["steps"] == record.checkpoints[-1]["step"]
        assert record.end["steps"] - asked < 36, "steps of half a second may not be in the record"
        assert not run.err
    resumed = training.run("run", *argv, "--resume", "--checkpoint-every", 100)
    same_training(resumed, straight)


def test_it_stops_after_the_step_in_which_the_signal_came(training):
    run = training.run("run", "-e", 4, before=DIES_AT.format(step=7, signal="SIGTERM"), code=75)
    stopped = run.record.end["steps"]
    assert stopped in (7, 8)  # the signal comes after the sums of step 7
    assert run.checkpoint["place"]["step"] == stopped and [saved["step"] for saved in run.record.checkpoints] == [stopped]
    assert "ended             stopped" in run.out


def test_a_group_is_finished_first(training):
    run = training.run("run", "-e", 4, "--accumulate", 4, before=DIES_AT.format(step=8, signal="SIGUSR1"), code=75)
    assert run.record.end["steps"] == 10  # 7 to 10 are a group
    argv = ("-e", 4, "--accumulate", 4, "--checkpoint-every", 100)
    same_training(training.run("run", *argv, "--resume"), training.run("straight", *argv))


def test_with_rare_metrics_it_stops_at_the_next_one_and_the_resumed_run_does_not_stop_again(training):
    argv = ("-e", 2, "--metric-every", 4)
    run = training.run("run", *argv, "--checkpoint-every", 1, before=DIES_AT.format(step=5, signal="SIGTERM"), code=75)
    assert run.record.end["steps"] in (5, 6)  # the end of the epoch has metrics
    # As if two had been killed between the signal and the sums that spread the word:
    argv = (*argv, "-b", 2, "--checkpoint-every", 1)
    told = "from dlojz.training import failures\nfailures.catch_signals = lambda: [15]\n"
    told += DIES_AT.format(step=3, signal="SIGKILL")
    for rank in training.start_ranks("other", 2, *argv, before=told):
        assert rank.wait().code != 75
    resumed = training.run_ranks("other", 2, *argv, "--resume")
    assert resumed.record.start["resumed_at"] == 2
    same_training(resumed, training.run_ranks("straight", 2, *argv))


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_signal_during_validation(training, epochs):
    """The validation is brought to its end: then nothing is left to do, or one more step is made and saved."""
    argv = ("--model", "tiny_slow_validation", "-e", epochs, "--checkpoint-every", 100)
    run = training.start("run", *argv)
    until(lambda: run.record.checkpoints)
    run.signal_group(signal.SIGTERM)
    run.wait()
    assert len(run.record.validations) == 1
    if epochs == 1:
        assert run.code == 0 and run.record.end["status"] == "completed"
    else:
        assert run.code == 75 and run.record.end["steps"] == 7
        same_training(training.run("run", *argv, "--resume"), training.run("straight", *argv))


def test_a_signal_in_the_very_last_step(training):
    """The training is over but for its validation, which the resumed run makes."""
    last = """
import dlojz.training.chronometer, os, signal
update = dlojz.training.chronometer.Chronometer.update
def told(self):
    if self.step == 11:
        os.kill(os.getpid(), signal.SIGTERM)
    update(self)
dlojz.training.chronometer.Chronometer.update = told
"""
    run = training.run("run", "-e", 2, before=last, code=75)
    assert run.record.end["status"] == "stopped" and run.record.end["steps"] == 12 and len(run.record.validations) == 1
    resumed = training.run("run", "-e", 2, "--resume")
    assert [v["step"] for v in resumed.record.validations] == [6, 12] and resumed.record.end["status"] == "completed"
    straight = training.run("straight", "-e", 2, "--checkpoint-every", 100)
    assert resumed.record.validations[1]["loss"] == straight.record.validations[1]["loss"]
    same(resumed.checkpoint, straight.checkpoint)


def test_one_of_two_ranks_gets_the_signal(training):
    argv = ("-e", 3, "-b", 2, "--metric-every", 2)
    straight = training.run_ranks("straight", 2, *argv, "--checkpoint-every", 100)
    for rank in training.start_ranks("run", 2, *argv, before=["", DIES_AT.format(step=7, signal="SIGUSR1")]):
        assert rank.wait().code == 75, rank.err
    resumed = training.run_ranks("run", 2, *argv, "--resume", "--checkpoint-every", 100)
    assert resumed.record.start["resumed_at"] == 8
    same_training(resumed, straight)


def test_a_signal_that_is_seen_late_as_on_a_gpu(training):
    """Steps are settled eight later there: near the end of an epoch, the loop is over before anyone hears of it."""
    late = "import dlojz.training.chronometer as c\nc.HostClock.lag = 8\n"
    argv = ("-e", 3, "-b", 2, "--metric-every", 2)
    straight = training.run_ranks("straight", 2, *argv, "--checkpoint-every", 100, before=late)
    for at, stops in ((3, 6), (9, 12), (13, 18)):  # the request is agreed on in the step after, and an epoch has six steps
        before = [late, late + DIES_AT.format(step=at, signal="SIGTERM")]
        run = training.run_ranks("run", 2, *argv, "--resume", before=before, code=75)
        assert run.record.end["steps"] == run.checkpoint["place"]["step"] == stops
        assert [step["step"] for step in run.record.steps] == list(range(1, stops + 1))
    resumed = training.run_ranks("run", 2, *argv, "--checkpoint-every", 100, "--resume", before=late)
    same_training(resumed, straight)


def test_killed_when_many_steps_are_not_settled(training):
    """Steps that a checkpoint holds are in the record before it, however late the device settles them."""
    late = "import dlojz.training.chronometer as c\nc.HostClock.lag = 8\n"
    argv = ("-e", 2, "--checkpoint-every", 3)
    straight = training.run("straight", *argv, before=late)
    training.run("run", *argv, before=late + DIES_AT.format(step=4, signal="SIGKILL"), code=-signal.SIGKILL)
    same_training(training.run("run", *argv, "--resume", before=late), straight)


# What a resumed run needs


def test_resume_without_a_checkpoint_begins_at_the_beginning(training):
    run = training.run("run", "-e", 1, "--resume")
    assert run.record.start["resumed_at"] == 0 and len(run.losses) == 6
    assert "note: --resume has no effect: there is no checkpoint in the run's folder yet" in run.out


def test_a_new_run_in_a_used_folder_does_not_go_on_from_the_old_one_when_it_is_resumed(training):
    training.run("run", "-e", 1, "--checkpoint-every", 2, "--profile")
    before = training.run("run", "-e", 1)  # without a checkpoint of its own
    assert not (before.folder / "checkpoint.pt").exists() and (before.folder / "checkpoint.old.pt").exists()
    assert not before.record.end["trace"] and (before.folder / "trace.old.json.gz").exists()
    run = training.run("run", "-e", 1, "--resume")
    assert run.record.start["resumed_at"] == 0 and run.losses == before.losses


@pytest.mark.parametrize("world", [1, 2])
def test_resume_of_a_completed_run_is_done(training, world):
    run = training.run_ranks("run", world, "-e", 1, "--checkpoint-every", 2)
    before = (run.folder / "record.jsonl").read_bytes()
    for more in ((), ("--profile",)):
        run = training.run_ranks("run", world, "-e", 1, "--resume", *more)
        assert run.out.endswith(f"all {6 // world} steps are done already: give more --epochs or --test-steps to continue\n")
        assert (run.folder / "record.jsonl").read_bytes() == before


def test_resume_of_a_run_that_was_stopped_in_its_last_validation_validates_and_is_done(training):
    first = training.run("run", "-e", 1, "--checkpoint-every", 6, before=MOMENTS["at the end"], code=-signal.SIGKILL)
    timed = first.record.timed_steps
    run = training.run("run", "-e", 1, "--resume", "--profile")
    assert run.record.start["resumed_at"] == 6 and len(run.record.validations) == 1 and run.record.end["status"] == "completed"
    assert "the last validation\n" in run.out and "trace             none" in run.out
    assert run.record.start["warmup_steps"] == 0 and run.record.timed_steps == timed and len(timed) == 5


@pytest.mark.parametrize("argv", [("-e", 1), ("--test", "--test-steps", 3)], ids=str)
def test_resume_with_fewer_steps_than_are_done(training, argv):
    run = training.run("run", "-e", 2, "--checkpoint-every", 4)
    before = (run.folder / "record.jsonl").read_bytes()
    run = training.run("run", *argv, "--resume", code=2, log=".2")
    assert run.err.count("\n") == 1 and f"checkpoint.pt is of step 12, and {6 if '-e' in argv else 3} are asked for" in run.err
    assert (run.folder / "record.jsonl").read_bytes() == before


def test_a_resumed_run_forgets_what_was_refused_before(training):
    training.run("run", "-e", 1, "--checkpoint-every", 2)
    training.run("run", "-e", 2, "--resume", "--accumulate", 2, code=2, log=".2")
    run = training.run("run", "-e", 2, "--resume", log=".3")
    assert not run.record.errors and "usage" not in run.out and run.record.end["status"] == "completed"


def test_a_new_run_in_a_used_folder_has_its_own_time(training):
    old = training.run("run", "-e", 1, "--checkpoint-every", 1).record
    run = training.run("run", "-e", 1, log=".2").record
    mine = run.events[max(i for i, event in enumerate(run.events) if event["event"] == "start"):]
    assert run.run_seconds == pytest.approx(mine[-1]["time"] - mine[0]["time"]) and old.checkpoints and not run.checkpoints


def test_resume_with_more_epochs_goes_on(training):
    training.run("run", "-e", 1, "--checkpoint-every", 2)
    run = training.run("run", "-e", 2, "--checkpoint-every", 2, "--resume")
    straight = training.run("straight", "-e", 2, "--checkpoint-every", 2)
    assert run.losses == straight.losses
    same(run.checkpoint, straight.checkpoint)


@pytest.mark.parametrize("other, said", [
    (("-b", 2), "batch size 4, not 2"), (("--model", "tiny_bn"), "model tiny, not tiny_bn"),
    (("--accumulate", 2), "accumulate 1, not 2"), (("--optimizer", "adamw"), "optimizer sgd, not adamw"),
    (("--amp", "fp16"), "amp off, not fp16"), (("--seed", 2), "seed 1, not 2"),
    (("--schedule", "onecycle"), "schedule constant, not onecycle"), (("--augment", "mixup"), "augment none, not mixup"),
], ids=str)
def test_resume_with_something_else(training, other, said):
    training.run("run", "-e", 1, "--checkpoint-every", 2)
    before = (training.tmp / "run" / "checkpoint.pt").read_bytes()
    run = training.run("run", "-e", 1, "--resume", *other, code=2, log=".2")
    assert run.err.count("\n") == 1 and f"was written with {said}: use the same, or a new --run-dir" in run.err
    assert (run.folder / "checkpoint.pt").read_bytes() == before


def test_resume_of_a_schedule_with_another_end(training):
    training.run("run", "-e", 1, "--checkpoint-every", 2, "--schedule", "onecycle")
    run = training.run("run", "-e", 2, "--schedule", "onecycle", "--resume", code=2, log=".2")
    assert run.err.count("\n") == 1 and "steps in all 6, not 12" in run.err


def test_resume_with_another_number_of_processes(training):
    training.run("run", "-e", 1, "--checkpoint-every", 2)
    ranks = training.start_ranks("run", 2, "-e", 1, "--resume")
    assert [rank.wait().code for rank in ranks] == [2, 2]
    said = ranks[0].err + ranks[1].err
    assert said.count("\n") == 1 and "processes 1, not 2" in said
    assert not ranks[0].record.errors and ranks[0].record.end["status"] == "completed"


def test_resume_of_a_damaged_checkpoint_leaves_it_alone(training, tmp_path):
    training.run("run", "-e", 1, "--checkpoint-every", 2)
    checkpoint = tmp_path / "run" / "checkpoint.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:2000])
    run = training.run("run", "-e", 1, "--resume", code=2, log=".2")
    assert run.err.count("\n") == 1 and str(checkpoint) in run.err and "cannot be read" in run.err


def test_an_image_that_breaks_between_kills_changes_nothing(training, tmp_path):
    data = make_images(tmp_path / "broken", train=24, val=10)
    (data / "train" / "cat" / "004.jpg").write_bytes(b"no picture")
    argv = ("-e", 2, "--checkpoint-every", 2)
    straight = training.run("straight", *argv, data=data)
    training.run("run", *argv, data=data, before=DIES_AT.format(step=7, signal="SIGKILL"), code=-signal.SIGKILL)
    same_training(training.run("run", *argv, "--resume", data=data), straight)
