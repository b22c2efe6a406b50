"""The diagnosis of traces of a simulated GPU with a planted cause: each pattern in several ways, and what is none."""

import random

import pytest
from simulated_gpu import ADD, ALLREDUCE, CONV_FP32, CONV_TC, FOREACH, GEMM_FP32, GEMM_TC, LAYOUT, NORM, RELU, Gpu

from dlojz import traces, views
from dlojz.traces import intervals

STEPS = 5
PIXELS = [64, 64, 56, 56]  # a batch of 64 with 64 channels


def idle(gpu, us=40.0):
    with gpu.range("dlojz.idle"):
        gpu.load(us)


def net(gpu, layers=30, conv=100.0, rest=30.0, cpu=12.0, conv_kernel=CONV_TC, rest_kernel=ADD, dims=None, types=None):
    """Forward, backward, update: a convolution and some work on each of its results in every layer."""
    with gpu.range("dlojz.forward"):
        for _ in range(layers):
            with gpu.op("aten::cudnn_convolution", cpu, dims, types, ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"]):
                gpu.kernel(conv_kernel, conv)
            with gpu.op("aten::relu", cpu / 2):
                gpu.kernel(rest_kernel, rest)
    with gpu.range("dlojz.backward"), gpu.autograd():
        for _ in range(layers):
            with gpu.op("autograd::engine::evaluate_function: ConvolutionBackward0", 2):
                with gpu.op("aten::convolution_backward", cpu, dims and [dims[0], *dims], types and [types[0], *types],
                            ["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]):
                    gpu.kernel(conv_kernel, conv)
                    gpu.kernel(conv_kernel, conv)
            with gpu.op("aten::threshold_backward", cpu / 2):
                gpu.kernel(rest_kernel, rest)
    update(gpu)


def update(gpu, us=150.0):
    with gpu.range("dlojz.update"), gpu.range("Optimizer.step#SGD.step"), gpu.op("aten::_foreach_add_", 20):
        gpu.kernel(FOREACH, us)


def layers(gpu, count, us, cpu=12.0, each=lambda gpu: None, kernel=CONV_TC):
    with gpu.range("dlojz.forward"):
        for _ in range(count):
            with gpu.op("aten::cudnn_convolution", cpu):
                gpu.kernel(kernel, us)
            each(gpu)


# --- programs: what the CPU does in a step -----------------------------------------------------------------------------------


def slow_loader(gpu):
    idle(gpu, 30_000)
    net(gpu)


def slow_loader_and_blocking_everything(gpu):
    """As train.py runs without any switch: copies that block, a loss that is read at the end, and a loader that is slow."""
    idle(gpu, 25_000)
    with gpu.range("dlojz.copy"), gpu.op("aten::to"), gpu.op("aten::copy_"):
        gpu.copy(10_000_000)
        gpu.sync()
    net(gpu)
    gpu.item()


def slow_copies(gpu):
    """No wait for the loader itself, but 150 MB of pageable memory in each step."""
    idle(gpu)
    with gpu.range("dlojz.copy"), gpu.op("aten::to"), gpu.op("aten::copy_"):
        gpu.copy(150_000_000)
        gpu.sync()
    net(gpu)


def loader_without_a_name(gpu):
    """Batches that no DataLoader makes: only the Chronometer says that the process waits."""
    with gpu.range("dlojz.idle"):
        gpu.work(20_000)
    net(gpu)


def tiny_kernels(gpu):
    idle(gpu)
    net(gpu, layers=80, conv=3.0, rest=2.0, cpu=14.0)


def python_between_kernels(gpu):
    idle(gpu)
    layers(gpu, 60, 40.0, each=lambda gpu: gpu.work(120))
    update(gpu)


def one_update_for_each_parameter(gpu):
    """A forward pass that keeps the GPU busy, then 500 updates that do not, then the loss is read."""
    idle(gpu)
    layers(gpu, 20, 150.0)
    with gpu.range("dlojz.update"), gpu.range("Optimizer.step#SGD.step"):
        for _ in range(500):
            with gpu.op("aten::add_", 8):
                gpu.kernel(ADD, 2.0)
    gpu.item()


def item_in_each_layer(gpu):
    idle(gpu)
    layers(gpu, 60, 30.0, each=lambda gpu: gpu.item())


def synchronize_in_each_layer(gpu):
    idle(gpu)
    layers(gpu, 60, 40.0, each=lambda gpu: (gpu.work(15), gpu.sync(None)))


def activations_to_the_host(gpu):
    """`.cpu()` of what each layer has computed."""
    def cpu(gpu):
        with gpu.op("aten::to"), gpu.op("aten::copy_"):
            gpu.copy(3_000_000, "Pageable", "DtoH")
            gpu.sync()
    idle(gpu)
    layers(gpu, 20, 300.0, each=cpu)


def mask_then_short_kernels(gpu):
    """After each wait short kernels come first, so that the queue stays empty for a while: launches seem to be the cause, yet
    without the waits the CPU would be far ahead."""
    def mask(gpu):
        with gpu.op("aten::nonzero", 10):
            gpu.copy(8, "Pageable", "DtoH")
            gpu.sync()
        for _ in range(8):
            with gpu.op("aten::relu", 8):
                gpu.kernel(RELU, 3.0)
    idle(gpu)
    layers(gpu, 20, 250.0, each=mask)


def all_reduce_after_backward(gpu):
    idle(gpu)
    net(gpu)
    gpu.wait(gpu.all_reduce(25_000_000, 8_000.0))
    update(gpu)


def buckets_slower_than_backward(gpu):
    idle(gpu)
    layers(gpu, 20, 100.0)
    with gpu.range("dlojz.backward"), gpu.autograd():
        for _ in range(4):
            for _ in range(5):
                with gpu.op("aten::convolution_backward", 12):
                    gpu.kernel(CONV_TC, 200.0)
            end = gpu.all_reduce(6_000_000, 3_000.0)
    gpu.wait(end)
    update(gpu)


def gather_before_each_layer(gpu):
    """Parameters that other processes hold, fetched when they are needed and not before."""
    def gather(gpu):
        gpu.wait(gpu.all_reduce(1_000_000, 400.0, name="_allgather_base"))
    idle(gpu)
    layers(gpu, 20, 300.0, each=gather)


def gradients_by_way_of_the_host(gpu):
    """gloo: threads of the CPU send, and the GPU waits for them."""
    idle(gpu)
    net(gpu)
    gpu.sync()
    with gpu.range("gloo:all_reduce"):
        gpu.work(9_000)
    update(gpu)


def elementwise_chains(gpu):
    idle(gpu)
    net(gpu, conv=20.0, rest=200.0)


def norms_and_layouts(gpu):
    idle(gpu)
    layers(gpu, 20, 80.0, each=lambda gpu: (gpu.kernel(NORM, 120.0), gpu.kernel(LAYOUT, 90.0), gpu.kernel(RELU, 40.0)))


def thin_convolutions(gpu):
    """Half precision and few channels: 1x1 convolutions do 64 operations for each byte, and an H100 could do 295."""
    idle(gpu)
    net(gpu, conv=100.0, rest=5.0, dims=[PIXELS, [64, 64, 1, 1]], types=["c10::BFloat16", "c10::BFloat16"])


def convolutions_on_tensor_cores(gpu):
    idle(gpu)
    net(gpu)


def float32_products(gpu):
    idle(gpu)
    with gpu.range("dlojz.forward"):
        for _ in range(20):
            with gpu.op("aten::addmm", 10, [[4096], [4096, 4096], [4096, 4096]]):
                gpu.kernel(GEMM_FP32, 400.0)
    update(gpu)


def large_products_in_half_precision(gpu):
    idle(gpu)
    with gpu.range("dlojz.forward"):
        for _ in range(20):
            with gpu.op("aten::mm", 10, [[8192, 8192], [8192, 8192]], ["c10::BFloat16", "c10::BFloat16"]):
                gpu.kernel(GEMM_TC, 1700.0)
    update(gpu)


PLANTED = {
    "loader": (slow_loader, slow_loader_and_blocking_everything, slow_copies, loader_without_a_name),
    "launch": (tiny_kernels, python_between_kernels, one_update_for_each_parameter),
    "synchronisation": (item_in_each_layer, synchronize_in_each_layer, activations_to_the_host, mask_then_short_kernels),
    "communication": (all_reduce_after_backward, buckets_slower_than_backward, gather_before_each_layer,
                      gradients_by_way_of_the_host),
    "memory_bandwidth": (elementwise_chains, norms_and_layouts, thin_convolutions),
    "arithmetic": (convolutions_on_tensor_cores, float32_products, large_products_in_half_precision),
}
CASES = [(pattern, program) for pattern, programs in PLANTED.items() for program in programs]


def facts_of(program, path, world=1, steps=STEPS, **how):
    gpu = Gpu(world=world, **how).steps(steps, program)
    return gpu, traces.analyse(traces.read(gpu.write(path / "trace.json.gz")))


@pytest.mark.parametrize(("pattern", "program"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_cause_is_found(tmp_path, pattern, program):
    _, facts = facts_of(program, tmp_path)
    found = traces.diagnose(facts)
    assert found.pattern == pattern, f"{found}\n{facts.shares}"
    assert len(found.next) == 2 and found.evidence and found.title in traces.PATTERNS.values()
    assert any(letter.isdigit() for letter in " ".join(found.evidence))


@pytest.mark.parametrize("program", [program for _, program in CASES], ids=lambda program: program.__name__)
def test_shares_are_those_of_the_simulation(tmp_path, program):
    """The busy share is that of the kernels that were simulated, and the shares add up to the step."""
    gpu, facts = facts_of(program, tmp_path)
    base = gpu.events[0]["ts"]
    begin, end = (moment * 1e6 + base for moment in (facts.begin, facts.end))
    busy = intervals.total(intervals.within(intervals.union(gpu.device_spans("kernel")), begin, end)) / (end - begin)
    assert facts.busy == pytest.approx(busy, abs=1e-3)
    assert sum(facts.shares.values()) == pytest.approx(facts.seconds, rel=1e-6)
    assert facts.steps == STEPS - 1


# --- the same again, without the cause ---------------------------------------------------------------------------------------


def hidden_loader(gpu):
    """The loader takes half as long as the GPU's work, which goes on meanwhile."""
    idle(gpu, 5_000)
    net(gpu)


def loss_read_once(gpu):
    idle(gpu)
    net(gpu)
    gpu.item()


def overlapped_buckets(gpu):
    idle(gpu)
    layers(gpu, 20, 100.0)
    with gpu.range("dlojz.backward"), gpu.autograd():
        for number in range(4):
            for _ in range(5):
                with gpu.op("aten::convolution_backward", 12):
                    gpu.kernel(CONV_TC, 300.0)
            end = gpu.all_reduce(6_000_000, 1_200.0 if number < 3 else 200.0)
    gpu.wait(end)
    update(gpu)


def old_events(gpu):
    """The Chronometer waits for an event of steps ago: the CPU stands still, the GPU does not."""
    idle(gpu)
    net(gpu)
    over = gpu.free[7] - 3_000
    begun, gpu.now = gpu.now, max(gpu.now, over)
    gpu._add("cuda_runtime", "cudaEventSynchronize", begun, gpu.now - begun, correlation=0)


def pinned_copies(gpu):
    idle(gpu)
    with gpu.range("dlojz.copy"), gpu.op("aten::to"):
        gpu.copy(10_000_000, "Pinned")
    net(gpu)


@pytest.mark.parametrize("program", [hidden_loader, loss_read_once, overlapped_buckets, old_events, pinned_copies],
                         ids=lambda program: program.__name__)
def test_what_costs_nothing_is_no_diagnosis(tmp_path, program):
    _, facts = facts_of(program, tmp_path, steps=8)
    found = traces.diagnose(facts)
    assert found.pattern == "arithmetic", f"{found}\n{facts.shares}"
    assert max(found.scores.values()) < 0.1


def test_taking_the_waits_away_takes_the_idle_time_away(tmp_path):
    """Where synchronisations are the diagnosis, the same program without them keeps the GPU busy; where launches are, not."""
    def without(program):
        gpu = Gpu()
        gpu.sync = gpu.item = lambda *_: None
        return gpu.steps(STEPS, program)

    for program in PLANTED["synchronisation"][:2]:
        facts = traces.analyse(traces.read(without(program).write(tmp_path / "a.json")))
        assert facts.busy > 0.9, program.__name__
    facts = traces.analyse(traces.read(without(one_update_for_each_parameter).write(tmp_path / "b.json")))
    assert traces.diagnose(facts).pattern == "launch"


# --- what to try -------------------------------------------------------------------------------------------------------------


def batches_without_a_name(gpu):
    """Made by a generator in the loop: no DataLoader, no Chronometer, no operator."""
    gpu.work(40_000)
    net(gpu)


def checkpoint_in_each_step(gpu):
    idle(gpu)
    net(gpu)
    gpu.item()
    with gpu.range("save"):
        gpu.work(30_000)


def python_that_the_gpu_would_hide(gpu):
    """5 ms of Python after the loss is read, the GPU works for 11: without that value it would take no time."""
    idle(gpu)
    net(gpu)
    gpu.item()
    gpu.work(5_000)


def test_what_comes_after_a_wait_is_the_waits_where_the_cpu_would_keep_up(tmp_path):
    _, facts = facts_of(python_that_the_gpu_would_hide, tmp_path)
    assert facts.keeps_up and traces.diagnose(facts).pattern == "synchronisation"


@pytest.mark.parametrize(("program", "first"), [
    (batches_without_a_name, "profile Python"), (python_between_kernels, "profile Python"),
    (checkpoint_in_each_step, "profile Python"), (tiny_kernels, "more to do"), (one_update_for_each_parameter, "more to do")])
def test_a_hole_is_told_from_launches(tmp_path, program, first):
    """What the CPU does when it queues nothing: operators, or something that is in no operator."""
    _, facts = facts_of(program, tmp_path)
    found = traces.diagnose(facts)
    assert found.pattern == "launch" and found.next[0].startswith(first), f"{found}\n{facts.shares} {facts.hole}"
    assert facts.hole.seconds <= facts.shares["launch"] + 1e-9
    assert any("in no operator: Python, or what it calls" in line for line in found.evidence) == (first == "profile Python")


def test_the_function_in_the_hole_is_named_on_a_gpu_too(tmp_path):
    def body(gpu):
        with gpu.python("train.py(80): main"):
            with gpu.python("text.py(7): tokenise"):
                gpu.work(40_000)
            net(gpu)
    _, facts = facts_of(body, tmp_path)
    found = traces.diagnose(facts)
    assert facts.hole.lines[0][0] == "text.py(7): tokenise" and found.next[0].startswith("look at text.py(7): tokenise")


@pytest.mark.parametrize(("elements", "us", "late"), [
    (5_000, 50_000, True), (2_000_000, 60_000, True), (25_000_000, 9_000, False), (250_000_000, 900_000, False),
    (250, 900, False)])
def test_a_process_that_comes_late_is_told_from_a_slow_network(tmp_path, elements, us, late):
    def body(gpu):
        idle(gpu)
        layers(gpu, 2, 50.0)
        gpu.wait(gpu.all_reduce(elements, us))
    _, facts = facts_of(body, tmp_path, world=4)
    found = traces.diagnose(facts)
    assert found.pattern == "communication"
    assert found.next[0].startswith("find the slow process" if late else "send less often"), found
    assert any("which process comes late" in line for line in found.unknown) == late


def vectors(gpu):
    """No convolution, no product: autocast changes nothing, and nothing has channels."""
    idle(gpu)
    with gpu.range("dlojz.forward"):
        for _ in range(40):
            with gpu.op("aten::mul", 8):
                gpu.kernel(ADD, 300.0)


def products_and_much_else(gpu):
    idle(gpu)
    for _ in range(20):
        with gpu.op("aten::mm", 10, [[4096, 4096], [4096, 4096]]):
            gpu.kernel(GEMM_FP32, 100.0)
        with gpu.op("aten::mul", 8):
            gpu.kernel(ADD, 300.0)


def half_products_of_odd_sizes(gpu):
    idle(gpu)
    for _ in range(20):
        with gpu.op("aten::mm", 10, [[4096, 1001], [1001, 4096]], ["c10::Half", "c10::Half"]):
            gpu.kernel(GEMM_FP32, 300.0)


def float32_convolutions(gpu):
    net(gpu, conv_kernel=CONV_FP32, rest=5.0)


@pytest.mark.parametrize(("program", "there", "missing"), [
    (vectors, ("--fused", "fewer norms"), ("--amp", "--channels-last", "pixel")),
    (products_and_much_else, ("--fused", "--amp bf16"), ("--channels-last", "pixel")),
    (elementwise_chains, ("--fused", "--amp bf16"), ()), (norms_and_layouts, ("--channels-last", "--fused"), ()),
    (large_products_in_half_precision, ("more GPUs", "--compile max-autotune"), ("--channels-last", "images")),
    (float32_products, ("--amp bf16, --tf32", "multiples of 8"), ("--channels-last",)),
    (half_products_of_odd_sizes, ("multiples of 8", "fewer operations"), ("--tf32", "--amp")),
    (float32_convolutions, ("--amp bf16, --tf32", "--channels-last"), ("multiples of 8",)),
    (convolutions_on_tensor_cores, ("more GPUs", "--compile max-autotune, --channels-last"), ())])
def test_what_to_try_depends_on_the_work(tmp_path, program, there, missing):
    _, facts = facts_of(program, tmp_path)
    said = " ".join(traces.diagnose(facts).next)
    assert all(word in said for word in there) and not any(word in said for word in missing), said


def test_no_sentence_speaks_of_a_step_where_none_is_marked(tmp_path):
    for number, (pattern, program) in enumerate(CASES):
        gpu = Gpu(world=2)
        for _ in range(STEPS):
            program(gpu)
        path = gpu.write(tmp_path / f"{number}.json")
        found = traces.diagnose(traces.analyse(traces.read(path)))
        assert found.pattern == pattern, f"{program.__name__}: {found}"
        for said in (str(found), *(view(path).text for view in (views.trace, views.communications))):
            assert "per step" not in said and " step of " not in said, said


# --- the facts themselves ----------------------------------------------------------------------------------------------------


def test_numbers_of_a_step(tmp_path):
    _, facts = facts_of(all_reduce_after_backward, tmp_path, world=4)
    assert facts.trace.device == "NVIDIA H100 80GB HBM3" and facts.trace.world_size == 4
    kernels = {row.name: row for row in facts.kernels}
    assert kernels[CONV_TC].count == 90 and kernels[CONV_TC].seconds == pytest.approx(9e-3)
    assert kernels[ADD].count == 60 and kernels[FOREACH].count == 2 and kernels[ALLREDUCE].kind == "collective"
    operators = {row.name: row for row in facts.operators}
    assert operators["aten::convolution_backward"].seconds == pytest.approx(6e-3)
    assert facts.tensor_cores == pytest.approx(9 / (9 + 60 * 0.03 + 0.3))
    first = facts.collectives[0]
    assert (first.kind, first.bytes, first.backend) == ("all_reduce", 100_000_000, "nccl")
    assert facts.shares["communication"] == pytest.approx(8e-3, rel=0.01) and first.hidden == 0
    assert len(facts.collectives) == 4


def test_who_asked_for_a_synchronisation(tmp_path):
    def body(gpu):
        idle(gpu)
        with gpu.python("train.py(212): train"), gpu.python("torch/_tensor.py(40): wrapped"):
            item_in_each_layer(gpu)
            gpu.sync(None)
    _, facts = facts_of(body, tmp_path)
    first = facts.syncs[0]
    assert (first.asked, first.where, first.line, first.count) == ("aten::item", "forward", "train.py(212): train", 60)
    assert first.idle > 1e-3
    assert {row.asked for row in facts.syncs} == {"aten::item", "torch.cuda.synchronize()"}
    assert "train.py(212): train" in str(traces.diagnose(facts))


def test_where_launches_come_too_late(tmp_path):
    _, facts = facts_of(one_update_for_each_parameter, tmp_path)
    assert max(facts.starved, key=facts.starved.get) == "update"
    assert sum(facts.starved.values()) == pytest.approx(facts.shares["launch"])
    assert "most of that in update" in str(traces.diagnose(facts))


def test_copies_by_kind(tmp_path):
    _, facts = facts_of(slow_copies, tmp_path)
    copy = facts.copies[0]
    assert (copy.direction, copy.memory, copy.count, copy.bytes) == ("HtoD", "pageable", 1, 150_000_000)
    assert copy.speed == pytest.approx(6e9, rel=0.01)
    assert "--pin-memory" in traces.diagnose(facts).next[0]
    _, facts = facts_of(pinned_copies, tmp_path)
    assert facts.copies[0].memory == "pinned" and facts.copies[0].speed == pytest.approx(25e9, rel=0.01)


def test_what_could_use_tensor_cores_and_why_it_does_not(tmp_path):
    half = ["c10::Half", "c10::Half"]

    def body(gpu):
        idle(gpu)
        for dims, types, kernel in (([[4096, 4096], [4096, 4096]], ["float", "float"], GEMM_FP32),
                                    ([[1000, 1001], [1001, 512]], half, "ampere_sgemm_128x64_nn"),
                                    ([[1024, 1024], [1024, 1024]], half, "gemv2T_kernel_val"),
                                    ([[1024, 1024], [1024, 1024]], half, GEMM_TC)):
            with gpu.op("aten::mm", 10, dims, types):
                gpu.kernel(kernel, 300.0)
        with gpu.op("aten::cudnn_convolution", 10):
            gpu.kernel(CONV_FP32, 300.0)
    _, facts = facts_of(body, tmp_path)
    why = {(row.operator, row.dtype): row.why for row in facts.missed}
    assert why == {
        ("aten::mm", "float32"): "float32 without TF32: --tf32, or half precision with --amp",
        ("aten::mm", "float16"): why["aten::mm", "float16"],
        ("aten::cudnn_convolution", "not recorded"): "type and sizes are not recorded (record_shapes=True)",
    }
    assert {row.why for row in facts.missed if row.dtype == "float16"} == {
        "sizes that are no multiple of 8 (1001)", "the library chose another kernel"}
    assert facts.tensor_cores == pytest.approx(1 / 5)


def test_a_card_that_is_not_known_is_said(tmp_path):
    _, facts = facts_of(thin_convolutions, tmp_path, device={"id": 0, "name": "NVIDIA Z9", "computeMajor": 12})
    found = traces.diagnose(facts)
    assert any("the peak of NVIDIA Z9 is not known here" in line for line in found.unknown)
    assert found.pattern == "arithmetic" and "of what this card can" not in str(found)


def test_an_old_card_has_no_tensor_cores_to_miss(tmp_path):
    _, facts = facts_of(float32_products, tmp_path, device={"id": 0, "name": "Tesla P100", "computeMajor": 6})
    assert facts.missed == []


def test_the_phase_of_a_kernel_is_that_of_its_launch(tmp_path):
    """Also without the Chronometer's ranges: from the operators of the backward pass and the optimizer's range."""
    def body(gpu):
        gpu.load(40)
        with gpu.op("aten::relu", 5):
            gpu.kernel(RELU, 50)
        with gpu.autograd(), gpu.op("autograd::engine::evaluate_function: ReluBackward0", 2):
            gpu.kernel(RELU, 50)
        with gpu.range("Optimizer.step#SGD.step"):
            gpu.kernel(FOREACH, 50)
    _, facts = facts_of(body, tmp_path)
    assert [name for name, *_ in facts.phases[:4]] == ["idle", "forward", "backward", "update"]


def test_one_step_and_no_step(tmp_path):
    _, facts = facts_of(slow_loader, tmp_path, steps=1)
    assert facts.steps == 1 and traces.diagnose(facts).pattern == "loader"
    gpu = Gpu()
    slow_loader(gpu)
    facts = traces.analyse(traces.read(gpu.write(tmp_path / "plain.json")))
    assert facts.steps == 1 and traces.diagnose(facts).pattern == "loader"
    assert any("no step is marked" in note for note in facts.trace.notes)


def test_a_random_program_never_breaks_the_accounts(tmp_path):
    """Whatever the program: parts that add up, no negative time, a diagnosis."""
    dice = random.Random(7)
    for number in range(25):
        gpu = Gpu(world=dice.choice((1, 2)))

        def body(gpu):
            for _ in range(dice.randrange(1, 40)):
                kernel, stream, us = dice.choice((CONV_TC, ADD, GEMM_FP32)), dice.choice((7, 8)), dice.expovariate(0.02)
                dice.choice((lambda kernel=kernel, stream=stream, us=us: gpu.kernel(kernel, us, stream), gpu.item,
                             lambda: gpu.sync(None), lambda: gpu.load(dice.expovariate(0.01)),
                             lambda: gpu.copy(dice.randrange(1, 10**6), dice.choice(("Pinned", "Pageable"))),
                             lambda: gpu.wait(gpu.all_reduce(1000, dice.expovariate(0.01))), lambda: gpu.work(30)))()

        facts = traces.analyse(traces.read(gpu.steps(dice.randrange(1, 5), body).write(tmp_path / f"{number}.json")))
        if facts.on_gpu:
            assert sum(facts.shares.values()) == pytest.approx(facts.seconds, rel=1e-6)
        assert min(facts.shares.values()) >= -1e-9 and 0 <= facts.busy <= 1
        assert str(traces.diagnose(facts))
