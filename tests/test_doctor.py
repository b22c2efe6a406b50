"""The doctor, on machines that are made up: a folder in place of /, a fake NVML, a torch that dies."""

import importlib
import json
import os
import socket
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import pytest
from patience import LIMIT, patient

from dlojz import cli
from dlojz.doctor import environment, findings_of, gpu, guarded, hardware, jupyter, network, packages, pytorch, stack
from dlojz.doctor.report import BROKEN, FINE, NOTE, Report, broken, fine, note
from dlojz.system.hardware import cpu_quota, loader_needs, look_cores, look_cpu, look_memory, usable
from dlojz.system.look import CouldNotLook, Facts, Slow, System, given, size

GiB = 2**30


@pytest.fixture
def machine(tmp_path):
    """``machine({"proc/cpuinfo": text, …}, VARIABLE="…")``: a System whose files are these."""

    def make(files=None, **env):
        for name, text in (files or {}).items():
            file = tmp_path / "root" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return System(root=tmp_path / "root", env={"PATH": "", **env}, platform="linux")

    return make


def only(findings):
    findings = list(findings)
    assert len(findings) == 1, findings
    return findings[0]


def levels(findings):
    return [f.level for f in findings]


# ---------------------------------------------------------------- processor and cores


@pytest.mark.parametrize(
    "cpuinfo, level, words",
    [
        (
            "model name\t: Xeon\nflags\t\t: fpu avx2 avx512f avx512_bf16 amx_tile amx_bf16\n",
            FINE,
            ["AVX2", "AVX512-BF16", "AMX-BF16", "bf16 is fast"],
        ),
        ("model name\t: Old i7\nflags\t\t: fpu avx2\n", FINE, ["AVX2", "bf16 is emulated: a step on the CPU takes"]),
        ("model name\t: Older\nflags\t\t: fpu sse4_2\n", FINE, ["Older"]),
        (
            "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\nFeatures\t: fp asimd sve sve2 bf16\n",
            FINE,
            ["Grace", "SVE2", "bf16 is fast"],
        ),
    ],
)
def test_cpu(machine, cpuinfo, level, words):
    finding = only(hardware.say_cpu(look_cpu(machine({"proc/cpuinfo": cpuinfo}))))
    assert finding.level == level
    assert all(word in finding.text for word in words)


def test_cpu_without_proc_could_not_be_looked_at(machine):
    finding = only(guarded("CPU", lambda: hardware.say_cpu(look_cpu(machine()))))
    assert finding.level == NOTE and finding.text == "could not look: /proc/cpuinfo cannot be read"


@pytest.mark.parametrize(
    "files, quota",
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/user/me\n", "sys/fs/cgroup/user/me/cpu.max": "max 100000\n"}, None),
        # the limit of a group above counts too
        (
            {
                "proc/self/cgroup": "0::/user/me\n",
                "sys/fs/cgroup/user/me/cpu.max": "max 100000\n",
                "sys/fs/cgroup/user/cpu.max": "150000 100000\n",
            },
            1.5,
        ),
        # in a container the path is the host's and isn't there
        ({"proc/self/cgroup": "0::/docker/abc\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2.0),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/slurm/job_1\n",
                "sys/fs/cgroup/cpu,cpuacct/slurm/job_1/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu,cpuacct/slurm/job_1/cpu.cfs_period_us": "100000\n",
            },
            4.0,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_cpu_quota(machine, files, quota):
    assert cpu_quota(machine(files)) == quota


SITE = {
    "error": None,
    "workers": 2,
    "model": "resnet18",
    "image_size": 64,
    "batch_size": 16,
    "name": "laptop",
    "why": "detected",
    "launcher": "local",
    "data": None,
}


@pytest.mark.parametrize(
    "allowed, present, files, env, level, words",
    [
        ({0, 1}, 2, {}, {}, FINE, "2 cores: the loader's default is 2 workers"),
        ({0, 1, 2, 3}, 64, {}, {}, NOTE, "4 of this machine's 64: your session or container may not use more"),
        ({0, 1, 2, 3}, 64, {}, {"SLURM_CPUS_PER_TASK": "4"}, NOTE, "your Slurm job may not use more"),
        ({0}, 64, {}, {"SLURM_CPUS_PER_TASK": "8"}, NOTE, "Slurm reports 8 per task"),
        ({0}, 1, {}, {}, NOTE, "1 core"),
        (
            set(range(8)),
            8,
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"},
            {},
            NOTE,
            "a CPU quota limits this session to 1.5",
        ),
        ({0, 1}, 2, {"proc/loadavg": "9.31 4.2 1.0 3/400 17\n"}, {}, NOTE, "9.3 processes compete for 2 cores"),
    ],
)
def test_cores(machine, allowed, present, files, env, level, words):
    findings = list(hardware.say_cores(look_cores(machine(files, **env), allowed, present), SITE))
    assert findings[-1].level == level
    assert words in findings[-1].text


def test_threads_of_one_core_are_told_apart(machine):
    topology = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 2},{cpu % 2 + 2}\n" for cpu in range(4)
    }
    cores = look_cores(machine(topology), {0, 1, 2, 3}, 4)
    assert "4 cores (2 physical, 2 threads each)" in only(hardware.say_cores(cores)).text


def test_usable_cores_follow_the_quota():
    cores = {"allowed": 8, "quota": 1.5}
    assert usable(cores) == 1
    assert usable({**cores, "quota": None}) == 8
    assert usable({**cores, "quota": 0.5}) == 1


# ---------------------------------------------------------------- memory and /dev/shm

MEMINFO = "MemTotal:       16777216 kB\nMemFree:         100000 kB\nMemAvailable:    8388608 kB\n"


@pytest.mark.parametrize(
    "files, level, words",
    [
        ({}, FINE, "8 GiB free of 16 GiB"),
        (
            {
                "proc/self/cgroup": "0::/job\n",
                "sys/fs/cgroup/job/memory.max": f"{4 * GiB}\n",
                "sys/fs/cgroup/job/memory.current": f"{3 * GiB}\n",
                "sys/fs/cgroup/job/memory.stat": f"anon 5\ninactive_file {GiB}\n",
            },
            NOTE,
            "2 GiB free of 4 GiB (this session's limit, of the machine's 16 GiB)",
        ),
        (
            {
                "proc/self/cgroup": "9:memory:/docker/x\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GiB}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{2 * GiB - 1000}\n",
            },
            BROKEN,
            "1000 B free of 2 GiB",
        ),
        # v1 says "no limit" with a huge number
        (
            {
                "proc/self/cgroup": "9:memory:/\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
            },
            FINE,
            "8 GiB free of 16 GiB",
        ),
    ],
)
def test_memory(machine, files, level, words):
    finding = only(hardware.say_memory(look_memory(machine({"proc/meminfo": MEMINFO, **files}))))
    assert (finding.level, words in finding.text) == (level, True), finding


def test_shm_is_weighed_against_the_default_loader():
    need = loader_needs(16, 2, 256, 224)
    assert need == 16 * 2 * 256 * (3 * 224 * 224 + 8)
    docker = {"there": True, "free": 64 * 2**20, "total": 64 * 2**20}
    finding = only(hardware.say_shm(docker, need, "16 workers"))
    assert finding.level == BROKEN and "Bus error" in finding.text and "--shm-size" in finding.advice
    assert only(hardware.say_shm({**docker, "free": 2 * need}, need, "")).level == NOTE
    assert only(hardware.say_shm({**docker, "free": 8 * need}, need, "")).level == FINE
    assert only(hardware.say_shm({"there": False}, need, "")).level == FINE


def test_shm_need_counts_the_workers_of_all_gpus_but_no_more_than_there_are_cores():
    from dlojz.doctor import say_shm

    shm = {"there": True, "free": 100 * GiB, "total": 100 * GiB}
    facts = given(site={**SITE, "workers": 16, "batch_size": 256, "image_size": 224}, shm=shm)
    assert "64 workers x 2 batches" in only(say_shm(facts, 64, 4)).text
    assert "16 workers x 2 batches" in only(say_shm(facts, 128, 1)).text
    assert "24 workers x 2 batches" in only(say_shm(facts, 24, 4)).text


# ---------------------------------------------------------------- disks

MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 21 0:26 / /scratch rw - lustre mds@tcp:/fs rw
31 21 0:27 / /home rw - nfs4 server:/home rw
32 31 0:28 / /home/ada/in\\040memory rw - tmpfs tmpfs rw
33 21 0:29 / /scratch rw - gpfs fs0 rw
"""


def test_filesystem_is_that_of_the_innermost_and_latest_mount(machine):
    from pathlib import Path

    system = machine({"proc/self/mountinfo": MOUNTS})
    assert hardware.filesystem(system, Path("/home/ada/course")) == "nfs4"
    assert hardware.filesystem(system, Path("/home/ada/in memory/x")) == "tmpfs"
    assert hardware.filesystem(system, Path("/scratch/run")) == "gpfs"
    assert hardware.filesystem(system, Path("/homes")) == "ext4"
    kinds = {name: hardware.disk_kind(name) for name in ("nfs4", "lustre", "overlay", "fuse.sshfs", "xfs", "newfs", None)}
    assert list(kinds.values()) == ["NFS", "Lustre", "overlay", "network", "local", "newfs", "unknown kind"]


NFS_QUOTA = """\
Disk quotas for user ada (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
server:/home  9900000* 9900000 10000000  6days    1200   50000   60000
"""
LUSTRE_QUOTA = """\
Disk quotas for usr ada (uid 1000):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
/a/very/long/mount/point
                 500000       0 1000000       -   49000   50000   50000       -
uid 1000 is using default block quota setting
"""


def test_quota_is_read_from_both_programs():
    assert hardware.quota(NFS_QUOTA) == {
        "used": 9900000 * 1024,
        "limit": 9900000 * 1024,
        "files": 1200,
        "files_limit": 50000,
    }
    lustre = hardware.quota(LUSTRE_QUOTA)
    assert lustre == {"used": 500000 * 1024, "limit": 1000000 * 1024, "files": 49000, "files_limit": 50000}
    assert hardware.quota("Disk quotas for user ada (uid 1000): none\n") is None


DISK = {
    "path": "/x",
    "filesystem": "ext4",
    "kind": "local",
    "free": 50 * GiB,
    "device": 1,
    "inodes": 9,
    "read_only": False,
    "quota": None,
}


@pytest.mark.parametrize(
    "change, level, words",
    [
        ({}, FINE, "50 GiB free"),
        ({"free": GiB // 4}, BROKEN, "256 MiB free"),
        ({"free": 3 * GiB}, NOTE, "3 GiB free"),
        ({"inodes": 0}, BROKEN, "no room for another file"),
        ({"read_only": True}, BROKEN, "read-only"),
        ({"kind": "overlay"}, NOTE, "gone with the container"),
        ({"kind": "memory"}, NOTE, "empty after a restart"),
        ({"kind": "Lustre"}, FINE, "slow for many small ones"),
        ({"quota": hardware.quota(NFS_QUOTA)}, BROKEN, "quota is used up: 9.4 GiB of 9.4 GiB"),
        ({"quota": hardware.quota(LUSTRE_QUOTA)}, BROKEN, "quota of files is used up: 49,000 of 50,000"),
    ],
)
def test_disk(change, level, words):
    finding = only(hardware.say_disk(["/x (work)"], {**DISK, **change}))
    assert (finding.level, words in finding.text) == (level, True), finding


def test_folders_on_one_disk_share_a_line_and_a_hanging_one_has_its_own():
    def look_at(use):
        if use == "data":
            raise CouldNotLook("no answer in 6 s")
        return {**DISK, "device": 2 if use == "temporary" else 1}

    found = list(hardware.say_disks({"work": "/w", "cache": "/c", "data": "/d", "temporary": "/t"}, look_at))
    assert [f.level for f in found] == [NOTE, FINE, FINE]
    assert "/d (data): could not look: no answer in 6 s" in found[0].text
    assert "/w (work), /c (cache)" in found[1].text


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path):
    disk = hardware.look_disk(System(), tmp_path / "not" / "yet")
    assert disk["free"] > 0 and disk["device"] == tmp_path.stat().st_dev


def test_limits():
    assert only(hardware.say_limits({"files": 1048576, "memory": None, "processes": None})).level == FINE
    found = list(hardware.say_limits({"files": 256, "memory": 8 * GiB, "processes": 100}))
    assert levels(found) == [NOTE] * 3 and "ulimit -v" in found[1].text


# ---------------------------------------------------------------- GPUs


class NVMLError(Exception):
    def __init__(self, value):
        self.value = value
        super().__init__(f"code {value}")


def nvml(cards, driver="580.95", cuda=13000, fails=None, joined=()):
    """A stand-in for pynvml with these cards; functions that it lacks are as good as not supported."""

    def start():
        if fails is not None:
            raise NVMLError(fails)

    def links(card, link):
        if link >= card.get("links", 0):
            raise NVMLError(3)
        return 1

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_NVLINK_MAX_LINKS=18,
        NVML_P2P_CAPS_INDEX_NVLINK=2,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: driver,
        nvmlSystemGetCudaDriverVersion_v2=lambda: cuda,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=lambda i: cards[i],
        nvmlDeviceGetName=lambda card: card["name"].encode(),
        nvmlDeviceGetMemoryInfo=lambda card: SimpleNamespace(total=card["memory"], used=card.get("used", 0)),
        nvmlDeviceGetCudaComputeCapability=lambda card: card["capability"],
        nvmlDeviceGetMigMode=lambda card: [card.get("mig", 0)] * 2,
        nvmlDeviceGetComputeMode=lambda card: card.get("mode", 0),
        nvmlDeviceGetNvLinkState=links,
        nvmlDeviceGetP2PStatus=lambda a, b, index: 0 if (cards.index(a), cards.index(b)) in joined else 5,
        nvmlDeviceGetPowerManagementLimit=lambda card: card.get("limit", 700000),
        nvmlDeviceGetPowerManagementDefaultLimit=lambda card: 700000,
    )


def card(name="NVIDIA H100 80GB HBM3", capability=(9, 0), number=0, **more):
    return {"name": name, "memory": 80 * GiB, "capability": capability, "number": number, **more}


def say(fake, system, slurm=False):
    return list(gpu.say_gpus(gpu.look_gpus(system, fake), slurm))


def test_four_gpus_joined_by_nvlink(machine):
    cards = [card(number=i, links=18) for i in range(4)]
    found = say(
        nvml(cards, joined=[(i, j) for i in range(4) for j in range(i)] + [(j, i) for i in range(4) for j in range(i)]),
        machine(),
    )
    assert levels(found) == [FINE, FINE]
    assert found[0].text.startswith("4 x NVIDIA H100 80GB HBM3, 80 GiB, Hopper (capability 9.0)") and "fp8" in found[0].text
    assert "all 4 GPUs reach each other over NVLink (18 links a GPU)" in found[1].text


def test_gpus_without_nvlink_and_with_some(machine):
    cards = [card(number=i) for i in range(4)]
    assert "none between these GPUs" in say(nvml(cards), machine())[1].text
    some = say(nvml(cards, joined=[(0, 1), (2, 3)]), machine())[1]
    assert some.level == NOTE and "joins 0-1, 2-3 only" in some.text


@pytest.mark.parametrize(
    "capability, has, lacks",
    [
        ((6, 1), ["no tensor cores"], ["fp16"]),
        ((7, 0), ["fp16", "bf16 is only emulated"], ["fp8", "int8"]),
        ((7, 5), ["fp16", "int8", "bf16 is only emulated"], ["fp8"]),
        ((8, 0), ["tf32", "bf16", "fp16", "fp64"], ["fp8"]),
        ((8, 6), ["tf32", "bf16"], ["fp8", "fp64"]),
        ((8, 9), ["bf16", "fp8"], ["fp64"]),
        ((9, 0), ["bf16", "fp8", "fp64"], ["fp4"]),
        ((10, 3), ["fp8", "fp4"], []),
        ((13, 0), ["fp8", "fp4"], []),  # newer than the table
    ],
)
def test_precisions(capability, has, lacks):
    text = gpu.precisions(capability)
    assert all(word in text for word in has) and not any(word in text for word in lacks), text


@pytest.mark.parametrize(
    "state, level, words",
    [
        ({"mig": 1}, NOTE, "MIG"),
        ({"mode": 3}, NOTE, "one process at a time"),
        ({"mode": 2}, BROKEN, "Prohibited"),
        ({"used": 40 * GiB}, NOTE, "40 GiB of 80 GiB taken"),
        ({"limit": 400000}, NOTE, "limited to 400 W of its 700 W"),
    ],
)
def test_state_of_a_gpu(machine, state, level, words):
    found = say(nvml([card(**state)]), machine())
    assert found[-1].level == level and words in found[-1].text


def test_no_gpu_is_fine_and_a_broken_driver_is_not(machine):
    laptop = machine(
        {"sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:00:02.0/class": "0x030000\n"}
    )
    assert only(say(nvml([], fails=12), laptop)).level == FINE
    assert "Slurm" in only(say(nvml([], fails=12), laptop, slurm=True)).text
    assert only(say(nvml([], fails=18), laptop)).level == BROKEN
    assert only(say(nvml([], fails=999), laptop)).level == BROKEN
    with_card = machine(
        {"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n"}
    )
    found = only(say(nvml([], fails=12), with_card))
    assert found.level == NOTE and "1 NVIDIA card in the machine" in found.text and "--gpus all" in found.advice


# ---------------------------------------------------------------- torch

TORCH = {
    "version": "2.11.0+cu130",
    "cuda": "13.0",
    "hip": None,
    "architectures": ["sm_75", "sm_80", "sm_90", "compute_90"],
    "threads": 2,
    "kernels": "AVX2",
    "ok": True,
}
GOOD = {
    "torch": TORCH,
    "gpu": {"available": True, "count": 1, "ok": True},
    "distributed": {"gloo": True, "nccl": True, "nccl_version": "2.27.5", "ok": True},
    "gloo": {"ok": True},
    "torchvision": {"version": "0.26.0", "ok": True},
}
H100 = {
    "driver": "580.95",
    "cuda": (13, 0),
    "gpus": [{"name": "H100", "capability": (9, 0), "mig": False}],
    "nvlink": [],
    "cards": 1,
}


def torch_lines(change=None, gpu=H100, cores=2, env=None):
    return list(pytorch.say_torch({**GOOD, **(change or {})}, gpu, cores, env or {}))


def line(findings, name):
    return [f for f in findings if f.name == name][-1]


def test_torch_on_a_good_machine():
    found = torch_lines()
    assert levels(found) == [FINE] * 5
    assert "driver 580.95 supports CUDA 13.0" in line(found, "torch and GPU").text


def without_gpu(**more):
    return {"gpu": {"available": False, "count": 0, "ok": True, **more}}


@pytest.mark.parametrize(
    "change, gpu, env, level, words",
    [
        (
            {"torch": {**TORCH, "cuda": None}, **without_gpu()},
            H100,
            {},
            BROKEN,
            "built for the CPU only and leaves 1 GPU idle",
        ),
        (
            without_gpu(),
            {**H100, "driver": "535.1", "cuda": (12, 2)},
            {},
            BROKEN,
            "CUDA 13.0, which needs driver 580 or later; driver 535.1 supports CUDA 12.2",
        ),
        (without_gpu(), H100, {"CUDA_VISIBLE_DEVICES": ""}, BROKEN, "CUDA_VISIBLE_DEVICES is empty"),
        (without_gpu(), H100, {}, BROKEN, "torch sees no GPU, the driver sees 1"),
        ({}, {**H100, "gpus": [{"capability": (7, 0), "mig": False}]}, {}, BROKEN, "no code for Volta (sm_70)"),
        ({}, {**H100, "gpus": [{"capability": (10, 0), "mig": False}]}, {}, NOTE, "recompiles its kernels for sm_100"),
        (
            {"gpu": {"available": True, "count": 1, "error": "OutOfMemoryError: CUDA out of memory"}},
            H100,
            {},
            NOTE,
            "no free memory for a test",
        ),
        (
            {"gpu": {"available": True, "count": 1, "error": "RuntimeError: CUDA error: no kernel image"}},
            H100,
            {},
            BROKEN,
            "no kernel image",
        ),
        ({"gpu": {"slow": 20}}, H100, {}, NOTE, "more than 20 s"),
        ({"torch": {**TORCH, "cuda": "13.2"}}, H100, {}, FINE, "same major version"),
        (
            {"gpu": {"available": True, "count": 1, "ok": True}},
            {**H100, "gpus": H100["gpus"] * 4},
            {"CUDA_VISIBLE_DEVICES": "0"},
            NOTE,
            "1 of 4 GPUs (CUDA_VISIBLE_DEVICES=0)",
        ),
    ],
)
def test_torch_against_gpu_and_driver(change, gpu, env, level, words):
    finding = line(torch_lines(change, gpu, env=env), "torch and GPU")
    assert (finding.level, words in finding.text) == (level, True), finding
    assert level == FINE or finding.advice or "sees 1 of 4" in finding.text


@pytest.mark.parametrize(
    "architectures, capability, how",
    [
        (["sm_70", "sm_80"], (7, 0), "built"),
        (["sm_80"], (8, 6), "built"),
        (["sm_86"], (8, 0), "none"),
        (["sm_80", "sm_90"], (7, 0), "none"),
        (["sm_90a"], (9, 0), "built"),
        (["sm_100a"], (10, 3), "none"),
        (["sm_100f"], (10, 3), "built"),
        (["sm_80", "compute_80"], (12, 0), "ptx"),
        (["compute_90a"], (10, 0), "none"),
        (["sm_120"], (12, 1), "built"),
    ],
)
def test_code_for_an_architecture(architectures, capability, how):
    assert pytorch.code_for(architectures, capability) == how


def test_more_threads_than_cores_is_said():
    found = torch_lines({"torch": {**TORCH, "threads": 64}}, cores=2)
    assert "64 threads for 2 cores" in line(found, "torch").text and line(found, "torch").advice == "Set OMP_NUM_THREADS=2."


def child(tmp_path, source, limit=20.0):
    """What look_torch makes of a child that runs this, in place of torch."""
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(source))
    return pytorch.look_torch(System(), limit, script)


SAY = "import json, os, signal, sys, time\nsay = lambda **line: print(json.dumps(line), flush=True)\n"


def test_a_torch_that_crashes_hangs_or_is_missing_is_a_finding(tmp_path):
    crashed = child(tmp_path, SAY + "say(stage='torch'); os.kill(os.getpid(), signal.SIGSEGV)")
    assert crashed == {"torch": {"died": "the process was killed by SIGSEGV"}}
    assert only(pytorch.say_torch(crashed, None, 2, {})).level == BROKEN

    started = time.monotonic()
    hung = child(tmp_path, SAY + "say(stage='torch'); time.sleep(60)", limit=0.5)
    assert time.monotonic() - started < patient(5)
    assert only(pytorch.say_torch(hung, None, 2, {})).level == NOTE

    # what came before the hang is kept
    later = child(
        tmp_path, SAY + f"say(stage='torch'); say(stage='torch', **{TORCH!r}); say(stage='gpu'); time.sleep(60)", limit=0.5
    )
    assert line(list(pytorch.say_torch(later, H100, 2, {})), "torch and GPU").level == NOTE

    missing = {"torch": {"error": "ModuleNotFoundError: No module named 'torch'"}}
    finding = only(pytorch.say_torch(missing, None, 2, {}))
    assert finding.level == BROKEN and finding.text == "not installed here" and "install torch" in finding.advice

    library = {"torch": {"error": "ImportError: libcudart.so.12: cannot open shared object file"}}
    finding = only(pytorch.say_torch(library, None, 2, {"LD_LIBRARY_PATH": "/opt/cuda"}))
    assert "libcudart.so.12" in finding.text and "LD_LIBRARY_PATH is set (/opt/cuda)" in finding.advice


def test_a_torch_that_python_path_brings_is_not_to_be_reinstalled(tmp_path):
    """What pip would install is not what Python finds first."""
    broken_torch = {"torch": {"error": "RuntimeError: rubbish torch"}}
    env = {"PYTHONPATH": f"/nowhere:{tmp_path}"}
    assert "force-reinstall" in only(pytorch.say_torch(broken_torch, None, 2, env)).advice
    for package in ("torch", "torchvision"):
        (tmp_path / package).mkdir()
    assert "force-reinstall" in only(pytorch.say_torch(broken_torch, None, 2, env)).advice, "a bare folder is no package"
    for package in ("torch", "torchvision"):
        (tmp_path / package / "__init__.py").touch()
    importlib.invalidate_caches()  # the folder's time stamp may not have moved
    advice = only(pytorch.say_torch(broken_torch, None, 2, env)).advice
    assert f"from {tmp_path}/torch/__init__.py" in advice and "unset PYTHONPATH" in advice and "install" not in advice
    found = torch_lines({"torchvision": {"error": "RuntimeError: rubbish"}}, env=env)
    assert f"from {tmp_path}/torchvision/__init__.py" in line(found, "torchvision").advice


def test_a_child_that_says_nonsense_or_nothing(tmp_path):
    assert "torch" in child(tmp_path, "print('hello'); raise SystemExit(3)")
    assert child(tmp_path, "import sys; sys.exit('no such thing')") == {"torch": {"died": "no such thing"}}


def test_torchvision_of_another_release_and_no_gloo():
    found = torch_lines({"torchvision": {"error": "RuntimeError: operator torchvision::nms does not exist"}})
    assert line(found, "torchvision").level == BROKEN and "torch's release" in line(found, "torchvision").advice
    assert line(torch_lines({"gloo": {"error": "RuntimeError: unable to resolve host"}}), "gloo").level == BROKEN
    assert line(torch_lines({"distributed": {"gloo": False, "nccl": False, "ok": True}}), "NCCL").level == BROKEN


# ---------------------------------------------------------------- packages


def test_packages():
    have = {"torch": {"version": "2.14.1+cpu", "least": "2.6", "user": False}}
    assert only(packages.say_packages(have)).level == FINE
    found = list(
        packages.say_packages(
            {
                **have,
                "numpy": {"version": "1.24.4", "least": "1.26", "user": False},
                "pillow": {"version": None, "least": "10", "user": False},
                "matplotlib": {"version": "3.9", "least": "3.8", "user": True},
            }
        )
    )
    assert levels(found) == [BROKEN, BROKEN, NOTE, FINE]
    assert (
        "missing: pillow" in found[0].text and "numpy 1.24.4 (needs 1.26)" in found[1].text and "~/.local" in found[2].text
    )


def test_optuna_is_for_one_lab():
    assert only(packages.say_optuna("5.0.0")).level == FINE
    for version, seen in ((None, "not installed"), ("4.2.1", "4.2.1 is too old (the lab needs 4.3)")):
        found = only(packages.say_optuna(version))
        assert found.level == NOTE and found.text == seen and "Only the lab hpo needs it: " in found.advice
        assert "pip install --upgrade 'optuna>=4.3'" in found.advice


def test_packages_of_this_environment_are_those_of_the_project():
    found = packages.look_packages()
    assert found["torch"]["version"] and found["torch"]["least"] == "2.6"
    assert "pytest" not in found


def test_old_python_and_compiler():
    assert only(packages.say_python("/usr/bin/python3", (3, 9, 2))).level == BROKEN
    assert "conda environment course" in only(packages.say_python("/x/python", (3, 12, 1), "course")).text
    there = {"compiler": "g++", "headers": True, "triton": False, "cache": "/tmp/torchinductor_ada", "warm": True}
    found = only(packages.say_compiler(there | {"compiler": None, "headers": False}, True))
    assert found.level == NOTE and "C++ compiler" in found.text and "Python.h" in found.text and "Triton" in found.text
    assert "recorded numbers" in found.advice
    found = only(packages.say_compiler(there, False))
    assert found.level == FINE and "warm: /tmp/torchinductor_ada" in found.text
    found = only(packages.say_compiler(there | {"warm": False}, False))
    assert found.level == FINE and "`dlojz doctor --warm`" in found.text and "/tmp/torchinductor_ada" in found.text


# ---------------------------------------------------------------- Jupyter


@pytest.fixture
def server(machine, tmp_path):
    """``server(manager, command)``: a Jupyter server with pid 4242 whose environment is tmp_path/hub."""

    def make(manager="5.0.16", command=None, **env):
        python = tmp_path / "hub/bin/python3"
        if manager:
            file = tmp_path / "hub/share/jupyter" / jupyter.MANAGER
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"version": manager}))
        words = command or [str(python), str(tmp_path / "hub/bin/jupyter-lab"), "--no-browser"]
        return machine({"proc/4242/cmdline": "\0".join(words) + "\0"}, HOME=str(tmp_path / "home"), **env)

    return make


def widgets(system, ipywidgets="8.1.9"):
    facts = {"ipywidgets": ipywidgets, "ipykernel": "7", "in_kernel": True, "code": False, "colab": False}
    return only(jupyter.say_jupyter({**facts, "server": jupyter.look_server(system)}))


def test_widgets_need_both_halves(server, tmp_path):
    good = widgets(server(JPY_PARENT_PID="4242"))
    assert good.level == FINE and str(tmp_path / "hub") in good.text
    assert widgets(server(JPY_PARENT_PID="4242"), None).level == NOTE
    old = widgets(server("3.1.1", JPY_PARENT_PID="4242"))
    assert old.level == BROKEN and "another version" in old.text and "bin/python3 -m pip install" in old.advice


def test_server_without_widgets_is_found_by_the_list_of_running_servers(server, tmp_path):
    runtime = tmp_path / "home/.local/share/jupyter/runtime"
    runtime.mkdir(parents=True)
    (runtime / "jpserver-4242.json").write_text("{}")
    (runtime / "jpserver-99.json").write_text("{}")  # left behind by a server that is gone
    found = widgets(server(None))
    assert found.level == BROKEN and "stay blank" in found.text


def test_a_kernel_that_no_server_started_says_so(server):
    pytest_process = server(command=["/venv/bin/python", "/venv/bin/pytest", "--nbval"], JPY_PARENT_PID="4242")
    assert "no Jupyter server was found" in widgets(pytest_process).text
    assert "no Jupyter server was found" in widgets(server(JPY_PARENT_PID="77")).text


def test_the_kernel_of_the_notebooks_must_have_the_kit(server, tmp_path, monkeypatch):
    """A hub's own Python without dlojz, a kernel that is not there, and one that `dlojz hub` has made."""
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    python = tmp_path / "hub/bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    system = server(JPY_PARENT_PID="4242")
    found = only(jupyter.say_kernel(jupyter.look_kernel(system)))
    assert found.level == BROKEN and str(python) in found.text and "dlojz hub" in found.advice
    (tmp_path / "work/workspace.toml").write_text('version = "0"\nkernel = "dlojz"\n')
    found = only(jupyter.say_kernel(jupyter.look_kernel(system)))
    assert found.level == BROKEN and "does not know" in found.text
    kernel = tmp_path / "home/.local/share/jupyter/kernels/dlojz/kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps({"argv": [sys.executable]}))
    assert only(jupyter.say_kernel(jupyter.look_kernel(system))).level == FINE
    kernel.write_text(json.dumps({"argv": ["/gone/bin/python"]}))
    found = only(jupyter.say_kernel(jupyter.look_kernel(system)))
    assert found.level == BROKEN and "is not there (any more): /gone/bin/python" in found.text
    (tmp_path / "named/kernels/dlojz").mkdir(parents=True)  # in a folder that only the server was told of
    (tmp_path / "named/kernels/dlojz/kernel.json").write_text(json.dumps({"argv": [sys.executable]}))
    (tmp_path / "root/proc/4242/environ").write_text(f"JUPYTER_PATH={tmp_path / 'named'}\0PATH=/bin\0")
    assert only(jupyter.say_kernel(jupyter.look_kernel(system))).level == FINE
    assert not list(jupyter.say_kernel(jupyter.look_kernel(server(JPY_PARENT_PID="77"))))


ROUTE = "Iface\tDestination\tGateway\n"


@pytest.mark.parametrize("route, env, slurm, level, words", [
    (f"{ROUTE}eth0\t00000000\t0100000A\n", {}, False, FINE, "a route leads out"),
    (f"{ROUTE}eth0\t0000000A\t00000000\n", {}, False, NOTE, "no route leads out"),
    (f"{ROUTE}eth0\t00000000\t0100000A\n", {}, True, FINE, "need none"),
    (ROUTE, {"HTTPS_PROXY": "http://proxy:3128"}, False, NOTE, "localhost and 127.0.0.1"),
    (ROUTE, {"https_proxy": "http://proxy:3128", "no_proxy": "localhost, 127.0.0.1"}, False, FINE, "through the proxy"),
    (ROUTE, {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, False, FINE, "HTTP_PROXY"),
])
def test_network(machine, route, env, slurm, level, words):
    found = only(network.say_network(network.look_network(machine({"proc/net/route": route}, **env)), slurm))
    assert found.level == level and words in found.text


# ---------------------------------------------------------------- Slurm and site


@pytest.fixture
def slurm(tmp_path):
    """``slurm(sinfo=script, …)``: a System whose PATH holds these programs, as shell scripts."""

    def make(**programs):
        bin = tmp_path / "bin"
        bin.mkdir(exist_ok=True)
        for name, script in {"sbatch": "echo slurm 24.05.1", **programs}.items():
            (bin / name).write_text(f"#!/bin/sh\n{script}\n")
            (bin / name).chmod(0o755)
        return System(env={"PATH": f"{bin}:{os.environ['PATH']}"})

    return make


@pytest.fixture
def called(monkeypatch):
    """``called(system)``: subprocesses are looked for where that System looks for them."""
    return lambda system: monkeypatch.setenv("PATH", system.env["PATH"])


def test_slurm_that_answers(slurm, called):
    system = slurm(sinfo="echo 'gpu*|up|1-00:00:00|96|gpu:h100:4(S:0-1)'; echo 'cpu|up|infinite|8|(null)'")
    called(system)
    finding = only(stack.say_slurm(stack.look_slurm(system)))
    assert finding.level == FINE
    assert finding.text == "24.05.1 answers: gpu (4 GPUs per node, at most 1-00:00:00); cpu (no GPU)"


def test_slurm_that_does_not_answer(slurm, called):
    system = slurm(sinfo="echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2; exit 1")
    called(system)
    finding = only(stack.say_slurm(stack.look_slurm(system)))
    assert finding.level == BROKEN and "Unable to contact slurm controller" in finding.text and "sinfo" in finding.advice
    assert only(stack.say_slurm(stack.look_slurm(system), used=False)).level == NOTE
    assert only(stack.say_slurm(None)).level == FINE
    down = slurm(sinfo="echo 'gpu*|down|1-00:00:00|96|gpu:4'")
    assert only(stack.say_slurm(stack.look_slurm(down))).level == BROKEN


def test_a_program_that_hangs_is_ended_with_its_children(slurm, called):
    system = slurm(squeue="sleep 60 & sleep 60")
    called(system)
    started = time.monotonic()
    with pytest.raises(Slow, match=r"squeue gave no answer in 0\.3 s"):
        system.run(["squeue"], 0.3)
    assert time.monotonic() - started < patient(3)


def test_accounts_and_queue(slurm, called):
    system = slurm(
        sacctmgr="echo 'abc@h100||normal,qos_dev'; echo 'abc@v100||normal'",
        squeue="echo RUNNING; echo PENDING; echo PENDING",
    )
    called(system)
    finding = only(stack.say_accounts(stack.look_accounts(system), True))
    assert finding.text == "abc@h100, abc@v100; QoS normal, qos_dev"
    assert only(stack.say_queue(stack.look_queue(system))).text == "1 running, 2 pending"
    assert only(stack.say_accounts([], True)).level == NOTE
    assert list(stack.say_accounts(None, True)) == []


def test_the_folder_of_the_machine_s_own_queue(tmp_path, monkeypatch):
    monkeypatch.setenv("DLOJZ_QUEUE", str(tmp_path / "queue"))
    finding = only(stack.say_own_queue(stack.look_own_queue()))
    assert finding.level == FINE and str(tmp_path / "queue") in finding.text and not list(tmp_path.iterdir())
    # a home that cannot be written, here because it is a file: to root nothing else is closed
    (tmp_path / "home").touch()
    monkeypatch.delenv("DLOJZ_QUEUE")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    finding = only(stack.say_own_queue(stack.look_own_queue()))
    assert finding.level == BROKEN and f"{tmp_path}/home/.local/state/dlojz/queue/" in finding.text
    assert "DLOJZ_QUEUE" in finding.advice and "all terminals and notebooks" in finding.advice


def test_site(monkeypatch):
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    finding = only(stack.say_site(stack.look_site(), False))
    assert finding.level == FINE and finding.text.startswith(
        "laptop (DLOJZ_SITE says so): jobs go to this machine's own queue"
    )
    monkeypatch.setenv("DLOJZ_SITE", "nowhere")
    finding = only(stack.say_site(stack.look_site(), False))
    assert finding.level == BROKEN and "nowhere" in finding.text
    cluster = {**SITE, "name": "slurm", "launcher": "slurm", "data": {"folder": "$DSDIR", "there": False}}
    found = list(stack.say_site(cluster, False))
    assert levels(found) == [BROKEN, NOTE] and "no sbatch" in found[0].text and "not set here" in found[1].text


# ---------------------------------------------------------------- workspace, data, ports


def test_workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(tmp_path / "w"))
    finding = only(stack.say_workspace(stack.look_workspace()))
    assert finding.level == BROKEN and "DLOJZ_WORKSPACE" in finding.text
    cli.main(["workspace", str(tmp_path / "w")])
    assert only(stack.say_workspace(stack.look_workspace())).level == FINE
    (tmp_path / "w/random.py").write_text("")
    (tmp_path / "w/mine.py").write_text("")
    found = list(stack.say_workspace(stack.look_workspace()))
    assert levels(found) == [FINE, BROKEN] and "random.py hides" in found[1].text
    (tmp_path / "w/runs").rmdir()
    assert "no folder runs/" in next(stack.say_workspace(stack.look_workspace())).text
    assert not list((tmp_path / "w").glob(".doctor-*"))


def test_workspace_that_cannot_be_written(tmp_path):
    facts = {"folder": tmp_path, "runs": 3, "writable": {str(tmp_path / "runs"): "Permission denied"}, "shadows": []}
    finding = only(stack.say_workspace(facts))
    assert finding.level == BROKEN and "Permission denied" in finding.text
    assert stack.write_error(tmp_path / "missing") == "No such file or directory"
    assert stack.write_error(tmp_path) is None


def test_a_current_folder_that_was_deleted(tmp_path, monkeypatch):
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    finding = only(stack.say_workspace(stack.look_workspace()))
    assert finding.level == BROKEN and "was deleted" in finding.text
    assert "work" not in stack.disk_folders()


def test_no_workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    finding = only(stack.say_workspace(stack.look_workspace()))
    assert finding.level == NOTE and "not in a workspace" in finding.text and "dlojz workspace" in finding.advice


def test_photos(tmp_path, monkeypatch):
    monkeypatch.setenv("DLOJZ_CACHE", str(tmp_path / "cache"))
    from dlojz.data import photos

    assert "not made yet" in only(stack.say_data(stack.look_data())).text
    assert not (tmp_path / "cache").exists()
    folder = photos.place()
    folder.mkdir(parents=True)
    (folder / photos.MANIFEST).write_text("{}")
    assert "is in" in only(stack.say_data(stack.look_data())).text
    found = only(stack.say_data({"folder": "/x", "there": False, "cache_error": "Read-only file system"}))
    assert found.level == BROKEN and "DLOJZ_CACHE" in found.advice


def test_ports(machine, monkeypatch):
    assert (
        only(stack.say_ports(stack.look_ports(machine({"proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n"})))).level
        == FINE
    )
    low = stack.look_ports(machine({"proc/sys/net/ipv4/ip_local_port_range": "1024\t65535\n"}))
    assert only(stack.say_ports(low)).level == NOTE
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setattr(stack.random, "sample", lambda ports, tries: [listener.getsockname()[1]] * tries)
        assert only(stack.say_ports(stack.look_ports(machine()))).level == BROKEN


# ---------------------------------------------------------------- environment variables


@pytest.mark.parametrize(
    "env, name, words",
    [
        ({"OMP_NUM_THREADS": "1"}, "OMP_NUM_THREADS", "one of your 4 cores"),
        ({"OMP_NUM_THREADS": "64"}, "OMP_NUM_THREADS", "for 4 cores"),
        ({"OMP_NUM_THREADS": "many"}, "OMP_NUM_THREADS", "not a number"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES", "sees no GPU"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES", "sees no GPU"),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING", "timings are wrong"),
        ({"NVIDIA_TF32_OVERRIDE": "0"}, "NVIDIA_TF32_OVERRIDE", "whatever the script says"),
        ({"NCCL_P2P_DISABLE": "1"}, "NCCL_P2P_DISABLE", "host's memory"),
        ({"NCCL_DEBUG": "INFO"}, "NCCL_*", "makes logs long"),
        ({"PYTHONPATH": "/old"}, "PYTHONPATH", "/old"),
        ({"WORLD_SIZE": "4", "RANK": "0"}, "RANK, …", "one of several processes"),
        ({"SLURM_JOB_ID": "7", "SBATCH_ACCOUNT": "x", "SLURM_CONF": "/x"}, "SLURM_*", "SBATCH_ACCOUNT, SLURM_JOB_ID set"),
        ({"LD_LIBRARY_PATH": "/none:/opt/cuda"}, "LD_LIBRARY_PATH", "/opt/cuda contains libcudart, libnccl"),
    ],
)
def test_surprising_variables(env, name, words):
    def listing(folder):
        if folder == "/none":
            raise FileNotFoundError(folder)
        return ["libcudart.so.12", "libnccl.so", "libnccl.so.2", "readme.txt", "libfoo.so"]

    finding = only(environment.say_environment(env, 4, 1, listing))
    assert finding.level == NOTE and finding.name == name and words in finding.text, finding


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"OMP_NUM_THREADS": "4"},
        {"CUDA_LAUNCH_BLOCKING": "0"},
        {"TORCH_DISTRIBUTED_DEBUG": "INFO"},
        {"SLURM_CONF": "/x"},
        {"CUDA_VISIBLE_DEVICES": "0,1"},
    ],
)
def test_unsurprising_variables(env):
    assert only(environment.say_environment(env, 4, 2)).level == FINE


# ---------------------------------------------------------------- the whole


def test_facts_are_looked_up_at_once_and_each_in_its_time():
    def hang():
        time.sleep(30)

    def fail():
        raise ZeroDivisionError("by zero")

    started = time.monotonic()
    facts = Facts({"good": lambda: 5, "slow": hang, "slower": hang, "bad": fail, "out": sys.exit}, limit=0.3)
    assert facts["good"] == 5
    for name, why in (
        ("slow", "no answer in 0.3 s"),
        ("slower", "no answer"),
        ("bad", "ZeroDivisionError: by zero"),
        ("out", "SystemExit"),
    ):
        with pytest.raises(CouldNotLook, match=why):
            facts[name]
    assert facts.get("bad", "default") == "default"
    assert time.monotonic() - started < patient(2)


def test_an_error_of_a_line_becomes_a_line():
    def crashes():
        yield fine("X", "first")
        raise KeyError("oops")

    found = guarded("X", crashes)
    assert levels(found) == [FINE, NOTE] and found[1].text == "could not look: KeyError: 'oops'"


def test_nothing_could_be_looked_at_and_the_doctor_still_speaks():
    found = list(findings_of(given(), {}))
    assert found and not [f for f in found if f.level == BROKEN]
    assert {f.topic for f in found} == {"Your system", "Your software", "Your stack"}
    assert sum("could not look" in f.text for f in found) > 10


def report():
    findings = [fine("CPU", "fast", cores=2), note("Odd", "x < y & `z`", "try <b>"), broken("Bad", "word " * 60, "mend it")]
    for finding in findings:
        finding.topic = "Your system"
    return Report(findings, 1.25, "0.1.0")


def test_report_says_the_same_in_text_html_and_json():
    one = report()
    text = repr(one)
    assert "BROKEN Bad" in text and "-> mend it" in text
    assert text.endswith("1 thing is broken, 1 line is worth knowing. (1.2 s)")
    assert max(map(len, text.splitlines())) <= 110
    page = one._repr_html_()
    assert "x &lt; y &amp; <code>z</code>" in page and "try &lt;b&gt;" in page and "<b>" not in page
    data = json.loads(one.json())
    assert data["broken"] == 1 and [f["level"] for f in data["findings"]] == [FINE, NOTE, BROKEN]
    assert data["findings"][0]["data"] == {"cores": 2}


def test_the_package_does_not_hide_the_verb():
    import dlojz.doctor

    assert dlojz.doctor is dlojz.doctor.__globals__["doctor"] and dlojz.doctor.__module__ == "dlojz.doctor"


def test_sizes_in_words():
    assert [size(n) for n in (0, 1000, 1024, 1536, 200 * 2**20, 16 * GiB, 3000 * GiB)] == [
        "0 B",
        "1000 B",
        "1 KiB",
        "1.5 KiB",
        "200 MiB",
        "16 GiB",
        "2.9 TiB",
    ]


def test_the_shell_verb_on_this_machine():
    """Under 10 s, without torch in the calling process, and with an exit code that says whether something is broken."""
    code = "import sys; from dlojz import cli; code = cli.main(['doctor', '--json'])"
    code += "; print('torch' in sys.modules, file=sys.stderr); sys.exit(code)"
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    took = time.monotonic() - started
    data = json.loads(done.stdout)
    assert done.returncode == (1 if data["broken"] else 0), done.stderr
    assert took < 30 and data["seconds"] < 25  # 4 s on two idle cores
    lines = {(f["topic"], f["name"]): f for f in data["findings"]}
    assert lines["Your system", "Cores"]["data"]["allowed"] == len(os.sched_getaffinity(0))
    assert "False" in done.stderr  # torch is not in the calling process
    for name in ("torch", "torchvision", "gloo"):
        assert lines["Your software", name]["level"] == FINE
    assert not [f for f in data["findings"] if f["text"].startswith("could not look: ") and "Error" in f["text"]]
