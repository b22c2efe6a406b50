"""What a run says about the machine; the energy of GPUs."""

import multiprocessing
import os
import subprocess
import sys
import time
from importlib import metadata

import pytest
import torch
from training import SCRIPT

from dlojz.system import machine
from dlojz.training import energy

# The machine


def test_what_a_start_event_says():
    said = machine.describe(torch.device("cpu"))
    assert said["versions"]["torch"] == torch.__version__ and said["machine"]["device"] == "cpu"
    assert 1 <= said["machine"]["cores_allowed"] <= said["machine"]["cores"] and said["machine"]["cpu"]
    assert 10**8 < said["machine"]["host_memory_total"] < 10**14
    assert "gpu" not in said["machine"] and machine.gpu_uuid(torch.device("cpu")) is None


def test_cores_allowed_are_those_of_this_process():
    words = ["import os", "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})", "from dlojz import machine",
             "print(machine.cores_allowed())"]
    done = subprocess.run([sys.executable, "-c", "; ".join(words)], capture_output=True, text=True, cwd=SCRIPT.parents[2])
    assert done.stdout.strip() == "1", done.stderr


def held_by_others(count, megabytes):
    """Processes of one's own that hold so much memory each, until they are ended."""
    context = multiprocessing.get_context("fork")
    ready = context.Semaphore(0)

    def hold():
        memory = bytearray(megabytes * 10**6)
        ready.release()
        time.sleep(60 + len(memory) * 0)

    processes = [context.Process(target=hold, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire(timeout=30)
    return processes


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_memory_with_workers_counts_theirs_and_shared_pages_once():
    shared = bytearray(100 * 10**6)  # before the fork, so that all hold it together
    before = machine.memory_with_workers()["memory_with_workers"]
    processes = held_by_others(2, megabytes=40)
    try:
        after = machine.memory_with_workers()["memory_with_workers"]
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert 70e6 < after - before < 140e6, "two times 40 MB, not the 100 MB again"
    assert len(shared) < before


def test_memory_with_workers_where_the_kernel_does_not_say(tmp_path):
    assert machine.memory_with_workers(tmp_path) == {}
    own = tmp_path / str(os.getpid())
    own.mkdir()
    (own / "smaps_rollup").write_text("00400000-7fff [rollup]\nRss:  900 kB\nPss:  300 kB\nPss_Anon: 1 kB\n")
    assert machine.memory_with_workers(tmp_path) == {"memory_with_workers": 300 * 1024}
    (own / "smaps_rollup").write_text("Rss: 900 kB\n")
    assert machine.memory_with_workers(tmp_path) == {}


@pytest.mark.parametrize("text, name", [("vendor_id\t: x\nmodel name\t: A CPU: with @ 2 GHz\nmodel name\t: other\n",
                                         "A CPU: with @ 2 GHz"), ("processor : 0\n", None)])
def test_the_name_of_the_processor(tmp_path, text, name):
    (tmp_path / "cpuinfo").write_text(text)
    found = machine.cpu_model(tmp_path / "cpuinfo")
    assert found == name if name else found
    assert machine.cpu_model(tmp_path / "nothing")


def test_the_state_of_a_checkout(tmp_path):
    assert machine.git_state(tmp_path) is None and machine.git_state(tmp_path / "nowhere") is None

    def git(*words):
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "first")
    clean = machine.git_state(tmp_path)
    assert len(clean["commit"]) == 40 and clean["dirty"] is False
    (tmp_path / "new").write_text("not tracked")
    assert machine.git_state(tmp_path) == clean
    (tmp_path / "file").write_text("two")
    assert machine.git_state(tmp_path) == clean | {"dirty": True}


def test_without_git(monkeypatch, tmp_path):
    def no_git(*_, **__):
        raise FileNotFoundError("git")

    monkeypatch.setattr(machine.subprocess, "run", no_git)
    assert machine.git_state(tmp_path) is None


def test_peak_memory_grows():
    before = machine.peak_memory(torch.device("cpu"))
    held = torch.ones(64_000_000)
    after = machine.peak_memory(torch.device("cpu"))
    assert after["host_memory"] - before["host_memory"] > 100e6 and held.sum()
    assert set(after) == {"host_memory"}


# Energy


class Nvml:
    def __init__(self, fails=False):
        self.fails, self.counter, self.asked = fails, 5_000, []

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid):
        self.asked.append(uuid)
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        if self.fails:
            raise RuntimeError("Not Supported")
        self.counter += 250_000
        return self.counter


def test_power_is_a_difference_of_counters():
    clock = iter([10.0, 12.0])
    nvml = Nvml()
    meter = energy.EnergyMeter("abc", nvml, clock=lambda: next(clock))
    first, last = meter.read(), meter.read()
    assert nvml.asked == ["GPU-abc"] and last[1] - first[1] == 250.0
    assert energy.power(first, last) == 125.0  # 250 J in 2 s


def test_what_is_not_measured_is_none():
    assert energy.EnergyMeter(None).read() is None
    assert energy.EnergyMeter("abc", Nvml(fails=True)).read() is None
    nvml = Nvml()
    meter = energy.EnergyMeter("MIG-abc", nvml)
    nvml.fails = True  # a driver that stops answering
    assert meter.read() is None and nvml.asked == ["MIG-abc"]
    assert energy.power(None, (1.0, 2.0)) is None and energy.power((1.0, 2.0), None) is None
    assert energy.power((1.0, 2.0), (1.4, 3.0)) is None  # the counter moves ten times a second


def test_torchvision_is_named_and_not_imported(monkeypatch):
    """Built for another torch it cannot be imported, and a language model has no need of it."""
    monkeypatch.setitem(sys.modules, "torchvision", None)
    versions = machine.describe(torch.device("cpu"))["versions"]
    assert versions["torchvision"] == metadata.version("torchvision") and versions["torch"] == torch.__version__
