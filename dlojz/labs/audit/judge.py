"""What an audit says of each technique, from the facts of a run. Where these do not tell, it says so: it never guesses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import cheatsheet
from . import fast, right, several
from .seen import NOT_APPLICABLE, NOT_USED, UNSEEN, USED, VERDICTS, WRONG, Finding, Seen

__all__ = ["NOT_APPLICABLE", "NOT_USED", "TECHNIQUES", "UNSEEN", "USED", "WRONG", "Finding", "judge"]
PYTORCH = "https://docs.pytorch.org/"
DOCS, API = "docs/stable/", "docs/stable/generated/"
FORMATS = "tutorials/intermediate/memory_format_tutorial.html"
TUNING = "tutorials/recipes/recipes/tuning_guide.html"
SAMPLER = f"{DOCS}data.html#torch.utils.data.distributed.DistributedSampler"
DDP = f"{API}torch.nn.parallel.DistributedDataParallel.html"


@dataclass(frozen=True)
class Technique:
    """``look`` gives verdict, evidence and, where there is one, the event that says where. ``docs``: PyTorch's own page. ``row``:
    of the measured methods in the cheat sheet, whose number is shown where it ``applies``; without one, ``how`` it is written."""

    look: Callable[[Seen], tuple]
    lab: str
    docs: str
    row: str = ""
    how: str = ""
    applies: Callable[[Seen], bool] = lambda seen: True


TECHNIQUES = {
    "gradients cleared once per update": Technique(right.clears, "memory", f"{API}torch.optim.Optimizer.zero_grad.html",
                                                   how="optimizer.zero_grad() after step()"),
    "losses kept without their graphs": Technique(right.lets_go, "memory", f"{DOCS}notes/faq.html",
                                                  how="losses.append(loss.detach())"),
    "validation without gradients": Technique(right.validates, "memory", f"{DOCS}notes/autograd.html",
                                              how="with torch.inference_mode():"),
    "train mode in training": Technique(right.trains, "gpu", f"{API}torch.nn.Module.html#torch.nn.Module.train",
                                        how="model.train() in each epoch"),
    "clipping after unscaling": Technique(right.clips, "amp", f"{DOCS}notes/amp_examples.html#gradient-clipping",
                                          how="scaler.unscale_(optimizer), then clip"),
    "schedule after the update": Technique(right.schedules, "optimizers", f"{DOCS}optim.html#how-to-adjust-learning-rate",
                                           how="optimizer.step(), then scheduler.step()"),
    "backward pass outside of autocast": Technique(right.backs, "amp", f"{DOCS}amp.html#autocasting",
                                                   how="loss.backward() after the with block"),
    "another order in each epoch": Technique(right.shuffles, "ddp", SAMPLER, how="sampler.set_epoch(epoch)"),
    "mean over samples": Technique(right.means, "batches", f"{API}torch.nn.CrossEntropyLoss.html",
                                   how="total += loss.item() * len(labels)"),
    "random numbers of its own for each worker": Technique(right.draws, "dataloader", f"{DOCS}notes/randomness.html#dataloader",
                                                           how="worker_init_fn= · torch.initial_seed()"),
    "samples of its own for each rank": Technique(several.parts, "ddp", SAMPLER, how="DistributedSampler"),
    "checkpoints from one rank": Technique(several.keeps, "ddp", "tutorials/intermediate/ddp_tutorial.html",
                                           how="if rank == 0: torch.save"),
    "a GPU for each rank": Technique(several.has_own_gpu, "ddp", DDP, how="torch.cuda.set_device(local_rank)"),
    "validation counts each sample once": Technique(several.counts, "ddp", SAMPLER, how="leave out the samples that pad"),
    "validation over all ranks": Technique(several.gathers, "ddp", f"{DOCS}distributed.html#torch.distributed.all_reduce",
                                           how="all_reduce of sums and counts"),
    "accumulation without sending": Technique(several.holds_back, "ddp_advanced", DDP,
                                                       how="with model.no_sync(): but the last"),
    "mixed precision": Technique(fast.mixed, "amp", f"{DOCS}amp.html", "bf16 autocast"),
    "TF32": Technique(fast.tf32, "gpu", f"{DOCS}notes/cuda.html",
                      how='torch.set_float32_matmul_precision("high")'),  # the sheet's gain is from FP32 everywhere
    "channels-last": Technique(fast.lies_last, "channels_last", FORMATS, "channels-last"),
    "torch.compile": Technique(fast.compiles, "compile", f"{API}torch.compile.html", "torch.compile"),
    "compiled once": Technique(fast.compiles_once, "compile", f"{API}torch.compile.html",
                               how="torch.compile(dynamic=True), one shape"),
    "whole graphs": Technique(fast.whole_graphs, "compile", f"{API}torch.compile.html", how="torch.compile(fullgraph=True)"),
    "tensors made where they are used": Technique(fast.makes_there, "kernels", TUNING, how="torch.zeros(…, device=device)"),
    "steps without waits": Technique(fast.waits, "kernels", TUNING, "no waits"),
    "fused optimizer": Technique(fast.fuses, "optimizers", f"{DOCS}optim.html#algorithms", "fused optimizer",
                                 applies=lambda seen: bool(seen.updates) and seen.updates[-1].optimizer.startswith("Adam")),
    "loader workers": Technique(fast.works, "dataloader", f"{DOCS}data.html#multi-process-data-loading", "loader workers",
                                applies=lambda seen: fast.waited(seen)[1] >= fast.MUCH),
    "pinned memory, asynchronous copies": Technique(fast.pins, "dataloader", f"{DOCS}data.html#memory-pinning", "pinned memory"),
    "norms and biases without decay": Technique(fast.decays, "optimizers", f"{DOCS}optim.html#per-parameter-options",
                                              how="a group with weight_decay=0"),
}


def judge(*facts: list) -> list[Finding]:
    """``facts`` of each rank."""
    seen, found = Seen(*facts), []
    methods = {one.what: one for several in cheatsheet.METHODS.values() for one in several}
    for name, technique in TECHNIQUES.items():
        verdict, evidence, *where = technique.look(seen)
        event = where[0] if where and where[0] else {}
        brings = ""
        if technique.row and verdict in (NOT_USED, UNSEEN, WRONG) and technique.applies(seen):
            method = methods[technique.row]
            brings = f"{method.measured().speed} ({method.setting})"
        found.append(Finding(name, verdict, evidence, event.get("line"), event.get("file"), brings, technique.lab,
                             PYTORCH + technique.docs))
    return sorted(found, key=lambda one: VERDICTS.index(one.verdict))
