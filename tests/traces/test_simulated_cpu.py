"""The diagnosis of traces of a CPU with a planted cause, step by step as it is written here."""

import pytest
from simulated_cpu import Cpu

from dlojz import traces, views
from dlojz.traces.products import is_product

IMAGES = [[32, 3, 64, 64], [16, 3, 3, 3]]
HALF = ["c10::BFloat16", "c10::BFloat16"]


def told(cpu: Cpu, tmp_path):
    path = cpu.write(tmp_path / "trace.json")
    facts = traces.analyse(traces.read(path))
    assert sum(facts.shares.values()) == pytest.approx(facts.seconds, rel=1e-6)
    found = traces.diagnose(facts)
    assert len(found.next) == 2 == len(set(found.next))
    return path, facts, found


def small_net(cpu, reads=0, gap=4.0):
    """A hundred short operators, as a small model has them."""
    for _ in range(100):
        cpu.op("aten::add", 6)
        cpu.gap(gap)
    for _ in range(reads):
        cpu.read()
        cpu.gap(gap)
    cpu.update()


# --- no step is marked -------------------------------------------------------------------------------------------------------


def unmarked(reads: int, count=20, update=True) -> Cpu:
    cpu = Cpu()
    for _ in range(count):
        for _ in range(60):
            cpu.op("aten::add", 6)
            cpu.gap(4)
        for _ in range(reads):
            cpu.read()
            cpu.gap(4)
        if update:
            cpu.update()
    return cpu


def test_a_loss_that_is_read_once_a_step_is_no_synchronisation_where_no_step_is_marked(tmp_path):
    path, facts, found = told(unmarked(reads=1), tmp_path)
    assert found.pattern == "launch" and facts.reads.count == 20 == facts.updates
    said = views.trace(path).text
    assert said.startswith("trace of trace.json: 12.") and " ms without a marked step on CPU" in said.splitlines()[0]
    assert "note: no step is marked in the trace" in said
    assert "per step" not in said and " step of " not in said and "operators in all, " in said and "of the trace (" in said
    page = views.trace(path)._repr_html_()
    assert "per step" not in page and "own time in the trace" in page and "the trace of the CPU" in page


@pytest.mark.parametrize(("reads", "update", "pattern"), [(7, True, "launch"), (8, True, "synchronisation"),
                                                          (50, True, "synchronisation"), (50, False, "launch")])
def test_without_marked_steps_values_are_counted_for_each_update(tmp_path, reads, update, pattern):
    _, _, found = told(unmarked(reads, update=update), tmp_path)
    assert found.pattern == pattern, found
    if pattern == "synchronisation":
        assert f"values are read out of tensors {20 * reads:,} times in all (aten::item), in 20 updates" in found.evidence
    assert ("how often values are read in a step: no step is marked" in found.unknown) == (not update)


@pytest.mark.parametrize(("reads", "pattern"), [(1, "launch"), (7, "launch"), (8, "synchronisation"), (60, "synchronisation")])
def test_with_marked_steps_values_are_counted_for_each_step(tmp_path, reads, pattern):
    _, facts, found = told(Cpu().steps(4, lambda cpu: small_net(cpu, reads)), tmp_path)
    assert found.pattern == pattern and facts.reads.count == reads
    assert found.next[0].startswith("more to do for each call" if pattern == "launch" else "leave numbers on the GPU")


def test_a_step_of_many_small_waits_does_not_tell(tmp_path):
    """No wait takes enough of the step to be its cause, and computing does not take half of it."""
    def step(cpu, compute):
        with cpu.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            cpu.gap(130)
        cpu.op("aten::mm", compute)
        cpu.now = max(cpu.now, cpu.all_reduce(1000, 110))
        cpu.gap(270)

    _, _, found = told(Cpu(world=2).steps(6, lambda cpu: step(cpu, 440)), tmp_path)
    assert found.pattern == "unknown" and found.title == "this trace does not tell", found
    assert "operators that compute take 45% of a step" in str(found) and "the loader 13%" in str(found) and len(found.next) == 2
    assert "what lies between operators 28%" in str(found) and "other processes 13%" in str(found)
    assert told(Cpu(world=2).steps(6, lambda cpu: step(cpu, 700)), tmp_path)[2].pattern == "arithmetic"


def test_communications_without_a_marked_step(tmp_path):
    cpu = Cpu(world=2)
    for _ in range(5):
        small_net(cpu)
        cpu.now = cpu.all_reduce(1_000_000, 30_000)
    path, _, found = told(cpu, tmp_path)
    assert found.pattern == "communication" and "5 collectives in all with 20.0 MB" in str(found)
    for said in (views.communications(path).text, views.communications(path)._repr_html_()):
        assert "in all" in said and "per step" not in said


# --- a hole in the trace -----------------------------------------------------------------------------------------------------


def hole(cpu, us=50_000.0, reads=0):
    small_net(cpu, reads)
    cpu.gap(us)


@pytest.mark.parametrize("reads", [0, 1, 10])
def test_a_hole_is_no_lack_of_work_for_each_call(tmp_path, reads):
    """Python, numpy or a file in each step: neither a larger batch nor fewer launches nor fewer reads would shorten it."""
    _, facts, found = told(Cpu().steps(4, lambda cpu: hole(cpu, reads=reads)), tmp_path)
    assert found.pattern == "launch" and found.title.startswith("a gap in the trace") and facts.holey
    assert found.next[0].startswith("profile Python: ") and "cProfile" in found.next[0] and "py-spy" in found.next[0]
    assert "made, read or written in the loop" in found.next[1] and "DataLoader" in found.next[1]
    assert "numpy, reading and writing files" in found.evidence[0] and "(9" in found.evidence[0]
    assert facts.hole.seconds == pytest.approx(facts.shares["other"]) and facts.hole.lines == ()


def test_gaps_that_belong_to_calls_are_no_hole(tmp_path):
    for gap, holey in ((4.0, False), (15.0, False), (30.0, True)):
        _, facts, found = told(Cpu().steps(4, lambda cpu, gap=gap: small_net(cpu, gap=gap)), tmp_path)
        assert facts.holey == holey and found.next[0].startswith("profile Python" if holey else "more to do"), gap


def test_python_for_each_value_that_is_read_is_the_reading(tmp_path):
    """A loop over answers: 40 µs of Python for each, and none of it without the values."""
    _, facts, found = told(Cpu().steps(4, lambda cpu: small_net(cpu, reads=400, gap=40.0)), tmp_path)
    assert facts.holey and found.pattern == "synchronisation" and found.next[0].startswith("leave numbers on the GPU")


def test_with_stacks_the_function_in_the_hole_is_named(tmp_path):
    def body(cpu):
        with cpu.python("train.py(80): main"):
            cpu.gap(1_000)
            with cpu.python("torch/nn/modules/module.py(1): _call_impl"):
                small_net(cpu)
            with cpu.python("text.py(7): tokenise"):
                cpu.gap(30_000)
                with cpu.python("<built-in function sum>"), cpu.python("text.py(9): <genexpr>"):
                    cpu.gap(9_000)
                cpu.gap(2_000)
    _, facts, found = told(Cpu().steps(4, body), tmp_path)
    assert facts.hole.lines == (("text.py(7): tokenise", pytest.approx(32e-3)), ("text.py(9): <genexpr>", pytest.approx(9e-3)))
    assert found.next[0].startswith("look at text.py(7): tokenise")
    assert "most of that in text.py(7): tokenise (32.0 ms), text.py(9): <genexpr> (9.00 ms)" in found.evidence


def test_a_hole_is_where_the_program_says(tmp_path):
    """By the ranges of the program, the inner one; a phase that is guessed says nothing, since what makes batches lies in it."""
    def named(cpu):
        with cpu.range("dlojz.update"):
            small_net(cpu)
            with cpu.range("save"):
                cpu.gap(50_000)

    def chronometer(cpu):
        small_net(cpu)
        with cpu.range("dlojz.forward"):
            cpu.gap(50_000)

    def unnamed(cpu):
        cpu.gap(50_000)
        cpu.op("autograd::engine::evaluate_function: AddBackward0", 30)
        small_net(cpu)
    for body, where in ((named, "save"), (chronometer, "forward"), (unnamed, "")):
        _, facts, found = told(Cpu().steps(4, body), tmp_path)
        assert facts.hole.where == where and (f"most of that in {where}" in found.evidence) == bool(where)


# --- communication -----------------------------------------------------------------------------------------------------------


def backward(cpu, elements=8_000_000, us=90_000.0, asking=9_000.0, after=300.0, wait=True):
    """DDP with one bucket: asked for in the last operator of the backward pass, sent when that is over."""
    for _ in range(30):
        cpu.op("aten::linear", 500, [[64, 64], [64, 64]])
    for _ in range(30):
        cpu.op("autograd::engine::evaluate_function: AddmmBackward0", 900)
    with cpu.around("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"):
        over = cpu.all_reduce(elements, us, asking, after)
    cpu.op("aten::relu", 200)
    if wait:
        cpu.now = over
        cpu.op("torch.distributed.ddp.reducer::copy_bucket_to_grad", 100)
    cpu.update()


def test_a_collective_is_of_the_phase_that_asked_for_it(tmp_path):
    """gloo's thread begins now before, now after the end of the backward pass that the operators show."""
    after = iter((0, 300, 0, 900, 20))
    path, facts, _ = told(Cpu(world=2).steps(5, lambda cpu: backward(cpu, after=next(after))), tmp_path)
    assert {(one.phase, one.kind) for one in facts.collectives} == {("backward", "all_reduce")}
    assert [one.step for one in facts.collectives] == [0, 1, 2, 3, 4]
    assert [name for name, *_ in facts.phases[:3]] == ["forward", "backward", "update"]
    said = views.communications(path).text
    assert "1 collective per step, 32.0 MB, by gloo" in said and "Gradients go in 1 bucket per step beside the backward" in said
    assert "1 collectives" not in str(views.trace(path)) and "1 collective per step with 32.0 MB" in str(views.trace(path))


def test_a_reduce_scatter_is_called_so_though_gloo_makes_an_all_reduce_of_it(tmp_path):
    """FSDP asks for the next before the thread has done the first, and for the norm of all gradients in the update."""
    def step(cpu):
        cpu.op("aten::relu", 1000)
        with cpu.around("autograd::engine::evaluate_function: ReluBackward0"):
            cpu.op("aten::relu", 500)
            cpu.all_reduce(1000, 300, asking=100, after=700, call="_reduce_scatter_base_")
            cpu.op("aten::relu", 100)
            over = cpu.all_reduce(1000, 300, asking=100, after=900, call="_reduce_scatter_base_")
        with cpu.range("Optimizer.step#SGD.step"):
            cpu.op("aten::add_", 5)
            over = cpu.all_reduce(1, 50, asking=20, after=over - cpu.now)
        cpu.now = over

    path, facts, _ = told(Cpu(world=2).steps(3, step), tmp_path)
    assert [(one.kind, one.phase) for one in facts.collectives[:3]] == [
        ("reduce_scatter", "backward"), ("reduce_scatter", "backward"), ("all_reduce", "update")]
    said = views.communications(path).text
    assert "Gradients go in 2 reduce-scatters per step" in said and "bucket" not in said


def test_communication_is_counted_in_one_way(tmp_path):
    """What is under way is what is hidden and what is not, in sentences, table and bar, also where asking takes long."""
    path, facts, found = told(Cpu(world=2).steps(4, backward), tmp_path)
    whole, hidden = facts.under_way
    assert whole == pytest.approx(9e-3 + 300e-6 - 300e-6 + 90e-3) and hidden == 0.0
    assert facts.shares["communication"] == pytest.approx(whole - hidden)
    said = views.communications(path).text
    assert found.pattern == "communication" and found.evidence[0].startswith("99.0 ms of the ")
    assert "one is asked for or under way for 99.0 ms of the " in said and "for 99.0 ms per step (" in said

    def overlapped(cpu):
        over = cpu.all_reduce(8_000_000, 90_000, asking=9_000)
        cpu.op("aten::linear", 60_000, [[64, 64], [64, 64]])
        cpu.now = over
    path, facts, found = told(Cpu(world=2).steps(4, overlapped), tmp_path)
    assert facts.under_way == (pytest.approx(99e-3), pytest.approx(60e-3))
    assert facts.shares["communication"] == pytest.approx(39e-3)
    said = views.communications(path)
    assert "61% of that is hidden behind computing; for 39.0 ms per step (39%)" in said.text and "61% of their time" in str(found)
    page = said._repr_html_()
    assert "computes and communicates: 60.0 ms" in page and "communicates, computes nothing: 39.0 ms" in page
    assert "1 per step, 99.0 ms, 61% of it beside computing" in views.trace(path).text


def late(cpu):
    backward(cpu, elements=4_800, us=52_000)


def test_the_process_that_comes_late_is_looked_for_first(tmp_path):
    """19 kB in 52 ms: no network is so slow."""
    path, _, found = told(Cpu(world=2).steps(4, late), tmp_path)
    assert found.pattern == "communication" and found.next[0].startswith("find the slow process")
    assert "evenly" in found.next[1] and any("one of 19.2 kB takes 52.0 ms" in line for line in found.evidence)
    assert "waits for a slower one" in views.communications(path).text


def test_one_bucket_of_several_waits_for_the_late_process(tmp_path):
    def body(cpu):
        for us in (60_000, 4_000, 4_000):
            cpu.now = cpu.all_reduce(30_000, us)
        small_net(cpu)
    _, _, found = told(Cpu(world=2).steps(4, body), tmp_path)
    assert found.next[0].startswith("find the slow process") and "one of 0.12 MB takes 60.0 ms" in str(found)


@pytest.mark.parametrize(("elements", "us"), [(8_000_000, 90_000), (65_536, 9_000), (4_800, 2_500), (25_000_000, 3_000_000)])
def test_a_slow_network_is_no_late_process(tmp_path, elements, us):
    def body(cpu):
        small_net(cpu)
        cpu.now = cpu.all_reduce(elements, us)
    path, _, found = told(Cpu(world=2).steps(4, body), tmp_path)
    assert found.pattern == "communication" and found.next[0].startswith("send less often")
    assert "late" not in views.communications(path).text


def test_without_sizes_nobody_is_said_to_be_late(tmp_path):
    cpu = Cpu(world=2).steps(4, late)
    for event in cpu.events:
        event["args"] = {}
    _, _, found = told(cpu, tmp_path)
    assert found.pattern == "communication" and found.next[0].startswith("send less often")


# --- work --------------------------------------------------------------------------------------------------------------------


def work(*ops):
    def body(cpu):
        for name, us, dims, types in ops:
            cpu.op(name, us, dims, types)
    return body


VECTOR = ("aten::mul", 90_000, [[4_000_000], []], None)
NORM = ("aten::native_batch_norm", 60_000, [[32, 16, 64, 64]], None)
CONV = ("aten::mkldnn_convolution", 20_000, IMAGES, None)
PRODUCT = ("aten::mm", 20_000, [[512, 512], [512, 512]], None)


@pytest.mark.parametrize(("ops", "pattern", "there", "missing"), [
    ((VECTOR,), "memory_bandwidth", ("--fused", "fewer norms"), ("--amp", "--channels-last", "pixel", "bytes")),
    ((VECTOR, PRODUCT, VECTOR), "memory_bandwidth", ("--amp bf16", "--fused"), ("--channels-last",)),
    ((CONV, NORM, NORM), "memory_bandwidth", ("--amp bf16", "--channels-last"), ()),
    (((*CONV[:3], HALF), NORM, NORM), "memory_bandwidth", ("--channels-last", "--fused"), ("--amp",)),
    ((CONV,), "arithmetic", ("--amp bf16", "--channels-last"), ()),
    ((PRODUCT,), "arithmetic", ("--amp bf16", "smaller model"), ("--channels-last", "images")),
    (((*PRODUCT[:3], HALF),), "arithmetic", ("smaller model", "OMP_NUM_THREADS"), ("--channels-last", "--amp")),
])
def test_what_to_try_depends_on_the_work(tmp_path, ops, pattern, there, missing):
    _, _, found = told(Cpu().steps(4, work(*ops)), tmp_path)
    assert found.pattern == pattern
    said = " ".join(found.next)
    assert all(word in said for word in there) and not any(word in said for word in missing), said


def test_an_update_that_takes_most_of_a_step(tmp_path):
    """Half precision would not touch it: parameters and what the optimizer keeps stay float32."""
    def body(cpu):
        cpu.op(*PRODUCT)
        with cpu.range("Optimizer.step#Adam.step"):
            cpu.op("aten::sqrt", 60_000)

    _, facts, found = told(Cpu().steps(4, body), tmp_path)
    assert found.pattern == "memory_bandwidth" and facts.updating == pytest.approx(60e-3)
    assert "60.0 ms of the 80.0 ms of a step (75%): the update of the parameters" in found.evidence
    assert found.next[0] == "the update in one pass over the parameters: --fused" and "fewer updates" in found.next[1]
    assert "--fused" not in " ".join(traces.diagnose(facts, frozenset(["--fused"])).next)


def test_a_first_step_without_a_warm_up_is_said(tmp_path):
    """Unless it was so slow that it is left out, as one that was interrupted."""
    said = "the first step since the profiler began is among them"
    _, facts, _ = told(Cpu().steps(1, work(CONV)), tmp_path)
    assert any(note.startswith(said) for note in facts.notes)

    def cold(cpu):
        cpu.op(CONV[0], 20_000 if cpu.events else 500_000, *CONV[2:])

    _, facts, _ = told(Cpu().steps(4, cold), tmp_path)
    assert facts.steps == 3 and not any(note.startswith(said) for note in facts.notes)


def test_what_the_trace_shows_to_be_compiled_is_not_to_be_compiled(tmp_path):
    def body(cpu):
        cpu.op("CompiledFunction", 90_000)

    _, _, found = told(Cpu().steps(4, body), tmp_path)
    assert found.pattern == "memory_bandwidth" and "--fused" in found.next[0] and "--compile" not in " ".join(found.next)


def test_short_operators_are_no_work_that_waits_for_memory(tmp_path):
    """The parts of the work are parts of what is computed: 60 of 80 ms, whatever the calls beside it take."""
    def body(cpu):
        cpu.op("aten::mm", 60_000, [[512, 512], [512, 512]])
        cpu.op("aten::mul", 20_000)
        for _ in range(1000):
            cpu.op("aten::add", 10)

    _, facts, found = told(Cpu().steps(4, body), tmp_path)
    assert facts.share("calls") == pytest.approx(10 / 90)
    assert found.evidence[1].startswith("75% of that in convolutions") and "25% in what waits for memory" in found.evidence[1]


def test_values_that_are_read_are_counted_beside_another_diagnosis(tmp_path):
    def body(cpu):
        cpu.op(*PRODUCT)
        for _ in range(100):
            cpu.read()
            cpu.gap(20)

    _, _, found = told(Cpu().steps(4, body), tmp_path)
    assert found.pattern == "arithmetic"
    assert any("as values are read out of tensors one by one (100 times per step)" in line for line in found.also), found.also


def test_images_that_are_made_small_in_the_loop(tmp_path):
    """Most of the work comes before the first layer: it is the loader's."""
    one = (("aten::div", 1_200, [[512, 512, 3], []], None), ("aten::_upsample_bilinear2d_aa", 500, [[1, 3, 512, 512]], None))
    backward_ = ("aten::convolution_backward", 6_000, [IMAGES[0], *IMAGES], None)
    _, facts, found = told(Cpu().steps(4, work(*one * 64, (*CONV[:1], 3_000, *CONV[2:]), backward_)), tmp_path)
    assert found.pattern == "memory_bandwidth" and facts.prepared == pytest.approx(64 * 1.7e-3)
    assert "workers of a DataLoader" in found.next[0] and "--amp" not in str(found)
    assert any(line.startswith("109 ms of the 118 ms of a step (92%): before the first convolution") for line in found.evidence)
    _, facts, found = told(Cpu().steps(4, work(NORM, CONV, backward_, NORM)), tmp_path)  # a model that begins with a norm
    assert "--amp bf16" in found.next[0]


@pytest.mark.parametrize(("name", "product"), [
    ("aten::mm", True), ("aten::addmm_", True), ("aten::baddbmm", True), ("aten::_scaled_mm", True), ("aten::_int_mm", True),
    ("aten::linear", True), ("aten::bilinear", True), ("aten::conv2d", True), ("aten::convolution_backward", True),
    ("aten::scaled_dot_product_attention", True), ("aten::einsum", True), ("mkldnn::_linear_pointwise", True),
    ("aten::upsample_bilinear2d", False), ("aten::_upsample_bilinear2d_aa", False), ("prims::convert_element_type", False),
    ("aten::lgamma", False), ("aten::cummax", False), ("aten::hamming_window", False), ("aten::linspace", False),
    ("autograd::engine::evaluate_function: ConvolutionBackward0", False)])
def test_which_operators_are_products(name, product):
    assert is_product(name) == product


def test_operators_are_counted_in_one_way(tmp_path):
    """The loader's are not those of the training, in the diagnosis and beside other runs."""
    from dlojz.labs.profiler import figures

    def body(cpu):
        with cpu.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            for _ in range(16):
                cpu.op("aten::select", 2)
        cpu.op("c10d::allreduce_", 2)
        small_net(cpu, reads=10)
    folder = tmp_path / "shapes-001"
    folder.mkdir()
    Cpu().steps(4, body).write(folder / "trace.json")
    facts = traces.analyse(traces.read(folder))
    assert facts.called == 100 + 2 * 10 + 1 and "121 operators per step" in str(traces.diagnose(facts))
    said = figures.counted(folder).text
    assert [line.split()[-1] for line in said.splitlines() if line.startswith(("operators", "values"))] == ["121", "10"], said
    unmarked(reads=1).write(folder / "trace.json")
    said = figures.counted(folder).text
    assert "shapes-001: no step is marked in its trace" in said and "1,260" in said.replace("1260", "1,260")
