"""The chronometer on a fake clock and a fake device: what is reported can be computed by hand."""

import threading
import time

import pytest
import torch

from dlojz.training.chronometer import LAG, Chronometer
from dlojz.training.energy import EnergyMeter, power


class Recorded:
    """Stands in for the record."""

    def __init__(self):
        self.events = []

    def write(self, event, **fields):
        self.events.append({"event": event, **fields})


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class FakeGpu:
    """A device with a queue: work takes device time after what was queued before it, and the host goes on at once.

    A mark is a place in the queue; its time is when the device reaches it, and never before the host put it there.
    """

    def __init__(self, host, lag=LAG):
        self.host, self.lag = host, lag
        self.free_at = host.now
        self.waits = 0
        self.read = 0

    def work(self, seconds):
        self.free_at = max(self.free_at, self.host.now) + seconds

    def mark(self):
        self.free_at = max(self.free_at, self.host.now)
        return self.free_at

    def settle(self, mark):
        if mark > self.host.now:
            self.waits += 1
            self.host.now = mark

    def between(self, first, last):
        self.read += 1
        return last - first

    def fetch(self, sums):
        return sums.clone()

    def give_back(self, marks):
        pass


def chronometer(host, device, **how):
    record = Recorded()
    return Chronometer(record, clock=device, host=host, **how), record


def loop(host, gpu, timer, steps, loading=0.0, copy=1.0, forward=2.0, backward=4.0, update=0.5, launch=0.0):
    """A loop whose every part takes the given seconds; returns all settled steps."""
    settled = []
    timer.start()
    for _ in range(steps):
        host.sleep(loading)
        timer.copy()
        gpu.work(copy)
        timer.forward()
        gpu.work(forward)
        timer.backward()
        gpu.work(backward)
        timer.update()
        gpu.work(update)
        host.sleep(launch)
        settled += timer.next_iter(torch.tensor([8.0, 2.0, 4.0]), images=4)
    return settled + timer.validation()


def test_phases_of_a_gpu_add_up_to_the_step_and_to_the_wall():
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu)
    steps = loop(host, gpu, timer, 12, loading=0.25)
    wall = gpu.free_at - 100.0
    for step in steps:
        assert step["idle"] + step["copy"] + step["forward"] + step["backward"] + step["update"] == pytest.approx(step["seconds"])
        assert (step["copy"], step["forward"], step["backward"], step["update"]) == pytest.approx((1.0, 2.0, 4.0, 0.5))
    assert sum(step["seconds"] for step in steps) == pytest.approx(wall)


def test_a_slow_loader_hidden_behind_the_gpu_costs_no_device_time():
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu)
    steps = loop(host, gpu, timer, 20, loading=2.0)  # the device works 7.5 s a step
    assert steps[5]["loading"] == pytest.approx(2.0)
    assert steps[5]["idle"] == pytest.approx(0.0)


@pytest.mark.parametrize("phase", ["loading", "copy", "forward", "backward", "update"])
def test_a_wait_shows_up_where_it_is_and_nowhere_else(phase):
    def run(extra):
        host = Time()
        gpu = FakeGpu(host, lag=0)
        timer, _ = chronometer(host, gpu)
        costs = {"loading": 9.0, "copy": 1.0, "forward": 2.0, "backward": 4.0, "update": 0.5}
        costs[phase] += extra
        return loop(host, gpu, timer, 4, **costs)[2]

    before, after = run(0.0), run(3.0)
    names = ("idle", "copy", "forward", "backward", "update")
    changed = {name: round(after[name] - before[name], 6) for name in names if abs(after[name] - before[name]) > 1e-6}
    assert changed == {"idle" if phase == "loading" else phase: 3.0}
    assert after["loading"] - before["loading"] == pytest.approx(3.0 if phase == "loading" else 0.0)


@pytest.mark.parametrize("total, first, asked", [(20, 0, 4), (3, 0, 1), (20, 10, 12), (None, 0, 10)])
def test_memory_is_asked_once_in_the_last_step_of_the_warm_up(total, first, asked):
    host, calls = Time(), []

    def memory():
        calls.append(timer.step + 1)
        host.sleep(5.0)
        return {"memory_with_workers": 7}

    gpu = FakeGpu(host, lag=0)
    timer, record = chronometer(host, gpu, total_steps=total, first_step=first, memory=memory)
    steps = loop(host, gpu, timer, 12 if total is None else total - first)
    assert calls == [asked]
    assert [step["step"] for step in record.events if "memory_with_workers" in step] == [asked]
    if timer.warmup_steps:
        timed = [step for step in steps if "warmup" not in step]
        assert timed and all(step["seconds"] == pytest.approx(7.5) for step in timed)
        assert timed[0]["step"] == asked + 1


def test_the_first_batch_is_part_of_the_first_step():
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu)
    timer.start()
    host.sleep(5.0)  # the loader's workers start
    timer.copy()
    timer.next_iter()
    (step,) = timer.validation()
    assert step["loading"] == pytest.approx(5.0) and step["idle"] == pytest.approx(5.0)


def test_nothing_is_read_before_the_device_is_lag_steps_further():
    host = Time()
    gpu = FakeGpu(host)
    timer, record = chronometer(host, gpu)
    timer.start()
    for number in range(1, 21):
        timer.copy()
        gpu.work(0.001)
        host.sleep(0.5)  # the device keeps up
        settled = timer.next_iter(torch.ones(3), images=1)
        assert [step["step"] for step in settled] == ([number - LAG] if number > LAG else [])
    assert gpu.waits == 0, "the loop was stopped to be measured"
    timer.validation()
    assert [event["step"] for event in record.events] == list(range(1, 21))


def test_on_a_cpu_each_step_is_known_at_once():
    host = Time()
    timer = Chronometer(Recorded(), device=torch.device("cpu"), host=host)
    timer.start()
    timer.copy()
    timer.forward()
    assert [step["step"] for step in timer.next_iter(torch.ones(3), images=1)] == [1]


def test_loss_and_accuracy_are_sums_over_all_images():
    host = Time()
    timer, _ = chronometer(host, FakeGpu(host))
    timer.start()
    timer.copy()
    sums = torch.tensor([12.0, 3.0, 8.0])
    timer.next_iter(sums, images=8)
    sums.zero_()  # the training goes on with the same tensor
    (step,) = timer.validation()
    assert step["loss"] == 1.5 and step["accuracy"] == 0.375 and "stop" not in step


def test_a_stop_request_is_read_when_its_step_is_settled():
    host, asked = Time(), []

    def requests():
        asked.append(float(timer.step == 3))
        return torch.tensor([asked[-1]])

    timer, _ = chronometer(host, FakeGpu(host, lag=2), stop_requests=requests)
    timer.start()
    stopped_at = []
    for number in range(1, 8):
        timer.copy()
        sums = torch.ones(3) if number != 6 else None  # asked only where there are metrics
        if any(step.get("stop") for step in timer.next_iter(sums, images=1)):
            stopped_at.append(number)
    assert stopped_at == [5] and asked == [0, 0, 1, 0, 0, 0]


@pytest.mark.parametrize("total, warm", [(50, 10), (20, 4), (4, 0), (None, 10)])
def test_warm_up_is_marked_and_left_out_of_the_averages(total, warm):
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu, total_steps=total)
    steps = loop(host, gpu, timer, 15)
    assert timer.warmup_steps == warm
    assert [step["step"] for step in steps if step.get("warmup")] == list(range(1, min(warm, 15) + 1))


def test_no_warm_up_of_a_run_that_has_nothing_to_do():
    assert [Chronometer(None, total_steps=5, first_step=done).warmup_steps for done in (5, 12)] == [0, 0]


def test_a_resumed_run_warms_up_again_and_counts_on():
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu, total_steps=50, first_step=30)
    steps = loop(host, gpu, timer, 6)
    assert [step["step"] for step in steps] == [31, 32, 33, 34, 35, 36]
    assert [bool(step.get("warmup")) for step in steps] == [True] * 4 + [False] * 2


def test_without_phases_one_mark_a_step_remains():
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu, phases=False)
    steps = loop(host, gpu, timer, 3)
    assert all("forward" not in step and "idle" not in step for step in steps)
    assert steps[1]["seconds"] == pytest.approx(7.5)


def test_stop_waits_for_the_device():
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu)
    timer.validation()
    gpu.work(6.0)
    assert timer.stop() == pytest.approx(6.0)


class Meter:
    def __init__(self, *readings):
        self.readings = list(readings)

    def read(self):
        return self.readings.pop(0)


def test_energy_is_of_the_timed_steps_only():
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu, total_steps=10, meter=Meter((10.0, 5000.0), (20.0, 8000.0)))
    loop(host, gpu, timer, 10)
    assert timer.energy() == {"power": 300.0, "joules_per_image": pytest.approx(300.0 * 7.5 / 4)}


def test_a_driver_that_takes_its_time_does_not_hold_the_loop():
    class Slow(Meter):
        asked = threading.Event()

        def read(self):
            self.asked.wait(20)
            return super().read()

    host, meter = Time(), Slow((10.0, 5000.0), (20.0, 8000.0))
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu, total_steps=10, meter=meter)
    begun = time.perf_counter()
    timer.start()
    for _ in range(10):
        gpu.work(1.0)
        timer.next_iter(images=4)
    assert time.perf_counter() - begun < 5
    meter.asked.set()
    timer.validation()
    assert timer.energy()["power"] == 300.0


def test_energy_that_is_not_measured_is_not_guessed():
    host = Time()
    gpu = FakeGpu(host)
    timer, _ = chronometer(host, gpu, total_steps=10, meter=Meter(None, None))
    loop(host, gpu, timer, 10)
    assert timer.energy() == {"power": None, "joules_per_image": None}
    assert power((0.0, 1.0), (0.1, 9.0)) is None, "the counter is too coarse for a tenth of a second"


class Nvml:
    """NVML with one GPU, whose counter stands at 7 J."""

    def __init__(self, broken=False):
        self.broken = broken
        self.asked = []

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid):
        self.asked.append(uuid)
        return 1

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        if self.broken:
            raise RuntimeError("Not Supported")
        return 7000


def test_the_meter_reads_the_counter_of_its_own_gpu():
    nvml = Nvml()
    assert EnergyMeter("1234-abcd", nvml, clock=lambda: 3.0).read() == (3.0, 7.0)
    assert nvml.asked == ["GPU-1234-abcd"]
    assert EnergyMeter("x", Nvml(broken=True)).read() is None
    assert EnergyMeter(None).read() is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_real_gpu_the_phases_equal_the_wall():
    import time

    device = torch.device("cuda")
    timer = Chronometer(Recorded(), device, total_steps=60)
    a = torch.randn(4096, 4096, device=device)
    a @ a
    torch.cuda.synchronize()
    begun = time.perf_counter()
    timer.start()
    for number in range(60):
        if number % 2:
            time.sleep(0.01)
        timer.copy()
        timer.forward()
        for _ in range(5):
            a @ a
        timer.backward()
        for _ in range(10):
            a @ a
        timer.update()
        a + a
        timer.next_iter(torch.ones(3, device=device), images=1)
    steps_end = timer._pending[-1].settled_by
    steps_end.synchronize()
    wall = time.perf_counter() - begun
    settled = timer.validation()
    steps = [event for event in timer.record.events]
    assert len(settled) == LAG
    parts = sum(step[phase] for step in steps for phase in ("idle", "copy", "forward", "backward", "update"))
    assert parts == pytest.approx(wall, rel=0.02)
