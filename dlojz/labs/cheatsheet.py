"""The cheat sheet: each method, what it brought in speed and in memory where it was measured, and when to use it.

The multiples are read from the records in docs/results and from the runs that come with the kit.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..jobs.recorded import reference
from ..system import paths
from ..ui import page, words
from ..ui.page import View

ONE, TWO, FOUR = "1x-nvidia-h200", "2x-nvidia-h200", "4x-nvidia-h200"
PRINTED = """<style>
.sheet table { width: 100%; table-layout: fixed }
.sheet td, .sheet th { overflow-wrap: break-word; white-space: normal !important }
.sheet th:nth-child(1) { width: 14% } .sheet th:nth-child(2) { width: 17% } .sheet th:nth-child(5) { width: 18% }
.sheet th:nth-child(3) { width: 5% } .sheet th:nth-child(4) { width: 7% } .sheet th:nth-child(6) { width: 31% }
.sheet th:nth-child(7) { width: 8% }
.together { margin-top: 12px }
@page { size: A4 landscape; margin: 10mm }
@media print {
  body, section > div { margin: 0 !important; padding: 0 !important; max-width: none !important }
  section { break-inside: auto !important }
  .together { break-inside: avoid }
  .sheet table { font-size: 10px !important }
}
</style>"""


@functools.cache
def _table(suite: str, part: str = "rows") -> list[dict]:
    file = paths.share("docs", "results", f"{suite}.json")
    return json.loads(file.read_text(encoding="utf-8"))[part]


def _row(suite: str, part: str = "rows", **keys) -> dict:
    """The first row with these values. Raises LookupError where a record has changed."""
    found = next((row for row in _table(suite, part) if all(row.get(key) == value for key, value in keys.items())), None)
    if found is None:
        raise LookupError(f"docs/results/{suite}.json has no row with {keys}")
    return found


@dataclass(frozen=True)
class Beside:
    """A run, or a row of a record, beside the one without the method. ``key``: what speed is; seconds and ms count inversely."""

    new: dict
    old: dict
    key: str
    bytes: str = ""

    @property
    def speed(self) -> str:
        new, old = self.new[self.key], self.old[self.key]
        return words.ratio(new / old if "per_second" in self.key else old / new)

    @property
    def memory(self) -> str:
        return words.ratio(self.new[self.bytes] / self.old[self.bytes]) if self.bytes else ""


def _rows(suite: str, new: dict, old: dict, key: str, bytes: str = "", part: str = "rows") -> Callable[[], Beside]:
    return lambda: Beside(_row(suite, part, **new), _row(suite, part, **old), key, bytes)


def _runs(new: str, old: str) -> Callable[[], Beside]:
    return lambda: Beside(reference(new, on="h200").numbers, reference(old, on="h200").numbers, "images_per_second",
                          "memory_allocated")


@dataclass(frozen=True)
class Method:
    what: str
    how: str
    measured: Callable[[], Beside]
    setting: str
    when: str
    lab: str


def _named(suite: str, new: str, old: str, bytes: str = "memory_gb", key: str = "images_per_second") -> Callable[[], Beside]:
    return _rows(suite, {"name": new}, {"name": old}, key, bytes)


def _graph() -> Beside:
    """The same step launched by the CPU, and replayed as a graph."""
    row = _row(f"quantize_folding-{ONE}", way="as trained", batch=1)
    return Beside({"seconds": row["graph"]}, row, "seconds")


def _fp8() -> Beside:
    rows = _table(f"language-{ONE}")
    return Beside(rows["1b-torchao"], rows["1b"], "tokens_per_second", "memory_gb")


def _memory(name: str) -> Callable[[], Beside]:
    return _rows(f"memory-{ONE}", {"name": name}, {"name": "as it is"}, "step_ms", "bytes", "techniques")


def _pruned() -> Beside:
    """Epochs that the trials of a search took, and what they would have taken had none been stopped."""
    epochs = [len(row.get("errors", ())) for row in _table(f"hpo_search-{ONE}")]
    return Beside({"seconds": sum(epochs)}, {"seconds": max(epochs) * sum(map(bool, epochs))}, "seconds")


def _shared(way: str, model: str) -> Callable[[], Beside]:
    """A way of sharing a model out, beside DDP with as many processes."""
    return _rows(f"several_sizes-{TWO}", {"name": way, "model": model}, {"name": "a copy each (DDP)", "model": model},
                 "tokens_per_second", "memory_gb")


RESNET = "ResNet-50, 224 px, batch 256"
GPT = "GPT 124M, 16 x 1,024 tokens"
LOADER, LADDER = f"loader-{ONE}", f"compile_ladder-{ONE}"
FORMATS, ATTENTION, UPDATE = f"formats-{ONE}", f"attention-{ONE}", f"update-{ONE}"
METHODS: dict[str, tuple[Method, ...]] = {
    "Compute faster": (
        Method("TF32", '--tf32 · float32 matmul "high"',
               _rows(FORMATS, {"model": "resnet50", "format": "tf32"}, {"model": "resnet50", "format": "fp32"}, "per_second"),
               f"{RESNET}; from FP32 everywhere",
               "Always in training. PyTorch has it on for convolutions, off for products.", "gpu"),
        Method("bf16 autocast", "--amp bf16 · torch.autocast", _runs("amp", "gpu"), f"{RESNET}; from TF32",
               "Always, on Ampere and later. It needs no scaler.", "amp"),
        Method("fp16 autocast", "--amp fp16 · GradScaler", _runs("amp_fp16", "gpu"), f"{RESNET}; from TF32",
               "On V100 and T4, which have no bf16. The scaler skips updates whose gradients overflow.", "amp"),
        Method("channels-last", "--channels-last · memory_format=", _runs("channels_last", "amp"), f"{RESNET}; from bf16",
               "Convolutions in half precision. Before the DDP wrap. Nothing for transformers.", "channels_last"),
        Method("torch.compile", "--compile", _named(LADDER, "compiled", "eager"), f"{RESNET}, bf16, channels-last",
               "Many steps of the same shapes: the first takes half a minute. Look for graph breaks.", "compile"),
        Method("FP8 training", "torchao · convert_to_float8_training", _fp8, "GPT 1B, 8 x 1,024 tokens, compiled",
               "Widths of 2,048 and more, Hopper and later: at 768 it saves memory and no time. Compare losses.", "quantize"),
        Method("CUDA graphs", "--compile reduce-overhead", _graph, "ResNet-50, inference of one image",
               "Small steps, which the CPU cannot launch fast enough. Nothing where the GPU is busy.", "compile"),
        Method("fused kernels", "torch.compile, or Triton",
               _named(f"compile_chain-{ONE}", "compiled", "eager", "", "ms"), "six pointwise operators in a chain",
               "Chains of operators that read and write the same tensors. A product gains little.", "kernels"),
        Method("attention without its matrix", "scaled_dot_product_attention",
               _rows(ATTENTION, {"way": "flash", "length": 4096}, {"way": "naive", "length": 4096}, "seconds", "memory"),
               "4,096 tokens", "Always. Memory grows with the length, no more with its square.", "kernels"),
        Method("no waits", "no .item(), no print in the loop",
               _rows(f"waits-{ONE}", {"what": "50 small layers", "way": "without a wait"},
                     {"what": "50 small layers", "way": "an .item() after each"}, "seconds"),
               "50 small layers", "Always. In the trace the GPU has gaps, and the CPU waits in them.", "kernels"),
        Method("fused optimizer", "--fused · AdamW(fused=True)",
               _rows(UPDATE, {"optimizer": "adamw", "implementation": "fused"},
                     {"optimizer": "adamw", "implementation": "for-loop"}, "ms"),
               "AdamW's update alone, 100 M parameters", "Always. It shows where the update is a good part of a step.",
               "optimizers"),
    ),
    "Feed the GPU": (
        Method("loader workers", "--num-workers 8", _named(LOADER, "8 workers", "no workers"), f"{RESNET}, JPEG files",
               "Where the GPU is idle. As many as there are cores; more do not help.", "dataloader"),
        Method("pinned memory", "--pin-memory --non-blocking", _named(LOADER, "+ non-blocking copies", "14 workers"),
               f"{RESNET}, JPEG files, 14 workers", "With workers, always. It takes host memory that cannot be swapped.",
               "dataloader"),
        Method("augment in batches", "--augment cutmix",
               _named(f"augment-{ONE}", "cutmix, 14 workers", "cutmix-loop, 14 workers"), f"{RESNET}; from a loop over images",
               "On the device, a whole batch at once. Never image by image there.", "augmentation"),
    ),
    "Train the right one": (
        Method("stop poor trials", "search.py · Optuna's pruners", _pruned, "a search of 120 trials",
               "Early results rank as late ones do. Confirm the best with other seeds.", "hpo"),
    ),
    "Use several GPUs": (
        Method("DDP", "torchrun · DistributedDataParallel", _named(f"scaling-{FOUR}", "4 processes", "1 process"),
               f"{RESNET}; 4 GPUs", "The model fits one GPU. Call set_epoch; scale the learning rate.", "ddp"),
        Method("SyncBatchNorm", "--sync-bn", _named(f"syncbn-{FOUR}", "of all processes", "of each process"), f"{RESNET}; 4 GPUs",
               "Only where a GPU's batch is too small for statistics of its own, as in detection.", "ddp_advanced"),
        Method("metrics less often", "--metric-every 8", _named(f"metrics-{FOUR}", "every 8 steps", "every step"),
               f"{RESNET}; 4 GPUs", "On slow networks. With NVLink it brings nothing.", "ddp"),
    ),
    "Fit a larger model": (
        Method("recompute blocks", "--checkpoint-activations", _memory("recompute blocks"), GPT,
               "Activations are what does not fit. A third more computing.", "memory"),
        Method("loss in parts", "--chunked-loss 8", _memory("loss in 8 parts"), GPT,
               "Large vocabularies: logits are the peak.", "memory"),
        Method("both", "both", _memory("recompute, loss in 8 parts"), GPT, "Each leaves what the other saves.", "memory"),
        Method("gradient accumulation", "--accumulate 4", _memory("4 batches of 4"), GPT,
               "A large batch on few GPUs. Divide the loss; no_sync until the last.", "memory"),
        Method("LoRA", "--lora 16", _memory("LoRA, rank 16"), GPT,
               "Fine-tuning: no gradients and no states for the weights that stay.", "memory"),
        Method("ZeRO 2", "--shard zero2", _shared("parts, blocks kept whole (ZeRO 2)", "1b"),
               "GPT 1B, 2 GPUs; from DDP", "The weights fit, the rest does not. As fast as DDP if blocks are large.", "fsdp"),
        Method("FSDP2", "--shard · fully_shard", _shared("parts (FSDP2)", "3b"), "GPT 3B, 2 GPUs; from DDP",
               "A copy of the model does not fit. More GPUs: a smaller part for each.", "fsdp"),
    ),
    "Serve it": (
        Method("folded batch norm", "convolution and norm in one",
               _rows(f"quantize_folding-{ONE}", {"way": "folded", "batch": 1}, {"way": "as trained", "batch": 1}, "seconds"),
               "ResNet-50, batch 1", "Small batches, where the CPU launches too slowly.", "quantize"),
        Method("2:4 sparsity", "to_sparse_semi_structured",
               _rows(f"quantize_sparse-{ONE}", {"way": "cusparselt", "side": 8192, "format": "bfloat16"},
                     {"way": "dense", "side": 8192, "format": "bfloat16"}, "seconds"),
               "8,192 x 8,192", "Large products only: at 4,096 it is slower. The model needs training again.", "quantize"),
    ),
}
HEAD = ["method", "how", "speed", "memory", "measured with", "when", "lab"]


def cells(methods: Sequence[Method]) -> list[list[str]]:
    found = []
    for one in methods:
        beside = one.measured()
        found.append([one.what, one.how, beside.speed, beside.memory, one.setting, one.when, one.lab])
    return found


RIGHT, LOOKED_AT = "Look for it in your script: what dlojz audit sees", ["technique", "how", "lab", "PyTorch"]


def looked_at() -> list[list[str]]:
    """The techniques that an audit looks at, in its order."""
    from .audit.judge import PYTORCH, TECHNIQUES

    hows = {one.what: one.how for methods in METHODS.values() for one in methods}
    return [[name, one.how or hows[one.row], one.lab, PYTORCH + one.docs] for name, one in TECHNIQUES.items()]


def cheatsheet() -> View:
    """All methods with their numbers, on two pages when it is printed."""
    title = "Methods: what they bring, and when"
    source = ("Speed and memory: multiples of the same without the method, on an NVIDIA H200 with torch 2.11 (docs/results, and "
              "the runs of reference()). Yours differ: measure. Empty: not measured. Do not multiply the gains of methods: what "
              "comes later has less left to gain.")
    tables = {name: (HEAD, cells(methods)) for name, methods in METHODS.items()} | {RIGHT: (LOOKED_AT, looked_at())}
    text = "\n\n".join([title, *(f"{name}\n{page.table(*rows)}" for name, rows in tables.items()), source])
    parts = [f'<div class="together">{page.headline(name)}{page.table_html(*rows)}</div>' for name, rows in tables.items()]
    parts = [re.sub(r"https://[^<]+", r'<a href="\g<0>" style="color: inherit">page</a>', part) for part in parts]
    return View(title, text, f'{PRINTED}<div class="sheet">{page.headline(title)}{page.quiet(source)}{"".join(parts)}</div>')
