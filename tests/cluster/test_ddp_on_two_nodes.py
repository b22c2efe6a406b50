"""What the lab ddp asks for, on two nodes: its command, started by srun, and numbers that are those of both."""

import json
import re

import pytest
from test_slurm import SIZES, make_images

from dlojz import submit
from dlojz.labs import workspace


@pytest.fixture(scope="module")
def started(slurm, tmp_path_factory):
    """All jobs at once: two processes, one on each of two nodes."""
    folder = tmp_path_factory.mktemp("ddp") / "work"
    workspace.create(folder, ["ddp", "ddp_hunt"])
    make_images(folder / "images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLOJZ_WORKSPACE", str(folder))
        patch.setenv("DLOJZ_SITE", "test-cluster")
        patch.setenv("OMP_NUM_THREADS", "1")  # all nodes share the cores of this machine
        both = {"nodes": 2, "gpus": 2, "time": 5}
        yield {"ddp": submit(f"train.py {SIZES} -e 2 --metric-every 3", name="ddp", **both),
               "statistics": submit("-m dlojz.labs.ddp.statistics", name="statistics", **both),
               "hunt": submit("hunt/ddp_2.py", name="hunt", **both)}


def done(job):
    job.wait(150)
    assert job.state == "COMPLETED", f"{job.reason}\n{job.log}\n{job.err}"
    return job


def test_the_training_is_one(started):
    job = done(started["ddp"])
    record = job.record
    assert record.start["world_size"] == 2 and record.start["global_batch"] == 8 and not record.todos
    assert [step["step"] for step in record.steps] == list(range(1, 21))  # 80 images, 2 epochs
    assert all(step["images"] == 8 for step in record.steps)
    told = [step for step in record.steps if "loss" in step]
    assert [step["step"] for step in told] == [3, 6, 9, 10, 12, 15, 18, 20]
    for step, batches in zip(told, (3, 3, 3, 1, 2, 3, 3, 2)):
        right = step["accuracy"] * 8 * batches  # of the images of both, since the last time: a whole number
        assert abs(right - round(right)) < 1e-3 and 0 <= right <= 8 * batches
    assert [validation["images"] for validation in record.validations] == [16, 16], "each image once"
    assert len(re.findall("validation after step 20", str(job.log))) == 1, "one of them speaks"


def test_statistics_over_both_nodes(started):
    job = done(started["statistics"])
    found = json.loads((job.folder / "statistics.json").read_text())
    for mine in found["ways"]["sync"]:
        assert mine == pytest.approx(found["all"], abs=1e-5)
    one, two = found["ways"]["alone"]
    assert one != pytest.approx(two, abs=1e-3)
    masters = set(re.findall(r"MASTER_ADDR=(\w+)", str(job.log)))
    assert len(masters) == 1 and masters.pop().startswith("node")


def test_the_mended_accuracy_counts_each_point_once(started):
    numbers = re.findall(r"\d\.\d{4}", str(done(started["hunt"]).log))
    assert numbers == ["0.6000"] * 3
