"""A training on two nodes of a real Slurm that loses a rank: the record names it, and the job is FAILED in bounded time."""

import textwrap
import time

import pytest
from patience import LIMIT, patient

from dlojz.jobs import script
from dlojz.jobs import slurm as launcher
from dlojz.jobs.states import Request, Status
from dlojz.labs import workspace
from dlojz.training import lost_ranks, records

LOSE = """
    import os, runpy, signal, sys, time
    import dlojz.training.chronometer
    from dlojz.training import distributed, lost_ranks
    lost_ranks.PATIENCE = 5.0
    way, sys.argv = sys.argv[1], ["train.py", *sys.argv[2:]]
    forward = dlojz.training.chronometer.Chronometer.forward
    def lost(self):
        if self.step == 3 and distributed.processes().rank == 1:
            if way == "raises":
                raise ValueError("mine")
            if way == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(3600)
        forward(self)
    dlojz.training.chronometer.Chronometer.forward = lost
    runpy.run_path("train.py", run_name="__main__")
"""
SAID = {"killed": lost_ranks.WORDLESS, "raises": "stopped: ValueError: mine", "hangs": "has not moved for"}
SIZES = "--test --test-steps 200 --data random --model resnet18 --image-size 32 -b 2 --device cpu"


@pytest.fixture(scope="module")
def lost(slurm, tmp_path_factory):
    """Jobs with one process on each of two nodes, of which the second is lost in the fourth step; by how it is lost."""
    folder = tmp_path_factory.mktemp("lost") / "work"
    workspace.create(folder, ["all"])
    (folder / "lose.py").write_text(textwrap.dedent(LOSE))
    jobs = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        for way in SAID:
            request = Request(way, ("lose.py", way, *SIZES.split()), "test-cluster", partition="gpu", account="research", cores=1,
                              nodes=2, gpus=2, processes=2)
            run = folder / "runs" / f"{way}-001"
            run.mkdir()
            (run / "job.sh").write_text(script.render(request, run, site="test-cluster", scale="ci"))
            [number] = launcher.submit([run], request)
            jobs[way] = Followed(number, run, request)
    return jobs


class Followed:
    """What the launcher wants to know of a job."""

    def __init__(self, number, folder, request):
        self.id, self.folder, self.request, self.submitted = number, folder, request, time.time()
        self.status, self.cluster = Status("PENDING"), ""

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while self.status.active:
            assert time.monotonic() < end, f"{self.status}: {self.logs()[-2000:]}"
            time.sleep(0.5)
            self.status = launcher.poll([self]).get(self.id, self.status)
        return self.status

    def logs(self):
        return "".join(file.read_text() for file in sorted(self.folder.glob("*.log")))


@pytest.mark.parametrize("way", SAID)
def test_the_lost_rank_is_named(lost, way):
    job = lost[way]
    status = job.wait(LIMIT)
    assert status.state == "FAILED", job.logs()
    record = records.read(job.folder)
    [error] = [error for error in record.errors if error["rank"] == 0]
    assert error["kind"] == "lost_rank" and error["lost"] == [1] and SAID[way] in error["message"], record.errors
    assert record.end["status"] == "failed"
    last = max(step["time"] for step in record.steps)
    assert error["time"] - last < patient(60), "long before a time-out of the process group"
    assert "rank 1" in job.logs()
