"""What stops a training, and what does not: said in words that help, recorded, with the right exit code, and in bounded time."""

import errno
import importlib.util
import re
import signal
import time

import pytest
import torch
from patience import LIMIT, patient
from training import make_images, until

from dlojz import data
from dlojz.system.errors import UsageError
from dlojz.training import failures, lost_ranks, records, summary
from dlojz.training.records import Writer

# In words


def card(allocated, reserved, total=80e9):
    return {"allocated": allocated, "reserved": reserved, "total": total}


def test_out_of_memory_with_much_unused_is_fragmentation():
    said = failures.explain(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), card(50e9, 58.5e9))
    assert said["kind"] == "out_of_memory" and said["message"].startswith("CUDA out of memory")
    assert (said["allocated"], said["reserved"], said["total"]) == (50e9, 58.5e9, 80e9)
    assert "8.5 GB are reserved but not allocated (fragmentation)" in said["advice"]
    assert f"set {failures.allocator_variable()}=expandable_segments:True" in said["advice"]


@pytest.mark.parametrize("version, name", [("2.6.0+cu126", "PYTORCH_CUDA_ALLOC_CONF"), ("2.9.1", "PYTORCH_CUDA_ALLOC_CONF"),
                                           ("2.11.0a0+git1", "PYTORCH_ALLOC_CONF"), ("2.14.1+cu130", "PYTORCH_ALLOC_CONF")])
def test_the_allocators_variable_is_one_that_this_torch_obeys(monkeypatch, version, name):
    monkeypatch.setattr(torch, "__version__", version)
    assert failures.allocator_variable() == name


@pytest.mark.parametrize("lost, said, named", [
    ({1: "has not moved for 600 seconds, while the others wait for it"}, "", True),
    ({}, "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", True), ({}, "Timed out waiting 1800000ms", True),
    ({1: lost_ranks.WORDLESS}, "Connection closed by peer", False),
])
def test_a_time_out_names_what_shows_where_each_rank_waits(lost, said, named):
    advice = failures.lost_rank(lost, set(), said)["advice"]
    server = importlib.util.find_spec("torch.distributed.debug") is not None  # from torch 2.10 on
    assert ("torchfrtrace" in advice) == named and ("start_debug_server()" in advice) == (named and server)


def test_out_of_memory_with_little_unused_is_too_much():
    said = failures.explain(torch.OutOfMemoryError("CUDA out of memory."), card(70e9, 77.5e9))
    assert said["kind"] == "out_of_memory" and "expandable" not in said["advice"] and "--batch-size" in said["advice"]
    assert said["advice"].count(".") == 1, "one sentence"


@pytest.mark.parametrize("error", [
    torch.OutOfMemoryError("CUDA out of memory."), MemoryError(), RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."),
], ids=lambda error: str(error)[:30])
def test_out_of_memory_in_its_many_forms(error):
    assert failures.explain(error)["kind"] == "out_of_memory"


def test_out_of_memory_in_gigabytes():
    error = RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
                         "allocate 307200000000 bytes. Error code 12 (Cannot allocate memory)")
    assert failures.explain(error)["message"] == ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 307.20 GB. "
                                                "Error code 12 (Cannot allocate memory)")
    assert failures.explain(MemoryError("9 bytes of 10"))["message"] == "9 bytes of 10"


@pytest.mark.parametrize("error, kind", [
    (RuntimeError("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"), "lost_rank"),
    (RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:446] Connection reset by peer"), "lost_rank"),
    (RuntimeError("[x/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation"), "lost_rank"),
    (torch.distributed.DistBackendError("NCCL communicator was aborted on rank 1"), "lost_rank"),
    (torch.distributed.DistNetworkError("failed to recv, got 0 bytes"), "lost_rank"),
    (torch.distributed.DistStoreError("wait timeout after 300000ms"), "lost_rank"),
    (OSError(errno.ENOSPC, "No space left on device"), "disk"), (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk"),
    (FileNotFoundError(errno.ENOENT, "No such file", "weights.pt"), "exception"),
    (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "exception"),
    (RuntimeError("cannot restore the store of socket options in time: timeout"), "exception"),
    (RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of "
                  "shared memory."), "data"),
    (KeyboardInterrupt(), "signal"), (UsageError("--batch-size must be at least 1"), "usage"),
    (data.DataError("12 of the 24 images cannot be read"), "data"), (ZeroDivisionError(), "exception"),
    (failures.StopTraining("nan_loss", "the loss is not a number.", "Lower --lr.", step=3), "nan_loss"),
], ids=lambda value: str(value)[:30])
def test_kinds(error, kind):
    said = failures.explain(error)
    assert said["kind"] == kind and said["message"] and "\n" not in said["message"] + said["advice"]
    assert said["message"] != "" and (kind != "nan_loss" or said["step"] == 3)


def test_an_error_without_words_is_named():
    assert failures.explain(ZeroDivisionError())["message"].startswith("ZeroDivisionError")


# A loss that is no number


def losses(*values, every=1):
    return [{"step": n * every, "loss": value, "accuracy": 0.5, "images": 4, "seconds": 0.1} for n, value in enumerate(values, 1)]


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("values, every, since", [
    ((1.0, NAN, NAN, NAN), 1, 2), ((NAN, INF, -INF), 1, 1), ((1.0, NAN, NAN, NAN), 5, 10), ((NAN, NAN, 1.0, NAN, NAN, NAN), 1, 4),
])
def test_three_in_a_row_stop_it(values, every, since):
    watch = failures.Watch(lambda *_: None, 100)
    with pytest.raises(failures.StopTraining, match=f"NaN or infinite from step {since} on\\.") as error:
        for step in losses(*values, every=every):
            watch([step])
    assert error.value.kind == "nan_loss"


@pytest.mark.parametrize("values", [(NAN, NAN, 1.0, NAN, NAN), (1.0,) * 9, (INF, 1.0, INF, INF, 1.0)])
def test_one_or_two_do_not(values):
    assert failures.Watch(lambda *_: None, 100)(losses(*values)) is False


def test_steps_without_a_loss_do_not_count():
    watch = failures.Watch(lambda *_: None, 100)
    assert watch([{"step": 1}, {"step": 2, "loss": None}, *losses(NAN), {"step": 3}, *losses(NAN)]) is False
    with pytest.raises(failures.StopTraining):
        watch(losses(NAN))


def test_one_step_in_ten_is_printed():
    said = []
    watch = failures.Watch(said.append, 50)
    for step in range(1, 51):
        watch([{"step": step, "loss": 1.0, "accuracy": 0.25, "images": 8, "seconds": 0.5}])
    assert [int(line.split()[1].split("/")[0]) for line in said] == [1, *range(5, 51, 5)]
    assert said[1] == "step  5/50  loss 1.0000  accuracy  25.0%      16.0 images/s"
    assert failures.Watch(said.append, 50)([{"step": 1}, {"step": 2, "stop": True}]) is True


@pytest.mark.parametrize("metric_every, printed", [(7, [7, 14, 21, 28, 35, 42, 49, 50]), (20, [20, 40, 50])])
def test_with_rare_metrics_the_steps_that_have_some_are_printed(metric_every, printed):
    said = []
    watch = failures.Watch(said.append, 50)
    for step in range(1, 51):
        loss = {"loss": 1.0, "accuracy": 0.25} if step % metric_every == 0 or step == 50 else {}
        watch([{"step": step, **loss, "images": 8, "seconds": 0.5}])
    assert [int(line.split()[1].split("/")[0]) for line in said] == printed


def test_a_loss_that_is_no_number_at_the_end_has_no_third_step_to_wait_for():
    watch = failures.Watch(lambda *_: None, 100)
    watch(losses(1.0, NAN))
    watch.validated({"loss": 1.0, "images": 3}, "val")  # the scaler has skipped that step
    with pytest.raises(failures.StopTraining, match=r"NaN or infinite from step 2 on\.") as error:
        watch.validated({"loss": NAN, "images": 3}, "val")
    assert error.value.kind == "nan_loss"
    watch(losses(1.0))
    watch.validated({"loss": NAN, "images": 3}, "val")


def test_a_short_run_whose_loss_is_no_number_is_not_completed(training):
    run = training.run("run", "--lr", 1e30, "--test", "--test-steps", 3, code=1)
    assert run.record.errors[0]["kind"] == "nan_loss" and run.record.end["status"] == "failed"


def test_a_loss_that_is_no_number_stops_a_run(training):
    run = training.run("run", "--lr", 1e30, "-e", 4, code=1)
    [error] = run.record.errors
    assert error["kind"] == "nan_loss" and error["rank"] == 0 and run.record.end["status"] == "failed"
    assert run.err.count("\n") == 1 and "the loss is NaN or infinite from step" in run.err and "--clip-grad" in run.err
    steps = run.record.steps
    assert len(steps) <= 7 and error["step"] == steps[-1]["step"]
    assert all(step["loss"] != step["loss"] or abs(step["loss"]) == INF for step in steps[-3:])


def test_all_ranks_find_it_and_one_says_it(training):
    ranks = training.start_ranks("run", 2, "--lr", 1e30, "-e", 4, "--metric-every", 2)
    assert [rank.wait().code for rank in ranks] == [1, 1]
    assert (ranks[0].err + ranks[1].err).count("\n") == 1 and len(ranks[0].record.errors) == 1


def test_a_loss_that_is_no_number_in_validation_is_shown_as_such(training):
    broken = "import torch\neval = torch.nn.Module.eval\n" \
             "torch.nn.Module.eval = lambda self: ([p.data.fill_(float('nan')) for p in self.parameters()], eval(self))[1]"
    run = training.run("run", "-e", 1, before=broken)
    [validation] = run.record.validations
    assert validation["loss"] != validation["loss"] and "loss nan" in run.out


# Memory


def raises(what, at=4) -> str:
    return f"""
import dlojz.training.chronometer, torch
forward = dlojz.training.chronometer.Chronometer.forward
def fails(self):
    if self.step == {at - 1}:
        {what}
    forward(self)
dlojz.training.chronometer.Chronometer.forward = fails
"""


@pytest.mark.parametrize("unused, advice", [(9e9, "expandable_segments"), (7e9, "Use a smaller --batch-size")])
def test_a_run_that_is_out_of_memory(training, unused, advice):
    memory = f"import dlojz.training.failures\ndlojz.training.failures._device_memory = lambda: {card(60e9, 60e9 + unused)}"
    run = training.run("run", code=1, before=memory + raises('raise torch.OutOfMemoryError("CUDA out of memory.")'))
    [error] = run.record.errors
    assert error["kind"] == "out_of_memory" and error["reserved"] - error["allocated"] == unused
    assert error["advice"].startswith(advice) or advice in error["advice"]
    assert run.err.count("\n") == 1 and run.err.startswith("train.py: CUDA out of memory. ")
    assert run.record.end["status"] == "failed" and len(run.record.steps) == 3
    assert "out_of_memory     CUDA out of memory." in summary.text(run.record)


# Processes that are lost


@pytest.mark.parametrize("how", ["killed", "exception", "exits"])
def test_the_others_end_when_a_rank_is_lost(training, how):
    what = {"killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exception": "raise ValueError('mine')",
            "exits": "import os; os._exit(3)"}[how]
    ranks = training.start_ranks("run", 3, "-e", 4, "-b", 2, before=["", raises(what), ""])
    begun = time.monotonic()
    until(lambda: ranks[1].code is not None)
    codes = [rank.wait(LIMIT).code for rank in ranks]
    assert codes == [1, {"killed": -signal.SIGKILL, "exception": 1, "exits": 3}[how], 1]
    assert time.monotonic() - begun < patient(60)
    errors = {error["rank"]: error for error in ranks[0].record.errors}
    for rank in (0, 2):
        assert errors[rank]["kind"] == "lost_rank"
        assert "look for the first error in its part of the log" in errors[rank]["advice"]
        assert errors[rank]["lost"] == [1] and errors[rank]["message"].startswith(f"rank 1 (process {ranks[1].pid} on ")
        said = {"killed": lost_ranks.WORDLESS, "exception": "stopped: ValueError: mine", "exits": lost_ranks.WORDLESS}[how]
        assert said in errors[rank]["message"]
        assert ranks[rank].err.count("\n") == 1 and "Traceback" not in ranks[rank].err
    assert ranks[2].err.startswith("train.py (rank 2): ")
    if how == "exception":
        assert errors[1]["kind"] == "exception" and "ValueError: mine" in ranks[1].err and "Traceback" in ranks[1].err
    assert ranks[0].record.end["status"] == "failed"


def test_rank_0_is_named_by_those_that_are_left(training):
    """It holds the roll; and it would have written the record."""
    ranks = training.start_ranks("run", 3, "-e", 4, "-b", 2,
                                 before=[raises("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), "", ""])
    assert [rank.wait(LIMIT).code for rank in ranks] == [-signal.SIGKILL, 1, 1]
    errors = {error["rank"]: error for error in ranks[1].record.errors}
    assert sorted(errors) == [1, 2]
    for error in errors.values():
        assert error["lost"] == [0] and lost_ranks.WORDLESS in error["message"]


def test_a_rank_that_hangs_is_named_and_all_end(training):
    impatient = "from dlojz.training import lost_ranks\nlost_ranks.PATIENCE = 3.0\n"
    hangs = impatient + raises("import time; time.sleep(600)")
    ranks = training.start_ranks("run", 3, "-e", 4, "-b", 2, before=[impatient, hangs, impatient])
    assert [rank.wait(LIMIT).code for rank in ranks] == [1, 1, 1]
    [error] = [error for error in ranks[0].record.errors if error["rank"] == 0]
    assert error["kind"] == "lost_rank" and error["lost"] == [1] and ranks[0].record.end["status"] == "failed"
    assert "rank 1 (process" in error["message"] and "has not moved for" in error["message"]
    assert "of train.py" in error["message"] and "in fails" in ranks[1].err, "where it stands, and its stack"


def test_a_rank_that_waits_without_hearing_of_it_ends_all_the_same(training):
    """As with NCCL: no error reaches the process that waits."""
    deaf = """
import threading, torch.distributed as dist
from dlojz.training import lost_ranks
lost_ranks.GRACE = 1.0
reduce = dist.all_reduce
def waits(tensor, *args, **more):
    try:
        return reduce(tensor, *args, **more)
    except RuntimeError:
        threading.Event().wait()
dist.all_reduce = waits
import torch.nn.parallel as parallel
parallel.DistributedDataParallel = lambda net, **_: net
"""
    killed = deaf + raises("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    ranks = training.start_ranks("run", 2, "-e", 4, "-b", 2, before=[deaf, killed])
    assert ranks[0].wait(LIMIT).code == 1
    [error] = ranks[0].record.errors
    assert error["lost"] == [1] and lost_ranks.WORDLESS in error["message"] and ranks[0].record.end["status"] == "failed"


def test_a_rank_that_has_ended_already_is_named(training):
    ends = raises("import sys; sys.exit(0)")
    ranks = training.start_ranks("run", 2, "-e", 4, "-b", 2, before=["", ends])
    assert [rank.wait(LIMIT).code for rank in ranks] == [1, 0]
    [error] = ranks[0].record.errors
    assert error["lost"] == [1] and error["message"].startswith("rank 1 had already exited, without an error.")
    assert "the same number of steps" in error["advice"]


def test_a_rank_that_waits_for_one_that_is_through_ends_all_the_same(training):
    """As with NCCL: the other has ended as it should, with less to do, and its connections stay open."""
    patient = "from dlojz.training import lost_ranks\nlost_ranks.GRACE = 2.0\n"
    # Through, and gone after a while only: until then gloo, too, tells the other nothing.
    through = patient + raises("import dlojz.training.lost_ranks as r, time; r.leave(); time.sleep(25); import os; os._exit(0)")
    ranks = training.start_ranks("run", 2, "-e", 4, "-b", 2, before=[patient, through])
    begun = time.monotonic()
    until(lambda: any("step" in line for line in ranks[0].record.events) or ranks[0].code is not None)
    assert ranks[0].wait(LIMIT).code == 1 and ranks[1].code is None, f"{time.monotonic() - begun:.0f} s"
    [error] = ranks[0].record.errors
    assert error["lost"] == [1] and error["message"].startswith("rank 1 had already exited, without an error.")
    assert "still waits for them" in error["message"] and "the same number of steps" in error["advice"]


def test_parameters_without_a_part_in_the_loss_are_explained():
    said = failures.explain(RuntimeError(
        "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your "
        "module has parameters that were not used in producing loss. Parameter indices which did not receive grad for rank 1: 2 3"
        " In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG"))
    assert said["kind"] == "usage" and "find_unused_parameters=True" in said["advice"]
    assert said["message"].endswith("Parameter indices which did not receive grad for rank 1: 2 3.")


def test_what_gloo_says_without_its_source_files():
    said = failures.explain(RuntimeError("[/p/gloo/transport/tcp/pair.cc:545] Read error [127.0.0.1]:9: Connection reset by "
                                         "peer. This is typically caused by a remote worker hanging. Check the logs."))
    assert said["message"] == "Read error [127.0.0.1]:9: Connection reset by peer."


# Data


def test_a_broken_image_is_named_and_skipped(training):
    folder = make_images(training.tmp / "set", train=24, val=10)
    broken = [folder / "train" / "cat" / "000.jpg", folder / "val" / "dog" / "001.jpg"]
    broken[0].write_bytes(b"no picture")
    broken[1].write_bytes(broken[1].read_bytes()[:100])
    run = training.run("run", "-e", 2, data=folder)
    assert run.err.count("\n") == 2 and all(f"skipped {file}: " in run.err for file in broken)
    assert [v["images"] for v in run.record.validations] == [9, 9] and len(run.record.steps) == 12
    assert all(step["images"] == 4 and step["loss"] > 0 for step in run.record.steps)


@pytest.mark.parametrize("world", [1, 2])
def test_no_image_to_validate_that_can_be_read(training, world):
    folder = make_images(training.tmp / "set", train=24, val=4)
    for file in (folder / "val").rglob("*.jpg"):
        file.write_bytes(b"no picture")
    ranks = training.start_ranks("run", world, "-e", 1, data=folder)
    assert [rank.wait().code for rank in ranks] == [2] * world
    run = ranks[0]
    said = f"none of the images in {folder / 'val'} that were to be validated can be read"
    assert run.err.endswith(f"train.py: {said}\n") and not run.record.validations
    assert [(error["kind"], error["message"]) for error in run.record.errors] == [("data", said)]
    assert sum(said in rank.err for rank in ranks) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_too_many_broken_images(training, workers):
    folder = make_images(training.tmp / "set", train=24, val=10)
    for file in sorted((folder / "train" / "cat").iterdir()):
        file.write_bytes(b"no picture")
    run = training.run("run", "--num-workers", workers, data=folder, code=2)
    assert "Traceback" not in run.err
    [last] = [line for line in run.err.splitlines() if "skipped /" not in line]
    # Two workers may both meet one too many.
    assert re.match(r"train.py: 1[12] of the 24 images in ", last) and "no more than 10 are skipped" in last
    assert run.record.errors[-1]["kind"] == "data" and run.record.end["status"] == "failed"


def test_too_many_broken_images_in_the_part_of_one_rank(training):
    """The rank that meets them says so: the others see no more than that it is gone."""
    folder = make_images(training.tmp / "set", train=48, val=4)
    for file in sorted((folder / "train" / "cat").iterdir()):
        file.write_bytes(b"no picture")
    one = "import dlojz.data, os\nskip = dlojz.data.ImageFolder._skip\n" \
          "dlojz.data.ImageFolder._skip = lambda self, *what: skip(self, *what) if os.environ['RANK'] == '1' else None"
    ranks = training.start_ranks("run", 2, "-b", 2, "-e", 2, data=folder, before=one)
    assert [rank.wait(LIMIT).code for rank in ranks] == [1, 2]
    [last] = [line for line in ranks[1].err.splitlines() if "skipped /" not in line]
    assert last.startswith("train.py (rank 1): 11 of the 48 images")
    assert {error["rank"]: error["kind"] for error in ranks[0].record.errors} == {0: "lost_rank", 1: "data"}


def empty(folder):
    for split in ("train", "val"):
        (folder / split / "cat").mkdir(parents=True)


@pytest.mark.parametrize("make, said", [
    (lambda folder: None, "is not there"), (lambda folder: folder.mkdir(), "has no folder train/"), (empty, "holds no images"),
    (lambda folder: (folder / "train" / "cat").mkdir(parents=True), "has no folder val/"),
], ids=["missing", "empty", "no images", "no val"])
def test_a_folder_that_will_not_do(training, make, said):
    make(training.tmp / "set")
    run = training.run("run", data=training.tmp / "set", code=2)
    assert run.err.count("\n") == 1 and said in run.err and "expected DIR/train/CLASS/*.jpg" in run.err
    assert [error["kind"] for error in run.record.errors] == ["usage"]


def test_a_folder_that_will_not_do_is_said_once_by_many_ranks(training):
    ranks = training.start_ranks("run", 2, data="/nowhere")
    assert [rank.wait().code for rank in ranks] == [2, 2]
    assert (ranks[0].err + ranks[1].err).count("\n") == 1 and len(ranks[0].record.errors) == 1


@pytest.mark.parametrize("argv", [("-b", 64, "--drop-last")], ids=str)
def test_fewer_images_than_a_batch(training, argv):
    run = training.run("run", *argv, code=2)
    assert run.err == "train.py: 24 images per process are not one batch of 64: use a smaller --batch-size\n"


def test_a_worker_that_is_killed(training):
    """As the kernel does when memory is short."""
    dies = """
import dlojz.data, os, signal, torch
item = dlojz.data.ImageFolder.__getitem__
def killed(self, index):
    if torch.utils.data.get_worker_info() and index == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return item(self, index)
dlojz.data.ImageFolder.__getitem__ = killed
"""
    run = training.run("run", "--num-workers", 2, before=dies, code=1)
    [error] = run.record.errors
    assert error["kind"] == "data" and "DataLoader worker" in error["message"] and "--num-workers" in error["advice"]
    assert run.err.splitlines()[-1].startswith("train.py: DataLoader worker")


def test_an_error_in_a_worker_is_named_without_its_traceback(training):
    breaks = """
import dlojz.data
def item(self, index):
    raise ValueError("no crop fits")
dlojz.data.ImageFolder.__getitem__ = item
"""
    run = training.run("run", "--num-workers", 2, before=breaks, code=1)
    said = "ValueError in a DataLoader worker: no crop fits"
    [error] = run.record.errors
    assert error["kind"] == "exception" and error["message"] == said
    assert run.err.splitlines()[-1] == f"train.py: {said} The traceback is in the error log."
    assert "in item" in run.err


# The user's own errors


def test_an_error_of_the_user_keeps_its_traceback(training):
    run = training.run("run", "-e", 2, "--num-workers", 1, before=raises("raise KeyError('my own')"), code=1)
    assert "Traceback (most recent call last)" in run.err and "KeyError: 'my own'" in run.err and "in fails" in run.err
    [error] = run.record.errors
    assert error["kind"] == "exception" and error["message"] == "KeyError: 'my own'" and run.record.end["status"] == "failed"
    assert len(run.record.steps) == 3


def test_an_error_in_the_users_loader_keeps_its_traceback(training):
    own = "import dlojz.data\ndef broken(self, *_):\n    raise KeyError('my own')\ndlojz.data.ImageFolder._transformed = broken"
    run = training.run("run", "--num-workers", 1, before=own, code=1)
    assert "in broken" in run.err and run.record.errors[0]["kind"] == "exception"


def test_ctrl_c(training):
    # Without workers: Python drops an interrupt that comes just while it forks.
    run = training.start("run", "--model", "tiny_slow", "-e", 3, "--data", "random")
    until(lambda: run.record.steps)
    run.signal_group(signal.SIGINT)
    run.wait(LIMIT)
    assert run.code == 130 and run.err == "train.py: interrupted from the keyboard.\n"
    assert run.record.errors[-1]["kind"] == "signal" and run.record.end["status"] == "failed"


def test_the_script_may_have_another_name(training, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["/somewhere/train_lm.py"])
    assert failures.script() == "train_lm.py"


# Files that are written safely


def test_a_file_is_whole_or_the_one_before(tmp_path, capsys):
    path, record = tmp_path / "checkpoint.pt", Writer(tmp_path / "record.jsonl")
    failures.write_safely(path, lambda file: file.write(b"first"), record, 1)

    def half(file):
        file.write(b"sec")
        raise OSError(errno.ENOSPC, "No space left on device")

    failures.write_safely(path, half, record, 2)
    assert path.read_bytes() == b"first" and sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.pt", "record.jsonl"]
    assert "no checkpoint at step 2 (No space left on device); the one before is kept" in capsys.readouterr().err
    failures.write_safely(path, lambda file: file.write(b"third"), record, 3)
    assert path.read_bytes() == b"third"
    with pytest.raises(ZeroDivisionError):  # no fault of the disk
        failures.write_safely(path, lambda file: 1 / 0, record, 4)
    assert path.read_bytes() == b"third"


def written(path, record):
    """Something is profiled, and its trace goes to ``path``."""
    ready = failures.trace_writer(path, record)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], on_trace_ready=ready):
        torch.ones(2) + 1


@pytest.mark.parametrize("name, reason, advice", [
    ("profile/trace.json.gz", "{}/profile is not there", "Make that folder first, or name a file in one that is there"),
    ("profile/trace.json", "{}/profile is not there", "Make that folder first, or name a file in one that is there"),
    ("file/trace.json.gz", "{}/file is not a folder", "Make that folder first, or name a file in one that is there"),
    ("folder", "{}/folder is a folder", "Name a file"),
])
def test_a_trace_that_cannot_be_written_is_no_full_disk(tmp_path, capfd, name, reason, advice):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    run, reason = tmp_path / "run", reason.format(tmp_path)
    run.mkdir()
    record = Writer(run / "record.jsonl")
    written(tmp_path / name, record)
    assert capfd.readouterr().err == f"{failures.script()}: no trace ({reason}). {advice}\n"
    error, = records.read(run).errors
    assert (error["message"], error["advice"], error["fatal"]) == (f"no trace: {reason}.", f"{advice}.", False)
    assert error["kind"] == "usage" and sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder", "run"]
    written(run / "trace.json.gz", record)
    assert sorted(file.name for file in run.iterdir()) == ["record.jsonl", "trace.json.gz"]


@pytest.mark.parametrize("error, kind, advice", [
    (OSError(errno.ENOSPC, "No space left on device"), "disk", "Free some space in {}."),
    (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk", "Your quota is used up: free some space in {}."),
    (OSError(errno.EROFS, "Read-only file system"), "disk", "{} is mounted read-only: take another folder."),
    (PermissionError(errno.EACCES, "Permission denied"), "usage", "Fix the permissions of {}, or use another folder."),
    (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"), "disk", "Free some space in {}."),
    (RuntimeError("Only Tensors created explicitly by the user support the deepcopy protocol"), "exception", ""),
], ids=lambda value: str(value)[:30])
def test_what_is_done_about_a_file_that_cannot_be_written_depends_on_why(tmp_path, capsys, error, kind, advice):
    record = Writer(tmp_path / "record.jsonl")

    def fail(file):
        raise error

    failures.write_safely(tmp_path / "checkpoint.pt", fail, record, 7)
    said, = records.read(tmp_path).errors
    reason = error.strerror if isinstance(error, OSError) else "No space left on device" if kind == "disk" else error
    assert (said["kind"], said["advice"]) == (kind, advice.format(tmp_path))
    assert said["message"] == f"no checkpoint at step 7: {reason}."
    assert advice.format(tmp_path).rstrip(".") in capsys.readouterr().err


def test_a_disk_that_ends_a_run_is_explained_by_its_error():
    full = OSError(errno.ENOSPC, "No space left on device", "/data/run/log.txt")
    assert failures.explain(full)["advice"] == "Free some space in /data/run."
    assert failures.explain(OSError(errno.ENOSPC, "No space left on device"))["advice"] == "Free some space in the file system."
    read_only = OSError(errno.EROFS, "Read-only file system", "/data/x")
    assert failures.explain(read_only)["advice"] == "/data is mounted read-only: take another folder."


@pytest.mark.parametrize("behind, said", [(OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded"),
                                          (None, "No space left on device"), (ValueError("no"), "No space left on device")])
def test_what_the_file_has_said_is_told_and_not_how_torchs_writer_noticed(tmp_path, capsys, behind, said):
    def full(file):
        raised = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 210752 vs 210648")
        raised.__context__ = behind
        raise raised

    record = Writer(tmp_path / "record.jsonl")
    failures.write_safely(tmp_path / "checkpoint.pt", full, record, 1)
    assert f"no checkpoint at step 1 ({said}); there is none. " in capsys.readouterr().err
    assert [(error["kind"], error["message"]) for error in records.read(tmp_path).errors] == [
        ("disk", f"no checkpoint at step 1: {said}.")]
