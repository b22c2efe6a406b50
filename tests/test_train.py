"""The training script as a whole: what a run leaves behind, checkpoints, full disks, traces, how it starts and how it ends."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import pytest
import torch
import torchvision
import training_models  # noqa: F401  registers small models
from patience import patient
from training import LIMIT, SCRIPT, environment, make_images, same, until

from dlojz.labs import fences
from dlojz.labs.probe import reserved_port
from dlojz.training import records

SMALL = ("--model", "squeezenet1_1", "--image-size", "32", "-b", "4", "--lr", "0.01", "--num-workers", "0")


def python(*words, **more) -> subprocess.CompletedProcess:
    """The real thing: a new Python."""
    words = [sys.executable, *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, env=environment(**more))


# The file


def test_the_script_can_be_read_in_one_sitting():
    assert len(SCRIPT.read_text().splitlines()) <= 350


@pytest.mark.parametrize("file", sorted(SCRIPT.parent.glob("*.py")), ids=lambda file: file.name)
def test_fences_are_well_formed(file):
    found = fences.find(file.read_text(), file.name)
    assert not found.problems
    last = 0
    for fence in found.fences.values():
        assert fence.first > last and fence.title and fence.body.strip(), fence.id
        last = fence.last


def test_each_technique_has_its_fences():
    labs = {name.split(".")[0] for name in fences.find(SCRIPT.read_text()).fences}
    assert labs >= {"gpu", "amp", "channels_last", "profiler", "dataloader", "augmentation", "ddp", "ddp_advanced", "compile"}


# What a run leaves


def test_a_run_from_beginning_to_end(training):
    run = training.run("run", "-e", 2, "--checkpoint-every", 4)
    record = run.record
    assert [event["event"] for event in record.events if event["event"] not in ("step", "checkpoint")] == [
        "start", "validation", "validation", "end"]
    start = record.start
    assert start["command"].startswith(f"{SCRIPT} --model tiny") and start["switches"]["epochs"] == 2
    assert (start["total_steps"], start["steps_per_epoch"], start["epochs"], start["warmup_steps"]) == (12, 6, 2, 2)
    assert start["parameters"] == sum(p.numel() for p in torchvision.models.get_model("tiny", num_classes=2).parameters())
    assert {"torch", "torchvision", "python", "dlojz"} <= start["versions"].keys()
    assert start["machine"]["cores_allowed"] >= 1 and start["machine"]["device"] == "cpu"
    assert start["git"] is None or set(start["git"]) == {"commit", "dirty"}
    assert [step["step"] for step in record.steps] == list(range(1, 13))
    assert [step["epoch"] for step in record.steps] == [0] * 6 + [1] * 6
    assert [checkpoint["step"] for checkpoint in record.checkpoints] == [4, 6, 10, 12]
    assert all(checkpoint["bytes"] > 1000 and checkpoint["seconds"] > 0 for checkpoint in record.checkpoints)
    assert [v["images"] for v in record.validations] == [10, 10]
    assert record.end["status"] == "completed" and record.end["steps"] == 12 and record.end["host_memory"] > 1e7
    assert sorted(file.name for file in run.folder.iterdir()) == ["checkpoint.pt", "record.jsonl"]
    assert "validation after step 12" in run.out and "throughput" in run.out and not run.err
    assert record.steps[-1]["loss"] < record.steps[0]["loss"], "the tiny model learns to tell these images"


def test_test_mode(training):
    run = training.run("run", "--test", "--test-steps", 8)
    assert len(run.record.steps) == 8 and [v["step"] for v in run.record.validations] == [6, 8]
    many = make_images(training.tmp / "many", train=4, val=30)
    run = training.run("short", "--test", "--test-steps", 2, "-b", 2, data=many)
    assert [v["images"] for v in run.record.validations] == [10]  # five batches


def test_an_update_that_the_scaler_skips_is_none_of_the_schedule_and_no_reason_to_warn(training):
    too_much = "import torch\ninit = torch.amp.GradScaler.__init__\n" \
               "torch.amp.GradScaler.__init__ = lambda self, device, **more: init(self, device, 2.0**120, **more)"
    run = training.run("run", "-e", 1, "--amp", "fp16", "--schedule", "onecycle", before=too_much)
    assert run.err == "" and len(run.record.steps) == 6 and len({step["lr"] for step in run.record.steps}) == 1


def test_random_data_validates_on_another_batch(training):
    run = training.run("run", "--data", "random", "--test", "--test-steps", 40, "--lr", 0.2)
    [validation], first, last = run.record.validations, run.record.steps[0]["loss"], run.record.steps[-1]["loss"]
    assert last < first - 0.5 < validation["loss"]


def test_a_checkpoint_is_no_part_of_a_step(training):
    """What the loop stood still for is in the record on its own, and nobody waited for the loader meanwhile."""
    slow = "import os, time\nfsync = os.fsync\nos.fsync = lambda file: (time.sleep(0.3), fsync(file))"
    run = training.run("run", "-e", 1, "--checkpoint-every", 2, before=slow)
    assert all(checkpoint["seconds"] >= 0.3 for checkpoint in run.record.checkpoints)
    after = [step for step in run.record.steps if step["step"] in (3, 5)]
    assert all(step["seconds"] < 0.3 and step["loading"] < 0.3 for step in after)


def test_the_learning_rate_in_the_record_is_the_one_of_the_update(training):
    noted = """
import torch
step = torch.optim.SGD.step
def seen(self, *args, **more):
    print("LR", self.param_groups[0]["lr"])
    return step(self, *args, **more)
torch.optim.SGD.step = seen
"""
    run = training.run("run", "-e", 2, "--schedule", "onecycle", before=noted)
    used = [float(line.split()[1]) for line in run.out.splitlines() if line.startswith("LR ")]
    assert [step["lr"] for step in run.record.steps] == used and len(set(used)) == 12


@pytest.mark.parametrize("model, size", [("googlenet", 64), ("inception_v3", 80), ("vit_b_16", 32), ("alexnet", 64)])
def test_models_that_need_something_special(training, model, size):
    run = training.run("run", "--model", model, "--image-size", size, "--test", "--test-steps", 1, "-b", 2, "--lr", 1e-4)
    assert run.record.end["status"] == "completed" and not run.err


# Checkpoints load anywhere


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("compiled", [[], ["--compile"], ["--compile", "--compile-blocks"]])
def test_a_checkpoint_loads_into_the_plain_model(training, world, compiled):
    eager = "import torch\ncompile = torch.compile\ntorch.compile = lambda model, **how: compile(model, backend='eager')"
    argv = ("--model", "tiny_bn", "-e", 1, "--checkpoint-every", 100, *compiled)
    run = training.run_ranks("run", world, *argv, before=eager)
    state = torch.load(run.folder / "checkpoint.pt", weights_only=True, map_location="cpu")["model"]
    assert not [key for key in state if "module." in key or "_orig_mod" in key]
    net = torchvision.models.get_model("tiny_bn", num_classes=2)
    net.load_state_dict(state, strict=True)
    resumed = training.run_ranks("run", world, *argv, "--resume", before=eager)
    same(resumed.checkpoint["model"], state)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compile_for_real(training, tmp_path):
    """The one run that compiles: it learns what the plain run learns, with activation checkpointing too."""
    argv = ("--model", "tiny_bn", "--test", "--test-steps", 3, "--checkpoint-every", 100)
    plain = training.run("plain", *argv)
    env = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    run = training.start("compiled", *argv, "--compile", "--checkpoint-activations", env=env).wait(500)
    assert run.code == 0, run.err
    assert [step["loss"] for step in run.record.steps] == pytest.approx([step["loss"] for step in plain.record.steps], rel=1e-3)
    net = torchvision.models.get_model("tiny_bn", num_classes=2)
    net.load_state_dict(run.checkpoint["model"], strict=True)
    assert run.record.steps[0]["seconds"] > 10 * plain.record.steps[1]["seconds"], "nothing was compiled"


# Full and read-only disks


@contextmanager
def mounted(folder, options):
    """A file system of its own in memory."""
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder) -> None:
    """Leave no byte free."""
    with open(folder / "ballast", "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass


GATE = """
import dlojz.training.chronometer, time, os
next_iter = dlojz.training.chronometer.Chronometer.next_iter
def gated(self, *args, **more):
    if self.step in {steps}:
        os.close(os.open(f"{folder}/at.{{self.step}}", os.O_CREAT))
        while not os.path.exists(f"{folder}/go.{{self.step}}"):
            time.sleep(0.01)
    return next_iter(self, *args, **more)
dlojz.training.chronometer.Chronometer.next_iter = gated
"""


def gate(training, *steps) -> str:
    return GATE.format(steps=steps, folder=training.tmp)


def at(training, run, step, action) -> None:
    """Do something while the training stands before the end of a step."""
    until(lambda: (training.tmp / f"at.{step}").exists() or run.code is not None)
    assert run.code is None, run.err
    action()
    (training.tmp / f"go.{step}").touch()


def test_a_full_disk_does_not_end_the_training(training):
    with mounted(training.tmp / "disk", "size=300k") as disk:
        run = training.start("disk/run", "-e", 3, "--checkpoint-every", 2, before=gate(training, 5, 13))
        kept = []
        at(training, run, 5, lambda: (kept.append((run.folder / "checkpoint.pt").read_bytes()), fill(disk)))

        def look():
            assert (run.folder / "checkpoint.pt").read_bytes() == kept[0], "the last good one stays"
            assert not list(run.folder.glob("*.part")), "no half file stays"
            (disk / "ballast").unlink()

        at(training, run, 13, look)
        assert run.wait().code == 0, run.err
        record, lines = run.record, (training.tmp / "disk" / "run.err").read_text().splitlines()
        place = torch.load(run.folder / "checkpoint.pt", weights_only=True)["place"]
    missed = [6, 8, 10, 12]
    assert not lines, "the log is on the same disk: what was to be said while that was full is lost, and does no harm"
    assert [step["step"] for step in record.steps] == list(range(1, 19)) and record.end["status"] == "completed"
    assert [c["step"] for c in record.checkpoints] == [2, 4, 14, 16, 18] and place["step"] == 18
    assert [error["step"] for error in record.errors] == missed and {error["kind"] for error in record.errors} == {"disk"}


def test_a_full_disk_is_said_in_one_line(training):
    """The log is elsewhere here; the disk stays full to the end, for more steps than fit on the last page of the record."""
    with mounted(training.tmp / "disk", "size=300k") as disk:
        argv = ["--run-dir", disk / "run", "-e", 4, "--checkpoint-every", 4, "--profile"]
        run = training.start("log", *argv, before=gate(training, 7))
        at(training, run, 7, lambda: fill(disk))
        assert run.wait().code == 0, run.err
        assert torch.load(disk / "run" / "checkpoint.pt", weights_only=True)["place"]["step"] == 6
        assert sorted(file.name for file in (disk / "run").iterdir()) == ["checkpoint.pt", "record.jsonl"]
        record = records.read(disk / "run")
    lines = run.err.splitlines()
    missed = (10, 12, 16, 18, 22, 24)
    assert len(lines) == len(missed) + 2, lines
    full, free = "(No space left on device)", f"Free some space in {disk / 'run'}"
    expected = [f"train.py: no checkpoint at step {step} {full}; the one before is kept. {free}" for step in missed]
    assert [line for line in lines if "no checkpoint" in line] == expected
    file = disk / "run" / "record.jsonl"
    assert f"dlojz: the record cannot be written {full}; the run continues, {file} is incomplete." in lines
    assert f"train.py: no trace {full}. {free}" in lines
    assert "step 24/24" in run.out and record.torn <= 1


def test_a_disk_that_is_full_from_the_start(training):
    with mounted(training.tmp / "disk", "size=100k") as disk:
        (disk / "run").mkdir()
        fill(disk)
        run = training.run("log", "--run-dir", disk / "run", "-e", 1, "--checkpoint-every", 3)
        assert os.listdir(disk / "run") in ([], ["record.jsonl"])
    lines = run.err.splitlines()
    assert len(lines) == 3 and sum("no checkpoint at step" in line and "there is none" in line for line in lines) == 2


def test_a_folder_that_cannot_be_written(training):
    with mounted(training.tmp / "disk", "size=300k") as disk:
        (disk / "run").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for name, said in (("run", "run"), ("new/run", "new")):
            refused = training.run("log", "--run-dir", disk / name, "-e", 1, code=2)
            assert refused.err.endswith(f"train.py: cannot write to {disk / said}: Read-only file system. "
                                        "Give another folder with --run-dir\n")
        assert refused.err.count("\n") == 2
        assert os.listdir(disk / "run") == []


# Traces


def trace(run) -> list[dict]:
    return json.loads(gzip.decompress((run.folder / "trace.json.gz").read_bytes()))["traceEvents"]


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_a_trace_is_there_however_few_steps_run(training, steps):
    run = training.run("run", "--profile", "--test", "--test-steps", steps)
    assert run.record.end["trace"] is True and "trace  " not in run.out
    assert sorted(file.name for file in run.folder.iterdir()) == ["record.jsonl", "trace.json.gz"]
    names = [event.get("name", "") for event in trace(run)]
    traced = {1: 1, 2: 1, 5: 4, 20: 5}[steps]  # the profiler warms up for a step, where there is one to spare
    assert names.count("dlojz.forward") == names.count("dlojz.update") == traced
    assert len({name for name in names if name.startswith("ProfilerStep")}) == traced
    assert any("conv" in name for name in names)
    assert not run.err or (steps == 1 and "won't be using warmup" in run.err and run.err.count("\n") == 2)


def test_the_writing_of_a_trace_is_no_step_s_time(training):
    slow = """
import time
from dlojz.training import failures
make = failures.trace_writer
failures.trace_writer = lambda *where: (lambda write: lambda profiler: (time.sleep(5), write(profiler)))(make(*where))
"""
    run = training.run("run", "--profile", "--test", "--test-steps", 16, before=slow)
    assert run.record.end["trace"] is True and len(run.record.steps) == 16
    assert max(step[name] for step in run.record.steps for name in ("seconds", "idle", "loading")) < 4


def test_a_run_that_is_stopped_before_says_why_there_is_no_trace(training):
    told = "import os, signal, dlojz.training.failures\ncatch = dlojz.training.failures.catch_signals\n" \
           "dlojz.training.failures.catch_signals = lambda: (lambda got: (os.kill(os.getpid(), signal.SIGTERM), got)[1])(catch())"
    run = training.run("run", "--profile", "-e", 4, before=told, code=75)
    assert run.record.end["trace"] is False and not (run.folder / "trace.json.gz").exists()
    assert "trace             none: the run ended before the steps that were to be traced" in run.out


def test_a_run_that_is_stopped_while_it_traces_keeps_what_it_has(training):
    told = """
import os, signal, dlojz.training.chronometer
next_iter = dlojz.training.chronometer.Chronometer.next_iter
def stop(self, *args, **more):
    if self.step == 9:
        os.kill(os.getpid(), signal.SIGTERM)
    return next_iter(self, *args, **more)
dlojz.training.chronometer.Chronometer.next_iter = stop
"""
    run = training.run("run", "--profile", "-e", 4, before=told, code=75)
    assert run.record.end["trace"] is True
    assert trace(run)


# How it starts and ends


def test_python_train_py(tmp_path, training_images):
    argv = (*SMALL, "--data", training_images, "--test", "--test-steps", 3, "--profile", "--run-dir", tmp_path / "run")
    done = python(SCRIPT, *argv)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "throughput" in done.stdout and records.read(tmp_path / "run").end["status"] == "completed"


def test_torchrun(tmp_path, training_images):
    with reserved_port() as port:
        done = python("-m", "torch.distributed.run", "--nproc-per-node", 2, "--master-port", port, SCRIPT, *SMALL,
                      "-b", 2, "--data", training_images, "--test", "--test-steps", 3, "--run-dir", tmp_path / "run",
                      "--accumulate", 2)
    assert done.returncode == 0, done.stderr
    record = records.read(tmp_path / "run")
    assert record.end["status"] == "completed" and record.start["world_size"] == 2 and len(record.steps) == 3


def test_help_and_wrong_words(training):
    assert "--checkpoint-activations" in training.run("help", "--help").out
    run = training.run("wrong", "--no-such-switch", code=2)
    assert "unrecognized arguments: --no-such-switch" in run.err and "Traceback" not in run.err
    run = training.run("site", env={"DLOJZ_SITE": "atlantis"}, code=2)
    assert run.err.startswith("train.py: ") and run.err.count("\n") == 1 and "atlantis" in run.err


def test_it_ends_soon_after_its_last_line(tmp_path, training_images):
    """With four workers and all that they prefetch; the best of three, since other things may be going on here."""
    argv = [sys.executable, "-u", SCRIPT, *SMALL, "--num-workers", 4, "--persistent-workers", "--prefetch-factor", 4, "-e", 2,
            "--data", training_images, "--run-dir", tmp_path / "run"]
    took = []
    while len(took) < 3 and min(took, default=9) >= 4:
        run = subprocess.Popen(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=environment(), start_new_session=True)
        try:
            lines = [(time.monotonic(), line) for line in run.stdout]
            assert run.wait(LIMIT) == 0 and lines[-1][1].startswith("validation  "), lines
            took.append(time.monotonic() - lines[-1][0])
            until(lambda pid=run.pid: not _alive(pid), 5, "a worker is left")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    assert min(took) < 4  # a worker that is not told to end is waited for 5 s


def test_workers_that_hang_hold_nothing_up(training):
    """A worker that reads ahead from a file system that does not answer: the run needs it no more."""
    hangs = """
import dlojz.data, time
item, served = dlojz.data.ImageFolder.__getitem__, []
def slow(self, index):
    served.append(index)
    if self.training and len(served) > 4:
        time.sleep(60)
    return item(self, index)
dlojz.data.ImageFolder.__getitem__ = slow
"""
    workers = ("--num-workers", 4, "--persistent-workers", "--prefetch-factor", 4)
    run = training.start("run", "--test", "--test-steps", 4, *workers, before=hangs)
    until(lambda: run.record.end)
    begun = time.monotonic()
    assert run.wait(LIMIT).code == 0 and time.monotonic() - begun < patient(6)
    until(lambda: not _alive(run.pid), 5, "a worker is left")


def test_the_checkpoint_does_not_wait_for_workers(training):
    """A warning leaves half a minute: the state is saved before the loader is taken down."""
    hangs = "import torch.utils.data.dataloader as d, time\nd._MultiProcessingDataLoaderIter.__del__ = lambda self: time.sleep(3)"
    at_the_end = """
import dlojz.training.chronometer, os, signal
update = dlojz.training.chronometer.Chronometer.update
def told(self):
    if self.step == 2:
        os.kill(os.getpid(), signal.SIGUSR1)
    update(self)
dlojz.training.chronometer.Chronometer.update = told
"""
    run = training.run("run", "--num-workers", 1, before=hangs + at_the_end, code=75)
    [saved], last = run.record.checkpoints, run.record.steps[-1]
    assert saved["step"] == last["step"] == 3 and saved["time"] - last["time"] < 2


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
