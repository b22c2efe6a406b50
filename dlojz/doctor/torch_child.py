"""Run by the doctor in a process of its own: imports torch and tries it, one JSON line for each stage.

A torch that is missing, broken, or ends the process shows as the last stage that was begun and not finished. Imports nothing of
the kit, so that it runs wherever python runs.
"""

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import sys
import tempfile


@contextlib.contextmanager
def stage(name):
    """Says that a stage begins, then what it found (the dict is filled inside), or the error that ended it."""
    say({"stage": name})
    found = {}
    try:
        yield found
        found["ok"] = True
    except BaseException as error:
        text = str(error).strip().splitlines()
        found["error"] = f"{type(error).__name__}: {text[0] if text else ''}"
    say({"stage": name, **found})


def say(line):
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()


def main():
    with stage("torch") as found:
        import torch

        flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
        found.update(
            version=torch.__version__,
            file=torch.__file__,
            cuda=torch.version.cuda,
            hip=torch.version.hip,
            architectures=flags.split() if flags else [],
            threads=torch.get_num_threads(),
            kernels=torch.backends.cpu.get_cpu_capability(),
            mkldnn=torch.backends.mkldnn.is_available(),
        )
    if "version" not in found:
        return
    with stage("gpu") as found:
        found["available"] = torch.cuda.is_available()
        found["count"] = torch.cuda.device_count()
        if found["available"]:
            found["devices"] = [
                {"name": torch.cuda.get_device_name(i), "capability": torch.cuda.get_device_capability(i)}
                for i in range(found["count"])
            ]
            found["cudnn"] = torch.backends.cudnn.version()
            one = torch.ones(64, 64, device="cuda")
            found["sum"] = float((one @ one).sum())
    with stage("distributed") as found:
        import torch.distributed as dist

        found["gloo"] = dist.is_available() and dist.is_gloo_available()
        found["nccl"] = dist.is_available() and dist.is_nccl_available()
        if found["nccl"] and torch.version.cuda:
            found["nccl_version"] = ".".join(map(str, torch.cuda.nccl.version()))
    if found.get("gloo"):
        with stage("gloo"), tempfile.TemporaryDirectory() as folder:
            dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            value = torch.ones(1)
            dist.all_reduce(value)
            dist.destroy_process_group()
            assert value.item() == 1
    with stage("torchvision") as found:
        # Its compiled half is what breaks when it is of another release than torch; importing all of it takes seconds.
        spec = importlib.util.find_spec("torchvision")
        if spec is None:
            raise ModuleNotFoundError("No module named 'torchvision'")
        for library in pathlib.Path(spec.origin).parent.glob("_C*.so"):
            torch.ops.load_library(library)
            assert torch.ops.torchvision.nms
        found["version"] = importlib.metadata.version("torchvision")


main()
sys.stdout.flush()
os._exit(0)  # nothing here is worth the seconds that tidying up after torch may take
