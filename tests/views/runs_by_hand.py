"""Records whose numbers can be worked out on paper, and run folders that hold them."""

import json
from pathlib import Path

from dlojz.jobs.job import Job, load
from dlojz.training.records import Record

ARGS = {"model": "resnet50", "data": "photos", "image_size": 224, "batch_size": 64, "epochs": 3, "lr": 0.1, "wd": 0.0001,
        "mom": 0.9, "optimizer": "sgd", "fused": False, "schedule": "constant", "test": False, "amp": "off", "tf32": False,
        "channels_last": False, "compile": None, "num_workers": 0, "accumulate": 1, "label_smoothing": 0.0, "clip_grad": None}
GPU = {"device": "cuda", "gpu": "NVIDIA H100", "cpu": "EPYC", "cores_allowed": 16, "gpu_memory": 80_000_000_000}
CPU = {"device": "cpu", "cpu": "EPYC", "cores_allowed": 2}


def start(machine=GPU, total=10, world=2, **args) -> dict:
    args = {**ARGS, **args}
    return {"event": "start", "time": 100.0, "model": args["model"], "image_size": args["image_size"], "world_size": world,
            "batch_size": args["batch_size"], "global_batch": args["batch_size"] * world * args["accumulate"],
            "parameters": 25_000_000, "steps_per_epoch": 5, "epoch_images": 640, "epochs": args["epochs"],
            "total_steps": total, "warmup_steps": 2, "machine": machine,
            "versions": {"torch": "2.11.0"}, "args": args, "resumed_at": 0, "notes": [],
            "switches": {name: value for name, value in args.items() if ARGS.get(name) != value}}


def steps(first=1, last=10, seconds=0.5, idle=0.1, images=128, slow=None, **fields) -> list[dict]:
    """Steps of half a second: a fifth of each waits for data; the first takes 4 s, of which 2 s wait."""
    found = []
    for number in range(first, last + 1):
        took, waited = (4.0, 2.0) if number == 1 else slow[1:] if slow and number == slow[0] else (seconds, idle)
        work = took - waited
        step = {"event": "step", "step": number, "epoch": (number - 1) // 5, "images": images, "lr": 0.1, "seconds": took,
                "idle": waited, "loading": waited / 2, "copy": 0.0, "forward": work / 4, "backward": work / 2, "update": work / 4,
                "loss": 3.0 - number / 10, "accuracy": number / 100, **fields}
        found.append(step | ({"warmup": True} if number <= 2 else {}))
    return found


def whole_steps() -> list[dict]:
    """The same without their phases, as `--no-chronometer` leaves them."""
    return [{key: step[key] for key in ("event", "step", "seconds", "images", "warmup") if key in step} for step in steps()]


VALIDATION = {"event": "validation", "step": 10, "epoch": 1, "loss": 1.25, "accuracy": 0.625, "images": 1000, "seconds": 2.0}


def end(status="completed", gb=40.0, power=1200.0, **fields) -> dict:
    return {"event": "end", "time": 130.0, "status": status, "steps": 10, "host_memory": 3_500_000_000,
            "memory_allocated": int(gb * 1e9), "memory_reserved": int(gb * 1.1e9), "power": power, "joules_per_image": 4.6875,
            **fields}


MEASURED = [start(), *steps(), VALIDATION, end()]  # eight timed steps: 256 images/s, without the waits 320
OUT_OF_MEMORY = {"event": "error", "kind": "out_of_memory", "message": "CUDA out of memory. Tried to allocate 6 GiB.", "rank": 0,
                 "advice": "Take a smaller --batch-size.", "allocated": 76_000_000_000, "reserved": 79_000_000_000,
                 "total": 80_000_000_000}


def record(*events) -> Record:
    return Record(list(events))


def folder(path: Path, events: list[dict] | None, status: dict | None = None, more: str = "", **content) -> Path:
    """A run's folder with this record, and with a job.json where ``status`` is given; ``more`` is a torn end."""
    path.mkdir(parents=True)
    if events is not None:
        (path / "record.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events) + more)
    if status is not None:
        request = {"name": path.name.rpartition("-")[0], "command": ["train.py"], "site": "laptop", "seconds": 600}
        (path / "job.json").write_text(json.dumps({"id": "17", "launcher": "local", "submitted": 90.0, "request": request,
                                                   "scale": "gpu", "status": status, **content}))
    return path


def job(path: Path, events: list[dict] | None, state: str, reason: str = "", **fields) -> Job:
    status = {"state": state, "reason": reason, "exit_code": None, "started": 95.0, "ended": None, "position": None, **fields}
    return load(folder(path, events, status))
