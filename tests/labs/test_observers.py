"""What the observers of sampling, collectives, profiling and printing note, alone and in two processes that talk over gloo."""

import contextlib
import itertools
import textwrap
import time
import types

import pytest
import torch

from dlojz.labs.probe import Limits, Probe, Session, lost_another, session
from dlojz.labs.probe import observe as observers

PLENTY = Limits(seconds=60)
DATA = """
import os
import torch
from torch.utils.data import *
from torch.utils.data.distributed import DistributedSampler

class Numbers(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return index

def read(loader, passes=1):
    for _ in range(passes):
        for batch in loader:
            pass
"""
GROUP = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
"""


@pytest.fixture(scope="module")
def host():
    with Session(PLENTY) as session:
        session.ready()
        yield session


@pytest.fixture
def run(host, tmp_path):
    """Runs a script under the observers named; nothing of it may be left."""
    def run(observe, code, head=DATA, limits=PLENTY, completed=True, **how):
        (tmp_path / "script.py").write_text(head + textwrap.dedent(code))
        host.begin(limits)
        facts = Probe(host, tmp_path, "script.py").run("", small=False, observe=observe.split(), **how)
        assert facts.completed == completed, f"{facts.cause.ended} {host.text()}"
        return facts

    yield run
    assert not host.descendants()


def read(facts, **like):
    """All indices, in order."""
    return list(itertools.chain(*batches(facts, **like)))


def batches(facts, **like):
    return [event.indices for event in facts.all("batch.indices", **like)]


# --- sampling ------------------------------------------------------------------------------------------------------------

OWN = """
class Backwards(Sampler):
    def __iter__(self):
        return iter(range(7, -1, -1))
    def __len__(self):
        return 8
"""


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how, sampler, want", [
    ("batch_size=4", "SequentialSampler", [[0, 1, 2, 3], [4, 5, 6, 7]]),
    ("batch_size=3, drop_last=True", "SequentialSampler", [[0, 1, 2], [3, 4, 5]]),
    ("batch_size=4, sampler=Backwards()", "Backwards", [[7, 6, 5, 4], [3, 2, 1, 0]]),
    ("batch_sampler=BatchSampler(Backwards(), 6, False)", "Backwards", [[7, 6, 5, 4, 3, 2], [1, 0]]),
    ("batch_sampler=[[0, 5], [1]]", "list", [[0, 5], [1]]),
    ("batch_size=None, sampler=[3, 1]", "list", [[3], [1]]),
    ("batch_size=2, sampler=torch.tensor([3, 1])", "Tensor", [[3, 1]]),
    ("batch_size=2, sampler=DistributedSampler(Numbers(), 4, 1, shuffle=False)", "DistributedSampler", [[1, 5]]),
])
def test_the_indices_of_each_batch(run, workers, how, sampler, want):
    facts = run("sampling", f"{OWN}\nread(DataLoader(Numbers(), {how}, num_workers={workers}))\n")
    assert batches(facts) == want and [event.batch for event in facts.all("batch.indices")] == list(range(len(want)))
    loader = facts.need("loader")
    assert loader.sampler == sampler and loader.num_workers == workers and loader.size == 8 and loader.dataset == "Numbers"


@pytest.mark.parametrize("workers", ["", ", num_workers=1", ", num_workers=2, persistent_workers=True, prefetch_factor=3"])
def test_shuffled_epochs_of_several_loaders_are_told_apart(run, workers):
    facts = run("sampling", f"""
        torch.manual_seed(0)
        train = DataLoader(Numbers(), 4, True{workers})
        read(DataLoader(Subset(Subset(Numbers(), [2, 4, 6]), [1, 2]), batch_size=2))
        read(train, 3)
    """)
    epochs = [read(facts, loader=0, epoch=epoch) for epoch in range(3)]
    assert all(sorted(epoch) == list(range(8)) for epoch in epochs) and epochs[0] != epochs[1] != epochs[2]
    assert batches(facts, loader=1) == [[4, 6]], "in the whole data set"
    train, other = facts.all("loader")
    assert (train.shuffle, other.shuffle, train.sampler, other.sampler) == (True, False, "RandomSampler", "SequentialSampler")
    assert train.batch_size == 4 and train.persistent_workers == ("persistent" in workers)
    assert train.prefetch_factor == (3 if "prefetch" in workers else 2 if workers else None)


def test_two_passes_at_once_and_one_left_early(run):
    facts = run("sampling", """
        loader = DataLoader(Numbers(), 2)
        for one, other in zip(loader, loader):
            break
        read(loader)
    """)
    assert [(event.epoch, event.batch) for event in facts.all("batch.indices")] == [(0, 0), (1, 0)] + [(2, n) for n in range(4)]


def test_a_data_set_without_indices(run):
    facts = run("sampling", """
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(range(3))
        read(DataLoader(Stream(), batch_size=2))
    """)
    assert facts.need("loader").size is None and batches(facts)[0] is None


def test_set_epoch_of_a_sampler_of_one_s_own(run):
    facts = run("sampling", """
        class Mine(Sampler):
            def __init__(self):
                self.inner = DistributedSampler(Numbers(), 2, 0)
            def __iter__(self):
                return iter(self.inner)
            def __len__(self):
                return len(self.inner)
            def set_epoch(self, epoch):
                self.inner.set_epoch(epoch + 10)
        loader = DataLoader(Numbers(), 4, sampler=Mine())
        for epoch in range(2):
            loader.sampler.set_epoch(epoch)
            read(loader)
    """)
    assert [(event.sampler, event.epoch) for event in facts.all("set_epoch")] == [
        ("Mine", 0), ("DistributedSampler", 10), ("Mine", 1), ("DistributedSampler", 11)]
    assert batches(facts, epoch=0) != batches(facts, epoch=1)
    assert facts.first("set_epoch").by == "own" and facts.first("set_epoch").file == "script.py"


def test_two_ranks_share_a_data_set(run):
    facts = run("sampling", """
        sampler = DistributedSampler(Numbers(), 2, int(os.environ["RANK"]))
        loader = DataLoader(Numbers(), 2, sampler=sampler, num_workers=1)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            read(loader)
    """, ranks=2)
    epochs = [[read(rank, epoch=epoch) for rank in facts.ranks] for epoch in range(2)]
    assert all(sorted(one + other) == list(range(8)) for one, other in epochs) and epochs[0] != epochs[1]


def test_pinning_is_told_where_gpus_are_pretended(run):
    facts = run("sampling", "read(DataLoader(Numbers(), 4, pin_memory=True))", gpus=1)
    assert facts.need("loader").pin_memory and batches(facts)


# --- collectives ---------------------------------------------------------------------------------------------------------


def seen(facts, **like):
    return [(event.kind, event.bytes, event.dtype, event.inside) for event in facts.all("collective", **like)]


def test_each_kind_with_what_a_process_puts_in(run):
    facts = run("collectives", """
        one = torch.ones(10)
        dist.all_reduce(one)
        dist.broadcast(one.half(), 0)
        dist.reduce(one.double(), 0)
        dist.all_gather([torch.empty(10) for _ in range(2)], one)
        dist.all_gather_into_tensor(torch.empty(20), one)
        dist.gather(one, [torch.empty(10) for _ in range(2)] if rank == 0 else None)
        dist.scatter(torch.empty(10), [torch.ones(10)] * 2 if rank == 0 else None)
        dist.reduce_scatter_tensor(torch.empty(10), torch.ones(20))
        dist.barrier()
        if rank == 0:
            dist.send(one, 1)
        else:
            dist.recv(one, 0)
        dist.destroy_process_group()
    """, GROUP, ranks=2)
    first, second = map(seen, facts.ranks)
    assert first[:8] == [("all_reduce", 40, "float32", "other"), ("broadcast", 20, "float16", "other"),
                         ("reduce", 80, "float64", "other"), ("all_gather", 40, "float32", "other"),
                         ("all_gather", 40, "float32", "other"), ("gather", 40, "float32", "other"),
                         ("scatter", 80, "float32", "other"), ("reduce_scatter", 80, "float32", "other")]
    assert [kind for kind, *_ in first[8:]] == ["barrier", "send"] and [kind for kind, *_ in second[8:]] == ["barrier", "recv"]
    assert second[6] == ("scatter", 0, None, "other")
    made = [rank.need("group.made") for rank in facts.ranks]
    assert [(event.backend, event.world_size, event.rank) for event in made] == [("gloo", 2, 0), ("gloo", 2, 1)]
    asked = [rank.need("group.asked") for rank in facts.ranks]
    assert [(event.backend, event.rank) for event in asked] == [("gloo", 0), ("gloo", 1)]
    called = [[event.call for event in facts.all(f"collective.{what}")] for what in ("call", "done")]
    assert called[0] == called[1] and called[0][:3] == ["all_reduce", "broadcast", "reduce"]
    assert all(rank.first("group.destroyed") for rank in facts.ranks)
    assert facts.first("collective").line == 11 and facts.first("collective").by == "torch.distributed"


def test_what_ddp_sends_by_itself(run):
    facts = run("collectives layers", """
        net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        model = DistributedDataParallel(net)
        for step in range(2):
            with model.no_sync():
                model(torch.ones(2, 4)).sum().backward()
            model(torch.ones(2, 4)).sum().backward()
        dist.all_reduce(torch.ones(1))
    """, GROUP, ranks=2)
    sums = [event for event in facts.all("collective", inside="backward")]
    gradients = (4 * 4 + 4 + 4 + 4) * 4
    assert sum(event.bytes for event in sums) == 2 * gradients and {event.kind for event in sums} == {"all_reduce"}
    assert {event.line for event in sums} == {15} and {event.step for event in sums} == {2, 4}
    assert not any(event.in_no_sync for event in sums)
    buffers = facts.all("collective", inside="forward")
    assert {event.kind for event in buffers} == {"broadcast"} and {event.in_no_sync for event in buffers} <= {True, False}
    assert len(facts.all("no_sync")) == len(facts.all("no_sync.end")) == 2
    assert seen(facts, line=16) == [("all_reduce", 4, "float32", "other")]


def test_backward_outside_of_no_sync_is_told(run):
    """DDP decides in the forward pass: a backward pass in a region that the forward pass was not in sends all the same."""
    facts = run("collectives layers", """
        model = DistributedDataParallel(nn.Linear(2, 2))
        loss = model(torch.ones(1, 2)).sum()
        with model.no_sync():
            loss.backward()
    """, GROUP, ranks=2)
    assert [event.in_no_sync for event in facts.all("collective", inside="backward")] == [True]


def test_a_wrapper_says_which_gpu_it_is_given(run):
    facts = run("collectives layers", """
        torch.cuda.set_device(1)
        for device in (1, "cuda:1", torch.device("cuda")):
            DistributedDataParallel(nn.Linear(2, 2).to("cuda:1"), device_ids=[device])
        DistributedDataParallel(nn.Linear(2, 2))(torch.ones(1, 2))
    """, GROUP, ranks=2, gpus=2)
    assert [list(event.devices) for event in facts.all("wrap")] == [["cuda:1"]] * 3 + [["cpu"]]


def test_statistics_after_training_and_in_validation(run):
    facts = run("collectives layers replicas", """
        net = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.full((2, 1, 1, 2), 1.0 + rank)).sum().backward()
        optimizer.step()
        trained = net[1].running_mean.item()
        dist.broadcast(net[1].running_mean, 0)
        net.eval()(torch.ones(1, 1, 1, 1))
        print(trained, net[1].running_mean.item())
    """, GROUP, ranks=2)
    found = [rank.need("statistics") for rank in facts.ranks]
    assert found[0].used["running_mean"] == found[0].trained["running_mean"] == found[1].used["running_mean"]
    assert found[1].trained["running_mean"] != found[1].used["running_mean"]
    assert found[1].trained["running_var"] == found[1].used["running_var"]


def test_with_all_observers_and_pretended_gpus(run):
    facts = run(" ".join(observers.names()), """
        model = DistributedDataParallel(nn.Linear(2, 2))
        model(torch.ones(1, 2)).sum().backward()
        print("end")
    """, GROUP, ranks=2, gpus=2)
    assert facts.all("collective", inside="backward") and facts.need("print").text == "end"


# --- profiling -----------------------------------------------------------------------------------------------------------

TRACED = """
import torch
from torch.profiler import profile, record_function, schedule
"""


def test_a_profiler_with_a_schedule(run):
    facts = run("profiling", """
        import pathlib
        def ready(profiler):
            profiler.export_chrome_trace("trace.json")
        plan = schedule(wait=1, warmup=1, active=2, repeat=1)
        with profile(schedule=plan, on_trace_ready=ready, record_shapes=True) as profiler:
            for step in range(5):
                with record_function("mine"):
                    torch.ones(2) + 1
                profiler.step()
    """, TRACED)
    made = facts.need("profiler.made")
    assert (made.wait, made.warmup, made.active, made.repeat, made.skip_first) == (1, 1, 2, 1, 0)
    assert made.scheduled and made.handler and made.record_shapes and not made.with_stack and made.activities == ["cpu"]
    assert [(event.number, event.action) for event in facts.all("profiler.step")] == [
        (1, "warmup"), (2, "record"), (3, "record_and_save"), (4, "none"), (5, "none")]
    trace = facts.need("profiler.trace")
    assert trace.path == "trace.json" and trace.written and trace.steps == [2, 3] and "cpu_op" in trace.kinds and made.operators
    assert [event.name for event in facts.all("record_function", by="own")] == ["mine"] * 5
    assert len(facts.all("profiler.start")) == len(facts.all("profiler.stop")) == 1


def test_a_handler_that_fails(run):
    facts = run("profiling", """
        with profile(schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=lambda: None) as profiler:
            profiler.step()
            profiler.step()
    """, TRACED, completed=False)
    failed = facts.need("profiler.unready")
    assert failed.kind == "TypeError" and "takes 0 positional arguments" in failed.message
    assert failed.line == facts.need("error").line


def test_what_fails_in_a_worker_of_the_loader_is_told_like_any_other(run):
    facts = run("batches", """
        class Items(torch.utils.data.Dataset):
            def __len__(self):
                return 2
            def __getitem__(self, index):
                return {}["no"]
        next(iter(torch.utils.data.DataLoader(Items(), num_workers=1)))
    """, TRACED, completed=False)
    assert facts.ended.message == "stops with KeyError in a DataLoader worker: 'no'" and facts.ended.line == 9


def test_a_profiler_without_one(run):
    facts = run("profiling", """
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True)
        profiler.start()
        torch.ones(2) + 1
        profiler.stop()
    """, TRACED)
    made = facts.need("profiler.made")
    assert not made.scheduled and not made.handler and made.with_stack and made.wait is None
    assert facts.first("profiler.trace") is None and facts.first("profiler.step") is None and facts.need("profiler.stop")


def test_a_schedule_of_one_s_own(run):
    facts = run("profiling", """
        with profile(schedule=lambda step: torch.profiler.ProfilerAction.NONE) as profiler:
            profiler.step()
    """, TRACED)
    assert facts.need("profiler.made").scheduled and facts.need("profiler.made").wait is None


def test_regions_of_others_are_not_the_trainee_s(run):
    facts = run("profiling", """
        weight = torch.nn.Parameter(torch.ones(1))
        weight.sum().backward()
        torch.optim.SGD([weight]).step()
        for batch in torch.utils.data.DataLoader([1, 2]):
            pass
    """, TRACED)
    assert facts.all("record_function", by="torch.optim") and facts.all("record_function", by="torch.utils")
    assert not facts.all("record_function", by="own")


# --- printing ------------------------------------------------------------------------------------------------------------


def test_who_prints_and_saves(run):
    facts = run("printing", """
        import sys
        rank = int(os.environ["RANK"])
        print("rank", rank, sep=" = ")
        print("x" * 500, file=sys.stderr)
        with open("file.txt", "w") as file:
            print("not shown", file=file)
        if rank == 0:
            torch.save({}, "one.pt")
            with open("two.pt", "wb") as file:
                torch.save({}, file)
        import io
        torch.save({}, io.BytesIO())
    """, ranks=2)
    said = [[(event.rank, event.text) for event in rank.all("print")] for rank in facts.ranks]
    assert said == [[(n, f"rank = {n}"), (n, "x" * 200)] for n in range(2)]
    assert [[event.path for event in rank.all("save")] for rank in facts.ranks] == [["one.pt", "two.pt"], []]


def test_numbers_that_nobody_seeds_are_the_same_in_each_run(run):
    facts = run("printing", """
        import random
        rank = int(os.environ["RANK"])
        print(torch.initial_seed(), random.random() == random.Random(rank).random())
    """, ranks=2)
    assert [rank.need("print").text for rank in facts.ranks] == ["0 True", "1 True"]


# --- together ------------------------------------------------------------------------------------------------------------


def test_a_rank_that_never_arrives(run, monkeypatch):
    """Bounded, and each process says where it stands."""
    monkeypatch.setattr(session, "_processor", lambda pid: (0.0, 0.0))  # nothing is added for what else runs on this machine
    began = time.monotonic()
    facts = run("collectives", """
        if rank == 1:
            while True: pass
        dist.all_reduce(torch.ones(1))
    """, GROUP, Limits(seconds=4), completed=False, ranks=2)
    ended = facts.cause.ended
    assert ended.how == "time"
    assert "running after 8 seconds (rank 0 in line 12 of script.py, rank 1 in line 11 of script.py)" in ended.message
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("end, how, said", [
    ("1 / 0", "error", "ZeroDivisionError"), ("raise SystemExit(0)", "exit", "exit code 0"),
    ("os._exit(0)", "exit", "exit code 0"), ("os.kill(os.getpid(), 9)", "signal", "SIGKILL")])
def test_the_rank_that_fails_is_the_cause(run, end, how, said):
    """The other one waits for it, and stops with an error of its own or is ended."""
    facts = run("collectives layers", f"""
        if rank == 1:
            {end}
        model = nn.Linear(1, 1)
        for step in range(3):
            dist.all_reduce(model(torch.ones(1)))
    """, GROUP, completed=False, ranks=2)
    assert facts.cause is facts.ranks[1] and facts.cause.ended.how == how and said in facts.cause.ended.message
    assert facts.ended.how in ("error", "alone", "signal")


def test_the_rank_that_follows_may_end_first(run):
    facts = run("collectives layers", """
        if rank == 1:
            dist.destroy_process_group()
            __import__("time").sleep(0.7)
            1 / 0
        dist.all_reduce(torch.ones(1))
    """, GROUP, completed=False, ranks=2)
    assert facts.cause is facts.ranks[1] and "ZeroDivisionError" in facts.cause.ended.message
    assert facts.ended.how == "error" and lost_another(facts.ended) and not lost_another(facts.cause.ended)


def test_an_observer_that_is_not_asked_for_is_not_there(run):
    facts = run("printing", "read(DataLoader(Numbers(), 4))\nprint('end')\n")
    assert {event.what for event in facts.events} == {"print", "end"}


# --- what an observer computes with tensors of a GPU ---------------------------------------------------------------------------


class Elsewhere(torch.Tensor):
    """Tensors that lie on another device than those which a function makes by itself: to compute with both is an error, as it
    is with a GPU."""

    BACK = frozenset((torch.Tensor.cpu, torch.Tensor.tolist, torch.Tensor.item, torch.Tensor.__float__, torch.Tensor.__bool__))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function in cls.BACK:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*(arg.as_subclass(torch.Tensor) if isinstance(arg, cls) else arg for arg in args))
        others = [arg for arg in args if isinstance(arg, torch.Tensor) and not isinstance(arg, cls) and arg.dim()]
        if others:
            raise RuntimeError(f"Expected all tensors to be on the same device, but {function.__name__} found two")
        return super().__torch_function__(function, types, args, kwargs or {})


@contextlib.contextmanager
def silence():
    yield


def test_observers_compute_where_tensors_lie():
    from torch import nn

    from dlojz.labs.probe.fingerprints import fingerprint
    from dlojz.labs.probe.observe import batches

    noted = {}
    log = types.SimpleNamespace(silence=silence, place=lambda tensor: "cuda:0" if isinstance(tensor, Elsewhere) else "cpu",
                                note=lambda what, **facts: noted.update({what: facts}), wants=lambda what: True, quiet=False,
                                step=0)
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.uint8).view(2, 3, 4, 4)
    there, labels = images.as_subclass(Elsewhere), torch.tensor([1, 0])
    with pytest.raises(RuntimeError, match="same device"):
        there * images

    seen = {}
    for name, given, targets in (("here", images, labels), ("there", there, labels.as_subclass(Elsewhere))):
        watching = batches.Observer(log, {})
        watching.note_batch(given)
        watching.before_call(nn.functional.cross_entropy, (None, targets), {})
        watching.before_call(nn.functional.cross_entropy, (None, nn.functional.one_hot(targets, 3).float()), {})
        soft = noted["targets"].pop("rows")
        seen[name] = noted["batch"]["mark"], noted["batch"]["pixels"], soft, noted["batch"]["shape"], noted["targets"]["shape"]
        assert noted["batch"]["device"] == noted["targets"]["device"] == ("cpu" if name == "here" else "cuda:0")
    assert seen["here"] == seen["there"] and seen["here"][2] == [{1: 1.0}, {0: 1.0}]

    weights = [torch.linspace(-1, 1, 7), torch.ones(2, 2)]
    away = [tensor.as_subclass(Elsewhere) for tensor in weights]
    assert fingerprint(away) == fingerprint(weights)
